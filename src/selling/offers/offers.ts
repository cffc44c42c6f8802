import type { FiatText } from '../../engine/checks/money-text.ts'
import type { RouteConfig } from '../../engine/config/schema.ts'
import type { Prices } from '../../lightning/money/prices.ts'
import type { Database } from '../../platform/database/database.ts'
import type { Maybe, State } from '../../platform/state/state.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { ChallengeCounters } from '../holding/counters.ts'
import type { ChallengeSource } from '../holding/challenge.ts'
import type { Audiences } from '../prices/audience.ts'
import { fiatOf } from '../prices/fiat.ts'
import { PriceServers, type AskServer } from '../prices/price-server.ts'
import { FreeCalls } from './free-calls.ts'
import { OfferedPrices } from './offered-prices.ts'
import { RouteOffers, routePlace, type Offer } from './offer.ts'
import type { ChallengeSettings } from './settings.ts'

interface OffersOptions {
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
  readonly rates: Prices
  readonly state: State
  readonly counters: ChallengeCounters
  readonly askServer?: AskServer
  /** Absent: no route has prices by audience. */
  readonly audiences?: Audiences
  settings(): ChallengeSettings
}

export class Offers {
  readonly prices: OfferedPrices
  readonly #options: OffersOptions
  readonly #servers: PriceServers

  constructor(options: OffersOptions) {
    const { askServer, clock, database, log } = options
    this.#options = options
    this.prices = new OfferedPrices(database, clock, log)
    this.#servers = new PriceServers({ clock, log, ...(askServer === undefined ? {} : { ask: askServer }) })
  }

  async close(): Promise<void> {
    await this.prices.close()
    await this.#servers.close()
  }

  routeOffers(route: RouteConfig): RouteOffers {
    return new RouteOffers(route, this.#options.settings(), this.prices, this.#servers, this.#options.audiences)
  }

  freeCalls(route: RouteConfig): FreeCalls | null {
    return route.free === undefined ? null : new FreeCalls(route.free, routePlace(route), this.#options)
  }

  /**
   * Price in satoshis at the current rate.
   * @throws Unavailable without a rate
   */
  inSatoshis({ amountSats, fiat }: Pick<Offer, 'amountSats' | 'fiat'>): Maybe<number> {
    if (fiat === null) return amountSats ?? 0
    const { currency, amount } = fiatOf(fiat)
    return this.#options.rates.satoshis(currency, amount)
  }

  /** Counts a 402 that would have been sent, once its rate is known. */
  observed({ source, amountSats, fiat }: Offer): void {
    if (fiat === null) this.#options.counters.observed(source, amountSats)
    else void this.#observedFiat(source, fiat)
  }

  async #observedFiat(source: ChallengeSource, fiat: FiatText): Promise<void> {
    const { counters, log } = this.#options
    let satoshis: number | null = null
    try {
      satoshis = await this.inSatoshis({ amountSats: null, fiat })
    } catch (error) {
      log.debug({ err: error }, 'What an observed request would have cost is not known')
    }
    counters.observed(source, satoshis)
  }
}
