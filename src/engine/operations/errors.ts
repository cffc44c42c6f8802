import { isConnectionFault } from '../../platform/database/errors.ts'
import type { ErrorCode } from '../../platform/system/errors.ts'
import type { WholeReply } from '../message/reply.ts'
import {
  AUTH_THROTTLED,
  CLIENT_CLOSED,
  IDEMPOTENCY_KEY_REUSED,
  INTERNAL,
  METHOD_NOT_ALLOWED,
  NOT_FOUND,
  PAYLOAD_TOO_LARGE,
  PLUGIN_RESPONSE,
  RATE_LIMITED,
  REQUEST_IN_PROGRESS,
  REQUEST_MALFORMED,
  REQUEST_TIMEOUT,
  SERVICE_UNAVAILABLE,
  SETTING_MISSING,
  UPSTREAM_FAILED,
  VALIDATION,
  type ErrorKind,
  type TitledKind
} from './error-kinds.ts'

const JSON_TYPE = 'application/json; charset=utf-8'
const PROBLEM_TYPE = 'application/problem+json; charset=utf-8'

export interface ErrorContext {
  readonly correlationId: string
  /** Wall-clock milliseconds. */
  readonly now: number
  /** Outside production a 500 also carries detail, exceptionType and stackTrace (contract, Errors). */
  readonly mode: 'development' | 'production'
}

/**
 * The root of every error response. One class per shape of the contract's Errors section; `errorReply` alone serializes
 * them.
 */
export abstract class GatewayError extends Error {
  readonly status: number
  readonly headers: readonly string[]
  // Private, since loggers write the members of an error.
  readonly #kind: ErrorKind

  /** @param kind a status alone is a plugin's own response */
  constructor(kind: ErrorKind | number, message: string, headers: readonly string[] = [], cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = new.target.name
    this.#kind = typeof kind === 'number' ? { code: PLUGIN_RESPONSE.code, status: kind } : kind
    this.status = this.#kind.status
    this.headers = headers
  }

  get kind(): ErrorKind {
    return this.#kind
  }

  /** Code in docs/reference/errors.md, for the log; bodies have none (contract, Errors). */
  get code(): ErrorCode {
    return this.#kind.code
  }

  get mediaType(): string {
    return JSON_TYPE
  }

  abstract members(around: ErrorContext): Record<string, unknown> | null
}

/** `{error}` (contract, Errors: Short). */
export class ShortError extends GatewayError {
  members(): Record<string, unknown> {
    return { error: this.message }
  }
}

/** `{error, message, …}` (contract, Errors: Long). `more` adds members such as `details` or `proxy_id`. */
export class LongError extends GatewayError {
  readonly error: string
  readonly more: Readonly<Record<string, unknown>>

  constructor(
    kind: ErrorKind | number,
    error: string,
    message: string,
    more: Readonly<Record<string, unknown>> = {},
    headers: readonly string[] = [],
    cause?: unknown
  ) {
    super(kind, message, headers, cause)
    this.error = error
    this.more = more
  }

  members(): Record<string, unknown> {
    return { error: this.error, message: this.message, ...this.more }
  }
}

export class PayloadTooLarge extends LongError {
  /** Bytes. */
  readonly limit: number

  constructor(limit: number, more: Readonly<Record<string, unknown>> = {}) {
    super(
      PAYLOAD_TOO_LARGE,
      'Payload too large',
      `The request body is larger than the limit of ${limit} bytes.`,
      more,
      ['Connection', 'close']
    )
    this.limit = limit
  }
}

/**
 * The upstream's response exceeds the limit: 502 (contract, Errors: Proxy). A separate class because requests can cause
 * it: the delivered part is not free every time.
 */
export class ResponseTooLarge extends LongError {
  /** `limit` in bytes. */
  constructor(limit: number, more: Readonly<Record<string, unknown>> = {}) {
    const details = `its body is larger than ${limit} bytes`
    super(UPSTREAM_FAILED, 'Bad gateway', 'The answer of the upstream is too large.', { ...more, details })
  }
}

