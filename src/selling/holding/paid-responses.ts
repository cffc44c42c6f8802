import { ClientGone, GatewayError, ResponseTooLarge } from '../../engine/operations/errors.ts'
import type { Context, RequestOffer, RequestPayment } from '../../engine/message/context.ts'
import { NameTable } from '../../engine/message/header-names.ts'
import { trimmed, type HeaderList } from '../../engine/message/headers.ts'
import type { Head, Outcome } from '../../engine/message/reply.ts'
import { encodeReceipt } from '../../lightning/payment-scheme/payment-credential.ts'
import { settlement, x402Header } from '../../lightning/codecs/x402.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { ChallengeCounters } from './counters.ts'
import type { Lease, Leases } from './leases.ts'
import type { Leased } from './claims.ts'

export interface Paid {
  readonly kind: 'paid'
  readonly payment: RequestPayment
  /** The use of a single-use credential, to be spent or released; null for repeatable ones. */
  readonly lease: Lease | null
  /** Payment challenge id for the receipt; null for credentials without receipts. */
  readonly challengeId: string | null
  readonly x402Network?: string
  /** Paid by a payment page's pass, which is a cookie (decision 310). */
  readonly isByPass?: true
}

/** A single use, under its lease. */
export function paidOnce(scheme: 'payment' | 'x402', { lease, challenge }: Leased, challengeId: string | null): Paid {
  const { paymentHash } = lease
  return {
    kind: 'paid',
    payment: { scheme, paymentHash, amountSats: challenge.amountSats },
    lease,
    challengeId
  }
}

/** Frozen, since it may be kept for many requests. */
export function paidForLong(payment: RequestPayment, challengeId: string | null = null): Paid {
  return Object.freeze({ kind: 'paid', payment: Object.freeze(payment), lease: null, challengeId })
}

/** Safe methods (RFC 9110, 9.2.1). */
const SAFE: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])
/** Maximum returns of an unsafe method's credential to a client that left (decision 184). */
const MOST_RETURNS = 2

export function isSafe(method: string): boolean {
  return SAFE.has(method)
}

/**
 * A crash during the request spends the lease (decision 183): whether the upstream acted or the client got its response
 * is unknown.
 */
export function isSpentByCrash({ afterCrash, method }: Pick<RequestOffer, 'afterCrash' | 'method'>): boolean {
  return afterCrash === 'by-method' ? !isSafe(method) : afterCrash === 'spend'
}

/**
 * The credential is returned if the client left before the head. The upstream may have acted, so unsafe methods get two
 * returns (decision 184). `returns`: those so far.
 */
export function comesBack({ releaseOn, method }: Pick<RequestOffer, 'releaseOn' | 'method'>, returns: number): boolean {
  return releaseOn.includes('client-gone') && (isSafe(method) || returns < MOST_RETURNS)
}

/**
 * The response is what was paid for (decision 124): an upstream's 2xx to 4xx, less what the route releases, or an
 * operation's reply that is no refusal. Our own errors never are.
 */
export function isDelivered(head: Head, releaseOn: RequestOffer['releaseOn']): boolean {
  if (head.source === 'error') return false
  if (head.source === 'reply') return head.status < 400
  if (head.status >= 500) return !releaseOn.includes('5xx')
  return head.status < 400 || !releaseOn.includes('4xx')
}

/** Includes `must-understand`: caches that know it ignore `no-store` (RFC 9111 5.2.2.3). */
const SHARED = /^(?:public|s-maxage|private|must-understand)\b/i

/**
 * Fields that override Cache-Control in shared caches: targeted ones, named `…-Cache-Control` (RFC 9213 2), and those
 * of reverse proxies. They would serve a paid response to other clients.
 */
const OF_SHARED_CACHES = new NameTable(name =>
  /^(?:[\w-]+-cache-control|surrogate-control|edge-control|x-accel-expires)$/i.test(name)
)

/**
 * Keeps paid responses out of shared caches: `private` replaces `public` and `s-maxage`, and fields for such caches are
 * removed; `no-store` stays (decision 130).
 */
