import { LongError, Unavailable } from '../engine/operations/errors.ts'
import type { ShopCredential } from './credentials.ts'
import { StorePlatformError } from './platform.ts'

/** 404 for a store that is not there, and at what sells for one that is inactive. */
export function storeNotFound(): LongError {
  return new LongError(404, 'Store not found', 'There is no such store, or it sells nothing at the moment.')
}

/** 404 for an order, whatever the reason (contract, Errors: Storefront order status). */
export function orderNotFound(): LongError {
  return new LongError(404, 'Order not found', 'This store has no order that the token or credential opens.')
}

/**
 * A payment credential that is not good. Of an L402 token the reason stands where clients of L402 look for it too
 * (contract, Errors: Classic credential; decision 111).
 */
export function credentialRefused(
  status: 400 | 401,
  error: string,
  { scheme, detail }: Pick<Extract<ShopCredential, { kind: 'refused' }>, 'scheme' | 'detail'>
): LongError {
  return scheme === 'l402'
    ? new LongError(status, error, detail, { detail }, ['X-L402-Error', detail])
    : new LongError(status, error, detail)
}

/** 503 in the form of decision 148. `retryAfter` in whole seconds. */
export function temporary(error: string, message: string, correlationId: string, cause: unknown): Unavailable {
  return new Unavailable(error, message, retryAfterOf(cause), { correlationId, retryable: true }, cause)
}

/**
 * 503 for what waiting does not mend, since the merchant or the operator must: `retryable` is false. Buyers see no
 * account facts.
 */
export function notSelling(correlationId: string, cause?: unknown): Unavailable {
  return new Unavailable(
    'Store unavailable',
    'This store cannot take payments at the moment. Nothing was charged.',
    60,
    { correlationId, retryable: false },
    cause
  )
}

/** Seconds that a failure says to wait; 5 where it says nothing. */
export function retryAfterOf(cause: unknown): number {
  if (cause instanceof StorePlatformError) return cause.retryAfter
  if (!(cause instanceof Unavailable)) return 5
  return Number(cause.headers[cause.headers.indexOf('Retry-After') + 1] ?? 5)
}
