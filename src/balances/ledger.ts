import { randomUUID } from 'node:crypto'
import { isConnectionFault } from '../database/errors.ts'
import type { Database } from '../database/database.ts'
import type { Clock, Timer } from '../system/clock.ts'
import type { Log } from '../telemetry/log.ts'
import { Entries, type Use } from './entries.ts'
import type { BalanceState, BalanceStore, Grabbed, SliceWrite } from './store.ts'

/** Amounts here are millisatoshis, and times milliseconds. */

/** A part of a balance that one request has reserved; it may grow until it is settled, once. */
export interface BalanceReservation {
  readonly kind: 'reserved'
  readonly balanceId: string
  readonly msat: number
}

/** What a reservation was refused for. */
export interface Refused {
  readonly kind: 'refused'
  /** `insufficient`: less is free than is asked for; the others say what the balance is. */
  readonly why: 'insufficient' | 'unknown' | 'expired' | 'closed'
  /** What is left of the balance, less what others under way have reserved, as far as it is known here. */
  readonly leftMsat: number
}

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

interface Slice {
  readonly id: string
  readonly balanceId: string
  /** Granted, and neither spent nor given back; `reserved` is a part of it. */
  amount: number
  reserved: number
  /** Spent, and in no write yet; with the entries of it. */
  spent: number
  entries: Entries
  /** What the last answer of the database said is left of the balance. */
  left: number
  writes: number
  /** What is being written, until the database has taken it. */
  writing: SliceWrite | null
  isDirty: boolean
  /** Until when nobody sweeps it, as of its last write that was answered; 0 while it was granted nothing. */
  keptUntil: number
  /**
   * `current` serves what comes; `retired` gives back what no request has reserved, and ends with the last of them; of
   * one that is `lost` nothing can be written.
   */
  state: 'current' | 'retired' | 'lost'
  usedAt: number
  lastCharged: number | null
  /** Asked for by another gateway: what is not reserved goes back with the next write. */
  isAskedFor: boolean
  waiting: Waiting[]
  isGrabbing: boolean
}

interface Waiting {
  readonly msat: number
  /** Takes as much as there is where there is less. */
  readonly isPartial: boolean
  readonly resolve: (held: Held | Refused) => void
  readonly reject: (error: unknown) => void
}

interface Held extends BalanceReservation {
  msat: number
  readonly slice: Slice
  isSettled: boolean
}

