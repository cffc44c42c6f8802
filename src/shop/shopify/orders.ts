import { Type, type StaticDecode } from 'typebox'
import { nullable } from '../../engine/formats/response-schema.ts'
import { StorePlatformError, type NewPlatformOrder, type PlatformOrder, type HoldRequest } from '../platform.ts'
import type { TaxLine } from '../schema.ts'
import { redactedLine } from './http.ts'
import { CURRENCY, requireShopify, unusableShopify, IsoTime } from './responses.ts'

const GATEWAY = 'Lightning'
export const SHIPPING_TITLE = 'Shipping'
/** For orders without stored tax lines. */
const TAX_TITLE = 'Tax'
const RATE_PLACES = 6
/** Safe in a search. With its prefix it must fit a tag's 40 characters. */
const SEARCHABLE = /^[A-Za-z0-9_-]{1,37}$/
const PROVINCE_CODE = /^[A-Za-z0-9]{1,3}$/

interface Money {
  readonly amount: string
  readonly currencyCode: typeof CURRENCY
}

export function money(cents: number): Money {
  if (!Number.isSafeInteger(cents) || cents < 0) throw new TypeError(`${cents} is no amount of cents`)
  const digits = String(cents).padStart(3, '0')
  return { amount: `${digits.slice(0, -2)}.${digits.slice(-2)}`, currencyCode: CURRENCY }
}

export function variantGid(variantId: number): string {
  return `gid://shopify/ProductVariant/${variantId}`
}

export function orderTag(sourceIdentifier: string): string {
  if (!SEARCHABLE.test(sourceIdentifier))
    throw new TypeError('an order id is at most 37 letters, digits, dashes and underscores')
  return `bg-${sourceIdentifier}`
}

/**
 * A paid order with the paid prices and the shop's own taxes, so that the platform computes nothing and reports name
 * each tax. `isHeld`: its goods are reserved.
 */
export function orderInput(
  order: NewPlatformOrder,
  isHeld = false
): { readonly order: object; readonly options: object } {
  const subtotal = order.items.reduce((sum, { priceCents, quantity }) => sum + priceCents * quantity, 0)
  if (subtotal + order.shippingCents + order.taxCents !== order.totalCents)
    throw new TypeError('the amounts of an order do not add up')
  return {
    order: {
      currency: CURRENCY,
      email: order.email,
      sourceIdentifier: order.sourceIdentifier,
      tags: ['boltgate', orderTag(order.sourceIdentifier)],
      note: `Paid over Lightning: ${order.paidSats} satoshis.`,
      customAttributes: [
        { key: 'lightning_payment_hash', value: order.paymentHash },
        { key: 'lightning_satoshis', value: String(order.paidSats) },
        { key: 'tax_worked_out_for', value: `${order.location.country}-${order.location.state}-${order.location.zip}` }
      ],
      taxesIncluded: order.tax.isIncluded,
      lineItems: order.items.map(({ variantId, quantity, priceCents, requiresShipping }) => ({
        variantId: variantGid(variantId),
        quantity,
        priceSet: { shopMoney: money(priceCents) },
        // Defaults to false, and the order would not be shipped.
        requiresShipping
      })),
      shippingAddress: addressInput(order),
      shippingLines: [{ title: SHIPPING_TITLE, priceSet: { shopMoney: money(order.shippingCents) } }],
      taxLines: taxLinesOf(order, subtotal).map(({ title, rate, cents }) => ({
        title,
        rate,
        priceSet: { shopMoney: money(cents) }
      })),
      financialStatus: 'PAID',
      transactions: [
        { kind: 'SALE', status: 'SUCCESS', gateway: GATEWAY, amountSet: { shopMoney: money(order.totalCents) } }
      ]
    },
    // The default takes nothing from the stock. Held goods are already taken, and return with the release.
    options: {
      inventoryBehaviour: isHeld ? 'DECREMENT_IGNORING_POLICY' : 'DECREMENT_OBEYING_POLICY',
      sendReceipt: true
    }
  }
}

function taxLinesOf({ tax, taxCents, shippingCents }: NewPlatformOrder, subtotal: number): readonly TaxLine[] {
  if (tax.lines.length > 0 || taxCents === 0) return tax.lines
  return [{ title: TAX_TITLE, rate: taxRate(taxCents, subtotal + shippingCents), cents: taxCents }]
}

function addressInput({ shippingAddress, countryCode }: NewPlatformOrder): object {
  const { firstName, lastName, address1, address2, city, province, zip, phone } = shippingAddress
  return {
    firstName,
    lastName,
    address1,
    address2,
    city,
    zip,
    phone,
    countryCode,
    // Buyers enter a code or a name; the platform has a member for each.
    ...(province === null ? {} : PROVINCE_CODE.test(province) ? { provinceCode: province.toUpperCase() } : { province })
  }
}

