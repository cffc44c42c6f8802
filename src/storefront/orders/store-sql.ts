import type { Database, Sql, TransactionSql } from '../../database/database.ts'
import { claimTokenPlace } from '../claims/token.ts'
import { storable, storableOrNull, type ClaimedFacts, type OrderStore, type OrderSums, type PaidFacts, type PurgeLimits, type Rows, type OrderRecord } from './store.ts'
import type { FailureReason, Order, OrderFailure, OrderItem, OrderStatus, RefundRequest, TaxLine } from '../schema.ts'

interface Row {
  id: string
  storefront_id: number
  merchant_id: number
  payment_hash: string
  status: OrderStatus
  items: ReadonlyArray<Omit<OrderItem, 'requiresShipping'> & { readonly requiresShipping?: boolean }>
  country: string
  state: string
  zip: string
  subtotal_cents: bigint
  shipping_cents: bigint
  tax_cents: bigint
  tax_lines: readonly TaxLine[]
  taxes_included: boolean
  total_cents: bigint
  total_sats: bigint
  email: string | null
  claim_digest: Uint8Array | null
  claim_token: string | null
  claim_expires_at: Date
  claimed_at: Date | null
  platform_order_id: string | null
  order_number: string | null
  tracking_number: string | null
  tracking_carrier: string | null
  tracking_url: string | null
  created_at: Date
  paid_at: Date | null
  mailed_at: Date | null
  fulfilled_at: Date | null
  shipped_at: Date | null
  hold_id: string | null
  failure_code: FailureReason | null
  failure_message: string | null
  failed_at: Date | null
  canceled_at: Date | null
  refund_address: string | null
  refund_type: RefundRequest['type'] | null
  refund_asked_at: Date | null
  refunded_at: Date | null
}

/** Orders in the SQL database. */
export class SqlOrderStore implements OrderStore {
  readonly #database: Database

  constructor (database: Database) {
    this.#database = database
  }

  async insert (sql: Sql, order: Order): Promise<void> {
    // Only what stands when an order is made; the rest comes by the marks.
    const row = {
      id: order.id,
      storefront_id: order.storefrontId,
      merchant_id: order.merchantId,
      payment_hash: order.paymentHash,
      status: order.status,
      items: sql.json(order.items.map(({ variantId, productTitle, variantTitle, quantity, priceCents, requiresShipping }) => ({
        variantId, productTitle: storable(productTitle), variantTitle: storable(variantTitle), quantity, priceCents, requiresShipping
      }))),
      country: order.location.country,
      state: order.location.state,
      zip: order.location.zip,
      subtotal_cents: order.subtotalCents,
      shipping_cents: order.shippingCents,
      tax_cents: order.taxCents,
      tax_lines: sql.json(order.tax.lines.map(({ title, rate, cents }) => ({ title: storable(title), rate, cents }))),
      taxes_included: order.tax.isIncluded,
      total_cents: order.totalCents,
      total_sats: order.totalSats,
      email: order.email,
      claim_expires_at: new Date(order.claimExpiresAt),
      created_at: new Date(order.createdAt)
    }
    await sql`insert into storefront_orders ${sql(row)}`
  }

  lock (sql: TransactionSql, orderId: string): Promise<OrderRecord | null> {
    return one(sql<Row[]>`select * from storefront_orders where id = ${orderId} for update`)
  }

