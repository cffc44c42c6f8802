import { Type } from 'typebox'
import {
  amount,
  flag,
  group,
  integer,
  json,
  moment,
  optional,
  sealed,
  text,
  together,
  type RecordOf
} from '../platform/database/rows.ts'
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

/** A merchant's store: one each (decision 143). */
export const integrationColumns = {
  id: integer(),
  merchantId: integer(),
  slug: text(),
  platform: text<StorePlatformKind>(),
  /** The merchant's input, or the canonical host name once the platform was asked. */
  storefrontDomain: text(),
  /** Such as `example` of example.myshopify.com; null until the platform was asked. */
  shopHandle: optional(text()),
  shopName: optional(text()),
  /** Null until the platform was asked. */
  shopCountry: optional(text()),
  /** With the secret, of the merchant's app, for a token that lasts a day; else there is a permanent one. */
  clientId: optional(text()),
  clientSecret: sealed('storefronts', 'client_secret'),
  adminApiToken: sealed('storefronts', 'admin_api_token'),
  /** Decision 141. */
  shipping: group({
    domesticCents: amount('domestic_shipping_cents'),
    /** Decision 140. */
    domesticOnly: flag(),
    freeEnabled: flag('free_shipping_enabled'),
    /** Smallest subtotal that ships free; null for any. Only with `freeEnabled`. */
    freeThresholdCents: optional(amount('free_shipping_threshold_cents'))
  }),
  /** Stored and shown, otherwise unused (decision 145). */
  defaultTaxLocation: optional(text()),
  listInRegistry: flag(),
  registryCategories: optional(text()),
  registryDescription: optional(text()),
  /** 1 to 365. */
  claimWindowDays: integer(),
  isActive: flag(),
  createdAt: moment(),
  /** Grows with every write, whatever the clock says: older catalogs are stale in every process. */
  updatedAt: moment()
}
export type Integration = RecordOf<typeof integrationColumns>
export type ShippingRules = Integration['shipping']
export type StoreCredentials = Pick<Integration, 'clientId' | 'clientSecret' | 'adminApiToken'>

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

/** Why a shop did not make a paid order. Transient faults are not among them. */
export type FailureReason = 'sold_out' | 'refused' | 'store_access' | 'store_closed'

/** Amounts in cents of US dollars unless they say satoshis. */
export const orderColumns = {
  /** `ord_` and 16 hex characters; older ones are UUIDs. */
  id: text(),
  storefrontId: integer(),
  merchantId: integer(),
  paymentHash: text(),
  status: text<OrderStatus>(),
  // Older orders lack it and were all shipped.
  items: json(
    (
      stored: ReadonlyArray<Omit<OrderItem, 'requiresShipping'> & { readonly requiresShipping?: boolean }>
    ): readonly OrderItem[] => stored.map(item => ({ ...item, requiresShipping: item.requiresShipping ?? true }))
  ),
  location: group({ country: text(), state: text(), zip: text() }),
  subtotalCents: amount(),
  shippingCents: amount(),
  /** 0 where prices include it. */
  taxCents: amount(),
  tax: group({ lines: json((stored: readonly TaxLine[]) => stored, 'tax_lines'), isIncluded: flag('taxes_included') }),
  totalCents: amount(),
  /** The total at the price of that moment, rounded up. */
  totalSats: amount(),
  /** From the checkout, for the mail with the claim page. */
  email: optional(text()),
  /** Made on entering PaidAwaitingDetails (decision 134); null before, and once the order is unreadable. */
  claimToken: sealed('storefront_orders', 'claim_token'),
  claimExpiresAt: moment(),
  claimedAt: optional(moment()),
  /** The platform's id and the number for buyers, once its order exists. */
  platformOrderId: optional(text()),
  orderNumber: optional(text()),
  tracking: group({
    number: optional(text('tracking_number')),
    carrier: optional(text('tracking_carrier')),
    url: optional(text('tracking_url'))
  }),
  createdAt: moment(),
  paidAt: optional(moment()),
  fulfilledAt: optional(moment()),
  shippedAt: optional(moment()),
  failure: together({
    reason: text<FailureReason>('failure_code'),
    /** The platform's words, for the merchant and the operator. */
    message: text('failure_message'),
    at: moment('failed_at')
  }),
  canceledAt: optional(moment()),
  refundRequest: together({
    /** A Bitcoin address or a BOLT 11 invoice. */
    address: text('refund_address'),
    type: text<'chain' | 'ln'>('refund_type'),
    at: moment('refund_asked_at')
  }),
  refundedAt: optional(moment())
}
export type Order = RecordOf<typeof orderColumns>
export type OrderFailure = NonNullable<Order['failure']>
export type RefundRequest = NonNullable<Order['refundRequest']>
export type Tracking = Order['tracking']

/** Untyped, because the serializer would print a number of a schema through a double (decision 8). */
export const dollars = (description = 'A number of US dollars.') =>
  Type.Unsafe<RawJson>({ 'x-type': 'number', description })

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
