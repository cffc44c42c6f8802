import type { CatalogProduct, CatalogVariant, ShopInfo } from '../platform.ts'
import { StorePlatformError } from '../platform.ts'
import { isShopHost, shopHandle } from './http.ts'
import type { ShopifyValue } from './reader.ts'

/** All amounts are in US dollars (decision 142). */
export const CURRENCY = 'USD'

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
