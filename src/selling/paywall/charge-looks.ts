import { LRUCache } from 'lru-cache'
import type { ChargeState } from '../../lightning/providers/provider.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Challenge } from '../holding/challenge.ts'

/** What is needed to ask providers how single charges stand. */
export interface ChargeLooksParts {
  readonly clock: Clock
  readonly log: Log
  /** Asks the account that made the invoice; null where it knows nothing of it or is another by now. */
  lookUp(challenge: Challenge): Promise<ChargeState | null>
  /** Names whose calls its provider counts: those of the account, or all from our address. */
  countedOf(challenge: Challenge): string
  /** Notes that it was paid. */
  settled(paymentHash: string): Promise<void>
}

const SECOND = 1000
/** Between two looks at one charge: shorter in the minute in which most pay. */
const OFTEN = 3 * SECOND
const SELDOM = 10 * SECOND
const MINUTE = 60 * SECOND
/**
 * Polls of one process in a minute, where a provider counts them together: invoices must still be made. A network that
 * polled less than `LIGHT` times may go on to `MOST`, or one that follows a few unpaid pages would leave nothing to the
 * others.
 */
const PER_MINUTE = 60
const LIGHT = 10
const MOST = 90
/** A reader waits no longer for a provider. */
const PATIENCE = 4 * SECOND
const REMEMBERED = 10_000

/** Polls in a minute that a provider counts together. */
interface Polls {
  all: number
  readonly byNetwork: Map<string, number>
}

/**
 * Asks providers about charges whose page somebody looks at. Most of them tell of a payment by themselves, or are listed
 * by the poller, but that may take minutes, and a reader who has paid stands at the door.
 */
export class ChargeLooks {
  readonly #parts: ChargeLooksParts
  readonly #askedAt = new LRUCache<string, number>({ max: REMEMBERED })
  #minute = 0
  readonly #inMinute = new Map<string, Polls>()

  constructor(parts: ChargeLooksParts) {
    this.#parts = parts
  }

  /**
   * Whether the provider says that the invoice was paid; false also where it was asked a moment ago, does not answer in
   * time or cannot be asked. What it says later is noted all the same. Never rejects.
   */
  async isPaid(challenge: Challenge): Promise<boolean> {
    if (!this.#mayAsk(challenge)) return false
    const { clock } = this.#parts
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
    const now = this.#parts.clock.now()
    const before = this.#askedAt.get(paymentHash)
    if (before !== undefined && now - before < (now - createdAt < MINUTE ? OFTEN : SELDOM)) return false
    const minute = Math.floor(now / MINUTE)
    if (minute !== this.#minute) {
      this.#minute = minute
      this.#inMinute.clear()
    }
    const counted = this.#parts.countedOf(challenge)
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
    const { log, lookUp, settled } = this.#parts
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
