import { randomUUID } from 'node:crypto'
import type { Database } from '../../platform/database/database.ts'
import type { Clock, Timer } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Use } from './entries.ts'
import {
  leaseTimes,
  Slices,
  type LeaseTimes,
  type BalanceReservation,
  type HeldReservation,
  type Refused,
  type Slice
} from './slice.ts'
import { SliceGrants } from './slice-grants.ts'
import { SliceWrites } from './slice-writes.ts'
import type { BalanceStore } from './store.ts'

/** Amounts here are millisatoshis, and times milliseconds. */

/** What came of asking for more: all of it, not enough is left, or the database could not be asked. */
export type Grown = 'grown' | 'refused' | 'away'

/** What was settled. */
export interface Settled {
  readonly chargedMsat: number
  /** What the usage cost beyond that and the balance could not bear. */
  readonly unpaidMsat: number
  /** As of `Refused`, after it. */
  readonly leftMsat: number
}

/** What a ledger is built from. */
export interface LedgerParts {
  readonly store: BalanceStore
  readonly database: Pick<Database, 'listen' | 'notify'>
  readonly clock: Clock
  readonly log: Log
  /** Told of what a settled request took, and of what it lacked. */
  readonly settled?: (chargedMsat: number, unpaidMsat: number) => void
  /** `payment.leaseTimeout`: twice as long after its last write a dead gateway's slice is swept. */
  readonly timeout?: number
  /** A name for tests; a random UUID for each process otherwise. */
  readonly gateway?: string
}

/** How long a dead gateway's lease is kept unless the configuration says otherwise. */
const LEASE_TIMEOUT = 30_000
const FLUSH_WITHIN = 1_000
/** Names the balance that another gateway has too little free of; or, behind `CLOSED`, one that is closed. */
const GIVE_BACK_CHANNEL = 'boltgate_slices'
const CLOSED = 'closed '

/**
 * The balances as one gateway spends them. It holds a slice of each balance that is in use, granted by one statement;
 * requests reserve of it and are settled in memory, and what they took is written with that of others a tenth of a
 * second later. So a balance is never overdrawn, whatever several gateways do: what is reserved was granted.
 *
 * When a gateway dies, what its slices had reserved at their last write is billed to the balance (`sweep`), and the rest
 * goes back. What was used since that write is the seller's loss, and never more than the slice.
 */
export class Ledger {
  readonly gateway: string
  readonly #store: BalanceStore
  readonly #database: Pick<Database, 'listen' | 'notify'>
  readonly #clock: Clock
  readonly #log: Log
  readonly #told: (chargedMsat: number, unpaidMsat: number) => void
  readonly #times: LeaseTimes
  readonly #slices = new Slices()
  readonly #writes: SliceWrites
  readonly #grants: SliceGrants
  #beat: Timer | null = null
  #unlisten: (() => Promise<void>) | null = null

  constructor({ store, database, clock, log, settled, timeout = LEASE_TIMEOUT, gateway }: LedgerParts) {
    const times = (this.#times = leaseTimes(timeout))
    this.#store = store
    this.#database = database
    this.#clock = clock
    this.#log = log
    this.#told = settled ?? (() => {})
    this.gateway = gateway ?? randomUUID()
    const shared = { store, clock, times, slices: this.#slices, gateway: this.gateway }
    this.#writes = new SliceWrites({ ...shared, log })
    this.#grants = new SliceGrants({
      ...shared,
      writes: this.#writes,
      askOthers: balanceId => database.notify(GIVE_BACK_CHANNEL, balanceId)
    })
  }

