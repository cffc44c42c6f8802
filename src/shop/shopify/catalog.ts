import {
  type CatalogProduct,
  type CatalogVariant,
  type ShopInfo,
  StorePlatformError,
  type CalculatedLine,
  type Calculation,
  type CartQuestion
} from '../platform.ts'
import { isShopHost, shopHandle, plainWords } from './http.ts'
import { CURRENCY, type ShopifyValue } from './reader.ts'
import type { OrderTax, TaxLine } from '../schema.ts'
import { money, requireDone, SHIPPING_TITLE, taxRate, variantGid } from './orders.ts'

/** @throws StorePlatformError `refused` for another currency */
export function requireDollars(currency: string): void {
  if (currency !== CURRENCY)
    throw new StorePlatformError(
      'refused',
      `The shop's currency is ${currency}; only shops in ${CURRENCY} can sell here.`
    )
}

/** @throws StorePlatformError `away` for an unreadable response */
export function readShopInfo(data: ShopifyValue): ShopInfo {
  const shop = data.member('shop')
  const domain = shop.member('myshopifyDomain').text().toLowerCase()
  if (!isShopHost(domain)) shop.member('myshopifyDomain').fail('a domain that ends with .myshopify.com')
  return {
    name: shop.member('name').text(),
    domain,
    handle: shopHandle(domain),
    country: shop.optional('shopAddress')?.optional('countryCodeV2')?.text() ?? null,
    currency: shop.member('currencyCode').text()
  }
}

/** @throws StorePlatformError `credentials` naming missing scopes; a write scope includes its read scope */
export function requireScopes(data: ShopifyValue, needed: readonly string[]): void {
  const had = new Set(
    data
      .member('currentAppInstallation')
      .member('accessScopes')
      .list()
      .map(scope => scope.member('handle').text())
  )
  const missing = needed.filter(scope => !had.has(scope) && !had.has(scope.replace(/^read_/, 'write_')))
  if (missing.length === 0) return
  throw new StorePlatformError(
    'credentials',
    `The app lacks the ${missing.length === 1 ? 'scope' : 'scopes'} ${missing.join(', ')}: add ${missing.length === 1 ? 'it' : 'them'}, and install the app anew.`,
    { upstreamStatus: 200 }
  )
}

/** A page of a connection; null at the end. */
export interface ConnectionPage {
  readonly nodes: readonly ShopifyValue[]
  readonly next: string | null
}

export function readPage(connection: ShopifyValue): ConnectionPage {
  const info = connection.member('pageInfo')
  return {
    nodes: connection.member('nodes').list(),
    next: info.member('hasNextPage').flag() ? info.member('endCursor').text() : null
  }
}

/** A product, and the cursor of its further variants. */
export interface ProductPage {
  readonly id: string
  readonly product: CatalogProduct
  readonly next: string | null
}

/** Null for a product that cannot be bought here. */
export function readProduct(node: ShopifyValue): ProductPage | null {
  if (!isSold(node)) return null
  const variants = readPage(node.member('variants'))
  const image = node.optional('featuredMedia')?.optional('preview')?.optional('image')?.member('url').text() ?? null
  const product = {
    productId: node.member('legacyResourceId').id(),
    title: node.member('title').text(),
    description: node.member('description').text(),
    imageUrl: image,
    variants: variants.nodes.map(readVariant)
  }
  return { id: node.member('id').text(), product, next: variants.next }
}

export function readVariant(node: ShopifyValue): CatalogVariant {
  return {
    variantId: node.member('legacyResourceId').id(),
    title: node.member('title').text(),
    priceCents: node.member('price').cents(),
    available: node.member('availableForSale').flag()
  }
}

/** The variant, if available in this quantity; null for a deleted one. */
export function readStock(node: ShopifyValue, quantityOf: (variantId: number) => number): number | null {
  if (node.isNull) return null
  const variantId = node.member('legacyResourceId').id()
  if (!node.member('availableForSale').flag() || !isSold(node.member('product'))) return null
  // CONTINUE sells beyond the stock; untracked variants have no count.
  const isCounted =
    node.member('inventoryPolicy').text() === 'DENY' && node.member('inventoryItem').member('tracked').flag()
  if (!isCounted) return variantId
  const left = node.optional('inventoryQuantity')?.integer() ?? 0
  return left >= quantityOf(variantId) ? variantId : null
}

/**
 * Active, and published in the online shop; without gift cards, which external orders cannot issue, and subscriptions.
 */
function isSold(product: ShopifyValue): boolean {
  return (
    product.member('status').text() === 'ACTIVE' &&
    !product.member('publishedAt').isNull &&
    !product.member('isGiftCard').flag() &&
    !product.member('requiresSellingPlan').flag()
  )
}

