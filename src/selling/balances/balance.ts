import type { Entries } from './entries.ts'

/** Amounts here are millisatoshis, and times milliseconds since the epoch. */

/**
 * A bundle from one payment, a session of the Payment scheme, or the budget of a narrowed key: a limit that is counted
 * like money, beside the balance that pays.
 */
export type BalanceKind = 'bundle' | 'session' | 'budget'

const BUDGET = 'budget:'

/** Id of a budget's balance. `period` is its calendar day or month, empty for none. */
export function budgetId(id: string, period: string): string {
  return `${BUDGET}${id}${period}`
}

export function isBudget(balanceId: string): boolean {
  return balanceId.startsWith(BUDGET)
}

/** Only open balances are spent from. A closed one is refunded once no slice holds a part of it. */
export type BalanceState = 'open' | 'closed' | 'refunded'

export interface NewBalance {
  readonly id: string
  readonly kind: BalanceKind
  /** Merchant of the resource; null for the operator's own. */
  readonly merchantId: string | null
  readonly proxyId: string | null
  /** Route or proxy that it pays for, as in `RequestOffer`. */
  readonly place: string
  readonly unit: string
  readonly depositedMsat: number
  readonly openedAt: number
  readonly expiresAt: number
}

/** A balance's row. What is left is `deposited - spent - refunded`. */
export interface Balance extends NewBalance {
  readonly spentMsat: number
  readonly refundedMsat: number
  /** Part of the rest that gateways hold in slices. */
  readonly heldMsat: number
  readonly state: BalanceState
}

export interface BalanceNow extends Balance {
  readonly reservedMsat: number
  /** Its payment, or all sales of its proxy or merchant until then, are revoked: it serves nothing more. */
  readonly isRevoked: boolean
}

/** Source of a charge: reported usage, the reservation, or what a dead gateway held. */
export type EntryBasis = 'usage' | 'reservation' | 'crash'

export interface NewEntry {
  readonly at: number
  /** Correlation id. */
  readonly request: string
  readonly model: string | null
  /** Null if unknown. `output` counts the units of a single unit price. */
  readonly input: number | null
  readonly output: number | null
  readonly msat: number
  /** Cost beyond the balance: the seller's loss. */
  readonly unpaidMsat: number
  readonly basis: EntryBasis
}

export interface Entry extends NewEntry {
  readonly balanceId: string
}

/** A slice is this fraction of the deposits if free, or what is asked for if more. */
export const SLICES = 32

export interface SliceRequest {
  readonly balanceId: string
  readonly sliceId: string
  readonly gateway: string
  /** Minimum; grants nothing if less is free. */
  readonly need: number
  /** Maximum, unless a whole slice is more. */
  readonly want: number
  readonly keptUntil: number
  readonly now: number
}

export interface GrantedSlice {
  /** 0 if less than `need` is free. */
  readonly granted: number
  readonly leftMsat: number
  /** All slices, without this grant. */
  readonly heldMsat: number
  readonly state: BalanceState
  readonly expiresAt: number
}

export interface SliceWrite {
  readonly balanceId: string
  readonly sliceId: string
  /** Sequence number of the slice's writes from 1, so that a write can be sent again. */
  readonly nth: number
  readonly spent: number
  readonly back: number
  /** Reserved by requests in flight: billed if this gateway dies. */
  readonly reserved: number
  readonly isLast: boolean
  readonly keptUntil: number
  readonly entries: Entries
}

export interface ReclaimedSlice {
  readonly balanceId: string
  readonly gateway: string
  readonly chargedMsat: number
}
