import { Type, type TString } from 'typebox'
import { nearestWritable } from './calendar.ts'

const ISO_TIME = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+ -]\d{2}:?\d{2})?)?$/

/**
 * Reads an ISO 8601 time of a query, in milliseconds since the epoch; null for what is none. A day alone is its first
 * moment. In a query a plus sign that was not escaped arrives as a space, so a space before a zone is one.
 */
export function readIsoTime(text: string): number | null {
  if (!ISO_TIME.test(text) || !isDay(text)) return null
  const time = Date.parse(withZone(text.replace(/ (?=\d{2}:?\d{2}$)/, '+')))
  return Number.isNaN(time) ? null : time
}

/**
 * The same of a filter. A day of the year 0, and a zone at either end of the calendar, name moments that the database
 * cannot be asked about; it is asked about the nearest that it can.
 */
export function readFilterTime(text: string): number | null {
  const time = readIsoTime(text)
  return time === null ? null : nearestWritable(time)
}

/** Whether the day is in the calendar; the language takes 31 February for 3 March. */
function isDay(text: string): boolean {
  const day = text.slice(0, 10)
  const time = Date.parse(`${day}T00:00:00Z`)
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(day)
}

/** A time without a zone is UTC, as all times of the contract are; the language would take it for the machine's own. */
function withZone(text: string): string {
  return text.includes('T') && !/(?:Z|[+-]\d{2}:?\d{2})$/.test(text) ? `${text}Z` : text
}

const FORMAT = { format: 'date-time' } as const

/** A moment in a response: ISO 8601, UTC. */
export function isoTime(description?: string): TString {
  return Type.String({ ...FORMAT, ...(description === undefined ? {} : { description }) })
}

/** A moment in a response, or null: as the description says. */
export function isoTimeOrNull(description?: string): ReturnType<typeof Type.Unsafe<string | null>> {
  return Type.Unsafe<string | null>({
    type: ['string', 'null'],
    ...FORMAT,
    ...(description === undefined ? {} : { description })
  })
}

/**
 * A moment in a query, as `readIsoTime` reads it: what is wrong with it is said in the operation's own form of error.
 */
export function isoTimeQuery(description: string): TString {
  return Type.String({ 'x-openapi': { anyOf: [{ format: 'date-time' }, { format: 'date' }] }, description })
}
