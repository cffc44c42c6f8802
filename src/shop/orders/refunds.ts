import { decodeInvoice } from '../../lightning/codecs/bolt11.ts'
import type { Sql, TransactionSql } from '../../platform/database/database.ts'
import type { ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import type { KindName } from '../../lightning/provider-calls/provider.ts'
import type { RefundSource, RefundSources } from '../../payments/refunds/destination.ts'
import { isOrderId, type ShopServices } from './store.ts'
import type { OrderPlacement } from './placement.ts'
import { INVALID_STATE, VALIDATION } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import { claimDigest } from './claims.ts'
import { isReadable } from './paid-orders.ts'
import type { Order, RefundRequest } from '../schema.ts'
import { orderNotFound, storeNotFound } from '../store-errors.ts'

interface Row {
  id: string
  merchant_id: number
  paid_at: Date | null
  claimed_at: Date | null
  canceled_at: Date | null
  total_sats: bigint
  charge_id: string
  provider_slot: ProviderSlot
  provider_kind: KindName
  invoice: string
  lease_until: Date | null
  asked_at: Date | null
}

interface OrderSourcesOptions extends ShopServices {
  readonly placement: OrderPlacement
}

/**
 * Store orders as refundable payments: `invoiceId` of a refund may be an order's id. No order is both refunded and
 * sent. It is not refundable while the shop has it, or may have it; and a refund takes over the claim, which making an
 * order needs. Both check under a lock on the order's row.
 */
export class OrderSources implements RefundSources {
  readonly #options: OrderSourcesOptions

  constructor(options: OrderSourcesOptions) {
    this.#options = options
  }

  async get(merchantId: number, orderId: string, now: number): Promise<RefundSource | null> {
    if (!isOrderId(orderId)) return null
    const { sql } = this.#options.database
    const seen = await read(sql, merchantId, orderId)
    if (seen === null) return null
    // An uncertain outcome is resolved first.
    if (seen.claimed_at !== null || seen.asked_at === null) return sourceOf(seen, now)
    await this.#options.placement.resolve(orderId)
    const resolved = await read(sql, merchantId, orderId)
    return resolved === null ? null : sourceOf(resolved, now)
  }

  async lock(sql: TransactionSql, merchantId: number, orderId: string, now: number): Promise<RefundSource | null> {
    if (!isOrderId(orderId)) return null
    await sql`select 1 from storefront_orders where id = ${orderId} and merchant_id = ${merchantId} for update`
    // A separate statement sees what the previous holder of the lock wrote.
    const row = await read(sql, merchantId, orderId)
    if (row === null) return null
    const source = sourceOf(row, now)
    // A stalled process must notice that its expired claim is lost.
    if (source.refusal === null)
      await sql`update storefront_claims set owner = 'refund' where order_id = ${orderId} and lease_until <= ${new Date(now)}`
    return source
  }

  async refunded(sql: TransactionSql, { invoiceId }: RefundSource): Promise<void> {
    await sql`update storefront_orders set refunded_at = ${new Date(this.#options.clock.now())} where id = ${invoiceId} and refunded_at is null`
  }
}

async function read(sql: Sql, merchantId: number, orderId: string): Promise<Row | null> {
  const [row] = await sql<Row[]>`
    select o.id, o.merchant_id, o.paid_at, o.claimed_at, o.canceled_at, o.total_sats, c.charge_id, c.provider_slot, c.provider_kind, c.invoice, k.lease_until, k.asked_at
    from storefront_orders o join challenges c using (payment_hash) left join storefront_claims k on k.order_id = o.id
    where o.id = ${orderId} and o.merchant_id = ${merchantId}`
  return row ?? null
}

function sourceOf(row: Row, now: number): RefundSource {
  return {
    invoiceId: row.id,
    merchantId: row.merchant_id,
    slot: row.provider_slot,
    kind: row.provider_kind,
    chargeId: row.charge_id,
    network: decodeInvoice(row.invoice).network,
    capSats: Number(row.total_sats),
    refusal: refusalOf(row, now)
  }
}

function refusalOf(
  {
    paid_at: paidAt,
    claimed_at: claimedAt,
    canceled_at: canceledAt,
    lease_until: leaseUntil,
    asked_at: requestedAt
  }: Row,
  now: number
): string | null {
  if (paidAt === null) return 'This order is not paid.'
  if (claimedAt !== null)
    return canceledAt !== null
      ? null
      : 'The shop has this order. Call it off there; once the shop has said so, it can be refunded here.'
  if (leaseUntil !== null && leaseUntil.getTime() > now)
    return 'The shop is being asked for this order at this moment. Try again in a minute.'
  return requestedAt === null
    ? null
    : 'The shop may have taken this order without saying so; it is looked for. Try again in a minute.'
}

export interface RefundAddress {
  readonly type: RefundRequest['type']
  /** Lower-case hex; null for a Bitcoin address. */
  readonly paymentHash: string | null
  /** Millisatoshis of a Lightning invoice; null where open. */
  readonly amountMsat: bigint | null
}

interface RefundRequestsOptions extends ShopServices {
  /** @throws ShortError 400 for an address of another network, or an expired invoice */
  readAddress(text: string, order: Order, now: number): Promise<RefundAddress>
}

/**
 * Refund requests of buyers whose paid order was not made. They send nothing: the merchant sees the request and
 * refunds, or has the order made.
 */
export class RefundRequests {
  readonly #options: RefundRequestsOptions

  constructor(options: RefundRequestsOptions) {
    this.#options = options
  }

  /**
   * Stores the refund address; a later request replaces it.
   * @throws LongError 404 for an unknown store or token; 400 where the shop has the order, it was refunded, or an
   *   invoice exceeds the payment or is the order's own; ShortError 400 for an invalid address
   */
  async ask(slug: string, claimToken: string, given: string): Promise<Order> {
    const { orders, stores, clock, database } = this.#options
    const integration = await stores.bySlug(slug)
    if (integration === null) throw storeNotFound()
    const known = await orders.byClaimDigest(integration.id, claimDigest(claimToken))
    const now = clock.now()
    if (known === null || !isReadable(known, now)) throw orderNotFound()
    requireRefundable(known)
    // Wallets copy invoices as links.
    const address = given.replace(/^lightning:/i, '')
    const { type, paymentHash, amountMsat } = await this.#options.readAddress(address, known, now)
    if (paymentHash === known.paymentHash) {
      throw new LongError(
        VALIDATION,
        'Invalid refund address',
        "This is the invoice that the order was paid with, which is the shop's. Give one of your own wallet."
      )
    }
    if (amountMsat !== null && amountMsat > BigInt(known.totalSats) * 1000n) {
      throw new LongError(
        VALIDATION,
        'Invalid refund address',
        `The Lightning invoice asks for more than the ${known.totalSats} satoshis that were paid.`
      )
    }
    const refundRequest = { address, type, at: now }
    return await database.transaction(async tx => {
      const order = await orders.lock(tx, known.id)
      if (order === null) throw orderNotFound()
      requireRefundable(order)
      await orders.markRefundRequest(tx, order.id, refundRequest)
      return { ...order, refundRequest }
    })
  }
}

/** @throws LongError 400 for an order that cannot be refunded */
function requireRefundable(order: Order): void {
  if (order.refundedAt !== null)
    throw new LongError(INVALID_STATE, 'Order refunded', 'What was paid for this order has been given back.')
  if (order.claimedAt !== null && order.canceledAt === null)
    throw new LongError(INVALID_STATE, 'Order placed', 'The shop has this order. To give it back, ask the shop.')
}
