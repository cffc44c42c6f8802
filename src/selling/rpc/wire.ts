/** Payment inside JSON-RPC: codes, names and bodies (draft-payment-transport-mcp-00). */
import type { SentChallenge } from '../holding/challenge.ts'
import type { CredentialRefusal } from '../verifying/verdict.ts'
import { GatewayError } from '../../engine/operations/errors.ts'
import { paymentProblem } from '../../lightning/payment-scheme/payment-problem.ts'
import { exactRequired, refusedSettlement } from '../../lightning/codecs/x402.ts'
import { formatTimestamp } from '../../lightning/codecs/timestamp.ts'

export const PARSE_ERROR = -32700
export const INVALID_REQUEST = -32600
export const INVALID_PARAMS = -32602
const INTERNAL_ERROR = -32603
const PAYMENT_REQUIRED = -32042
const VERIFICATION_FAILED = -32043

export const META = '_meta'
export const CREDENTIAL = 'org.paymentauth/credential'
export const RECEIPT = 'org.paymentauth/receipt'
/** x402 in MCP (x402-foundation/x402, transports-v2/mcp.md). */
export const X402_PAYMENT = 'x402/payment'
export const X402_RESPONSE = 'x402/payment-response'
export const X402_EXTENSION = 'org.x402/payment'

/** Payment capability in `initialize`, under `capabilities.experimental.payment`. */
export const CAPABILITY = JSON.stringify({ methods: { lightning: { intents: ['charge'] } } })

type Id = string | number | null

export function errorText(id: Id, code: number, message: string, data?: object): string {
  return JSON.stringify({ jsonrpc: '2.0', id, error: { code, message, ...(data === undefined ? {} : { data }) } })
}

export function paymentError(id: Id, challenge: SentChallenge, refusal: CredentialRefusal): string {
  const { payment, amountSats } = challenge
  const challenges = payment === null ? [] : [challengeObject(challenge, payment)]
  if (refusal.kind === 'none') {
    const detail = `This call costs ${amountSats} ${amountSats === 1 ? 'satoshi' : 'satoshis'}.`
    return errorText(id, PAYMENT_REQUIRED, 'Payment Required', {
      httpStatus: 402,
      challenges,
      problem: paymentProblem('payment-required', detail, payment?.id ?? null)
    })
  }
  const slug = refusal.kind === 'payment' ? refusal.slug : 'verification-failed'
  return errorText(id, VERIFICATION_FAILED, 'Payment Verification Failed', {
    httpStatus: 402,
    challenges,
    failure: { reason: refusal.reason, detail: refusal.detail },
    problem: paymentProblem(slug, refusal.detail, payment?.id ?? null)
  })
}

/**
 * A payment request of x402, or a refusal with one: by the extension where the client has it, else as a failed tool's
 * result. Null for a challenge without x402.
 */
export function x402Result(
  id: Id,
  { invoice, x402 = null }: SentChallenge,
  refusal: CredentialRefusal,
  hasExtension: boolean
): string | null {
  if (x402 === null) return null
  const reason = refusal.kind === 'x402' ? refusal.reason : null
  const required = exactRequired(invoice, x402, reason ?? 'Payment required')
  const result = hasExtension
    ? { resultType: 'payment_required', paymentRequired: required }
    : {
        resultType: 'complete',
        isError: true,
        structuredContent: required,
        content: [{ type: 'text', text: JSON.stringify(required) }]
      }
  const meta = reason === null ? {} : { [META]: { [X402_RESPONSE]: refusedSettlement(reason, invoice) } }
  return JSON.stringify({ jsonrpc: '2.0', id, result: { ...result, ...meta } })
}

/** A challenge as an object, with `request`; the id covers its canonical text. */
function challengeObject(
  { digest }: SentChallenge,
  { id, realm, request, expires }: NonNullable<SentChallenge['payment']>
): object {
  return {
    id,
    realm,
    method: 'lightning',
    intent: 'charge',
    request: JSON.parse(Buffer.from(request, 'base64url').toString('utf8')) as unknown,
    expires,
    ...(digest === null ? {} : { digest })
  }
}

/** Response to a call that could not be verified or sold: nothing was used up. */
export function faultText(id: Id, error: GatewayError): string {
  const at = error.headers.findIndex((name, index) => index % 2 === 0 && name.toLowerCase() === 'retry-after')
  const retryAfter = at < 0 ? undefined : Number(error.headers[at + 1])
  return errorText(id, INTERNAL_ERROR, error.message, {
    httpStatus: error.status,
    ...(retryAfter === undefined || Number.isNaN(retryAfter) ? {} : { retryAfter })
  })
}

/** `settledAt` in unix seconds. */
export function receiptText(challengeId: string, paymentHash: string, settledAt: number): string {
  return JSON.stringify({
    status: 'success',
    method: 'lightning',
    timestamp: formatTimestamp(settledAt),
    reference: paymentHash,
    challengeId
  })
}
