import { Type, type StaticDecode } from 'typebox'
import { nullable, SafeInteger, mapped } from '../../engine/formats/response-schema.ts'
import {
  StorePlatformError,
  type CatalogProduct,
  type CatalogVariant,
  type ShopInfo,
  type CalculatedLine,
  type Calculation,
  type CartQuestion
} from '../platform.ts'
import type { OrderTax, TaxLine } from '../schema.ts'
import { isShopHost, shopHandle, redactedLine } from './http.ts'
import { money, mutationPayload, requireDone, SHIPPING_TITLE, taxRate, variantGid } from './orders.ts'
import { Cents, Dollars, NumericId, requireShopify, unusableShopify, ShopMoney, Share } from './responses.ts'

const Shop = Type.Object({
  shop: Type.Object({
    name: Type.String(),
    myshopifyDomain: Type.String(),
    currencyCode: Type.String(),
    shopAddress: nullable(Type.Object({ countryCodeV2: nullable(Type.String()) }))
  })
})

/** @throws StorePlatformError `away` for an unreadable response */
export function readShopInfo(data: unknown): ShopInfo {
  const { name, myshopifyDomain, currencyCode: currency, shopAddress } = requireShopify(Shop, data).shop
  const domain = myshopifyDomain.toLowerCase()
  if (!isShopHost(domain)) throw unusableShopify('data.shop.myshopifyDomain does not end with .myshopify.com')
  return { name, domain, handle: shopHandle(domain), country: shopAddress?.countryCodeV2 ?? null, currency }
}

const Scopes = Type.Object({
  currentAppInstallation: Type.Object({ accessScopes: Type.Array(Type.Object({ handle: Type.String() })) })
})

/** @throws StorePlatformError `credentials` naming missing scopes; a write scope includes its read scope */
export function requireScopes(data: unknown, needed: readonly string[]): void {
  const { accessScopes } = requireShopify(Scopes, data).currentAppInstallation
  const had = new Set(accessScopes.map(({ handle }) => handle))
  const missing = needed.filter(scope => !had.has(scope) && !had.has(scope.replace(/^read_/, 'write_')))
  if (missing.length === 0) return
  throw new StorePlatformError(
    'credentials',
    `The app lacks the ${missing.length === 1 ? 'scope' : 'scopes'} ${missing.join(', ')}: add ${missing.length === 1 ? 'it' : 'them'}, and install the app again.`,
    { upstreamStatus: 200 }
  )
}

const PageInfo = Type.Object({ hasNextPage: Type.Boolean(), endCursor: nullable(Type.String()) })
const Variant = Type.Object({
  legacyResourceId: NumericId,
  title: Type.String(),
  price: Cents,
  availableForSale: Type.Boolean()
})
const Variants = Type.Object({ pageInfo: PageInfo, nodes: Type.Array(Variant) })

function nextOf({ hasNextPage, endCursor }: { readonly hasNextPage: boolean; readonly endCursor: string | null }) {
  if (hasNextPage && endCursor === null) throw unusableShopify('pageInfo has no endCursor')
  return hasNextPage ? endCursor : null
}

const CatalogPage = Type.Object({
  shop: Type.Object({ currencyCode: Dollars, name: Type.String() }),
  products: Type.Object({ pageInfo: PageInfo, nodes: Type.Array(Type.Unknown()) })
})

export function readCatalogPage(data: unknown): {
  readonly storeName: string
  readonly products: readonly ProductPage[]
  readonly next: string | null
} {
  const { shop, products } = requireShopify(CatalogPage, data)
  return {
    storeName: shop.name,
    products: products.nodes.flatMap(node => readProduct(node) ?? []),
    next: nextOf(products.pageInfo)
  }
}

export interface ProductPage {
  readonly id: string
  readonly product: CatalogProduct
  readonly next: string | null
}

const Product = Type.Object({
  id: Type.String(),
  legacyResourceId: NumericId,
  title: Type.String(),
  description: Type.String(),
  featuredMedia: nullable(
    Type.Object({ preview: nullable(Type.Object({ image: nullable(Type.Object({ url: Type.String() })) })) })
  ),
  variants: Variants
})

/** Null for a product that cannot be bought here. */
function readProduct(node: unknown): ProductPage | null {
  if (!isSold(node)) return null
  const { id, legacyResourceId, title, description, featuredMedia, variants } = requireShopify(Product, node, 'product')
  const product = {
    productId: legacyResourceId,
    title,
    description,
    imageUrl: featuredMedia?.preview?.image?.url ?? null,
    variants: variants.nodes.map(variantOf)
  }
  return { id, product, next: nextOf(variants.pageInfo) }
}

const VariantsPage = Type.Object({ product: nullable(Type.Object({ variants: Variants })) })

/** Null where the product is gone. */
export function readVariants(
  data: unknown
): { readonly variants: readonly CatalogVariant[]; readonly next: string | null } | null {
  const { product } = requireShopify(VariantsPage, data)
  if (product === null) return null
  return { variants: product.variants.nodes.map(variantOf), next: nextOf(product.variants.pageInfo) }
}

function variantOf({ legacyResourceId, title, price, availableForSale }: StaticDecode<typeof Variant>): CatalogVariant {
  return { variantId: legacyResourceId, title, priceCents: price, available: availableForSale }
}

const Stock = Type.Object({
  nodes: Type.Array(
    nullable(
      Type.Object({
        legacyResourceId: NumericId,
        availableForSale: Type.Boolean(),
        inventoryPolicy: Type.String(),
        inventoryQuantity: nullable(SafeInteger),
        inventoryItem: Type.Object({ tracked: Type.Boolean() }),
        product: Type.Unknown()
      })
    )
  )
})

