import { beginOfMonth, requireWritable } from '../../engine/formats/iso-time.ts'
import type { TimeSpan } from '../../engine/operations/keyset.ts'
import { invalidField } from '../../engine/operations/field-errors.ts'
import { HOURS_KEPT, type Step } from './earnings.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR

/** Default and maximum number of steps. */
const STEPS: Readonly<Record<Step, { readonly usual: number; readonly most: number }>> = {
  hour: { usual: 48, most: 31 * 24 },
  day: { usual: 30, most: 366 },
  month: { usual: 12, most: 120 }
}

/** Start of the step of a moment in UTC; milliseconds since the epoch. */
export function beginOf(by: Step, at: number): number {
  if (by === 'month') {
    const date = new Date(at)
    return beginOfMonth(date.getUTCFullYear(), date.getUTCMonth())
  }
  const length = by === 'hour' ? HOUR : DAY
  return Math.floor(at / length) * length
}

function stepsLater(by: Step, begin: number, steps: number): number {
  if (by !== 'month') return begin + steps * (by === 'hour' ? HOUR : DAY)
  const date = new Date(begin)
  return beginOfMonth(date.getUTCFullYear(), date.getUTCMonth() + steps)
}

/**
 * The whole steps of a period; default: the last few. `to` is exclusive.
 * @throws ValidationError if it ends before it starts, is too long, or is hourly beyond retention
 */
export function stepsOf(by: Step, { from, to }: TimeSpan, now: number): { readonly from: number; readonly to: number } {
  const { usual, most } = STEPS[by]
  const end = stepsLater(by, beginOf(by, to === null ? now : to - 1), 1)
  const begin = from === null ? stepsLater(by, end, -usual) : beginOf(by, from)
  if (begin >= end) throw invalidField('/from', 'Must be before `to`.')
  if (by === 'hour' && begin < now - HOURS_KEPT)
    throw invalidField('/from', `Must be within the last ${HOURS_KEPT / DAY} days by hour; ask by day.`)
  if (stepsLater(by, begin, most) < end) throw invalidField('/from', `Must be at most ${most} ${by}s before \`to\`.`)
  requireWritable(begin, end)
  return { from: begin, to: end }
}
