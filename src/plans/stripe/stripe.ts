import { Stripe } from 'stripe'
import { Type } from 'typebox'
import { parseResponse, part, readResponse } from '../../engine/formats/response-schema.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Secret } from '../../platform/keys/secrets.ts'
import {
  BillingError,
  type BilledPrice,
  type BilledSubscription,
  type BillingProvider,
  type CheckoutRequest
} from '../provider.ts'

interface StripeBillingOptions {
  /** `sk_…` or a restricted `rk_…`. */
  readonly key: Secret<string>
  /** `whsec_…` of the webhook endpoint. */
  readonly webhookSecret: Secret<string>
  /** Id of the price of the plan individual, the only one that is sold. */
  readonly price: string
  /** Null for the public address; a path in it is ignored. */
  readonly url: string | null
  /** Milliseconds for one call. */
  readonly timeout: number
  readonly clock: Clock
}

/** Seconds for which a signed notification is valid, as in Stripe's libraries (docs.stripe.com/webhooks). */
const TOLERANCE = 300
/** Retries of a lost call, with the same idempotency key. */
const RETRIES = 1
const MERCHANT_ID = 'merchant_id'
const CUSTOMER_NAME = 'customer_name'

/**
 * Stripe over its own library. Sends only long-standing parameters, and no payment method types, which the account's
 * settings decide.
 */
export class StripeBilling implements BillingProvider {
  readonly kind = 'stripe'
  readonly #stripe: Stripe
  readonly #options: StripeBillingOptions

