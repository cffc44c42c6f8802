import type { Entries } from './entries.ts'

/** Amounts here are millisatoshis, and times milliseconds since the epoch. */

/** What a balance is: a bundle that one ordinary payment bought, or a session of the Payment scheme. */
export type BalanceKind = 'bundle' | 'session'

/** Only an open one is spent from; a closed one is refunded once nobody holds a slice of it. */
export type BalanceState = 'open' | 'closed' | 'refunded'

/** What a balance is opened with: its first deposit. */
export interface NewBalance {
  /** Payment hash of the first deposit. */
  readonly id: string
  readonly kind: BalanceKind
  /** Whose resource it pays for; null for the operator's own. */
  readonly merchantId: string | null
  readonly proxyId: string | null
  /** The route or proxy that it was bought for, as of `RequestOffer`. */
  readonly place: string
  /** What is counted, for people. */
  readonly unit: string
  readonly depositedMsat: number
  readonly openedAt: number
  /** When it can no longer be used. */
  readonly expiresAt: number
}

/** A balance as its row has it. What is left of it is `deposited - spent - refunded`. */
export interface Balance extends NewBalance {
  readonly spentMsat: number
  readonly refundedMsat: number
  /** The part of what is left that gateways hold in slices. */
  readonly heldMsat: number
  readonly state: BalanceState
}

/** A balance with what requests under way have reserved of it, as far as that has been written. */
export interface BalanceNow extends Balance {
  readonly reservedMsat: number
  /** Its payment, or all that was sold of its proxy or merchant until then, has been revoked: it serves nothing more. */
  readonly isRevoked: boolean
}

/** What an entry's charge was reckoned from: the usage that was told, the reservation, or what a dead gateway held. */
export type EntryBasis = 'usage' | 'reservation' | 'crash'

/** One settled request. */
export interface NewEntry {
  readonly at: number
  /** Correlation id of the request. */
  readonly request: string
  readonly model: string | null
  /** Units that went in and out; null where they are not known. With one price for a unit `output` counts it. */
  readonly input: number | null
  readonly output: number | null
  readonly msat: number
  /** What the usage cost beyond that, which the balance could not bear: the seller's loss. */
  readonly unpaidMsat: number
  readonly basis: EntryBasis
}

/** An entry of a list. */
export interface Entry extends NewEntry {
  readonly balanceId: string
}

/** A slice is this part of what was deposited, where that is free, or as much as is asked for. */
export const SLICES = 32

/** A part of a balance that a gateway asks for. */
export interface Grab {
  readonly balanceId: string
  /** The slice that grows by it, or begins with it. */
  readonly sliceId: string
  readonly gateway: string
  /** Granted is this at least, or nothing. */
  readonly need: number
  /** Granted is as much of this as is free, or of a whole slice where that is more. */
  readonly want: number
  readonly keptUntil: number
  readonly now: number
}

/** What came of it, with the balance as it stood before. */
export interface Grabbed {
  /** 0 where as much as needed is not free. */
  readonly granted: number
  /** `deposited - spent - refunded`. */
  readonly leftMsat: number
  /** What all slices hold, this one's included, without what was granted now. */
  readonly heldMsat: number
  readonly state: BalanceState
  readonly expiresAt: number
}

/** What a gateway has done with its slice since it wrote last. */
export interface SliceWrite {
  readonly balanceId: string
  readonly sliceId: string
  /** Counts the writes of a slice from 1, so that one whose answer was lost can be sent again. */
  readonly nth: number
  /** Taken from slice and balance. */
  readonly spent: number
  /** Given back to the balance. */
  readonly back: number
  /** What the requests under way have reserved now: what is billed if this gateway dies. */
  readonly reserved: number
  /** The slice ends, and all that is left of it goes back. */
  readonly isLast: boolean
  readonly keptUntil: number
  /** Of the requests that it settles. */
  readonly entries: Entries
}

/** What a swept slice was settled at. */
export interface Swept {
  readonly balanceId: string
  readonly gateway: string
  readonly chargedMsat: number
}

/** A page of a list. */
export interface Page {
  readonly skip: number
  readonly take: number
}
