import type { Ledger } from '../balances/ledger.ts'
import type { BalanceStore } from '../balances/store.ts'
import { isUniqueViolation, type Database } from '../database/database.ts'
import { LongError } from '../gateway/errors.ts'
import { decodeInvoice } from '../lightning/bolt11.ts'
import type { SessionRefund } from '../lightning/session-messages.ts'
import { checkReturnInvoice } from '../lightning/session-credential.ts'
import { ProviderUnavailable } from '../providers/errors.ts'
import type { ProviderSlot } from '../providers/account.ts'
import type { Payee, Payees } from '../providers/payees.ts'
import type { Payout } from '../providers/provider.ts'
import {
  afterPayout,
  afterRefusal,
  isNothingSent,
  isOpen,
  isUnheard,
  nextCheck,
  ownPayout,
  SEND_WITHIN,
  UNKNOWN_GRACE
} from '../refunds/states.ts'
import type { Clock } from '../system/clock.ts'
import { numericId, type Random } from '../system/ids.ts'
import type { Log } from '../telemetry/log.ts'
import type { SessionCounters } from './counters.ts'
import {
  afterSilence,
  failureOf,
  isBeingSent,
  isLost,
  isSentAgain,
  refundingOf,
  requestOf,
  standingOf,
  toldRefund
} from './refund-rules.ts'
import type { ClosedBy, Refunding, PrepaidSession, SessionStore } from './store.ts'
import type { SessionNews } from './news.ts'

/** What sessions are closed and refunded with. */
export interface SessionRefundsParts {
  readonly store: SessionStore
  readonly balances: Pick<BalanceStore, 'close' | 'refunded'>
  readonly ledger: Pick<Ledger, 'letGo'>
  readonly database: Database
  readonly payees: Pick<Payees, 'maker'>
  readonly news: SessionNews
  readonly counters: SessionCounters
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
}

/** What an administrator found in the provider's own records. */
export interface SessionSettlement {
  readonly outcome: 'sent' | 'not-sent'
  readonly settledBy: string
  readonly reason: string
}

/** A session's use is written so often at most, as a part of its idle time; so it is closed as much later. */
export const TOUCH_EACH = 0.1

/** How long whoever closes a session waits for the gateways that still hold a part of it. */
const HELD_WAIT = 5_000
const LOOK_EVERY = 100
const BATCH = 100
/** How long one process has to look a refund up before others may. */
const LOOK = 60_000

/**
 * Ends sessions: closes them first, so that nobody spends from them any more, and then pays back what is left, as merchants'
 * refunds are paid: the row says so before the provider is asked, and what it is not certain about is looked up. What it then
 * knows nothing of is sent again where that cannot pay twice (decision 273).
 */
export class SessionRefunds {
  readonly #parts: SessionRefundsParts

  constructor(parts: SessionRefundsParts) {
    this.#parts = parts
  }

  /**
   * Closes an open session; false where it was closed before, or is not as `still` says. No refund is sent yet.
   */
  async close(
    id: string,
    by: ClosedBy,
    challenge: string | null = null,
    still: (session: PrepaidSession) => boolean = () => true
  ): Promise<boolean> {
    const { database, balances, store, clock, ledger, news, counters, log } = this.#parts
    const closed = await database.transaction(async sql => {
      const session = await store.lock(sql, id)
      if (session === null || session.closedAt !== null || !still(session)) return false
      await balances.close(id, sql)
      return await store.close(sql, id, by, challenge, clock.now())
    })
    if (!closed) return false
    counters.closed(by)
    log.info({ session: id, by }, 'A session was closed')
    await ledger.letGo(id)
    await news.tell(id)
    return true
  }

