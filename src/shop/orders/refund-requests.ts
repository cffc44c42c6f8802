import { INVALID_STATE, VALIDATION } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Database } from '../../platform/database/database.ts'
import { claimDigest } from '../claims/token.ts'
import type { OrderStore } from './store.ts'
import { isReadable } from './paid-orders.ts'
import type { Integration, Order, RefundRequest } from '../schema.ts'
import { orderNotFound, storeNotFound } from '../store-errors.ts'

/** An address that was looked at. */
export interface RefundAddress {
  readonly type: RefundRequest['type']
  /** Lower-case hex; null for a Bitcoin address. */
  readonly paymentHash: string | null
  /** Millisatoshis of a Lightning invoice; null where open. */
  readonly amountMsat: bigint | null
}

/** What requests are taken in with. */
export interface RefundRequestsParts {
  readonly database: Database
  readonly clock: Clock
  readonly orders: Pick<OrderStore, 'byClaimDigest' | 'lock' | 'markRefundRequest'>
  /** @throws ShortError 400 for an address of another network, or an expired invoice */
  readAddress(text: string, order: Order, now: number): Promise<RefundAddress>
  /** Inactive ones too. */
  store(slug: string): Promise<Integration | null>
}

/**
 * Refund requests of buyers whose paid order was not made. They send nothing: the merchant sees the request and
 * refunds, or has the order made.
 */
export class RefundRequests {
  readonly #parts: RefundRequestsParts

  constructor(parts: RefundRequestsParts) {
    this.#parts = parts
  }

  /**
   * Stores the refund address; a later request replaces it.
   * @throws LongError 404 for an unknown store or token; 400 where the shop has the order, it was refunded, or an
   *   invoice exceeds the payment or is the order's own; ShortError 400 for an invalid address
   */
  async ask(slug: string, claimToken: string, given: string): Promise<Order> {
    const { orders, clock, database } = this.#parts
    const integration = await this.#parts.store(slug)
    if (integration === null) throw storeNotFound()
    const known = await orders.byClaimDigest(integration.id, claimDigest(claimToken))
    const now = clock.now()
    if (known === null || !isReadable(known, now)) throw orderNotFound()
    requireRefundable(known)
    // Wallets copy invoices as links.
    const address = given.replace(/^lightning:/i, '')
    const { type, paymentHash, amountMsat } = await this.#parts.readAddress(address, known, now)
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
