import {
  ACCOUNT_INACTIVE,
  FEATURE_NOT_AVAILABLE,
  SUBSCRIPTION_EXPIRED,
  SUBSCRIPTION_NOT_ACTIVE,
  SUBSCRIPTION_REQUIRED
} from '../../engine/operations/error-kinds.ts'
import { GateError } from '../../engine/operations/errors.ts'
import { currentPlan } from './plans.ts'
import type { Merchant, MerchantFlags } from './schema.ts'

/** Features behind an account flag, as the errors name them. */
export type GatedFeature = 'refunds' | 'multi_currency' | 'l402'

declare module '../../engine/pipeline/plugin.ts' {
  interface Services {
    readonly subscriptionGate: SubscriptionGate
  }
}

export interface SubscriptionGate {
  refusal(merchant: Merchant, feature: GatedFeature | null, now: number): GateError | null | Promise<GateError | null>
}

/**
 * Refreshes an account from the billing provider and returns it; null when nothing is newer. Must not reject. Writes
 * itself, because only it knows the order of its reads.
 */
type RecheckAccount = (merchant: Merchant) => Promise<Merchant | null>

const flagOf: Readonly<Record<GatedFeature, keyof MerchantFlags>> = Object.freeze({
  refunds: 'refundsEnabled',
  multi_currency: 'multiCurrencyEnabled',
  l402: 'l402Enabled'
})

const featureNames: Readonly<Record<GatedFeature, string>> = Object.freeze({
  refunds: 'Refunds are',
  multi_currency: 'Multi-currency payments are',
  l402: 'Pay-per-request is'
})

/**
 * Subscription gate: the error for this account, or null (contract, Errors: 403; decisions 82, 83 and 86). Checks in
 * order: inactive, subscription required, not active, period expired, feature; the free plan skips the middle three.
 * A period still runs at the millisecond of its end.
 */
export function gate(merchant: Merchant, feature: GatedFeature | null, now: number): GateError | null {
  if (!merchant.isActive) {
    return new GateError(ACCOUNT_INACTIVE, 'This account has been deactivated. Please contact support.', {
      action_required: 'contact_support'
    })
  }
  const refusal = merchant.tier === 'free' ? null : gateSubscription(merchant, now)
  if (refusal !== null) return refusal
  return feature === null || merchant.flags[flagOf[feature]] ? null : gateFeature(merchant, feature)
}

/** The gate, with `recheck` before it refuses a subscription that may have been renewed (decision 83). */
export function subscriptionGate(recheck: RecheckAccount | null): SubscriptionGate {
  return {
    refusal(merchant, feature, now) {
      const refused = gate(merchant, feature, now)
      if (refused === null || recheck === null || !mayBeRenewed(refused)) return refused
      return recheck(merchant).then(fresh => gate(fresh ?? merchant, feature, now))
    }
  }
}

/** Whether the period has expired: its renewal may be unreported (decision 83). */
export function mayBeRenewed(refusal: GateError): boolean {
  return refusal.error === 'Subscription period expired'
}

function gateSubscription(merchant: Merchant, now: number): GateError | null {
  const { subscriptionStatus: status, currentPeriodEnd } = merchant
  const refusal = (
    kind: ConstructorParameters<typeof GateError>[0],
    message: string,
    action_required: 'subscribe' | 'update_payment_method' | 'renew_subscription',
    more: { readonly current_period_end?: string } = {}
  ) => {
    const subscription_status = status === '' ? null : status
    const current_plan = currentPlan(merchant.storedTier)
    return new GateError(kind, message, { action_required, current_plan, subscription_status, ...more })
  }
  if (status === null || status === '')
    return refusal(
      SUBSCRIPTION_REQUIRED,
      'This plan needs a subscription, and none is on file for this account.',
      'subscribe'
    )
  if (status === 'past_due')
    return refusal(
      SUBSCRIPTION_NOT_ACTIVE,
      'The last payment of the subscription failed. Update the payment method to go on.',
      'update_payment_method'
    )
  if (status !== 'active' && status !== 'trialing')
    return refusal(SUBSCRIPTION_NOT_ACTIVE, `The subscription is ${status}. Renew it to go on.`, 'renew_subscription')
  if (currentPeriodEnd === null || now <= currentPeriodEnd) return null
  const current_period_end = new Date(currentPeriodEnd).toISOString()
  const message = `The paid period ended at ${current_period_end}. Renew the subscription to go on.`
  return refusal(SUBSCRIPTION_EXPIRED, message, 'renew_subscription', { current_period_end })
}

function gateFeature(merchant: Merchant, feature: GatedFeature): GateError {
  const isByHand = feature === 'refunds'
  const why = isByHand
    ? '. Please contact support.'
    : merchant.tier === 'free'
      ? '; the individual plan includes it.'
      : ' although its plan includes it. Please contact support.'
  return new GateError(FEATURE_NOT_AVAILABLE, `${featureNames[feature]} not enabled for this account${why}`, {
    action_required: isByHand ? 'contact_support' : 'upgrade_plan',
    current_plan: currentPlan(merchant.storedTier),
    required_plan: isByHand ? null : 'individual',
    feature
  })
}