export function keepPrivate(headers: HeaderList): void {
  const { pairs } = headers
  for (let at = pairs.length - 2; at >= 0; at -= 2)
    // A flat list of pairs: both exist.
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

const MOST_TOO_LARGE = 3
const X402_HEADERS = ['payment-required', 'payment-response']

/**
 * The client's upload broke off or was too large after the upstream had its beginning and may have acted. Later
 * failures are the upstream's, with 5xx.
 */
export function isBrokenUpload(
  { isSent }: Pick<Context, 'isSent'>,
  { source, status }: Pick<Head, 'source' | 'status'>
): boolean {
  return isSent && source === 'error' && status < 500
}

/** Spends or releases a payment by its response (decisions 124, 183 and 184). */
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
   * Prepares the head of a paid response: receipt and Cache-Control. Returns a promise if the head must wait for a
   * release, or for the confirmation of a lapsed lease, which may reject with 503.
   */
  head(ctx: Context, head: Head, paid: Paid, offer: RequestOffer): void | Promise<void> {
    // Gateway errors are `no-store` already.
    if (head.source !== 'error') keepPrivate(head.headers)
    if (paid.isByPass === true) head.headers.addToken('Vary', 'Cookie')
    // The upstream's own: a client that pays it again loses its money, as credentials end here.
    if (paid.x402Network !== undefined) for (const name of X402_HEADERS) head.headers.delete(name)
    const { lease } = paid
    if (lease === null) {
      this.#receipt(head, paid)
      return
    }
    if (!isDelivered(head, offer.releaseOn))
      return isBrokenUpload(ctx, head) ? this.#takeBack(lease, offer) : this.#leases.release(lease)
    // An upgrade is sold with its 101; a tunnel has no end that proves delivery.
    const confirmed = head.status === 101 ? this.#leases.spend(lease) : this.#leases.confirm(lease)
    if (confirmed !== undefined) return this.#confirmed(confirmed, head, paid)
    this.#receipt(head, paid)
  }

  /**
   * Ends the lease of a finished request. Releases it if the response was not fully delivered through no fault of the
   * client (contract, Pay-per-request challenge); else spends it.
   */
  end(ctx: Context, lease: Lease, offer: RequestOffer, outcome: Outcome): void {
    if (!outcome.headSent && outcome.error instanceof ClientGone) this.clientGone(ctx, lease, offer)
    else if (isBrokenUpload(ctx, outcome)) void this.#takeBack(lease, offer)
    else if (outcome.headSent && outcome.error instanceof ResponseTooLarge && outcome.source !== 'error') {
      // The client has what was passed on, and could ask for a large response repeatedly.
      if (lease.returns < MOST_TOO_LARGE) void this.#leases.release(lease, true)
      else this.#leases.settle(lease)
    } else if (!outcome.headSent || isBrokenByUs(outcome)) void this.#leases.release(lease)
    // A tunnel's lease is already spent.
    else this.#leases.settle(lease)
  }

  /** Ends a lease whose client left before the head. What was sent to no upstream is released. */
  clientGone({ isSent, route }: Context, lease: Lease, offer: RequestOffer): void {
    // An operation of the gateway may have acted too.
    if (!isSent && route.config?.upstream.kind !== 'internal') {
      this.#counters.clientGone('returned')
      void this.#leases.release(lease)
      return
    }
    this.#counters.clientGone(comesBack(offer, lease.returns) ? 'returned' : 'spent')
    void this.#takeBack(lease, offer)
  }

  /** The upstream may have acted, so `comesBack` limits the returns. */
  #takeBack(lease: Lease, offer: RequestOffer): void | Promise<void> {
    if (comesBack(offer, lease.returns)) return this.#leases.release(lease, !isSafe(offer.method))
    this.#leases.settle(lease)
  }

  async #confirmed(confirmed: Promise<void>, head: Head, paid: Paid): Promise<void> {
    await confirmed
    this.#receipt(head, paid)
  }

  #receipt(head: Head, paid: Paid): void {
    const isSuccess = head.status === 101 || (head.status >= 200 && head.status <= 299)
    if (isSuccess && paid.x402Network !== undefined)
      head.headers.set('PAYMENT-RESPONSE', x402Header(settlement(paid.payment.paymentHash, paid.x402Network)))
    if (paid.challengeId === null || !isSuccess) return
    const now = Math.floor(this.#clock.now() / 1000)
    const fallback = head.source === 'upstream' ? head.headers.get('x-fallback') : undefined
    head.headers.set('Payment-Receipt', encodeReceipt(paid.challengeId, paid.payment.paymentHash, now, fallback))
  }
}

/**
 * The upstream or the gateway broke the response. A client that leaves, or stalls until its upstream gives up, is a
 * `ClientGone` (`engine/upstream/sink.ts`).
 */
export function isBrokenByUs({ headSent, delivered, source, error }: Outcome): boolean {
  if (source === 'error') return true
  return headSent && !delivered && error instanceof GatewayError && error.status >= 500
}
