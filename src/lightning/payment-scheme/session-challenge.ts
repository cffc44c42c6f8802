/** Server side of the `session` intent (draft-lightning-session-00). Ids are made as a charge's (`paymentId`). */
import { canonicalize } from './jcs.ts'
import { challengeLine, type LineTerms, type PaymentChallenge, PaymentChallengeError } from './payment-challenge.ts'
import { formatTimestamp } from '../codecs/timestamp.ts'
import { isHex32 } from '../codecs/hmac.ts'

/** Default units per first deposit, as the draft recommends. */
const UNITS_OF_A_DEPOSIT = 20

export interface SessionTerms {
  readonly unitSats: number
  /** Display label, such as `token` or `chunk`. */
  readonly unitType: string
  /** Seconds without bearer or topUp before the session closes. */
  readonly idleSeconds: number
  readonly description: string | null
}

/** The invoice is the deposit's; its amount is the deposit. */
export type SessionChallengeTerms = SessionTerms & LineTerms

/** Deposit in satoshis: as configured, else 20 units; at least one unit. */
export function depositSats(unitSats: number, configured: number | null): number {
  return Math.max(configured ?? unitSats * UNITS_OF_A_DEPOSIT, unitSats)
}

/**
 * Makes `Payment id="…", realm="…", method="lightning", intent="session", request="…", expires="…"`. Bound to no body,
 * since a session pays for several requests.
 * @param key the current one of `KeyRing.paymentIdKeys`
 * @throws PaymentChallengeError when the terms do not fit the invoice or the scheme
 */
export function sessionChallenge(terms: SessionChallengeTerms, key: Uint8Array): PaymentChallenge {
  const { invoice, unitSats, idleSeconds } = terms
  positive(unitSats, 'price of a unit in satoshis')
  positive(idleSeconds, 'idle timeout in seconds')
  const sats = wholeSats(invoice.amountMsat)
  if (sats < unitSats)
    throw new PaymentChallengeError(`A deposit of ${sats} satoshis does not pay for a unit of ${unitSats}`)
  const deposit = { invoice: invoice.text, sats, paymentHash: invoice.paymentHash }
  return challengeLine(terms, 'session', encodeSessionRequest(terms, deposit), null, '', key)
}

/** BOLT 11 text, satoshis, and payment hash, which becomes the session's id. */
export interface Deposit {
  readonly invoice: string
  readonly sats: number
  readonly paymentHash: string
}

/** base64url without padding of canonical JSON (RFC 8785). */
export function encodeSessionRequest(terms: SessionTerms, deposit: Deposit): string {
  const { unitSats, unitType, idleSeconds, description } = terms
  const json = canonicalize({
    amount: String(unitSats),
    currency: 'sat',
    depositAmount: String(deposit.sats),
    depositInvoice: deposit.invoice,
    ...(description === null ? {} : { description }),
    idleTimeout: String(idleSeconds),
    paymentHash: deposit.paymentHash,
    unitType
  })
  return Buffer.from(json, 'utf8').toString('base64url')
}

function positive(value: number, what: string): void {
  if (!Number.isSafeInteger(value) || value < 1)
    throw new PaymentChallengeError(`The ${what} must be a positive whole number, not ${value}`)
}

function wholeSats(amountMsat: bigint | null): number {
  if (amountMsat === null || amountMsat % 1000n !== 0n)
    throw new PaymentChallengeError(
      `The deposit's invoice must ask for whole satoshis, not for ${amountMsat ?? 'no'} millisatoshis`
    )
  return Number(amountMsat / 1000n)
}

/**
 * Server messages of a session (draft-lightning-session-00): receipt, topUp and close bodies, stream events. Amounts
 * are whole satoshis.
 */
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
