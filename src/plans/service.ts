import type { GatewayConfig } from '../engine/config/schema.ts'
import { INVALID_STATE, NOTIFICATION_UNREADABLE, UNAUTHORIZED } from '../engine/operations/error-kinds.ts'
import { ConfigurationMissing, LongError, ShortError, Unavailable } from '../engine/operations/errors.ts'
import { invalidField } from '../engine/operations/validation.ts'
import { planNames } from '../accounts/merchants/plans.ts'
import type { Merchant } from '../accounts/merchants/schema.ts'
import type { Database } from '../platform/database/database.ts'
import { freshId } from '../platform/system/ids.ts'
import { periodic, queue, type JobDeclaration, type JsonObject, type Jobs } from '../platform/jobs/jobs.ts'
import type { Log } from '../platform/telemetry/log.ts'
import { isLive } from './current.ts'
import { listedPlans, parseSoldPlan, type ListedPlan, PLAN_NOT_SOLD } from './plans.ts'
import { BillingError, isCardSubscription, type BillingProvider } from './provider.ts'
import type { PriceCheck } from './price-check.ts'
import type { PlanCheckoutInput } from './schema.ts'
import type { CardSubscriptions } from './subscriptions.ts'
import { defineError } from '../platform/system/errors.ts'

const BILLING_FAILED = defineError('BG_BILLING_FAILED', {
  status: 502,
  title: 'Billing provider error',
  cause: 'The billing provider rejected the request.',
  fix: 'The operator checks `billing.key` and the log.'
})

const BILLING_UNAVAILABLE = defineError('BG_BILLING_UNAVAILABLE', {
  status: 503,
  title: 'Billing provider unavailable',
  cause: 'The billing provider cannot be reached.',
  fix: 'Retry after `Retry-After`.'
})

/** What billing by card is made of. */
export interface BillingParts {
  /** Null where plans are sold for bitcoin only. */
  readonly provider: BillingProvider | null
  /** Null exactly where the provider is. */
  readonly subscriptions: Pick<CardSubscriptions, 'refresh'> | null
  /** Null exactly where the provider is. */
  readonly prices: Pick<PriceCheck, 'look' | 'agree'> | null
  readonly database: Pick<Database, 'sql'>
  readonly jobs: Pick<Jobs, 'enqueue'>
  readonly log: Log
  /** Addresses that buyers are sent to must be https there. */
  readonly production: boolean
  /** Without a slash at the end. */
  publicUrl(): string
  /** Asked each time, since a reload changes them. */
  settings(): Pick<GatewayConfig, 'plans' | 'billing'>
}

/** What a job is about. */
interface Reread extends JsonObject {
  readonly subscriptionId: string
}

const QUEUE = 'billing'
/** The pauses between them add up to more than an hour. */
const RETRIES = 10
const CONCURRENCY = 2
const PRICES = 'billing-prices'
/** Milliseconds between looks of the job at the prices. */
const PRICES_EVERY = 3_600_000

/**
 * Plans that are paid by card (contract, Billing and checkout; decisions 163, 165, 166 and 169). What becomes of a
 * checkout the provider reports: the report is written down as a job and answered, and the job reads the subscription
 * anew.
 */
export class Billing {
  readonly #parts: BillingParts

  constructor(parts: BillingParts) {
    this.#parts = parts
  }

  get jobs(): readonly JobDeclaration[] {
    const { subscriptions, prices } = this.#parts
    return [
      ...(prices === null
        ? []
        : [
            periodic(
              PRICES,
              PRICES_EVERY,
              'Compares the listed prices of the plans with those that the billing provider charges',
              () => prices.look()
            )
          ]),
      ...(subscriptions === null
        ? []
        : [
            queue<Reread>(
              QUEUE,
              {
                title: 'The billing provider said that a subscription has changed: ask how it stands',
                concurrency: CONCURRENCY,
                retries: RETRIES
              },
              ({ data }) => subscriptions.refresh(data.subscriptionId)
            )
          ])
    ]
  }

