import type { ProviderSlot, SealedValue } from '../../lightning/providers/slot-keys.ts'
import type { PlanCaps, PlanTier } from './plans.ts'

/** Flags of an account, set by events and never derived from the plan afterward (decision 77). */
export interface MerchantFlags {
  readonly refundsEnabled: boolean
  readonly multiCurrencyEnabled: boolean
  readonly l402Enabled: boolean
}

/** Contains no API key or hash; sealed values stay sealed. */
export interface Merchant {
  readonly id: number
  readonly name: string
  /** Lower case, unique. */
  readonly email: string
  /** Public part of the API key, shown as a hint (decision 65). */
  readonly keyId: string
  readonly keyCreatedAt: number
  /** Null: never. */
  readonly keyRotatedAt: number | null
  /** As stored, including retired and unknown ids; null when missing. */
  readonly storedTier: string | null
  /** Resolved from `storedTier`. */
  readonly tier: PlanTier
  /** As stored; null when missing. */
  readonly subscriptionStatus: string | null
  readonly currentPeriodEnd: number | null
  readonly billingCustomerId: string | null
  readonly billingSubscriptionId: string | null
  readonly isActive: boolean
  /** Effective flags: `l402Enabled` is false for an inactive account (contract, Merchant account). */
  readonly flags: MerchantFlags
  /** Explicit choice or null; `providerOf` resolves it. */
  readonly providerChoice: ProviderSlot | null
  readonly primaryKey: SealedValue | null
  readonly alternateKey: SealedValue | null
  readonly webhookUrl: string | null
  readonly webhookSecret: SealedValue | null
  readonly colour: string | null
  /** Seller's details on receipts, one line; null: none. */
  readonly receiptNote: string | null
  /** Limits that the operator set instead of the plan's; null: none. */
  readonly caps: Partial<PlanCaps> | null
  readonly createdAt: number
}

/** Billing's view of a subscription. */
export interface SubscriptionFacts {
  readonly subscriptionStatus: string | null
  readonly currentPeriodEnd: number | null
  readonly billingCustomerId: string | null
  readonly billingSubscriptionId: string | null
}
