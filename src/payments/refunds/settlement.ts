import { CONFLICT, RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Database, TransactionSql } from '../../platform/database/database.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { isRefundId, pageOf, type Refund } from './schema.ts'
import { countConfirmed } from './service.ts'
import type { RefundSources } from './source.ts'
import { isOpen, UNKNOWN_GRACE } from '../../lightning/providers/payout-states.ts'
import type { RefundStore } from './store.ts'

/** What an administrator found in the provider's own records. */
export type SettlementOutcome = 'sent' | 'not-sent'

/** A refund settled by hand: what is written, and what is kept of who did it. */
export interface RefundSettlement {
  readonly outcome: SettlementOutcome
  /** The provider's id of what was sent; null for `not-sent`. */
  readonly providerRefundId: string | null
  /** 64 hex characters; null where none is known. */
  readonly transactionHash: string | null
  readonly feeSats: number | null
  /** Who settles it: there is one admin key, and several people. */
  readonly settledBy: string
  readonly reason: string
  /** Of the request, to find it in the log. */
  readonly correlationId: string
  /** Milliseconds since the epoch. */
  readonly settledAt: number
}

/** A refund as the administrator sees it. */
export interface SettledRefund {
  readonly refund: Refund
  /** Null while nobody has settled it by hand. */
  readonly settlement: RefundSettlement | null
}

/**
 * Which refunds an administrator lists: those that nobody knows the fate of, all that are under way, or those settled
 * by hand.
 */
export const REFUND_VIEWS = ['lost', 'open', 'settled'] as const
export type RefundViewName = (typeof REFUND_VIEWS)[number]

/** What settlements are written with. */
export interface RefundSettlementsParts {
  readonly store: RefundStore
  readonly sources: RefundSources
  /** As for refunds that their provider confirms. */
  readonly onConfirmed: (sql: TransactionSql, refund: Refund) => Promise<void>
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
}

/**
 * Settles refunds whose fate only the provider's records show. The change is one conditional UPDATE under the lock that
 * every change of a refund takes: of a provider's late answer and an administrator's word the first counts, and the
 * other changes nothing.
 */
export class RefundSettlements {
  readonly #parts: RefundSettlementsParts

  constructor(parts: RefundSettlementsParts) {
    this.#parts = parts
  }

  /** A page of them, oldest first; those settled by hand newest first. `lost` has none that may still be on its way. */
  list(view: RefundViewName, query: { readonly skip?: number; readonly take?: number }): Promise<SettledRefund[]> {
    const { store, clock } = this.#parts
    return store.listForAdmin(view, clock.now() - UNKNOWN_GRACE, pageOf(query))
  }

  /** @throws LongError 404 */
  async get(refundId: string): Promise<SettledRefund> {
    const found = isRefundId(refundId) ? await this.#parts.store.forAdmin(refundId) : null
    if (found === null) throw new LongError(RESOURCE_NOT_FOUND, 'Refund not found', 'There is no refund with this id.')
    return found
  }

  /**
   * Writes what an administrator knows: confirmed with the provider's id, or failed, which frees the amount.
   * @throws LongError 404 for an unknown refund; 409 for one that is settled already, and for `not-sent` where the
   *   provider took it or the request may still be on its way
   */
  async settle(refundId: string, settlement: RefundSettlement): Promise<SettledRefund> {
    const { database, store, sources, onConfirmed, log } = this.#parts
    const {
      refund: { merchantId, invoiceId }
    } = await this.get(refundId)
    const before = settlement.settledAt - UNKNOWN_GRACE
    const settled = await database.transaction(async sql => {
      // The source's row first, as everywhere, so that nobody waits in a circle.
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

/** Why nothing was written; `before` is when the youngest refund was made that is certainly not on its way. */
function notSettled(refund: Refund, before: number): LongError {
  const why = !isOpen(refund)
    ? `It is ${refund.status} already.`
    : refund.providerRefundId !== null || refund.status === 'processing'
      ? 'The provider took it, so it says itself what becomes of it.'
      : refund.createdAt > before
        ? `It may still be on its way: that it was not sent can be said from ${new Date(refund.createdAt + UNKNOWN_GRACE).toISOString()} on.`
        : 'It has changed meanwhile; read it again.'
  return new LongError(CONFLICT, 'Refund not settled', why)
}
