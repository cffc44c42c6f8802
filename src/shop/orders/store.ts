import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Sealer } from '../../platform/keys/secrets.ts'
import type { StorePlatform } from '../platform.ts'
import type { Storefronts } from '../stores/integrations.ts'
import type { Sql, TransactionSql, Database } from '../../platform/database/database.ts'
import {
  orderColumns,
  storable,
  storableOrNull,
  type Order,
  type OrderFailure,
  type OrderStatus,
  type RefundRequest
} from '../schema.ts'
import type { Random } from '../../platform/system/ids.ts'
import {
  amount,
  bytes,
  containing,
  dateOrNull,
  moment,
  optional,
  records,
  text,
  type RecordOf
} from '../../platform/database/rows.ts'

/** What every service of the shop works with. */
export interface ShopServices {
  readonly clock: Clock
  readonly database: Database
  readonly log: Log
  readonly orders: OrderStore
  readonly platform: StorePlatform
  readonly random: Random
  readonly sealer: Sealer
  readonly stores: Storefronts
}

interface PaidFacts {
  readonly paidAt: number
  readonly claimDigest: Uint8Array
  readonly claimToken: string
}

interface ClaimedFacts {
  readonly claimedAt: number
  readonly platformOrderId: string
  readonly orderNumber: string
  readonly nextCheckAt: number
}

export interface Rows {
  readonly limit: number
  readonly offset: number
}

interface PurgeLimits {
  readonly unclaimedBefore: number
  /** Unclaimed ones with a claim attempt, by the end of their window. */
  readonly begunBefore: number
  readonly claimedBefore: number
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

const recordColumns = {
  ...orderColumns,
  /** SHA-256; null before payment. */
  claimDigest: optional(bytes()),
  holdId: optional(text()),
  mailedAt: optional(moment())
}
export type OrderRecord = RecordOf<typeof recordColumns>
const orderRows = records(recordColumns)

/** Totals of a merchant's store, purged orders included (decision 149). Satoshis and cents are of paid orders only. */
const sumColumns = {
  totalCheckouts: amount('checkouts'),
  paidOrders: amount(),
  totalPaidSats: amount('paid_sats'),
  totalPaidCents: amount('paid_cents'),
  fulfilled: amount(),
  shipped: amount(),
  firstOrderAt: optional(moment()),
  lastOrderAt: optional(moment())
}
export type OrderSums = RecordOf<typeof sumColumns>
const sumRows = records(sumColumns)

/**
 * Stores orders. Methods with a transaction need the row locked by `lock`, so that concurrent changes see each other.
 * Methods without a handle are one statement each.
 */
export class OrderStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /** @throws a unique violation for a payment that has an order */
  async insert(sql: Sql, order: Order): Promise<void> {
    const items = order.items.map(
      ({ variantId, productTitle, variantTitle, quantity, priceCents, requiresShipping }) => ({
        variantId,
        productTitle: storable(productTitle),
        variantTitle: storable(variantTitle),
        quantity,
        priceCents,
        requiresShipping
      })
    )
    const tax = {
      ...order.tax,
      lines: order.tax.lines.map(({ title, rate, cents }) => ({ title: storable(title), rate, cents }))
    }
    await sql`insert into storefront_orders ${sql(orderRows.write(sql, { ...order, items, tax }))}`
  }

  lock(sql: TransactionSql, orderId: string): Promise<OrderRecord | null> {
    return orderRows.one(sql`select * from storefront_orders where id = ${orderId} for update`)
  }

