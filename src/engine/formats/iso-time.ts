import { Type, type TString } from 'typebox'
import { invalidField } from '../operations/field-errors.ts'

const ISO_TIME = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+ -]\d{2}:?\d{2})?)?$/

/**
 * Parses an ISO 8601 time of a query into milliseconds since the epoch; null when invalid. A day alone is its first
 * moment. An unescaped plus arrives as a space, so a space before a zone is one.
 */
export function readIsoTime(text: string): number | null {
  if (!ISO_TIME.test(text) || !isDay(text)) return null
  const time = Date.parse(withZone(text.replace(/ (?=\d{2}:?\d{2}$)/, '+')))
  return Number.isNaN(time) ? null : time
}

/** Clamps to moments that the database accepts: the year 0, or a zone at either end of the calendar, may be outside. */
export function readFilterTime(text: string): number | null {
  const time = readIsoTime(text)
  return time === null ? null : nearestWritable(time)
}

/** JavaScript reads 31 February as 3 March. */
function isDay(text: string): boolean {
  const day = text.slice(0, 10)
  const time = Date.parse(`${day}T00:00:00Z`)
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(day)
}

/** A time without a zone is UTC, as in the contract; JavaScript would use the local zone. */
function withZone(text: string): string {
  return text.includes('T') && !/(?:Z|[+-]\d{2}:?\d{2})$/.test(text) ? `${text}Z` : text
}

const FORMAT = { format: 'date-time' } as const

/** ISO 8601, UTC. */
export function isoTime(description?: string): TString {
  return Type.String({ ...FORMAT, ...(description === undefined ? {} : { description }) })
}

export function isoTimeOrNull(description?: string): ReturnType<typeof Type.Unsafe<string | null>> {
  return Type.Unsafe<string | null>({
    type: ['string', 'null'],
    ...FORMAT,
    ...(description === undefined ? {} : { description })
  })
}

/** A moment for `readIsoTime`, whose errors use the operation's own form. */
export function isoTimeQuery(description: string): TString {
  return Type.String({ 'x-openapi': { anyOf: [{ format: 'date-time' }, { format: 'date' }] }, description })
}

/** Milliseconds since the epoch as ISO 8601 in UTC. */
export function iso(time: number): string
export function iso(time: number | null): string | null
export function iso(time: number | null): string | null {
  return time === null ? null : new Date(time).toISOString()
}

/** Years 1 to 9999: other moments have no ISO time with a four-digit year, which JSON and PostgreSQL need. */
const FIRST = Date.parse('0001-01-01T00:00:00.000Z')
const LAST = Date.parse('9999-12-31T23:59:59.999Z')

export function isWritable(time: number): boolean {
  return time >= FIRST && time <= LAST
}

/** Lists give the same results: no stored moment is outside the range. */
export function nearestWritable(time: number): number {
  return Math.min(LAST, Math.max(FIRST, time))
}

/** @throws ValidationError for a period whose first or last step has no writable bound */
export function requireWritable(from: number, to: number): void {
  if (!isWritable(from)) throw invalidField('/from', 'Must be in the years 1 to 9999, and so must its whole step.')
  if (!isWritable(to)) throw invalidField('/to', 'Must be in the years 1 to 9999, and so must the end of its step.')
}

/** UTC; `month` counts from 0 and may exceed 11. `Date.UTC` maps year 1 to 1901. */
export function beginOfMonth(year: number, month: number): number {
  return new Date(0).setUTCFullYear(year, month, 1)
}
