import type { Json } from './errors.ts'
import type { OperationResponse, AnyOperation } from '../operations/operation.ts'

/** Headers of responses, by their name under `components/headers` (contract, Endpoints: conventions). */
export const headerComponents = Object.freeze({
  ApiVersion: {
    description: 'Version of this API, major.minor.patch; a breaking change raises the first.',
    required: true,
    schema: { type: 'string', pattern: '^\\d+\\.\\d+\\.\\d+$' }
  },
  CorrelationId: {
    description: 'The X-Correlation-Id of the request, else a fresh one. Name it when you ask about this request.',
    required: true,
    schema: { type: 'string' }
  },
  IdempotencyReplayed: {
    description: 'Present when this is the answer to an earlier request with the same key.',
    schema: { type: 'string', enum: ['true'] }
  },
  TotalCount: {
    description: 'How many there are without paging.',
    required: true,
    schema: { type: 'integer', minimum: 0 }
  },
  Link: {
    description: 'The address of the next page, as `<…>; rel="next"`; left out on the last.',
    schema: { type: 'string' }
  },
  PaymentReceipt: {
    description: 'base64url of JSON {challengeId, method, reference, status, timestamp}; after a Payment credential.',
    schema: { type: 'string' }
  }
} satisfies Record<string, Json>)

const reference = (name: keyof typeof headerComponents): Json => ({ $ref: `#/components/headers/${name}` })

/** what every response carries, errors too (contract, Versioning 1; decisions 13 and 14). */
export const commonHeaders: Json = Object.freeze({
  'X-API-Version': reference('ApiVersion'),
  'X-Correlation-Id': reference('CorrelationId')
})

/**
 * The headers of a success: what every response has, and what follows from how the operation is asked and what it
 * gives.
 */
export function successHeaders(operation: AnyOperation, response: OperationResponse): Json {
  const replays = operation.headers?.['Idempotency-Key'] !== undefined
  return {
    ...commonHeaders,
    ...(replays ? { 'X-Idempotency-Replayed': reference('IdempotencyReplayed') } : {}),
    ...(response.isPaged === true ? { Link: reference('Link') } : {}),
    ...(isPage(response) ? { 'X-Total-Count': reference('TotalCount') } : {}),
    ...(operation.access === 'credential' || readsCredential(operation)
      ? { 'Payment-Receipt': reference('PaymentReceipt') }
      : {})
  }
}

/** The headers of an operation's own refusal: what every response has, and with a 402 the challenge. */
export function refusalHeaders(operation: AnyOperation, status: number): Json {
  return status === 402 && readsCredential(operation)
    ? {
        ...commonHeaders,
        'WWW-Authenticate': { description: 'One line for each scheme.', required: true, schema: { type: 'string' } }
      }
    : commonHeaders
}

/**
 * Whether an operation that anybody may call judges payment credentials by itself, as those of stores do (decision
 * 138).
 */
function readsCredential(operation: AnyOperation): boolean {
  return operation.headers?.['Authorization'] !== undefined
}

/**
 * Pages that count what they are a part of say so in the header as well; bare arrays have neither (contract, Refunds),
 * unless they say so.
 */
function isPage({ schema, isPaged }: OperationResponse): boolean {
  if (isPaged === true) return true
  const { properties = {} } = (schema ?? {}) as {
    properties?: Readonly<Record<string, unknown>>
  } /* where object schemas keep their members */
  return 'total' in properties && 'offset' in properties
}
