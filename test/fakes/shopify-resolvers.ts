import { GraphQLError } from 'graphql'
import {
  dollars,
  idOf,
  UserError,
  type DraftInput,
  type FakeDraft,
  type FakeFulfilment,
  type FakeOrder,
  type FakeProduct,
  type FakeShop,
  type FakeVariant,
  type OrderInput
} from './shopify-shop.ts'

/** A webhook subscription. */
export interface FakeSubscription {
  readonly id: number
  readonly topic: string
  readonly uri: string
}

/** What the resolvers work on. */
export interface FakeWorld {
  readonly shop: FakeShop
  readonly subscriptions: FakeSubscription[]
  /** The real one takes https only; tests have receivers on loopback. */
  readonly takesPlainWebhooks: boolean
  /** Of the app. */
  readonly scopes: ReadonlySet<string>
}

interface PageArgs {
  readonly first?: number
  readonly after?: string | null
  readonly query?: string
  readonly reverse?: boolean
}

/**
 * The root value of the schema's execution; members that are functions are resolvers. Nothing beyond what is asked for
 * here is answered.
 */
export function rootOf({ shop, subscriptions, takesPlainWebhooks, scopes }: FakeWorld): object {
  const needs = (...any: string[]): void => {
    if (any.some(scope => scopes.has(scope) || scopes.has(scope.replace(/^read_/, 'write_')))) return
    throw new GraphQLError(
      `Access denied. Required access: ${any.map(scope => `\`${scope}\``).join(' or ')} access scope.`,
      { extensions: { code: 'ACCESS_DENIED' } }
    )
  }
  return {
    currentAppInstallation: () => ({ accessScopes: [...scopes].map(handle => ({ handle, description: handle })) }),
    shop: () => ({
      name: shop.name,
      myshopifyDomain: shop.domain,
      currencyCode: shop.currency,
      taxesIncluded: shop.taxesIncluded,
      taxShipping: shop.taxShipping,
      shopAddress: { countryCodeV2: shop.country }
    }),
    products: (args: PageArgs) =>
      needs('read_products') ??
      connection(
        shop.products
          .filter(product => fits(args.query, productTerm(product)))
          .map(product => productView(shop, product)),
        args
      ),
    product: ({ id }: { id: string }) => {
      const product = shop.products.find(held => held.id === idOf(id))
      return product === undefined ? null : productView(shop, product)
    },
    orders: (args: PageArgs) => {
      needs('read_orders')
      const found =
        args.query === undefined
          ? shop.orders
          : shop.orders.filter(order => order.isIndexed && fits(args.query, orderTerm(order)))
      return connection((args.reverse === true ? found.toReversed() : found).map(orderView), args)
    },
    nodes: ({ ids }: { ids: readonly string[] }) => ids.map(id => nodeView(shop, id)),
    webhookSubscriptions: (args: PageArgs & { uri?: string; topics?: readonly string[] }) =>
      connection(
        subscriptions.filter(
          ({ uri, topic }) =>
            (args.uri === undefined || args.uri === uri) && (args.topics === undefined || args.topics.includes(topic))
        ),
        args
      ),
    draftOrderCalculate: ({ input }: { input: DraftInput }) =>
      needs('write_draft_orders') ?? judged('calculatedDraftOrder', () => draftView(shop, input)),
    draftOrderCreate: ({ input }: { input: DraftInput }) =>
      needs('write_draft_orders') ?? judged('draftOrder', () => draftOrderView(shop.createDraft(input))),
    draftOrderDelete: ({ input: { id } }: { input: { id: string } }) =>
      needs('write_draft_orders') ??
      judged('deletedId', () => {
        shop.deleteDraft(idOf(id))
        return id
      }),
    draftOrder: ({ id }: { id: string }) => {
      needs('read_draft_orders')
      shop.lapse()
      const draft = shop.drafts.find(held => held.id === idOf(id))
      return draft === undefined ? null : draftOrderView(draft)
    },
    orderCreate: ({ order, options }: { order: OrderInput; options?: Readonly<Record<string, unknown>> }) =>
      needs('write_orders') ?? judged('order', () => orderView(shop.createOrder(order, options ?? {}))),
    webhookSubscriptionCreate: ({
      topic,
      webhookSubscription: { uri = '' }
    }: {
      topic: string
      webhookSubscription: { uri?: string }
    }) =>
      needs(topic.startsWith('FULFILLMENTS_') ? 'read_fulfillments' : 'read_orders') ??
      judged('webhookSubscription', () => {
        if (!uri.startsWith('https://') && !(takesPlainWebhooks && uri.startsWith('http://')))
          throw new UserError(
            'INVALID',
            ['webhookSubscription', 'callbackUrl'],
            'Address protocol http:// is not supported'
          )
        if (subscriptions.some(held => held.topic === topic && held.uri === uri))
          throw new UserError(
            'INVALID',
            ['webhookSubscription', 'callbackUrl'],
            'Address for this topic has already been taken'
          )
        const subscription = { id: shop.id(), topic, uri }
        subscriptions.push(subscription)
        return { ...subscription, id: `gid://shopify/WebhookSubscription/${subscription.id}` }
      })
  }
}

function judged(member: string, run: () => unknown): object {
  try {
    return { [member]: run(), userErrors: [] }
  } catch (error) {
    if (!(error instanceof UserError)) throw error
    return { [member]: null, userErrors: [{ code: error.code, field: error.field, message: error.message }] }
  }
}

/**
 * Terms joined by AND, or by OR, as `name:value` with or without quotes; what is not known here is an error, so that a
 * typing mistake finds nothing by luck.
 */
