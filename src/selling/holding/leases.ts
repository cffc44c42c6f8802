import { randomUUID } from 'node:crypto'
import { Batch } from '../../platform/database/batch.ts'
import { Unavailable } from '../../engine/operations/errors.ts'
import type { Clock, Timer } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { ClaimedChallenge, GivenBack, LeaseKey, NewLease } from './challenge.ts'
import type { LeaseRow } from './sql/statements.ts'
import type { ChallengeStore } from './store.ts'

/**
 * `held`: undecided. `spending`: the write is pending. `spent`: durable. `released`: given back. `lost`: taken over by
 * another lease.
 */
type LeaseState = 'held' | 'spending' | 'spent' | 'released' | 'lost'

export interface Lease extends NewLease {
  readonly state: LeaseState
  /** Releases for clients that had left. */
  readonly returns: number
}

interface Held extends NewLease, GivenBack {
  state: LeaseState
  returns: number
  isCounted: boolean
  /** This process trusts it until then; the database keeps it longer. */
  until: number
  /** Resolves when a release is durable or given up. */
  settled: PromiseWithResolvers<void> | null
}

/** `timeout`: maximum milliseconds until a dead gateway's lease is free. */
interface LeasesOptions {
  readonly store: ChallengeStore
  readonly clock: Clock
  readonly log: Log
  readonly timeout: number
  readonly gateway?: string
}

const FIRST_RETRY = 100
const LAST_RETRY = 5_000
// Maximum milliseconds that a client waits for its release, so that its retry succeeds.
const RELEASE_WAIT = 2_000
// Maximum doubtful leases to release after a database outage; the rest lapse.
const MAX_DOUBTFUL = 10_000

/**
 * The leases of this process. One is taken before a request is forwarded, and ends spent with the response, or
 * released. Writes are batched and retried until stored. A heartbeat extends held leases. If the process dies they
 * lapse: into spent if final, else unspent.
 */
export class Leases {
  readonly gateway: string
  readonly #store: ChallengeStore
  readonly #clock: Clock
  readonly #log: Log
  readonly #duration: number
  readonly #kept: number
  readonly #heartbeatEvery: number
  readonly #held = new Map<string, Held>()
  readonly #byHash = new Map<string, Held>()
  readonly #spends = new Set<Held>()
  readonly #releases = new Set<Held>()
  readonly #spending: Batch<Held, boolean>
  readonly #releasing: Batch<Held, null>
  #again = new Set<Held>()
  #retry: Timer | null = null
  #retryAfter = FIRST_RETRY
  #heartbeat: Timer | null = null
  #beating = false

