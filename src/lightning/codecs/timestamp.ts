/** RFC 3339 times in whole seconds, for the Payment scheme's `expires` and receipts. */

const FORM = /^[0-9]{4}-[0-9]{2}-([0-9]{2})T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?Z$/

/**
 * Unix seconds as `2027-01-15T12:05:00Z` (decision 9).
 * @throws RangeError unless the year has four digits
 */
export function formatTimestamp(seconds: number): string {
  if (!Number.isInteger(seconds) || seconds < -62_167_219_200 || seconds > 253_402_300_799) {
    throw new RangeError(`A time must be whole seconds between the years 0 and 9999, not ${seconds}`)
  }
  return `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`
}

/**
 * Unix seconds of an RFC 3339 UTC time with upper-case `T` and `Z`; fractions are truncated. Null for other text and
 * impossible dates.
 */
export function parseTimestamp(text: string): number | null {
  const match = FORM.exec(text)
  if (match === null) return null
  const milliseconds = Date.parse(`${text.slice(0, 19)}Z`)
  // Date.parse rolls over 31 February and hour 24.
  return new Date(milliseconds).getUTCDate() === Number(match[1]) ? milliseconds / 1000 : null
}
