import type { OrderRecord, ShopServices } from './store.ts'
import { StorePlatformError, type StoreAccess } from '../platform.ts'

const AT_ONCE = 50
/** Milliseconds until a failed release is retried. */
const AGAIN = 600_000

/**
 * Has shops reserve the goods of paid orders until they are claimed, where the platform supports it. Not before
 * payment, or anonymous buyers could empty a shop. A shop is asked once for an order, since a hold whose response was
 * lost would remain next to a second one. Holds expire with the claim window. An order without a hold is made normally,
 * if the stock lasts.
 */
export class OrderHolds {
  readonly #options: ShopServices

  constructor(options: ShopServices) {
    this.#options = options
  }

  /** Reserves newly paid goods, and releases those ordered or refunded; periodic. */
  async run(): Promise<void> {
    const { orders, clock } = this.#options
    for (const order of await orders.takeToHold(clock.now(), AT_ONCE)) await this.#hold(order)
    for (const { order, holdId } of await orders.takeToRelease(clock.now(), AGAIN, AT_ONCE))
      await this.#release(order, holdId)
  }

  async #hold(order: OrderRecord): Promise<void> {
    const { orders, platform, log } = this.#options
    try {
      const access = await this.#access(order)
      if (access === null) return
      const holdId = await platform.hold(access, {
        sourceIdentifier: order.id,
        items: order.items,
        until: order.claimExpiresAt
      })
      if (holdId !== null) await orders.held(order.id, holdId)
    } catch (error) {
      if (!(error instanceof StorePlatformError)) throw error
      log.warn(
        { err: error, orderId: order.id, merchantId: order.merchantId, fault: error.fault },
        'the goods of a paid order could not be held'
      )
      if (error.fault === 'throttled') await orders.unasked(order.id)
    }
  }

  async #release(order: OrderRecord, holdId: string): Promise<void> {
    const { orders, platform, log } = this.#options
    try {
      const access = await this.#access(order)
      if (access === null) return
      await platform.release(access, holdId)
      await orders.held(order.id, null)
    } catch (error) {
      if (!(error instanceof StorePlatformError)) throw error
      log.warn(
        { err: error, orderId: order.id, merchantId: order.merchantId, fault: error.fault },
        'goods that were held could not be released; it is tried again'
      )
    }
  }

  async #access(order: OrderRecord): Promise<StoreAccess | null> {
    const { stores } = this.#options
    const integration = await stores.byId(order.storefrontId)
    return integration === null ? null : stores.access(integration)
  }
}
