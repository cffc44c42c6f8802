import type { FiatCurrency } from '../../lightning/money/currencies.ts'
import type { Decimal } from '../../lightning/money/decimal.ts'
import { amountText } from './amounts.ts'

const EURO =
  'AD AT AX BE BL CY DE EE ES FI FR GF GP GR HR IE IT LT LU LV MC ME MF MQ MT NL PM PT RE SI SK SM TF VA XK YT BG'
const CURRENCY_OF = new Map<string, FiatCurrency>([
  ...EURO.split(' ').map((region): [string, FiatCurrency] => [region, 'EUR']),
  ...['GB', 'GG', 'IM', 'JE'].map((region): [string, FiatCurrency] => [region, 'GBP']),
  ...['US', 'AS', 'EC', 'FM', 'GU', 'MH', 'MP', 'PA', 'PR', 'PW', 'SV', 'TC', 'TL', 'VG', 'VI'].map(
    (region): [string, FiatCurrency] => [region, 'USD']
  )
])

/**
 * The money that a reader counts in, by the first language of Accept-Language: `de-AT` says euro, and `de` alone where
 * most who speak it live. Null where that is none of those whose worth is known.
 */
export function readerCurrency(languages: string): FiatCurrency | null {
  const [first = ''] = languages.split(',', 1)
  const tag = first.split(';', 1)[0]?.trim() ?? ''
  if (!/^[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3}$/.test(tag)) return null
  try {
    const { region } = new Intl.Locale(tag).maximize()
    return region === undefined ? null : (CURRENCY_OF.get(region) ?? null)
  } catch (error) {
    // A tag that looks like one and is none.
    if (error instanceof RangeError) return null
    throw error
  }
}

/** Places between satoshis and hundredths of a currency's unit: a bitcoin has 8, these have 2. */
const PLACES = 6n

/**
 * What satoshis are worth, such as `≈ $0.42`, to the nearest hundredth; `price` is what one bitcoin costs. Exact
 * arithmetic: a price has more digits than a float keeps.
 */
export function worthText(satoshis: number, currency: FiatCurrency, price: Decimal): string {
  const divisor = 10n ** (PLACES + BigInt(price.places))
  const cents = (BigInt(satoshis) * price.digits * 2n + divisor) / (divisor * 2n)
  if (cents === 0n) return `less than ${amountText('0.01', currency)}`
  const digits = String(cents).padStart(3, '0')
  return `≈ ${amountText(`${digits.slice(0, -2)}.${digits.slice(-2)}`, currency)}`
}
