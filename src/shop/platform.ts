import type { Secret } from '../platform/keys/secrets.ts'
import type { BuyerLocation, OrderItem, OrderTax, ShippingAddress, Tracking } from './schema.ts'
import { defineError } from '../platform/system/errors.ts'

const STORE_PLATFORM = defineError('BG_STORE_PLATFORM', {
  cause: 'A request to the platform of a store failed or was rejected.',
  fix: 'The message has the request and the response; the merchant renews the credentials.'
})

export type StorePlatformKind = 'shopify' | 'sandbox'

export interface StoreAccess {
  readonly storefrontId: number
  readonly domain: string
  readonly clientId: string | null
  readonly clientSecret: Secret<string> | null
  readonly adminApiToken: Secret<string> | null
}

export interface ShopInfo {
  readonly name: string
  /** The canonical domain, such as example.myshopify.com. */
  readonly domain: string
  /** The platform's name of the shop, such as `example`. */
  readonly handle: string
  /** Null when the shop has no address. */
  readonly country: string | null
  readonly currency: string
}

export interface CatalogVariant {
  readonly variantId: number
  readonly title: string
  readonly priceCents: number
  readonly available: boolean
}

export interface CatalogProduct {
  readonly productId: number
  readonly title: string
  readonly description: string
  readonly imageUrl: string | null
  readonly variants: readonly CatalogVariant[]
}

export interface Catalog {
  readonly storeName: string
  readonly products: readonly CatalogProduct[]
}

export interface CartQuestion {
  readonly items: ReadonlyArray<{ readonly variantId: number; readonly quantity: number }>
  readonly location: BuyerLocation
  readonly shippingCents: number
}

export interface CalculatedLine {
  readonly priceCents: number
  readonly requiresShipping: boolean
}

export interface Calculation {
  readonly lines: ReadonlyMap<number, CalculatedLine>
  /** On top of goods and shipping. */
  readonly taxCents: number
  readonly tax: OrderTax
}

export interface HoldRequest {
  readonly sourceIdentifier: string
  readonly items: CartQuestion['items']
  /** When the hold expires. */
  readonly until: number
}

/** An order to make at the platform. Its amounts were paid; the platform must not compute others. */
export interface NewPlatformOrder {
  /** Our order id, by which the platform finds the order. */
  readonly sourceIdentifier: string
  readonly email: string
  readonly items: readonly OrderItem[]
  readonly shippingAddress: ShippingAddress
  readonly countryCode: string
  /** Where tax was computed for. The address may be elsewhere, which the merchant must see. */
  readonly location: BuyerLocation
  readonly shippingCents: number
  readonly taxCents: number
  readonly tax: OrderTax
  readonly totalCents: number
  readonly paidSats: number
  readonly paymentHash: string
  /** The platform's id of the hold; null for none. */
  readonly holdId: string | null
}

export interface PlatformOrder {
  readonly platformOrderId: string
  /** For buyers, such as `#1001`. */
  readonly orderNumber: string
}

/** The platform's progress with an order (decision 147). */
export interface Fulfilment {
  readonly platformOrderId: string
  readonly isFulfilled: boolean
  /** A tracking number is known, or the parcel is in transit or further. */
  readonly isShipped: boolean
  readonly isCanceled: boolean
  readonly tracking: Tracking
  /** Null when unknown. */
  readonly shippedAt: number | null
}

export type StorePlatformFault =
  /** Unreachable, timeout, or an unreadable response. The call may have taken effect. */
  | 'away'
  /** Rate limited; no effect. */
  | 'throttled'
  /** Credentials invalid or insufficient; no effect. */
  | 'credentials'
  | 'shop'
  /** Rejected, such as for stock; no effect. */
  | 'refused'

/** Milliseconds for one call to the platform. */
export const CALL_TIMEOUT = 10_000

/** The message is for merchants and logs: the call and its result, without secrets. */
export class StorePlatformError extends Error {
  override name = 'StorePlatformError'
  readonly code = STORE_PLATFORM.code
  readonly fault: StorePlatformFault
  /** Null without a response. */
  readonly upstreamStatus: number | null
  /** Seconds. */
  readonly retryAfter: number
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
 * A platform of stores. Methods reject with StorePlatformError. Only throttled calls, and those with an expired
 * short-lived token, are retried inside, since they had no effect.
 */
export interface StorePlatform {
  readonly kind: StorePlatformKind
  shopInfo(store: StoreAccess): Promise<ShopInfo>
  /** Reads all pages. Rejects a shop whose currency is not USD. */
  catalog(store: StoreAccess): Promise<Catalog>
  /** The variants that are available in these quantities; asked before an invoice is made. */
  available(store: StoreAccess, items: CartQuestion['items']): Promise<ReadonlySet<number>>
  /** Current prices, and tax on goods and shipping at the buyer's location; never an estimate. */
  calculate(store: StoreAccess, question: CartQuestion): Promise<Calculation>
  /** Reserves goods; returns the hold's id, or null where the platform has no holds. */
  hold(store: StoreAccess, request: HoldRequest): Promise<string | null>
  /** Releases a hold; idempotent. Goods of a made order stay in the order. */
  release(store: StoreAccess, holdId: string): Promise<void>
  /**
   * Makes a paid order, once. The caller ensures that no other order of this source identifier is in progress. After
   * the fault `away` it may exist: see `findOrder`.
   */
  createOrder(store: StoreAccess, order: NewPlatformOrder): Promise<PlatformOrder>
  /** The order with this source identifier; null when none can be found yet. */
  findOrder(store: StoreAccess, sourceIdentifier: string): Promise<PlatformOrder | null>
  fulfilments(store: StoreAccess, platformOrderIds: readonly string[]): Promise<Fulfilment[]>
  /** Subscribes `address` to changes of orders; idempotent. */
  subscribe(store: StoreAccess, address: string): Promise<void>
  /**
   * Verifies the signature over the raw bytes and reads the notification; null for an irrelevant one.
   * @throws StorePlatformError `credentials` for an invalid signature, `refused` for an unreadable one
   */
  readNotification(store: StoreAccess, headers: ReadonlyMap<string, string>, body: Uint8Array): Fulfilment | null
}
