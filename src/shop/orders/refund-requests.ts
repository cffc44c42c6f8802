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
  /** 64 lower-case hex characters; null for a Bitcoin address. */
  readonly paymentHash: string | null
  /** What a Lightning invoice asks for, in millisatoshis; null where it or a Bitcoin address leaves that open. */
  readonly amountMsat: bigint | null
}

/** What requests are taken in with. */
export interface RefundRequestsParts {
  readonly database: Database
  readonly clock: Clock
  readonly orders: Pick<OrderStore, 'byClaimDigest' | 'lock' | 'markRefundRequest'>
  /**
   * @throws ShortError 400 for what is no address of the network on which the order was paid, or an invoice that has
   * expired
   */
  readAddress(text: string, order: Order, now: number): Promise<RefundAddress>
  /** Active or not. */
  store(slug: string): Promise<Integration | null>
}

/**
 * Buyers of paid orders that their shop has not made, and who want their money back: where it should go. Nothing is
 * sent by it: the merchant sees the request among its orders and gives the money back, or has the order made after all.
 */
export class RefundRequests {
  readonly #parts: RefundRequestsParts

  constructor(parts: RefundRequestsParts) {
    this.#parts = parts
  }

  /**
   * Notes where the money should go; a later request takes the place of an earlier one.
   * @throws LongError 404 for an unknown store or token; 400 where the shop has the order, the money has gone back
   *   already, or an invoice asks for more than was paid or is the order's own; ShortError 400 for an address that is
   *   none
   */
  async ask(slug: string, claimToken: string, given: string): Promise<Order> {
    const { orders, clock, database } = this.#parts
    const integration = await this.#parts.store(slug)
    if (integration === null) throw storeNotFound()
    const known = await orders.byClaimDigest(integration.id, claimDigest(claimToken))
    const now = clock.now()
    if (known === null || !isReadable(known, now)) throw orderNotFound()
    requireRefundable(known)
    // Wallets copy invoices as links, which nobody can pay as they are.
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

/** @throws LongError 400 for an order that there is nothing to give back of */
function requireRefundable(order: Order): void {
  if (order.refundedAt !== null)
    throw new LongError(INVALID_STATE, 'Order refunded', 'What was paid for this order has been given back.')
  if (order.claimedAt !== null && order.canceledAt === null)
    throw new LongError(INVALID_STATE, 'Order placed', 'The shop has this order. To give it back, ask the shop.')
}