  constructor(options: LeasesOptions) {
    this.#store = options.store
    this.#clock = options.clock
    this.#log = options.log
    this.gateway = options.gateway ?? randomUUID()
    // Trusted for 2/3 of the timeout, left alone by others for 5/6: clocks may differ by 1/6.
    this.#duration = Math.floor((options.timeout * 2) / 3)
    this.#kept = Math.floor((options.timeout * 5) / 6)
    this.#heartbeatEvery = Math.floor(options.timeout / 6)
    const key = (held: Held): string => held.paymentHash
    this.#spending = new Batch({
      key,
      write: async given => {
        const spent = new Set(await this.#store.spend(given, this.#clock.now()))
        return given.map(({ leaseId }) => spent.has(leaseId))
      }
    })
    this.#releasing = new Batch({
      key,
      write: async given => {
        await this.#store.release(given)
        return given.map(() => null)
      }
    })
  }

  get open(): number {
    return this.#held.size
  }

  /** The response has gone out here, but the database lacks the spend. */
  delivered(paymentHash: string): boolean {
    const held = this.#byHash.get(paymentHash)
    return held?.state === 'spending' && this.#spends.has(held)
  }

  /**
   * Takes the payment for one redemption. `take` runs the conditional UPDATE, `ChallengeStore.lease`, alone or in a
   * transaction. Null if spent, leased or claimed by another scheme. Rejects if the database is down. `isFinal`: a
   * crash lapses the lease into spent (decision 183).
   */
  async acquire(
    paymentHash: string,
    take: (row: LeaseRow) => Promise<ClaimedChallenge | null>,
    isFinal = false
  ): Promise<{ readonly lease: Lease; readonly claimed: ClaimedChallenge } | null> {
    // Counts even after lapsing in the database: the response is in flight, or its spend not written.
    const own = this.#byHash.get(paymentHash)?.state
    if (own === 'held' || own === 'spending') return null
    const now = this.#clock.now()
    const held: Held = {
      paymentHash,
      leaseId: randomUUID(),
      isFinal,
      returns: 0,
      isCounted: false,
      state: 'held',
      until: now + this.#duration,
      settled: null
    }
    let claimed: ClaimedChallenge | null
    try {
      const { gateway } = this
      claimed = await take({ paymentHash, leaseId: held.leaseId, isFinal, gateway, until: now + this.#kept, now })
    } catch (error) {
      // It may have been taken and only the answer lost; the payer's retry must not find it in use.
      if (this.#releases.size < MAX_DOUBTFUL) {
        held.state = 'released'
        this.#releases.add(held)
        void this.#release(held)
      }
      throw error
    }
    if (claimed === null) return null
    held.returns = claimed.returns
    this.#held.set(held.leaseId, held)
    this.#byHash.set(paymentHash, held)
    this.#heartbeat ??= this.#clock.every(this.#heartbeatEvery, () => {
      this.#beat()
    })
    return { lease: held, claimed }
  }

  /**
   * Requires our lease before the head goes out: synchronous while it is valid. If it has lapsed, resolves once the
   * spend is durable, or rejects with 503.
   */
  confirm(lease: Lease): void | Promise<void> {
    if (lease.state === 'spending' || lease.state === 'spent') return
    const held = this.#held.get(lease.leaseId)
    if (held === undefined || held.state !== 'held') return Promise.reject(lapsed())
    if (this.#clock.now() >= held.until) return this.#confirm(held)
  }

  /** Spends before the response goes out: `confirm`, and starts the write. */
  spend(lease: Lease): void | Promise<void> {
    const confirmed = this.confirm(lease)
    if (confirmed !== undefined) return confirmed
    this.settle(lease)
  }

  /** Spends a held lease after its response; the write is retried until stored. */
  settle(lease: Lease): void {
    if (lease.state === 'lost') this.#usedAgain(lease)
    const held = this.#held.get(lease.leaseId)
    if (held?.state !== 'held') return
    held.state = 'spending'
    this.#spends.add(held)
    void this.#spend(held)
  }

  /**
   * Releases the payment after an undeliverable response, even if its spend was begun or done. Resolves when it can be
   * redeemed, or after a short timeout; the write is retried anyway. `isCounted`: counts as a return to a client that
   * left (decision 184).
   */
  async release(lease: Lease, isCounted = false): Promise<void> {
    // Every Lease that left this class is a Held.
    const held = lease as Held
    if (held.state === 'lost') return
    if (held.state === 'released') return held.settled?.promise
    held.state = 'released'
    held.isCounted = isCounted
    this.#releases.add(held)
    const settled = (held.settled ??= Promise.withResolvers<void>())
    // The release must be written after a pending spend.
    const isUnderWay = this.#spends.has(held) && !this.#again.delete(held)
    if (!isUnderWay) {
      this.#spends.delete(held)
      void this.#release(held)
    }
    const timer = this.#clock.after(RELEASE_WAIT, settled.resolve)
    await settled.promise
    timer.cancel()
  }

  /** Shutdown: flushes pending writes, with one retry. Held leases lapse. */
  async close(): Promise<void> {
    this.#heartbeat?.cancel()
    this.#heartbeat = null
    await this.#drained()
    this.#retryNow()
    await this.#drained()
    this.#retry?.cancel()
    this.#retry = null
    const lost = this.#spends.size
    if (lost > 0)
      this.#log.error(
        { spends: lost },
        'Spends of delivered credentials could not be written before the end; those of safe methods become usable again'
      )
  }

  #forget(held: Held, state: LeaseState): void {
    held.state = state
    this.#held.delete(held.leaseId)
    if (this.#byHash.get(held.paymentHash) === held) this.#byHash.delete(held.paymentHash)
    held.settled?.resolve()
    if (this.#held.size === 0) {
      this.#heartbeat?.cancel()
      this.#heartbeat = null
    }
  }

  async #confirm(held: Held): Promise<void> {
    held.state = 'spending'
    let isSpent: boolean
    try {
      isSpent = await this.#spending.add(held)
    } catch (error) {
      // The write's outcome is unknown; a later release settles either case.
      if (held.state === 'spending') held.state = 'held'
      throw lapsed(error)
    }
    if (isSpent) {
      // Otherwise it was released for a client that left.
      if (held.state === 'spending') this.#forget(held, 'spent')
      return
    }
    this.#forget(held, 'lost')
    throw lapsed()
  }

  async #spend(held: Held): Promise<void> {
    let isDurable: boolean
    try {
      isDurable = await this.#spending.add(held)
    } catch (error) {
      this.#later(held, error)
      return
    }
    this.#written()
    this.#spends.delete(held)
    if (held.state !== 'spending') {
      // Released while the spend was pending.
      await this.#release(held)
      return
    }
    if (!isDurable) this.#usedAgain(held)
    this.#forget(held, isDurable ? 'spent' : 'lost')
  }

  #usedAgain({ paymentHash }: LeaseKey): void {
    this.#log.error({ paymentHash }, 'A lease lapsed before its spend was written and the payment was used again')
  }

  async #release(held: Held): Promise<void> {
    try {
      await this.#releasing.add(held)
    } catch (error) {
      this.#later(held, error)
      return
    }
    this.#written()
    this.#releases.delete(held)
    this.#forget(held, 'released')
  }

  /** The outcome is unknown; repeating is harmless, since every condition includes the lease id. */
  #later(held: Held, error: unknown): void {
    this.#again.add(held)
    if (this.#retry !== null) return
    this.#log.warn(
      { spends: this.#spends.size, releases: this.#releases.size, retryMs: this.#retryAfter, err: error },
      'Spends and releases could not be written yet'
    )
    this.#schedule()
  }

  #schedule(): void {
    this.#retry?.cancel()
    this.#retry = this.#clock.after(this.#retryAfter, () => {
      this.#retryNow()
    })
    this.#retryAfter = Math.min(LAST_RETRY, this.#retryAfter * 2)
  }

  /** The database takes writes again: shorten the retry. */
  #written(): void {
    if (this.#again.size === 0) this.#retryAfter = FIRST_RETRY
    // Armed for the first pause, the next would be twice as long.
    else if (this.#retryAfter > 2 * FIRST_RETRY) {
      this.#retryAfter = FIRST_RETRY
      this.#schedule()
    }
  }

  #retryNow(): void {
    this.#retry?.cancel()
    this.#retry = null
    const again = this.#again
    this.#again = new Set()
    for (const held of again) {
      if (held.state === 'released') {
        // Settles it whether the spend was written or not.
        this.#spends.delete(held)
        void this.#release(held)
      } else void this.#spend(held)
    }
  }

  async #drained(): Promise<void> {
    // A release may follow a spend.
    await this.#spending.drained()
    await this.#releasing.drained()
  }

  #beat(): void {
    if (this.#beating || this.#held.size === 0) return
    this.#beating = true
    this.#extend().finally(() => {
      this.#beating = false
    })
  }

  async #extend(): Promise<void> {
    const keys = [...this.#held.values()].filter(({ state }) => state === 'held' || state === 'spending')
    if (keys.length === 0) return
    const now = this.#clock.now()
    let kept: Set<string>
    try {
      kept = new Set(await this.#store.extend(this.gateway, keys, now + this.#kept))
    } catch (error) {
      this.#log.warn({ leases: keys.length, err: error }, 'Leases could not be extended')
      return
    }
    for (const held of keys) {
      // Settled or spent meanwhile.
      if (this.#held.get(held.leaseId) !== held || held.state !== 'held') continue
      if (kept.has(held.leaseId)) held.until = now + this.#duration
      else this.#forget(held, 'lost')
    }
  }
}

function lapsed(cause?: unknown): Unavailable {
  return new Unavailable(
    'Payment not confirmed',
    'The payment could not be confirmed in time; it was not used up. Send the same request again.',
    5,
    {},
    cause
  )
}
