import { randomUUID } from 'node:crypto'
import { Batch } from '../../platform/database/batch.ts'
import { Unavailable } from '../../engine/operations/errors.ts'
import type { Clock, Timer } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { ClaimedChallenge, GivenBack, LeaseKey, NewLease, Sale } from './challenge.ts'
import type { ChallengeStore } from './store.ts'

/**
 * `held`: leased, nothing decided. `spending`: the spend is being written. `spent`: it is durable. `released`: given
 * back. `lost`: another lease has taken the payment.
 */
export type LeaseState = 'held' | 'spending' | 'spent' | 'released' | 'lost'

export interface Lease extends NewLease {
  readonly state: LeaseState
  /** How often its payment was released for a client that had left. */
  readonly returns: number
}

interface Held extends NewLease, GivenBack {
  state: LeaseState
  returns: number
  isCounted: boolean
  /** Until when this process trusts it; the database keeps it longer. Milliseconds since the epoch. */
  until: number
  /** Resolved when a release is durable or was given up. */
  settled: PromiseWithResolvers<void> | null
}

/** Runs the UPDATE that takes a lease. */
export type Take<C extends Sale> = (
  key: NewLease,
  gateway: string,
  until: number,
  now: number
) => Promise<ClaimedChallenge<C> | null>

/** `timeout` in milliseconds: a dead gateway's lease is free again after at most this time. */
export interface LeasesOptions {
  readonly store: ChallengeStore
  readonly clock: Clock
  readonly log: Log
  readonly timeout: number
  /** A random UUID unless a test fixes it. */
  readonly gateway?: string
}

const FIRST_RETRY = 100
const LAST_RETRY = 5_000
// The client waits this long at most for its payment to be released, so that its retry finds it.
const RELEASE_WAIT = 2_000
// Maximum releases of doubtful leases kept while the database is down; the rest lapse.
const MAX_DOUBTFUL = 10_000

/**
 * The leases of this process. A lease is taken before a request is forwarded and ends in one of two writes: spent, when
 * the response is over, or released. Writes are batched, and retried until the database has them. A heartbeat extends
 * held leases; when the process dies, they lapse: into unspent, or into spent where they are final.
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
  /** Pending writes. */
  readonly #spends = new Set<Held>()
  readonly #releases = new Set<Held>()
  readonly #spending: Batch<Held, boolean>
  readonly #releasing: Batch<Held, null>
  /** Those of them that wait for a retry. */
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
    // The holder trusts a lease for 2/3 of the timeout, others leave it alone for 5/6: clocks may differ by 1/6.
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

  /** Leases that are not settled yet, for metrics and tests. */
  get open(): number {
    return this.#held.size
  }

  /** Whether a response for this payment has gone out here, and the database does not have the spend yet. */
  delivered(paymentHash: string): boolean {
    const held = this.#byHash.get(paymentHash)
    return held?.state === 'spending' && this.#spends.has(held)
  }

  /**
   * Takes the payment for one redemption. `take` runs the one conditional UPDATE, `ChallengeStore.lease`, alone or in a
   * transaction. Null when the payment is spent, leased or claimed by another scheme. Rejects when the database is
   * away. `isFinal`: when this process dies, the lease lapses into spent (decision 183).
   */
  async acquire<C extends Sale>(
    paymentHash: string,
    take: Take<C>,
    isFinal = false
  ): Promise<{ readonly lease: Lease; readonly claimed: ClaimedChallenge<C> } | null> {
    // Our own lease counts even when it has lapsed in the database: its response is under way, or its spend is not
    // written yet.
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
    let claimed: ClaimedChallenge<C> | null
    try {
      claimed = await take(held, this.gateway, now + this.#kept, now)
    } catch (error) {
      // Perhaps it was taken and only the answer was lost; the payer must not find it in use when it comes again.
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
   * Requires a lease that is still ours, before the head goes out. Returns nothing while it is good. When it has lapsed
   * here the result is a promise: it resolves once the spend is durable, and rejects with 503 when that cannot be had.
   */
  confirm(lease: Lease): void | Promise<void> {
    if (lease.state === 'spending' || lease.state === 'spent') return
    const held = this.#held.get(lease.leaseId)
    if (held === undefined || held.state !== 'held') return Promise.reject(lapsed())
    if (this.#clock.now() >= held.until) return this.#confirm(held)
  }

  /** Spends the payment before its response goes out: `confirm`, and the write is started. */
  spend(lease: Lease): void | Promise<void> {
    const confirmed = this.confirm(lease)
    if (confirmed !== undefined) return confirmed
    this.settle(lease)
  }

  /** Spends a lease that is still held: its response is over. The write is repeated until the database has taken it. */
  settle(lease: Lease): void {
    if (lease.state === 'lost') this.#usedAgain(lease)
    const held = this.#held.get(lease.leaseId)
    if (held?.state !== 'held') return
    held.state = 'spending'
    this.#spends.add(held)
    void this.#spend(held)
  }

  /**
   * Spends a lease and resolves once that is durable, for callers whose response is itself the proof of it.
   * @throws Unavailable when that cannot be had; nothing is known to be spent then
   */
  async spendDurably(lease: Lease): Promise<void> {
    const held = this.#held.get(lease.leaseId)
    if (held === undefined || held.state !== 'held') throw lapsed()
    await this.#confirm(held)
  }

  /**
   * Gives the payment back, also when its spend was begun or done: the response could not be delivered. Resolves when
   * the next redemption can have it, or after a short time at most; the write is repeated in any case. `isCounted`: for
   * a client that left, where that is counted (decision 184).
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
    // A spend that is on its way comes first: the release must be the later write.
    const isUnderWay = this.#spends.has(held) && !this.#again.delete(held)
    if (!isUnderWay) {
      this.#spends.delete(held)
      void this.#release(held)
    }
    const timer = this.#clock.after(RELEASE_WAIT, settled.resolve)
    await settled.promise
    timer.cancel()
  }

  /**
   * Writes what waits to be written, once more if need be. For shutdown: leases that are still held lapse by
   * themselves.
   */
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
      // Not known whether it was written; releasing it afterwards settles both cases.
      if (held.state === 'spending') held.state = 'held'
      throw lapsed(error)
    }
    if (isSpent) {
      // A client that left meanwhile has had it released.
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
      // Released while the spend was on its way.
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

  /** Whether it was written is not known; once more is harmless, as the lease's id stands in every condition. */
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

  /** The database takes writes again: what waits for it need not wait for long any more. */
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
        // It settles both: whether the spend was written or not.
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