/** A draft that is computed and never stored. */
export function cartInput({ items, location, shippingCents }: CartQuestion): object {
  return {
    lineItems: items.map(({ variantId, quantity }) => ({ variantId: variantGid(variantId), quantity })),
    shippingAddress: {
      countryCode: location.country,
      ...(location.state === '' ? {} : { provinceCode: location.state }),
      ...(location.zip === '' ? {} : { zip: location.zip })
    },
    shippingLine: { title: SHIPPING_TITLE, priceWithCurrency: money(shippingCents) },
    // The buyer pays the shop's prices.
    acceptAutomaticDiscounts: false
  }
}

/**
 * Current prices and taxes. A shop whose prices include tax adds none on top: the buyer would pay it twice (contract:
 * totalUsd equals subtotal plus shipping plus tax; decision 142). The platform's subtotal and total must agree to the
 * cent, or nothing is sold.
 * @throws StorePlatformError `refused` for what the platform cannot compute, `away` for a response that does not add up
 */
export function readCalculation(data: ShopifyValue, { items, shippingCents }: CartQuestion): Calculation {
  const payload = data.member('draftOrderCalculate')
  requireDone(payload, 'work out tax')
  const draft = payload.member('calculatedDraftOrder')
  requireDollars(draft.member('currencyCode').text())
  for (const warning of draft.member('warnings').list()) {
    // Tax at a location that the platform doubts would be an estimate; other warnings are about bundles and discounts.
    if (/address|region|tax/i.test(`${warning.member('field').text()} ${warning.member('errorCode').text()}`)) {
      throw new StorePlatformError(
        'refused',
        `The store platform did not work out tax: ${plainWords(warning.member('message').text())}`,
        { upstreamStatus: 200 }
      )
    }
  }
  const lines = readLines(draft)
  const goods = items.reduce((sum, { variantId, quantity }) => {
    const line = lines.get(variantId) ?? draft.member('lineItems').fail(`a list that has variant ${variantId}`)
    return sum + line.priceCents * quantity
  }, 0)
  const subtotal = readMoney(draft.member('subtotalPriceSet'))
  const shipping = readMoney(draft.member('totalShippingPriceSet'))
  const total = readMoney(draft.member('totalPriceSet'))
  const isIncluded = draft.member('taxesIncluded').flag()
  const taxCents = readMoney(draft.member('totalTaxSet'))
  const onTop = isIncluded ? 0 : taxCents
  if (goods !== subtotal) draft.member('subtotalPriceSet').fail('the sum of its lines')
  if (shipping !== shippingCents)
    draft.member('totalShippingPriceSet').fail(`the ${shippingCents} cents of shipping that were asked for`)
  if (subtotal + shipping + onTop !== total) draft.member('totalPriceSet').fail('the sum of goods, shipping and tax')
  return { lines, taxCents: onTop, tax: readTax(draft, taxCents, subtotal + shipping, isIncluded) }
}

function readLines(draft: ShopifyValue): Map<number, CalculatedLine> {
  const lines = new Map<number, CalculatedLine>()
  for (const line of draft.member('lineItems').list()) {
    lines.set(line.member('variant').member('legacyResourceId').id(), {
      priceCents: readMoney(line.member('originalUnitPriceSet')),
      requiresShipping: line.member('requiresShipping').flag()
    })
  }
  return lines
}

/**
 * Taxes by name and rate, summed over lines and shipping. Each is rounded separately, so the largest takes the missing
 * cent.
 */
function readTax(draft: ShopifyValue, taxCents: number, onCents: number, isIncluded: boolean): OrderTax {
  const found = draft.member('taxLines')
  const given = found.list()
  const byName = new Map<string, TaxLine>()
  for (const line of given) {
    const title = line.member('title').text()
    const cents = readMoney(line.member('priceSet'))
    const rate = line.optional('rate')?.share() ?? taxRate(cents, Math.max(onCents, 1))
    const key = `${rate} ${title}`
    byName.set(key, { title, rate, cents: cents + (byName.get(key)?.cents ?? 0) })
  }
  const lines = [...byName.values()].filter(line => line.cents > 0)
  const missing = taxCents - lines.reduce((sum, line) => sum + line.cents, 0)
  if (missing === 0) return { lines, isIncluded }
  if (Math.abs(missing) > given.length || lines.length === 0) return found.fail('the sum of tax')
  const largest = lines.reduce((most, line) => (line.cents > most.cents ? line : most))
  return { lines: lines.map(line => (line === largest ? { ...line, cents: line.cents + missing } : line)), isIncluded }
}

function readMoney(set: ShopifyValue): number {
  const given = set.member('shopMoney')
  requireDollars(given.member('currencyCode').text())
  return given.member('amount').cents()
}
