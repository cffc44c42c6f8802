import { LRUCache } from 'lru-cache'
import type { ChargeState } from '../../lightning/providers/provider.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Challenge } from '../holding/challenge.ts'

/** What charges are looked up with. */
export interface ChargeLooksOptions {
  readonly clock: Clock
  readonly log: Log
  /** Looks up the charge at the account that made it; null where that is gone. */
  lookUp(challenge: Challenge): Promise<ChargeState | null>
  /** Names the provider's rate limit: of the account, or of all calls from our address. */
  countedOf(challenge: Challenge): string
  settled(paymentHash: string): Promise<void>
}

const SECOND = 1000
/** Interval of polls of one charge: shorter in the minute in which most pay. */
const OFTEN = 3 * SECOND
const SELDOM = 10 * SECOND
const MINUTE = 60 * SECOND
/**
 * Polls per minute of one rate limit: calls must be left for invoices. A network with fewer than `LIGHT` polls may go on
 * to `MOST`, so that a few unpaid pages of one network do not starve others.
 */
const PER_MINUTE = 60
const LIGHT = 10
const MOST = 90
/** Timeout of a poll for its reader. */
const PATIENCE = 4 * SECOND
const REMEMBERED = 10_000

interface Polls {
  all: number
  readonly byNetwork: Map<string, number>
}

/**
 * Polls providers for charges whose page is open. Notifications and the poller may take minutes, and a reader who has paid
 * waits for access.
 */
export class ChargeLooks {
  readonly #options: ChargeLooksOptions
  readonly #askedAt = new LRUCache<string, number>({ max: REMEMBERED })
  #minute = 0
  readonly #inMinute = new Map<string, Polls>()

  constructor(options: ChargeLooksOptions) {
    this.#options = options
  }

  /**
   * Whether the provider reports the invoice as paid; false also when it was polled a moment ago, does not answer in time
   * or fails. A late answer is recorded. Never rejects.
   */
  async isPaid(challenge: Challenge): Promise<boolean> {
    if (!this.#mayAsk(challenge)) return false
    const { clock } = this.#options
    const given = Promise.withResolvers<boolean>()
    const patience = clock.after(PATIENCE, () => {
      given.resolve(false)
    })
    void this.#ask(challenge).then(given.resolve)
    const isPaid = await given.promise
    patience.cancel()
    return isPaid
  }

  #mayAsk(challenge: Challenge): boolean {
    const { paymentHash, createdAt, clientKey } = challenge
    const now = this.#options.clock.now()
    const before = this.#askedAt.get(paymentHash)
    if (before !== undefined && now - before < (now - createdAt < MINUTE ? OFTEN : SELDOM)) return false
    const minute = Math.floor(now / MINUTE)
    if (minute !== this.#minute) {
      this.#minute = minute
      this.#inMinute.clear()
    }
    const counted = this.#options.countedOf(challenge)
    const polls = this.#inMinute.get(counted) ?? { all: 0, byNetwork: new Map() }
    const ofNetwork = polls.byNetwork.get(clientKey) ?? 0
    if (polls.all >= (ofNetwork < LIGHT ? MOST : PER_MINUTE)) return false
    polls.all++
    polls.byNetwork.set(clientKey, ofNetwork + 1)
    this.#inMinute.set(counted, polls)
    this.#askedAt.set(paymentHash, now)
    return true
  }

  async #ask(challenge: Challenge): Promise<boolean> {
    const { log, lookUp, settled } = this.#options
    try {
      const state = await lookUp(challenge)
      if (state?.status !== 'paid') return false
      await settled(challenge.paymentHash)
      return true
    } catch (error) {
      log.debug(
        { err: error, provider: challenge.providerKind },
        'a provider could not be asked for the reader of a page'
      )
      return false
    }
  }
}
