import type { SealedValue } from '../lightning/providers/account.ts'
import type { StorePlatformKind } from './platform.ts'

/** Where an order stands (contract, Storefront order). */
export type OrderStatus = 'PendingPayment' | 'PaidAwaitingDetails' | 'PaidWithDetails' | 'Fulfilled' | 'Shipped'

/** What a store asks of its buyers besides the price of the goods (decision 141). Cents of US dollars. */
export interface ShippingRules {
  readonly domesticCents: number
  /** Ship within the shop's country only (decision 140). */
  readonly domesticOnly: boolean
  readonly freeEnabled: boolean
  /** Smallest subtotal that ships free; null for any. Counts only where `freeEnabled`. */
  readonly freeThresholdCents: number | null
}

/** How a store's platform is called. What is sealed stays so; it opens for the store's row and column only. */
export interface StoreCredentials {
  /** `client`: id and secret of the merchant's own app, for a token that lasts a day; `token`: one that lasts. */
  readonly clientId: string | null
  readonly clientSecret: SealedValue | null
  readonly adminApiToken: SealedValue | null
}

/** A merchant's store: one each (decision 143). Times in milliseconds since the epoch. */
export interface Integration extends StoreCredentials {
  readonly id: number
  readonly merchantId: number
  readonly slug: string
  readonly platform: StorePlatformKind
  /** As the merchant gave it, or the canonical one once the platform was asked; a host name in lower case. */
  readonly storefrontDomain: string
  /** The platform's own name of the shop, such as `example` of example.myshopify.com; null until it was asked. */
  readonly shopHandle: string | null
  readonly shopName: string | null
  /** Two capital letters; null until the platform was asked. */
  readonly shopCountry: string | null
  readonly shipping: ShippingRules
  /** Stored and shown, used nowhere (decision 145). */
  readonly defaultTaxLocation: string | null
  readonly listInRegistry: boolean
  readonly registryCategories: string | null
  readonly registryDescription: string | null
  /** 1 to 365. */
  readonly claimWindowDays: number
  readonly isActive: boolean
  readonly createdAt: number
  /** Grows with every write, be the clock where it was: a catalog that was read before it is due, in every process. */
  readonly updatedAt: number
}

/** One line of an order, as it was priced at checkout. */
export interface OrderItem {
  readonly variantId: number
  readonly productTitle: string
  readonly variantTitle: string
  readonly quantity: number
  readonly priceCents: number
  /** Whether it is sent in a parcel; what is not is digital. */
  readonly requiresShipping: boolean
}

/** One tax of an order, as the shop worked it out. */
export interface TaxLine {
  /** As the shop calls it, such as `California State Tax`. */
  readonly title: string
  /** Share of what it is on, as decimal text. */
  readonly rate: string
  readonly cents: number
}

/** The taxes of an order. */
export interface OrderTax {
  readonly lines: readonly TaxLine[]
  /** They are within the prices, and not on top. */
  readonly isIncluded: boolean
}

/** `{country}-{state}-{zip}` of X-Buyer-Location, in capitals (decision 139). */
export interface BuyerLocation {
  /** Two letters. */
  readonly country: string
  /** At most three letters and digits; empty where a country has no states. */
  readonly state: string
  /** At most 20 characters; may hold dashes (ZIP+4). */
  readonly zip: string
}

/** Where an order goes (contract, Shipping address). */
export interface ShippingAddress {
  readonly firstName: string
  readonly lastName: string
  readonly address1: string
  readonly address2: string | null
  readonly city: string
  readonly province: string | null
  readonly zip: string | null
  /** As the buyer wrote it: a country's two letters or its English name. */
  readonly country: string
  readonly phone: string | null
}

/** Where goods are on their way. */
export interface Tracking {
  readonly number: string | null
  readonly carrier: string | null
  readonly url: string | null
}

/**
 * Why a shop did not make a paid order: the goods are gone, it refused the order for another reason, the credentials
 * are not good any more, or there is no such shop. What may pass by itself is none of them.
 */
export type FailureReason = 'sold_out' | 'refused' | 'store_access' | 'store_closed'

/** A paid order that its shop did not make. */
export interface OrderFailure {
  readonly reason: FailureReason
  /** In the platform's words, for the merchant and the operator. */
  readonly message: string
  /** Milliseconds since the epoch. */
  readonly at: number
}

/** Where a buyer wants the money back. */
export interface RefundRequest {
  /** A Bitcoin address or a BOLT 11 invoice. */
  readonly address: string
  readonly type: 'chain' | 'ln'
  readonly at: number
}

/** An order. Times in milliseconds since the epoch; amounts in cents of US dollars unless they say satoshis. */
export interface Order {
  /** `ord_` and 16 hex characters; older ones are UUIDs. */
  readonly id: string
  readonly storefrontId: number
  readonly merchantId: number
  readonly paymentHash: string
  readonly status: OrderStatus
  readonly items: readonly OrderItem[]
  readonly location: BuyerLocation
  readonly subtotalCents: number
  readonly shippingCents: number
  /** On top of goods and shipping; 0 where prices include it. */
  readonly taxCents: number
  readonly tax: OrderTax
  readonly totalCents: number
  /** What the invoice asks for: the total at the price of that moment, rounded up. */
  readonly totalSats: number
  /** Given at checkout, for the mail with the claim page. */
  readonly email: string | null
  /** Made on entering PaidAwaitingDetails (decision 134); null before, and once the order is no longer readable. */
  readonly claimToken: SealedValue | null
  readonly claimExpiresAt: number
  readonly claimedAt: number | null
  /** The platform's own id and the number that buyers see, once its order exists. */
  readonly platformOrderId: string | null
  readonly orderNumber: string | null
  readonly tracking: Tracking
  readonly createdAt: number
  readonly paidAt: number | null
  readonly fulfilledAt: number | null
  readonly shippedAt: number | null
  /** Why the shop did not make it; null where it did, or was not asked yet. */
  readonly failure: OrderFailure | null
  /** When the shop called it off; null where it did not. */
  readonly canceledAt: number | null
  readonly refundRequest: RefundRequest | null
  /** When all that was paid had been given back. */
  readonly refundedAt: number | null
}
