import type { Secret } from '../platform/keys/secrets.ts'
import type { BuyerLocation, OrderItem, OrderTax, ShippingAddress, Tracking } from './schema.ts'
import { defineError } from '../platform/system/errors.ts'

const STORE_PLATFORM = defineError('BG_STORE_PLATFORM', {
  cause: 'A request to the platform of a store failed or was rejected.',
  fix: 'The message has the request and the response; the merchant renews the credentials.'
})

/** Kinds of store platforms. */
export type StorePlatformKind = 'shopify' | 'sandbox'

/** A store as its platform is asked about it, with what opens it. */
export interface StoreAccess {
  /** Id of the integration: what is cached for a store is cached for this. */
  readonly storefrontId: number
  /** Host name, in lower case. */
  readonly domain: string
  readonly clientId: string | null
  readonly clientSecret: Secret<string> | null
  readonly adminApiToken: Secret<string> | null
}

/** What a platform says of a shop. */
export interface ShopInfo {
  readonly name: string
  /** The canonical domain for calls, such as example.myshopify.com. */
  readonly domain: string
  /** The platform's own name of the shop, such as `example`. */
  readonly handle: string
  /** Two capital letters; null when the shop has no address. */
  readonly country: string | null
  /** Three capital letters. */
  readonly currency: string
}

/** One thing that can be bought. */
export interface CatalogVariant {
  readonly variantId: number
  readonly title: string
  readonly priceCents: number
  readonly available: boolean
}

/** One product (contract, Storefront integration resources). */
export interface CatalogProduct {
  readonly productId: number
  readonly title: string
  readonly description: string
  readonly imageUrl: string | null
  readonly variants: readonly CatalogVariant[]
}

/** Everything that a shop sells now. */
export interface Catalog {
  readonly storeName: string
  readonly products: readonly CatalogProduct[]
}

/** What a cart is worked out for. */
export interface CartQuestion {
  readonly items: ReadonlyArray<{ readonly variantId: number; readonly quantity: number }>
  readonly location: BuyerLocation
  readonly shippingCents: number
}

/** What one variant costs at the platform now. */
export interface CalculatedLine {
  /** Of one piece. */
  readonly priceCents: number
  readonly requiresShipping: boolean
}

/** What a cart comes to at the platform now. */
export interface Calculation {
  /** By variant; every one that was asked for. */
  readonly lines: ReadonlyMap<number, CalculatedLine>
  /** Cents of tax on top of goods and shipping. */
  readonly taxCents: number
  readonly tax: OrderTax
}

/** Goods to be held for an order that is paid. */
export interface HoldRequest {
  readonly sourceIdentifier: string
  readonly items: CartQuestion['items']
  /** Milliseconds since the epoch; then the hold lapses by itself. */
  readonly until: number
}

/**
 * An order to be made at the platform. Its amounts are what the buyer has paid; the platform must not work them out
 * anew.
 */
export interface NewPlatformOrder {
  /** Our order id: the platform keeps it, and finds the order by it. */
  readonly sourceIdentifier: string
  readonly email: string
  readonly items: readonly OrderItem[]
  readonly shippingAddress: ShippingAddress
  /** Two capital letters of the address's country. */
  readonly countryCode: string
  /**
   * What the tax was worked out for. The address comes later, from the buyer, and may be elsewhere: the merchant must
   * see that.
   */
  readonly location: BuyerLocation
  readonly shippingCents: number
  readonly taxCents: number
  readonly tax: OrderTax
  readonly totalCents: number
  readonly paidSats: number
  readonly paymentHash: string
  /** The platform's id of what holds the order's goods; null where nothing does. */
  readonly holdId: string | null
}

/** An order that the platform has. */
export interface PlatformOrder {
  readonly platformOrderId: string
  /** As buyers see it, such as `#1001`. */
  readonly orderNumber: string
}

