import { hash } from 'node:crypto'
import type { Minting } from '../selling/minting/minting.ts'
import { UNROUTED, type Offer } from '../selling/offers/offer.ts'
import type { Challenge, SentChallenge } from '../selling/holding/challenge.ts'
import type { ChallengeStore } from '../selling/holding/store.ts'
import { clientNetwork } from '../engine/message/addresses.ts'
import type { Context } from '../engine/message/context.ts'
import { ConfigurationMissing, LongError, Unavailable } from '../engine/operations/errors.ts'
import { serviceCaveat } from '../lightning/l402/caveats.ts'
import { oneLine } from '../web/mail/outbox.ts'
import { atPrice, type Quotes } from '../lightning/money/prices.ts'
import { ProviderKeyRequired } from '../lightning/provider-calls/errors.ts'
import {
  atPricesOf,
  checkTotalQuantity,
  joined,
  notShippedTo,
  priced,
  shippingFor,
  shipsTo,
  soldOut,
  subtotalOf,
  readLocation,
  type CartLine,
  type StoreCheckoutInput
} from './cart.ts'
import type { Catalogs } from './catalogs.ts'
import { placeOf, tokenPathOf, type ShopCredential, type ShopCredentials } from './credentials.ts'
import { newOrderId, type OrderRecord, type ShopServices } from './orders/store.ts'
import { isReadable, type PaidOrders } from './orders/paid-orders.ts'
import { StorePlatformError, type StoreAccess } from './platform.ts'
import type { BuyerLocation, Integration, Order, OrderItem, OrderTax } from './schema.ts'
import {
  credentialRefused,
  notSelling,
  orderNotFound,
  storeNotFound,
  temporary,
  CREDENTIAL_NOT_VERIFIED,
  STORE_UNAVAILABLE
} from './store-errors.ts'
import { UNAUTHORIZED, REQUEST_MALFORMED } from '../engine/operations/error-kinds.ts'

type CheckedOut =
  | { readonly kind: 'unpaid'; readonly order: Order; readonly challenge: SentChallenge }
  /** `challengeId`: for the receipt of a Payment credential; else null. */
  | {
      readonly kind: 'paid'
      readonly order: Order
      readonly integration: Integration
      readonly challengeId: string | null
    }

/**
 * `closed`: the store or its merchant is inactive; `lapsed`: the merchant's subscription does not cover it (decisions
 * 36 and 93).
 */
export type StoreStatus = 'selling' | 'lapsed' | 'closed'

export interface CheckoutOptions extends ShopServices {
  readonly challengeStore: ChallengeStore
  readonly minting: Minting
  readonly credentials: ShopCredentials
  readonly catalogs: Catalogs
  readonly paid: PaidOrders
  readonly prices: Pick<Quotes, 'quote'>
  standing(integration: Integration): Promise<StoreStatus>
}

interface Priced {
  readonly items: readonly OrderItem[]
  readonly subtotalCents: number
  readonly shippingCents: number
  readonly taxCents: number
  readonly tax: OrderTax
  readonly totalCents: number
  readonly totalSats: number
}

const DAY = 86_400_000
/** In which the invoice of a checkout can be paid (contract, Limits). */
const INVOICE_EXPIRY_SECONDS = 600
const CENT_PLACES = 2

/**
 * Checkout (contract, Storefront): without a credential it creates an unpaid order with an invoice; with one it returns
 * the paid order. Faults of cart and location come first (decision 138).
 */
export class Checkout {
  readonly #options: CheckoutOptions

  constructor(options: CheckoutOptions) {
    this.#options = options
  }

  /**
   * @throws LongError 400 for cart, location, or a credential that is malformed or of a disabled scheme; 401 for an
   *   invalid one; 404 for an unknown store, and for a credential without an order; RateLimited 429 for too many open
   *   invoices of the store; Unavailable 503 (`retryable`: whether waiting helps) without price, tax, stock or an
   *   invoice, or when the merchant may not sell. Nothing was created.
   */
  async run(ctx: Context, slug: string, input: StoreCheckoutInput): Promise<CheckedOut> {
    checkTotalQuantity(input.items)
    const integration = await this.#options.stores.bySlug(slug)
    if (integration === null) throw storeNotFound()
    const credential = await this.#options.credentials.read(ctx.headers, integration, 'checkout')
    switch (credential.kind) {
      // A retry needs no location: the contract's retry row names no such header.
      case 'none':
        return await this.#sell(ctx, integration, input, readLocation(ctx.headers))
      case 'paid':
        return await this.#find(integration, credential.challenge, credential.challengeId)
      case 'refused':
        throw refusal(credential)
    }
  }

