import { pageRange } from '../../engine/operations/keyset.ts'
import { CONFLICT, RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { LongError, ShortError } from '../../engine/operations/errors.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Database, TransactionSql } from '../../platform/database/database.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { isRefundId, type Refund } from './schema.ts'
import { type RefundSources, type RefundSource, payoutDestination, REFUND_REFUSED } from './destination.ts'
import {
  isOpen,
  UNKNOWN_GRACE,
  afterPayout,
  afterRefusal,
  afterUnknown,
  isNothingSent,
  ownPayout,
  SEND_WITHIN
} from '../../lightning/providers/payout-states.ts'
import type { RefundStore } from './store.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import { ProviderRefused, ProviderUnavailable, PROVIDER_REFUSED } from '../../lightning/provider-calls/errors.ts'
import type { ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import type { Payees } from '../../lightning/providers/payees.ts'
import type { Payee } from '../../lightning/providers/payee.ts'
import type { Payout, PayoutRequest } from '../../lightning/provider-calls/provider.ts'

export type SettlementOutcome = 'sent' | 'not-sent'

export interface RefundSettlement {
  readonly outcome: SettlementOutcome
  /** The provider's refund id; null for `not-sent`. */
  readonly providerRefundId: string | null
  /** Null when unknown. */
  readonly transactionHash: string | null
  readonly feeSats: number | null
  /** Name of the administrator: several share one admin key. */
  readonly settledBy: string
  readonly reason: string
  readonly correlationId: string
  readonly settledAt: number
}

export interface SettledRefund {
  readonly refund: Refund
  readonly settlement: RefundSettlement | null
}

/** Refunds with an unknown outcome, all open ones, or those settled manually. */
export const REFUND_VIEWS = ['lost', 'open', 'settled'] as const
export type RefundViewName = (typeof REFUND_VIEWS)[number]

/**
 * Settles refunds whose outcome only the provider's records show. One conditional UPDATE under the refund lock: of a
 * late provider answer and an administrator's entry the first wins.
 */
export class RefundSettlements {
  readonly #dependencies: Omit<PayoutDependencies, 'payees'>

  constructor(dependencies: Omit<PayoutDependencies, 'payees'>) {
    this.#dependencies = dependencies
  }

  /** Oldest first; `settled` newest first. `lost` excludes refunds that may still be in flight. */
  list(view: RefundViewName, query: { readonly skip?: number; readonly take?: number }): Promise<SettledRefund[]> {
    const { store, clock } = this.#dependencies
    return store.listForAdmin(view, clock.now() - UNKNOWN_GRACE, pageRange(query))
  }

  /** @throws LongError 404 */
  async get(refundId: string): Promise<SettledRefund> {
    const found = isRefundId(refundId) ? await this.#dependencies.store.forAdmin(refundId) : null
    if (found === null) throw new LongError(RESOURCE_NOT_FOUND, 'Refund not found', 'There is no refund with this id.')
    return found
  }

  /**
   * Marks a refund as confirmed with the provider's id, or as failed, which releases the amount.
   * @throws LongError 404 for an unknown refund; 409 for a settled one, and for `not-sent` where the provider took it
   * or the request may be in flight
   */
  async settle(refundId: string, settlement: RefundSettlement): Promise<SettledRefund> {
    const { database, store, sources, onConfirmed, log } = this.#dependencies
    const {
      refund: { merchantId, invoiceId }
    } = await this.get(refundId)
    const before = settlement.settledAt - UNKNOWN_GRACE
    const settled = await database.transaction(async sql => {
      // Lock order: the source's row first, to avoid deadlocks.
      const source = await sources.lock(sql, merchantId, invoiceId, settlement.settledAt)
      if (source === null) throw new TypeError('what a refund gives back is gone')
      const refund = await store.settle(sql, refundId, settlement, before)
      if (refund?.status === 'confirmed') {
        await onConfirmed(sql, refund)
        await countConfirmed(sql, { sources, store }, source, refund)
      }
      return refund
    })
    if (settled === null) throw notSettled((await this.get(refundId)).refund, before)
    log.warn(
      { refundId, merchantId, outcome: settlement.outcome, settledBy: settlement.settledBy },
      'a refund was settled by hand'
    )
    return { refund: settled, settlement }
  }
}

/** The reason for a rejected settlement; refunds made after `before` may be in flight. */
function notSettled(refund: Refund, before: number): LongError {
  const why = !isOpen(refund)
    ? `It is ${refund.status} already.`
    : refund.providerRefundId !== null
      ? 'The provider accepted it and reports its outcome.'
      : refund.createdAt > before
        ? `It may still be on its way: that it was not sent can be said from ${new Date(refund.createdAt + UNKNOWN_GRACE).toISOString()} on.`
        : 'It has changed meanwhile; read it again.'
  return new LongError(CONFLICT, 'Refund not settled', why)
}

export interface PayoutDependencies {
  readonly store: RefundStore
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
  /** Called in the transaction that confirms a refund. Use only the given handle. */
  readonly onConfirmed: (sql: TransactionSql, refund: Refund) => Promise<void>
  readonly payees: Payees
  readonly sources: RefundSources
}

/** Sends reserved refunds through their providers, looks them up, and writes what became of them. */
export class RefundPayouts {
  readonly #dependencies: PayoutDependencies

  constructor(dependencies: PayoutDependencies) {
    this.#dependencies = dependencies
  }

  /** Asks the provider exactly once; an uncertain outcome stays pending (decision 57). */
  async send(payee: Payee, source: RefundSource, refund: Refund): Promise<Refund> {
    const { clock, log } = this.#dependencies
    const fields = { refundId: refund.refundId, invoiceId: refund.invoiceId, merchantId: refund.merchantId }
    let payout: Payout
    try {
      // A suspended process may resume after others gave its refund up.
      if (clock.now() - refund.createdAt >= SEND_WITHIN)
        throw new ProviderUnavailable('The gateway was too busy to send the refund; nothing was sent.')
      payout = await payee.payOut(payoutRequest(refund, source))
    } catch (error) {
      if (!isNothingSent(error)) {
        log.warn({ ...fields, err: error }, 'the answer to a refund was lost; it is looked up and never sent again')
        return refund
      }
      await this.#release(refund)
      throw error instanceof ProviderRefused ? new ShortError(REFUND_REFUSED, error.message) : error
    }
    let written: Refund
    try {
      written = await this.#apply(
        refund,
        (current, now) => afterPayout(current, payout, now),
        payout.status === 'failed'
      )
      // The provider answered only after its timeout and the grace period.
      if (written.status === 'failed' && payout.status !== 'failed')
        log.error(
          { ...fields, payoutId: payout.payoutId },
          'a refund was sent after it had been given up: more may have been paid out than was received'
        )
    } catch (error) {
      // The money is on its way: an error would make the client send it again.
      log.error(
        { ...fields, err: error, payoutId: payout.payoutId },
        'a refund was sent and could not be written; it is looked up'
      )
      return refund
    }
    // Failed immediately: a refusal for the client.
    if (payout.status === 'failed' && written.status === 'failed')
      throw new ShortError(REFUND_REFUSED, 'The payment provider could not send the refund.')
    return written
  }

  /** Releases the amount of a refund that was certainly not sent. */
  async #release(refund: Refund): Promise<void> {
    try {
      await this.#apply(refund, afterRefusal, true)
    } catch (error) {
      // The client must see the provider's refusal; a later look-up releases the row.
      this.#dependencies.log.error(
        { err: error, refundId: refund.refundId },
        'a refund was not sent and could not be written as failed; it is looked up'
      )
    }
  }

  async lookUp(merchant: Merchant, refund: Refund): Promise<Refund> {
    const { payees } = this.#dependencies
    const payee = payees.maker(merchant, refund.slot, refund.kind)
    if (payee === null) {
      // Another provider's "unknown" does not prove that it was never sent.
      throw new LongError(
        PROVIDER_REFUSED,
        'Payment provider error',
        `The refund was sent through ${refund.kind}, and the ${refund.slot} provider is ${namesIn(payees, refund.slot)} now.`
      )
    }
    const { sources, clock } = this.#dependencies
    const source = await sources.get(refund.merchantId, refund.invoiceId, clock.now())
    if (source === null) {
      if (isOpen(refund)) throw new TypeError('what a refund gives back is gone')
      // Store orders are purged once their refunds are final; only a transaction hash can be missing then.
      return refund
    }
    const found = await payee.lookUpPayout(payoutRequest(refund, source), refund.providerRefundId)
    return await this.#apply(refund, (current, now) => {
      const payout = ownPayout(current, found)
      return payout === null ? afterUnknown(current, now) : afterPayout(current, payout, now)
    })
  }

  /**
   * Writes a refund's change, and the payment as refunded once confirmed refunds reach the received amount (decision
   * 56). Locks the payment's row first, as create does, for correct sums and no deadlock. `isRefused` frees the
   * idempotency key: the client learns that nothing was sent (decision 19).
   */
  async #apply(seen: Refund, change: (refund: Refund, now: number) => Refund, isRefused = false): Promise<Refund> {
    const { database, sources, store, clock, log, onConfirmed } = this.#dependencies
    return await database.transaction(async sql => {
      const now = clock.now()
      const source = await sources.lock(sql, seen.merchantId, seen.invoiceId, now)
      const current = await store.lock(sql, seen.refundId)
      if (source === null || current === null) throw new TypeError('a refund or its payment is gone')
      const next = change(current, now)
      if (next === current) return current
      await store.write(sql, next, now)
      if (isRefused && next.status === 'failed') await store.forgetKey(sql, next.refundId)
      if (current.status !== next.status) {
        if (next.status === 'confirmed') await onConfirmed(sql, next)
        log.info(
          { refundId: next.refundId, invoiceId: next.invoiceId, from: current.status, to: next.status },
          'a refund has changed'
        )
      }
      await countConfirmed(sql, { sources, store }, source, next)
      return next
    })
  }
}

/**
 * Marks the source as refunded once confirmed refunds reach the received amount (decision 56). The caller has locked
 * its row.
 */
export async function countConfirmed(
  sql: TransactionSql,
  { sources, store }: Pick<PayoutDependencies, 'sources' | 'store'>,
  source: RefundSource,
  refund: Refund
): Promise<void> {
  if (refund.status !== 'confirmed') return
  const { confirmed } = await store.sums(sql, source.invoiceId)
  if (confirmed >= source.capSats) await sources.refunded(sql, source)
}

/** Identical at every look-up, so that a provider recognizes it. */
function payoutRequest(refund: Refund, source: RefundSource): PayoutRequest {
  return {
    reference: refund.refundId,
    chargeId: source.chargeId,
    destination: payoutDestination(refund.type, refund.address),
    amountSats: refund.amountSats,
    description: refund.reason
  }
}

export function namesIn(payees: Pick<Payees, 'inOrder'>, slot: ProviderSlot): string {
  return payees
    .inOrder(slot)
    .map(({ name }) => name)
    .join(' or ')
}
