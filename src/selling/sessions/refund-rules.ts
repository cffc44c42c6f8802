import type { SessionRefund } from '../../lightning/payment-scheme/session-messages.ts'
import { ProviderRefused, ProviderUnavailable } from '../../lightning/provider-calls/errors.ts'
import type { Capabilities, PayoutRequest } from '../../lightning/providers/provider.ts'
import {
  afterUnknown,
  isUnheard,
  nextCheck,
  SEND_WITHIN,
  UNKNOWN_GRACE
} from '../../lightning/providers/payout-states.ts'
import type { PrepaidSession, Refunding } from './store.ts'

/** Milliseconds after which a lost refund is not sent again automatically: a node may have pruned old payments. */
const SENT_AGAIN_WITHIN = 86_400_000
/** Refusals by the provider after which a refund fails. */
const MOST_REFUSALS = 10
/**
 * What is withheld from a refund to pay its routing fee, by the number of refusals so far: the whole rest goes out first,
 * and less of it only where no route is that cheap. The larger of both counts.
 */
const FEE_STEPS = [
  { sats: 0, percent: 0 },
  { sats: 2, percent: 1 },
  { sats: 10, percent: 5 }
] as const

/** How a refund stands, in the protocol's three words. */
export function toldRefund(session: PrepaidSession): SessionRefund {
  const { refundStatus, refundSats } = session
  if (refundStatus === 'skipped') return { refundSats: 0, refundStatus: 'skipped' }
  if (refundStatus === 'confirmed') return { refundSats, refundStatus: 'succeeded' }
  return { refundSats: refundSats > 0 ? refundSats : leftSats(session), refundStatus: 'failed' }
}

/** What is left of a session in whole satoshis: nothing smaller can be paid out. */
function leftSats({ depositedMsat, spentMsat, refundedMsat }: PrepaidSession): number {
  return Math.floor((depositedMsat - spentMsat - refundedMsat) / 1000)
}

/** Whether the refund of a session can be sent now: it has not begun, or its next attempt is due. */
export function isDue(session: PrepaidSession, now: number): boolean {
  const { closedAt, heldMsat, refundStatus, refundCheckAt } = session
  return closedAt !== null && heldMsat === 0 && refundStatus === null && (refundCheckAt ?? 0) <= now
}

/**
 * Satoshis to send: what is left, less what its routing fee may be, which the client pays. 0 where the
 * fee may take all of it. `payout` is what the provider can do; null while it is not configured.
 */
export function amountToSend(session: PrepaidSession, payout: Capabilities['payout'] | null): number {
  const left = leftSats(session)
  const share = (percent: number): number => Math.ceil((left * percent) / 100)
  if (payout?.mostFee !== undefined) return Math.max(0, left - payout.mostFee.sats - share(payout.mostFee.percent))
  const { sats, percent } = FEE_STEPS[Math.min(session.refundRefusals, FEE_STEPS.length - 1)] ?? FEE_STEPS[0]
  return left - Math.min(Math.max(sats, share(percent)), Math.floor(left / 2))
}

/**
 * What becomes of a refund that was certainly not sent, because of `cause`: when it is sent again, null for never, and how
 * often it has been refused. Only refusals of the payment itself are counted; a provider that cannot be reached, or
 * whose key is no good, is asked again until it pays or an operator settles the refund.
 */
export function afterUnsent(
  session: PrepaidSession,
  cause: unknown,
  payout: Capabilities['payout'] | null,
  now: number
): { readonly retryAt: number | null; readonly refusals: number } {
  const isRefusal = cause instanceof ProviderRefused && cause.reason === 'request'
  const refusals = session.refundRefusals + (isRefusal ? 1 : 0)
  if (isRefusal && refusals >= MOST_REFUSALS) return { retryAt: null, refusals }
  if (isRefusal && payout?.mostFee === undefined && refusals < FEE_STEPS.length) return { retryAt: now, refusals }
  const pause = cause instanceof ProviderUnavailable ? cause.retryAfter * 1000 : 0
  return { retryAt: Math.max(nextCheck({ createdAt: session.closedAt ?? now }, now), now + pause), refusals }
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

/** The same request whenever it is sent and looked up, so that a provider recognizes it. */
export function requestOf(session: PrepaidSession, { reference, amountSats }: Refunding): PayoutRequest {
  return {
    reference,
    chargeId: session.chargeId,
    destination: { type: 'ln', invoice: session.returnInvoice },
    amountSats,
    feeLimitSats: Math.max(0, leftSats(session) - amountSats),
    description: 'Rest of a session'
  }
}

/**
 * Whether a refund that its provider does not know is sent again as it was, where that pays an invoice at most once: once the
 * last request can no longer be on its way, for ten minutes, and once after all gateways were down for longer.
 */
export function isSentAgain(refund: Refunding, now: number): boolean {
  const { createdAt, askedAt } = refund
  const isRepeated = askedAt > createdAt
  return (
    isUnheard(refund) &&
    now - askedAt >= SEND_WITHIN &&
    now - createdAt < (isRepeated ? UNKNOWN_GRACE : SENT_AGAIN_WITHIN)
  )
}

/** Whether a refund that its provider does not know was certainly not sent, and may be sent again under another reference. */
export function isNeverSent(refund: Refunding, now: number): boolean {
  const silence = now - refund.askedAt
  return isUnheard(refund) && silence >= UNKNOWN_GRACE && silence < SENT_AGAIN_WITHIN
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

/** Why nothing can be done about a refund now. */
export function standingOf(session: PrepaidSession): string {
  const refund = refundingOf(session)
  if (session.closedAt === null) return 'The session is open.'
  if (session.refundStatus === null) return 'It has not begun, or waits for its next attempt.'
  if (refund?.status !== 'pending') return `It is ${session.refundStatus}.`
  if (!isUnheard(refund)) return 'The provider took it, so it says itself what becomes of it.'
  return `It is looked up; what the provider never acknowledges can be settled from ${new Date(refund.askedAt + UNKNOWN_GRACE).toISOString()} on.`
}
