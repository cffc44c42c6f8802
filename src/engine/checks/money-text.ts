/** An amount of money that is worth more or fewer satoshis as time goes: `USD 0.002`, always in this one spelling. */
export type FiatText = `${'USD' | 'EUR' | 'GBP'} ${string}`

/** What a text names: whole millisatoshis, or fiat. */
export type NamedMoney = { readonly msat: number } | { readonly fiat: FiatText }

/** Largest amount of fiat, in whole units: what a billion satoshis come to. */
const LARGEST_FIAT = 1_000_000
const SIGNS: Readonly<Record<string, string>> = { $: 'USD', '€': 'EUR', '£': 'GBP' }

/** What `readMoney` takes of bitcoin, and of fiat; for the schemas that editors read. */
export const SATOSHI_PATTERN = '[0-9]+ ?(sats?|msats?)'
export const FIAT_PATTERN =
  '([$€£][0-9]+(\\.[0-9]+)?|[0-9]+(\\.[0-9]+)? ?(USD|EUR|GBP)|(USD|EUR|GBP) [0-9]+(\\.[0-9]+)?)'

/**
 * Reads `10 sats`, `1500 msat`, `$0.002` or `0.01 EUR` without rounding anything. Undefined for any other text, for
 * fiat of 0, with more than 12 places or above a million, and for a number too large to be exact.
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

/** Whole satoshis of millisatoshis, rounded up: an invoice asks for whole ones, and the seller is never short. */
export function satoshisUp(msat: number): number {
  return Math.ceil(msat / 1000)
}
