import type { Integration, Order, OrderStatus } from './schema.ts'

/** One page of a merchant's orders. */
export interface OrderQuery {
  /** Null for all. */
  readonly status: OrderStatus | null
  /** From 1. */
  readonly page: number
  readonly pageSize: number
}

/** What a merchant's store has done since it was opened, purged orders included (decision 149). Times in milliseconds since the epoch. */
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

/** Orders as buyers, merchants and the administrator see them. */
export class Orders {
  /** @throws LongError 404 in every case: unknown, token mismatch, window ended before claiming, purged, another store */
  status (_slug: string, _orderId: string, _claimToken: string): Promise<Order> {
    return Promise.reject(new Error('not yet'))
  }

  /** For the claim page: null where `status` would be 404. */
  byClaimToken (_slug: string, _claimToken: string): Promise<{ readonly order: Order, readonly integration: Integration } | null> {
    return Promise.reject(new Error('not yet'))
  }

  /** Address of the claim page with the order's token; null before it is paid and once it is no longer readable (decisions 134 and 135). */
  claimPageUrl (_integration: Integration, _order: Order): string | null {
    return null
  }

  /** A page of a merchant's orders, newest first. */
  list (_merchantId: number, _query: OrderQuery): Promise<Order[]> {
    return Promise.reject(new Error('not yet'))
  }

  stats (_merchantId: number): Promise<StoreStats> {
    return Promise.reject(new Error('not yet'))
  }

  /**
   * Makes the store's order of what the buyer has given before (decision 146), for the administrator.
   * @throws LongError 404 for an unknown order, 400 when there is nothing to retry, 502 when it fails again
   */
  retry (_orderId: string): Promise<Order> {
    return Promise.reject(new Error('not yet'))
  }
}
