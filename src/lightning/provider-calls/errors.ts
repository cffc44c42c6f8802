import { NOTIFICATION_UNREADABLE } from '../../engine/operations/error-kinds.ts'
import { LongError, ShortError, Unavailable } from '../../engine/operations/errors.ts'
import { defineError } from '../../platform/system/errors.ts'

export const PROVIDER_KEY_REQUIRED = defineError('BG_PROVIDER_KEY_REQUIRED', {
  status: 400,
  title: 'Payment provider key required',
  cause: 'The account has no key for the provider that creates the invoice.',
  fix: 'Save one with `PUT /api/merchant/primary-key` or `alternate-key`.'
})

export const PROVIDER_REFUSED = defineError('BG_PROVIDER_REFUSED', {
  status: 502,
  title: 'Payment provider error',
  cause: 'The payment provider rejected the key, a scope of it, or the request.',
  fix: 'Validate the key, then save a new one; `message` has the reason.'
})

export const PROVIDER_UNAVAILABLE = defineError('BG_PROVIDER_UNAVAILABLE', {
  status: 503,
  title: 'Payment provider unavailable',
  cause: 'The payment provider cannot be reached, or its rate limit is exceeded. Nothing was charged.',
  fix: 'Retry after `Retry-After`.'
})

const PAYOUT_UNCERTAIN = defineError('BG_PAYOUT_UNCERTAIN', {
  cause: 'The response to a payout was lost, so its outcome is unknown.',
  fix: 'None needed: the gateway looks it up and never sends it twice. After days an administrator can settle it.'
})

/**
 * The account has no key for the provider that would make its invoice. Answered as 400 on payments (decision 54); the
 * producer API and the proxies turn it into their own shapes (decisions 93 and 103).
 */
export class ProviderKeyRequired extends ShortError {
  constructor() {
    super(PROVIDER_KEY_REQUIRED, PROVIDER_KEY_REQUIRED.title)
  }
}

/**
 * Why a provider cannot be asked: the way to it is broken, it did not answer in time, its answer was a 5xx or none that
 * can be used, it answered 429, it answered more than is read, or nobody was asked because a breaker is open. `other`
 * says nothing about the provider.
 */
export type ProviderFault = 'network' | 'timeout' | 'server' | 'rate' | 'size' | 'open' | 'other'

/**
 * The provider cannot be asked now: network, timeout, its 5xx or 429, or an open breaker. Answered as 503 with
 * Retry-After, never as a 402 (decision 17).
 */
export class ProviderUnavailable extends Unavailable {
  /** What the breaker judges by. */
  readonly fault: ProviderFault
  /** Whole seconds, as in the header. */
  readonly retryAfter: number

  /** `retryAfter` in whole seconds. `message` reaches the client: no address, no key. */
  constructor(
    message = 'The payment provider cannot be reached at the moment.',
    retryAfter = 5,
    cause?: unknown,
    fault: ProviderFault = 'other'
  ) {
    super(PROVIDER_UNAVAILABLE, message, retryAfter, {}, cause)
    this.fault = fault
    this.retryAfter = retryAfter
  }
}

/** No connection was made, or nobody was asked at all, so that certainly nothing has reached the provider. */
export class NothingSent extends ProviderUnavailable {}

/** A code, a status or a few words in place of a library's error, which may hold what was sent or received. */
export class CallFailure extends Error {
  override name = 'CallFailure'
}

/** A response that came and does not hold what it must; counted as a fault of the host. `what` holds nothing of it. */
export function unusableResponse(what: string): ProviderUnavailable {
  const message = 'The payment provider gave an answer that cannot be used.'
  return new ProviderUnavailable(message, 5, new CallFailure(what), 'server')
}

/** What a provider found wrong: the key itself, a scope that the key lacks, or what was asked for. */
export type RefusalReason = 'key' | 'scope' | 'request'

/**
 * The provider answered, and said no; asking again would not help. 502 on payments and refunds; where a challenge
 * should be minted the callers answer 503 (decision 17).
 */
export class ProviderRefused extends LongError {
  readonly reason: RefusalReason
  /** The missing scope in the provider's own spelling; null for other reasons. */
  readonly scope: string | null

  /** `message` reaches the client: no key in it. */
  constructor(reason: RefusalReason, message: string, scope: string | null = null, cause?: unknown) {
    super(PROVIDER_REFUSED, PROVIDER_REFUSED.title, message, {}, [], cause)
    this.reason = reason
    this.scope = scope
  }
}

/**
 * The answer to a payout was lost, so that it may have been sent: look it up by its reference, and never ask again
 * (decision 57).
 */
export class PayoutUncertain extends Error {
  override name = 'PayoutUncertain'
  readonly code = PAYOUT_UNCERTAIN.code

  constructor(cause: unknown) {
    super('The provider was asked to pay out and its answer was lost.', { cause })
  }
}

/** A provider's notification that cannot be read (decision 163: 400). */
export class ProviderNotificationError extends ShortError {
  /** `message` reaches the sender. */
  constructor(message: string) {
    super(NOTIFICATION_UNREADABLE, message)
  }
}
