/** RFC 3339 times in whole seconds, as the Payment scheme's `expires` and receipts carry them. */

const FORM = /^[0-9]{4}-[0-9]{2}-([0-9]{2})T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?Z$/

/**
 * `2027-01-15T12:05:00Z` for a time in unix seconds: whole seconds, upper-case `T` and `Z` (decision 9).
 * @throws RangeError when the year does not have four digits.
 */
export function formatTimestamp(seconds: number): string {
  if (!Number.isInteger(seconds) || seconds < -62_167_219_200 || seconds > 253_402_300_799) {
    throw new RangeError(`A time must be whole seconds between the years 0 and 9999, not ${seconds}`)
  }
  return `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`
}

/**
 * Unix seconds of an RFC 3339 UTC time with upper-case `T` and `Z`; a fraction is cut off. Null for anything else, days
 * and hours that do not exist included.
 */
export function parseTimestamp(text: string): number | null {
  const match = FORM.exec(text)
  if (match === null) return null
  const milliseconds = Date.parse(`${text.slice(0, 19)}Z`)
  // Date.parse turns 31 February into 3 March, and hour 24 into the next day.
  return new Date(milliseconds).getUTCDate() === Number(match[1]) ? milliseconds / 1000 : null
}