function fits(query: string | undefined, term: (name: string, value: string) => boolean): boolean {
  if (query === undefined) return true
  const holds = (text: string): boolean => {
    const match = /^(\w+):"?([^"]*)"?$/.exec(text.trim())
    if (match === null) throw new Error(`the fake does not know the term ${text}`)
    return term(match[1] ?? '', match[2] ?? '')
  }
  return query.includes(' OR ') ? query.split(' OR ').some(holds) : query.split(' AND ').every(holds)
}

function productTerm(product: FakeProduct): (name: string, value: string) => boolean {
  return (name, value) => {
    if (name === 'status') return product.status.toLowerCase() === value
    if (name === 'published_status' && value === 'published') return product.publishedAt !== null
    throw new Error(`the fake does not know ${name}:${value}`)
  }
}

function orderTerm({ input }: FakeOrder): (name: string, value: string) => boolean {
  return (name, value) => {
    if (name === 'source_identifier') return input.sourceIdentifier === value
    if (name === 'tag') return (input.tags ?? []).some(tag => tag.toLowerCase() === value.toLowerCase())
    throw new Error(`the fake does not know ${name}:${value}`)
  }
}

function connection(all: readonly unknown[], { first = 10, after = null }: PageArgs): object {
  const from = after === null ? 0 : Number(Buffer.from(after, 'base64url').toString()) + 1
  const nodes = all.slice(from, from + first)
  const last = from + nodes.length - 1
  return {
    nodes,
    pageInfo: {
      hasNextPage: last < all.length - 1,
      hasPreviousPage: from > 0,
      endCursor: nodes.length === 0 ? null : Buffer.from(String(last)).toString('base64url')
    }
  }
}

function productView(shop: FakeShop, product: FakeProduct): object {
  return {
    __typename: 'Product',
    id: `gid://shopify/Product/${product.id}`,
    legacyResourceId: String(product.id),
    title: product.title,
    description: ({ truncateAt }: { truncateAt?: number }) => product.description.slice(0, truncateAt),
    status: product.status,
    publishedAt: product.publishedAt,
    isGiftCard: product.isGiftCard,
    requiresSellingPlan: product.requiresSellingPlan,
    featuredMedia:
      product.imageUrl === null ? null : { __typename: 'MediaImage', preview: { image: { url: product.imageUrl } } },
    variants: (args: PageArgs) =>
      connection(
        product.variants.map(variant => variantView(shop, variant)),
        args
      )
  }
}

function variantView(shop: FakeShop, variant: FakeVariant): object {
  const isCounted = variant.tracked && variant.policy === 'DENY'
  return {
    __typename: 'ProductVariant',
    id: `gid://shopify/ProductVariant/${variant.id}`,
    legacyResourceId: String(variant.id),
    title: variant.title,
    price: dollars(variant.priceCents),
    availableForSale: !isCounted || variant.stock > 0,
    inventoryQuantity: variant.stock,
    inventoryPolicy: variant.policy,
    inventoryItem: { tracked: variant.tracked },
    product: () => {
      const product = shop.productOf(variant.id)
      return product === undefined ? null : productView(shop, product)
    }
  }
}

function nodeView(shop: FakeShop, id: string): object | null {
  if (id.startsWith('gid://shopify/ProductVariant/')) {
    const variant = shop.variant(idOf(id))
    return variant === undefined ? null : variantView(shop, variant)
  }
  const order = id.startsWith('gid://shopify/Order/') ? shop.orders.find(held => held.id === idOf(id)) : undefined
  return order === undefined ? null : orderView(order)
}

function orderView(order: FakeOrder): object {
  return {
    __typename: 'Order',
    id: `gid://shopify/Order/${order.id}`,
    legacyResourceId: String(order.id),
    name: order.name,
    sourceIdentifier: order.input.sourceIdentifier ?? null,
    tags: order.input.tags ?? [],
    cancelledAt: order.cancelledAt,
    displayFulfillmentStatus: order.fulfillmentStatus,
    fulfillments: ({ first }: { first?: number }) => order.fulfilments.slice(0, first).map(fulfilmentView)
  }
}

function fulfilmentView({
  status,
  displayStatus,
  createdAt,
  inTransitAt,
  company,
  number,
  url
}: FakeFulfilment): object {
  return {
    status,
    displayStatus,
    createdAt,
    inTransitAt,
    trackingInfo: company === null && number === null && url === null ? [] : [{ company, number, url }]
  }
}

function draftOrderView({ id, until, isReserving, tags }: FakeDraft): object {
  return {
    id: `gid://shopify/DraftOrder/${id}`,
    status: 'OPEN',
    reserveInventoryUntil: isReserving ? new Date(until).toISOString() : null,
    tags
  }
}

function draftView(shop: FakeShop, input: DraftInput): object {
  const { lines, taxLines, subtotal, shipping, tax, total } = shop.calculate(input)
  const set = (cents: number): object => ({ shopMoney: { amount: dollars(cents), currencyCode: shop.currency } })
  return {
    currencyCode: shop.currency,
    taxesIncluded: shop.taxesIncluded,
    warnings: shop.taxWarnings.map(warning => ({
      __typename: 'DraftOrderMarketRegionCountryCodeNotSupportedWarning',
      ...warning
    })),
    lineItems: lines.map(({ variant, quantity }) => ({
      quantity,
      requiresShipping: variant.requiresShipping,
      variant: variantView(shop, variant),
      originalUnitPriceSet: set(variant.priceCents)
    })),
    taxLines: taxLines.map(({ title, rate, cents }) => ({ title, rate, priceSet: set(cents) })),
    subtotalPriceSet: set(subtotal),
    totalShippingPriceSet: set(shipping),
    totalTaxSet: set(tax),
    totalPriceSet: set(total)
  }
}
