import { iso } from '../../engine/formats/iso-time.ts'
import type { Ledger } from '../balances/ledger.ts'
import type { BalanceStore } from '../balances/store.ts'
import type { Database } from '../../platform/database/database.ts'
import { decodeInvoice } from '../../lightning/codecs/bolt11.ts'
import type { SessionRefund } from '../../lightning/payment-scheme/session-challenge.ts'
import { ProviderRefused, ProviderUnavailable } from '../../lightning/provider-calls/errors.ts'
import type { ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import type { Payees } from '../../lightning/providers/payees.ts'
import type { Payee } from '../../lightning/providers/payee.ts'
import type { Capabilities, Payout } from '../../lightning/provider-calls/provider.ts'
import {
  afterPayout,
  afterRefusal,
  isNothingSent,
  isOpen,
  isUnknownToProvider,
  nextCheck,
  ownPayout,
  SEND_WITHIN,
  UNKNOWN_GRACE
} from '../../lightning/providers/payout-states.ts'
import { pause, type Clock } from '../../platform/system/clock.ts'
import { numericId, type Random } from '../../platform/system/ids.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { SessionCounters } from './open.ts'
import {
  afterSilence,
  afterUnsent,
  amountToSend,
  isBeingSent,
  isDue,
  isNeverSent,
  isSentAgain,
  refundingOf,
  requestOf,
  sessionRefund
} from './refund-rules.ts'
import type { ClosedBy, Refunding, PrepaidSession, SessionStore } from './store.ts'
import type { SessionNews } from './news.ts'

interface SessionRefundsDependencies {
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

/** Fraction of the idle time between writes of a session's use; closing is later by as much. */
export const TOUCH_EACH = 0.1

/** Milliseconds that a close waits for gateways that hold slices. */
const HELD_WAIT = 5_000
const LOOK_EVERY = 100
const BATCH = 100
const NEVER_SENT = 'The provider has never heard of it: nothing was sent.'
/** Milliseconds that one process has to look up a refund. */
const LOOK = 60_000

/**
 * Closes sessions, so that nothing more is spent, then refunds the rest. The row is written before the provider is
 * asked. A refund that was certainly not sent is retried. That ends when it is sent, its invoice expires or is refused
 * too often, or an operator settles it. An uncertain one is looked up, and resent if it cannot pay twice (decision 340).
 */
export class SessionRefunds {
  readonly #dependencies: SessionRefundsDependencies

  constructor(dependencies: SessionRefundsDependencies) {
    this.#dependencies = dependencies
  }

  /** Closes an open session without a refund; false if it was closed before or `still` fails. */
  async close(
    id: string,
    by: ClosedBy,
    challenge: string | null = null,
    still: (session: PrepaidSession) => boolean = () => true
  ): Promise<boolean> {
    const { database, balances, store, clock, ledger, news, counters, log } = this.#dependencies
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
   * Sends a due refund of a closed session and returns its state for the client. An unconfirmed one is `failed`, since
   * the protocol has no word for it. Never sends twice: waits while another gateway sends.
   */
  async refund(id: string): Promise<SessionRefund> {
    const { store, clock } = this.#dependencies
    for (let waited = 0; ; waited += LOOK_EVERY) {
      const session = await store.find(id)
      if (session === null) throw new TypeError('a session is gone that was to be refunded')
      if (isDue(session, clock.now())) {
        const sent = await this.send(id)
        if (sent !== null) return sessionRefund(sent)
        // Another gateway was faster, or there was nothing to send.
        continue
      }
      const isAwaited = session.heldMsat > 0 ? waited < HELD_WAIT : isBeingSent(session, clock.now())
      if (!isAwaited) return sessionRefund(session)
      await pause(clock, LOOK_EVERY)
    }
  }

  /** Closes and refunds idle and expired sessions. */
  async sweep(): Promise<void> {
    const { store, clock } = this.#dependencies
    const now = clock.now()
    const isOver = ({ usedAt, idleMs, heldMsat, expiresAt }: PrepaidSession): boolean =>
      heldMsat === 0 && (expiresAt <= now || usedAt + idleMs * (1 + TOUCH_EACH) < now)
    for (const { id, by } of await store.idle(now, TOUCH_EACH, BATCH))
      await this.#careful(id, async () => {
        if (await this.close(id, by, null, isOver)) await this.send(id)
      })
  }

  async begin(): Promise<void> {
    const { store, clock } = this.#dependencies
    for (const id of await store.unrefunded(clock.now(), BATCH)) await this.#careful(id, () => this.send(id))
  }

  /** Looks up refunds with unknown outcomes; resends those certainly lost. */
  async followUp(): Promise<void> {
    const { store, clock } = this.#dependencies
    for (const id of await store.takeDue(clock.now(), LOOK, BATCH)) await this.#careful(id, () => this.#lookUp(id))
  }

  /**
   * Sends a due refund, with more for routing if it was refused for less. Null if there was nothing to send, or another
   * gateway sends it.
   */
  async send(id: string): Promise<PrepaidSession | null> {
    for (;;) {
      const begun = await this.#reserve(id)
      if (begun === null) return null
      const after = await this.#ask(begun.session, begun.refund)
      if (after === null || !isDue(after, this.#dependencies.clock.now())) return after
    }
  }

  /** Writes that the refund is being sent, or why it cannot be; null if there is nothing to send. */
  async #reserve(id: string): Promise<{ readonly session: PrepaidSession; readonly refund: Refunding } | null> {
    const { database, store, balances, clock, counters } = this.#dependencies
    return await database.transaction(async sql => {
      const session = await store.lock(sql, id)
      const now = clock.now()
      if (session === null || !isDue(session, now)) return null
      const refund = this.draft(session)
      if (refund.amountSats === 0) {
        await balances.refunded(id, 0, sql)
        await store.skip(sql, id, now)
        counters.refund('skipped', 0)
        return null
      }
      if (decodeInvoice(session.returnInvoice, { zeroAmount: true }).expiresAt * 1000 <= now) {
        await this.write(sql, session, afterRefusal(refund, now), 'The return invoice expired before it could be paid.')
        return null
      }
      await store.refund(sql, id, refund, null, now + SEND_WITHIN)
      return { session, refund }
    })
  }

  draft(session: PrepaidSession): Refunding {
    const { clock, random } = this.#dependencies
    const now = clock.now()
    return {
      type: 'ln',
      reference: numericId(random),
      amountSats: amountToSend(session, this.#payoutOf(session)),
      status: 'pending',
      feeSats: 0,
      providerRefundId: null,
      transactionHash: null,
      createdAt: now,
      requestedAt: now,
      processedAt: null
    }
  }

  /**
   * Asks the provider for the refund in the row; an uncertain outcome stays pending. `askedBefore`: time of an earlier
   * request with an unknown outcome.
   */
  async #ask(
    session: PrepaidSession,
    refund: Refunding,
    requestedBefore: number | null = null
  ): Promise<PrepaidSession | null> {
    const { clock, log, store } = this.#dependencies
    const { id } = session
    let payout: Payout
    try {
      // A suspended process may resume after others have sent it.
      if (clock.now() - refund.requestedAt >= SEND_WITHIN)
        throw new ProviderUnavailable('The gateway was too busy to send the refund; nothing was sent.')
      payout = await this.#payee(session).payOut(requestOf(session, refund))
    } catch (error) {
      // A refusal of the second request says nothing about the first while that may be in flight.
      const isFirstUnknown = requestedBefore !== null && clock.now() - requestedBefore < UNKNOWN_GRACE
      if (isNothingSent(error) && !isFirstUnknown) return await this.#unsent(id, refund, error)
      log.warn(
        { session: id, reference: refund.reference, refundSats: refund.amountSats, err: error },
        "The outcome of a session's refund is not known; it is looked up"
      )
      return await store.find(id)
    }
    return await this.#heard(id, refund, payout)
  }

  async #lookUp(id: string): Promise<void> {
    const { store, clock } = this.#dependencies
    const session = await store.find(id)
    const refund = refundingOf(session)
    if (session === null || refund === null || !isOpen(refund)) return
    const payee = this.#payee(session)
    const payout = ownPayout(refund, await payee.lookUpPayout(requestOf(session, refund), refund.providerRefundId))
    const now = clock.now()
    const isOnce = payee.capabilities.payout.once === true
    if (payout !== null) await this.#heard(id, refund, payout)
    else if (isOnce && isSentAgain(refund, now)) await this.#resendLost(id, refund)
    else if (isOnce && isNeverSent(refund, now))
      await this.#unsent(id, refund, new ProviderRefused('request', NEVER_SENT))
    else {
      await this.#change(id, refund, afterSilence, NEVER_SENT)
      await store.checkAt(id, nextCheck(refund, now))
    }
  }

  /**
   * Resends the same request that the provider does not know, by one gateway at a time. Only for providers that pay it
   * at most once.
   */
  async #resendLost(id: string, seen: Refunding): Promise<void> {
    const { database, store, clock, log } = this.#dependencies
    const lost = await database.transaction(async sql => {
      const session = await store.lock(sql, id)
      const refund = refundingOf(session)
      if (session === null || refund?.reference !== seen.reference) return null
      if (!isUnknownToProvider(refund) || refund.requestedAt !== seen.requestedAt) return null
      const requested = { ...refund, requestedAt: clock.now() }
      await store.refund(sql, id, requested, null, requested.requestedAt + SEND_WITHIN)
      return { session, refund: requested }
    })
    if (lost === null) return
    log.warn(
      { session: id, reference: seen.reference },
      'The provider knows nothing of the refund of a session, whose gateway ended or whose request was lost; it is sent again'
    )
    await this.#ask(lost.session, lost.refund, seen.requestedAt)
  }

  async #heard(id: string, seen: Refunding, payout: Payout): Promise<PrepaidSession | null> {
    return payout.status === 'failed'
      ? await this.#unsent(id, seen, new ProviderRefused('request', 'The payment provider could not send it.'), payout)
      : await this.#change(id, seen, (current, now) => afterPayout(current, payout, now), null)
  }

  /**
   * Resets a refund that was certainly not sent because of `cause` for a retry, or ends it. `payout`: the provider's
   * report of the failure, if it took the request.
   */
  async #unsent(
    id: string,
    seen: Refunding,
    cause: unknown,
    payout: Payout | null = null
  ): Promise<PrepaidSession | null> {
    const { database, store, clock, log } = this.#dependencies
    const fault = cause instanceof Error ? cause.message : String(cause)
    return await database.transaction(async sql => {
      const session = await store.lock(sql, id)
      const current = refundingOf(session)
      if (session === null || current?.reference !== seen.reference || !isOpen(current)) return session
      // A later request decides.
      if (payout === null && (current.requestedAt !== seen.requestedAt || !isUnknownToProvider(current))) return session
      const now = clock.now()
      const { retryAt, refusals } = afterUnsent(session, cause, this.#payoutOf(session), now)
      const fields = { session: id, reference: seen.reference, refundSats: seen.amountSats, err: cause }
      if (retryAt === null) {
        log.warn(fields, 'The refund of a session failed; POST /api/admin/sessions/{sessionId}/refund sends it again')
        await this.write(sql, session, afterRefusal(current, now), fault)
      } else {
        log.warn({ ...fields, retryAt: iso(retryAt) }, 'The refund of a session was not sent; it is sent again later')
        await store.putBack(sql, id, retryAt, refusals, fault)
      }
      return await store.find(id, sql)
    })
  }

  async #change(
    id: string,
    seen: Refunding,
    change: (refund: Refunding, now: number) => Refunding,
    fault: string | null
  ): Promise<PrepaidSession | null> {
    const { database, store, clock } = this.#dependencies
    return await database.transaction(async sql => {
      const session = await store.lock(sql, id)
      const refund = refundingOf(session)
      // News of an abandoned refund says nothing about its replacement.
      if (session === null || refund?.reference !== seen.reference) return session
      const next = change(refund, clock.now())
      if (next === refund) return session
      await this.write(sql, session, next, next.status === 'failed' ? fault : null)
      return await store.find(id, sql)
    })
  }

  /** Writes the refund, and its balance once confirmed; the rows are locked. */
  async write(
    sql: Parameters<SessionStore['refund']>[0],
    session: PrepaidSession,
    next: Refunding,
    fault: string | null
  ): Promise<void> {
    const { store, balances, clock, counters, log } = this.#dependencies
    await store.refund(sql, session.id, next, fault, isOpen(next) ? nextCheck(next, clock.now()) : null)
    if (next.status === session.refundStatus) return
    if (next.status === 'confirmed') await balances.refunded(session.id, next.amountSats * 1000, sql)
    if (next.status === 'confirmed' || next.status === 'failed') counters.refund(next.status, next.amountSats)
    log.info(
      { session: session.id, reference: next.reference, from: session.refundStatus, to: next.status },
      'The refund of a session has changed'
    )
  }

  /** Account that took the deposit, null if not configured: another kind in its slot is another account. */
  #maker({ providerSlot, providerKind }: PrepaidSession): Payee | null {
    return this.#dependencies.payees.maker(null, providerSlot as ProviderSlot, providerKind)
  }

  #payoutOf(session: PrepaidSession): Capabilities['payout'] | null {
    return this.#maker(session)?.capabilities.payout ?? null
  }

  #payee(session: PrepaidSession): Payee {
    const payee = this.#maker(session)
    if (payee !== null) return payee
    throw new ProviderUnavailable(
      `The deposit came through ${session.providerKind}, which is no provider of the ${session.providerSlot} slot any more.`
    )
  }

  /** One failing session must not block the others. */
  async #careful(id: string, run: () => Promise<unknown>): Promise<void> {
    try {
      await run()
    } catch (error) {
      this.#dependencies.log.warn(
        { session: id, err: error },
        'The refund of a session could not be seen to; it is tried again'
      )
    }
  }
}
