import type { Sql, TransactionSql } from '../../platform/database/database.ts'
import type { Fulfilment } from '../platform.ts'
import type { Order, OrderFailure, OrderStatus, RefundRequest } from '../schema.ts'
import type { Random } from '../../platform/system/ids.ts'

/** An order with internal fields. */
export interface OrderRecord extends Order {
  /** SHA-256; null before payment. */
  readonly claimDigest: Uint8Array | null
  /** The platform's id of the hold; null for none. */
  readonly holdId: string | null
  /** When the mail with the claim page was queued. */
  readonly mailedAt: number | null
}

export interface PaidFacts {
  readonly paidAt: number
  readonly claimDigest: Uint8Array
  readonly claimToken: string
}

export interface ClaimedFacts {
  readonly claimedAt: number
  readonly platformOrderId: string
  readonly orderNumber: string
  readonly nextCheckAt: number
}

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

export interface Rows {
  readonly limit: number
  readonly offset: number
}

/** Times in milliseconds since the epoch. */
export interface PurgeLimits {
  /** Unclaimed ones without a claim attempt, by the end of their window. */
  readonly unclaimedBefore: number
  /** Unclaimed ones with a claim attempt, by the end of their window. */
  readonly begunBefore: number
  readonly claimedBefore: number
}

/**
 * Stores orders. Methods with a transaction need the row locked by `lock`, so that concurrent changes see each other.
 * Methods without a handle are one statement each.
 */
export interface OrderStore {
  /** @throws a unique violation for a payment that has an order */
  insert(sql: Sql, order: Order): Promise<void>
  /** Locks the row until the transaction ends. */
  lock(sql: TransactionSql, orderId: string): Promise<OrderRecord | null>
  get(orderId: string): Promise<OrderRecord | null>
  byPaymentHash(paymentHash: string): Promise<OrderRecord | null>
  byClaimDigest(storefrontId: number, digest: Uint8Array): Promise<OrderRecord | null>
  /** Locks the row until the transaction ends. */
  lockPlatformOrder(sql: TransactionSql, storefrontId: number, platformOrderId: string): Promise<OrderRecord | null>
  markPaid(sql: TransactionSql, orderId: string, facts: PaidFacts): Promise<void>
  markMailed(sql: TransactionSql, orderId: string, at: number): Promise<void>
  markClaimed(sql: TransactionSql, orderId: string, facts: ClaimedFacts): Promise<void>
  /** Takes paid orders without claim or hold and marks them as asked, in one statement. */
  takeToHold(now: number, limit: number): Promise<OrderRecord[]>
  /** Null for no hold any more. */
  held(orderId: string, holdId: string | null): Promise<void>
  /** The shop was not reached: it is asked again. */
  unasked(orderId: string): Promise<void>
  /** Takes made or refunded orders that still have a hold; again after `again` milliseconds. */
  takeToRelease(
    now: number,
    again: number,
    limit: number
  ): Promise<Array<{ readonly order: OrderRecord; readonly holdId: string }>>
  /** Records why a shop failed a paid order; ignored when it was made meanwhile. */
  markFailed(sql: TransactionSql, orderId: string, failure: OrderFailure): Promise<void>
  markRefundRequest(sql: TransactionSql, orderId: string, request: RefundRequest): Promise<void>
  /** A page of orders that failed or await a refund, of all merchants, longest waiting first. */
  listTroubled(page: Rows): Promise<Order[]>
  /** Writes status, tracking, times, and the next poll; null for none. */
  markProgress(sql: TransactionSql, order: Order, nextCheckAt: number | null): Promise<void>
  /**
   * Takes at most `limit` claimed orders that are due and postpones them by `pause` milliseconds, in one statement, so
   * that each goes to one process.
   */
  takeDue(now: number, pause: number, limit: number): Promise<OrderRecord[]>
  checkAt(orderId: string, nextCheckAt: number): Promise<void>
  /** A page, newest first, ties by id descending. */
  list(merchantId: number, status: OrderStatus | null, page: Rows): Promise<Order[]>
  sums(merchantId: number): Promise<OrderSums>
  /**
   * Deletes at most `limit` orders with their challenges and adds them to the tallies, atomically. Returns how many.
   */
  purge(limits: PurgeLimits, limit: number): Promise<number>
}

/** Applies the platform's progress; returns the same order if nothing is new. Never goes back. */
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

/** A text as PostgreSQL returns it: without NUL and unpaired surrogates. */
export function storable(text: string): string {
  return text.replaceAll('\0', '').toWellFormed()
}

export function storableOrNull(text: string | null): string | null {
  return text === null ? null : storable(text)
}

/** Current and former ids. */
const ORDER_ID = /^(?:ord_[0-9a-f]{16}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/

/** `ord_` and 16 random hex characters (decision 10), which do not reveal the number of orders. */
export function newOrderId(random: Random): string {
  return `ord_${Buffer.from(random(8)).toString('hex')}`
}

/** Guards the database, which cannot read some texts. */
export function isOrderId(text: string): boolean {
  return ORDER_ID.test(text)
}