/** How far the platform is with an order (decision 147). */
export interface Fulfilment {
  readonly platformOrderId: string
  readonly isFulfilled: boolean
  /** A tracking number is known, or it is said to be in transit or further. */
  readonly isShipped: boolean
  readonly isCanceled: boolean
  readonly tracking: Tracking
  /** Milliseconds; null when it is not said. */
  readonly shippedAt: number | null
}

/** Why a platform did not do what it was asked. */
export type StorePlatformFault =
  /** Not reached, no answer in time, or an answer that cannot be read. Whatever was asked may have been done. */
  | 'away'
  /** Asked too often; nothing was done. */
  | 'throttled'
  /** The credentials are not good, or not for this; nothing was done. */
  | 'credentials'
  /** There is no such shop. */
  | 'shop'
  /** The request itself was refused, such as for stock that is gone; nothing was done. */
  | 'refused'

/** A platform's failure. The message is for merchants and logs: what was asked and what came back, without secrets. */
export class StorePlatformError extends Error {
  override name = 'StorePlatformError'
  readonly code = STORE_PLATFORM.code
  readonly fault: StorePlatformFault
  /** The platform's HTTP status; null when there was none. */
  readonly upstreamStatus: number | null
  /** Seconds after which it may be asked again. */
  readonly retryAfter: number
  /** It was refused because the goods are gone. */
  readonly isSoldOut: boolean

  constructor(
    fault: StorePlatformFault,
    message: string,
    options: {
      readonly upstreamStatus?: number | null
      readonly retryAfter?: number
      readonly isSoldOut?: boolean
      readonly cause?: unknown
    } = {}
  ) {
    super(message, { cause: options.cause })
    this.fault = fault
    this.upstreamStatus = options.upstreamStatus ?? null
    this.retryAfter = options.retryAfter ?? 5
    this.isSoldOut = options.isSoldOut ?? false
  }
}

/**
 * A platform that stores run on. Every method rejects with StorePlatformError. None is repeated inside, but for one
 * that was throttled or whose short-lived token had expired, since then nothing was done.
 */
export interface StorePlatform {
  readonly kind: StorePlatformKind
  shopInfo(store: StoreAccess): Promise<ShopInfo>
  /** Everything, page by page. A shop whose currency is not USD is refused. */
  catalog(store: StoreAccess): Promise<Catalog>
  /**
   * Those of the variants that can be bought now, in these quantities; others are left out. Asked before anything is
   * invoiced.
   */
  available(store: StoreAccess, items: CartQuestion['items']): Promise<ReadonlySet<number>>
  /** Prices of now, and tax on goods and shipping at the buyer's place; never an estimate. */
  calculate(store: StoreAccess, question: CartQuestion): Promise<Calculation>
  /** Takes goods out of what others can buy; answers the hold's id, or null where the platform holds nothing. */
  hold(store: StoreAccess, request: HoldRequest): Promise<string | null>
  /**
   * Gives held goods back; one that is not there any more is released. Those of an order that was made are in the
   * order.
   */
  release(store: StoreAccess, holdId: string): Promise<void>
  /**
   * Makes a paid order, once. The caller has made sure that no other order of this source identifier is being made.
   * When the fault is `away`, it may exist all the same: `findOrder` tells.
   */
  createOrder(store: StoreAccess, order: NewPlatformOrder): Promise<PlatformOrder>
  /** The order with this source identifier; null when there is none that can be found yet. */
  findOrder(store: StoreAccess, sourceIdentifier: string): Promise<PlatformOrder | null>
  /** How far orders are; those that the platform does not know are left out. */
  fulfilments(store: StoreAccess, platformOrderIds: readonly string[]): Promise<Fulfilment[]>
  /** Has the platform notify `address` of changes of orders. Repeating is harmless. */
  subscribe(store: StoreAccess, address: string): Promise<void>
  /**
   * What a notification says, or null for one of no interest. Its signature is checked over the raw bytes first.
   * @throws StorePlatformError `credentials` for a signature that is not good, `refused` for what cannot be read
   */
  readNotification(store: StoreAccess, headers: ReadonlyMap<string, string>, body: Uint8Array): Fulfilment | null
}
