import { INVALID_STATE } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Database, TransactionSql } from '../../platform/database/database.ts'
import { randomToken, type Random } from '../../platform/system/ids.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { SealedPlace, Sealer } from '../../platform/keys/secrets.ts'
import type { ClaimStore, HeldClaim } from '../claims/store.ts'
import type { OrderStore, OrderRecord } from './store.ts'
import {
  StorePlatformError,
  type NewPlatformOrder,
  type StoreAccess,
  type PlatformOrder,
  type StorePlatform
} from '../platform.ts'
import type { FailureReason, Integration, Order, OrderFailure, ShippingAddress } from '../schema.ts'
import { orderNotFound, retryAfterOf, STORE_FAILED, CREDENTIAL_NOT_VERIFIED } from '../store-errors.ts'

/** Where an order goes and who gets it, as the buyer said; kept sealed. */
export interface ClaimDetails {
  readonly email: string
  readonly shippingAddress: ShippingAddress
  /** Two capital letters. */
  readonly countryCode: string
}

/** What orders are made with. */
export interface OrderMakingParts {
  readonly orders: Pick<OrderStore, 'lock' | 'get' | 'markClaimed' | 'markFailed'>
  /** Whether anything of an order's payment is being given back, or has been; its row is locked. */
  isGivenBack(sql: TransactionSql, orderId: string): Promise<boolean>
  /**
   * A shop did not make a paid order, and this is new: inside the transaction that writes it. Use only the handle
   * passed in.
   */
  onFailed(sql: TransactionSql, order: Order): Promise<void>
  readonly claims: ClaimStore
  readonly database: Database
  readonly platform: Pick<StorePlatform, 'createOrder' | 'findOrder'>
  readonly sealer: Sealer
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  /** Milliseconds that one call to the platform may take. */
  timeout(): number
  access(integration: Integration): StoreAccess
  /** An order's store. */
  integration(storefrontId: number): Promise<Integration | null>
}

/**
 * Milliseconds within which a platform's search surely finds what was made: only after it a search that finds nothing
 * means that there is nothing.
 */
const SEARCH_LAG = 30_000
/** Milliseconds after a new order for which the platform is first asked how far it is. */
export const FIRST_CHECK = 20_000
/**
 * Milliseconds for which an order that may have been made unheard is looked for without anybody asking, and between two
 * looks at least.
 */
const LOOKED_FOR = 7 * 86_400_000
const LOOK_PAUSE = 30_000
const LOOKS = 50

/**
 * Makes the platform's order of a paid order, at most once, and loses none (contract, Storefront order; decision 146).
 * Platforms know no idempotency key, so: one owner at a time has the claim; that the platform is about to be asked is
 * written before it is asked; and whatever was asked without a certain answer is looked for before anybody asks again,
 * not before its search would know. A process that dies leaves a claim that lapses, and what it had made is found.
 */
export class OrderMaking {
  readonly #parts: OrderMakingParts
  readonly #running = new Map<string, Promise<OrderRecord>>()

  constructor(parts: OrderMakingParts) {
    this.#parts = parts
  }

  /**
   * Makes the order, with new details or, for null, with those that were kept.
   * @throws LongError 400 when it was claimed before, is being claimed, is unpaid, or nothing was kept; 404 when it has
   *   been purged; 502 when the platform did not make it
   */
  async make(integration: Integration, orderId: string, details: ClaimDetails | null): Promise<OrderRecord> {
    const running = this.#running.get(orderId)
    if (running !== undefined) {
      // Its failure is ours too: asked again at once, the platform would say the same.
      await running
      throw alreadyClaimed()
    }
    // From here to the entry nothing waits, so of all callers in this process one makes the order.
    const made = this.#make(integration, orderId, details)
    this.#running.set(orderId, made)
    try {
      return await made
    } finally {
      this.#running.delete(orderId)
    }
  }

