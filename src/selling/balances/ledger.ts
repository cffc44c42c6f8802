import { randomUUID } from 'node:crypto'
import type { Database } from '../../platform/database/database.ts'
import type { Clock, Timer } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { isBudget } from './balance.ts'
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

export type GrowthResult = 'grown' | 'refused' | 'away'

export interface Settled {
  readonly chargedMsat: number
  /** Cost beyond the balance. */
  readonly unpaidMsat: number
  readonly leftMsat: number
}

const LEASE_TIMEOUT = 30_000
const GIVE_BACK_CHANNEL = 'boltgate_slices'
const CLOSED = 'closed '
/** Not recorded, since it cost nothing. */
const UNUSED: Use = {
  at: 0,
  request: '',
  model: null,
  markup: null,
  input: null,
  output: null,
  basis: 'reservation'
}

/**
 * The balances as one gateway spends them. One statement grants it a slice of each balance in use. Requests reserve and
 * settle in memory; charges are written in batches every 100 ms. Several gateways never overdraw a balance, since every
 * reservation was granted.
 * If a gateway dies, `sweep` bills what its slices had reserved at their last write and returns the rest. Later use is
 * the seller's loss, at most the slice.
 */
export class Ledger {
  readonly gateway: string
  readonly #store: BalanceStore
  readonly #database: Pick<Database, 'listen' | 'notify'>
  readonly #clock: Clock
  readonly #log: Log
  readonly #onCharged: (chargedMsat: number, unpaidMsat: number) => void
  readonly #times: LeaseTimes
  readonly #slices = new Slices()
  readonly #writes: SliceWrites
  readonly #grants: SliceGrants
  #beat: Timer | null = null
  #unlisten: (() => Promise<void>) | null = null

  constructor({
    store,
    database,
    clock,
    log,
    settled,
    timeout = LEASE_TIMEOUT,
    gateway
  }: {
    readonly store: BalanceStore
    readonly database: Pick<Database, 'listen' | 'notify'>
    readonly clock: Clock
    readonly log: Log
    /** Called with a request's charge and its unpaid rest. */
    readonly settled?: (chargedMsat: number, unpaidMsat: number) => void
    /** `payment.leaseTimeout`: a dead gateway's slice is swept after twice this time without writes. */
    readonly timeout?: number
    /** Default: a random UUID for each process. Tests set it. */
    readonly gateway?: string
  }) {
    const times = (this.#times = leaseTimes(timeout))
    this.#store = store
    this.#database = database
    this.#clock = clock
    this.#log = log
    this.#onCharged = settled ?? (() => {})
    this.gateway = gateway ?? randomUUID()
    const shared = { store, clock, times, slices: this.#slices, gateway: this.gateway }
    this.#writes = new SliceWrites({ ...shared, log })
    this.#grants = new SliceGrants({
      ...shared,
      writes: this.#writes,
      askOthers: balanceId => database.notify(GIVE_BACK_CHANNEL, balanceId)
    })
  }

