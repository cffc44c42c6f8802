/**
 * What a server tells the holder of a session (draft-lightning-session-00): its receipt, the bodies of topUp and close,
 * and the events of a stream that it pays for. Amounts are whole satoshis.
 */
import { canonicalize } from './jcs.ts'
import { isHex32 } from '../codecs/preimage.ts'
import { formatTimestamp } from '../codecs/timestamp.ts'

/** What became of what was left when a session closed. `skipped`: nothing was left. */
export interface SessionRefund {
  readonly refundSats: number
  readonly refundStatus: 'succeeded' | 'failed' | 'skipped'
}

/** The body of a topUp. */
export const TOPPED_UP = Object.freeze({ status: 'ok' })

/** The body of a close. */
export function closedBody({ refundSats, refundStatus }: SessionRefund) {
  return { status: 'closed', refundSats, refundStatus } as const
}

/**
 * The value of Payment-Receipt for any action that went well: base64url without padding of canonical JSON. It has no
 * challengeId, which the draft does not give it. `at` in unix seconds; `refund` for close alone.
 * @throws TypeError when the session's id is not 64 lower-case hex
 */
export function encodeSessionReceipt(sessionId: string, at: number, refund: SessionRefund | null = null): string {
  const said = receiptOf(sessionId, at)
  const json = canonicalize(
    refund === null ? said : { ...said, refundSats: refund.refundSats, refundStatus: refund.refundStatus }
  )
  return Buffer.from(json).toString('base64url')
}

/** How a session stands that cannot bear the next unit of a stream. */
export interface SessionShortage {
  readonly sessionId: string
  /** What was spent of all deposits. */
  readonly balanceSpent: number
  /** What the next unit costs. */
  readonly balanceRequired: number
}

/** A server-sent event: `encodeEvent` writes it. */
export interface SessionEvent {
  readonly event: 'payment-need-topup' | 'session-timeout' | 'payment-receipt'
  readonly data: string
}

/** Tells that the stream waits for a topUp, or that it has waited long enough and ends. */
export function shortageEvent(
  event: 'payment-need-topup' | 'session-timeout',
  { sessionId, balanceSpent, balanceRequired }: SessionShortage
): SessionEvent {
  return { event, data: JSON.stringify({ sessionId, balanceSpent, balanceRequired }) }
}

/** Tells what a stream took of its session, before its `[DONE]`. `at` in unix seconds; `units` as many as were sent. */
export function receiptEvent(sessionId: string, at: number, spent: number, units: number): SessionEvent {
  return { event: 'payment-receipt', data: JSON.stringify({ ...receiptOf(sessionId, at), spent, units }) }
}

function receiptOf(sessionId: string, at: number) {
  if (!isHex32(sessionId)) throw new TypeError("A session's id must be 64 lower-case hex characters")
  return { method: 'lightning', reference: sessionId, status: 'success', timestamp: formatTimestamp(at) } as const
}
