declare global {
  // The language has it (Node 22 on), the compiler's library does not yet.
  interface JSON {
    rawJSON(text: string): RawJson
  }
}

/** A number that JSON.stringify writes exactly as its text stands. */
export interface RawJson {
  readonly rawJSON: string
}

/**
 * An exact decimal: `digits` divided by ten to the power of `places`. As `readDecimal` makes it there are no more
 * places than the value needs.
 */
export interface Decimal {
  readonly digits: bigint
  /** 0 or more. */
  readonly places: number
}

const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,4}))?$/
const LONGEST = 100
// Doubles end at 1e308 and begin at 5e-324. Beyond lies nothing but a text that would make a number of megabytes.
const LARGEST_EXPONENT = 400

/**
 * Reads a number of a JSON body, or the text of one, without rounding it. A JSON number has become a double before
 * anybody sees it; its shortest decimal text is what the client wrote, for up to 15 digits (decision 4). Null for what
 * is no number.
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

/** Without the zeros at the end that say nothing. */
function shortened(digits: bigint, places: number): Decimal {
  let left = digits
  let kept = places
  while (kept > 0 && left % 10n === 0n) {
    left /= 10n
    kept--
  }
  return { digits: left, places: kept }
}

/** Plain notation, without an exponent and without trailing zeros: `0.00000001`, `49.9`, `0` (decision 8). */
export function plainText(value: Decimal): string {
  const { digits, places } = shortened(value.digits, value.places)
  const sign = digits < 0n ? '-' : ''
  const text = String(digits < 0n ? -digits : digits).padStart(places + 1, '0')
  return places === 0 ? `${sign}${text}` : `${sign}${text.slice(0, -places)}.${text.slice(-places)}`
}

/**
 * The value as a whole number of ten-to-the-minus-`places` units: cents, satoshis. @throws RangeError when it has more
 * places
 */
export function inUnits(value: Decimal, places: number): bigint {
  const { digits, places: has } = shortened(value.digits, value.places)
  if (has > places) throw new RangeError(`${plainText(value)} has more than ${places} decimal places`)
  return digits * 10n ** BigInt(places - has)
}

/** A decimal that we wrote ourselves, so that it must be one. @throws TypeError when it is not */
export function knownDecimal(text: string): Decimal {
  const value = readDecimal(text)
  if (value === null) throw new TypeError(`${JSON.stringify(text)} is no decimal number`)
  return value
}

/**
 * A decimal as a number of a JSON answer, under an open schema: a schema of type number would be written through a
 * double, as `1e-8` (decision 8). @throws TypeError for a text that is no decimal
 */
export function jsonNumber(text: string): RawJson {
  return JSON.rawJSON(plainText(knownDecimal(text)))
}
