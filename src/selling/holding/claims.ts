import { isTest } from '../../engine/operations/operation.ts'
import type { Database } from '../../platform/database/database.ts'
import { Unavailable } from '../../engine/operations/errors.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { ChallengeCounters } from './counters.ts'
import type { Lease, Leases } from './leases.ts'
import {
  OWN_TESTS,
  type Bond,
  type Challenge,
  type ClaimCondition,
  type ClaimedChallenge,
  type ClaimIn,
  type ClaimScheme,
  type OnPaid,
  type Sale
} from './challenge.ts'
import type { ChallengeStore } from './store.ts'

interface ClaimsOptions {
  readonly clock: Clock
  readonly database: Database
  readonly store: ChallengeStore
  readonly leases: Leases
  readonly counters: ChallengeCounters
  readonly reputation: { paid(clientKey: string): void }
  /** Null without listeners, which saves the transaction, as for the operator's own claims. */
  readonly paid: OnPaid | null
}

/** A single-use payment that is ours until its response has gone out. */
export interface Leased {
  readonly lease: Lease
  readonly challenge: Sale
}

/**
 * Claims payments of verified credentials and reports the first claim of each. A database error claims nothing and is
 * 503 with Retry-After; a 402 would make the payer pay again.
 */
export class Claims {
  readonly #options: ClaimsOptions

  constructor(options: ClaimsOptions) {
    this.#options = options
  }

  /**
   * The challenge, or null; `spent` even while only this gateway knows.
   * @throws Unavailable
   */
  async find(paymentHash: string): Promise<Challenge | null> {
    const { leases, store } = this.#options
    // Before the row is read: a spend is either in the row or still known here.
    const delivered = leases.delivered(paymentHash)
    const challenge = await store.find(paymentHash).catch(unavailable)
    return delivered && challenge?.state === 'leased' ? { ...challenge, state: 'spent' } : challenge
  }

  /**
   * Claims for a repeatable credential of this merchant, null for the operator's. Null if the payment is another
   * scheme's, or not this token's.
   * @throws Unavailable
   */
  async claim(
    paymentHash: string,
    scheme: ClaimScheme,
    merchantId: string | null,
    condition: ClaimCondition | null = null
  ): Promise<Sale | null> {
    const { clock, store } = this.#options
    const row = { paymentHash, scheme, condition, now: clock.now() }
    const claimed = await store.claim(this.#where(merchantId), row).catch(unavailable)
    if (claimed === null) return null
    this.count(claimed, scheme)
    return claimed.challenge
  }

  /**
   * Leases for a single-use credential; `isFinal` as in `Leases.acquire`. Null if spent, leased, another scheme's, or
   * not what the bond says.
   * @throws Unavailable
   */
  async lease(
    paymentHash: string,
    merchantId: string | null,
    bond: Bond | null = null,
    isFinal = false,
    scheme: 'payment' | 'x402' = 'payment'
  ): Promise<Leased | null> {
    const { leases, store } = this.#options
    const where = this.#where(merchantId)
    const taken = await leases
      .acquire(paymentHash, row => store.lease(where, { ...row, scheme, bond }), isFinal)
      .catch(unavailable)
    if (taken === null) return null
    this.count(taken.claimed, scheme)
    return { lease: taken.lease, challenge: taken.claimed.challenge }
  }

  /**
   * Spends a single-use credential durably. False if spent, leased or another scheme's. A rejection releases the
   * payment, so the call may be repeated.
   * @throws Unavailable
   */
  async consume(paymentHash: string, merchantId: string): Promise<boolean> {
    const { leases, store } = this.#options
    const where = this.#where(merchantId)
    const taken = await leases.acquire(paymentHash, row => store.consume(where, row)).catch(unavailable)
    if (taken === null) return false
    this.count(taken.claimed, 'payment')
    try {
      // Already spent in the database; ends the lease here.
      await leases.spend(taken.lease)
    } catch (error) {
      await leases.release(taken.lease)
      throw error
    }
    return true
  }

  #where(merchantId: string | null): ClaimIn {
    const { database, paid: onPaid } = this.#options
    return onPaid === null || merchantId === null ? database.sql : { onPaid }
  }

  /** Counts the first claim of a payment, also for callers with their own transaction. */
  count(claimed: ClaimedChallenge, scheme: ClaimScheme): void {
    if (!claimed.first) return
    const { counters, reputation } = this.#options
    const { merchantId, clientKey, source, amountSats } = claimed.challenge
    if (!isTest(merchantId) && clientKey !== OWN_TESTS) counters.payment(source, scheme, amountSats)
    reputation.paid(clientKey)
  }
}

function unavailable(cause: unknown): never {
  throw new Unavailable(
    'Payment verification unavailable',
    'The payment could not be verified at the moment; nothing was used up. Send the same request again.',
    5,
    {},
    cause
  )
}
