import { INVALID_STATE } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { BITCOIN_PREFIX, planNames } from '../../accounts/merchants/plans.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { BitcoinSubscription } from './schema.ts'
import { type SoldPlan, PLAN_NOT_SOLD } from '../plans.ts'

const DAY = 86_400_000

/** Milliseconds for which an expired plan is past due before it is canceled. */
export const GRACE = 7 * DAY

const steps = ['week', 'three-days', 'day', 'ended', 'canceled'] as const
export type RenewalStep = (typeof steps)[number]

const OFFSETS: Readonly<Record<RenewalStep, number>> = Object.freeze({
  week: -7 * DAY,
  'three-days': -3 * DAY,
  day: -DAY,
  ended: 0,
  canceled: GRACE
})

/** Milliseconds before the end of a period at which the first mail is due. */
export const FIRST_NOTICE = -OFFSETS.week

/** A paid period: its end, and the preferred day of the month. */
export interface Period {
  readonly end: number
  /** 1 to 31, UTC. */
  readonly anchorDay: number
}

/**
 * One calendar month after `from`, UTC. A month without the anchor's day ends on its last day: 31 January, 28 February,
 * 31 March.
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

/** The period after one more payment: continues the current one, or starts at `now` (milliseconds since the epoch). */
export function extended(running: Period | null, now: number): Period {
  return added(running !== null && running.end > now ? running : { end: now, anchorDay: new Date(now).getUTCDate() })
}

/** One month more, whether or not the period is over. */
export function added({ end, anchorDay }: Period): Period {
  return { end: monthAfter(end, anchorDay), anchorDay }
}

/** Number of months from `from` to the end of a period that began then; at least 1. */
export function monthsUntil(from: number, end: number): number {
  let months = 1
  for (let period = extended(null, from); period.end < end; period = added(period)) months++
  return months
}

/**
 * The mail that is due: the latest, so that a missed one is not sent together with its successor. Null when it was
 * already sent, or no mail is due.
 */
export function dueStep(periodEnd: number, sent: RenewalStep | null, now: number): RenewalStep | null {
  const due = steps.findLast(step => periodEnd + OFFSETS[step] <= now)
  if (due === undefined) return null
  return sent !== null && steps.indexOf(sent) >= steps.indexOf(due) ? null : due
}

/** Statuses of a subscription that is running, or will be once paid. */
const LIVE = new Set(['active', 'trialing', 'past_due'])

/** Whether a card pays for the account, or has not finished paying: two subscriptions must not extend one period. */
function paysByCard({ billingSubscriptionId, subscriptionStatus }: Merchant): boolean {
  return (
    billingSubscriptionId !== null &&
    !billingSubscriptionId.startsWith(BITCOIN_PREFIX) &&
    LIVE.has(subscriptionStatus ?? '')
  )
}

/**
 * Checks that an account may buy a plan in bitcoin with its own key.
 * @throws ShortError 400 on a larger plan, and while a card is charged
 */
export function checkMayBuy(merchant: Merchant): void {
  if (merchant.tier === 'l402')
    throw new ShortError(
      PLAN_NOT_SOLD,
      `The account is on the plan ${planNames.l402}, which is changed by contact only.`
    )
  if (paysByCard(merchant))
    throw new ShortError(
      INVALID_STATE,
      'The account pays for its plan by card. Cancel that subscription first, or both would be charged.'
    )
}

/**
 * Whether a payment extends the account without approval. With the account's key it does, unless the account may no
 * longer buy. Known by email address alone it waits for approval (decision 171), except for another month of the plan
 * that it already pays in bitcoin: knowing an address must not be enough to change that account's plan.
 */
export function takesPayment(
  merchant: Merchant,
  { plan, merchantId }: Pick<BitcoinSubscription, 'plan' | 'merchantId'>
): boolean {
  if (merchant.tier === 'l402' || paysByCard(merchant)) return false
  if (merchantId === merchant.id) return true
  return (
    merchant.tier === plan &&
    (merchant.billingSubscriptionId?.startsWith(BITCOIN_PREFIX) === true ||
      !LIVE.has(merchant.subscriptionStatus ?? ''))
  )
}

/** The time left of a plan; null for none. `own`: the subscription that is being paid. */
export function runningPeriod(
  merchant: Merchant,
  plan: SoldPlan,
  own: Pick<BitcoinSubscription, 'currentPeriodEnd' | 'anchorDay'>
): Period | null {
  const { tier, currentPeriodEnd: end, subscriptionStatus } = merchant
  if (tier !== plan || end === null || !LIVE.has(subscriptionStatus ?? '')) return null
  // An end set by an administrator has no anchor but its own day.
  return { end, anchorDay: (own.currentPeriodEnd === end ? own.anchorDay : null) ?? new Date(end).getUTCDate() }
}
