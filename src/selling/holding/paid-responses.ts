import { ClientGone, GatewayError, ResponseTooLarge } from '../../engine/operations/errors.ts'
import type { RequestOffer, RequestPayment } from '../../engine/message/context.ts'
import { NameTable } from '../../engine/message/header-names.ts'
import { trimmed, type HeaderList } from '../../engine/message/headers.ts'
import type { Head, Outcome } from '../../engine/message/reply.ts'
import { encodeReceipt } from '../../lightning/payment-scheme/receipt.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { ChallengeCounters } from './counters.ts'
import type { Lease, Leases } from './leases.ts'

/** The request has paid. */
export interface Paid {
  readonly kind: 'paid'
  readonly payment: RequestPayment
  /**
   * The single use that a modern credential holds; it must be spent or released. Null for credentials that may be
   * repeated.
   */
  readonly lease: Lease | null
  /** Id of the Payment challenge, for the receipt; null for credentials that get none. */
  readonly challengeId: string | null
  /** It was paid by the pass of a payment page, which is a cookie (decision 310). */
  readonly isByPass?: true
}

/** Methods that ask for nothing to be done (RFC 9110, 9.2.1): repeating one harms nobody. */
const SAFE: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])
/** How often a credential of an unsafe method comes back for a client that left (decision 184). */
const MOST_RETURNS = 2

/** Whether a request with this method may be repeated without harm. */
export function isSafe(method: string): boolean {
  return SAFE.has(method)
}

/**
 * Whether a lease counts as spent when its gateway died while the request was under way (decision 183): nobody can then
 * say whether the upstream has acted and the client has its response.
 */
export function isSpentByCrash({ afterCrash, method }: Pick<RequestOffer, 'afterCrash' | 'method'>): boolean {
  return afterCrash === 'by-method' ? !isSafe(method) : afterCrash === 'spend'
}

/**
 * Whether a credential comes back for a client that left before the head: its upstream may have acted all the same, so
 * unsafe methods come back twice and no more (decision 184). `returns` is how often that has been already.
 */
export function comesBack({ releaseOn, method }: Pick<RequestOffer, 'releaseOn' | 'method'>, returns: number): boolean {
  return releaseOn.includes('client-gone') && (isSafe(method) || returns < MOST_RETURNS)
}

/**
 * Whether a response is what was paid for (decision 124). An upstream's own 2xx to 4xx is, less what the route
 * releases; an operation's reply is when it is no refusal; an error of ours never is.
 */
export function isDelivered(head: Head, releaseOn: RequestOffer['releaseOn']): boolean {
  if (head.source === 'error') return false
  if (head.source === 'reply') return head.status < 400
  if (head.status >= 500) return !releaseOn.includes('5xx')
  return head.status < 400 || !releaseOn.includes('4xx')
}

/** `must-understand` is among them because caches that know it ignore `no-store` (RFC 9111 5.2.2.3). */
const SHARED = /^(?:public|s-maxage|private|must-understand)\b/i

/**
 * Fields that shared caches prefer to Cache-Control: targeted ones, which end in `-Cache-Control` by convention (RFC 9213
 * 2), and those of reverse proxies. They would show one client's paid response to all.
 */
const OF_SHARED_CACHES = new NameTable(name =>
  /^(?:[\w-]+-cache-control|surrogate-control|edge-control|x-accel-expires)$/i.test(name)
)

/**
 * Keeps what was paid for out of shared caches: `private` in the place of `public` and `s-maxage`, and nothing that is
 * said to such caches alone; `no-store` stays (decision 130).
 */
export function keepPrivate(headers: HeaderList): void {
  const { pairs } = headers
  for (let at = pairs.length - 2; at >= 0; at -= 2)
    // An even flat list: both exist.
    if (OF_SHARED_CACHES.of(pairs[at] as string)) pairs.splice(at, 2)
  if (!headers.has('cache-control')) {
    headers.set('Cache-Control', 'private')
    return
  }
  // Commas inside quotes do not separate directives.
  const directives =
    headers
      .all('cache-control')
      .join(',')
      .match(/(?:[^,"]|"(?:[^"\\]|\\.)*"?)+/g) ?? []
  const kept = directives.map(trimmed).filter(directive => directive !== '' && !SHARED.test(directive))
  headers.set(
    'Cache-Control',
    kept.some(directive => /^no-store$/i.test(directive)) ? kept.join(', ') : ['private', ...kept].join(', ')
  )
}

/** How often a payment comes back for a response that broke off because it was too large. */
const MOST_TOO_LARGE = 3

/** Decides by the response whether its payment is spent or given back (decisions 124, 183 and 184). */
export class PaidResponses {
  readonly #leases: Leases
  readonly #counters: Pick<ChallengeCounters, 'clientGone'>
  readonly #clock: Clock

  constructor(leases: Leases, counters: Pick<ChallengeCounters, 'clientGone'>, clock: Clock) {
    this.#leases = leases
    this.#counters = counters
    this.#clock = clock
  }

  /**
   * Prepares the head of a paid response: receipt and Cache-Control. Returns a promise only where the head must wait:
   * the payment is given back, or its lease has lapsed and must be confirmed (then it may reject with 503).
   */
  head(head: Head, paid: Paid, releaseOn: RequestOffer['releaseOn']): void | Promise<void> {
    // Errors of the gateway are `no-store` by themselves.
    if (head.source !== 'error') keepPrivate(head.headers)
    if (paid.isByPass === true) head.headers.addToken('Vary', 'Cookie')
    const { lease } = paid
    if (lease === null) {
      this.#receipt(head, paid)
      return
    }
    if (!isDelivered(head, releaseOn)) return this.#leases.release(lease)
    // An upgrade is sold with its 101: what flows afterwards has no end that says whether it was whole.
    const confirmed = head.status === 101 ? this.#leases.spend(lease) : this.#leases.confirm(lease)
    if (confirmed !== undefined) return this.#confirmed(confirmed, head, paid)
    this.#receipt(head, paid)
  }

  /**
   * Ends the lease of a request that is over. It is given back when no response, or not all of it, could be delivered
   * and the client is not the cause (contract, Pay-per-request challenge); otherwise it is spent.
   */
  end(lease: Lease, offer: RequestOffer, outcome: Outcome): void {
    if (!outcome.headSent && outcome.error instanceof ClientGone) this.clientGone(lease, offer)
    else if (outcome.headSent && outcome.error instanceof ResponseTooLarge && outcome.source !== 'error') {
      // The client has all that was passed on, and can ask for a large response again and again.
      if (lease.returns < MOST_TOO_LARGE) void this.#leases.release(lease, true)
      else this.#leases.settle(lease)
    } else if (!outcome.headSent || isBrokenByUs(outcome)) void this.#leases.release(lease)
    // A tunnel's lease is spent by now.
    else this.#leases.settle(lease)
  }

  /**
   * Ends a lease whose client left before the head of its response. The upstream may have acted, so the payment comes
   * back only as often as `comesBack` says, and is spent then.
   */
  clientGone(lease: Lease, offer: RequestOffer): void {
    const isReturned = comesBack(offer, lease.returns)
    this.#counters.clientGone(isReturned ? 'returned' : 'spent')
    if (isReturned) void this.#leases.release(lease, !isSafe(offer.method))
    else this.#leases.settle(lease)
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
      encodeReceipt(paid.challengeId, paid.payment.paymentHash, Math.floor(this.#clock.now() / 1000))
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
