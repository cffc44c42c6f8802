declare global {
  // In Node 22, but missing from the compiler's library.
  interface JSON {
    rawJSON(text: string): RawJson
  }
}

/** JSON.stringify writes it verbatim. */
export interface RawJson {
  readonly rawJSON: string
}

/** Exact decimal: `digits` / 10^`places`. `readDecimal` uses the fewest places. */
export interface Decimal {
  readonly digits: bigint
  readonly places: number
}

const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,4}))?$/
const LONGEST = 100
// Doubles range from 5e-324 to 1e308; larger exponents would expand to megabytes.
const LARGEST_EXPONENT = 400

/**
 * Reads a JSON number or its text without rounding. A double's shortest text is what the client wrote, up to 15 digits
 * (decision 4). Null for non-numbers.
 */
export function readDecimal(given: number | string): Decimal | null {
  const text = String(given)
  const match = text.length > LONGEST ? null : NUMBER.exec(text)
  if (match === null) return null
  const [, sign = '', whole = '', fraction = '', power = '0'] = match
  const exponent = Number(power)
  if (Math.abs(exponent) > LARGEST_EXPONENT) return null
  const digits = BigInt(whole + fraction) * (sign === '' ? 1n : -1n)
  const places = fraction.length - exponent
  return places < 0 ? { digits: digits * 10n ** BigInt(-places), places: 0 } : shortened(digits, places)
}

function shortened(digits: bigint, places: number): Decimal {
  let left = digits
  let kept = places
  while (kept > 0 && left % 10n === 0n) {
    left /= 10n
    kept--
  }
  return { digits: left, places: kept }
}

/** Plain notation without exponent or trailing zeros: `0.00000001`, `49.9`, `0` (decision 8). */
export function plainText(value: Decimal): string {
  const { digits, places } = shortened(value.digits, value.places)
  const sign = digits < 0n ? '-' : ''
  const text = String(digits < 0n ? -digits : digits).padStart(places + 1, '0')
  return places === 0 ? `${sign}${text}` : `${sign}${text.slice(0, -places)}.${text.slice(-places)}`
}

/**
 * Whole units of 10^-`places`: cents, satoshis.
 * @throws RangeError with more places
 */
export function inUnits(value: Decimal, places: number): bigint {
  const { digits, places: has } = shortened(value.digits, value.places)
  if (has > places) throw new RangeError(`${plainText(value)} has more than ${places} decimal places`)
  return digits * 10n ** BigInt(places - has)
}

/**
 * Reads our own decimal.
 * @throws TypeError when invalid
 */
export function knownDecimal(text: string): Decimal {
  const value = readDecimal(text)
  if (value === null) throw new TypeError(`${JSON.stringify(text)} is no decimal number`)
  return value
}

/**
 * A decimal as a JSON number. Needs an open schema: type number would go through a double, as `1e-8` (decision 8).
 * @throws TypeError for an invalid decimal
 */
export function jsonNumber(text: string): RawJson {
  return JSON.rawJSON(plainText(knownDecimal(text)))
}