  /**
   * Refunds a closed session and answers how it stands, as its client is told. One whose outcome is not known is told as
   * failed, since the protocol has no word for it (decision 273). Never sends twice: where somebody else is sending it,
   * what came of that is waited for.
   */
  async refund(id: string): Promise<SessionRefund> {
    const { store, clock } = this.#parts
    for (let waited = 0; ; waited += LOOK_EVERY) {
      const session = await store.find(id)
      if (session === null) throw new TypeError('a session is gone that was to be refunded')
      if (session.closedAt !== null && session.heldMsat === 0 && session.refundStatus === null) {
        const begun = await this.#reserve(id)
        if (begun !== null) return toldRefund((await this.#send(begun.session, begun.refund)) ?? session)
        // Another was faster, or there was nothing to send.
        continue
      }
      const isAwaited = session.heldMsat > 0 ? waited < HELD_WAIT : isBeingSent(session, clock.now())
      if (!isAwaited) return toldRefund(session)
      await new Promise<void>(resolve => {
        clock.after(LOOK_EVERY, resolve)
      })
    }
  }

  /** Closes and refunds sessions that nobody uses, and those whose end has come. */
  async sweep(): Promise<void> {
    const { store, clock } = this.#parts
    const now = clock.now()
    const isOver = ({ usedAt, idleMs, heldMsat, expiresAt }: PrepaidSession): boolean =>
      heldMsat === 0 && (expiresAt <= now || usedAt + idleMs * (1 + TOUCH_EACH) < now)
    for (const { id, by } of await store.idle(now, TOUCH_EACH, BATCH))
      await this.#careful(id, async () => {
        if (await this.close(id, by, null, isOver)) await this.#begin(id)
      })
  }

  /** Begins the refunds of closed sessions that have none yet: their gateway died, or held a part of the balance. */
  async begin(): Promise<void> {
    for (const id of await this.#parts.store.unrefunded(BATCH)) await this.#careful(id, () => this.#begin(id))
  }

  /** Looks up refunds whose outcome is not known, and sends those again that were certainly lost on their way. */
  async followUp(): Promise<void> {
    const { store, clock } = this.#parts
    for (const id of await store.takeDue(clock.now(), LOOK, BATCH)) await this.#careful(id, () => this.#lookUp(id))
  }

  /**
   * Sends a refund once more that is known to have failed, by an invoice of the operator's choice where one is given.
   * @throws LongError 404; 409 where it is not known to have failed; 400 for an invoice that cannot take it
   */
  async sendAgain(id: string, invoice: string | null): Promise<PrepaidSession> {
    const { database, store, clock } = this.#parts
    const ready = await database.transaction(async sql => {
      const session = await store.lock(sql, id)
      if (session === null) throw notFound()
      if (session.refundStatus !== 'failed') throw new LongError(409, 'Refund not sent', standingOf(session))
      if (invoice === null) return true
      const fault = checkReturnInvoice(invoice, session.network, clock.now() / 1000)
      if (fault !== null) throw new LongError(400, 'Bad request', `${fault}.`)
      const { paymentHash } = decodeInvoice(invoice, { zeroAmount: true })
      await store.returnTo(sql, id, invoice.toLowerCase(), paymentHash).catch((error: unknown) => {
        throw isUniqueViolation(error, 'sessions_return_hash')
          ? new LongError(409, 'Refund not sent', 'Another session is paid back to this invoice.')
          : error
      })
      return true
    })
    const sent = ready ? await this.#begin(id, true) : null
    if (sent === null) throw notFound()
    return sent
  }

  /**
   * Writes what the provider's own records show of a refund whose outcome was lost.
   * @throws LongError 404; 409 for one that is settled, that the provider took, or that may still be on its way
   */
  async settle(id: string, { outcome, settledBy, reason }: SessionSettlement): Promise<PrepaidSession> {
    const { database, store, clock, log } = this.#parts
    const settled = await database.transaction(async sql => {
      const session = await store.lock(sql, id)
      const refund = session === null ? null : refundingOf(session)
      if (session === null) throw notFound()
      const now = clock.now()
      if (refund === null || !isLost(refund, now)) throw new LongError(409, 'Refund not settled', standingOf(session))
      const next: Refunding =
        outcome === 'sent' ? { ...refund, status: 'confirmed', processedAt: now } : afterRefusal(refund, now)
      await this.#write(sql, session, next, outcome === 'sent' ? null : 'The operator found that it was not sent.')
      await store.settled(sql, id, settledBy, reason)
      return await store.find(id, sql)
    })
    if (settled === null) throw notFound()
    log.warn({ session: id, outcome, settledBy }, 'The refund of a session was settled by hand')
    return settled
  }

  /** Reserves the refund in the row, sends it, and writes what came of it. */
  async #begin(id: string, isAgain = false): Promise<PrepaidSession | null> {
    const begun = await this.#reserve(id, isAgain)
    return begun === null ? await this.#parts.store.find(id) : await this.#send(begun.session, begun.refund)
  }

