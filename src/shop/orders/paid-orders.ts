import type { Challenge } from '../../selling/holding/challenge.ts'
import { PAYMENT_CHANNEL } from '../../payments/payments/watch.ts'
import type { Outbox } from '../../web/mail/outbox.ts'
import type { TransactionSql } from '../../platform/database/database.ts'
import { UnsealError, type Secret } from '../../platform/keys/secrets.ts'
import { claimMail } from './claim-mail.ts'
import { newClaimToken } from './claims.ts'
import type { OrderRecord, ShopServices } from './store.ts'
import type { Integration, Order } from '../schema.ts'

interface PaidOrdersOptions extends ShopServices {
  readonly outbox: Pick<Outbox, 'queue'>
  publicUrl(): string
  /** Called once for each paid order, after the commit; for metrics. Must not throw. */
  readonly sold?: (order: Order) => void
}

/** Milliseconds for which a claimed order is readable (contract, Limits). */
export const READ_WINDOW = 90 * 86_400_000

/** Readable with its token: until its window ends, or for 90 days once claimed. */
export function isReadable(order: Order, now: number): boolean {
  return order.claimedAt === null ? now <= order.claimExpiresAt : now <= order.claimedAt + READ_WINDOW
}

/**
 * The only transition from PendingPayment to PaidAwaitingDetails, under a lock on the order's row: by a credential or
 * the provider's report, whichever is first. Makes the claim token, and queues the buyer's mail in the same transaction
 * for the provider's report (contract, Storefront order; Events 7).
 */
export class PaidOrders {
  readonly #options: PaidOrdersOptions

  constructor(options: PaidOrdersOptions) {
    this.#options = options
  }

  /** A credential proved the payment. Null when the order was purged meanwhile. */
  async byCredential(order: OrderRecord, integration: Integration): Promise<OrderRecord | null> {
    return order.status === 'PendingPayment' ? await this.#paid(order.id, integration, false) : order
  }

  /** For `Challenges.onSettled`: the provider reports the invoice as paid. Idempotent. */
  readonly settled = async (challenge: Challenge): Promise<void> => {
    const { orders, log } = this.#options
    const order = await orders.byPaymentHash(challenge.paymentHash)
    if (order === null) {
      log.warn({ paymentHash: challenge.paymentHash }, 'a payment came for an order that is no longer kept')
      return
    }
    // Read before the transaction, which holds the embedded database's only connection.
    const integration = await this.#options.stores.byId(order.storefrontId)
    if (integration === null) throw new TypeError(`order ${order.id} names a store that does not exist`)
    await this.#paid(order.id, integration, true)
  }

  claimPageUrl(integration: Integration, order: Order): string | null {
    const { clock, sealer, log } = this.#options
    if (order.claimToken === null || !isReadable(order, clock.now())) return null
    try {
      return this.#page(integration, sealer.open(order.claimToken.ciphertext, order.claimToken.place))
    } catch (error) {
      if (!(error instanceof UnsealError)) throw error
      // The order can still be claimed with the credential.
      log.error({ err: error, orderId: order.id }, 'the claim token of an order cannot be opened')
      return null
    }
  }

  #page(integration: Integration, token: Secret<string>): string {
    return `${this.#options.publicUrl()}/storefront/${integration.slug}/claim?claimToken=${token.reveal()}`
  }

  async #paid(orderId: string, integration: Integration, isReported: boolean): Promise<OrderRecord | null> {
    let isNew = false
    const { database, orders, clock } = this.#options
    const paid = await database.transaction(async tx => {
      let order = await orders.lock(tx, orderId)
      if (order === null) return null
      isNew = order.status === 'PendingPayment'
      if (isNew) {
        const { digest, ciphertext } = newClaimToken(orderId, this.#options.sealer, this.#options.random)
        await orders.markPaid(tx, orderId, { paidAt: clock.now(), claimDigest: digest, claimToken: ciphertext })
        await database.notify(PAYMENT_CHANNEL, orderId, tx)
        order = await orders.lock(tx, orderId)
        if (order === null) throw new TypeError('a locked order has gone')
      }
      if (isReported) await this.#mail(tx, order, integration)
      return order
    })
    if (isNew && paid !== null) this.#options.sold?.(paid)
    return paid
  }

  async #mail(tx: TransactionSql, order: OrderRecord, integration: Integration): Promise<void> {
    const { orders, clock, outbox } = this.#options
    if (order.mailedAt !== null || order.email === null) return
    const url = this.claimPageUrl(integration, order)
    const mail = url === null ? null : claimMail(order, integration.shopName ?? integration.slug, url)
    if (mail === null) return
    await outbox.queue(tx, mail, `claim page of order ${order.id}`)
    await orders.markMailed(tx, order.id, clock.now())
  }
}
