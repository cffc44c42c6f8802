import { currentLanguage, t } from '../engine/formats/language.ts'

export interface Country {
  readonly code: string
  readonly name: string
}

interface AddressRules {
  readonly stateLabel: string
  /** Carriers require it. */
  readonly stateNeeded: boolean
  readonly zipLabel: string
  readonly zipNeeded: boolean
}

// ISO 3166-1, and XK, which stores and carriers use for Kosovo.
const CODES = `
  AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO
  CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR
  HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN
  MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD
  SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS XK
  YE YT ZA ZM ZW`
  .trim()
  .split(/\s+/)

/** Where Intl's name is not the one that people look for. */
const NAMES: Readonly<Record<string, string>> = {
  HK: 'Hong Kong',
  MO: 'Macao',
  MM: 'Myanmar',
  CD: 'Congo (Kinshasa)',
  CG: 'Congo (Brazzaville)'
}

/** Formal, former and short English names. */
const ALIASES: Readonly<Record<string, string>> = {
  AE: 'UAE, Emirates',
  BN: 'Brunei Darussalam',
  BO: 'Plurinational State of Bolivia',
  BQ: 'Bonaire Sint Eustatius and Saba',
  CD: 'Democratic Republic of the Congo, DR Congo, DRC',
  CG: 'Congo, Republic of the Congo',
  CI: 'Ivory Coast',
  CV: 'Cabo Verde',
  CZ: 'Czech Republic',
  FK: 'Falkland Islands (Malvinas)',
  FM: 'Federated States of Micronesia',
  GB: 'UK, Great Britain, Britain, England, Scotland, Wales, Northern Ireland, United Kingdom of Great Britain and Northern Ireland',
  HK: 'Hong Kong SAR',
  IE: 'Republic of Ireland, Eire',
  IR: 'Islamic Republic of Iran',
  KP: "Democratic People's Republic of Korea",
  KR: 'Republic of Korea, Korea',
  LA: "Lao People's Democratic Republic, Lao PDR",
  MD: 'Republic of Moldova, Moldova',
  MK: 'Macedonia',
  MM: 'Burma',
  MO: 'Macau, Macao SAR',
  NL: 'Holland, The Netherlands',
  PS: 'Palestine, State of Palestine',
  RU: 'Russian Federation',
  SY: 'Syrian Arab Republic',
  SZ: 'Swaziland',
  TL: 'East Timor',
  TR: 'Turkey',
  TW: 'Taiwan Province of China',
  TZ: 'United Republic of Tanzania',
  US: 'USA, United States of America, America',
  VA: 'Holy See, Vatican',
  VE: 'Bolivarian Republic of Venezuela',
  VN: 'Viet Nam'
}

const STATE_LABELS: Readonly<Record<string, string>> = {
  AE: t('Emirate'),
  AR: t('Province'),
  AU: t('State or territory'),
  BE: t('Province'),
  BR: t('State'),
  CA: t('Province or territory'),
  CH: t('Canton'),
  CN: t('Province'),
  ES: t('Province'),
  GB: t('County'),
  IE: t('County'),
  IN: t('State'),
  IT: t('Province'),
  JP: t('Prefecture'),
  KR: t('Province'),
  MX: t('State'),
  MY: t('State'),
  NL: t('Province'),
  TH: t('Province'),
  US: t('State'),
  ZA: t('Province')
}

const ZIP_LABELS: Readonly<Record<string, string>> = {
  AU: t('Postcode'),
  BR: 'CEP',
  GB: t('Postcode'),
  IE: 'Eircode',
  IN: t('PIN code'),
  MY: t('Postcode'),
  NZ: t('Postcode'),
  PH: t('ZIP code'),
  PR: t('ZIP code'),
  US: t('ZIP code')
}

// Only where parcels get lost without it: a form must not stop a paying buyer.
const STATE_NEEDED = new Set('AU BR CA CN ES IN IT JP MX MY US'.split(' '))
const ZIP_NEEDED = new Set(
  `AT AU BE BG BR CA CH CN CY CZ DE DK EE ES FI FR GB GR HR HU IN IT JP KR LI LT LU LV MT MX MY NL NO NZ PL PR PT RO SE SG SI SK TH TW UA US
  ZA`.split(/\s+/)
)

const display = new Intl.DisplayNames('en', { type: 'region' })

export const COUNTRIES: readonly Country[] = CODES.map(code => ({
  code,
  name: NAMES[code] ?? display.of(code) ?? code
})).sort((a, b) => a.name.localeCompare(b.name, 'en'))

const byCode = new Map(COUNTRIES.map(country => [country.code, country]))
const byName = new Map<string, string>()
for (const { code, name } of COUNTRIES)
  for (const each of [name, display.of(code) ?? name, ...(ALIASES[code]?.split(', ') ?? [])])
    byName.set(plain(each), code)

/** Two letters or an English name to two capital letters; null for none. */
export function countryCode(text: string): string | null {
  const code = text.trim().toUpperCase()
  if (/^[A-Z]{2}$/.test(code)) return byCode.has(code) ? code : (byName.get(plain(code)) ?? null)
  return byName.get(plain(text)) ?? null
}

export function countryName(code: string): string {
  const language = currentLanguage()
  if (language === 'en') return byCode.get(code)?.name ?? code
  return new Intl.DisplayNames(language, { type: 'region' }).of(code) ?? code
}

/** An unknown country requires nothing. */
export function addressRules(code: string): AddressRules {
  return {
    stateLabel: STATE_LABELS[code] ?? t('State or region'),
    stateNeeded: STATE_NEEDED.has(code),
    zipLabel: ZIP_LABELS[code] ?? t('Postal code'),
    zipNeeded: ZIP_NEEDED.has(code)
  }
}

/** Letters only: case, accents, punctuation and `&` do not matter. */
function plain(text: string): string {
  return text
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .toLowerCase()
    .replaceAll('&', ' and ')
    .replaceAll(/\bst\b\.?/g, 'saint')
    .replaceAll(/\bthe\b/g, '')
    .replaceAll(/[^\p{L}]/gu, '')
}
