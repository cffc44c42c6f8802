import { Unavailable } from '../engine/operations/errors.ts'
import type { Clock } from '../platform/system/clock.ts'
import type { Log } from '../platform/telemetry/log.ts'
import type { Metrics } from '../platform/telemetry/metrics.ts'
import { planPricesUsd } from './plans.ts'
import type { BillingProvider } from './provider.ts'
import { defineError } from '../platform/system/errors.ts'

const PLAN_NOT_FOR_SALE = defineError('BG_PLAN_NOT_FOR_SALE', {
  status: 503,
  title: 'Plan not for sale',
  cause: 'The price at the billing provider differs from the listed one, or cannot be read.',
  fix: 'The operator corrects the price as the log says.'
})

interface PriceCheckOptions {
  readonly provider: Pick<BillingProvider, 'price'>
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/**
 * Milliseconds for which a result is cached. A wrong price is checked again soon, so that a corrected one sells
 * immediately.
 */
const CACHE_TTL = { right: 600_000, wrong: 10_000 }
/** Seconds until a buyer may retry: an operator has to correct the price first. */
const COME_BACK = 300

/**
 * Compares the listed price of the plan individual with that of the billing provider, so that no checkout charges
 * another price than was shown. Each process checks at start, periodically and before a checkout.
 */
export class PriceCheck {
  readonly #options: PriceCheckOptions
  /** `at`: monotonic milliseconds. */
  #last: { readonly isRight: boolean; readonly at: number } | null = null

  constructor(options: PriceCheckOptions) {
    this.#options = options
    options.metrics.sampled(
      'boltgate_billing_price_wrong',
      'Plans whose price at the billing provider is not the listed one (1): they are not sold by card.',
      ['plan'],
      async () => (this.#last === null ? [] : [{ labels: { plan: 'individual' }, value: this.#last.isRight ? 0 : 1 }])
    )
  }

  /**
   * Whether a checkout would charge the listed price; logs a price that would not.
   * @throws BillingError when the provider fails
   */
  async look(): Promise<boolean> {
    const { provider, clock, log } = this.#options
    const price = await provider.price()
    const isRight =
      price !== null &&
      price.isActive &&
      price.amount === planPricesUsd.individual * 100 &&
      price.currency === 'usd' &&
      price.every?.interval === 'month' &&
      price.every.count === 1
    this.#last = { isRight, at: clock.monotonic() }
    if (!isRight)
      log.error(
        { setting: 'billing.prices.individual', listed: `${planPricesUsd.individual} USD a month`, price },
        'The plan individual is not sold by card: name an active price that charges the listed amount'
      )
    return isRight
  }

  /**
   * Resolves when a checkout would charge the listed price.
   * @throws Unavailable when it would not; BillingError when the provider fails
   */
  async agree(): Promise<void> {
    const last = this.#last
    const isCached =
      last !== null && this.#options.clock.monotonic() - last.at < CACHE_TTL[last.isRight ? 'right' : 'wrong']
    if (isCached ? last.isRight : await this.look()) return
    throw new Unavailable(
      PLAN_NOT_FOR_SALE,
      'The plan individual cannot be bought by card at the moment: its price at the billing provider is not the listed one. ' +
        'The operator finds in the log what has to be corrected.',
      COME_BACK
    )
  }
}