  /** Writes that the refund is being sent, or that there is nothing to send; null where there is nothing to do. */
  async #reserve(
    id: string,
    isAgain = false
  ): Promise<{ readonly session: PrepaidSession; readonly refund: Refunding } | null> {
    const { database, store, balances, clock, random } = this.#parts
    return await database.transaction(async sql => {
      const session = await store.lock(sql, id)
      if (session === null || session.closedAt === null || session.heldMsat > 0) return null
      if (session.refundStatus !== (isAgain ? 'failed' : null)) return null
      const now = clock.now()
      // What is less than a satoshi stays here: nothing smaller can be paid out.
      const amountSats = Math.floor((session.depositedMsat - session.spentMsat - session.refundedMsat) / 1000)
      if (amountSats === 0) {
        await balances.refunded(id, 0, sql)
        await store.skip(sql, id, now)
        this.#parts.counters.refund('skipped', 0)
        return null
      }
      const refund: Refunding = {
        type: 'ln',
        reference: numericId(random),
        amountSats,
        status: 'pending',
        feeSats: 0,
        providerRefundId: null,
        transactionHash: null,
        createdAt: now,
        askedAt: now,
        processedAt: null
      }
      await store.refund(sql, id, refund, null, now + SEND_WITHIN)
      return { session, refund }
    })
  }

  /**
   * Asks the provider, for what the row says that it is asked for now. What it is not certain about stays pending.
   */
  async #send(session: PrepaidSession, refund: Refunding): Promise<PrepaidSession | null> {
    const { clock, log, store } = this.#parts
    const { id } = session
    const fields = { session: id, reference: refund.reference, refundSats: refund.amountSats }
    let payout: Payout
    try {
      // A process that stood still may wake after others have sent it.
      if (clock.now() - refund.askedAt >= SEND_WITHIN)
        throw new ProviderUnavailable('The gateway was too busy to send the refund; nothing was sent.')
      payout = await this.#payee(session).payOut(requestOf(session, refund))
    } catch (error) {
      // What refuses a second request says nothing of the first, as long as that may be on its way.
      const isFirstUnknown = refund.askedAt > refund.createdAt && clock.now() - refund.createdAt < UNKNOWN_GRACE
      if (!isNothingSent(error) || isFirstUnknown) {
        log.warn(
          { ...fields, err: error },
          "The outcome of a session's refund is not known: its client was told that it failed; it is looked up"
        )
        return await store.find(id)
      }
      log.warn(
        { ...fields, err: error },
        'The refund of a session failed; POST /api/admin/sessions/{sessionId}/refund sends it again'
      )
      const fault = error instanceof Error ? error.message : String(error)
      // Where somebody has asked anew meanwhile, that request decides.
      const refused = (current: Refunding, now: number): Refunding =>
        current.askedAt === refund.askedAt ? afterRefusal(current, now) : current
      return await this.#change(id, refund, refused, fault)
    }
    return await this.#change(id, refund, (current, now) => afterPayout(current, payout, now), failureOf(payout))
  }

  async #lookUp(id: string): Promise<void> {
    const { store, clock } = this.#parts
    const session = await store.find(id)
    const refund = session === null ? null : refundingOf(session)
    if (session === null || refund === null || !isOpen(refund)) return
    const payee = this.#payee(session)
    const payout = ownPayout(refund, await payee.lookUpPayout(requestOf(session, refund), refund.providerRefundId))
    if (payout === null && payee.capabilities.payout.once === true && isSentAgain(refund, clock.now())) {
      await this.#sendLost(id, refund)
      return
    }
    await this.#change(
      id,
      refund,
      (current, now) => (payout === null ? afterSilence(current, now) : afterPayout(current, payout, now)),
      payout === null ? 'The provider has never heard of it: nothing was sent.' : failureOf(payout)
    )
    if (payout === null) await store.checkAt(id, nextCheck(refund, clock.now()))
  }

  /**
   * Sends a refund again that its provider knows nothing of: the same request, by one gateway at a time. Only for a
   * provider that pays it once at most.
   */
  async #sendLost(id: string, seen: Refunding): Promise<void> {
    const { database, store, clock, log } = this.#parts
    const lost = await database.transaction(async sql => {
      const session = await store.lock(sql, id)
      const refund = session === null ? null : refundingOf(session)
      if (session === null || refund === null || !isUnheard(refund)) return null
      if (refund.reference !== seen.reference || refund.askedAt !== seen.askedAt) return null
      const asked = { ...refund, askedAt: clock.now() }
      await store.refund(sql, id, asked, null, asked.askedAt + SEND_WITHIN)
      return { session, refund: asked }
    })
    if (lost === null) return
    log.warn(
      { session: id, reference: seen.reference },
      'The provider knows nothing of the refund of a session, whose gateway ended or whose request was lost; it is sent again'
    )
    await this.#send(lost.session, lost.refund)
  }

  /** Writes what the refund has become that was `seen`, with the balance once it is confirmed. */
  async #change(
    id: string,
    seen: Refunding,
    change: (refund: Refunding, now: number) => Refunding,
    fault: string | null
  ): Promise<PrepaidSession | null> {
    const { database, store, clock } = this.#parts
    return await database.transaction(async sql => {
      const session = await store.lock(sql, id)
      const refund = session === null ? null : refundingOf(session)
      if (session === null || refund === null) return session
      // What is heard of one that was given up says nothing of the one in its place.
      if (refund.reference !== seen.reference) return session
      const next = change(refund, clock.now())
      if (next === refund) return session
      await this.#write(sql, session, next, next.status === 'failed' ? fault : null)
      return await store.find(id, sql)
    })
  }

  async #write(
    sql: Parameters<SessionStore['refund']>[0],
    session: PrepaidSession,
    next: Refunding,
    fault: string | null
  ): Promise<void> {
    const { store, balances, clock, counters, log } = this.#parts
    await store.refund(sql, session.id, next, fault, isOpen(next) ? nextCheck(next, clock.now()) : null)
    if (next.status === session.refundStatus) return
    if (next.status === 'confirmed') await balances.refunded(session.id, next.amountSats * 1000, sql)
    if (next.status === 'confirmed' || next.status === 'failed') counters.refund(next.status, next.amountSats)
    log.info(
      { session: session.id, reference: next.reference, from: session.refundStatus, to: next.status },
      'The refund of a session has changed'
    )
  }

  /** What took the deposit gives it back: another kind in its place is another account, which knows nothing of it. */
  #payee(session: PrepaidSession): Payee {
    // What was written there came from a payee's own slot.
    const payee = this.#parts.payees.maker(null, session.providerSlot as ProviderSlot, session.providerKind)
    if (payee !== null) return payee
    throw new ProviderUnavailable(
      `The deposit came through ${session.providerKind}, which is no provider of the ${session.providerSlot} slot any more.`
    )
  }

  /** One session that cannot be helped must not keep the others waiting. */
  async #careful(id: string, run: () => Promise<unknown>): Promise<void> {
    try {
      await run()
    } catch (error) {
      this.#parts.log.warn(
        { session: id, err: error },
        'The refund of a session could not be seen to; it is tried again'
      )
    }
  }
}

function notFound(): LongError {
  return new LongError(404, 'Session not found', 'There is no session with this id.')
}
