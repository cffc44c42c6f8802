import { INVALID_STATE } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import { equalBytes } from '../../platform/keys/constant-time.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { ClaimStore } from '../claims/store.ts'
import { claimDigest } from '../claims/token.ts'
import { isOrderId } from './id.ts'
import type { OrderMaking } from './making.ts'
import type { OrderStore, OrderRecord } from './store.ts'
import { isReadable, READ_WINDOW, type PaidOrders } from './paid-orders.ts'
import type { Integration, Order, OrderStatus } from '../schema.ts'
import { orderNotFound } from '../store-errors.ts'

/** One page of a merchant's orders. */
export interface OrderQuery {
  /** Null for all. */
  readonly status: OrderStatus | null
  /** From 1. */
  readonly page: number
  readonly pageSize: number
}

/**
 * What a merchant's store has done since it was opened, purged orders included (decision 149). Times in milliseconds
 * since the epoch.
 */
export interface StoreStats {
  readonly totalCheckouts: number
  readonly paidOrders: number
  /** Paid orders for each checkout, 0 to 1 with four places; 0 when there was none. */
  readonly conversionRate: number
  /** Of paid orders only. */
  readonly totalPaidSats: number
  readonly totalPaidCents: number
  /** Orders that were ever fulfilled, those shipped since among them. */
  readonly fulfilled: number
  readonly shipped: number
  readonly firstOrderAt: number | null
  readonly lastOrderAt: number | null
}

/** What orders are read with. */
export interface OrdersParts {
  readonly store: Pick<OrderStore, 'get' | 'byClaimDigest' | 'list' | 'listTroubled' | 'sums' | 'purge'>
  readonly claims: Pick<ClaimStore, 'details'>
  readonly making: Pick<OrderMaking, 'make'>
  readonly paid: Pick<PaidOrders, 'claimPageUrl'>
  readonly clock: Clock
  /** A store, active or not. */
  bySlug(slug: string): Promise<Integration | null>
  byId(storefrontId: number): Promise<Integration | null>
}

const PURGE_BATCH = 500

/**
 * Orders as buyers, merchants and the administrator see them. Every method throws Unavailable 503 while the database is
 * away.
 */
export class Orders {
  readonly #parts: OrdersParts

  constructor(parts: OrdersParts) {
    this.#parts = parts
  }

  /**
   * @throws LongError 404 in every case: unknown, token mismatch, window ended before claiming, purged, another store
   */
  async status(slug: string, orderId: string, claimToken: string): Promise<Order> {
    const found = await this.byClaimToken(slug, claimToken)
    if (found === null || found.order.id !== orderId) throw orderNotFound()
    return found.order
  }

  /** For the claim page: null where `status` would be 404. */
  async byClaimToken(
    slug: string,
    claimToken: string
  ): Promise<{ readonly order: Order; readonly integration: Integration } | null> {
    const integration = await this.#parts.bySlug(slug)
    if (integration === null) return null
    const digest = claimDigest(claimToken)
    const order = await this.#parts.store.byClaimDigest(integration.id, digest)
    // The index has compared digests, which tells nothing of the token; this is for whoever changes the query.
    if (order === null || order.claimDigest === null || !equalBytes(order.claimDigest, digest)) return null
    return isReadable(order, this.#parts.clock.now()) ? { order, integration } : null
  }

  /**
   * Address of the claim page with the order's token; null before it is paid and once it is no longer readable
   * (decisions 134 and 135).
   */
  claimPageUrl(integration: Integration, order: Order): string | null {
    return this.#parts.paid.claimPageUrl(integration, order)
  }

  /** A page of a merchant's orders, newest first. */
  list(merchantId: number, query: OrderQuery): Promise<Order[]> {
    return this.#parts.store.list(merchantId, query.status, {
      limit: query.pageSize,
      offset: (query.page - 1) * query.pageSize
    })
  }

  /**
   * A page of the orders of all merchants that somebody must look after, longest waiting first: for the administrator.
   */
  troubled(page: { readonly skip: number; readonly take: number }): Promise<Order[]> {
    return this.#parts.store.listTroubled({ limit: page.take, offset: page.skip })
  }

  async stats(merchantId: number): Promise<StoreStats> {
    const sums = await this.#parts.store.sums(merchantId)
    return {
      totalCheckouts: sums.checkouts,
      paidOrders: sums.paidOrders,
      conversionRate: sums.checkouts === 0 ? 0 : Math.round((sums.paidOrders * 10_000) / sums.checkouts) / 10_000,
      totalPaidSats: sums.paidSats,
      totalPaidCents: sums.paidCents,
      fulfilled: sums.fulfilled,
      shipped: sums.shipped,
      firstOrderAt: sums.firstOrderAt,
      lastOrderAt: sums.lastOrderAt
    }
  }

  /**
   * Makes the store's order of what the buyer has given before (decision 146), for the administrator; also after the
   * claim window, since the buyer was in time.
   * @throws LongError 404 for an unknown order, 400 when there is nothing to retry, 502 when it fails again
   */
  async retry(orderId: string): Promise<Order> {
    const order: OrderRecord | null = isOrderId(orderId) ? await this.#parts.store.get(orderId) : null
    if (order === null) throw orderNotFound()
    if (order.claimedAt !== null) throw new LongError(INVALID_STATE, 'Nothing to retry', 'The store has this order.')
    if ((await this.#parts.claims.details(orderId)) === null)
      throw new LongError(INVALID_STATE, 'Nothing to retry', 'The buyer has not said yet where the order goes.')
    const integration = await this.#parts.byId(order.storefrontId)
    if (integration === null) throw new TypeError(`order ${orderId} names a store that does not exist`)
    return await this.#parts.making.make(integration, orderId, null)
  }

  /**
   * Deletes orders that nobody can read any more, their challenges with them: unclaimed ones after their window,
   * claimed ones after 90 days. One that was being claimed in vain, or whose buyer wants the money back, is kept for 90
   * days more, for the administrator's retry and the merchant's refund. Their figures stay in the store's. For a
   * periodic job; returns how many.
   */
  async purge(): Promise<number> {
    const now = this.#parts.clock.now()
    const limits = { unclaimedBefore: now, begunBefore: now - READ_WINDOW, claimedBefore: now - READ_WINDOW }
    let purged = 0
    for (;;) {
      const gone = await this.#parts.store.purge(limits, PURGE_BATCH)
      purged += gone
      if (gone < PURGE_BATCH) return purged
    }
  }
}
