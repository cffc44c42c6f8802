import type { PlanTier } from '../accounts/merchants/plans.ts'
import type { SoldPlan } from './plans.ts'
import { defineError } from '../platform/system/errors.ts'

const BILLING_PROVIDER = defineError('BG_BILLING_PROVIDER', {
  cause: 'A request to the billing provider failed or was rejected.',
  fix: 'Check `billing.key`, and the status page of the provider.'
})

/** Kinds of billing providers. */
export type BillingKind = 'stripe' | 'sandbox'

/** A checkout of a plan by card. */
export interface CheckoutRequest {
  readonly plan: PlanTier
  /** Lower case. */
  readonly email: string
  readonly customerName: string | null
  /** Whose subscription it will be; null for a buyer without an account, who waits for approval (decision 171). */
  readonly merchantId: number | null
  /** The customer that the merchant already is; null for a new one. */
  readonly customerId: string | null
  /** Days; 0 for none. A card is asked for either way. */
  readonly trialDays: number
  readonly successUrl: string
  readonly cancelUrl: string
  /** The same key makes the same session once. */
  readonly idempotencyKey: string
}

/** A subscription as its provider says it is. Times in milliseconds since the epoch. */
export interface BilledSubscription {
  readonly subscriptionId: string
  readonly customerId: string
  /** As the provider spells it. */
  readonly status: string
  readonly currentPeriodEnd: number | null
  /** When it was made. */
  readonly startedAt: number
  /** Null for a price that is no plan of ours. */
  readonly plan: PlanTier | null
  /** Of the checkout that it came from; null when it was made in another way. */
  readonly merchantId: number | null
  readonly email: string | null
  readonly customerName: string | null
}

/** What a plan's price at its provider charges. */
export interface BilledPrice {
  /** For people: where to look. */
  readonly priceId: string
  /**
   * In the smallest unit of the currency; null where it is not one fixed amount (tiers, metered use, decided by the
   * buyer).
   */
  readonly amount: number | null
  /** ISO 4217, lower case. */
  readonly currency: string
  /** How often it is charged: each `count` `interval`s; null for a price that is charged once. */
  readonly every: { readonly interval: string; readonly count: number } | null
  /** False for one that has been archived, with which nothing can be bought. */
  readonly isActive: boolean
}

/**
 * Something has changed: which subscription it was. What has changed is read anew, since notifications overtake each
 * other.
 */
export interface BillingEvent {
  readonly id: string
  readonly type: string
  /** Null for an event of no interest. */
  readonly subscriptionId: string | null
}

/** Why the billing provider did not do what it was asked. */
export type BillingFault =
  /** Anything that may pass by itself. */
  | 'away'
  /** The request itself. */
  | 'refused'
  /** The buyer's address, which is none to the provider. */
  | 'email'
  | 'signature'

/** The billing provider did not do what it was asked. */
export class BillingError extends Error {
  override name = 'BillingError'
  readonly code = BILLING_PROVIDER.code
  readonly fault: BillingFault

  constructor(fault: BillingFault, message: string, cause?: unknown) {
    super(message, { cause })
    this.fault = fault
  }
}

/** Whether a subscription id is one of a billing provider, and not our own of a plan that is paid in bitcoin. */
export function isCardSubscription(subscriptionId: string): boolean {
  return subscriptionId.startsWith('sub_')
}

/** Who takes cards. Every method rejects with BillingError. */
export interface BillingProvider {
  readonly kind: BillingKind
  createCheckout(request: CheckoutRequest): Promise<{ readonly sessionId: string; readonly checkoutUrl: string }>
  /** What a sold plan costs there; null when there is no such price. */
  price(plan: SoldPlan): Promise<BilledPrice | null>
  /** Address of a page where the customer manages cards and subscription. */
  portal(customerId: string, returnUrl: string): Promise<string>
  /** Null when there is none. */
  subscription(subscriptionId: string): Promise<BilledSubscription | null>
  /**
   * Reads a notification after its signature over the raw bytes is good. @throws BillingError `signature`, or `refused`
   * for what cannot be read
   */
  readEvent(signature: string | null, body: Uint8Array): BillingEvent
}
