import { LRUCache } from 'lru-cache'
import type { ChargeState } from '../../lightning/provider-calls/provider.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Challenge } from './challenge.ts'

export interface ChargeSources {
  /** Looks up the charge at the account that made it; null if that is gone. */
  readonly lookUp: (challenge: Challenge) => Promise<ChargeState | null>
  /** Rate limit of the provider: per account, or for all calls from our address. */
  readonly countedOf: (challenge: Challenge) => string
  /** Others may make invoices at its node, or the kind is unknown: a preimage alone proves no payment. */
  readonly isShared: (challenge: Challenge) => boolean
}

export interface ChargePollsOptions extends Pick<ChargeSources, 'lookUp' | 'countedOf'> {
  readonly clock: Clock
  readonly log: Log
  settled(paymentHash: string): Promise<void>
}

const SECOND = 1000
/** Polling interval of a charge in the minute in which most pay. */
const OFTEN = 3 * SECOND
const SLOW_POLL = 10 * SECOND
const MINUTE = 60 * SECOND
/**
 * Polls per minute of one rate limit, to leave calls for invoices. Networks below `LIGHT` polls may use up to `MOST`,
 * so that one network's unpaid pages do not starve others.
 */
const PER_MINUTE = 60
const LIGHT = 10
const MOST = 90
const PATIENCE = 4 * SECOND
const REMEMBERED = 10_000

interface Polls {
  all: number
  readonly byNetwork: Map<string, number>
}

/** Polls charges whose page is open: notifications and the poller may take minutes, and the reader waits for access. */
export class ChargePolls {
  readonly #options: ChargePollsOptions
  readonly #askedAt = new LRUCache<string, number>({ max: REMEMBERED })
  #minute = 0
  readonly #inMinute = new Map<string, Polls>()

  constructor(options: ChargePollsOptions) {
    this.#options = options
  }

  /**
   * The provider reports the payment; false also if just polled, timed out or failed. A late answer is recorded. Never
   * rejects. `isProven`: a preimage was shown, so only the provider's own limits bound the call.
   */
  async isPaid(challenge: Challenge, isProven = false): Promise<boolean> {
    if (!isProven && !this.#mayAsk(challenge)) return false
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
    if (before !== undefined && now - before < (now - createdAt < MINUTE ? OFTEN : SLOW_POLL)) return false
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
