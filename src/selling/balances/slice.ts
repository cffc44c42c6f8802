import { randomUUID } from 'node:crypto'
import { Entries } from './entries.ts'
import type { SliceWrite } from './balance.ts'

/** Amounts here are millisatoshis, times milliseconds. */

/** One request's reservation, which may grow until it is settled once. */
export interface BalanceReservation {
  readonly kind: 'reserved'
  readonly balanceId: string
  readonly msat: number
}

export interface Refused {
  readonly kind: 'refused'
  /** `insufficient`: too little is free; the others are states of the balance. */
  readonly why: 'insufficient' | 'unknown' | 'expired' | 'closed'
  /** Known rest of the balance, less other reservations. */
  readonly leftMsat: number
}

export interface HeldReservation extends BalanceReservation {
  msat: number
  readonly slice: Slice
  isSettled: boolean
}

export interface GrantWaiter {
  readonly msat: number
  /** Accepts a partial grant. */
  readonly isPartial: boolean
  readonly resolve: (held: HeldReservation | Refused) => void
  readonly reject: (error: unknown) => void
}

export class Slice {
  readonly id = randomUUID()
  readonly balanceId: string
  /** Granted, and neither spent nor returned; includes `reserved`. */
  amount = 0
  reserved = 0
  /** Spent but not yet written, with its entries. */
  spent = 0
  entries = new Entries()
  /** Rest of the balance in the database's last answer. */
  leftInDatabase = 0
  writes = 0
  /** In flight, until it is stored. */
  writing: SliceWrite | null = null
  isDirty = false
  /** No sweep before then, as of the last answered write; 0 without a grant. */
  keptUntil = 0
  /** `current` serves requests; `retired` ends with its last reservation; `lost` can no longer be written. */
  state: 'current' | 'retired' | 'lost' = 'current'
  usedAt: number
  lastCharged: number | null = null
  /** Another gateway needs it: the next write returns what is not reserved. */
  isAskedFor = false
  waiting: GrantWaiter[] = []
  isRequesting = false

  constructor(balanceId: string, now: number) {
    this.balanceId = balanceId
    this.usedAt = now
  }

  /** Its row exists. */
  get isGranted(): boolean {
    return this.keptUntil > 0
  }

  get free(): number {
    return this.amount - this.reserved
  }

  get left(): number {
    return this.leftInDatabase - this.spent - (this.writing?.spent ?? 0) - this.reserved
  }

  hold(msat: number, now: number): HeldReservation {
    this.reserved += msat
    this.usedAt = now
    return { kind: 'reserved', balanceId: this.balanceId, msat, slice: this, isSettled: false }
  }
}

export class Slices {
  readonly #current = new Map<string, Slice>()
  readonly #all = new Set<Slice>()

  get all(): ReadonlySet<Slice> {
    return this.#all
  }

  current(balanceId: string): Slice | undefined {
    return this.#current.get(balanceId)
  }

  open(balanceId: string, now: number): Slice {
    const slice = new Slice(balanceId, now)
    this.#current.set(balanceId, slice)
    this.#all.add(slice)
    return slice
  }

  retire(slice: Slice): void {
    slice.state = 'retired'
    this.#leave(slice)
  }

  /** Fully written, or nothing to write. */
  forget(slice: Slice): void {
    this.#all.delete(slice)
    this.#leave(slice)
  }

  #leave(slice: Slice): void {
    if (this.#current.get(slice.balanceId) === slice) this.#current.delete(slice.balanceId)
  }
}

export interface LeaseTimes {
  /** No sweep for this long after a write. */
  readonly kept: number
  /** Its holder trusts it for this long after a write. */
  readonly trusted: number
  readonly beat: number
  /** An unused slice is returned after this. */
  readonly idle: number
}

/**
 * `timeout`: `payment.leaseTimeout`; a dead gateway's slice is swept after twice that without writes.
 */
export function leaseTimes(timeout: number): LeaseTimes {
  return {
    kept: timeout * 2,
    trusted: Math.floor((timeout * 4) / 3),
    beat: Math.floor(timeout / 3),
    idle: Math.floor(timeout / 10)
  }
}
