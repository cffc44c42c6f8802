import { INVALID_STATE } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import type { TransactionSql } from '../../platform/database/database.ts'
import { randomToken } from '../../platform/system/ids.ts'
import type { SealedPlace } from '../../platform/keys/secrets.ts'
import type { ClaimStore, HeldClaim } from './claims.ts'
import type { OrderRecord, ShopServices } from './store.ts'
import {
  CALL_TIMEOUT,
  StorePlatformError,
  type NewPlatformOrder,
  type StoreAccess,
  type PlatformOrder
} from '../platform.ts'
import type { FailureReason, Integration, Order, OrderFailure, ShippingAddress } from '../schema.ts'
import { orderNotFound, retryAfterOf, STORE_FAILED, CREDENTIAL_NOT_VERIFIED } from '../store-errors.ts'

export interface ClaimDetails {
  readonly email: string
  readonly shippingAddress: ShippingAddress
  /** Two capital letters. */
  readonly countryCode: string
}

interface OrderPlacementOptions extends ShopServices {
  /** Whether the order is being refunded, or was; its row is locked. */
  isGivenBack(sql: TransactionSql, orderId: string): Promise<boolean>
  /** Called in the writing transaction when a shop fails a paid order for a new reason. Use only the given handle. */
  onFailed(sql: TransactionSql, order: Order): Promise<void>
  readonly claims: ClaimStore
}

/**
 * Milliseconds until a platform's search certainly finds a new order: only then does an empty result prove that there
 * is none.
 */
const SEARCH_LAG = 30_000
/** Milliseconds; longer than a call may take: token, call, retry after a throttle, and the search before it. */
const LEASE = 60_000 + 6 * CALL_TIMEOUT
/** Milliseconds after an order's creation until it is first polled. */
export const FIRST_CHECK = 20_000
/** Milliseconds for which an order of uncertain outcome is looked for, and the shortest pause between two searches. */
const LOOKUP_WINDOW = 7 * 86_400_000
const LOOK_PAUSE = 30_000
const MAX_LOOKUPS = 50

/**
 * Makes the platform's order of a paid order, at most once, without losing any (contract, Storefront order; decision
 * 146). Platforms have no idempotency keys. So one owner at a time holds the claim; it is recorded before the platform
 * is asked; and a request of uncertain outcome is searched for before the next one, once the search is reliable. The
 * claim of a dead process expires, and what it made is found.
 */
export class OrderPlacement {
  readonly #options: OrderPlacementOptions
  readonly #running = new Map<string, Promise<OrderRecord>>()

  constructor(options: OrderPlacementOptions) {
    this.#options = options
  }

  /**
   * Makes the order, with new details or, for null, with the stored ones.
   * @throws LongError 400 when it was claimed, is being claimed, is unpaid, or has no details; 404 when purged; 502
   *   when the platform did not make it
   */
  async make(integration: Integration, orderId: string, details: ClaimDetails | null): Promise<OrderRecord> {
    const running = this.#running.get(orderId)
    if (running !== undefined) {
      // Callers share the failure: a retry would fail the same way.
      await running
      throw alreadyClaimed()
    }
    // No await from here to the entry, so one caller of this process makes the order.
    const created = this.#make(integration, orderId, details)
    this.#running.set(orderId, created)
    try {
      return await created
    } finally {
      this.#running.delete(orderId)
    }
  }

