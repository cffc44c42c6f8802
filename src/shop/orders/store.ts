import type { Sql, TransactionSql } from '../../platform/database/database.ts'
import type { Fulfilment } from '../platform.ts'
import type { Order, OrderFailure, OrderStatus, RefundRequest } from '../schema.ts'

/** An order with what is kept for its own sake. */
export interface OrderRecord extends Order {
  /** SHA-256 of the claim token; null before it is paid. */
  readonly claimDigest: Uint8Array | null
  /** The platform's id of what holds the goods; null where nothing does. */
  readonly holdId: string | null
  /** When the mail with the claim page was queued, in milliseconds; null while it was not. */
  readonly mailedAt: number | null
}

/** What a paid order is given. */
export interface PaidFacts {
  readonly paidAt: number
  readonly claimDigest: Uint8Array
  readonly claimToken: string
}

/** What a claimed order is given: the platform's order. */
export interface ClaimedFacts {
  readonly claimedAt: number
  readonly platformOrderId: string
  readonly orderNumber: string
  readonly nextCheckAt: number
}

/** What orders of a merchant come to, live and purged; times in milliseconds since the epoch. */
export interface OrderSums {
  readonly checkouts: number
  readonly paidOrders: number
  readonly paidSats: number
  readonly paidCents: number
  readonly fulfilled: number
  readonly shipped: number
  readonly firstOrderAt: number | null
  readonly lastOrderAt: number | null
}

/** A page in rows. */
export interface Rows {
  readonly limit: number
  readonly offset: number
}

/** Which orders are purged. Times in milliseconds since the epoch. */
export interface PurgeLimits {
  /** Unclaimed ones whose window ended before, and that nobody began to claim. */
  readonly unclaimedBefore: number
  /** Unclaimed ones that somebody began to claim, by the end of their window. */
  readonly begunBefore: number
  /** Claimed ones, by when they were. */
  readonly claimedBefore: number
}

/**
 * Where orders are kept. What changes a row takes the handle of a transaction in which the row was locked by `lock`, so
 * that of several changes at once each sees the one before. Methods without a handle are one statement each.
 */
export interface OrderStore {
  /** Adds an order. @throws a unique violation for a payment that has one */
  insert(sql: Sql, order: Order): Promise<void>
  /** Locks the row until the transaction ends; null when there is none. */
  lock(sql: TransactionSql, orderId: string): Promise<OrderRecord | null>
  get(orderId: string): Promise<OrderRecord | null>
  byPaymentHash(paymentHash: string): Promise<OrderRecord | null>
  /** The order of one store with this claim token. */
  byClaimDigest(storefrontId: number, digest: Uint8Array): Promise<OrderRecord | null>
  /** The order of one store with the platform's id, its row locked until the transaction ends. */
  lockPlatformOrder(sql: TransactionSql, storefrontId: number, platformOrderId: string): Promise<OrderRecord | null>
  markPaid(sql: TransactionSql, orderId: string, facts: PaidFacts): Promise<void>
  markMailed(sql: TransactionSql, orderId: string, at: number): Promise<void>
  markClaimed(sql: TransactionSql, orderId: string, facts: ClaimedFacts): Promise<void>
  /**
   * Takes paid orders that nobody is having made and whose shop was not asked yet to hold their goods, and notes that
   * it is asked, in one statement.
   */
  takeToHold(now: number, limit: number): Promise<OrderRecord[]>
  /** Notes what holds an order's goods; null for nothing any more. */
  held(orderId: string, holdId: string | null): Promise<void>
  /** The shop was certainly not asked: it is to be asked again. */
  unasked(orderId: string): Promise<void>
  /**
   * Takes orders that were made, or whose money went back, and whose goods are held still; the same again after `again`
   * milliseconds.
   */
  takeToRelease(
    now: number,
    again: number,
    limit: number
  ): Promise<Array<{ readonly order: OrderRecord; readonly holdId: string }>>
  /** Notes why the shop did not make a paid order; nothing where it has made it meanwhile. */
  markFailed(sql: TransactionSql, orderId: string, failure: OrderFailure): Promise<void>
  /** Notes where the buyer of a paid order wants the money back. */
  markRefundRequest(sql: TransactionSql, orderId: string, request: RefundRequest): Promise<void>
  /**
   * One page of orders of all merchants that somebody must look after: not made by their shop, or asked back; longest
   * waiting first.
   */
  listTroubled(page: Rows): Promise<Order[]>
  /**
   * Writes status, tracking and times of an order that goes on, and when it is looked at next; null for never again.
   */
  markProgress(sql: TransactionSql, order: Order, nextCheckAt: number | null): Promise<void>
  /**
   * Takes at most `limit` claimed orders that are due for a look and puts them off by `pause` milliseconds, in one
   * statement, so that of several processes one has each.
   */
  takeDue(now: number, pause: number, limit: number): Promise<OrderRecord[]>
  checkAt(orderId: string, nextCheckAt: number): Promise<void>
  /** One page of a merchant's orders, newest first, ties by id descending. */
  list(merchantId: number, status: OrderStatus | null, page: Rows): Promise<Order[]>
  sums(merchantId: number): Promise<OrderSums>
  /**
   * Deletes at most `limit` orders with their challenges and adds them to the tallies, all or nothing. Returns how
   * many.
   */
  purge(limits: PurgeLimits, limit: number): Promise<number>
}

/** How far an order is once the platform says so; the same order where that is nothing new. Never goes back. */
export function progressed(order: Order, seen: Fulfilment, now: number): Order {
  const tracking = {
    number: seen.tracking.number ?? order.tracking.number,
    carrier: seen.tracking.carrier ?? order.tracking.carrier,
    // It becomes a link on the claim page.
    url: seen.tracking.url !== null && /^https?:\/\//i.test(seen.tracking.url) ? seen.tracking.url : order.tracking.url
  }
  const isShipped = seen.isShipped || order.status === 'Shipped'
  const isFulfilled = seen.isFulfilled || isShipped || order.status === 'Fulfilled'
  return {
    ...order,
    status: isShipped ? 'Shipped' : isFulfilled ? 'Fulfilled' : order.status,
    tracking,
    fulfilledAt: order.fulfilledAt ?? (isFulfilled ? now : null),
    shippedAt: order.shippedAt ?? (isShipped ? (seen.shippedAt ?? now) : null),
    canceledAt: order.canceledAt ?? (seen.isCanceled ? now : null)
  }
}

/** A platform's text as PostgreSQL gives it back: without NUL and halves of surrogate pairs. */
export function storable(text: string): string {
  return text.replaceAll('\0', '').toWellFormed()
}

/** The same where there may be none. */
export function storableOrNull(text: string | null): string | null {
  return text === null ? null : storable(text)
}
