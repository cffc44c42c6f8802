/** A day in milliseconds. */
const DAY = 86_400_000

/** Milliseconds for which a plan whose period has ended is past due before it is canceled. */
export const GRACE = 7 * DAY

/** Mails about the end of a period, in the order in which they are due. */
const steps = ['week', 'three-days', 'day', 'ended', 'canceled'] as const
export type RenewalStep = (typeof steps)[number]

/** Milliseconds from the end of the period to each mail. */
const OFFSETS: Readonly<Record<RenewalStep, number>> = Object.freeze({
  week: -7 * DAY,
  'three-days': -3 * DAY,
  day: -DAY,
  ended: 0,
  canceled: GRACE
})

/** How long before the end of a period the first mail is due, in milliseconds. */
export const FIRST_NOTICE = -OFFSETS.week

/**
 * A paid period: until when, in milliseconds since the epoch, and the day of the month on which it would end in a month
 * that has that day.
 */
export interface Period {
  readonly end: number
  /** 1 to 31, UTC. */
  readonly anchorDay: number
}

/**
 * One calendar month after `from`, at the same time of day, in UTC. A month without the anchor's day ends on its last
 * day, and the next one that has it on that day again: 31 January, 28 February, 31 March.
 */
export function monthAfter(from: number, anchorDay: number): number {
  const date = new Date(from)
  const year = date.getUTCFullYear()
  const month = date.getUTCMonth() + 1
  // Day 0 of the month after is the last of this one.
  const last = new Date(Date.UTC(year, month + 1, 0)).getUTCDate()
  const timeOfDay = from - Date.UTC(year, date.getUTCMonth(), date.getUTCDate())
  return Date.UTC(year, month, Math.min(anchorDay, last)) + timeOfDay
}

/**
 * The period that one more payment gives. What is left of the one that runs is kept; one that is over, or none, begins
 * anew at `now`, milliseconds since the epoch.
 */
export function extended(running: Period | null, now: number): Period {
  return added(running !== null && running.end > now ? running : { end: now, anchorDay: new Date(now).getUTCDate() })
}

/** A period with one month more, whether or not it is over. */
export function added({ end, anchorDay }: Period): Period {
  return { end: monthAfter(end, anchorDay), anchorDay }
}

/**
 * How many months lie between `from` and the end of a period that began then; at least 1. Milliseconds since the epoch.
 */
export function monthsUntil(from: number, end: number): number {
  let months = 1
  for (let period = extended(null, from); period.end < end; period = added(period)) months++
  return months
}

/**
 * The mail that is due: the latest whose time has come, so that one that was missed is not sent together with the one
 * after it. Null when it was sent already, or none is due yet. Times in milliseconds since the epoch.
 */
export function dueStep(periodEnd: number, sent: RenewalStep | null, now: number): RenewalStep | null {
  const due = steps.findLast(step => periodEnd + OFFSETS[step] <= now)
  if (due === undefined) return null
  return sent !== null && steps.indexOf(sent) >= steps.indexOf(due) ? null : due
}
