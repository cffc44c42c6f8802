import {
  ALREADY_EXISTS,
  RESOURCE_NOT_FOUND,
  type ErrorKind,
  type TitledKind
} from '../engine/operations/error-kinds.ts'
import { LongError, Unavailable } from '../engine/operations/errors.ts'
import type { ShopCredential } from './credentials.ts'
import { StorePlatformError } from './platform.ts'
import { defineError } from '../platform/system/errors.ts'

export const STORE_NOT_CONNECTED = defineError('BG_STORE_NOT_CONNECTED', {
  status: 400,
  cause:
    'The store cannot be connected: its platform credentials are missing or rejected, its domain is unknown, or it does not sell in USD.',
  fix: 'Check the credentials, the scopes of the app, and `storefrontDomain`.'
})

export const CREDENTIAL_NOT_VERIFIED = defineError('BG_CREDENTIAL_NOT_VERIFIED', {
  status: 400,
  cause: 'The proof of payment for an order is missing, does not verify, or uses a disabled payment scheme.',
  fix: 'Pay with an enabled scheme and send its credential; `message` says what is wrong with this one.'
})

export const STORE_FAILED = defineError('BG_STORE_FAILED', {
  status: 502,
  cause: 'The store platform rejected the request or could not create the order. The payment was not spent.',
  fix: 'Retry later; an administrator can retry the order too.'
})

export const STORE_UNAVAILABLE = defineError('BG_STORE_UNAVAILABLE', {
  status: 503,
  title: 'Store unavailable',
  cause: 'The store cannot take payments, or its platform gives no catalog or tax. Nothing was charged.',
  fix: 'Retry after `Retry-After` unless `retryable` is false.'
})

export function storeNotFound(): LongError {
  return new LongError(
    RESOURCE_NOT_FOUND,
    'Store not found',
    'There is no such store, or it sells nothing at the moment.'
  )
}

/** 404 for every reason (contract, Errors: Storefront order status). */
export function orderNotFound(): LongError {
  return new LongError(
    RESOURCE_NOT_FOUND,
    'Order not found',
    'This store has no order that the token or credential opens.'
  )
}

/**
 * An invalid payment credential. For an L402 token the reason is also where L402 clients look (contract, Errors:
 * Classic credential; decision 111).
 */
export function credentialRefused(
  kind: ErrorKind,
  error: string,
  { scheme, detail }: Pick<Extract<ShopCredential, { kind: 'refused' }>, 'scheme' | 'detail'>
): LongError {
  return scheme === 'l402'
    ? new LongError(kind, error, detail, { detail }, ['X-L402-Error', detail])
    : new LongError(kind, error, detail)
}

/** 503 in the form of decision 148. */
export function temporary(
  of: TitledKind | Unavailable,
  message: string,
  correlationId: string,
  cause: unknown
): Unavailable {
  const kind = of instanceof Unavailable ? { ...of.kind, title: of.error } : of
  return new Unavailable(kind, message, retryAfterOf(cause), { correlationId, retryable: true }, cause)
}

/** 503 with `retryable` false: merchant or operator must act. Buyers see no account facts. */
export function notSelling(correlationId: string, cause?: unknown): Unavailable {
  return new Unavailable(
    STORE_UNAVAILABLE,
    'This store cannot take payments at the moment. Nothing was charged.',
    60,
    { correlationId, retryable: false },
    cause
  )
}

/** Seconds; 5 without a hint. */
export function retryAfterOf(cause: unknown): number {
  if (cause instanceof StorePlatformError) return cause.retryAfter
  if (!(cause instanceof Unavailable)) return 5
  return Number(cause.headers[cause.headers.indexOf('Retry-After') + 1] ?? 5)
}

/**
 * A platform's failure for the merchant. While a store is opened, wrong credentials and domain are faults of the
 * request; every other failure is 502.
 */
export function platformFailure(error: unknown, when: 'opening' | 'refreshing'): unknown {
  if (!(error instanceof StorePlatformError)) return error
  if (when === 'opening' && error.fault === 'credentials')
    return new LongError(STORE_NOT_CONNECTED, 'Store credentials refused', error.message, {}, [], error)
  if (when === 'opening' && error.fault === 'shop')
    return new LongError(STORE_NOT_CONNECTED, 'Store not found at the platform', error.message, {}, [], error)
  const later = error.fault === 'away' || error.fault === 'throttled' ? ['Retry-After', String(error.retryAfter)] : []
  return new LongError(
    STORE_FAILED,
    'No shop info from the platform',
    error.message,
    { upstreamStatus: error.upstreamStatus },
    later,
    error
  )
}

export function storeExists(): LongError {
  return new LongError(
    ALREADY_EXISTS,
    'Store exists',
    'There is a store already, and a merchant has one; change it with PUT /api/merchant/storefront.'
  )
}

export function slugTaken(slug: string): LongError {
  return new LongError(ALREADY_EXISTS, 'Slug taken', `Another store has the slug ${slug}; choose another one.`)
}
