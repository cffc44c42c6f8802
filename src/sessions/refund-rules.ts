import type { SessionRefund } from '../lightning/session-messages.ts'
import type { Payout, PayoutRequest } from '../providers/provider.ts'
import { afterUnknown, isUnheard, SEND_WITHIN, UNKNOWN_GRACE } from '../refunds/states.ts'
import type { PrepaidSession, Refunding } from './store.ts'

/** Milliseconds after which nobody sends a lost refund again by itself: a node may have forgotten old payments. */
const SENT_AGAIN_WITHIN = 86_400_000

/** How a refund stands, in the protocol's three words. */
export function toldRefund(session: PrepaidSession): SessionRefund {
  const { refundStatus, refundSats, depositedMsat, spentMsat, refundedMsat } = session
  if (refundStatus === 'skipped') return { refundSats: 0, refundStatus: 'skipped' }
  if (refundStatus === 'confirmed') return { refundSats, refundStatus: 'succeeded' }
  const left = Math.floor((depositedMsat - spentMsat - refundedMsat) / 1000)
  return { refundSats: refundSats > 0 ? refundSats : left, refundStatus: 'failed' }
}

/** The refund of a session; null where none has begun, or there was nothing to send. */
export function refundingOf(session: PrepaidSession): Refunding | null {
  const { refundStatus: status, refundReference: reference, refundBegunAt: createdAt, refundAskedAt } = session
  if (status === null || status === 'skipped' || reference === null || createdAt === null) return null
  return {
    type: 'ln',
    reference,
    status,
    createdAt,
    // A gateway of before the column was there leaves it out.
    askedAt: Math.max(createdAt, refundAskedAt ?? 0),
    amountSats: session.refundSats,
    feeSats: session.refundFeeSats,
    providerRefundId: session.refundPayoutId,
    transactionHash: null,
    processedAt: session.refundEndedAt
  }
}

/**
 * Whether somebody may be sending the refund now: its request may be on its way, and nobody who sent it has told the
 * client yet that its outcome is not known.
 */
export function isBeingSent(session: PrepaidSession, now: number): boolean {
  const refund = refundingOf(session)
  return refund !== null && isUnheard(refund) && session.toldStatus === null && now - refund.askedAt < SEND_WITHIN
}

/** The same request whenever it is sent and looked up, so that a provider recognises it. */
export function requestOf(
  { chargeId, returnInvoice: invoice }: PrepaidSession,
  { reference, amountSats }: Refunding
): PayoutRequest {
  return { reference, chargeId, destination: { type: 'ln', invoice }, amountSats, description: 'Rest of a session' }
}

/**
 * Whether a refund that its provider knows nothing of is sent again by itself, where that pays an invoice once at most:
 * later than its request can be on its way, for ten minutes, and once where all gateways were down for longer.
 */
export function isSentAgain(refund: Refunding, now: number): boolean {
  const { createdAt, askedAt } = refund
  const wasSentAgain = askedAt > createdAt
  return (
    isUnheard(refund) &&
    now - askedAt >= SEND_WITHIN &&
    now - createdAt < (wasSentAgain ? UNKNOWN_GRACE : SENT_AGAIN_WITHIN)
  )
}

/** The refund after its provider said that it does not know it; the grace begins with the last request. */
export function afterSilence(refund: Refunding, now: number): Refunding {
  return now - refund.askedAt < UNKNOWN_GRACE ? refund : afterUnknown(refund, now)
}

/**
 * Whether an operator may say what became of a refund: nobody knows, and no request can be on its way any more.
 */
export function isLost(refund: Refunding, now: number): boolean {
  return isUnheard(refund) && now - refund.askedAt >= UNKNOWN_GRACE
}

/** Why a payout failed that the provider had taken. */
export function failureOf({ status }: Payout): string | null {
  return status === 'failed' ? 'The payment provider could not send it.' : null
}

/** Why nothing can be done about a refund now. */
export function standingOf(session: PrepaidSession): string {
  const refund = refundingOf(session)
  if (session.closedAt === null) return 'The session is open.'
  if (session.refundStatus === null) return 'It has not begun: a request of the session is still under way.'
  if (refund?.status !== 'pending') return `It is ${session.refundStatus}.`
  if (!isUnheard(refund)) return 'The provider took it, so it says itself what becomes of it.'
  return `It is looked up; what the provider never acknowledges can be settled from ${new Date(refund.askedAt + UNKNOWN_GRACE).toISOString()} on.`
}
