import { iso } from '../../engine/formats/iso-time.ts'
import type { SessionRefund } from '../../lightning/payment-scheme/session-challenge.ts'
import { ProviderRefused, ProviderUnavailable } from '../../lightning/provider-calls/errors.ts'
import type { Capabilities, PayoutRequest } from '../../lightning/provider-calls/provider.ts'
import {
  afterUnknown,
  isUnknownToProvider,
  nextCheck,
  SEND_WITHIN,
  UNKNOWN_GRACE,
  afterRefusal
} from '../../lightning/providers/payout-states.ts'
import type { PrepaidSession, Refunding, SessionStore } from './store.ts'
import { isUniqueViolation, type Database } from '../../platform/database/database.ts'
import { CONFLICT, REQUEST_MALFORMED, RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import { decodeInvoice } from '../../lightning/codecs/bolt11.ts'
import { checkReturnInvoice } from '../../lightning/payment-scheme/session-credential.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { SessionRefunds } from './refunds.ts'

/** Milliseconds in which a lost refund is resent automatically; later a node may have pruned the payment. */
const SENT_AGAIN_WITHIN = 86_400_000
/** Provider refusals after which a refund fails. */
const MOST_REFUSALS = 10
/**
 * Withheld for the routing fee, by refusals so far: the first attempt sends the whole rest. The larger value counts.
 */
const FEE_STEPS = [
  { sats: 0, percent: 0 },
  { sats: 2, percent: 1 },
  { sats: 10, percent: 5 }
] as const

export function sessionRefund(session: PrepaidSession): SessionRefund {
  const { refundStatus, refundSats } = session
  if (refundStatus === 'skipped') return { refundSats: 0, refundStatus: 'skipped' }
  if (refundStatus === 'confirmed') return { refundSats, refundStatus: 'succeeded' }
  return { refundSats: refundSats > 0 ? refundSats : leftSats(session), refundStatus: 'failed' }
}

/** Rest in whole satoshis, the smallest payable unit. */
function leftSats({ depositedMsat, spentMsat, refundedMsat }: PrepaidSession): number {
  return Math.floor((depositedMsat - spentMsat - refundedMsat) / 1000)
}

export function isDue(session: PrepaidSession, now: number): boolean {
  const { closedAt, heldMsat, refundStatus, refundCheckAt } = session
  return closedAt !== null && heldMsat === 0 && refundStatus === null && (refundCheckAt ?? 0) <= now
}

/**
 * Satoshis to send: the rest less the maximum routing fee, which the client pays; 0 if the fee may take it all.
 * `payout`: the provider's capability, null if not configured.
 */
export function amountToSend(session: PrepaidSession, payout: Capabilities['payout'] | null): number {
  const left = leftSats(session)
  const share = (percent: number): number => Math.ceil((left * percent) / 100)
  if (payout?.mostFee !== undefined) return Math.max(0, left - payout.mostFee.sats - share(payout.mostFee.percent))
  const { sats, percent } = FEE_STEPS[Math.min(session.refundRefusals, FEE_STEPS.length - 1)] ?? FEE_STEPS[0]
  return left - Math.min(Math.max(sats, share(percent)), Math.floor(left / 2))
}

/**
 * Next state of a refund that was certainly not sent because of `cause`: its retry (null for never) and number of
 * refusals. Only refusals of the payment count. An unreachable provider or a bad key is retried until it pays or an
 * operator settles the refund.
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

/** Null if none has begun or there was nothing to send. */
export function refundingOf(session: PrepaidSession | null): Refunding | null {
  if (session === null) return null
  const { refundStatus: status, refundReference: reference, refundBegunAt: createdAt, refundAskedAt } = session
  if (status === null || status === 'skipped' || reference === null || createdAt === null) return null
  return {
    type: 'ln',
    reference,
    status,
    createdAt,
    // Older gateways leave the column out.
    requestedAt: Math.max(createdAt, refundAskedAt ?? 0),
    amountSats: session.refundSats,
    feeSats: session.refundFeeSats,
    providerRefundId: session.refundPayoutId,
    transactionHash: null,
    processedAt: session.refundEndedAt
  }
}

/** The request may be in flight, and its sender has not reported an unknown outcome yet. */
export function isBeingSent(session: PrepaidSession, now: number): boolean {
  const refund = refundingOf(session)
  return (
    refund !== null &&
    isUnknownToProvider(refund) &&
    session.toldStatus === null &&
    now - refund.requestedAt < SEND_WITHIN
  )
}

/** The same for each attempt and lookup, so that the provider recognizes it. */
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
 * A refund unknown to its provider may be resent unchanged if invoices are paid at most once. Begins when the last
 * request can no longer be in flight; lasts ten minutes, and once after a longer outage.
 */
export function isSentAgain(refund: Refunding, now: number): boolean {
  const { createdAt, requestedAt } = refund
  const isRepeated = requestedAt > createdAt
  return (
    isUnknownToProvider(refund) &&
    now - requestedAt >= SEND_WITHIN &&
    now - createdAt < (isRepeated ? UNKNOWN_GRACE : SENT_AGAIN_WITHIN)
  )
}

/** A refund unknown to its provider was certainly not sent; another reference is safe. */
export function isNeverSent(refund: Refunding, now: number): boolean {
  const silence = now - refund.requestedAt
  return isUnknownToProvider(refund) && silence >= UNKNOWN_GRACE && silence < SENT_AGAIN_WITHIN
}

/** The refund after its provider does not know it; the grace period begins with the last request. */
export function afterSilence(refund: Refunding, now: number): Refunding {
  return now - refund.requestedAt < UNKNOWN_GRACE ? refund : afterUnknown(refund, now)
}

/** An operator may settle the refund: its outcome is unknown and no request can be in flight. */
export function isLost(refund: Refunding, now: number): boolean {
  return isUnknownToProvider(refund) && now - refund.requestedAt >= UNKNOWN_GRACE
}

/** Why nothing can be done about a refund now. */
export function standingOf(session: PrepaidSession): string {
  const refund = refundingOf(session)
  if (session.closedAt === null) return 'The session is open.'
  if (session.refundStatus === null) return 'It has not begun, or waits for its next attempt.'
  if (refund?.status !== 'pending') return `It is ${session.refundStatus}.`
  if (!isUnknownToProvider(refund)) return 'The provider accepted it and reports its outcome.'
  return `It is looked up; what the provider never acknowledges can be settled from ${iso(refund.requestedAt + UNKNOWN_GRACE)} on.`
}

export interface SessionSettlement {
  readonly outcome: 'sent' | 'not-sent'
  readonly settledBy: string
  readonly reason: string
}

interface RefundOverridesDependencies {
  readonly store: SessionStore
  readonly refunds: SessionRefunds
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
}

/** Changes refunds at the request of an operator, or of the client, which may name another invoice. */
export class RefundOverrides {
  readonly #dependencies: RefundOverridesDependencies

  constructor(dependencies: RefundOverridesDependencies) {
    this.#dependencies = dependencies
  }

  /**
   * Sends a refund that was certainly not sent, to another invoice if given.
   * @throws LongError 404; 409 if it may have been sent; 400 for an invoice that cannot take it or is another session's
   */
  async sendAgain(id: string, invoice: string | null): Promise<PrepaidSession> {
    const { database, store, clock, refunds } = this.#dependencies
    await database.transaction(async sql => {
      const session = await store.lock(sql, id)
      if (session === null) throw notFound()
      if (session.closedAt === null || (session.refundStatus !== null && session.refundStatus !== 'failed'))
        throw new LongError(CONFLICT, 'Refund not sent', standingOf(session))
      const now = clock.now()
      if (invoice !== null) {
        const fault = checkReturnInvoice(invoice, session.network, now / 1000)
        if (fault !== null) throw new LongError(REQUEST_MALFORMED, 'Bad request', `${fault}.`)
        const { paymentHash } = decodeInvoice(invoice, { zeroAmount: true })
        await store.returnTo(sql, id, invoice.toLowerCase(), paymentHash).catch((error: unknown) => {
          throw isUniqueViolation(error, 'sessions_return_hash')
            ? new LongError(REQUEST_MALFORMED, 'Bad request', 'Another session is paid back to this invoice.')
            : error
        })
      }
      await store.putBack(sql, id, now, 0, session.refundFault)
    })
    const sent = (await refunds.send(id)) ?? (await store.find(id))
    if (sent === null) throw notFound()
    return sent
  }

  /**
   * Records an operator's finding: the outcome of a lost refund, payment by other means, or no further retry.
   * @throws LongError 404; 409 if settled, accepted by the provider, or possibly in flight
   */
  async settle(id: string, { outcome, settledBy, reason }: SessionSettlement): Promise<PrepaidSession> {
    const { database, store, clock, log, refunds } = this.#dependencies
    const settled = await database.transaction(async sql => {
      const session = await store.lock(sql, id)
      if (session === null) throw notFound()
      const now = clock.now()
      const refund = isDue(session, Infinity) ? refunds.draft(session) : refundingOf(session)
      const isOpenTo =
        session.refundStatus === null ||
        (refund !== null && (refund.status === 'failed' ? outcome === 'sent' : isLost(refund, now)))
      if (refund === null || !isOpenTo) throw new LongError(CONFLICT, 'Refund not settled', standingOf(session))
      const next: Refunding =
        outcome === 'sent' ? { ...refund, status: 'confirmed', processedAt: now } : afterRefusal(refund, now)
      await refunds.write(sql, session, next, outcome === 'sent' ? null : 'The operator found that it was not sent.')
      await store.settled(sql, id, settledBy, reason)
      return await store.find(id, sql)
    })
    if (settled === null) throw notFound()
    log.warn({ session: id, outcome, settledBy }, 'The refund of a session was settled by hand')
    return settled
  }
}

function notFound(): LongError {
  return new LongError(RESOURCE_NOT_FOUND, 'Session not found', 'There is no session with this id.')
}
