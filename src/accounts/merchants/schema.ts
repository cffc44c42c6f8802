import {
  column,
  flag,
  group,
  integer,
  json,
  moment,
  optional,
  sealed,
  text,
  type RecordOf
} from '../../platform/database/rows.ts'
import type { ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import { resolveTier, type PlanCaps } from './plans.ts'

/** Columns that the administrator's list reads too: nothing sealed. */
export const headColumns = {
  id: integer(),
  name: text(),
  /** Lower case, unique. */
  email: text(),
  /** Retired ids are resolved; missing and unknown ones are free. */
  tier: column('plan_tier', resolveTier, tier => tier),
  /** As stored; null when missing. */
  subscriptionStatus: optional(text()),
  isActive: flag(),
  createdAt: moment()
}

/** Columns that change independently of the others. */
export const changingColumns = {
  name: text(),
  email: text(),
  subscriptionStatus: optional(text()),
  currentPeriodEnd: optional(moment()),
  billingCustomerId: optional(text()),
  billingSubscriptionId: optional(text()),
  colour: optional(text()),
  /** Seller's details on receipts, one line; null: none. */
  receiptNote: optional(text()),
  /** Limits that the operator set instead of the plan's; null: none. */
  caps: optional(json((stored: Partial<PlanCaps>) => stored))
}

/** An account. Contains no API key or hash; sealed values stay sealed. */
export const merchantColumns = {
  ...headColumns,
  ...changingColumns,
  /** Public part of the API key, shown as a hint (decision 65). */
  keyId: text(),
  keyCreatedAt: moment(),
  /** Null: never. */
  keyRotatedAt: optional(moment()),
  /** As stored, including retired and unknown ids; null when missing. */
  storedTier: optional(text('plan_tier')),
  /**
   * Set by events and never derived from the plan afterward (decision 77). `l402Enabled` is false for an inactive
   * account (contract, Merchant account).
   */
  flags: group({
    refundsEnabled: flag(),
    multiCurrencyEnabled: flag(),
    l402Enabled: { ...flag(), read: (row, name) => row[name] === true && row['is_active'] === true }
  }),
  /** Explicit choice or null; `providerOf` resolves it. */
  providerChoice: optional(text<ProviderSlot>()),
  primaryKey: sealed('merchants', 'primary_key'),
  alternateKey: sealed('merchants', 'alternate_key'),
  webhookUrl: optional(text()),
  webhookSecret: sealed('merchants', 'webhook_secret')
}
export type Merchant = RecordOf<typeof merchantColumns>
export type MerchantFlags = Merchant['flags']

/** Billing's view of a subscription. */
export type SubscriptionFacts = Pick<
  Merchant,
  'subscriptionStatus' | 'currentPeriodEnd' | 'billingCustomerId' | 'billingSubscriptionId'
>
