import type { PlanTier } from '../accounts/merchants/plans.ts'
import { defineError } from '../platform/system/errors.ts'

const BILLING_PROVIDER = defineError('BG_BILLING_PROVIDER', {
  cause: 'A request to the billing provider failed or was rejected.',
  fix: 'Check `billing.key`, and the status page of the provider.'
})

type BillingKind = 'stripe' | 'sandbox'

export interface CheckoutRequest {
  readonly plan: PlanTier
  /** Lower case. */
  readonly email: string
  readonly customerName: string | null
  /** Null for a buyer without an account, who waits for approval (decision 171). */
  readonly merchantId: number | null
  /** The merchant's existing customer; null for a new one. */
  readonly customerId: string | null
  /** 0 for none. A card is required either way. */
  readonly trialDays: number
  readonly successUrl: string
  readonly cancelUrl: string
  /** The same key creates one session. */
  readonly idempotencyKey: string
}

/** A subscription as its provider reports it. */
export interface BilledSubscription {
  readonly subscriptionId: string
  readonly customerId: string
  /** The provider's spelling. */
  readonly status: string
  readonly currentPeriodEnd: number | null
  readonly startedAt: number
  /** Null for a price that is not one of our plans. */
  readonly plan: PlanTier | null
  /** From the checkout's metadata; null when the subscription was created elsewhere. */
  readonly merchantId: number | null
  readonly email: string | null
  readonly customerName: string | null
}

export interface BilledPrice {
  /** For operators: where to look. */
  readonly priceId: string
  /** In the smallest unit of the currency; null without one fixed amount (tiers, metered use, chosen by the buyer). */
  readonly amount: number | null
  readonly currency: string
  /** Each `count` `interval`s; null for a one-time price. */
  readonly every: { readonly interval: string; readonly count: number } | null
  readonly isActive: boolean
}

type BillingFault =
  | 'away'
  | 'refused'
  /** The buyer's address is invalid for the provider. */
  | 'email'
  | 'signature'

export class BillingError extends Error {
  override name = 'BillingError'
  readonly code = BILLING_PROVIDER.code
  readonly fault: BillingFault

  constructor(fault: BillingFault, message: string, cause?: unknown) {
    super(message, { cause })
    this.fault = fault
  }
}

/** Distinguishes a provider's subscription id from ours of a plan paid in bitcoin. */
export function isCardSubscription(subscriptionId: string): boolean {
  return subscriptionId.startsWith('sub_')
}

/** Takes cards. Every method rejects with BillingError. */
export interface BillingProvider {
  readonly kind: BillingKind
  createCheckout(request: CheckoutRequest): Promise<{ readonly sessionId: string; readonly checkoutUrl: string }>
  /** What the plan individual costs there; null without such a price. */
  price(): Promise<BilledPrice | null>
  /** Address of the page where the customer manages card and subscription. */
  portal(customerId: string, returnUrl: string): Promise<string>
  subscription(subscriptionId: string): Promise<BilledSubscription | null>
  /**
   * Verifies the signature over the raw bytes and returns which subscription changed; null for an irrelevant event. Its
   * state is read again, since notifications may be reordered.
   * @throws BillingError `signature`, or `refused` for an unreadable one
   */
  readEvent(signature: string | null, body: Uint8Array): string | null
}
