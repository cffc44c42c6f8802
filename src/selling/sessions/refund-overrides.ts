import { isUniqueViolation, type Database } from '../../platform/database/database.ts'
import { CONFLICT, REQUEST_MALFORMED, RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import { decodeInvoice } from '../../lightning/codecs/bolt11.ts'
import { checkReturnInvoice } from '../../lightning/payment-scheme/session-credential.ts'
import { afterRefusal } from '../../lightning/providers/payout-states.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { isDue, isLost, refundingOf, standingOf } from './refund-rules.ts'
import type { SessionRefunds } from './refunds.ts'
import type { PrepaidSession, Refunding, SessionStore } from './store.ts'

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