  /** Searches for orders of uncertain outcome; periodic. Returns how many were found. */
  async followUp(): Promise<number> {
    const { claims, orders, clock, log, platform } = this.#options
    const now = clock.now()
    let found = 0
    for (const orderId of await claims.takeUnsure(now - LOOKUP_WINDOW, now, LOOK_PAUSE, MAX_LOOKUPS)) {
      const order = await orders.get(orderId)
      const integration = order === null ? null : await this.#options.stores.byId(order.storefrontId)
      if (integration === null) continue
      try {
        const created = await platform.findOrder(this.#options.stores.access(integration), orderId)
        if (created === null) continue
        await this.#write(orderId, created)
        found++
      } catch (error) {
        if (!(error instanceof StorePlatformError)) throw error
        log.warn({ err: error, orderId, slug: integration.slug }, 'an order could not be looked for; it is tried again')
      }
    }
    return found
  }

  async #make(integration: Integration, orderId: string, details: ClaimDetails | null): Promise<OrderRecord> {
    const { claims, log, clock } = this.#options
    const { order, claim } = await this.#take(orderId, details)
    // Uncertain, unless a branch below knows better.
    let requestedAt = claim.requestedAt
    try {
      const known = this.#open(orderId, claim.details)
      const access = this.#options.stores.access(integration)
      const before = claim.requestedAt === null ? null : await this.#options.platform.findOrder(access, orderId)
      if (before !== null) return await this.#write(orderId, before)
      if (claim.requestedAt !== null && clock.now() - claim.requestedAt < SEARCH_LAG)
        throw new StorePlatformError('away', 'The store may have taken the order before; it is looked for.', {
          retryAfter: SEARCH_LAG / 1000
        })
      let wanted = newOrder(order, known)
      for (;;) {
        // A stalled process lost its claim, and another may be asking.
        if (!(await claims.asking(orderId, claim.owner, clock.now()))) throw beingClaimed()
        try {
          return await this.#write(
            orderId,
            await this.#ask(access, wanted, time => {
              requestedAt = time
            })
          )
        } catch (error) {
          const holdId = await this.#heldMeanwhile(wanted, error)
          if (holdId === null) throw error
          wanted = { ...wanted, holdId }
        }
      }
    } catch (error) {
      if (error instanceof LongError) throw error
      await claims.release(
        orderId,
        claim.owner,
        requestedAt,
        error instanceof StorePlatformError ? `${error.fault}: ${error.message}` : 'unforeseen'
      )
      if (!(error instanceof StorePlatformError)) throw error
      log.warn(
        { err: error, orderId, slug: integration.slug, merchantId: integration.merchantId, fault: error.fault },
        'the order of a store could not be made; the payment stays recorded'
      )
      const reason = reasonOf(error)
      if (reason !== null) await this.#failed(orderId, { reason, message: error.message, at: clock.now() })
      throw notMade(error, reason)
    }
  }

  /**
   * Finds out whether the platform has an order of uncertain outcome, and records it. Leaves it open while the platform
   * does not answer, or its search is not reliable yet.
   */
  async resolve(orderId: string): Promise<void> {
    const { claims, orders, clock, platform, log } = this.#options
    const now = clock.now()
    const requestedAt = await claims.doubt(orderId, now)
    const order = requestedAt === null ? null : await orders.get(orderId)
    const integration = order === null ? null : await this.#options.stores.byId(order.storefrontId)
    if (requestedAt === null || integration === null) return
    try {
      const created = await platform.findOrder(this.#options.stores.access(integration), orderId)
      if (created !== null) await this.#write(orderId, created)
      else if (now - requestedAt >= SEARCH_LAG) await claims.cleared(orderId, requestedAt, clock.now())
    } catch (error) {
      if (!(error instanceof StorePlatformError)) throw error
      log.warn(
        { err: error, orderId, slug: integration.slug },
        'an order could not be looked for before it is refunded'
      )
    }
  }

  /** Records a failure, and reports a new one: each reason once until the order is made. */
  #failed(orderId: string, failure: OrderFailure): Promise<void> {
    const { database, orders } = this.#options
    return database.transaction(async tx => {
      const before = await orders.lock(tx, orderId)
      if (before === null || before.claimedAt !== null) return
      await orders.markFailed(tx, orderId, failure)
      if (before.failure?.reason !== failure.reason) await this.#options.onFailed(tx, { ...before, failure })
    })
  }

  #take(
    orderId: string,
    details: ClaimDetails | null
  ): Promise<{ readonly order: OrderRecord; readonly claim: HeldClaim }> {
    const { database, orders, claims, clock, random, sealer } = this.#options
    return database.transaction(async tx => {
      const order = await orders.lock(tx, orderId)
      if (order === null) throw orderNotFound()
      if (order.claimedAt !== null) throw alreadyClaimed()
      if (order.status !== 'PaidAwaitingDetails') throw missingProof()
      if (await this.#options.isGivenBack(tx, orderId)) throw givenBack()
      const now = clock.now()
      const sealed = details === null ? null : sealer.seal(JSON.stringify(details), placeOf(orderId))
      const claim = await claims.take(tx, orderId, randomToken(16, random), now + LEASE, now, sealed)
      if (claim === null) throw beingClaimed()
      return { order, claim }
    })
  }

  async #ask(
    access: StoreAccess,
    order: NewPlatformOrder,
    unsureSince: (time: number | null) => void
  ): Promise<PlatformOrder> {
    const { platform, clock } = this.#options
    unsureSince(clock.now())
    try {
      return await platform.createOrder(access, order)
    } catch (error) {
      const isUnsure = !(error instanceof StorePlatformError) || error.fault === 'away'
      unsureSince(isUnsure ? clock.now() : null)
      if (!isUnsure) throw error
      // Often only the response was lost, and the order can be found immediately.
      const found = await platform.findOrder(access, order.sourceIdentifier).catch((lookUp: unknown) => {
        if (lookUp instanceof StorePlatformError) return null
        throw lookUp
      })
      if (found === null) throw error
      return found
    }
  }

  /** A hold made a moment ago, where the goods were sold out because of it: the last piece is the order's own. */
  async #heldMeanwhile(order: NewPlatformOrder, error: unknown): Promise<string | null> {
    if (order.holdId !== null || !(error instanceof StorePlatformError) || !error.isSoldOut) return null
    return (await this.#options.orders.get(order.sourceIdentifier))?.holdId ?? null
  }

  #write(orderId: string, made: PlatformOrder): Promise<OrderRecord> {
    const { database, orders, claims, clock, log } = this.#options
    return database.transaction(async tx => {
      const order = await orders.lock(tx, orderId)
      if (order === null) throw orderNotFound()
      if (order.claimedAt !== null) {
        if (order.platformOrderId !== made.platformOrderId)
          log.error(
            { orderId, platformOrderIds: [order.platformOrderId, made.platformOrderId] },
            'a store has two orders for one payment'
          )
        return order
      }
      const now = clock.now()
      await orders.markClaimed(tx, orderId, {
        claimedAt: now,
        platformOrderId: made.platformOrderId,
        orderNumber: made.orderNumber,
        nextCheckAt: now + FIRST_CHECK
      })
      await claims.done(tx, orderId)
      const claimed = await orders.lock(tx, orderId)
      if (claimed === null) throw new TypeError('a locked order has gone')
      return claimed
    })
  }

  #open(orderId: string, sealed: string): ClaimDetails {
    // Written by `#take`, authenticated by its seal.
    return JSON.parse(this.#options.sealer.open(sealed, placeOf(orderId)).reveal()) as ClaimDetails
  }
}

