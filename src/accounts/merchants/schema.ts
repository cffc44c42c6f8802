import type { ProviderSlot, SealedValue } from '../../lightning/providers/account.ts'
import type { PlanTier } from './plans.ts'

/** The three flags of an account; set once by events, then living on their own, never plan lookups (decision 77). */
export interface MerchantFlags {
  readonly refundsEnabled: boolean
  readonly multiCurrencyEnabled: boolean
  readonly l402Enabled: boolean
}

/**
 * An account. Times in milliseconds since the epoch. It carries no key and no hash of one; what it carries sealed stays
 * so.
 */
export interface Merchant {
  readonly id: number
  readonly name: string
  /** Lower case, unique. */
  readonly email: string
  /** The part of the API key that it is looked up by; no secret, shown as a hint (decision 65). */
  readonly keyId: string
  /** When the account got its first key. */
  readonly keyCreatedAt: number
  /** When the key was last replaced; null when it never was. */
  readonly keyRotatedAt: number | null
  /** As stored: a retired or unknown id stays as it is; null when none is on file. */
  readonly storedTier: string | null
  /** What the stored id resolves to. */
  readonly tier: PlanTier
  /** As stored; null when none is on file. */
  readonly subscriptionStatus: string | null
  readonly currentPeriodEnd: number | null
  readonly billingCustomerId: string | null
  readonly billingSubscriptionId: string | null
  readonly isActive: boolean
  /** As they take effect: `l402Enabled` is false whenever the account is inactive (contract, Merchant account). */
  readonly flags: MerchantFlags
  /** The explicit choice; null when there is none. `providerOf` resolves. */
  readonly providerChoice: ProviderSlot | null
  readonly primaryKey: SealedValue | null
  readonly alternateKey: SealedValue | null
  readonly webhookUrl: string | null
  readonly webhookSecret: SealedValue | null
  /** Of the pages on which people pay it, such as `#c2410c`; null for the usual one. */
  readonly colour: string | null
  readonly createdAt: number
}

/** What billing says about a subscription. Times in milliseconds since the epoch. */
export interface SubscriptionFacts {
  readonly subscriptionStatus: string | null
  readonly currentPeriodEnd: number | null
  readonly billingCustomerId: string | null
  readonly billingSubscriptionId: string | null
}
