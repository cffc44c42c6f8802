import type { Merchant } from '../accounts/merchants/schema.ts'
import type { CardSubscription } from './store.ts'

/** Whether a status gives full access (contract, Subscription: treated as active). */
export function isLive(status: string | null): boolean {
  return status === 'active' || status === 'trialing'
}

/**
 * Which of an account's subscriptions by card its account shows; null when that is none of them. It follows from what
 * they are and not from the order in which they were heard of:
 * - one that is live, the newest of several: somebody whose subscription ended buys another, and late news of the ended
 *   one must not close the account;
 * - unless the account has been paid for longer in another way, such as a month in bitcoin;
 * - where none is live, the one that the account shows already, whatever has become of it. One that is over when it is
 *   first heard of changes nothing.
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