function placeOf(orderId: string): SealedPlace {
  return { table: 'storefront_claims', column: 'details', row: orderId }
}

function newOrder(order: OrderRecord, { email, shippingAddress, countryCode }: ClaimDetails): NewPlatformOrder {
  return {
    sourceIdentifier: order.id,
    email,
    items: order.items,
    shippingAddress,
    countryCode,
    location: order.location,
    shippingCents: order.shippingCents,
    taxCents: order.taxCents,
    tax: order.tax,
    totalCents: order.totalCents,
    paidSats: order.totalSats,
    paymentHash: order.paymentHash,
    holdId: order.holdId
  }
}

export const ALREADY_CLAIMED = 'Order already claimed'

/** 400: the token is used up for claiming (contract, Errors: Storefront claim). */
export function alreadyClaimed(): LongError {
  return new LongError(INVALID_STATE, ALREADY_CLAIMED, 'This order has been claimed; its token only reads it now.')
}

/** 400: neither a credential nor a paid order's token (contract, Errors; decision 133). */
export function missingProof(): LongError {
  return new LongError(
    CREDENTIAL_NOT_VERIFIED,
    'Missing payment proof',
    'Send the claim token of a paid order, or the L402 or Payment credential of its invoice.'
  )
}

function reasonOf({ fault, isSoldOut }: StorePlatformError): FailureReason | null {
  switch (fault) {
    case 'refused':
      return isSoldOut ? 'sold_out' : 'refused'
    case 'credentials':
      return 'store_access'
    case 'shop':
      return 'store_closed'
    case 'away':
    case 'throttled':
      return null
  }
}

/** Words for buyers, who see no account facts. */
const WORDS: Readonly<Record<FailureReason, string>> = Object.freeze({
  sold_out: 'The store has not enough of it left.',
  refused: 'The store refused the order.',
  store_access: 'The store cannot take orders from here at the moment.',
  store_closed: 'The store is closed at the moment.'
})

export function failureWords(reason: FailureReason): string {
  return WORDS[reason]
}

function notMade(error: StorePlatformError, reason: FailureReason | null): LongError {
  const headers = ['Retry-After', String(Math.max(1, Math.ceil(retryAfterOf(error))))]
  if (reason === null) {
    return new LongError(
      STORE_FAILED,
      'Store order failed',
      'The store did not take the order. The payment stays recorded and nothing was used up: send the claim again later.',
      {},
      headers,
      error
    )
  }
  return new LongError(
    STORE_FAILED,
    'Store order failed',
    `${failureWords(reason)} The payment stays recorded and nothing was used up: send the claim again later, or ask for the money back with POST …/refund-request or at claimPageUrl.`,
    { reason, choices: ['wait', 'refund'] },
    headers,
    error
  )
}

/** 400: nothing is sent once the money goes back. */
function givenBack(): LongError {
  return new LongError(
    INVALID_STATE,
    'Order refunded',
    'What was paid for this order has been given back, or is being given back, so it is not made.'
  )
}

function beingClaimed(): LongError {
  return new LongError(
    INVALID_STATE,
    ALREADY_CLAIMED,
    'Another request is claiming this order; its status says how that ends.'
  )
}