  /** Begins to give back what other gateways ask for. */
  async start(): Promise<void> {
    this.#unlisten ??= await this.#database.listen(GIVE_BACK_CHANNEL, heard => {
      if (heard.startsWith(CLOSED)) this.#end(heard.slice(CLOSED.length))
      else this.#giveBack(heard)
    })
  }

  /** What the slices of this gateway hold of balances, for metrics and tests. */
  get held(): { readonly slices: number; readonly msat: number; readonly reservedMsat: number } {
    const all = [...this.#slices.all]
    return {
      slices: all.length,
      msat: all.reduce((sum, slice) => sum + slice.amount, 0),
      reservedMsat: all.reduce((sum, slice) => sum + slice.reserved, 0)
    }
  }

  /**
   * Reserves a part of a balance for a request. At once where this gateway's slice has it; else a promise, which
   * rejects when the database is away: nothing is known to be reserved then.
   */
  reserve(balanceId: string, msat: number): BalanceReservation | Promise<BalanceReservation | Refused> {
    let slice = this.#slices.current(balanceId)
    if (slice?.isGranted === true && !this.#isTrusted(slice)) {
      // The database was away for long: somebody may have swept it.
      this.#slices.retire(slice)
      this.#writes.soon(slice)
      slice = undefined
    }
    slice ??= this.#open(balanceId)
    if (slice.waiting.length === 0 && slice.isGranted && slice.free >= msat) return this.#writes.hold(slice, msat)
    return this.#grants.hold(slice, msat, false)
  }

  /**
   * Lets a reservation grow while its request is served: by `need` at least and `want` at most. At once where the slice
   * has it; else more is asked for. It grows by nothing where it is not 'grown'. Of one reservation one at a time.
   */
  grow(reservation: BalanceReservation, need: number, want: number): Grown | Promise<Grown> {
    // Every reservation is made by `Slice.hold`.
    const held = reservation as HeldReservation
    const { slice } = held
    if (held.isSettled || slice.state === 'lost') return 'refused'
    // Somebody may have swept it: what is free in it is nobody's.
    if (!this.#isTrusted(slice)) return 'away'
    const { free } = slice
    if (free < need) return this.#growLater(held, need)
    held.msat += this.#writes.hold(slice, Math.min(free, Math.max(need, want))).msat
    return 'grown'
  }

  async #growLater(held: HeldReservation, need: number): Promise<Grown> {
    const { slice } = held
    let got: HeldReservation | Refused
    try {
      got = await this.#grants.hold(slice, need, false)
    } catch (error) {
      this.#log.warn(
        { balance: slice.balanceId, err: error },
        'A balance could not be asked for more while a response was sent'
      )
      return 'away'
    }
    if (got.kind === 'refused') return 'refused'
    // The request ended meanwhile; what came is free again.
    if (held.isSettled) slice.reserved -= got.msat
    else held.msat += got.msat
    this.#writes.soon(slice)
    return held.isSettled ? 'refused' : 'grown'
  }

  /**
   * Ends a reservation with what the request cost, which may be nothing. More than was reserved is taken as far as the
   * balance has it; the balance is then at zero, and the rest is the seller's loss. At once where the slice has it.
   */
  settle(reservation: BalanceReservation, msat: number, use: Use): Settled | Promise<Settled> {
    // Every reservation is made by `Slice.hold`.
    const held = reservation as HeldReservation
    if (held.isSettled) return { chargedMsat: 0, unpaidMsat: 0, leftMsat: held.slice.left }
    held.isSettled = true
    if (held.slice.state === 'lost') return this.#unpaid(msat)
    const lacking = msat - held.msat - held.slice.free
    if (lacking > 0) return this.#settleMore(held, msat, use)
    return this.#settleOf(held.slice, held.msat, msat, msat, use)
  }

  /**
   * Lets go of a balance that is closed, here and at the other gateways: at once of what is not reserved, and of the rest as
   * the requests end.
   */
  async letGo(balanceId: string): Promise<void> {
    this.#end(balanceId)
    await this.#database.notify(GIVE_BACK_CHANNEL, `${CLOSED}${balanceId}`)
  }

  /** What is left of a balance as far as it is known here; null where this gateway has no slice of it. */
  left(balanceId: string): number | null {
    const slice = this.#slices.current(balanceId)
    return slice?.isGranted === true ? slice.left : null
  }

  /** What the request of a balance that was settled last was charged, as far as this gateway remembers. */
  lastCharged(balanceId: string): number | null {
    return this.#slices.current(balanceId)?.lastCharged ?? null
  }

  /**
   * Settles what gateways that died had reserved, and gives the rest of their slices back; a periodic job's. Returns
   * how many slices.
   */
  async sweep(): Promise<number> {
    const gone = await this.#store.sweep(this.#clock.now(), 1_000)
    for (const { balanceId, gateway, chargedMsat } of gone)
      this.#log.warn(
        { balance: balanceId, gateway, chargedMsat },
        'A gateway died with a slice of a balance; what it had reserved is charged and the rest is free again'
      )
    return gone.length
  }

  /**
   * Has what this gateway has charged to a balance written now; resolves when the database has it, or after a second
   * without its answer.
   */
  async flush(balanceId: string): Promise<void> {
    const slice = this.#slices.current(balanceId)
    if (slice?.isGranted !== true) return
    const late = Promise.withResolvers<void>()
    const timer = this.#clock.after(FLUSH_WITHIN, late.resolve)
    await Promise.race([this.#writes.flush(slice), late.promise])
    timer.cancel()
  }

  /** Resolves when what is being written has been. */
  async written(): Promise<void> {
    await this.#writes.written()
  }

  /** Writes all that was settled and gives back what is not reserved. Resolves when the database has it. */
  async close(): Promise<void> {
    this.#rest()
    await this.#unlisten?.()
    this.#unlisten = null
    await this.#writes.close()
  }

  #open(balanceId: string): Slice {
    const slice = this.#slices.open(balanceId, this.#clock.now())
    this.#beat ??= this.#clock.every(this.#times.beat, () => {
      this.#keep()
    })
    return slice
  }

  /** Whether nobody can have swept it. */
  #isTrusted(slice: Slice): boolean {
    return slice.keptUntil - (this.#times.kept - this.#times.trusted) > this.#clock.now()
  }

  #settleOf(slice: Slice, reserved: number, charged: number, cost: number, use: Use): Settled {
    slice.reserved -= reserved
    slice.amount -= charged
    slice.spent += charged
    slice.lastCharged = charged
    slice.usedAt = this.#clock.now()
    const unpaidMsat = cost - charged
    if (cost > 0 || use.basis === 'usage') slice.entries.add(use, charged, unpaidMsat)
    this.#writes.soon(slice)
    this.#told(charged, unpaidMsat)
    return { chargedMsat: charged, unpaidMsat, leftMsat: slice.left }
  }

  /** Of a slice that is lost nothing can be taken. */
  #unpaid(msat: number): Settled {
    this.#told(0, msat)
    return { chargedMsat: 0, unpaidMsat: msat, leftMsat: 0 }
  }

  async #settleMore(held: HeldReservation, msat: number, use: Use): Promise<Settled> {
    const { slice } = held
    let more = 0
    try {
      const got = await this.#grants.hold(slice, msat - held.msat, true)
      if (got.kind === 'reserved') more = got.msat
    } catch (error) {
      // The request was served: what it cost beyond its reservation is lost, and nothing else.
      this.#log.warn(
        { balance: slice.balanceId, err: error },
        'A balance could not be asked for more than was reserved'
      )
    }
    if (slice.state === 'lost') return this.#unpaid(msat)
    // Whoever waited before us may have taken what the database gave; what is free here is the balance's all the same.
    const own = Math.min(msat - held.msat - more, slice.free)
    if (own > 0) {
      slice.reserved += own
      more += own
    }
    const has = held.msat + more
    const charged = Math.min(msat, has)
    return this.#settleOf(slice, has, charged, msat, use)
  }

  /** Extends slices that are in use, and ends those that are not. */
  #keep(): void {
    const now = this.#clock.now()
    const { idle, trusted } = this.#times
    for (const slice of this.#slices.all) {
      // No row is there yet that a write could find: it would be taken for one that was swept.
      if (!slice.isGranted) continue
      if (slice.reserved > 0 || now - slice.usedAt >= idle || slice.keptUntil - now < trusted) this.#writes.soon(slice)
    }
    if (this.#slices.all.size === 0) this.#rest()
  }

  #rest(): void {
    this.#beat?.cancel()
    this.#beat = null
  }

  #end(balanceId: string): void {
    const slice = this.#slices.current(balanceId)
    if (slice === undefined) return
    this.#slices.retire(slice)
    // What is still being granted goes back once it is here.
    if (slice.isGranted) this.#writes.now(slice)
  }

  #giveBack(balanceId: string): void {
    const slice = this.#slices.current(balanceId)
    if (slice === undefined || slice.isGrabbing || slice.free === 0) return
    slice.isAskedFor = true
    this.#writes.now(slice)
  }
}