/** The parser rejected the body, or it came too slowly (408). */
export class MalformedBody extends LongError {
  constructor(status: number, message: string) {
    if (status === REQUEST_TIMEOUT.status) super(REQUEST_TIMEOUT, 'Request Timeout', message)
    else super({ ...REQUEST_MALFORMED, status }, 'Bad Request', message)
  }
}

/**
 * The client closed the connection, or back-pressured the upstream until it gave up (`cause`). Logged as 499 and never
 * answered.
 */
export class ClientGone extends GatewayError {
  constructor(cause?: unknown) {
    super(CLIENT_CLOSED, 'The client closed the connection.', [], cause)
  }

  members(): null {
    return null
  }
}

/** 503 with Retry-After, for transient faults (contract, Errors; decision 15). */
export class Unavailable extends LongError {
  /**
   * @param error a text alone is `BG_SERVICE_UNAVAILABLE`
   * @param retryAfter whole seconds
   */
  constructor(
    error: string | TitledKind,
    message: string,
    retryAfter = 5,
    more: Readonly<Record<string, unknown>> = {},
    cause?: unknown
  ) {
    const kind = typeof error === 'string' ? { ...SERVICE_UNAVAILABLE, title: error } : error
    super(kind, kind.title, message, more, ['Retry-After', String(retryAfter)], cause)
  }
}

/** 429 `{error: "Too many requests", message, retryAfter}` (contract, Errors: Rate limit). */
export class RateLimited extends GatewayError {
  readonly retryAfter: number

  /** `retryAfter` in whole seconds, at least 1 (decision 33). */
  constructor(retryAfter: number) {
    const seconds = Math.max(1, Math.ceil(retryAfter))
    super(RATE_LIMITED, `Rate limit exceeded. Try again in ${seconds} seconds.`, ['Retry-After', String(seconds)])
    this.retryAfter = seconds
  }

  members(): Record<string, unknown> {
    return { error: RATE_LIMITED.title, message: this.message, retryAfter: this.retryAfter }
  }
}

/** 429 `{error: "Too many failed authentication attempts", message}` (contract, Authentication 6). */
export class AuthThrottled extends LongError {
  constructor(retryAfter: number) {
    const seconds = Math.max(1, Math.ceil(retryAfter))
    super(
      AUTH_THROTTLED,
      AUTH_THROTTLED.title,
      `Too many requests with a missing or invalid API key came from this address. Try again in ${seconds} seconds.`,
      {},
      ['Retry-After', String(seconds)]
    )
  }
}

/**
 * Messages per failed field; keys in PascalCase such as `OrderId` and `Items[0].Quantity`, `$` for the whole body
 * (decision 2).
 */
export type FieldErrors = Readonly<Record<string, readonly string[]>>

/** 400 `application/problem+json` for schema violations (contract, Errors: Validation; decisions 1 to 3). */
export class ValidationError extends GatewayError {
  readonly errors: FieldErrors

  constructor(errors: FieldErrors) {
    super(VALIDATION, 'One or more validation errors occurred.')
    this.errors = errors
  }

  override get mediaType(): string {
    return PROBLEM_TYPE
  }

  members(around: ErrorContext): Record<string, unknown> {
    return {
      type: 'https://tools.ietf.org/html/rfc9110#section-15.5.1',
      title: this.message,
      status: 400,
      errors: this.errors,
      traceId: around.correlationId
    }
  }
}

/** `application/problem+json` with a stable type URI (contract, Errors: Producer API; decisions 101 to 103). */
export class ProblemError extends GatewayError {
  readonly type: string
  readonly title: string
  readonly more: Readonly<Record<string, unknown>>

  constructor(
    kind: ErrorKind | number,
    type: string,
    title: string,
    detail: string,
    more: Readonly<Record<string, unknown>> = {},
    headers: readonly string[] = []
  ) {
    super(kind, detail, headers)
    this.type = type
    this.title = title
    this.more = more
  }

