import { StorePlatformError, type NewPlatformOrder, type PlatformOrder } from '../platform.ts'
import { CURRENCY } from './catalog.ts'
import { plainWords } from './faults.ts'
import type { TaxLine } from '../schema.ts'
import type { ShopifyValue } from './reader.ts'

/** What an order's payment is called in the merchant's admin. */
const GATEWAY = 'Lightning'
/** And its shipping. */
export const SHIPPING_TITLE = 'Shipping'
/** Of orders from before the shop's own lines were kept. */
const TAX_TITLE = 'Tax'
/** Decimal places of a tax rate. */
const RATE_PLACES = 6
/** An order id as it may stand in a search. With its prefix it must fit a tag, which holds 40 characters. */
const SEARCHABLE = /^[A-Za-z0-9_-]{1,37}$/
const PROVINCE_CODE = /^[A-Za-z0-9]{1,3}$/

interface Money {
  readonly amount: string
  readonly currencyCode: typeof CURRENCY
}

/** Cents as the platform writes dollars. */
export function money(cents: number): Money {
  if (!Number.isSafeInteger(cents) || cents < 0) throw new TypeError(`${cents} is no amount of cents`)
  const digits = String(cents).padStart(3, '0')
  return { amount: `${digits.slice(0, -2)}.${digits.slice(-2)}`, currencyCode: CURRENCY }
}

/** The platform's own name of a variant. */
export function variantGid(variantId: number): string {
  return `gid://shopify/ProductVariant/${variantId}`
}

/** The tag that an order is found by besides its source identifier. */
export function orderTag(sourceIdentifier: string): string {
  if (!SEARCHABLE.test(sourceIdentifier))
    throw new TypeError('an order id is at most 37 letters, digits, dashes and underscores')
  return `bg-${sourceIdentifier}`
}

/**
 * A paid order at the prices that the buyer has paid and with the taxes as the shop worked them out then, so that the
 * platform works out nothing anew and the merchant's reports know each tax by its name. `isHeld`: its goods are held
 * for it.
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
        // Left out it means no, and the order would not ask to be shipped.
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
    // Left out, nothing would be taken from the stock at all. What is held is out of it already, and comes back when it
    // is released.
    options: {
      inventoryBehaviour: isHeld ? 'DECREMENT_IGNORING_POLICY' : 'DECREMENT_OBEYING_POLICY',
      sendReceipt: true
    }
  }
}

/** The shop's own lines; one of the whole tax for an order from before they were kept. */
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
    // Buyers write a code or a name; the platform has a member for each.
    ...(province === null ? {} : PROVINCE_CODE.test(province) ? { provinceCode: province.toUpperCase() } : { province })
  }
}

/**
 * The share that the tax is of what it is on, as decimal text, rounded to six places; the amount beside it is what
 * counts.
 */
export function taxRate(taxCents: number, onCents: number): string {
  if (onCents <= 0) throw new TypeError('tax on nothing')
  const scale = 10n ** BigInt(RATE_PLACES)
  const rate = (2n * BigInt(taxCents) * scale + BigInt(onCents)) / (2n * BigInt(onCents))
  return `${rate / scale}.${String(rate % scale).padStart(RATE_PLACES, '0')}`
}

/** @throws StorePlatformError `refused`, `shop`, or `away` for an answer without the order */
export function readCreatedOrder(data: ShopifyValue): PlatformOrder {
  const payload = data.member('orderCreate')
  requireDone(payload, 'make the order')
  return readOrder(payload.member('order'))
}

/** Finds orders of one source identifier. */
export function orderQuery(sourceIdentifier: string): string {
  return `source_identifier:"${sourceIdentifier}" OR tag:"${orderTag(sourceIdentifier)}"`
}

/** The order with this identifier among those found; the search itself is not exact. */
export function readFoundOrder(data: ShopifyValue, sourceIdentifier: string): PlatformOrder | null {
  const tag = orderTag(sourceIdentifier)
  const nodes = [...data.member('found').member('nodes').list(), ...data.member('newest').member('nodes').list()]
  const ours = nodes.find(
    node =>
      node.optional('sourceIdentifier')?.text() === sourceIdentifier ||
      node
        .member('tags')
        .list()
        .some(given => given.text() === tag)
  )
  return ours === undefined ? null : readOrder(ours)
}

function readOrder(node: ShopifyValue): PlatformOrder {
  return { platformOrderId: node.member('id').text(), orderNumber: node.member('name').text() }
}

/** Domain errors come with status 200; with one of them nothing was done. */
export function requireDone(payload: ShopifyValue, purpose: string): void {
  const errors = payload.member('userErrors').list()
  if (errors.length === 0) return
  const codes = errors.map(error => error.optional('code')?.text() ?? '')
  const words = plainWords(errors.map(error => error.member('message').text()).join(' '))
  if (codes.includes('SHOP_DORMANT'))
    throw new StorePlatformError('shop', 'The store platform says that this shop is dormant.', { upstreamStatus: 200 })
  if (codes.includes('INVENTORY_CLAIM_FAILED'))
    throw new StorePlatformError('refused', `The store has not enough in stock: ${words}`, {
      upstreamStatus: 200,
      isSoldOut: true
    })
  throw new StorePlatformError('refused', `The store platform refused to ${purpose}: ${words}`, { upstreamStatus: 200 })
}
