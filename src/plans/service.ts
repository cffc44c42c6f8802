import type { GatewayConfig } from '../engine/config/schema.ts'
import { INVALID_STATE, NOTIFICATION_UNREADABLE, UNAUTHORIZED } from '../engine/operations/error-kinds.ts'
import { ConfigurationMissing, LongError, ShortError, Unavailable } from '../engine/operations/errors.ts'
import { invalidField } from '../engine/operations/field-errors.ts'
import { planNames } from '../accounts/merchants/plans.ts'
import type { Merchant } from '../accounts/merchants/schema.ts'
import type { Database } from '../platform/database/database.ts'
import { freshId } from '../platform/system/ids.ts'
import { periodic, queue, type JobDeclaration, type JsonObject, type Jobs } from '../platform/jobs/jobs.ts'
import type { Log } from '../platform/telemetry/log.ts'
import { isLive } from './store.ts'
import {
  listedPlans,
  parseSoldPlan,
  type ListedPlan,
  PLAN_NOT_SOLD,
  type PlanCheckoutInput,
  TRIAL_DAYS
} from './plans.ts'
import { BillingError, isCardSubscription, type BillingProvider } from './provider.ts'
import type { PriceCheck } from './price-check.ts'
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

interface BillingOptions {
  /** Null where plans are sold for bitcoin only. */
  readonly provider: BillingProvider | null
  readonly subscriptions: CardSubscriptions | null
  readonly prices: PriceCheck | null
  readonly database: Database
  readonly jobs: Jobs
  readonly log: Log
  /** Requires https for the addresses that buyers are redirected to. */
  readonly production: boolean
  publicUrl(): string
  settings(): Pick<GatewayConfig, 'plans' | 'billing'>
}

interface Reread extends JsonObject {
  readonly subscriptionId: string
}

const QUEUE = 'billing'
/** With pauses of more than an hour in total. */
const RETRIES = 10
const CONCURRENCY = 2
const PRICES = 'billing-prices'
/** Milliseconds between periodic price checks. */
const PRICES_EVERY = 3_600_000

/**
 * Plans paid by card (contract, Billing and checkout; decisions 163, 165, 166 and 169). A notification is acknowledged
 * and stored as a job, which reads the subscription from the provider.
 */
export class Billing {
  readonly #options: BillingOptions

  constructor(options: BillingOptions) {
    this.#options = options
  }

  get jobs(): readonly JobDeclaration[] {
    const { subscriptions, prices } = this.#options
    return [
      ...(prices === null
        ? []
        : [
            periodic(
              PRICES,
              PRICES_EVERY,
              'Compares the listed prices of the plans with those that the billing provider charges',
              async () => {
                await prices.look()
              }
            )
          ]),
      ...(subscriptions === null
        ? []
        : [
            queue<Reread>(
              QUEUE,
              {
                title: 'Looks up subscriptions that the billing provider reported as changed',
                concurrency: CONCURRENCY,
                retries: RETRIES
              },
              ({ data }) => subscriptions.refresh(data.subscriptionId)
            )
          ])
    ]
  }

  /** First price check: faults are in the log and the metrics before the first sale. Never rejects. */
  async start(): Promise<void> {
    try {
      await this.#options.prices?.look()
    } catch (error) {
      this.#options.log.error(
        { err: error },
        'plan prices could not be read from the billing provider, so plans are not sold by card until they can; a restricted key needs permission to read prices'
      )
    }
  }

  pricing(): { readonly plans: readonly ListedPlan[] } {
    return { plans: listedPlans(this.#options.settings().plans, TRIAL_DAYS) }
  }

  /**
   * Opens a checkout. `merchant` is the account of the request's key: it gets the subscription, with a trial if it
   * never had one by card. Other subscriptions wait for approval (decision 171).
   * @throws ShortError 400 for a plan that is not sold, or an account that has one; ValidationError for an address;
   *   ConfigurationMissing 500, LongError 502; Unavailable 503, also where the provider charges another price than
   *   listed
   */
  async createCheckout(
    input: PlanCheckoutInput,
    merchant: Merchant | null
  ): Promise<{ readonly sessionId: string; readonly checkoutUrl: string }> {
    const provider = this.#provider()
    const plan = parseSoldPlan(input.plan)
    const successUrl = this.#address('/successUrl', input.successUrl) ?? `${this.#options.publicUrl()}/billing/done`
    const cancelUrl = this.#address('/cancelUrl', input.cancelUrl) ?? `${this.#options.publicUrl()}/billing/canceled`
    if (merchant !== null) refuseSecond(merchant)
    const isFirst = merchant === null || merchant.billingCustomerId === null
    await this.#asking(this.#options.prices?.agree() ?? Promise.resolve())
    return await this.#asking(
      provider.createCheckout({
        plan,
        email: input.email.toLowerCase(),
        customerName: input.customerName?.trim() ?? null,
        merchantId: merchant?.id ?? null,
        customerId: merchant?.billingCustomerId ?? null,
        trialDays: isFirst ? TRIAL_DAYS : 0,
        successUrl,
        cancelUrl,
        idempotencyKey: freshId()
      })
    )
  }

  /**
   * Address of the page where the merchant manages card and subscription.
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
   * Receives a notification; resolves once its job is written. Irrelevant and repeated ones are accepted too.
   * @throws LongError 401 for an invalid signature, ShortError 400 for an unreadable one, ConfigurationMissing 500,
   *   Unavailable 503 when it cannot be stored, so that the provider retries
   */
  async receive(signature: string | null, body: Uint8Array): Promise<void> {
    const provider = this.#provider()
    const subscriptionId = readable(() => provider.readEvent(signature, body))
    if (subscriptionId !== null) await this.changed(subscriptionId)
  }

  /** Has a subscription read again. */
  async changed(subscriptionId: string): Promise<void> {
    const { database, jobs } = this.#options
    await jobs.enqueue(database.sql, QUEUE, { subscriptionId }, { key: subscriptionId })
  }

  #provider(): BillingProvider {
    if (this.#options.provider === null) throw new ConfigurationMissing('billing.kind')
    return this.#options.provider
  }

  /**
   * An address to redirect the buyer to, unchanged; null for none.
   * @throws ValidationError
   */
  #address(field: string, text: string | undefined): string | null {
    if (text === undefined) return null
    const scheme = this.#options.production ? 'https' : 'https?'
    // Browsers parse blanks and backslashes differently.
    if (!new RegExp(`^${scheme}://[^\\s\\\\\\p{Cc}]+$`, 'iu').test(text) || !URL.canParse(text)) {
      throw invalidField(
        field,
        this.#options.production ? 'Must be an https address.' : 'Must be an http or https address.'
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
      this.#options.log[error.fault === 'away' ? 'warn' : 'error'](
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

/** Both subscriptions of one account would be charged. */
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
