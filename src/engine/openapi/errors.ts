import {
  ACCOUNT_INACTIVE,
  ALREADY_EXISTS,
  AUTH_THROTTLED,
  CONFLICT,
  FEATURE_NOT_AVAILABLE,
  FORBIDDEN,
  INTERNAL,
  INVALID_STATE,
  KEY_INVALID,
  LIMIT_REACHED,
  PAYLOAD_TOO_LARGE,
  RATE_LIMITED,
  REQUEST_MALFORMED,
  RESOURCE_NOT_FOUND,
  SERVICE_UNAVAILABLE,
  SETTING_MISSING,
  SUBSCRIPTION_EXPIRED,
  SUBSCRIPTION_NOT_ACTIVE,
  SUBSCRIPTION_REQUIRED,
  UNAUTHORIZED,
  UNSUPPORTED_MEDIA_TYPE,
  UPSTREAM_FAILED,
  UPSTREAM_TIMEOUT,
  URI_TOO_LONG,
  VALIDATION
} from '../operations/error-kinds.ts'
import { responseOf, type AnyOperation, ROLE_REQUIRED, ROLES } from '../operations/operation.ts'

export type Json = Record<string, unknown>

const text: Json = { type: 'string' }
const nullableText: Json = { type: ['string', 'null'] }
const only = (value: string): Json => ({ type: 'string', enum: [value] })
const object = (properties: Json, optional: Json = {}): Json => ({
  type: 'object',
  required: Object.keys(properties),
  properties: { ...properties, ...optional }
})

const fieldErrors: Json = {
  type: 'object',
  description: 'Messages by field, in PascalCase: OrderId, Items[0].Quantity, $ for the whole body.',
  additionalProperties: { type: 'array', items: text, minItems: 1 }
}

/** Error forms by name under `components/schemas` (contract, Errors: shapes). */
export const errorSchemas: Readonly<Record<string, Json>> = Object.freeze({
  ShortError: object({ error: text }),
  LongError: object({ error: text, message: text }),
  AccountError: object(
    {
      error: {
        type: 'string',
        enum: [
          ACCOUNT_INACTIVE,
          SUBSCRIPTION_REQUIRED,
          SUBSCRIPTION_NOT_ACTIVE,
          SUBSCRIPTION_EXPIRED,
          FEATURE_NOT_AVAILABLE
        ].map(({ title }) => title)
      },
      message: text,
      action_required: {
        type: 'string',
        enum: ['contact_support', 'subscribe', 'update_payment_method', 'renew_subscription', 'upgrade_plan']
      }
    },
    {
      current_plan: nullableText,
      required_plan: nullableText,
      subscription_status: nullableText,
      feature: text,
      current_period_end: nullableText
    }
  ),
  ValidationProblem: object({
    type: { type: 'string', format: 'uri' },
    title: text,
    status: { type: 'integer', enum: [400] },
    errors: fieldErrors,
    traceId: { ...text, description: 'The X-Correlation-Id.' }
  }),
  PaymentProblem: object(
    { type: { type: 'string', format: 'uri' }, title: text, status: { type: 'integer', enum: [402] }, detail: text },
    { challengeId: text }
  ),
  SiteError: object({ error: only(FORBIDDEN.title), message: text }),
  RoleError: object({
    error: only(ROLE_REQUIRED.title),
    message: text,
    role: { type: 'string', enum: [...ROLES] },
    required_role: { type: 'string', enum: [...ROLES] }
  }),
  PlanCapProblem: object({
    type: { type: 'string', format: 'uri' },
    title: text,
    status: { type: 'integer', enum: [402] },
    detail: text,
    error: text,
    limit: { type: 'integer' },
    current: { type: 'integer' },
    requested: { type: 'integer' },
    current_plan: nullableText,
    required_plan: nullableText,
    action_required: only('upgrade_plan')
  }),
  RateLimitError: object({
    error: only(RATE_LIMITED.title),
    message: text,
    retryAfter: { type: 'integer', minimum: 1, description: 'Seconds, as in Retry-After.' }
  }),
  KeyThrottleError: object({ error: only(AUTH_THROTTLED.title), message: text }),
  UnhandledError: object(
    {
      error: only('An unexpected error occurred'),
      correlationId: text,
      timestamp: { type: 'string', format: 'date-time' }
    },
    {
      detail: { ...text, description: 'Outside production only.' },
      exceptionType: text,
      stackTrace: nullableText
    }
  ),
  ConfigurationError: object({ error: only(SETTING_MISSING.title) }),
  CredentialError: object({
    error: only(UNAUTHORIZED.title),
    message: text,
    detail: { ...text, description: 'As in X-L402-Error.' }
  }),
  TokenError: object({ error: text, message: text }, { details: text, allowed: text, requested: text }),
  ChallengePage: { type: 'string' },
  Challenge: object(
    {
      error: only('Payment Required'),
      message: text,
      l402: object({
        macaroon: text,
        invoice: text,
        amount_sats: { type: 'integer' },
        payment_hash: text,
        expires_at: { type: 'string', format: 'date-time' }
      })
    },
    {
      detail: { ...text, description: 'Why the credential that was sent is refused.' },
      details: text,
      allowed: text,
      requested: text
    }
  )
})

interface Form {
  readonly mediaType: string
  readonly schema: string
}