  get (orderId: string): Promise<OrderRecord | null> {
    return one(this.#database.sql<Row[]>`select * from storefront_orders where id = ${orderId}`)
  }

  byPaymentHash (paymentHash: string): Promise<OrderRecord | null> {
    return one(this.#database.sql<Row[]>`select * from storefront_orders where payment_hash = ${paymentHash}`)
  }

  byClaimDigest (storefrontId: number, digest: Uint8Array): Promise<OrderRecord | null> {
    return one(this.#database.sql<Row[]>`select * from storefront_orders where claim_digest = ${digest} and storefront_id = ${storefrontId}`)
  }

  lockPlatformOrder (sql: TransactionSql, storefrontId: number, platformOrderId: string): Promise<OrderRecord | null> {
    return one(sql<Row[]>`select * from storefront_orders where storefront_id = ${storefrontId} and platform_order_id = ${platformOrderId} for update`)
  }

  async markPaid (sql: TransactionSql, orderId: string, { paidAt, claimDigest, claimToken }: PaidFacts): Promise<void> {
    await sql`
      update storefront_orders set status = 'PaidAwaitingDetails', paid_at = ${new Date(paidAt)}, claim_digest = ${claimDigest}, claim_token = ${claimToken}
      where id = ${orderId} and status = 'PendingPayment'`
  }

  async markMailed (sql: TransactionSql, orderId: string, at: number): Promise<void> {
    await sql`update storefront_orders set mailed_at = ${new Date(at)} where id = ${orderId}`
  }

  async markClaimed (sql: TransactionSql, orderId: string, { claimedAt, platformOrderId, orderNumber, nextCheckAt }: ClaimedFacts): Promise<void> {
    await sql`
      update storefront_orders set status = 'PaidWithDetails', claimed_at = ${new Date(claimedAt)}, platform_order_id = ${storable(platformOrderId)},
        order_number = ${storable(orderNumber)}, failure_code = null, failure_message = null, failed_at = null,
        refund_address = null, refund_type = null, refund_asked_at = null, next_check_at = ${new Date(nextCheckAt)}
      where id = ${orderId} and status = 'PaidAwaitingDetails'`
  }

  async markProgress (sql: TransactionSql, order: Order, nextCheckAt: number | null): Promise<void> {
    const { number, carrier, url } = order.tracking
    await sql`
      update storefront_orders set status = ${order.status}, tracking_number = ${storableOrNull(number)}, tracking_carrier = ${storableOrNull(carrier)},
        tracking_url = ${storableOrNull(url)},
        fulfilled_at = ${dateOrNull(order.fulfilledAt)}, shipped_at = ${dateOrNull(order.shippedAt)}, canceled_at = ${dateOrNull(order.canceledAt)}, next_check_at = ${dateOrNull(nextCheckAt)}
      where id = ${order.id}`
  }

  async takeToHold (now: number, limit: number): Promise<OrderRecord[]> {
    const rows = await this.#database.sql<Row[]>`
      update storefront_orders set hold_asked_at = ${new Date(now)} where id in (
        select id from storefront_orders where paid_at is not null and claimed_at is null and hold_asked_at is null and claim_expires_at > ${new Date(now)}
          and not exists (select 1 from storefront_claims where order_id = storefront_orders.id and lease_until > ${new Date(now)})
        order by paid_at limit ${limit} for update skip locked)
      returning *`
    return rows.map(read)
  }

  async held (orderId: string, holdId: string | null): Promise<void> {
    await this.#database.sql`update storefront_orders set hold_id = ${holdId} where id = ${orderId}`
  }

  async unasked (orderId: string): Promise<void> {
    await this.#database.sql`update storefront_orders set hold_asked_at = null where id = ${orderId} and hold_id is null`
  }

  async takeToRelease (now: number, again: number, limit: number): Promise<Array<{ readonly order: OrderRecord, readonly holdId: string }>> {
    // The time of the last asking is moved, so that one that cannot be released does not keep the others waiting.
    const rows = await this.#database.sql<Row[]>`
      update storefront_orders set hold_asked_at = ${new Date(now)} where id in (
        select id from storefront_orders where hold_id is not null and (claimed_at is not null or refunded_at is not null)
          and (hold_asked_at <= ${new Date(now - again)} or hold_asked_at <= coalesce(claimed_at, refunded_at))
        order by hold_asked_at limit ${limit} for update skip locked)
      returning *`
    return rows.flatMap(row => row.hold_id === null ? [] : { order: read(row), holdId: row.hold_id })
  }

  async markFailed (sql: TransactionSql, orderId: string, { reason, message, at }: OrderFailure): Promise<void> {
    await sql`
      update storefront_orders set failure_code = ${reason}, failure_message = ${storable(message).slice(0, 1000)}, failed_at = ${new Date(at)}
      where id = ${orderId} and status = 'PaidAwaitingDetails'`
  }

  async markRefundRequest (sql: TransactionSql, orderId: string, { address, type, at }: RefundRequest): Promise<void> {
    await sql`update storefront_orders set refund_address = ${address}, refund_type = ${type}, refund_asked_at = ${new Date(at)} where id = ${orderId}`
  }

  async listTroubled (page: Rows): Promise<Order[]> {
    const rows = await this.#database.sql<Row[]>`
      select * from storefront_orders
      where refunded_at is null and ((failed_at is not null and claimed_at is null) or refund_asked_at is not null)
      order by least(failed_at, refund_asked_at), id limit ${page.limit} offset ${page.offset}`
    return rows.map(read)
  }

  async takeDue (now: number, pause: number, limit: number): Promise<OrderRecord[]> {
    const rows = await this.#database.sql<Row[]>`
      update storefront_orders set next_check_at = ${new Date(now + pause)} where id in (
        select id from storefront_orders where next_check_at <= ${new Date(now)} order by next_check_at limit ${limit} for update skip locked)
      returning *`
    return rows.map(read)
  }

  async checkAt (orderId: string, nextCheckAt: number): Promise<void> {
    await this.#database.sql`update storefront_orders set next_check_at = ${new Date(nextCheckAt)} where id = ${orderId} and next_check_at is not null`
  }

  async list (merchantId: number, status: OrderStatus | null, page: Rows): Promise<Order[]> {
    const { sql } = this.#database
    const rows = await sql<Row[]>`
      select * from storefront_orders where merchant_id = ${merchantId} ${status === null ? sql`` : sql`and status = ${status}`}
      order by created_at desc, id desc limit ${page.limit} offset ${page.offset}`
    return rows.map(read)
  }

  async sums (merchantId: number): Promise<OrderSums> {
    const [row] = await this.#database.sql<SumsRow[]>`
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
      from parts`
    const number = (name: 'checkouts' | 'paid_orders' | 'paid_sats' | 'paid_cents' | 'fulfilled' | 'shipped'): number => Number(row?.[name] ?? 0n)
    return {
      checkouts: number('checkouts'),
      paidOrders: number('paid_orders'),
      paidSats: number('paid_sats'),
      paidCents: number('paid_cents'),
      fulfilled: number('fulfilled'),
      shipped: number('shipped'),
      firstOrderAt: row?.first_order_at?.getTime() ?? null,
      lastOrderAt: row?.last_order_at?.getTime() ?? null
    }
  }

  async purge (limits: PurgeLimits, limit: number): Promise<number> {
    return await this.#database.transaction(async tx => {
      const isOver = tx`
        (claimed_at is null and claim_expires_at < ${new Date(limits.unclaimedBefore)}
          and (claim_expires_at < ${new Date(limits.begunBefore)} or not exists (select 1 from storefront_claims where order_id = old.id))
        or claimed_at < ${new Date(limits.claimedBefore)})
        -- how a refund stands is asked with what the order's challenge knows
        and not exists (select 1 from refunds where invoice_id = old.id and status in ('pending', 'processing'))`
      // Locked by one statement and judged by the next, which sees the claim of somebody who held the row a moment before.
      const locked = await tx<Array<{ id: string }>>`select id from storefront_orders as old where ${isOver} limit ${limit} for update skip locked`
      if (locked.length === 0) return 0
      // Claims go with their orders; orders go before the challenges that they name.
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
      if (gone.length > 0) await tx`delete from challenges where payment_hash = any(${gone.map(row => row.payment_hash)}::text[])`
      return gone.length
    })
  }
}

interface SumsRow {
  checkouts: bigint | null
  paid_orders: bigint | null
  paid_sats: bigint | null
  paid_cents: bigint | null
  fulfilled: bigint | null
  shipped: bigint | null
  first_order_at: Date | null
  last_order_at: Date | null
}

async function one (statement: PromiseLike<readonly Row[]>): Promise<OrderRecord | null> {
  const [row] = await statement
  return row === undefined ? null : read(row)
}

function dateOrNull (time: number | null): Date | null {
  return time === null ? null : new Date(time)
}

function read (row: Row): OrderRecord {
  return {
    id: row.id,
    storefrontId: row.storefront_id,
    merchantId: row.merchant_id,
    paymentHash: row.payment_hash,
    status: row.status,
    // Orders from before it was kept were sent as if all had to be shipped.
    items: row.items.map(item => ({ ...item, requiresShipping: item.requiresShipping ?? true })),
    location: { country: row.country, state: row.state, zip: row.zip },
    subtotalCents: Number(row.subtotal_cents),
    shippingCents: Number(row.shipping_cents),
    taxCents: Number(row.tax_cents),
    tax: { lines: row.tax_lines, isIncluded: row.taxes_included },
    totalCents: Number(row.total_cents),
    totalSats: Number(row.total_sats),
    email: row.email,
    claimToken: row.claim_token === null ? null : { ciphertext: row.claim_token, place: claimTokenPlace(row.id) },
    claimExpiresAt: row.claim_expires_at.getTime(),
    claimedAt: row.claimed_at?.getTime() ?? null,
    platformOrderId: row.platform_order_id,
    orderNumber: row.order_number,
    tracking: { number: row.tracking_number, carrier: row.tracking_carrier, url: row.tracking_url },
    createdAt: row.created_at.getTime(),
    paidAt: row.paid_at?.getTime() ?? null,
    fulfilledAt: row.fulfilled_at?.getTime() ?? null,
    shippedAt: row.shipped_at?.getTime() ?? null,
    failure: row.failure_code === null || row.failed_at === null ? null : { reason: row.failure_code, message: row.failure_message ?? '', at: row.failed_at.getTime() },
    canceledAt: row.canceled_at?.getTime() ?? null,
    refundRequest: row.refund_address === null || row.refund_type === null || row.refund_asked_at === null
      ? null
      : { address: row.refund_address, type: row.refund_type, at: row.refund_asked_at.getTime() },
    refundedAt: row.refunded_at?.getTime() ?? null,
    claimDigest: row.claim_digest,
    holdId: row.hold_id,
    mailedAt: row.mailed_at?.getTime() ?? null
  }
}
