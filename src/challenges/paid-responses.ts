import type { Head } from '../gateway/reply.ts'
import { encodeReceipt } from '../lightning/receipt.ts'
import type { Clock } from '../system/clock.ts'
import type { Log } from '../telemetry/log.ts'
import { comesBack, isSafe } from './after-crash.ts'
import type { ChallengeCounters } from './counters.ts'
import type { Lease, Leases } from './leases.ts'
import type { Offer } from './offer.ts'
import { isDelivered, keepApart, keepPrivate } from './paid-head.ts'
import type { Paid } from './verdict.ts'

/** What the end of a paid request is decided with. */
export interface PaidResponseParts {
  readonly leases: Leases
  readonly counters: ChallengeCounters
  readonly clock: Clock
  readonly log: Log
}

/** What becomes of a payment by what its client was sent: spent, or given back (decisions 183 and 184). */
export class PaidResponses {
  readonly #parts: PaidResponseParts

  constructor(parts: PaidResponseParts) {
    this.#parts = parts
  }

  /**
   * The head of a paid response: receipt, Cache-Control, and the end of the lease. Returns a promise only where the
   * head must wait: the payment is given back, or its lease has lapsed and must be confirmed (then it may reject with
   * 503).
   */
  settle(head: Head, paid: Paid, releaseOn: Offer['releaseOn']): void | Promise<void> {
    keepPrivate(head.headers)
    if (paid.shown !== undefined) keepApart(head.headers, paid.shown.isForeign)
    const { lease } = paid
    if (lease === null) {
      this.#receipt(head, paid)
      return
    }
    if (!isDelivered(head, releaseOn)) return this.#parts.leases.release(lease)
    const confirmed = this.#parts.leases.spend(lease)
    if (confirmed !== undefined) return this.#confirmed(confirmed, head, paid)
    this.#receipt(head, paid)
  }

  /** The request has failed before its head went out: whatever was spent for it is given back. */
  undelivered(lease: Lease): void {
    void this.#parts.leases.release(lease)
  }

  /**
   * The client has left before the head of its response. The upstream may have acted all the same, so the payment comes
   * back only as often as `comesBack` says, and is spent then.
   */
  clientGone(lease: Lease, offer: Offer): void {
    const isReturned = comesBack(offer, lease.returns)
    this.#parts.counters.clientGone(isReturned ? 'returned' : 'spent')
    if (isReturned) void this.#parts.leases.release(lease, !isSafe(offer.method))
    else void this.#spendAway(lease)
  }

  /** What was bought may reach its client though this response does not: it is spent. */
  soldAway(lease: Lease): void {
    void this.#spendAway(lease)
  }

  async #spendAway(lease: Lease): Promise<void> {
    try {
      await this.#parts.leases.spend(lease)
    } catch (error) {
      // It lapses: into spent, where it is final.
      this.#parts.log.warn(
        { paymentHash: lease.paymentHash, err: error },
        'The credential of a client that left could not be spent'
      )
    }
  }

  async #confirmed(confirmed: Promise<void>, head: Head, paid: Paid): Promise<void> {
    await confirmed
    this.#receipt(head, paid)
  }

  #receipt(head: Head, paid: Paid): void {
    if (paid.challengeId === null || head.status < 200 || head.status > 299) return
    head.headers.set(
      'Payment-Receipt',
      encodeReceipt(paid.challengeId, paid.payment.paymentHash, Math.floor(this.#parts.clock.now() / 1000))
    )
  }
}