  constructor(options: StripeBillingOptions) {
    this.#options = options
    this.#stripe = new Stripe(options.key.reveal(), {
      timeout: options.timeout,
      maxNetworkRetries: RETRIES,
      telemetry: false,
      ...(options.url === null ? {} : addressOf(options.url))
    })
  }

  async createCheckout(
    request: CheckoutRequest
  ): Promise<{ readonly sessionId: string; readonly checkoutUrl: string }> {
    const session = await asking(
      this.#session(request).catch((error: unknown) => {
        if (request.customerId === null || !isCustomerGone(error)) throw error
        // The customer was deleted, or belongs to another Stripe account: check out as a new one.
        return this.#session({ ...request, customerId: null, idempotencyKey: `${request.idempotencyKey}-new` })
      })
    )
    if (session.url === null) throw new BillingError('away', 'stripe answered a checkout session without an address')
    return { sessionId: session.id, checkoutUrl: session.url }
  }

  async #session(request: CheckoutRequest): Promise<Stripe.Checkout.Session> {
    const { email, customerName, merchantId, customerId, trialDays, successUrl, cancelUrl, idempotencyKey } = request
    const metadata: Record<string, string> = {
      ...(merchantId === null ? {} : { [MERCHANT_ID]: String(merchantId) }),
      ...(customerName === null ? {} : { [CUSTOMER_NAME]: customerName })
    }
    return await this.#stripe.checkout.sessions.create(
      {
        mode: 'subscription',
        line_items: [{ price: this.#options.price, quantity: 1 }],
        success_url: successUrl,
        cancel_url: cancelUrl,
        // The contract: a trial with a card required.
        payment_method_collection: 'always',
        ...(customerId === null ? { customer_email: email } : { customer: customerId }),
        ...(merchantId === null ? {} : { client_reference_id: String(merchantId) }),
        metadata,
        subscription_data: {
          metadata,
          ...(trialDays === 0
            ? {}
            : { trial_period_days: trialDays, trial_settings: { end_behavior: { missing_payment_method: 'cancel' } } })
        }
      },
      { idempotencyKey }
    )
  }

  async price(): Promise<BilledPrice | null> {
    try {
      const {
        id,
        unit_amount: amount,
        currency,
        recurring,
        active
      } = await this.#stripe.prices.retrieve(this.#options.price)
      return {
        priceId: id,
        amount: recurring?.usage_type === 'metered' ? null : amount,
        currency: currency.toLowerCase(),
        every: recurring === null ? null : { interval: recurring.interval, count: recurring.interval_count },
        isActive: active
      }
    } catch (error) {
      if (isMissing(error)) return null
      throw billingError(error)
    }
  }

  async portal(customerId: string, returnUrl: string): Promise<string> {
    return (await asking(this.#stripe.billingPortal.sessions.create({ customer: customerId, return_url: returnUrl })))
      .url
  }

  async subscription(subscriptionId: string): Promise<BilledSubscription | null> {
    try {
      return this.#read(await this.#stripe.subscriptions.retrieve(subscriptionId, { expand: ['customer'] }))
    } catch (error) {
      if (isMissing(error)) return null
      throw billingError(error)
    }
  }

  readEvent(signature: string | null, body: Uint8Array): string | null {
    const { webhookSecret, clock } = this.#options
    if (signature === null) throw new BillingError('signature', 'The header Stripe-Signature is missing.')
    const { webhooks } = this.#stripe
    const signed = [Buffer.from(body), signature, webhookSecret.reveal(), TOLERANCE, undefined, clock.now()] as const
    try {
      webhooks.signature?.verifyHeader(...signed)
    } catch (error) {
      // Malformed headers make the library throw errors of other classes.
      throw new BillingError('signature', 'The signature of the notification is not valid, or it is too old.', error)
    }
    try {
      return changedBy(webhooks.constructEvent(...signed))
    } catch (error) {
      throw error instanceof BillingError
        ? error
        : new BillingError('refused', 'The notification cannot be read.', error)
    }
  }

  #read(subscription: Stripe.Subscription): BilledSubscription {
    const { customer, metadata, items } = subscription
    const known = typeof customer === 'string' || customer.deleted === true ? null : customer
    // Each item has its own period; ours have one item.
    const ends = items.data.map(item => item.current_period_end)
    return {
      subscriptionId: subscription.id,
      customerId: typeof customer === 'string' ? customer : customer.id,
      status: subscription.status,
      currentPeriodEnd: ends.length === 0 ? null : Math.max(...ends) * 1000,
      startedAt: subscription.created * 1000,
      plan: items.data.some(({ price }) => price.id === this.#options.price) ? 'individual' : null,
      merchantId: readMerchantId(metadata[MERCHANT_ID]),
      email: known?.email ?? null,
      customerName: metadata[CUSTOMER_NAME] ?? known?.name ?? null
    }
  }
}

const SubscriptionId = Type.String({ pattern: '^sub_[A-Za-z0-9_]{1,200}$' })
/** An id, or the id of an expanded object; null for any other. It becomes part of a URL and a row's key. */
const SubscriptionRef = Type.Decode(
  Type.Unknown(),
  value => readResponse(SubscriptionId, value) ?? readResponse(Type.Object({ id: SubscriptionId }), value)?.id ?? null
)
const StripeEvent = Type.Object({
  data: part({
    object: part({
      object: Type.Unknown(),
      id: SubscriptionRef,
      subscription: SubscriptionRef,
      parent: part({ subscription_details: part({ subscription: SubscriptionRef }) })
    })
  })
})

/**
 * The subscription of a Stripe event about one, or about a checkout or invoice of one.
 * @throws BillingError `refused` for any other form
 */
function changedBy(event: unknown): string | null {
  const refused = (mismatch: string) => new BillingError('refused', `The notification cannot be read: ${mismatch}.`)
  const about = parseResponse(StripeEvent, event, refused).data?.object
  switch (about?.object) {
    case 'subscription':
      return about.id
    case 'checkout.session':
      return about.subscription
    // Endpoints set up for an older API version receive the older form.
    case 'invoice':
      return about.parent?.subscription_details?.subscription ?? about.subscription
    default:
      return null
  }
}

function readMerchantId(text: string | undefined): number | null {
  const id = text !== undefined && /^[1-9][0-9]{0,9}$/.test(text) ? Number(text) : 0
  return id > 0 && id <= 0x7fff_ffff ? id : null
}

function addressOf(url: string): { readonly host: string; readonly port: string; readonly protocol: 'http' | 'https' } {
  const { hostname, port, protocol } = new URL(url)
  return {
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    port: port === '' ? (protocol === 'http:' ? '80' : '443') : port,
    protocol: protocol === 'http:' ? 'http' : 'https'
  }
}

async function asking<T>(call: Promise<T>): Promise<T> {
  try {
    return await call
  } catch (error) {
    throw billingError(error)
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Stripe.errors.StripeInvalidRequestError && error.statusCode === 404
}

function isCustomerGone(error: unknown): boolean {
  return (
    error instanceof Stripe.errors.StripeInvalidRequestError &&
    error.code === 'resource_missing' &&
    error.param === 'customer'
  )
}

/** Stripe's message is dropped: it may show parts of the key, and errors are logged. */
function billingError(error: unknown): BillingError {
  if (!(error instanceof Stripe.errors.StripeError)) return new BillingError('away', 'stripe could not be asked', error)
  const { statusCode, code, param, requestId } = error
  const isAway =
    statusCode === undefined ||
    statusCode >= 500 ||
    statusCode === 429 ||
    statusCode === 409 ||
    error instanceof Stripe.errors.StripeConnectionError ||
    error instanceof Stripe.errors.StripeAPIError
  const facts = [error.type, statusCode, code, param, requestId]
    .filter(fact => fact !== undefined && fact !== null && fact !== '')
    .join(' ')
  return new BillingError(isAway ? 'away' : param === 'customer_email' ? 'email' : 'refused', `stripe: ${facts}`)
}
