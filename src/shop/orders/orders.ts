import type { PageRange } from '../../engine/operations/keyset.ts'
import { INVALID_STATE } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import { equalBytes } from '../../platform/keys/secrets.ts'
import { type ClaimStore, claimDigest } from './claims.ts'
import { isOrderId, type OrderRecord, type OrderSums, type ShopServices } from './store.ts'
import type { OrderPlacement } from './placement.ts'
import { isReadable, READ_WINDOW, type PaidOrders } from './paid-orders.ts'
import type { Integration, Order, OrderStatus } from '../schema.ts'
import { orderNotFound } from '../store-errors.ts'

interface OrderQuery {
  readonly status: OrderStatus | null
  /** Part of the email; or the id, the number or the payment hash. */
  readonly text?: string | null
  readonly page: number
  readonly pageSize: number
}

export interface StoreStats extends OrderSums {
  /** Paid orders per checkout, 0 to 1 with four decimals. */
  readonly conversionRate: number
}

interface OrdersOptions extends ShopServices {
  readonly claims: ClaimStore
  readonly placement: OrderPlacement
  readonly paid: PaidOrders
}

const PURGE_BATCH = 500

/** Orders for buyers, merchants and the administrator. Methods throw Unavailable 503 without a database. */
export class Orders {
  readonly #options: OrdersOptions

  constructor(options: OrdersOptions) {
    this.#options = options
  }

  /**
   * @throws LongError 404 in every case: unknown, token mismatch, window ended before claiming, purged, another store
   */
  async status(slug: string, orderId: string, claimToken: string): Promise<Order> {
    const found = await this.byClaimToken(slug, claimToken)
    if (found === null || found.order.id !== orderId) throw orderNotFound()
    return found.order
  }

  /** Null where `status` is 404. */
  async byClaimToken(
    slug: string,
    claimToken: string
  ): Promise<{ readonly order: Order; readonly integration: Integration } | null> {
    const integration = await this.#options.stores.bySlug(slug)
    if (integration === null) return null
    const digest = claimDigest(claimToken)
    const order = await this.#options.orders.byClaimDigest(integration.id, digest)
    // The index compared digests, which reveals nothing of the token; this guards against a changed query.
    if (order === null || order.claimDigest === null || !equalBytes(order.claimDigest, digest)) return null
    return isReadable(order, this.#options.clock.now()) ? { order, integration } : null
  }

  /** The claim page with the order's token; null before payment and once unreadable (decisions 134 and 135). */
  claimPageUrl(integration: Integration, order: Order): string | null {
    return this.#options.paid.claimPageUrl(integration, order)
  }

  list(merchantId: number, query: OrderQuery): Promise<Order[]> {
    const page = { limit: query.pageSize, offset: (query.page - 1) * query.pageSize }
    return this.#options.orders.list(merchantId, query.status, page, query.text)
  }

  troubled(page: PageRange): Promise<Order[]> {
    return this.#options.orders.listTroubled({ limit: page.take, offset: page.skip })
  }

  async stats(merchantId: number): Promise<StoreStats> {
    const sums = await this.#options.orders.sums(merchantId)
    const { totalCheckouts, paidOrders } = sums
    const conversionRate = totalCheckouts === 0 ? 0 : Math.round((paidOrders * 10_000) / totalCheckouts) / 10_000
    return { ...sums, conversionRate }
  }

  /**
   * Makes the order with the stored details (decision 146); also after the claim window, since the buyer was in time.
   * @throws LongError 404 for an unknown order, 400 when there is nothing to retry, 502 when it fails again
   */
  async retry(orderId: string): Promise<Order> {
    const order: OrderRecord | null = isOrderId(orderId) ? await this.#options.orders.get(orderId) : null
    if (order === null) throw orderNotFound()
    if (order.claimedAt !== null) throw new LongError(INVALID_STATE, 'Nothing to retry', 'The store has this order.')
    if ((await this.#options.claims.details(orderId)) === null)
      throw new LongError(INVALID_STATE, 'Nothing to retry', 'The buyer has not said yet where the order goes.')
    const integration = await this.#options.stores.byId(order.storefrontId)
    if (integration === null) throw new TypeError(`order ${orderId} names a store that does not exist`)
    return await this.#options.placement.make(integration, orderId, null)
  }

  /**
   * Deletes orders that are no longer readable, with their challenges: unclaimed ones after their window, claimed ones
   * after 90 days. A failed claim, or a refund request, keeps an order 90 days longer, for retry and refund. Tallies
   * stay. Periodic; returns how many.
   */
  async purge(): Promise<number> {
    const now = this.#options.clock.now()
    const limits = { unclaimedBefore: now, begunBefore: now - READ_WINDOW, claimedBefore: now - READ_WINDOW }
    let purged = 0
    for (;;) {
      const gone = await this.#options.orders.purge(limits, PURGE_BATCH)
      purged += gone
      if (gone < PURGE_BATCH) return purged
    }
  }
}