const json = (...schemas: string[]): Form[] => schemas.map(schema => ({ mediaType: 'application/json', schema }))
const problem = (...schemas: string[]): Form[] =>
  schemas.map(schema => ({ mediaType: 'application/problem+json', schema }))

interface Refusal {
  readonly description: string
  readonly forms: readonly Form[]
  readonly headers: Json
}

function refusal(
  of: string | ReadonlyArray<{ readonly cause: string }>,
  forms: readonly Form[],
  headers = {}
): Refusal {
  return { description: typeof of === 'string' ? of : of.map(({ cause }) => cause).join(' '), forms, headers }
}

const retryAfter: Json = {
  'Retry-After': { description: 'Whole seconds, at least 1.', schema: { type: 'integer', minimum: 1 } }
}
const reason: Json = { 'X-L402-Error': { description: 'Why.', schema: text } }
const either = json('ShortError', 'LongError')

export const refusals = Object.freeze({
  Malformed: refusal([REQUEST_MALFORMED], json('LongError')),
  Refused: refusal([VALIDATION, INVALID_STATE], either),
  Invalid: refusal([VALIDATION, INVALID_STATE], [...either, ...problem('ValidationProblem')]),
  KeyInvalid: refusal([KEY_INVALID], json('LongError')),
  CredentialInvalid: refusal([UNAUTHORIZED], json('CredentialError'), reason),
  PaymentRequired: refusal(
    'Payment is needed: one Lightning invoice, offered as L402 and as Payment. To a GET that prefers text/html it is a page for people.',
    [...json('Challenge'), ...problem('PaymentProblem'), { mediaType: 'text/html', schema: 'ChallengePage' }],
    { 'WWW-Authenticate': { description: 'One line for each scheme.', schema: text } }
  ),
  PlanCap: refusal(
    'A limit of the plan is reached; it cannot be paid, and there is no WWW-Authenticate.',
    problem('PlanCapProblem')
  ),
  AccountRefused: refusal(
    'The account, its subscription or a feature does not allow it, as action_required says; or the role of the caller in the account.',
    json('AccountError', 'RoleError', 'SiteError')
  ),
  Forbidden: refusal([FORBIDDEN], json('LongError')),
  TokenForbidden: refusal('The L402 token is not for this request.', json('TokenError'), reason),
  NotFound: refusal([RESOURCE_NOT_FOUND], either),
  Conflict: refusal([CONFLICT, ALREADY_EXISTS, LIMIT_REACHED], either),
  TooLarge: refusal([PAYLOAD_TOO_LARGE], json('LongError')),
  PathTooLong: refusal([URI_TOO_LONG], json('LongError')),
  NotJson: refusal([UNSUPPORTED_MEDIA_TYPE], json('LongError')),
  TooMany: refusal([RATE_LIMITED], json('RateLimitError'), retryAfter),
  TooManyWithKey: refusal([RATE_LIMITED, AUTH_THROTTLED], json('RateLimitError', 'KeyThrottleError'), retryAfter),
  Unforeseen: refusal([INTERNAL, SETTING_MISSING], json('UnhandledError', 'ConfigurationError')),
  UpstreamFailed: refusal([UPSTREAM_FAILED], json('LongError')),
  Away: refusal([SERVICE_UNAVAILABLE], json('LongError'), retryAfter),
  UpstreamLate: refusal([UPSTREAM_TIMEOUT], json('LongError'))
})

export type RefusalName = keyof typeof refusals

const BY_STATUS: Readonly<Record<number, RefusalName>> = {
  404: 'NotFound',
  409: 'Conflict',
  413: 'TooLarge',
  414: 'PathTooLong',
  415: 'NotJson',
  500: 'Unforeseen',
  502: 'UpstreamFailed',
  503: 'Away',
  504: 'UpstreamLate'
}

/** Null for statuses without a form of the gateway's own. */
export function refusalOf(operation: AnyOperation, status: number): RefusalName | null {
  const { access, responses } = operation
  const keyed = access === 'merchant' || access === 'admin'
  // An operation with its own problem form never uses the engine's.
  const saysItself =
    operation.refuse !== undefined && responseOf(operation, 400)?.mediaType === 'application/problem+json'
  const checked = (operation.body !== undefined || operation.query !== undefined) && !saysItself
  switch (status) {
    case 400:
      return checked ? 'Invalid' : keyed || responses[400] !== undefined ? 'Refused' : 'Malformed'
    case 401:
      return access === 'credential' ? 'CredentialInvalid' : 'KeyInvalid'
    case 402:
      return access === 'merchant' ? 'PlanCap' : 'PaymentRequired'
    case 403:
      if (access === 'credential') return 'TokenForbidden'
      // A public operation can require a role of callers with a key.
      return access === 'merchant' || operation.role !== undefined ? 'AccountRefused' : 'Forbidden'
    case 429:
      return keyed || responses[401] !== undefined ? 'TooManyWithKey' : 'TooMany'
    default:
      return BY_STATUS[status] ?? null
  }
}

/** Statuses of the engine or the chain, whatever the operation declares. */
export function impliedStatuses(operation: AnyOperation): number[] {
  const { access, method } = operation
  const list = [400, 429, 500, 503]
  if (access !== 'public') list.push(401)
  if (access !== 'public' || operation.role !== undefined) list.push(403)
  if (access === 'credential') list.push(402, 414)
  if (operation.path.includes(':')) list.push(404)
  if (method !== 'GET') list.push(413)
  if (operation.body !== undefined) list.push(415)
  return list
}
