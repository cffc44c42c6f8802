import { INVALID_STATE } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { BITCOIN_PREFIX, planNames } from '../../accounts/merchants/plans.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { Period } from './period.ts'
import type { BitcoinSubscription } from './schema.ts'
import type { SoldPlan } from '../plans.ts'
import { PLAN_NOT_SOLD } from '../plans.ts'

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
