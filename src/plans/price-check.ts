import { Unavailable } from '../engine/operations/errors.ts'
import type { Clock } from '../platform/system/clock.ts'
import type { Log } from '../platform/telemetry/log.ts'
import type { Metrics } from '../platform/telemetry/metrics.ts'
import { planPricesUsd, soldPlans, type SoldPlan } from './plans.ts'
import type { BilledPrice, BillingProvider } from './provider.ts'
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

/** Result of the last check: null where the provider charges the listed price, else the fault, for operators. */
interface Seen {
  readonly wrong: string | null
  /** Monotonic milliseconds. */
  readonly at: number
}

/**
 * Milliseconds for which a result is cached. A wrong price is checked again soon, so that a corrected one sells
 * immediately.
 */
const CACHE_TTL = { right: 600_000, wrong: 10_000 }
/** Seconds until a buyer may retry: an operator has to correct the price first. */
const COME_BACK = 300

/**
 * Compares the listed prices with those of the billing provider, so that no checkout charges another price than was
 * shown. Each process checks at start, periodically and before a checkout; concurrent checks share one request.
 */
export class PriceCheck {
  readonly #options: PriceCheckOptions
  readonly #seen = new Map<SoldPlan, Seen>()
  readonly #inFlight = new Map<SoldPlan, Promise<Seen>>()

  constructor(options: PriceCheckOptions) {
    this.#options = options
    options.metrics.sampled(
      'boltgate_billing_price_wrong',
      'Plans whose price at the billing provider is not the listed one (1): they are not sold by card.',
      ['plan'],
      async () => [...this.#seen].map(([plan, { wrong }]) => ({ labels: { plan }, value: wrong === null ? 0 : 1 }))
    )
  }

  async look(): Promise<void> {
    await Promise.all(soldPlans.map(plan => this.#look(plan)))
  }

  /**
   * Resolves when a checkout would charge the listed price.
   * @throws Unavailable when it would not; BillingError when the provider fails
   */
  async agree(plan: SoldPlan): Promise<void> {
    const last = this.#seen.get(plan)
    const believed =
      last !== undefined &&
      this.#options.clock.monotonic() - last.at < (last.wrong === null ? CACHE_TTL.right : CACHE_TTL.wrong)
    const { wrong } = believed ? last : await this.#look(plan)
    if (wrong === null) return
    throw new Unavailable(
      PLAN_NOT_FOR_SALE,
      `The plan ${plan} cannot be bought by card at the moment: its price at the billing provider is not the listed one. ` +
        'The operator finds in the log what has to be corrected.',
      COME_BACK
    )
  }

  #look(plan: SoldPlan): Promise<Seen> {
    const begun = this.#inFlight.get(plan)
    if (begun !== undefined) return begun
    const looking = this.#ask(plan).finally(() => {
      this.#inFlight.delete(plan)
    })
    this.#inFlight.set(plan, looking)
    return looking
  }

  async #ask(plan: SoldPlan): Promise<Seen> {
    const { provider, clock, log } = this.#options
    const wrong = wrongWith(plan, await provider.price(plan))
    const seen: Seen = { wrong, at: clock.monotonic() }
    this.#seen.set(plan, seen)
    if (wrong !== null)
      log.error({ plan, setting: `billing.prices.${plan}` }, `THE PLAN ${plan} IS NOT SOLD BY CARD: ${wrong}`)
    return seen
  }
}

/** Null for a price that charges what is listed. */
function wrongWith(plan: SoldPlan, price: BilledPrice | null): string | null {
  const listed = `it is listed with ${amount(planPricesUsd[plan] * 100, 'usd')} each month`
  if (price === null) return `the billing provider has no price with the id of billing.prices.${plan}`
  const { priceId, every, currency, isActive } = price
  if (
    price.amount !== planPricesUsd[plan] * 100 ||
    currency !== 'usd' ||
    every?.interval !== 'month' ||
    every.count !== 1
  ) {
    return `${listed}, and the price ${priceId} charges ${amount(price.amount, currency)} ${cadence(every)}; name one that charges the listed in billing.prices.${plan}`
  }
  return isActive ? null : `the price ${priceId} is archived, so that nothing can be bought with it`
}

/** In the currency's smallest unit, since the number of decimals varies. */
function amount(units: number | null, currency: string): string {
  return units === null ? `no fixed amount in ${currency}` : `${units} of the smallest unit of ${currency}`
}

function cadence(every: BilledPrice['every']): string {
  if (every === null) return 'once'
  return every.count === 1 ? `each ${every.interval}` : `each ${every.count} ${every.interval}s`
}