  /**
   * The unpaid order of a cart, without a credential.
   * @throws as `run`
   */
  async order(ctx: Context, slug: string, input: StoreCheckoutInput, location: BuyerLocation): Promise<CheckedOut> {
    checkTotalQuantity(input.items)
    const integration = await this.#options.stores.bySlug(slug)
    if (integration === null) throw storeNotFound()
    return await this.#sell(ctx, integration, input, location)
  }

  /** The paid order; also of a store that stopped selling. */
  async #find(integration: Integration, challenge: Challenge, challengeId: string | null): Promise<CheckedOut> {
    const { orders, paid, clock } = this.#options
    const known = await orders.byPaymentHash(challenge.paymentHash)
    if (known === null || !isReadable(known, clock.now())) throw orderNotFound()
    const order = await paid.byCredential(known, integration)
    if (order === null) throw orderNotFound()
    return { kind: 'paid', order, integration, challengeId }
  }

  async #sell(
    ctx: Context,
    integration: Integration,
    input: StoreCheckoutInput,
    location: BuyerLocation
  ): Promise<CheckedOut> {
    const standing = await this.#options.standing(integration)
    if (standing === 'closed') throw storeNotFound()
    if (standing === 'lapsed') throw notSelling(ctx.correlationId)
    if (!shipsTo(integration, location.country)) throw notShippedTo(integration, location.country)
    const sum = await this.#price(integration, input.items, location, ctx.correlationId)
    // Requests share an invoice only with the same cart, location and address, so that no one pays for another's order.
    const fingerprint = JSON.stringify([input, location])
    const first = await this.#order(ctx, integration, input, location, sum, fingerprint)
    if (first !== null) return first
    // The order to reuse was paid meanwhile, which its challenge does not show yet: create another.
    const other = await this.#order(
      ctx,
      integration,
      input,
      location,
      sum,
      `${fingerprint} ${Buffer.from(this.#options.random(16)).toString('hex')}`
    )
    if (other === null) throw new TypeError("a challenge for a checkout of its own was another's")
    return other
  }

  /** Prices the cart at the buyer's location: current prices, exact to the cent. */
  async #price(
    integration: Integration,
    lines: readonly CartLine[],
    location: BuyerLocation,
    correlationId: string
  ): Promise<Priced> {
    const { catalogs, platform, prices } = this.#options
    const catalog = await catalogs.forSale(integration).catch((error: unknown) => {
      throw error instanceof Unavailable ? temporary(error, error.message, correlationId, error) : error
    })
    const listed = priced(lines, catalog)
    const requested = joined(lines)
    const available = await this.#ask(
      integration,
      access => platform.available(access, requested),
      cause =>
        temporary(
          STORE_UNAVAILABLE,
          'The store cannot be asked at the moment whether the goods are there.',
          correlationId,
          cause
        )
    )
    for (const { variantId } of requested) if (!available.has(variantId)) throw soldOut(variantId)
    const noTax = (cause: unknown): Unavailable =>
      temporary(
        { ...STORE_UNAVAILABLE, title: 'Tax calculation failed' },
        'The store cannot say at the moment what the tax is.',
        correlationId,
        cause
      )
    const calculate = (shippingCents: number) =>
      this.#ask(integration, access => platform.calculate(access, { items: requested, location, shippingCents }), noTax)
    const expected = shippingFor(integration.shipping, subtotalOf(listed))
    let calculation = await calculate(expected)
    let items = atPricesOf(listed, calculation)
    const shippingCents = shippingFor(integration.shipping, subtotalOf(items))
    if (shippingCents !== expected) {
      // Shipping depends on the subtotal, and the tax on shipping.
      calculation = await calculate(shippingCents)
      items = atPricesOf(listed, calculation)
      if (shippingFor(integration.shipping, subtotalOf(items)) !== shippingCents)
        throw noTax(new TypeError('the prices of a store change from one question to the next'))
    }
    const subtotalCents = subtotalOf(items)
    // Later requests should see the current prices.
    if (subtotalCents !== subtotalOf(listed)) catalogs.invalidate(integration.id)
    const { taxCents, tax } = calculation
    const totalCents = subtotalCents + shippingCents + taxCents
    // No sale at an amount that cannot be exact.
    if (!Number.isSafeInteger(taxCents) || taxCents < 0 || !Number.isSafeInteger(totalCents))
      throw noTax(new TypeError(`a store's platform says that the tax is ${taxCents} cents`))
    const { price } = await prices.quote('USD').catch((error: unknown) => {
      throw error instanceof Unavailable
        ? temporary(error, 'What a dollar is worth in bitcoin is not known at the moment.', correlationId, error)
        : error
    })
    return {
      items,
      subtotalCents,
      shippingCents,
      taxCents,
      tax,
      totalCents,
      totalSats: atPrice({ digits: BigInt(totalCents), places: CENT_PLACES }, price)
    }
  }

  /** Calls the platform; logs its errors for the operator and throws `failure`. */
  async #ask<T>(
    integration: Integration,
    ask: (access: StoreAccess) => Promise<T>,
    failure: (cause: StorePlatformError) => Error
  ): Promise<T> {
    try {
      return await ask(this.#options.stores.access(integration))
    } catch (error) {
      if (!(error instanceof StorePlatformError)) throw error
      this.#options.log.warn(
        { err: error, slug: integration.slug, merchantId: integration.merchantId, fault: error.fault },
        'a store could not be asked at a checkout'
      )
      throw failure(error)
    }
  }

  /**
   * Writes an order with its challenge, or returns the client's open order of the same request; null when that one was
   * paid.
   */
  async #order(
    ctx: Context,
    integration: Integration,
    input: StoreCheckoutInput,
    location: BuyerLocation,
    sum: Priced,
    fingerprint: string
  ): Promise<CheckedOut | null> {
    const { challengeStore, database, minting, orders, clock, random } = this.#options
    const now = clock.now()
    // Whole seconds, as the token's caveat (decisions 136 and 150).
    const claimExpires = Math.floor((now + integration.claimWindowDays * DAY) / 1000)
    let created: Order | null = null
    const { challenge, again } = await minting
      .mint(this.#offer(integration, sum.totalSats, fingerprint), {
        clientKey: clientNetwork(ctx.clientAddress),
        digest: null,
        tokenExpires: claimExpires,
        record: async challenge => {
          const order: Order = {
            id: newOrderId(random),
            storefrontId: integration.id,
            merchantId: integration.merchantId,
            paymentHash: challenge.paymentHash,
            status: 'PendingPayment',
            location,
            ...sum,
            email: input.email,
            claimToken: null,
            claimExpiresAt: claimExpires * 1000,
            claimedAt: null,
            platformOrderId: null,
            orderNumber: null,
            tracking: { number: null, carrier: null, url: null },
            createdAt: now,
            paidAt: null,
            fulfilledAt: null,
            shippedAt: null,
            failure: null,
            canceledAt: null,
            refundRequest: null,
            refundedAt: null
          }
          await database.transaction(async tx => {
            await challengeStore.insert(tx, challenge)
            await orders.insert(tx, order)
          })
          created = order
        }
      })
      .catch((error: unknown) => {
        throw sellingFault(error, ctx.correlationId)
      })
    if (!again) {
      if (created === null) throw new TypeError('a challenge was made and its order was not')
      return { kind: 'unpaid', order: created, challenge }
    }
    const held: OrderRecord | null = await orders.byPaymentHash(challenge.paymentHash)
    return held?.status === 'PendingPayment' ? { kind: 'unpaid', order: held, challenge } : null
  }

  #offer(integration: Integration, amountSats: number, fingerprint: string): Offer {
    const { id, slug, merchantId } = integration
    const path = tokenPathOf(slug)
    return {
      amountSats,
      source: 'storefront',
      service: serviceCaveat(slug),
      merchantId: String(merchantId),
      proxyId: null,
      place: placeOf(id),
      path,
      tokenPath: path,
      wildcard: true,
      method: 'POST',
      // Only compared, so a digest is enough; it contains an email address.
      query: hash('sha256', fingerprint, 'base64url'),
      tokenValiditySeconds: (integration.claimWindowDays * DAY) / 1000,
      invoiceExpirySeconds: INVOICE_EXPIRY_SECONDS,
      description: `Order at ${oneLine(integration.shopName ?? slug)}`,
      payee: 'merchant',
      ...UNROUTED
    }
  }
}

/**
 * Buyers see no facts about the account: what keeps a merchant from selling reads "not now" (as decision 93 for
 * proxies).
 */
function sellingFault(error: unknown, correlationId: string): unknown {
  if (error instanceof ProviderKeyRequired || error instanceof ConfigurationMissing)
    return notSelling(correlationId, error)
  return error instanceof Unavailable ? temporary(error, error.message, correlationId, error) : error
}

/** The error of an invalid credential on a retry (contract, Errors: Storefront checkout retry). */
function refusal(refused: Extract<ShopCredential, { kind: 'refused' }>): LongError {
  switch (refused.reason) {
    case 'form':
      return credentialRefused(REQUEST_MALFORMED, 'Bad Request', refused)
    case 'disabled':
      return credentialRefused(CREDENTIAL_NOT_VERIFIED, 'Protocol disabled', refused)
    case 'failed':
      return credentialRefused(UNAUTHORIZED, 'Unauthorized', refused)
    case 'unknown':
      return orderNotFound()
  }
}
