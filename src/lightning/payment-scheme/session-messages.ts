/**
 * Server messages of a session (draft-lightning-session-00): receipt, topUp and close bodies, stream events. Amounts
 * are whole satoshis.
 */
import { canonicalize } from './jcs.ts'
import { isHex32 } from '../codecs/hmac.ts'
import { formatTimestamp } from '../codecs/timestamp.ts'

/** Refund of the remainder at close. `skipped`: none left. */
export interface SessionRefund {
  readonly refundSats: number
  readonly refundStatus: 'succeeded' | 'failed' | 'skipped'
}

export const TOPPED_UP = Object.freeze({ status: 'ok' })

export function closedBody({ refundSats, refundStatus }: SessionRefund) {
  return { status: 'closed', refundSats, refundStatus } as const
}

/**
 * Payment-Receipt of any successful action: base64url without padding of canonical JSON. The draft has no challengeId.
 * `at` in Unix seconds; `refund` for close only.
 * @throws TypeError for an invalid session id
 */
export function encodeSessionReceipt(sessionId: string, at: number, refund: SessionRefund | null = null): string {
  const said = receiptOf(sessionId, at)
  const json = canonicalize(
    refund === null ? said : { ...said, refundSats: refund.refundSats, refundStatus: refund.refundStatus }
  )
  return Buffer.from(json).toString('base64url')
}

interface SessionShortage {
  readonly sessionId: string
  readonly balanceSpent: number
  readonly balanceRequired: number
}

/** Server-sent event, see `encodeEvent`. */
interface SessionEvent {
  readonly event: 'payment-need-topup' | 'session-timeout' | 'payment-receipt'
  readonly data: string
}

/** The stream waits for a topUp, or ends after waiting. */
export function shortageEvent(
  event: 'payment-need-topup' | 'session-timeout',
  { sessionId, balanceSpent, balanceRequired }: SessionShortage
): SessionEvent {
  return { event, data: JSON.stringify({ sessionId, balanceSpent, balanceRequired }) }
}

/** Total taken by a stream, before its `[DONE]`. `at` in Unix seconds; `units` sent. */
export function receiptEvent(sessionId: string, at: number, spent: number, units: number): SessionEvent {
  return { event: 'payment-receipt', data: JSON.stringify({ ...receiptOf(sessionId, at), spent, units }) }
}

function receiptOf(sessionId: string, at: number) {
  if (!isHex32(sessionId)) throw new TypeError("A session's id must be 64 lower-case hex characters")
  return { method: 'lightning', reference: sessionId, status: 'success', timestamp: formatTimestamp(at) } as const
}
