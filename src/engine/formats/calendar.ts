import { invalidField } from '../operations/validation.ts'

/**
 * The years 1 to 9999, the last millisecond among them: a moment before or after has no ISO time of four digits for its
 * year, so that neither an answer nor PostgreSQL could take what the language writes for it.
 */
const FIRST = Date.parse('0001-01-01T00:00:00.000Z')
const LAST = Date.parse('9999-12-31T23:59:59.999Z')

/** Whether a moment has an ISO time of four digits for its year. */
export function isWritable(time: number): boolean {
  return time >= FIRST && time <= LAST
}

/** The nearest moment that has one. Nothing that is kept lies beyond, so a list finds the same by it. */
export function nearestWritable(time: number): number {
  return Math.min(LAST, Math.max(FIRST, time))
}

/** @throws ValidationError for a period whose first step begins, or last step ends, where no answer can say so */
export function requireWritable(from: number, to: number): void {
  if (!isWritable(from)) throw invalidField('/from', 'Must be in the years 1 to 9999, and so must its whole step.')
  if (!isWritable(to)) throw invalidField('/to', 'Must be in the years 1 to 9999, and so must the end of its step.')
}

/** Begin of a month in UTC; `month` counts from 0, and beyond 11 into later years. `Date.UTC` takes the year 1 for 1901. */
export function beginOfMonth(year: number, month: number): number {
  return new Date(0).setUTCFullYear(year, month, 1)
}
