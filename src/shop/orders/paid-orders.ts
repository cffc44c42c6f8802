import type { Challenge } from '../../selling/holding/store.ts'
import type { Outbox } from '../../web/mail/outbox.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Database, TransactionSql } from '../../platform/database/database.ts'
import type { Random } from '../../platform/system/ids.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { UnsealError, type Secret, type Sealer } from '../../platform/keys/secrets.ts'
import { claimMail } from '../claims/mail.ts'
import { newClaimToken } from '../claims/token.ts'
import type { OrderStore, OrderRecord } from './store.ts'
import type { Integration, Order } from '../schema.ts'

/** What the payment of orders is written with. */
export interface PaidOrdersParts {
  readonly store: Pick<OrderStore, 'byPaymentHash' | 'lock' | 'markPaid' | 'markMailed'>
  readonly database: Database
  readonly clock: Clock
  readonly random: Random
  readonly sealer: Sealer
  readonly log: Log
  readonly outbox: Pick<Outbox, 'queue'>
  /** An order's store. */
  integration(storefrontId: number): Promise<Integration | null>
  /** Without a slash at the end. */
  publicUrl(): string
  /** Told once of each order that was paid, after that was committed; for figures: it must not throw. */
  readonly sold?: (order: Order) => void
}

/** After claiming, an order can be read for as long (contract, Limits), in milliseconds. */
export const READ_WINDOW = 90 * 86_400_000

/** Whether an order can still be read with its token: until its window ends, or once claimed for 90 days. */
export function isReadable(order: Order, now: number): boolean {
  return order.claimedAt === null ? now <= order.claimExpiresAt : now <= order.claimedAt + READ_WINDOW
}

/**
 * The one way from PendingPayment to PaidAwaitingDetails: by a credential or by the provider's news, whichever is
 * first, under a lock on the order's row. The claim token is made then, and the buyer's mail is queued in the same
 * transaction when it is the provider who says so (contract, Storefront order; Events 7).
 */
export class PaidOrders {
  readonly #parts: PaidOrdersParts

  constructor(parts: PaidOrdersParts) {
    this.#parts = parts
  }

  /** A credential has shown that the order is paid. Null when it was purged meanwhile. */
  async byCredential(order: OrderRecord, integration: Integration): Promise<OrderRecord | null> {
    return order.status === 'PendingPayment' ? await this.#paid(order.id, integration, false) : order
  }

  /**
   * The provider says that an order's invoice was paid; for `Challenges.onSettled`. What it says twice changes nothing.
   */
  readonly settled = async (challenge: Challenge): Promise<void> => {
    const { store, log } = this.#parts
    const order = await store.byPaymentHash(challenge.paymentHash)
    if (order === null) {
      log.warn({ paymentHash: challenge.paymentHash }, 'a payment came for an order that is no longer kept')
      return
    }
    // Read before the transaction, which has the only connection of the embedded database.
    const integration = await this.#parts.integration(order.storefrontId)
    if (integration === null) throw new TypeError(`order ${order.id} names a store that does not exist`)
    await this.#paid(order.id, integration, true)
  }

  /** Address of the claim page with the order's token; null before it is paid and once it is no longer readable. */
  claimPageUrl(integration: Integration, order: Order): string | null {
    const { clock, sealer, log } = this.#parts
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
    return `${this.#parts.publicUrl()}/storefront/${integration.slug}/claim?claimToken=${token.reveal()}`
  }

  async #paid(orderId: string, integration: Integration, isReported: boolean): Promise<OrderRecord | null> {
    let isNew = false
    const paid = await this.#parts.database.transaction(async tx => {
      const { store, clock } = this.#parts
      let order = await store.lock(tx, orderId)
      if (order === null) return null
      isNew = order.status === 'PendingPayment'
      if (isNew) {
        const { digest, ciphertext } = newClaimToken(orderId, this.#parts.sealer, this.#parts.random)
        await store.markPaid(tx, orderId, { paidAt: clock.now(), claimDigest: digest, claimToken: ciphertext })
        order = await store.lock(tx, orderId)
        if (order === null) throw new TypeError('a locked order has gone')
      }
      if (isReported) await this.#mail(tx, order, integration)
      return order
    })
    if (isNew && paid !== null) this.#parts.sold?.(paid)
    return paid
  }

  async #mail(tx: TransactionSql, order: OrderRecord, integration: Integration): Promise<void> {
    const { store, clock, outbox } = this.#parts
    if (order.mailedAt !== null || order.email === null) return
    const url = this.claimPageUrl(integration, order)
    const mail =
      url === null
        ? null
        : claimMail({
            order,
            shopName: integration.shopName ?? integration.slug,
            claimPageUrl: url,
            claimExpiresAt: order.claimExpiresAt
          })
    if (mail === null) return
    await outbox.queue(tx, mail, `claim page of order ${order.id}`)
    await store.markMailed(tx, order.id, clock.now())
  }
}
