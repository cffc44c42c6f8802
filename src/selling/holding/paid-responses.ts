import { ClientGone, GatewayError, ResponseTooLarge } from '../../engine/operations/errors.ts'
import type { Head, Outcome } from '../../engine/message/reply.ts'
import { encodeReceipt } from '../../lightning/payment-scheme/receipt.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { comesBack, isSafe } from './after-crash.ts'
import type { ChallengeCounters } from '../challenges/counters.ts'
import type { Lease, Leases } from './leases.ts'
import type { Offer } from '../offers/offer.ts'
import { isDelivered, keepPrivate } from './paid-head.ts'
import type { Paid } from '../verifying/verdict.ts'

/** How often a payment comes back for a response that broke off because it was too large. */
const MOST_TOO_LARGE = 3

/** What the end of a paid request is decided with. */
export interface PaidResponseParts {
  readonly leases: Leases
  readonly counters: ChallengeCounters
  readonly clock: Clock
}

/** Decides by the response whether its payment is spent or given back (decisions 124, 183 and 184). */
export class PaidResponses {
  readonly #parts: PaidResponseParts

  constructor(parts: PaidResponseParts) {
    this.#parts = parts
  }

  /**
   * Prepares the head of a paid response: receipt and Cache-Control. Returns a promise only where the head must wait:
   * the payment is given back, or its lease has lapsed and must be confirmed (then it may reject with 503).
   */
  head(head: Head, paid: Paid, releaseOn: Offer['releaseOn']): void | Promise<void> {
    // Errors of the gateway are `no-store` by themselves.
    if (head.source !== 'error') keepPrivate(head.headers)
    if (paid.isByPass === true) head.headers.addToken('Vary', 'Cookie')
    const { lease } = paid
    if (lease === null) {
      this.#receipt(head, paid)
      return
    }
    const { leases } = this.#parts
    if (!isDelivered(head, releaseOn)) return leases.release(lease)
    // An upgrade is sold with its 101: what flows afterwards has no end that says whether it was whole.
    const confirmed = head.status === 101 ? leases.spend(lease) : leases.confirm(lease)
    if (confirmed !== undefined) return this.#confirmed(confirmed, head, paid)
    this.#receipt(head, paid)
  }

  /**
   * Ends the lease of a request that is over. It is given back when no response, or not all of it, could be delivered
   * and the client is not the cause (contract, Pay-per-request challenge); otherwise it is spent.
   */
  end(lease: Lease, offer: Offer, outcome: Outcome): void {
    if (!outcome.headSent && outcome.error instanceof ClientGone) this.clientGone(lease, offer)
    else if (outcome.headSent && outcome.error instanceof ResponseTooLarge && outcome.source !== 'error') {
      // The client has all that was passed on, and can ask for a large response again and again.
      if (lease.returns < MOST_TOO_LARGE) void this.#parts.leases.release(lease, true)
      else this.#parts.leases.settle(lease)
    } else if (!outcome.headSent || isBrokenByUs(outcome)) void this.#parts.leases.release(lease)
    // A tunnel's lease is spent by now.
    else this.#parts.leases.settle(lease)
  }

  /**
   * Ends a lease whose client left before the head of its response. The upstream may have acted, so the payment comes
   * back only as often as `comesBack` says, and is spent then.
   */
  clientGone(lease: Lease, offer: Offer): void {
    const isReturned = comesBack(offer, lease.returns)
    this.#parts.counters.clientGone(isReturned ? 'returned' : 'spent')
    if (isReturned) void this.#parts.leases.release(lease, !isSafe(offer.method))
    else this.#parts.leases.settle(lease)
  }

  async #confirmed(confirmed: Promise<void>, head: Head, paid: Paid): Promise<void> {
    await confirmed
    this.#receipt(head, paid)
  }

  #receipt(head: Head, paid: Paid): void {
    const isSuccess = head.status === 101 || (head.status >= 200 && head.status <= 299)
    if (paid.challengeId === null || !isSuccess) return
    head.headers.set(
      'Payment-Receipt',
      encodeReceipt(paid.challengeId, paid.payment.paymentHash, Math.floor(this.#parts.clock.now() / 1000))
    )
  }
}

/**
 * Whether the upstream or the gateway failed to deliver the response, whole or in part. A client that leaves, or keeps
 * its upstream waiting until that gives up, is a `ClientGone` (`engine/upstream/sink.ts`).
 */
export function isBrokenByUs({ headSent, delivered, source, error }: Outcome): boolean {
  if (source === 'error') return true
  return headSent && !delivered && error instanceof GatewayError && error.status >= 500
}