/** Decimal text with six decimals; the amount next to it is what counts. */
export function taxRate(taxCents: number, onCents: number): string {
  if (onCents <= 0) throw new TypeError('tax on nothing')
  const scale = 10n ** BigInt(RATE_PLACES)
  const rate = (2n * BigInt(taxCents) * scale + BigInt(onCents)) / (2n * BigInt(onCents))
  return `${rate / scale}.${String(rate % scale).padStart(RATE_PLACES, '0')}`
}

const Order = Type.Object({ id: Type.String(), name: Type.String() })

/** @throws StorePlatformError `refused`, `shop`, or `away` for a response without the order */
export function readCreatedOrder(data: unknown): PlatformOrder {
  const { userErrors, order } = mutationPayload(data, 'orderCreate')
  requireDone(userErrors, 'make the order')
  return orderOf(requireShopify(Order, order, 'order'))
}

export function orderQuery(sourceIdentifier: string): string {
  return `source_identifier:"${sourceIdentifier}" OR tag:"${orderTag(sourceIdentifier)}"`
}

const Found = Type.Object({
  nodes: Type.Array(
    Type.Object({
      id: Type.String(),
      name: Type.String(),
      sourceIdentifier: nullable(Type.String()),
      tags: Type.Array(Type.String())
    })
  )
})
const FoundOrders = Type.Object({ found: Found, newest: Found })

/** Filters the search's inexact results. */
export function readFoundOrder(data: unknown, wanted: string): PlatformOrder | null {
  const tag = orderTag(wanted)
  const { found, newest } = requireShopify(FoundOrders, data)
  const ours = [...found.nodes, ...newest.nodes].find(
    ({ sourceIdentifier, tags }) => sourceIdentifier === wanted || tags.includes(tag)
  )
  return ours === undefined ? null : orderOf(ours)
}

function orderOf({ id, name }: StaticDecode<typeof Order>): PlatformOrder {
  return { platformOrderId: id, orderNumber: name }
}

const UserErrors = Type.Array(Type.Object({ code: nullable(Type.String()), message: Type.String() }))
/** Payload of any mutation; what it made is null where there are errors. */
const Payload = Type.Object({
  userErrors: UserErrors,
  order: Type.Unknown(),
  draftOrder: Type.Unknown(),
  calculatedDraftOrder: Type.Unknown()
})

export function mutationPayload(data: unknown, field: string): StaticDecode<typeof Payload> {
  if (typeof data !== 'object' || data === null || !Object.hasOwn(data, field))
    throw unusableShopify(`data has no ${field}`)
  return requireShopify(Payload, Reflect.get(data, field), `data.${field}`)
}

/** Domain errors come with status 200 and mean no effect. */
export function requireDone(errors: StaticDecode<typeof UserErrors>, purpose: string): void {
  if (errors.length === 0) return
  const codes = errors.map(({ code }) => code)
  const words = redactedLine(errors.map(({ message }) => message).join(' '))
  if (codes.includes('SHOP_DORMANT'))
    throw new StorePlatformError('shop', 'The store platform says that this shop is dormant.', { upstreamStatus: 200 })
  if (codes.includes('INVENTORY_CLAIM_FAILED'))
    throw new StorePlatformError('refused', `The store has not enough in stock: ${words}`, {
      upstreamStatus: 200,
      isSoldOut: true
    })
  throw new StorePlatformError('refused', `The store platform refused to ${purpose}: ${words}`, { upstreamStatus: 200 })
}

/** A draft order that reserves goods for a time; no invoice is sent for it. */
export function holdInput({ sourceIdentifier, items, until }: HoldRequest): object {
  return {
    lineItems: items.map(({ variantId, quantity }) => ({ variantId: variantGid(variantId), quantity })),
    reserveInventoryUntil: new Date(until).toISOString(),
    tags: ['boltgate', orderTag(sourceIdentifier)],
    note: "Paid over Lightning, and waiting for the buyer's address. It holds the goods until then; the order is created automatically.",
    visibleToCustomer: false
  }
}

const DraftOrder = Type.Object({ id: Type.String() })

export function readHold(data: unknown): string {
  const { userErrors, draftOrder } = mutationPayload(data, 'draftOrderCreate')
  requireDone(userErrors, 'hold the goods')
  return requireShopify(DraftOrder, draftOrder, 'draftOrder').id
}

const Held = Type.Object({
  draftOrder: nullable(Type.Object({ status: Type.String(), reserveInventoryUntil: nullable(IsoTime) }))
})

/** Whether a draft still reserves its goods: the merchant may have deleted or completed it. */
export function holds(data: unknown, now: number): boolean {
  const { draftOrder } = requireShopify(Held, data)
  return draftOrder?.status === 'OPEN' && (draftOrder.reserveInventoryUntil ?? 0) > now
}
