/** An amount with a varying exchange rate, in one spelling: `USD 0.002`. */
export type FiatText = `${'USD' | 'EUR' | 'GBP'} ${string}`

type NamedMoney = { readonly msat: number } | { readonly fiat: FiatText }

/** Whole units, about a billion satoshis. */
const LARGEST_FIAT = 1_000_000
const SIGNS: Readonly<Record<string, string>> = { $: 'USD', '€': 'EUR', '£': 'GBP' }

/** What `readMoney` accepts, for the editors' schemas. */
export const SATOSHI_PATTERN = '[0-9]+ ?(sats?|msats?)'
export const FIAT_PATTERN =
  '([$€£][0-9]+(\\.[0-9]+)?|[0-9]+(\\.[0-9]+)? ?(USD|EUR|GBP)|(USD|EUR|GBP) [0-9]+(\\.[0-9]+)?)'

/**
 * Parses `10 sats`, `1500 msat`, `$0.002` or `0.01 EUR` without rounding. Undefined for other text, for fiat of 0, with
 * more than 12 places or above a million, and for inexact large numbers.
 */
export function readMoney(text: string): NamedMoney | undefined {
  const bitcoin = /^([0-9]{1,16}) ?(sats?|msats?)$/.exec(text)
  if (bitcoin !== null) {
    const msat = Number(bitcoin[1]) * (bitcoin[2]?.startsWith('m') === true ? 1 : 1000)
    return Number.isSafeInteger(msat) ? { msat } : undefined
  }
  const match = /^(?:([$€£])|(USD|EUR|GBP) )?([0-9]{1,7})(?:\.([0-9]{1,12}))?(?: ?(USD|EUR|GBP))?$/.exec(text)
  if (match === null) return undefined
  const [, sign, before, whole = '', fraction = '', behind] = match
  const named = [sign === undefined ? undefined : SIGNS[sign], before, behind].filter(name => name !== undefined)
  const [currency] = named
  if (named.length !== 1 || !isCurrency(currency)) return undefined
  const places = fraction.replace(/(?<!0)0+$/, '')
  const units = Number(whole)
  if ((units === 0 && places === '') || units > LARGEST_FIAT || (units === LARGEST_FIAT && places !== ''))
    return undefined
  return { fiat: `${currency} ${units}${places === '' ? '' : `.${places}`}` }
}

function isCurrency(name: string | undefined): name is 'USD' | 'EUR' | 'GBP' {
  return name === 'USD' || name === 'EUR' || name === 'GBP'
}

/** Rounds up: an invoice has whole satoshis, and the seller is never short. */
export function satoshisUp(msat: number): number {
  return Math.ceil(msat / 1000)
}