  get(orderId: string): Promise<OrderRecord | null> {
    return orderRows.one(this.#database.sql`select * from storefront_orders where id = ${orderId}`)
  }

  byPaymentHash(paymentHash: string): Promise<OrderRecord | null> {
    return orderRows.one(this.#database.sql`select * from storefront_orders where payment_hash = ${paymentHash}`)
  }

  byClaimDigest(storefrontId: number, digest: Uint8Array): Promise<OrderRecord | null> {
    return orderRows.one(
      this.#database
        .sql`select * from storefront_orders where claim_digest = ${digest} and storefront_id = ${storefrontId}`
    )
  }

  lockPlatformOrder(sql: TransactionSql, storefrontId: number, platformOrderId: string): Promise<OrderRecord | null> {
    return orderRows.one(
      sql`select * from storefront_orders where storefront_id = ${storefrontId} and platform_order_id = ${platformOrderId} for update`
    )
  }

  async markPaid(sql: TransactionSql, orderId: string, { paidAt, claimDigest, claimToken }: PaidFacts): Promise<void> {
    await sql`
      update storefront_orders set status = 'PaidAwaitingDetails', paid_at = ${new Date(paidAt)}, claim_digest = ${claimDigest}, claim_token = ${claimToken}
      where id = ${orderId} and status = 'PendingPayment'`
  }

  async markMailed(sql: TransactionSql, orderId: string, at: number): Promise<void> {
    await sql`update storefront_orders set mailed_at = ${new Date(at)} where id = ${orderId}`
  }

  async markClaimed(
    sql: TransactionSql,
    orderId: string,
    { claimedAt, platformOrderId, orderNumber, nextCheckAt }: ClaimedFacts
  ): Promise<void> {
    await sql`
      update storefront_orders set status = 'PaidWithDetails', claimed_at = ${new Date(claimedAt)}, platform_order_id = ${storable(platformOrderId)},
        order_number = ${storable(orderNumber)}, failure_code = null, failure_message = null, failed_at = null,
        refund_address = null, refund_type = null, refund_asked_at = null, next_check_at = ${new Date(nextCheckAt)}
      where id = ${orderId} and status = 'PaidAwaitingDetails'`
  }

  async markProgress(sql: TransactionSql, order: Order, nextCheckAt: number | null): Promise<void> {
    const { number, carrier, url } = order.tracking
    await sql`
      update storefront_orders set status = ${order.status}, tracking_number = ${storableOrNull(number)}, tracking_carrier = ${storableOrNull(carrier)},
        tracking_url = ${storableOrNull(url)},
        fulfilled_at = ${dateOrNull(order.fulfilledAt)}, shipped_at = ${dateOrNull(order.shippedAt)}, canceled_at = ${dateOrNull(order.canceledAt)}, next_check_at = ${dateOrNull(nextCheckAt)}
      where id = ${order.id}`
  }

  /** Takes paid orders without claim or hold and marks them as asked, in one statement. */
  async takeToHold(now: number, limit: number): Promise<OrderRecord[]> {
    return await orderRows.all(this.#database.sql`
      update storefront_orders set hold_asked_at = ${new Date(now)} where id in (
        select id from storefront_orders where paid_at is not null and claimed_at is null and hold_asked_at is null and claim_expires_at > ${new Date(now)}
          and not exists (select 1 from storefront_claims where order_id = storefront_orders.id and lease_until > ${new Date(now)})
        order by paid_at limit ${limit} for update skip locked)
      returning *`)
  }

  /** Null for no hold any more. */
  async held(orderId: string, holdId: string | null): Promise<void> {
    await this.#database.sql`update storefront_orders set hold_id = ${holdId} where id = ${orderId}`
  }

  /** The shop was not reached: retry. */
  async unasked(orderId: string): Promise<void> {
    await this.#database
      .sql`update storefront_orders set hold_asked_at = null where id = ${orderId} and hold_id is null`
  }

  /** Takes made or refunded orders that still have a hold; again after `again` milliseconds. */
  async takeToRelease(
    now: number,
    again: number,
    limit: number
  ): Promise<Array<{ readonly order: OrderRecord; readonly holdId: string }>> {
    // Postpones the next attempt, so that one that cannot be released does not block the others.
    const held = await orderRows.all(this.#database.sql`
      update storefront_orders set hold_asked_at = ${new Date(now)} where id in (
        select id from storefront_orders where hold_id is not null and (claimed_at is not null or refunded_at is not null)
          and (hold_asked_at <= ${new Date(now - again)} or hold_asked_at <= coalesce(claimed_at, refunded_at))
        order by hold_asked_at limit ${limit} for update skip locked)
      returning *`)
    return held.flatMap(order => (order.holdId === null ? [] : { order, holdId: order.holdId }))
  }

  /** Records why a shop failed a paid order; ignored when it was made meanwhile. */
  async markFailed(sql: TransactionSql, orderId: string, { reason, message, at }: OrderFailure): Promise<void> {
    await sql`
      update storefront_orders set failure_code = ${reason}, failure_message = ${storable(message).slice(0, 1000)}, failed_at = ${new Date(at)}
      where id = ${orderId} and status = 'PaidAwaitingDetails'`
  }

  async markRefundRequest(sql: TransactionSql, orderId: string, { address, type, at }: RefundRequest): Promise<void> {
    await sql`update storefront_orders set refund_address = ${address}, refund_type = ${type}, refund_asked_at = ${new Date(at)} where id = ${orderId}`
  }

  /** A page of orders that failed or await a refund, of all merchants, longest waiting first. */
  async listTroubled(page: Rows): Promise<Order[]> {
    return await orderRows.all(this.#database.sql`
      select * from storefront_orders
      where refunded_at is null and ((failed_at is not null and claimed_at is null) or refund_asked_at is not null)
      order by least(failed_at, refund_asked_at), id limit ${page.limit} offset ${page.offset}`)
  }

  /**
   * Takes at most `limit` claimed orders that are due and postpones them by `pause` milliseconds, in one statement, so
   * that each goes to one process.
   */
  async takeDue(now: number, pause: number, limit: number): Promise<OrderRecord[]> {
    return await orderRows.all(this.#database.sql`
      update storefront_orders set next_check_at = ${new Date(now + pause)} where id in (
        select id from storefront_orders where next_check_at <= ${new Date(now)} order by next_check_at limit ${limit} for update skip locked)
      returning *`)
  }

  async checkAt(orderId: string, nextCheckAt: number): Promise<void> {
    await this.#database
      .sql`update storefront_orders set next_check_at = ${new Date(nextCheckAt)} where id = ${orderId} and next_check_at is not null`
  }

  async list(merchantId: number, status: OrderStatus | null, page: Rows, part: string | null = null): Promise<Order[]> {
    const { sql } = this.#database
    return await orderRows.all(sql`
      select * from storefront_orders where merchant_id = ${merchantId} ${status === null ? sql`` : sql`and status = ${status}`}
        ${part === null ? sql`` : sql`and (email ilike ${containing(part)} or ${part} in (id, order_number, payment_hash))`}
      order by created_at desc, id desc limit ${page.limit} offset ${page.offset}`)
  }

  async sums(merchantId: number): Promise<OrderSums> {
    const sums = await sumRows.one(this.#database.sql`
      with parts as (
        select count(*) as checkouts, count(paid_at) as paid_orders, coalesce(sum(total_sats) filter (where paid_at is not null), 0) as paid_sats,
          coalesce(sum(total_cents) filter (where paid_at is not null), 0) as paid_cents, count(fulfilled_at) as fulfilled, count(shipped_at) as shipped,
          min(created_at) as first_order_at, max(created_at) as last_order_at
        from storefront_orders where merchant_id = ${merchantId}
        union all
        select checkouts, paid_orders, paid_sats, paid_cents, fulfilled, shipped, first_order_at, last_order_at
        from storefront_tallies where storefront_id in (select id from storefronts where merchant_id = ${merchantId})
      )
      select sum(checkouts)::bigint as checkouts, sum(paid_orders)::bigint as paid_orders, sum(paid_sats)::bigint as paid_sats,
        sum(paid_cents)::bigint as paid_cents, sum(fulfilled)::bigint as fulfilled, sum(shipped)::bigint as shipped,
        min(first_order_at) as first_order_at, max(last_order_at) as last_order_at
      from parts`)
    // What sums without groups answers one row.
    return sums!
  }

  /**
   * Deletes at most `limit` orders with their challenges and adds them to the tallies, atomically. Returns how many.
   */
  async purge(limits: PurgeLimits, limit: number): Promise<number> {
    return await this.#database.transaction(async tx => {
      const isOver = tx`
        (claimed_at is null and claim_expires_at < ${new Date(limits.unclaimedBefore)}
          and (claim_expires_at < ${new Date(limits.begunBefore)}
            or refund_asked_at is null and not exists (select 1 from storefront_claims where order_id = old.id))
        or claimed_at < ${new Date(limits.claimedBefore)})
        -- a refund is looked up with the data of the order's challenge
        and not exists (select 1 from refunds where invoice_id = old.id and status in ('pending', 'processing'))`
      // Locked by one statement and checked by the next, which sees what the previous holder of the lock wrote.
      const locked = await tx<
        Array<{ id: string }>
      >`select id from storefront_orders as old where ${isOver} limit ${limit} for update skip locked`
      if (locked.length === 0) return 0
      // Claims cascade; orders go before the challenges that they reference.
      const gone = await tx<Array<{ payment_hash: string }>>`
        with gone as (
          delete from storefront_orders as old where id = any(${locked.map(row => row.id)}::text[]) and ${isOver}
          returning *
        ), counted as (
          insert into storefront_tallies (storefront_id, checkouts, paid_orders, paid_sats, paid_cents, fulfilled, shipped, first_order_at, last_order_at)
          select storefront_id, count(*), count(paid_at), coalesce(sum(total_sats) filter (where paid_at is not null), 0),
            coalesce(sum(total_cents) filter (where paid_at is not null), 0), count(fulfilled_at), count(shipped_at), min(created_at), max(created_at)
          from gone group by storefront_id
          on conflict (storefront_id) do update set
            checkouts = storefront_tallies.checkouts + excluded.checkouts,
            paid_orders = storefront_tallies.paid_orders + excluded.paid_orders,
            paid_sats = storefront_tallies.paid_sats + excluded.paid_sats,
            paid_cents = storefront_tallies.paid_cents + excluded.paid_cents,
            fulfilled = storefront_tallies.fulfilled + excluded.fulfilled,
            shipped = storefront_tallies.shipped + excluded.shipped,
            first_order_at = least(storefront_tallies.first_order_at, excluded.first_order_at),
            last_order_at = greatest(storefront_tallies.last_order_at, excluded.last_order_at)
        )
        select payment_hash from gone`
      if (gone.length > 0)
        await tx`delete from challenges where payment_hash = any(${gone.map(row => row.payment_hash)}::text[])`
      return gone.length
    })
  }
}
