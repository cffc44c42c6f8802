import { randomUUID } from 'node:crypto'
import { Entries } from './entries.ts'
import type { SliceWrite } from './balance.ts'

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

/** A reservation as the ledger has it. */
export interface HeldReservation extends BalanceReservation {
  msat: number
  readonly slice: Slice
  isSettled: boolean
}

/** A request that waits for the database to grant more. */
export interface GrantWaiter {
  readonly msat: number
  /** Takes as much as there is where there is less. */
  readonly isPartial: boolean
  readonly resolve: (held: HeldReservation | Refused) => void
  readonly reject: (error: unknown) => void
}

/** The part of a balance that this gateway was granted and spends from. */
export class Slice {
  readonly id = randomUUID()
  readonly balanceId: string
  /** Granted, and neither spent nor given back; `reserved` is a part of it. */
  amount = 0
  reserved = 0
  /** Spent, and in no write yet; with the entries of it. */
  spent = 0
  entries = new Entries()
  /** What the last answer of the database said is left of the balance. */
  leftInDatabase = 0
  writes = 0
  /** What is being written, until the database has taken it. */
  writing: SliceWrite | null = null
  isDirty = false
  /** Until when nobody sweeps it, as of its last write that was answered; 0 while it was granted nothing. */
  keptUntil = 0
  /**
   * `current` serves what comes; `retired` gives back what no request has reserved, and ends with the last of them; of
   * one that is `lost` nothing can be written.
   */
  state: 'current' | 'retired' | 'lost' = 'current'
  usedAt: number
  lastCharged: number | null = null
  /** Asked for by another gateway: what is not reserved goes back with the next write. */
  isAskedFor = false
  waiting: GrantWaiter[] = []
  isGrabbing = false

  constructor(balanceId: string, now: number) {
    this.balanceId = balanceId
    this.usedAt = now
  }

  /** Whether there is a row of it that a write could find. */
  get isGranted(): boolean {
    return this.keptUntil > 0
  }

  /** What no request has reserved. */
  get free(): number {
    return this.amount - this.reserved
  }

  /** What is left of the balance, as far as it is known here. */
  get left(): number {
    return this.leftInDatabase - this.spent - (this.writing?.spent ?? 0) - this.reserved
  }

  /** Reserves what is free. */
  hold(msat: number, now: number): HeldReservation {
    this.reserved += msat
    this.usedAt = now
    return { kind: 'reserved', balanceId: this.balanceId, msat, slice: this, isSettled: false }
  }
}

/** The slices of one gateway: the current one of each balance, and all that are not written to their end. */
export class Slices {
  readonly #current = new Map<string, Slice>()
  readonly #all = new Set<Slice>()

  get all(): ReadonlySet<Slice> {
    return this.#all
  }

  current(balanceId: string): Slice | undefined {
    return this.#current.get(balanceId)
  }

  /** Begins a slice, which is granted nothing yet. */
  open(balanceId: string, now: number): Slice {
    const slice = new Slice(balanceId, now)
    this.#current.set(balanceId, slice)
    this.#all.add(slice)
    return slice
  }

  /** Nothing more is reserved of it. */
  retire(slice: Slice): void {
    slice.state = 'retired'
    this.#leave(slice)
  }

  /** It is written to its end, or there is nothing to write. */
  forget(slice: Slice): void {
    this.#all.delete(slice)
    this.#leave(slice)
  }

  #leave(slice: Slice): void {
    if (this.#current.get(slice.balanceId) === slice) this.#current.delete(slice.balanceId)
  }
}

/** How long a gateway's slices are its own, in milliseconds. */
export interface LeaseTimes {
  /** Nobody sweeps a slice for so long after a write. */
  readonly kept: number
  /** Its holder trusts it for so long after a write. */
  readonly trusted: number
  /** How often slices in use are extended. */
  readonly beat: number
  /** A slice that nobody uses for so long goes back. */
  readonly idle: number
}

/** `timeout`: milliseconds of `payment.leaseTimeout`; twice as long after its last write a dead gateway's slice is swept. */
export function leaseTimes(timeout: number): LeaseTimes {
  return {
    kept: timeout * 2,
    trusted: Math.floor((timeout * 4) / 3),
    beat: Math.floor(timeout / 3),
    idle: Math.floor(timeout / 10)
  }
}