  async start(): Promise<void> {
    this.#unlisten ??= await this.#database.listen(GIVE_BACK_CHANNEL, heard => {
      if (heard.startsWith(CLOSED)) this.#end(heard.slice(CLOSED.length))
      else this.#giveBack(heard)
    })
  }

  get held(): { readonly slices: number; readonly msat: number; readonly reservedMsat: number } {
    const all = [...this.#slices.all]
    return {
      slices: all.length,
      msat: all.reduce((sum, slice) => sum + slice.amount, 0),
      reservedMsat: all.reduce((sum, slice) => sum + slice.reserved, 0)
    }
  }

  /**
   * Reserves for a request: synchronously if the slice has enough, else with a promise. A rejection means that the
   * database is down and nothing is known to be reserved.
   */
  reserve(balanceId: string, msat: number): BalanceReservation | Promise<BalanceReservation | Refused> {
    let slice = this.#slices.current(balanceId)
    if (slice?.isGranted === true && !this.#isTrusted(slice)) {
      // The database was down for long: the slice may have been swept.
      this.#slices.retire(slice)
      this.#writes.soon(slice)
      slice = undefined
    }
    slice ??= this.#open(balanceId)
    if (slice.waiting.length === 0 && slice.isGranted && slice.free >= msat) return this.#writes.hold(slice, msat)
    return this.#grants.hold(slice, msat, false)
  }

  /**
   * Grows a reservation by `need` to `want`, one call at a time: synchronously if the slice has enough. Any result but
   * 'grown' leaves it unchanged.
   */
  grow(reservation: BalanceReservation, need: number, want: number): GrowthResult | Promise<GrowthResult> {
    const held = reservation as HeldReservation
    const { slice } = held
    if (held.isSettled || slice.state === 'lost') return 'refused'
    // It may have been swept, so its free part is not ours.
    if (!this.#isTrusted(slice)) return 'away'
    const { free } = slice
    if (free < need) return this.#growLater(held, need)
    held.msat += this.#writes.hold(slice, Math.min(free, Math.max(need, want))).msat
    return 'grown'
  }

  async #growLater(held: HeldReservation, need: number): Promise<GrowthResult> {
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
    // The request ended meanwhile: free the grant.
    if (held.isSettled) slice.reserved -= got.msat
    else held.msat += got.msat
    this.#writes.soon(slice)
    return held.isSettled ? 'refused' : 'grown'
  }

  /**
   * Ends a reservation at the request's cost, which may be 0. Cost beyond the reservation is taken as far as the
   * balance has it; the rest is the seller's loss. Synchronous if the slice has enough.
   */
  settle(reservation: BalanceReservation, msat: number, use: Use): Settled | Promise<Settled> {
    const held = reservation as HeldReservation
    if (held.isSettled) return { chargedMsat: 0, unpaidMsat: 0, leftMsat: held.slice.left }
    held.isSettled = true
    if (held.slice.state === 'lost') return this.#unpaid(held.slice, msat)
    const lacking = msat - held.msat - held.slice.free
    if (lacking > 0) return this.#settleMore(held, msat, use)
    return this.#settleOf(held.slice, held.msat, msat, msat, use)
  }

  /** Ends the reservation of a request that is not served, as `settle` with nothing to record. */
  release(reservation: BalanceReservation): Settled | Promise<Settled> {
    return this.settle(reservation, 0, UNUSED)
  }

  /** Releases a closed balance on all gateways: the free part now, the rest as requests end. */
  async letGo(balanceId: string): Promise<void> {
    this.#end(balanceId)
    await this.#database.notify(GIVE_BACK_CHANNEL, `${CLOSED}${balanceId}`)
  }

  left(balanceId: string): number | null {
    const slice = this.#slices.current(balanceId)
    return slice?.isGranted === true ? slice.left : null
  }

  lastCharged(balanceId: string): number | null {
    return this.#slices.current(balanceId)?.lastCharged ?? null
  }

  /**
   * Periodic job: settles what dead gateways had reserved and returns the rest of their slices. Returns their number.
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

  /** Writes this gateway's charges to a balance. Resolves when they are stored, or after a second. */
  async flush(balanceId: string): Promise<void> {
    const slice = this.#slices.current(balanceId)
    if (slice?.isGranted === true) await this.#writes.flush(slice)
  }

  async written(): Promise<void> {
    await this.#writes.written()
  }

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

  /** False if the slice may have been swept. */
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
    if (!isBudget(slice.balanceId)) this.#onCharged(charged, unpaidMsat)
    return { chargedMsat: charged, unpaidMsat, leftMsat: slice.left }
  }

  /** A lost slice has nothing to take. */
  #unpaid({ balanceId }: Slice, msat: number): Settled {
    if (!isBudget(balanceId)) this.#onCharged(0, msat)
    return { chargedMsat: 0, unpaidMsat: msat, leftMsat: 0 }
  }

  async #settleMore(held: HeldReservation, msat: number, use: Use): Promise<Settled> {
    const { slice } = held
    let more = 0
    try {
      const got = await this.#grants.hold(slice, msat - held.msat, true)
      if (got.kind === 'reserved') more = got.msat
    } catch (error) {
      // The response was served: only the cost beyond the reservation is lost.
      this.#log.warn(
        { balance: slice.balanceId, err: error },
        'A balance could not be asked for more than was reserved'
      )
    }
    if (slice.state === 'lost') return this.#unpaid(slice, msat)
    // Earlier waiters may have taken the grant; the slice's free part is still the balance's.
    const own = Math.min(msat - held.msat - more, slice.free)
    if (own > 0) {
      slice.reserved += own
      more += own
    }
    const has = held.msat + more
    const charged = Math.min(msat, has)
    return this.#settleOf(slice, has, charged, msat, use)
  }

  #keep(): void {
    const now = this.#clock.now()
    const { idle, trusted } = this.#times
    for (const slice of this.#slices.all) {
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
    if (slice.isGranted) this.#writes.now(slice)
  }

  #giveBack(balanceId: string): void {
    const slice = this.#slices.current(balanceId)
    if (slice === undefined || slice.isRequesting || slice.free === 0) return
    slice.isAskedFor = true
    this.#writes.now(slice)
  }
}