/** How long what was settled may wait to be written: what a gateway that dies may lose. */
export const WRITE_EVERY = 100
/** How long a dead gateway's lease is kept unless the configuration says otherwise. */
const LEASE_TIMEOUT = 30_000
const RETRY = 1_000
/** How long a request waits, in turns, for what other gateways hold of a balance that has too little free. */
const ASK_AGAIN = [50, 150, 400] as const

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
  /** The current slice of each balance, and all that are not written to their end. */
  readonly #slices = new Map<string, Slice>()
  readonly #all = new Set<Slice>()
  /** Nobody sweeps a slice for so long after a write, and its holder trusts it for so long. */
  readonly #kept: number
  readonly #trusted: number
  readonly #beatEvery: number
  /** A slice that nobody uses for so long goes back. */
  readonly #idle: number
  #dirty = new Set<Slice>()
  readonly #running = new Set<Promise<void>>()
  #timer: Timer | null = null
  #beat: Timer | null = null
  #unlisten: (() => Promise<void>) | null = null
  #isClosed = false

  constructor({ store, database, clock, log, settled, timeout = LEASE_TIMEOUT, gateway }: LedgerParts) {
    this.#kept = timeout * 2
    this.#trusted = Math.floor((timeout * 4) / 3)
    this.#beatEvery = Math.floor(timeout / 3)
    this.#idle = Math.floor(timeout / 10)
    this.#store = store
    this.#database = database
    this.#clock = clock
    this.#log = log
    this.#told = settled ?? (() => {})
    this.gateway = gateway ?? randomUUID()
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
    const all = [...this.#all]
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
    let slice = this.#slices.get(balanceId)
    if (slice !== undefined && slice.keptUntil > 0 && !this.#isTrusted(slice)) {
      // The database was away for long: somebody may have swept it.
      this.#retire(slice)
      this.#soil(slice)
      slice = undefined
    }
    slice ??= this.#open(balanceId)
    if (slice.waiting.length === 0 && slice.keptUntil > 0 && slice.amount - slice.reserved >= msat)
      return this.#hold(slice, msat)
    return this.#wait(slice, msat, false)
  }

  /**
   * Lets a reservation grow while its request is served: by `need` at least and `want` at most. At once where the slice
   * has it; else more is asked for. It grows by nothing where it is not 'grown'. Of one reservation one at a time.
   */
  grow(reservation: BalanceReservation, need: number, want: number): Grown | Promise<Grown> {
    // Every reservation is made by `#hold`.
    const held = reservation as Held
    const { slice } = held
    if (held.isSettled || slice.state === 'lost') return 'refused'
    // Somebody may have swept it: what is free in it is nobody's.
    if (!this.#isTrusted(slice)) return 'away'
    const free = slice.amount - slice.reserved
    if (free < need) return this.#growLater(held, need)
    held.msat += this.#hold(slice, Math.min(free, Math.max(need, want))).msat
    return 'grown'
  }

  async #growLater(held: Held, need: number): Promise<Grown> {
    const { slice } = held
    let got: Held | Refused
    try {
      got = await this.#wait(slice, need, false)
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
    this.#soil(slice)
    return held.isSettled ? 'refused' : 'grown'
  }

  /**
   * Ends a reservation with what the request cost, which may be nothing. More than was reserved is taken as far as the
   * balance has it; the balance is then at zero, and the rest is the seller's loss. At once where the slice has it.
   */
  settle(reservation: BalanceReservation, msat: number, use: Use): Settled | Promise<Settled> {
    // Every reservation is made by `#hold`.
    const held = reservation as Held
    if (held.isSettled) return { chargedMsat: 0, unpaidMsat: 0, leftMsat: this.#left(held.slice) }
    held.isSettled = true
    if (held.slice.state === 'lost') return this.#unpaid(msat)
    const lacking = msat - held.msat - (held.slice.amount - held.slice.reserved)
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
    const slice = this.#slices.get(balanceId)
    return slice === undefined || slice.keptUntil === 0 ? null : this.#left(slice)
  }

  /** What the request of a balance that was settled last was charged, as far as this gateway remembers. */
  lastCharged(balanceId: string): number | null {
    return this.#slices.get(balanceId)?.lastCharged ?? null
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

  /** Resolves when what is being written has been. */
  async written(): Promise<void> {
    await Promise.all(this.#running)
  }

  /** Writes all that was settled and gives back what is not reserved. Resolves when the database has it. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#timer?.cancel()
    this.#timer = null
    this.#rest()
    await this.#unlisten?.()
    this.#unlisten = null
    for (const slice of this.#all) {
      if (slice.keptUntil === 0) continue
      this.#retire(slice)
      this.#dirty.add(slice)
    }
    // Twice for those that were being written.
    for (let time = 0; time < 2; time++) {
      this.#write()
      await this.written()
    }
    await this.#store.drained()
  }

  #open(balanceId: string): Slice {
    const slice: Slice = {
      id: randomUUID(),
      balanceId,
      amount: 0,
      reserved: 0,
      spent: 0,
      entries: new Entries(),
      left: 0,
      writes: 0,
      writing: null,
      isDirty: false,
      keptUntil: 0,
      state: 'current',
      usedAt: this.#clock.now(),
      lastCharged: null,
      isAskedFor: false,
      waiting: [],
      isGrabbing: false
    }
    this.#slices.set(balanceId, slice)
    this.#all.add(slice)
    this.#beat ??= this.#clock.every(this.#beatEvery, () => {
      this.#keep()
    })
    return slice
  }

  /** Whether nobody can have swept it. */
  #isTrusted(slice: Slice): boolean {
    return slice.keptUntil - (this.#kept - this.#trusted) > this.#clock.now()
  }

  /** Nothing more is reserved of it. */
  #retire(slice: Slice): void {
    slice.state = 'retired'
    if (this.#slices.get(slice.balanceId) === slice) this.#slices.delete(slice.balanceId)
  }

  #left(slice: Slice): number {
    return slice.left - slice.spent - (slice.writing?.spent ?? 0) - slice.reserved
  }

  #hold(slice: Slice, msat: number): Held {
    slice.reserved += msat
    slice.usedAt = this.#clock.now()
    this.#soil(slice)
    return { kind: 'reserved', balanceId: slice.balanceId, msat, slice, isSettled: false }
  }

  #settleOf(slice: Slice, reserved: number, charged: number, cost: number, use: Use): Settled {
    slice.reserved -= reserved
    slice.amount -= charged
    slice.spent += charged
    slice.lastCharged = charged
    slice.usedAt = this.#clock.now()
    const unpaidMsat = cost - charged
    if (cost > 0 || use.basis === 'usage') slice.entries.add(use, charged, unpaidMsat)
    this.#soil(slice)
    this.#told(charged, unpaidMsat)
    return { chargedMsat: charged, unpaidMsat, leftMsat: this.#left(slice) }
  }

  /** Of a slice that is lost nothing can be taken. */
  #unpaid(msat: number): Settled {
    this.#told(0, msat)
    return { chargedMsat: 0, unpaidMsat: msat, leftMsat: 0 }
  }

  async #settleMore(held: Held, msat: number, use: Use): Promise<Settled> {
    const { slice } = held
    let more = 0
    try {
      const got = await this.#wait(slice, msat - held.msat, true)
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
    const own = Math.min(msat - held.msat - more, slice.amount - slice.reserved)
    if (own > 0) {
      slice.reserved += own
      more += own
    }
    const has = held.msat + more
    const charged = Math.min(msat, has)
    return this.#settleOf(slice, has, charged, msat, use)
  }

  #wait(slice: Slice, msat: number, isPartial: boolean): Promise<Held | Refused> {
    const { promise, resolve, reject } = Promise.withResolvers<Held | Refused>()
    slice.waiting.push({ msat, isPartial, resolve, reject })
    if (!slice.isGrabbing) void this.#grabFor(slice)
    return promise
  }

  /** Serves those who wait for a slice in their order, with as few statements as can be. */
  async #grabFor(slice: Slice): Promise<void> {
    slice.isGrabbing = true
    let tries = 0
    while (slice.waiting.length > 0) {
      const [first] = slice.waiting
      if (first === undefined) break
      if (slice.state === 'lost') {
        // What it is granted now nothing would be charged to.
        for (const { reject } of slice.waiting.splice(0)) reject(new Error('the slice of the balance was lost'))
        break
      }
      const free = slice.amount - slice.reserved
      if (slice.keptUntil > 0 && first.msat <= free) {
        slice.waiting.shift()
        first.resolve(this.#hold(slice, first.msat))
        continue
      }
      let grabbed: Grabbed | null
      try {
        grabbed = await this.#grab(slice, first, free)
      } catch (error) {
        // They all would wait for the same database.
        for (const { reject } of slice.waiting.splice(0)) reject(error)
        break
      }
      if (grabbed !== null && grabbed.granted > 0) {
        tries = 0
        // A partial one takes what there is; else it would be asked for once more.
        if (first.isPartial && slice.amount - slice.reserved < first.msat) {
          slice.waiting.shift()
          first.resolve(this.#hold(slice, slice.amount - slice.reserved))
        }
        continue
      }
      const pause =
        grabbed === null || first.isPartial ? undefined : await this.#othersGive(slice, grabbed, first, tries)
      if (pause === true) {
        tries++
        continue
      }
      tries = 0
      this.#refuse(slice, grabbed, first)
    }
    slice.isGrabbing = false
    this.#forgetUnused(slice)
  }

  async #grab(slice: Slice, first: Waiting, free: number): Promise<Grabbed | null> {
    const now = this.#clock.now()
    const wanted = slice.waiting.reduce((sum, { msat }) => sum + msat, 0)
    const keptUntil = now + this.#kept
    const grabbed = await this.#store.grab({
      balanceId: slice.balanceId,
      sliceId: slice.id,
      gateway: this.gateway,
      need: first.isPartial ? 1 : first.msat - free,
      want: wanted - free,
      keptUntil,
      now
    })
    if (grabbed === null) return null
    // What other statements of ours wrote meanwhile is in it, or will be told by their own answers.
    slice.left = grabbed.leftMsat
    if (grabbed.granted > 0) {
      slice.amount += grabbed.granted
      slice.keptUntil = keptUntil
    }
    return grabbed
  }

  /** Asks other gateways for what they do not need, where that could be enough, and waits a little. */
  async #othersGive(slice: Slice, grabbed: Grabbed, first: Waiting, tries: number): Promise<boolean> {
    const pause = ASK_AGAIN[tries]
    const others = grabbed.heldMsat - slice.amount - (slice.writing?.spent ?? 0) - slice.spent
    if (pause === undefined || others <= 0 || grabbed.state !== 'open') return false
    if (grabbed.leftMsat - slice.reserved - slice.spent < first.msat) return false
    try {
      await this.#database.notify(GIVE_BACK_CHANNEL, slice.balanceId)
    } catch (error) {
      if (!isConnectionFault(error)) throw error
      return false
    }
    await new Promise<void>(resolve => {
      this.#clock.after(pause, resolve)
    })
    return true
  }

  /** Refuses the first, and whoever asks for as much or more. */
  #refuse(slice: Slice, grabbed: Grabbed | null, first: Waiting): void {
    const why: Refused['why'] =
      grabbed === null ? 'unknown' : (whyNot(grabbed.state, grabbed.expiresAt, this.#clock.now()) ?? 'insufficient')
    // What others hold they have reserved, or they would have given it back.
    const free = grabbed === null ? 0 : grabbed.leftMsat - grabbed.heldMsat + slice.amount - slice.reserved
    const leftMsat = Math.max(0, free)
    const all = new Set(
      slice.waiting.filter(
        each => why !== 'insufficient' || each === first || (!each.isPartial && each.msat >= first.msat)
      )
    )
    slice.waiting = slice.waiting.filter(waiting => !all.has(waiting))
    for (const { resolve } of all) resolve({ kind: 'refused', why, leftMsat })
  }

  /** A slice that was never granted anything. */
  #forgetUnused(slice: Slice): void {
    if (slice.keptUntil > 0 || slice.waiting.length > 0) return
    this.#all.delete(slice)
    if (this.#slices.get(slice.balanceId) === slice) this.#slices.delete(slice.balanceId)
  }

  #soil(slice: Slice): void {
    slice.isDirty = true
    this.#dirty.add(slice)
    if (this.#isClosed) return
    this.#timer ??= this.#clock.after(WRITE_EVERY, () => {
      this.#timer = null
      this.#write()
    })
  }

  #write(): void {
    const dirty = this.#dirty
    this.#dirty = new Set()
    for (const slice of dirty) {
      if (slice.writing === null) this.#begin(slice)
      else this.#dirty.add(slice)
    }
  }

  #begin(slice: Slice): void {
    const writing = this.#writeSlice(slice)
    this.#running.add(writing)
    void writing.finally(() => this.#running.delete(writing))
  }

  async #writeSlice(slice: Slice): Promise<void> {
    const now = this.#clock.now()
    const isUnused = slice.reserved === 0 && slice.waiting.length === 0 && !slice.isGrabbing
    const isLast = isUnused && (slice.state !== 'current' || now - slice.usedAt >= this.#idle)
    const back = slice.state !== 'current' || isLast || slice.isAskedFor ? slice.amount - slice.reserved : 0
    const keptUntil = now + this.#kept
    const write: SliceWrite = {
      balanceId: slice.balanceId,
      sliceId: slice.id,
      nth: ++slice.writes,
      spent: slice.spent,
      back,
      reserved: slice.reserved,
      isLast,
      keptUntil,
      entries: slice.entries
    }
    slice.writing = write
    slice.isDirty = slice.isAskedFor = false
    slice.amount -= back
    slice.spent = 0
    slice.entries = new Entries()
    // Whoever comes now begins another slice.
    if (isLast) this.#retire(slice)
    const left = await this.#written(slice, write)
    slice.writing = null
    if (isLast) {
      this.#all.delete(slice)
      this.#dirty.delete(slice)
    } else if (left === null) this.#lost(slice, write)
    else {
      slice.left = left
      slice.keptUntil = keptUntil
      if (slice.isDirty) this.#soil(slice)
    }
  }

  /** Sends a write until it is answered; null when the slice is not there, or the database refuses it. */
  async #written(slice: Slice, write: SliceWrite): Promise<number | null> {
    for (;;) {
      try {
        return await this.#store.write(write)
      } catch (error) {
        const failed = { balance: slice.balanceId, msat: write.spent, err: error }
        if (!isConnectionFault(error)) {
          this.#log.error(failed, 'The database refused what was spent of a balance')
          return null
        }
        if (this.#isClosed) {
          this.#log.error(failed, 'What was spent of a balance could not be written before the gateway ended')
          return null
        }
      }
      await new Promise<void>(resolve => {
        this.#clock.after(RETRY, resolve)
      })
    }
  }

  /** The slice was swept, or the database refuses what it has spent: nothing more is spent from it. */
  #lost(slice: Slice, write: SliceWrite): void {
    this.#log.error(
      { balance: slice.balanceId, gateway: this.gateway, msat: write.spent + slice.spent },
      'A slice of a balance was lost; what was served from it since its last write is not charged'
    )
    slice.state = 'lost'
    slice.entries = new Entries()
    this.#all.delete(slice)
    this.#dirty.delete(slice)
    if (this.#slices.get(slice.balanceId) === slice) this.#slices.delete(slice.balanceId)
  }

  /** Extends slices that are in use, and ends those that are not. */
  #keep(): void {
    const now = this.#clock.now()
    for (const slice of this.#all) {
      // No row is there yet that a write could find: it would be taken for one that was swept.
      if (slice.keptUntil === 0) continue
      if (slice.reserved > 0 || now - slice.usedAt >= this.#idle || slice.keptUntil - now < this.#trusted)
        this.#soil(slice)
    }
    if (this.#all.size === 0) this.#rest()
  }

  #rest(): void {
    this.#beat?.cancel()
    this.#beat = null
  }

  #end(balanceId: string): void {
    const slice = this.#slices.get(balanceId)
    if (slice === undefined) return
    this.#retire(slice)
    // What is still being granted goes back once it is here.
    if (slice.keptUntil === 0) return
    if (slice.writing === null) this.#begin(slice)
    else this.#soil(slice)
  }

  #giveBack(balanceId: string): void {
    const slice = this.#slices.get(balanceId)
    if (slice === undefined || slice.isGrabbing || slice.amount === slice.reserved) return
    slice.isAskedFor = true
    if (slice.writing === null) this.#begin(slice)
    else this.#soil(slice)
  }
}

function whyNot(state: BalanceState, expiresAt: number, now: number): 'closed' | 'expired' | null {
  if (state !== 'open') return 'closed'
  return expiresAt <= now ? 'expired' : null
}
