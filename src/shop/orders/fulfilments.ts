import { REQUEST_MALFORMED, UNAUTHORIZED } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import type { ReadonlyHeaders } from '../../engine/message/headers.ts'
import type { OrderRecord, ShopServices } from './store.ts'
import { StorePlatformError, type Fulfilment } from '../platform.ts'
import { FIRST_CHECK } from './placement.ts'
import type { Integration, Order } from '../schema.ts'
import { storeNotFound } from '../store-errors.ts'

const DUE_AT_ONCE = 200
/** Longest pause between two polls of an old order. */
const LONGEST_PAUSE = 6 * 3_600_000
/** Milliseconds for which a poll reserves an order. */
const LOOKING = 120_000

/**
 * Progress of claimed orders: PaidWithDetails to Fulfilled to Shipped (decision 147), by notifications of the platform,
 * and by polling. Status never goes back.
 */
export class Fulfilments {
  readonly #options: ShopServices

  constructor(options: ShopServices) {
    this.#options = options
  }

  /**
   * Receives a notification of a store's platform after verifying its signature over the raw bytes (decision 163).
   * Ignores unknown orders and repeats.
   * @throws LongError 401 for an invalid signature, 400 for an unreadable one, 404 for an unknown store; Unavailable
   *   503 when it cannot be stored, so that the platform retries
   */
  async receive(slug: string, headers: ReadonlyHeaders, body: Uint8Array): Promise<void> {
    const integration = await this.#options.stores.bySlug(slug)
    if (integration === null) throw storeNotFound()
    const seen = this.#read(integration, headers, body)
    if (seen !== null) await this.#apply(integration.id, seen)
  }

  /** Polls platforms for orders that are due; periodic. Returns how many changed. */
  async poll(): Promise<number> {
    const { orders, clock } = this.#options
    const due = await orders.takeDue(clock.now(), LOOKING, DUE_AT_ONCE)
    let changed = 0
    for (const [storefrontId, ofStore] of Map.groupBy(due, order => order.storefrontId))
      changed += await this.#ask(storefrontId, ofStore)
    return changed
  }

  #read(integration: Integration, headers: ReadonlyHeaders, body: Uint8Array): Fulfilment | null {
    const named = new Map<string, string>()
    for (let at = 0; at + 1 < headers.pairs.length; at += 2)
      named.set((headers.pairs[at] ?? '').toLowerCase(), headers.pairs[at + 1] ?? '')
    try {
      const { platform, stores } = this.#options
      return platform.readNotification(stores.access(integration), named, body)
    } catch (error) {
      if (!(error instanceof StorePlatformError)) throw error
      this.#options.log.warn(
        { slug: integration.slug, fault: error.fault, err: error },
        'a notification of a store was refused'
      )
      if (error.fault === 'credentials')
        throw new LongError(
          UNAUTHORIZED,
          'Unauthorized',
          'The signature of the notification is not valid.',
          {},
          [],
          error
        )
      throw new LongError(REQUEST_MALFORMED, 'Bad Request', 'The notification cannot be read.', {}, [], error)
    }
  }

  async #ask(storefrontId: number, due: readonly OrderRecord[]): Promise<number> {
    const { platform, stores, orders, clock, log } = this.#options
    const integration = await stores.byId(storefrontId)
    if (integration === null) return 0
    const ids = due.flatMap(order => order.platformOrderId ?? [])
    let seen: readonly Fulfilment[]
    try {
      seen = await platform.fulfilments(stores.access(integration), ids)
    } catch (error) {
      if (!(error instanceof StorePlatformError)) throw error
      // Retried after the pause.
      log.warn(
        { err: error, slug: integration.slug, merchantId: integration.merchantId },
        'a store could not be asked how far its orders are'
      )
      return 0
    }
    let changed = 0
    for (const fulfilment of seen) if (await this.#apply(storefrontId, fulfilment)) changed++
    const known = new Set(seen.map(({ platformOrderId }) => platformOrderId))
    for (const order of due)
      if (!known.has(order.platformOrderId ?? '')) await orders.checkAt(order.id, nextCheck(order, clock.now()))
    return changed
  }

  #apply(storefrontId: number, seen: Fulfilment): Promise<boolean> {
    const { database, orders, clock } = this.#options
    return database.transaction(async tx => {
      const order = await orders.lockPlatformOrder(tx, storefrontId, seen.platformOrderId)
      if (order === null) return false
      const now = clock.now()
      const next = progressed(order, seen, now)
      // Tracking of a shipped order may still come or change for a while.
      const isOver = seen.isCanceled || (next.status === 'Shipped' && next.tracking.number !== null)
      await orders.markProgress(tx, next, isOver ? null : nextCheck(order, now))
      return next.status !== order.status || next.tracking.number !== order.tracking.number
    })
  }
}

function nextCheck(order: Order, now: number): number {
  const age = now - (order.claimedAt ?? order.createdAt)
  return now + Math.min(Math.max(age / 4, FIRST_CHECK), LONGEST_PAUSE)
}

/** Applies the platform's progress; returns the same order if nothing is new. Never goes back. */
function progressed(order: Order, seen: Fulfilment, now: number): Order {
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