export function readStock(data: unknown, quantityOf: (variantId: number) => number): number[] {
  return requireShopify(Stock, data).nodes.flatMap(node => {
    if (node === null || !node.availableForSale || !isSold(node.product)) return []
    const { legacyResourceId: variantId, inventoryPolicy, inventoryItem, inventoryQuantity } = node
    // CONTINUE sells beyond the stock; untracked variants have no count.
    const isCounted = inventoryPolicy === 'DENY' && inventoryItem.tracked
    return !isCounted || (inventoryQuantity ?? 0) >= quantityOf(variantId) ? [variantId] : []
  })
}

const Sale = Type.Object({
  status: Type.String(),
  publishedAt: nullable(Type.Unknown()),
  isGiftCard: Type.Boolean(),
  requiresSellingPlan: Type.Boolean()
})

/**
 * Active, and published in the online shop; without gift cards, which external orders cannot issue, and subscriptions.
 */
function isSold(product: unknown): boolean {
  const { status, publishedAt, isGiftCard, requiresSellingPlan } = requireShopify(Sale, product, 'product')
  return status === 'ACTIVE' && publishedAt !== null && !isGiftCard && !requiresSellingPlan
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
 * Tax at a location that the platform doubts would be an estimate; other warnings are about bundles and discounts.
 * @throws StorePlatformError `refused`
 */
const Warning = mapped(
  Type.Object({ field: Type.String(), errorCode: Type.String(), message: Type.String() }),
  ({ field, errorCode, message }) => {
    if (!/address|region|tax/i.test(`${field} ${errorCode}`)) return message
    throw new StorePlatformError('refused', `The store platform did not work out tax: ${redactedLine(message)}`, {
      upstreamStatus: 200
    })
  }
)

/** Currency and warnings are looked at first: they say what is wrong with the rest. */
const Draft = Type.Object({
  currencyCode: Dollars,
  warnings: Type.Array(Warning),
  taxesIncluded: Type.Boolean(),
  lineItems: Type.Array(
    Type.Object({
      variant: Type.Object({ legacyResourceId: NumericId }),
      originalUnitPriceSet: ShopMoney,
      requiresShipping: Type.Boolean()
    })
  ),
  taxLines: Type.Array(Type.Object({ title: Type.String(), priceSet: ShopMoney, rate: nullable(Share) })),
  subtotalPriceSet: ShopMoney,
  totalShippingPriceSet: ShopMoney,
  totalTaxSet: ShopMoney,
  totalPriceSet: ShopMoney
})

/**
 * Current prices and taxes. A shop whose prices include tax adds none on top: the buyer would pay it twice (contract:
 * totalUsd equals subtotal plus shipping plus tax; decision 142). The platform's subtotal and total must agree to the
 * cent, or nothing is sold.
 * @throws StorePlatformError `refused` for what the platform cannot compute, `away` for a response that does not add up
 */
export function readCalculation(data: unknown, { items, shippingCents }: CartQuestion): Calculation {
  const { userErrors, calculatedDraftOrder } = mutationPayload(data, 'draftOrderCalculate')
  requireDone(userErrors, 'work out tax')
  const draft = requireShopify(Draft, calculatedDraftOrder, 'calculatedDraftOrder')
  const lines = new Map<number, CalculatedLine>(
    draft.lineItems.map(({ variant, originalUnitPriceSet: priceCents, requiresShipping }) => [
      variant.legacyResourceId,
      { priceCents, requiresShipping }
    ])
  )
  const goods = items.reduce((sum, { variantId, quantity }) => {
    const line = lines.get(variantId)
    if (line === undefined) throw unusableShopify(`lineItems has no variant ${variantId}`)
    return sum + line.priceCents * quantity
  }, 0)
  const { subtotalPriceSet: subtotal, totalShippingPriceSet: shipping, totalTaxSet: tax, taxesIncluded } = draft
  const onTop = taxesIncluded ? 0 : tax
  if (goods !== subtotal) throw unusableShopify('subtotalPriceSet is not the sum of its lines')
  if (shipping !== shippingCents)
    throw unusableShopify(`totalShippingPriceSet is not the ${shippingCents} cents that were asked for`)
  if (subtotal + shipping + onTop !== draft.totalPriceSet)
    throw unusableShopify('totalPriceSet is not the sum of goods, shipping and tax')
  return { lines, taxCents: onTop, tax: taxOf(draft, subtotal + shipping) }
}

/**
 * Taxes by name and rate, summed over lines and shipping. Each is rounded separately, so the largest takes the missing
 * cent.
 */
function taxOf(
  { taxLines, totalTaxSet: taxCents, taxesIncluded: isIncluded }: StaticDecode<typeof Draft>,
  onCents: number
): OrderTax {
  const byName = new Map<string, TaxLine>()
  for (const { title, priceSet: cents, ...given } of taxLines) {
    const rate = given.rate ?? taxRate(cents, Math.max(onCents, 1))
    const key = `${rate} ${title}`
    byName.set(key, { title, rate, cents: cents + (byName.get(key)?.cents ?? 0) })
  }
  const lines = [...byName.values()].filter(line => line.cents > 0)
  const missing = taxCents - lines.reduce((sum, line) => sum + line.cents, 0)
  if (missing === 0) return { lines, isIncluded }
  if (Math.abs(missing) > taxLines.length || lines.length === 0)
    throw unusableShopify('totalTaxSet is not the sum of taxLines')
  const largest = lines.reduce((most, line) => (line.cents > most.cents ? line : most))
  return { lines: lines.map(line => (line === largest ? { ...line, cents: line.cents + missing } : line)), isIncluded }
}
