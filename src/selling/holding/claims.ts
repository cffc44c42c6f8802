import { isTest } from '../../engine/operations/operation.ts'
import type { Database } from '../../platform/database/database.ts'
import { Unavailable } from '../../engine/operations/errors.ts'
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
  readonly database: Database
  readonly store: ChallengeStore
  readonly leases: Leases
  readonly counters: ChallengeCounters
  readonly reputation: { paid(clientKey: string): void }
  /** Null without listeners, which saves the transaction, as for the operator's own claims. */
  readonly paid: OnPaid | null
}

/**
 * Claims payments of verified credentials and reports the first claim of each. A database error claims nothing and is
 * 503 with Retry-After; a 402 would make the payer pay again.
 */
export class Claims {
  readonly #database: Database
  readonly #store: ChallengeStore
  readonly #leases: Leases
  readonly #counters: ChallengeCounters
  readonly #reputation: ClaimsOptions['reputation']
  readonly #paid: OnPaid | null

  constructor({ database, store, leases, counters, reputation, paid }: ClaimsOptions) {
    this.#database = database
    this.#store = store
    this.#leases = leases
    this.#counters = counters
    this.#reputation = reputation
    this.#paid = paid
  }

  /**
   * The challenge, or null; `spent` even while only this gateway knows.
   * @throws Unavailable
   */
  async find(paymentHash: string): Promise<Challenge | null> {
    // Before the row is read: a spend is either in the row or still known here.
    const delivered = this.#leases.delivered(paymentHash)
    let challenge: Challenge | null
    try {
      challenge = await this.#store.find(paymentHash)
    } catch (error) {
      throw away(error)
    }
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
    condition: ClaimCondition | null,
    merchantId: string | null,
    now: number
  ): Promise<Challenge | null> {
    let claimed: ClaimedChallenge | null
    try {
      claimed = await this.#store.claim(this.#where(merchantId), paymentHash, scheme, condition, now)
    } catch (error) {
      throw away(error)
    }
    if (claimed === null) return null
    this.count(claimed, scheme)
    return claimed.challenge
  }

  /**
   * For an L402 token, without reading the whole row.
   * @throws Unavailable
   */
  async claimSummary(
    paymentHash: string,
    condition: ClaimCondition,
    merchantId: string | null,
    now: number
  ): Promise<Sale | null> {
    if (this.#isHeard(merchantId)) return this.claim(paymentHash, 'l402', condition, merchantId, now)
    let claimed: ClaimedChallenge<Sale> | null
    try {
      claimed = await this.#store.claim(this.#database.sql, paymentHash, 'l402', condition, now, true)
    } catch (error) {
      throw away(error)
    }
    if (claimed === null) return null
    this.count(claimed, 'l402')
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
  ): Promise<{ readonly lease: Lease; readonly challenge: Sale } | null> {
    let taken: { readonly lease: Lease; readonly claimed: ClaimedChallenge<Sale> } | null
    try {
      taken = await this.#leases.acquire<Sale>(
        paymentHash,
        (key, gateway, until, now) =>
          this.#isHeard(merchantId)
            ? this.#store.lease(this.#where(merchantId), { ...key, scheme }, gateway, until, now, bond)
            : this.#store.lease(this.#database.sql, { ...key, scheme }, gateway, until, now, bond, true),
        isFinal
      )
    } catch (error) {
      throw away(error)
    }
    if (taken === null) return null
    this.count(taken.claimed, scheme)
    return { lease: taken.lease, challenge: taken.claimed.challenge }
  }

  /**
   * Spends a single-use credential durably. Null if spent, leased or another scheme's. A rejection releases the
   * payment, so the call may be repeated.
   * @throws Unavailable
   */
  async consume(paymentHash: string, merchantId: string): Promise<Challenge | null> {
    let taken: { readonly lease: Lease; readonly claimed: ClaimedChallenge } | null
    try {
      taken = await this.#leases.acquire(paymentHash, (key, gateway, _until, now) =>
        this.#store.consume(this.#where(merchantId), key, gateway, now)
      )
    } catch (error) {
      throw away(error)
    }
    if (taken === null) return null
    this.count(taken.claimed, 'payment')
    try {
      // Already spent in the database; ends the lease here.
      await this.#leases.spend(taken.lease)
    } catch (error) {
      await this.#leases.release(taken.lease)
      throw error
    }
    return taken.claimed.challenge
  }

  #isHeard(merchantId: string | null): boolean {
    return this.#paid !== null && merchantId !== null
  }

  #where(merchantId: string | null): ClaimIn {
    const onPaid = this.#paid
    return onPaid === null || merchantId === null ? this.#database.sql : { onPaid }
  }

  /** Counts the first claim of a payment, also for callers with their own transaction. */
  count(claimed: ClaimedChallenge<Sale>, scheme: ClaimScheme): void {
    if (!claimed.first) return
    if (!isTest(claimed.challenge.merchantId) && claimed.challenge.clientKey !== OWN_TESTS)
      this.#counters.payment(claimed.challenge.source, scheme, claimed.challenge.amountSats)
    this.#reputation.paid(claimed.challenge.clientKey)
  }
}

function away(cause: unknown): Unavailable {
  return new Unavailable(
    'Payment verification unavailable',
    'The payment could not be verified at the moment; nothing was used up. Send the same request again.',
    5,
    {},
    cause
  )
}