  /**
   * A first look at the prices of the provider: what is wrong is in the log and the metrics before anybody buys. It
   * never rejects.
   */
  async start(): Promise<void> {
    try {
      await this.#parts.prices?.look()
    } catch (error) {
      this.#parts.log.error(
        { err: error },
        'the prices of the plans could not be read at the billing provider, so none is sold by card before they can; a restricted key needs the right to read prices'
      )
    }
  }

  /** The publicly listed plans. */
  pricing(): { readonly plans: readonly ListedPlan[] } {
    const { plans, billing } = this.#parts.settings()
    return { plans: listedPlans(plans, billing.trialDays) }
  }

  /**
   * Opens a checkout. `merchant` is whose key came with the request: the subscription becomes that account's, with a
   * trial if it has never had a subscription by card. Anybody else's waits for approval (decision 171).
   * @throws ShortError 400 for a plan that is not sold here and for an account that has one already; ValidationError
   *   for an address; ConfigurationMissing 500, LongError 502, Unavailable 503, also where the provider would charge
   *   another price than is listed
   */
  async createCheckout(
    input: PlanCheckoutInput,
    merchant: Merchant | null
  ): Promise<{ readonly sessionId: string; readonly checkoutUrl: string }> {
    const provider = this.#provider()
    const plan = parseSoldPlan(input.plan)
    const successUrl = this.#address('/successUrl', input.successUrl) ?? `${this.#parts.publicUrl()}/billing/done`
    const cancelUrl = this.#address('/cancelUrl', input.cancelUrl) ?? `${this.#parts.publicUrl()}/billing/canceled`
    if (merchant !== null) refuseSecond(merchant)
    const isFirst = merchant === null || merchant.billingCustomerId === null
    await this.#asking(this.#parts.prices?.agree(plan) ?? Promise.resolve())
    return await this.#asking(
      provider.createCheckout({
        plan,
        email: input.email.toLowerCase(),
        customerName: input.customerName?.trim() ?? null,
        merchantId: merchant?.id ?? null,
        customerId: merchant?.billingCustomerId ?? null,
        trialDays: isFirst ? this.#parts.settings().billing.trialDays : 0,
        successUrl,
        cancelUrl,
        idempotencyKey: freshId()
      })
    )
  }

  /**
   * The address of the page where the merchant manages its card and subscription.
   * @throws ShortError 400 for an account that pays by no card; ValidationError for the address; ConfigurationMissing
   *   500, LongError 502, Unavailable 503
   */
  async portal(merchant: Merchant, returnUrl: string): Promise<string> {
    const provider = this.#provider()
    const address = this.#address('/returnUrl', returnUrl) ?? returnUrl
    if (merchant.billingCustomerId === null)
      throw new ShortError(
        INVALID_STATE,
        'This account has no subscription by card, so there is nothing to manage. Buy a plan over /api/billing/create-checkout-session first.'
      )
    return await this.#asking(provider.portal(merchant.billingCustomerId, address))
  }

  /**
   * Takes a notification of the provider in; resolves once what follows from it is written. One of no interest, or that
   * came before, is taken in all the same.
   * @throws LongError 401 for a signature that is not good, ShortError 400 for what cannot be read,
   *   ConfigurationMissing 500, Unavailable 503 when it cannot be written, so that it is sent again
   */
  async receive(signature: string | null, body: Uint8Array): Promise<void> {
    const provider = this.#provider()
    const { database, jobs, log } = this.#parts
    const { subscriptionId, type, id } = readable(() => provider.readEvent(signature, body))
    log.debug({ event: id, type, subscriptionId }, 'the billing provider sent a notification')
    if (subscriptionId === null) return
    await this.#asking(jobs.enqueue(database.sql, QUEUE, { subscriptionId }, { key: subscriptionId }))
  }

  #provider(): BillingProvider {
    if (this.#parts.provider === null) throw new ConfigurationMissing('billing.kind')
    return this.#parts.provider
  }

  /** An address that a buyer is sent to, as it was given; null for none. @throws ValidationError */
  #address(field: string, text: string | undefined): string | null {
    if (text === undefined) return null
    const scheme = this.#parts.production ? 'https' : 'https?'
    // A browser reads blanks and backslashes differently from us.
    if (!new RegExp(`^${scheme}://[^\\s\\\\\\p{Cc}]+$`, 'iu').test(text) || !URL.canParse(text)) {
      throw invalidField(
        field,
        this.#parts.production ? 'Must be an https address.' : 'Must be an http or https address.'
      )
    }
    return text
  }

  async #asking<T>(work: Promise<T>): Promise<T> {
    try {
      return await work
    } catch (error) {
      if (!(error instanceof BillingError)) throw error
      if (error.fault === 'email')
        throw invalidField('/email', 'Must be an email address that takes mail, such as name@example.com.')
      this.#parts.log[error.fault === 'away' ? 'warn' : 'error'](
        { err: error },
        'the billing provider did not do what it was asked'
      )
      if (error.fault !== 'away')
        throw new LongError(
          BILLING_FAILED,
          'Billing provider error',
          'The billing provider refused the request.',
          {},
          [],
          error
        )
      throw new Unavailable(BILLING_UNAVAILABLE, 'The billing provider cannot be reached at the moment.', 5, {}, error)
    }
  }
}

/** Two subscriptions of one account would both be charged. */
function refuseSecond({ tier, billingSubscriptionId, subscriptionStatus }: Merchant): void {
  if (tier === 'l402')
    throw new ShortError(
      PLAN_NOT_SOLD,
      `This account is on the plan ${planNames.l402}, which is changed by contact only.`
    )
  if (billingSubscriptionId === null || !isCardSubscription(billingSubscriptionId)) return
  if (isLive(subscriptionStatus) || subscriptionStatus === 'past_due') {
    throw new ShortError(
      INVALID_STATE,
      'This account has a subscription already. Change its card or cancel it over /api/billing/customer-portal.'
    )
  }
}

function readable<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof BillingError)) throw error
    if (error.fault === 'signature') throw new LongError(UNAUTHORIZED, 'Unauthorized', error.message)
    throw new ShortError(NOTIFICATION_UNREADABLE, error.message)
  }
}
