import { invalidField } from '../operations/field-errors.ts'

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
