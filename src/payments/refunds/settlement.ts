import { CONFLICT, RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Database, TransactionSql } from '../../platform/database/database.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { isRefundId, pageOf, type Refund } from './schema.ts'
import { countConfirmed } from './payouts.ts'
import type { RefundSources } from './source.ts'
import { isOpen, UNKNOWN_GRACE } from '../../lightning/providers/payout-states.ts'
import type { RefundStore } from './store.ts'

export type SettlementOutcome = 'sent' | 'not-sent'

export interface RefundSettlement {
  readonly outcome: SettlementOutcome
  /** The provider's refund id; null for `not-sent`. */
  readonly providerRefundId: string | null
  /** 64 hex characters; null when unknown. */
  readonly transactionHash: string | null
  readonly feeSats: number | null
  /** Name of the administrator: several share one admin key. */
  readonly settledBy: string
  readonly reason: string
  readonly correlationId: string
  /** Milliseconds since the epoch. */
  readonly settledAt: number
}

export interface SettledRefund {
  readonly refund: Refund
  /** Null without a manual settlement. */
  readonly settlement: RefundSettlement | null
}

/** Refunds with an unknown outcome, all open ones, or those settled manually. */
export const REFUND_VIEWS = ['lost', 'open', 'settled'] as const
export type RefundViewName = (typeof REFUND_VIEWS)[number]

interface RefundSettlementsDependencies {
  readonly store: RefundStore
  readonly sources: RefundSources
  /** As for refunds that their provider confirms. */
  readonly onConfirmed: (sql: TransactionSql, refund: Refund) => Promise<void>
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
}

/**
 * Settles refunds whose outcome only the provider's records show. One conditional UPDATE under the refund lock: of a
 * late provider answer and an administrator's entry the first wins.
 */
export class RefundSettlements {
  readonly #dependencies: RefundSettlementsDependencies

  constructor(dependencies: RefundSettlementsDependencies) {
    this.#dependencies = dependencies
  }

  /** Oldest first; `settled` newest first. `lost` excludes refunds that may still be in flight. */
  list(view: RefundViewName, query: { readonly skip?: number; readonly take?: number }): Promise<SettledRefund[]> {
    const { store, clock } = this.#dependencies
    return store.listForAdmin(view, clock.now() - UNKNOWN_GRACE, pageOf(query))
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
      ? 'The provider took it, so it says itself what becomes of it.'
      : refund.createdAt > before
        ? `It may still be on its way: that it was not sent can be said from ${new Date(refund.createdAt + UNKNOWN_GRACE).toISOString()} on.`
        : 'It has changed meanwhile; read it again.'
  return new LongError(CONFLICT, 'Refund not settled', why)
}