  override get mediaType(): string {
    return PROBLEM_TYPE
  }

  members(): Record<string, unknown> {
    return { type: this.type, title: this.title, status: this.status, detail: this.message, ...this.more }
  }
}

/** Members of a subscription or feature refusal, where relevant (decision 86). */
interface GateMembers {
  readonly action_required:
    | 'contact_support'
    | 'subscribe'
    | 'update_payment_method'
    | 'renew_subscription'
    | 'upgrade_plan'
  readonly current_plan?: string | null
  readonly required_plan?: string | null
  readonly subscription_status?: string | null
  readonly feature?: string
  readonly current_period_end?: string | null
}

/** 403 of the subscription gate (contract, Errors: Subscription or feature 403). */
export class GateError extends LongError {
  constructor(kind: TitledKind, message: string, members: GateMembers) {
    super(kind, kind.title, message, { ...members })
  }
}

/** 500 `{error: "Server configuration error"}` (decision 16). */
export class ConfigurationMissing extends GatewayError {
  /** `setting` names the missing key in the log only. */
  constructor(setting: string) {
    super(SETTING_MISSING, `setting ${setting} is missing`)
  }

  members(): Record<string, unknown> {
    return { error: SETTING_MISSING.title }
  }
}

/** Wraps an unexpected error (contract, Errors: Unhandled; decision 16). */
class Unhandled extends GatewayError {
  constructor(cause: unknown) {
    super(INTERNAL, 'An unexpected error occurred', [], cause)
  }

  members(around: ErrorContext): Record<string, unknown> {
    const base = {
      error: this.message,
      correlationId: around.correlationId,
      timestamp: new Date(around.now).toISOString()
    }
    if (around.mode === 'production') return base
    const cause = this.cause
    return cause instanceof Error
      ? { ...base, detail: cause.message, exceptionType: cause.name, stackTrace: cause.stack ?? null }
      : { ...base, detail: String(cause), exceptionType: typeof cause, stackTrace: null }
  }
}

/** The error itself, or 503 for a lost database; null for an unexpected error. */
export function foreseen(error: unknown): GatewayError | null {
  if (error instanceof GatewayError) return error
  if (!isConnectionFault(error)) return null
  return new Unavailable(
    'Service unavailable',
    'The gateway cannot reach its data at the moment. Try again later.',
    5,
    {},
    error
  )
}

export function asGatewayError(error: unknown): GatewayError {
  return foreseen(error) ?? new Unhandled(error)
}

export function errorReply(error: GatewayError, around: ErrorContext): WholeReply {
  const members = error.members(around)
  if (members === null) return { status: error.status, headers: error.headers, body: null }
  return {
    status: error.status,
    headers: ['Content-Type', error.mediaType, ...error.headers],
    body: JSON.stringify(members)
  }
}

/** 400 for an idempotency key used by another request (decision 18). */
export function idempotencyKeyReused(): ShortError {
  return new ShortError(IDEMPOTENCY_KEY_REUSED, 'Idempotency key was already used with a different request.')
}

/** 503 for a repetition while the first request runs (decision 19). */
export function requestInProgress(): Unavailable {
  return new Unavailable(
    REQUEST_IN_PROGRESS,
    'A request with the same idempotency key is still running. Try again shortly.',
    5
  )
}

/** 404 for an unserved path (decision 6). */
export function notFound(): LongError {
  return new LongError(NOT_FOUND, 'Not found', 'Nothing is served at this path.')
}

/** 405 with Allow (decision 6). `allowed` lists the path's methods. */
export function methodNotAllowed(method: string, allowed: readonly string[]): LongError {
  const list = allowed.join(', ')
  return new LongError(
    METHOD_NOT_ALLOWED,
    'Method not allowed',
    `This path does not take ${method}; it takes ${list}.`,
    {},
    ['Allow', list]
  )
}

/**
 * Version of the HTTP contract, sent as X-API-Version on every response; independent of the package's version (decision
 * 13).
 */
export const API_VERSION = '1.0.0'