  /** Looks for orders that may have been made unheard, for a periodic job. Returns how many were found. */
  async followUp(): Promise<number> {
    const { claims, orders, clock, log, platform } = this.#parts
    const now = clock.now()
    let found = 0
    for (const orderId of await claims.takeUnsure(now - LOOKED_FOR, now, LOOK_PAUSE, LOOKS)) {
      const order = await orders.get(orderId)
      const integration = order === null ? null : await this.#parts.integration(order.storefrontId)
      if (integration === null) continue
      try {
        const made = await platform.findOrder(this.#parts.access(integration), orderId)
        if (made === null) continue
        await this.#write(orderId, made)
        found++
      } catch (error) {
        if (!(error instanceof StorePlatformError)) throw error
        log.warn({ err: error, orderId, slug: integration.slug }, 'an order could not be looked for; it is tried again')
      }
    }
    return found
  }

  async #make(integration: Integration, orderId: string, details: ClaimDetails | null): Promise<OrderRecord> {
    const { claims, log, clock } = this.#parts
    const { order, claim } = await this.#take(orderId, details)
    // What is not told by one of the branches below may have reached the platform.
    let askedAt = claim.askedAt
    try {
      const known = this.#open(orderId, claim.details)
      const access = this.#parts.access(integration)
      const before = claim.askedAt === null ? null : await this.#parts.platform.findOrder(access, orderId)
      if (before !== null) return await this.#write(orderId, before)
      if (claim.askedAt !== null && clock.now() - claim.askedAt < SEARCH_LAG)
        throw new StorePlatformError('away', 'The store may have taken the order before; it is looked for.', {
          retryAfter: SEARCH_LAG / 1000
        })
      let wanted = newOrder(order, known)
      for (;;) {
        // Whoever stood still for so long has lost the claim, and another may be asking.
        if (!(await claims.asking(orderId, claim.owner, clock.now()))) throw beingClaimed()
        try {
          return await this.#write(
            orderId,
            await this.#ask(access, wanted, time => {
              askedAt = time
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
        askedAt,
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
   * Makes sure whether the platform has an order that it may have made unheard: writes it where it has, and notes where
   * it certainly has not. Leaves it open while the platform does not say, or its search may not know yet.
   */
  async resolve(orderId: string): Promise<void> {
    const { claims, orders, clock, platform, log } = this.#parts
    const now = clock.now()
    const askedAt = await claims.doubt(orderId, now)
    const order = askedAt === null ? null : await orders.get(orderId)
    const integration = order === null ? null : await this.#parts.integration(order.storefrontId)
    if (askedAt === null || integration === null) return
    try {
      const made = await platform.findOrder(this.#parts.access(integration), orderId)
      if (made !== null) await this.#write(orderId, made)
      else if (now - askedAt >= SEARCH_LAG) await claims.cleared(orderId, askedAt, clock.now())
    } catch (error) {
      if (!(error instanceof StorePlatformError)) throw error
      log.warn(
        { err: error, orderId, slug: integration.slug },
        'an order could not be looked for before it is refunded'
      )
    }
  }

  /** Notes a failure, and tells of one that is new: each reason once until the order is made. */
  #failed(orderId: string, failure: OrderFailure): Promise<void> {
    const { database, orders } = this.#parts
    return database.transaction(async tx => {
      const before = await orders.lock(tx, orderId)
      if (before === null || before.claimedAt !== null) return
      await orders.markFailed(tx, orderId, failure)
      if (before.failure?.reason !== failure.reason) await this.#parts.onFailed(tx, { ...before, failure })
    })
  }

  #take(
    orderId: string,
    details: ClaimDetails | null
  ): Promise<{ readonly order: OrderRecord; readonly claim: HeldClaim }> {
    const { database, orders, claims, clock, random, sealer } = this.#parts
    return database.transaction(async tx => {
      const order = await orders.lock(tx, orderId)
      if (order === null) throw orderNotFound()
      if (order.claimedAt !== null) throw alreadyClaimed()
      if (order.status !== 'PaidAwaitingDetails') throw missingProof()
      if (await this.#parts.isGivenBack(tx, orderId)) throw givenBack()
      const now = clock.now()
      const sealed = details === null ? null : sealer.seal(JSON.stringify(details), placeOf(orderId))
      const claim = await claims.take(tx, orderId, randomToken(16, random), now + this.#lease(), now, sealed)
      if (claim === null) throw beingClaimed()
      return { order, claim }
    })
  }

  /**
   * Longer than all that a platform's call may take: its token, itself, once more after a throttle, and the look-up
   * before it.
   */
  #lease(): number {
    return 60_000 + 6 * this.#parts.timeout()
  }

  async #ask(
    access: StoreAccess,
    order: NewPlatformOrder,
    unsureSince: (time: number | null) => void
  ): Promise<PlatformOrder> {
    const { platform, clock } = this.#parts
    unsureSince(clock.now())
    try {
      return await platform.createOrder(access, order)
    } catch (error) {
      const isUnsure = !(error instanceof StorePlatformError) || error.fault === 'away'
      unsureSince(isUnsure ? clock.now() : null)
      if (!isUnsure) throw error
      // Often only the answer was lost, and what was made can be found at once.
      const found = await platform.findOrder(access, order.sourceIdentifier).catch((lookUp: unknown) => {
        if (lookUp instanceof StorePlatformError) return null
        throw lookUp
      })
      if (found === null) throw error
      return found
    }
  }

  /**
   * What holds an order's goods since a moment ago, where they were gone because of that: what took the last piece is
   * the order's own.
   */
  async #heldMeanwhile(order: NewPlatformOrder, error: unknown): Promise<string | null> {
    if (order.holdId !== null || !(error instanceof StorePlatformError) || !error.isSoldOut) return null
    return (await this.#parts.orders.get(order.sourceIdentifier))?.holdId ?? null
  }

  #write(orderId: string, made: PlatformOrder): Promise<OrderRecord> {
    const { database, orders, claims, clock, log } = this.#parts
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
    // Written by `#take` and authenticated by its seal.
    return JSON.parse(this.#parts.sealer.open(sealed, placeOf(orderId)).reveal()) as ClaimDetails
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

/** What a claim is refused with while another is under way, and once one has been made. */
export const ALREADY_CLAIMED = 'Order already claimed'

/** 400: the token has been used up for claiming (contract, Errors: Storefront claim). */
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

/** Null for what may pass by itself. */
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

/** What buyers are told of each reason. They see no account facts. */
const WORDS: Readonly<Record<FailureReason, string>> = Object.freeze({
  sold_out: 'The store has not enough of it left.',
  refused: 'The store refused the order.',
  store_access: 'The store cannot take orders from here at the moment.',
  store_closed: 'The store is closed at the moment.'
})

/** What a buyer of a paid order that was not made is told of the reason. */
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

/** 400: the money goes back, so nothing is sent. */
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
