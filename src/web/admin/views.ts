import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { PendingSubscription, PendingSubscriptionView } from './schema.ts'

/** Message about a linked account. `kept` names members of the request that it already had. */
export function linkMessage(merchant: Merchant, kept: readonly string[]): string {
  const parts = ['The subscription was linked to the merchant that has this email address; its API key stays as it is.']
  if (kept.length > 0) parts.push(`It had its own ${kept.join(' and ')} already, which was left alone.`)
  if (!merchant.isActive) parts.push('The account is deactivated; reactivate it to let it work.')
  return parts.join(' ')
}

export function pendingView(subscription: PendingSubscription): PendingSubscriptionView {
  return {
    id: subscription.id,
    email: subscription.email,
    customerName: subscription.customerName,
    billingCustomerId: subscription.billingCustomerId,
    billingSubscriptionId: subscription.billingSubscriptionId,
    planTier: subscription.planTier,
    subscriptionStatus: subscription.subscriptionStatus,
    createdAt: time(subscription.createdAt),
    isApproved: subscription.state === 'approved',
    isRejected: subscription.state === 'rejected',
    reviewedAt: subscription.reviewedAt === null ? null : time(subscription.reviewedAt),
    rejectionReason: subscription.rejectionReason,
    linkedMerchantId: subscription.linkedMerchantId
  }
}

export function time(at: number): string {
  return new Date(at).toISOString()
}
