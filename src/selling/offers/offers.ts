import type { FiatText } from '../../engine/checks/money-text.ts'
import type { RouteConfig, FreeCallsConfig } from '../../engine/config/schema.ts'
import { type Prices, fiatOf } from '../../lightning/money/prices.ts'
import type { Database } from '../../platform/database/database.ts'
import { type Maybe, type State, StateUnavailable, type LimitVerdict } from '../../platform/state/state.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { ChallengeCounters } from '../holding/counters.ts'
import type { ChallengeSource } from '../holding/challenge.ts'
import type { Audiences } from '../prices/audience.ts'
import { PriceServers, type AskServer } from '../prices/price-server.ts'
import { OfferedPrices } from './offered-prices.ts'
import { RouteOffers, routePlace, type Offer } from './offer.ts'
import type { ChallengeSettings } from './settings.ts'
import { hash } from 'node:crypto'
import { clientNetwork, widerNetwork } from '../../engine/message/addresses.ts'
import type { Context } from '../../engine/message/context.ts'
import type { HeaderList } from '../../engine/message/headers.ts'
import { keepPrivate } from '../holding/paid-responses.ts'

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

interface FreeCallsOptions {
  readonly state: State
  readonly log: Log
  readonly counters: ChallengeCounters
}

/** Null for an unidentified client. */
type FreeCall = LimitVerdict | null

/**
 * Free calls of a route per client, in a window that begins with the first. Counted in the shared state; during its
 * outage there are none, and requests get a 402.
 */
export class FreeCalls {
  readonly #config: FreeCallsConfig
  readonly #place: string
  readonly #options: FreeCallsOptions
  #isAway = false

  constructor(config: FreeCallsConfig, place: string, options: FreeCallsOptions) {
    this.#config = config
    this.#place = place
    this.#options = options
  }

  /** Takes a free call; `allowed` if one was left. `observes` counts separately. */
  take(ctx: Context, offer: Offer, observes = false): Maybe<FreeCall> {
    const who = this.#who(ctx)
    if (who === null) return null
    const { state } = this.#options
    const { calls, per } = this.#config
    const verdict = state.takeFixed(`free${observes ? ' observed' : ''} ${this.#place} ${who}`, calls, per)
    return verdict instanceof Promise
      ? verdict.then(
          later => this.#counted(later, offer, observes),
          (error: unknown) => this.#away(error)
        )
      : this.#counted(verdict, offer, observes)
  }

  /**
   * Reports the remaining calls, and keeps the response out of shared caches, which would serve it to other clients.
   */
  tell(call: LimitVerdict, headers: HeaderList): void {
    headers.set('X-Free-Calls-Remaining', String(call.allowed ? call.remaining : 0))
    if (call.allowed) keepPrivate(headers)
    else headers.set('X-Free-Calls-Reset', String(Math.ceil(call.retryAfterMs / 1000)))
  }

  #counted(verdict: LimitVerdict, offer: Offer, observes: boolean): FreeCall {
    this.#isAway = false
    if (verdict.allowed && !observes) this.#options.counters.free(offer.source)
    return verdict
  }

  #away(error: unknown): null {
    if (!(error instanceof StateUnavailable)) throw error
    // Once per outage.
    if (!this.#isAway)
      this.#options.log.warn(
        { err: error, place: this.#place },
        'Free calls cannot be counted without the shared state; until then there are none, and requests are asked to pay'
      )
    this.#isAway = true
    return null
  }

  #who(ctx: Context): string | null {
    const { by } = this.#config
    if (by === 'address') return clientNetwork(ctx.clientAddress)
    if (by === 'network') return widerNetwork(ctx.clientAddress)
    const values = ctx.headers.all(by.header.toLowerCase())
    const [value] = values
    // It may be a key, which must not be stored.
    return values.length === 1 && value !== undefined && value !== '' ? hash('sha256', value, 'base64url') : null
  }
}
