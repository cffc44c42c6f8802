import { NOTIFICATION_UNREADABLE } from '../../engine/operations/error-kinds.ts'
import { LongError, ShortError, Unavailable } from '../../engine/operations/errors.ts'
import { defineError } from '../../platform/system/errors.ts'
import { Type, type StaticDecode, type TSchema } from 'typebox'
import { parseResponse } from '../../engine/formats/response-schema.ts'

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
 * The account has no key for its provider. 400 on payments (decision 54); the producer API and proxies convert it
 * (decisions 93 and 103).
 */
export class ProviderKeyRequired extends ShortError {
  constructor() {
    super(PROVIDER_KEY_REQUIRED, PROVIDER_KEY_REQUIRED.title)
  }
}

/**
 * Why a call failed: connection, timeout, 5xx or unusable response, 429, response too large, or open breaker. `other`
 * is neutral for the breaker.
 */
export type ProviderFault = 'network' | 'timeout' | 'server' | 'rate' | 'size' | 'open' | 'other'

/**
 * Temporarily unavailable: network, timeout, 5xx, 429, or open breaker. 503 with Retry-After, never a 402 (decision
 * 17).
 */
export class ProviderUnavailable extends Unavailable {
  readonly fault: ProviderFault
  /** Whole seconds. */
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

/** No connection or no call: certainly nothing reached the provider. */
export class NothingSent extends ProviderUnavailable {}

/** A code, status or few words instead of a library error, which may hold sent or received data. */
export class CallFailure extends Error {
  override name = 'CallFailure'
}

/** An invalid response, counted against the host. `what` holds none of it. */
export function unusableResponse(what: string): ProviderUnavailable {
  const message = 'The payment provider gave an answer that cannot be used.'
  return new ProviderUnavailable(message, 5, new CallFailure(what), 'server')
}

type RefusalReason = 'key' | 'scope' | 'request'

/**
 * The provider said no; retrying does not help. 502 on payments and refunds; 503 where a challenge is minted (decision
 * 17).
 */
export class ProviderRefused extends LongError {
  readonly reason: RefusalReason
  /** The missing scope as the provider spells it; null for other reasons. */
  readonly scope: string | null

  /** Reaches the client: no key in it. */
  constructor(reason: RefusalReason, message: string, scope: string | null = null, cause?: unknown) {
    super(PROVIDER_REFUSED, PROVIDER_REFUSED.title, message, {}, [], cause)
    this.reason = reason
    this.scope = scope
  }
}

/** A payout's response was lost. Look it up by reference, never resend (decision 57). */
export class PayoutUncertain extends Error {
  override name = 'PayoutUncertain'
  readonly code = PAYOUT_UNCERTAIN.code

  constructor(cause: unknown) {
    super('The provider was asked to pay out and its answer was lost.', { cause })
  }
}

/** An unreadable notification (decision 163: 400). */
export class ProviderNotificationError extends ShortError {
  constructor(message: string) {
    super(NOTIFICATION_UNREADABLE, message)
  }
}

export const Hash = Type.String({ pattern: '^[0-9a-f]{64}$' })

export const JsonRecord = Type.Record(Type.String(), Type.Unknown())
export type JsonRecord = Readonly<Record<string, unknown>>

/** A non-negative safe integer, from a number or digits; 0 for others. */
export const Whole = Type.Decode(Type.Unknown(), wholeOf)

/** Milliseconds from whole seconds; null where absent. */
export const Seconds = Type.Decode(Type.Unknown(), value => wholeOf(value) * 1000 || null)

/** @throws ProviderUnavailable when it does not match */
export function requireResponse<T extends TSchema>(schema: T, body: unknown): StaticDecode<T> {
  return parseResponse(schema, body, unusableResponse)
}

export function wholeOf(value: unknown): number {
  const number =
    typeof value === 'number' ? value : typeof value === 'string' && /^\d{1,19}$/.test(value) ? Number(value) : 0
  return Number.isSafeInteger(number) && number >= 0 ? number : 0
}
