import type { Merchant } from '../accounts/merchants/schema.ts'
import type { CardSubscription } from './store.ts'

/** Whether a status gives full access (contract, Subscription: treated as active). */
export function isLive(status: string | null): boolean {
  return status === 'active' || status === 'trialing'
}

/**
 * Which card subscription an account shows; null for none of them. Independent of the order of reports:
 * - the newest live one: a late report about an ended one must not close the account;
 * - unless the account is paid for longer in another way, such as a month in bitcoin;
 * - without a live one, the one already shown. One that is over when first reported changes nothing.
 */
export function currentSubscription(
  merchant: Merchant,
  subscriptions: readonly CardSubscription[]
): CardSubscription | null {
  const shown = subscriptions.find(({ subscriptionId }) => subscriptionId === merchant.billingSubscriptionId) ?? null
  const newest = subscriptions
    .filter(({ status }) => isLive(status))
    .reduce<CardSubscription | null>(
      (best, one) => (best === null || one.startedAt > best.startedAt ? one : best),
      null
    )
  if (newest === null) return shown
  return shown === null && isPaidBeyond(merchant, newest) ? null : newest
}

function isPaidBeyond(
  { billingSubscriptionId, subscriptionStatus, currentPeriodEnd }: Merchant,
  card: CardSubscription
): boolean {
  return (
    billingSubscriptionId !== null &&
    isLive(subscriptionStatus) &&
    currentPeriodEnd !== null &&
    card.currentPeriodEnd !== null &&
    currentPeriodEnd > card.currentPeriodEnd
  )
}
