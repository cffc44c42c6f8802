import { amount, flag, moment, optional, text, type RecordOf } from '../../platform/database/rows.ts'
import type { Entries } from './entries.ts'

/** Amounts here are millisatoshis, and times milliseconds since the epoch. */

/**
 * A bundle from one payment, a session of the Payment scheme, or the budget of a narrowed key: a limit that is counted
 * like money, beside the balance that pays.
 */
type BalanceKind = 'bundle' | 'session' | 'budget'

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

const openedColumns = {
  id: text(),
  kind: text<BalanceKind>(),
  /** Merchant of the resource; null for the operator's own. */
  merchantId: optional(text()),
  proxyId: optional(text()),
  /** Route or proxy that it pays for, as in `RequestOffer`. */
  place: text(),
  unit: text(),
  depositedMsat: amount(),
  openedAt: moment(),
  expiresAt: moment()
}
export type NewBalance = RecordOf<typeof openedColumns>

/** A balance's row. What is left is `deposited - spent - refunded`. */
export const balanceColumns = {
  ...openedColumns,
  spentMsat: amount(),
  refundedMsat: amount(),
  /** Part of the rest that gateways hold in slices. */
  heldMsat: amount(),
  state: text<BalanceState>(),
  reservedMsat: amount(),
  /** Its payment, or all sales of its proxy or merchant until then, are revoked: it serves nothing more. */
  isRevoked: flag()
}
export type BalanceNow = RecordOf<typeof balanceColumns>

/** Source of a charge: reported usage, the reservation, or what a dead gateway held. */
export type EntryBasis = 'usage' | 'reservation' | 'crash'

export const entryColumns = {
  balanceId: text(),
  at: moment('made_at'),
  /** Correlation id. */
  request: text(),
  model: optional(text()),
  /** Null if unknown. `output` counts the units of a single unit price. */
  input: optional(amount()),
  output: optional(amount()),
  msat: amount(),
  /** Cost beyond the balance: the seller's loss. */
  unpaidMsat: amount(),
  basis: text<EntryBasis>()
}
export type Entry = RecordOf<typeof entryColumns>
export type NewEntry = Omit<Entry, 'balanceId'>

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

export const grantColumns = {
  /** 0 if less than `need` is free. */
  granted: amount('msat'),
  leftMsat: amount('remaining'),
  /** All slices, without this grant. */
  heldMsat: amount(),
  state: text<BalanceState>(),
  expiresAt: moment()
}
export type GrantedSlice = RecordOf<typeof grantColumns>

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
