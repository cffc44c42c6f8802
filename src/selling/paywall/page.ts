import type { Offer } from '../offers/offer.ts'
import type { SentChallenge } from '../challenges/store.ts'

/** Why a reader who was here before is asked to pay again. */
export type AskedAgain = 'over' | 'used-up'

/** What the page of a challenge is about. */
export interface AskedOfPeople {
  readonly challenge: SentChallenge
  readonly offer: Offer
  /** Milliseconds since the epoch. */
  readonly now: number
  /** The address as its reader knows it: host, path and query. */
  readonly host: string
  readonly target: string
  /** Accept-Language, which says what money the reader counts in; empty for none. */
  readonly languages: string
  /** The reader has seen this page before, and nothing has been paid yet. */
  readonly isStillUnpaid: boolean
  /** Null for a first time. */
  readonly again: AskedAgain | null
  /** Whether this reader may pay in the sandbox from the page. */
  readonly paysInSandbox: boolean
}

/** A page that has been made. */
export interface MadePage {
  readonly body: string
  /** With its Content-Type, flat. */
  readonly headers: readonly string[]
}

/** Makes the page of a challenge. */
export type ChallengePages = (asked: AskedOfPeople) => Promise<MadePage>
