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
  const current_plan = currentPlan(merchant.storedTier)
  if (status === null || status === '') {
    return new GateError(
      SUBSCRIPTION_REQUIRED,
      'This plan needs a subscription, and none is on file for this account.',
      {
        action_required: 'subscribe',
        current_plan,
        subscription_status: null
      }
    )
  }
  if (status === 'past_due') {
    return new GateError(
      SUBSCRIPTION_NOT_ACTIVE,
      'The last payment of the subscription failed. Update the payment method to go on.',
      {
        action_required: 'update_payment_method',
        current_plan,
        subscription_status: status
      }
    )
  }
  if (status !== 'active' && status !== 'trialing') {
    return new GateError(SUBSCRIPTION_NOT_ACTIVE, `The subscription is ${status}. Renew it to go on.`, {
      action_required: 'renew_subscription',
      current_plan,
      subscription_status: status
    })
  }
  if (currentPeriodEnd !== null && now > currentPeriodEnd) {
    const ended = new Date(currentPeriodEnd).toISOString()
    return new GateError(SUBSCRIPTION_EXPIRED, `The paid period ended at ${ended}. Renew the subscription to go on.`, {
      action_required: 'renew_subscription',
      current_plan,
      subscription_status: status,
      current_period_end: ended
    })
  }
  return null
}

function gateFeature(merchant: Merchant, feature: GatedFeature): GateError {
  const current_plan = currentPlan(merchant.storedTier)
  const name = featureNames[feature]
  if (feature === 'refunds') {
    return new GateError(FEATURE_NOT_AVAILABLE, `${name} not enabled for this account. Please contact support.`, {
      action_required: 'contact_support',
      current_plan,
      required_plan: null,
      feature
    })
  }
  const message =
    merchant.tier !== 'free'
      ? `${name} not enabled for this account although its plan includes it. Please contact support.`
      : `${name} not enabled for this account; the individual plan includes it.`
  return new GateError(FEATURE_NOT_AVAILABLE, message, {
    action_required: 'upgrade_plan',
    current_plan,
    required_plan: 'individual',
    feature
  })
}
