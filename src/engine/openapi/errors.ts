import type { AnyOperation } from '../operations/operation.ts'
import { ROLES } from '../operations/roles.ts'

/** JSON of the document. */
export type Json = Record<string, unknown>

/** One form that a response may have: its media type and the name of its schema under `components/schemas`. */
export interface Form {
  readonly mediaType: string
  readonly schema: string
}

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

/** Every form of an error, by its name under `components/schemas` (contract, Errors: shapes). */
export const errorSchemas: Readonly<Record<string, Json>> = Object.freeze({
  ShortError: object({ error: text }),
  LongError: object({ error: text, message: text }),
  AccountError: object(
    {
      error: {
        type: 'string',
        enum: [
          'Account inactive',
          'Subscription required',
          'Subscription not active',
          'Subscription period expired',
          'Feature not available'
        ]
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
  SiteError: object({ error: only('Forbidden'), message: text }),
  RoleError: object({
    error: only('Role required'),
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
    error: only('Too many requests'),
    message: text,
    retryAfter: { type: 'integer', minimum: 1, description: 'Seconds, as in Retry-After.' }
  }),
  KeyThrottleError: object({ error: only('Too many failed authentication attempts'), message: text }),
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
  ConfigurationError: object({ error: only('Server configuration error') }),
  CredentialError: object({
    error: only('Unauthorized'),
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

const json = (...schemas: string[]): Form[] => schemas.map(schema => ({ mediaType: 'application/json', schema }))
const problem = (...schemas: string[]): Form[] =>
  schemas.map(schema => ({ mediaType: 'application/problem+json', schema }))

interface Refusal {
  readonly description: string
  readonly forms: readonly Form[]
  readonly headers?: Json
}

const retryAfter: Json = {
  'Retry-After': { description: 'Whole seconds, at least 1.', schema: { type: 'integer', minimum: 1 } }
}
const reason: Json = { 'X-L402-Error': { description: 'Why.', schema: text } }

/** What the gateway itself answers, by its name under `components/responses`. */
export const refusals = Object.freeze({
  Malformed: { description: 'The request is not valid HTTP, or a header of it is wrong.', forms: json('LongError') },
  Refused: {
    description: 'Something in the request is not valid; the error says what.',
    forms: json('ShortError', 'LongError')
  },
  Invalid: {
    description:
      'Something in the request is not valid. A problem names the fields; an error is about more than one field, the account, or what is stored.',
    forms: [...json('ShortError', 'LongError'), ...problem('ValidationProblem')]
  },
  KeyInvalid: { description: 'The API key is missing or invalid.', forms: json('LongError') },
  CredentialInvalid: {
    description: 'The L402 credential is not valid.',
    forms: json('CredentialError'),
    headers: reason
  },
  PaymentRequired: {
    description:
      'Payment is needed: one Lightning invoice, offered as L402 and as Payment. To a GET that prefers text/html it is a page for people.',
    forms: [...json('Challenge'), ...problem('PaymentProblem'), { mediaType: 'text/html', schema: 'ChallengePage' }],
    headers: { 'WWW-Authenticate': { description: 'One line for each scheme.', schema: text } }
  },
  PlanCap: {
    description: 'A cap of the plan was reached; paying an invoice does not help, and there is no WWW-Authenticate.',
    forms: problem('PlanCapProblem')
  },
  AccountRefused: {
    description:
      'The account, its subscription or a feature does not allow it, as action_required says; or whoever is signed in may not do it in this account.',
    forms: json('AccountError', 'RoleError', 'SiteError')
  },
  Forbidden: { description: 'The caller may not do this.', forms: json('LongError') },
  TokenForbidden: {
    description: 'The L402 token is not for this request.',
    forms: json('TokenError'),
    headers: reason
  },
  NotFound: {
    description: "There is no such thing, or it is another account's.",
    forms: json('ShortError', 'LongError')
  },
  Conflict: { description: 'It clashes with what is there.', forms: json('ShortError', 'LongError') },
  TooLarge: { description: 'The body is too large.', forms: json('LongError') },
  PathTooLong: { description: 'The path is too long to be paid for.', forms: json('LongError') },
  NotJson: { description: 'The body is not JSON.', forms: json('LongError') },
  TooMany: {
    description: 'Too many requests; Retry-After says when to come back.',
    forms: json('RateLimitError'),
    headers: retryAfter
  },
  TooManyWithKey: {
    description:
      'Too many requests, or too many with a missing or invalid key from this address; Retry-After says when to come back.',
    forms: json('RateLimitError', 'KeyThrottleError'),
    headers: retryAfter
  },
  Unforeseen: {
    description: 'An error that nobody foresaw, or a setting that is missing.',
    forms: json('UnhandledError', 'ConfigurationError')
  },
  UpstreamFailed: {
    description: 'The payment provider or the target gave no usable answer.',
    forms: json('LongError')
  },
  Away: {
    description: 'A part that is needed is away; nothing was done. Retry-After says when to come back.',
    forms: json('LongError'),
    headers: retryAfter
  },
  UpstreamLate: { description: 'The payment provider or the target did not answer in time.', forms: json('LongError') }
} satisfies Record<string, Refusal>)

export type RefusalName = keyof typeof refusals

/** Which refusal a status means for an operation; null for those that the gateway has no form of its own for. */
export function refusalOf(operation: AnyOperation, status: number): RefusalName | null {
  const { access } = operation
  const keyed = access === 'merchant' || access === 'admin' || operation.responses[401] !== undefined
  // One that says in problems of its own what does not fit its schemas never lets the engine say it.
  const sayItself = operation.refuse !== undefined && operation.responses[400]?.mediaType === 'application/problem+json'
  const checked = (operation.body !== undefined || operation.query !== undefined) && !sayItself
  switch (status) {
    case 400:
      return checked
        ? 'Invalid'
        : access === 'merchant' || access === 'admin' || operation.responses[400] !== undefined
          ? 'Refused'
          : 'Malformed'
    case 401:
      return access === 'credential' ? 'CredentialInvalid' : 'KeyInvalid'
    case 402:
      return access === 'credential' ? 'PaymentRequired' : 'PlanCap'
    case 403:
      if (access === 'credential') return 'TokenForbidden'
      // What anybody may do can ask for a role of who comes with a key.
      return access === 'merchant' || operation.role !== undefined ? 'AccountRefused' : 'Forbidden'
    case 404:
      return 'NotFound'
    case 409:
      return 'Conflict'
    case 413:
      return 'TooLarge'
    case 414:
      return 'PathTooLong'
    case 415:
      return 'NotJson'
    case 429:
      return keyed ? 'TooManyWithKey' : 'TooMany'
    case 500:
      return 'Unforeseen'
    case 502:
      return 'UpstreamFailed'
    case 503:
      return 'Away'
    case 504:
      return 'UpstreamLate'
    default:
      return null
  }
}

/** Statuses that the engine or the chain in front may answer whatever the operation itself declares. */
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
