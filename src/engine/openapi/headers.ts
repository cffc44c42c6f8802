import type { Json } from './errors.ts'
import type { OperationResponse, AnyOperation } from '../operations/operation.ts'

/** Response headers by name under `components/headers` (contract, Endpoints: conventions). */
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
  },
  X402Required: {
    description: 'base64 of PaymentRequired of x402 version 2; left out where this request is not sold by it.',
    schema: { type: 'string' }
  },
  X402Response: {
    description: 'base64 of SettlementResponse, after PAYMENT-SIGNATURE: the payment hash, or an `errorReason`.',
    schema: { type: 'string' }
  }
} satisfies Record<string, Json>)

const reference = (name: keyof typeof headerComponents): Json => ({ $ref: `#/components/headers/${name}` })

/** Of a 402 and of a sale, where x402 is on. */
export const x402Headers = Object.freeze({
  required: { 'PAYMENT-REQUIRED': reference('X402Required'), 'PAYMENT-RESPONSE': reference('X402Response') },
  sold: { 'PAYMENT-RESPONSE': reference('X402Response') }
})

/** On every response, errors too (contract, Versioning 1; decisions 13 and 14). */
export const commonHeaders: Json = Object.freeze({
  'X-API-Version': reference('ApiVersion'),
  'X-Correlation-Id': reference('CorrelationId')
})

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

export function refusalHeaders(operation: AnyOperation, status: number): Json {
  return status === 402 && readsCredential(operation)
    ? {
        ...commonHeaders,
        'WWW-Authenticate': { description: 'One line for each scheme.', required: true, schema: { type: 'string' } }
      }
    : commonHeaders
}

/** Public operations that verify payment credentials themselves, as those of stores do (decision 138). */
function readsCredential(operation: AnyOperation): boolean {
  return operation.headers?.['Authorization'] !== undefined
}

/** Pages with a total repeat it in a header; bare arrays have no such header (contract, Refunds) unless declared. */
function isPage({ schema, isPaged }: OperationResponse): boolean {
  if (isPaged === true) return true
  const { properties = {} } = (schema ?? {}) as {
    properties?: Readonly<Record<string, unknown>>
  } /* where object schemas keep their members */
  return 'total' in properties && 'offset' in properties
}
