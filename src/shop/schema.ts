import { Type } from 'typebox'
import type { SealedValue } from '../lightning/providers/slot-keys.ts'
import type { StorePlatformKind } from './platform.ts'
import { inUnits, jsonNumber, readDecimal, type RawJson } from '../lightning/money/decimal.ts'

/** In their order (contract, Storefront order). */
export const ORDER_STATUSES = [
  'PendingPayment',
  'PaidAwaitingDetails',
  'PaidWithDetails',
  'Fulfilled',
  'Shipped'
] as const
export type OrderStatus = (typeof ORDER_STATUSES)[number]

/** Shipping of a store (decision 141), in cents of US dollars. */
export interface ShippingRules {
  readonly domesticCents: number
  /** Decision 140. */
  readonly domesticOnly: boolean
  readonly freeEnabled: boolean
  /** Smallest subtotal that ships free; null for any. Only with `freeEnabled`. */
  readonly freeThresholdCents: number | null
}

/** Credentials of a store's platform; sealed for the store's row and column. */
export interface StoreCredentials {
  /** `client`: id and secret of the merchant's app, for a token that lasts a day; `token`: a permanent one. */
  readonly clientId: string | null
  readonly clientSecret: SealedValue | null
  readonly adminApiToken: SealedValue | null
}

/** A merchant's store: one each (decision 143). */
export interface Integration extends StoreCredentials {
  readonly id: number
  readonly merchantId: number
  readonly slug: string
  readonly platform: StorePlatformKind
  /** The merchant's input, or the canonical host name once the platform was asked. */
  readonly storefrontDomain: string
  /** Such as `example` of example.myshopify.com; null until the platform was asked. */
  readonly shopHandle: string | null
  readonly shopName: string | null
  /** Null until the platform was asked. */
  readonly shopCountry: string | null
  readonly shipping: ShippingRules
  /** Stored and shown, otherwise unused (decision 145). */
  readonly defaultTaxLocation: string | null
  readonly listInRegistry: boolean
  readonly registryCategories: string | null
  readonly registryDescription: string | null
  /** 1 to 365. */
  readonly claimWindowDays: number
  readonly isActive: boolean
  readonly createdAt: number
  /** Grows with every write, whatever the clock says: older catalogs are stale in every process. */
  readonly updatedAt: number
}

export interface OrderItem {
  readonly variantId: number
  readonly productTitle: string
  readonly variantTitle: string
  readonly quantity: number
  readonly priceCents: number
  /** False for digital goods. */
  readonly requiresShipping: boolean
}

export interface TaxLine {
  /** Such as `California State Tax`. */
  readonly title: string
  /** Decimal text. */
  readonly rate: string
  readonly cents: number
}

export interface OrderTax {
  readonly lines: readonly TaxLine[]
  readonly isIncluded: boolean
}

/** `{country}-{state}-{zip}` of X-Buyer-Location, in capitals (decision 139). */
export interface BuyerLocation {
  readonly country: string
  /** At most three letters and digits; empty where a country has no states. */
  readonly state: string
  /** At most 20 characters; may hold dashes (ZIP+4). */
  readonly zip: string
}

/** Contract, Shipping address. */
export interface ShippingAddress {
  readonly firstName: string
  readonly lastName: string
  readonly address1: string
  readonly address2: string | null
  readonly city: string
  readonly province: string | null
  readonly zip: string | null
  readonly country: string
  readonly phone: string | null
}

export interface Tracking {
  readonly number: string | null
  readonly carrier: string | null
  readonly url: string | null
}

/** Why a shop did not make a paid order. Transient faults are not among them. */
export type FailureReason = 'sold_out' | 'refused' | 'store_access' | 'store_closed'

export interface OrderFailure {
  readonly reason: FailureReason
  /** The platform's words, for the merchant and the operator. */
  readonly message: string
  readonly at: number
}

export interface RefundRequest {
  /** A Bitcoin address or a BOLT 11 invoice. */
  readonly address: string
  readonly type: 'chain' | 'ln'
  readonly at: number
}

/** Amounts in cents of US dollars unless they say satoshis. */
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
  /** 0 where prices include it. */
  readonly taxCents: number
  readonly tax: OrderTax
  readonly totalCents: number
  /** The total at the price of that moment, rounded up. */
  readonly totalSats: number
  /** From the checkout, for the mail with the claim page. */
  readonly email: string | null
  /** Made on entering PaidAwaitingDetails (decision 134); null before, and once the order is unreadable. */
  readonly claimToken: SealedValue | null
  readonly claimExpiresAt: number
  readonly claimedAt: number | null
  /** The platform's id and the number for buyers, once its order exists. */
  readonly platformOrderId: string | null
  readonly orderNumber: string | null
  readonly tracking: Tracking
  readonly createdAt: number
  readonly paidAt: number | null
  readonly fulfilledAt: number | null
  readonly shippedAt: number | null
  readonly failure: OrderFailure | null
  readonly canceledAt: number | null
  readonly refundRequest: RefundRequest | null
  readonly refundedAt: number | null
}

/** Untyped, because the serializer would print a number of a schema through a double (decision 8). */
export const dollars = (description = 'A number of US dollars.') =>
  Type.Unsafe<RawJson>({ 'x-type': 'number', description })

export function isoOf(ms: number): string {
  return new Date(ms).toISOString()
}

/** Exact dollars for JSON: 1999 is `19.99`. Under an open schema (see jsonNumber). */
export function usd(cents: number): RawJson {
  const sign = cents < 0 ? '-' : ''
  const digits = String(Math.abs(cents)).padStart(3, '0')
  return jsonNumber(`${sign}${digits.slice(0, -2)}.${digits.slice(-2)}`)
}

/** Cents of a JSON number of US dollars; null for a fraction of a cent. */
export function centsOf(dollars: number): number | null {
  const value = readDecimal(dollars)
  // The decimal has no trailing zeros, so more than two decimals are a fraction of a cent.
  if (value === null || value.places > 2) return null
  const cents = Number(inUnits(value, 2))
  return Number.isSafeInteger(cents) ? cents : null
}

/** A text as PostgreSQL returns it: without NUL and unpaired surrogates. */
export function storable(text: string): string {
  return text.replaceAll('\0', '').toWellFormed()
}

export function storableOrNull(text: string | null): string | null {
  return text === null ? null : storable(text)
}
