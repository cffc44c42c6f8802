/**
 * GraphQL operations of Shopify's Admin API. Tests validate them against the published schemas of 2026-04 and 2026-10.
 */

export interface ShopifyOperation {
  /** For messages, after "asked to". */
  readonly purpose: string
  readonly text: string
  /** Assumed points until a response reports them; Shopify admits a call only with that many in the bucket. */
  readonly cost: number
  readonly isPaid?: true
}

/** Products and variants of a page, whose worst cost stays below 1000 points, the limit of a query. */
const PRODUCTS = 20
const VARIANTS = 20
const MORE_VARIANTS = 100
/** Characters of a description: agents read whole catalogs. */
const DESCRIPTION = 2000
/** Newest orders to scan for one that the search does not find yet. */
const NEWEST = 100

const variantFields = 'legacyResourceId title price availableForSale'

export const SHOP_INFO: ShopifyOperation = {
  purpose: 'describe the shop',
  cost: 10,
  text: `query ShopInfo {
  shop { name myshopifyDomain currencyCode shopAddress { countryCodeV2 } }
  currentAppInstallation { accessScopes { handle } }
}`
}

export const CATALOG_PAGE: ShopifyOperation = {
  purpose: 'list its products',
  cost: 530,
  text: `query CatalogPage($after: String) {
  shop { name currencyCode }
  products(first: ${PRODUCTS}, after: $after, query: "status:active AND published_status:published", sortKey: ID) {
    pageInfo { hasNextPage endCursor }
    nodes {
      id legacyResourceId title description(truncateAt: ${DESCRIPTION}) status publishedAt isGiftCard requiresSellingPlan
      featuredMedia { preview { image { url } } }
      variants(first: ${VARIANTS}) { pageInfo { hasNextPage endCursor } nodes { ${variantFields} } }
    }
  }
}`
}

export const VARIANTS_PAGE: ShopifyOperation = {
  purpose: 'list the variants of a product',
  cost: 110,
  text: `query VariantsPage($id: ID!, $after: String) {
  product(id: $id) {
    variants(first: ${MORE_VARIANTS}, after: $after) { pageInfo { hasNextPage endCursor } nodes { ${variantFields} } }
  }
}`
}

export const STOCK: ShopifyOperation = {
  purpose: 'say what can be bought',
  cost: 60,
  text: `query Stock($ids: [ID!]!) {
  nodes(ids: $ids) {
    ... on ProductVariant {
      legacyResourceId availableForSale inventoryPolicy inventoryQuantity
      inventoryItem { tracked }
      product { status publishedAt isGiftCard requiresSellingPlan }
    }
  }
}`
}

export const TAX: ShopifyOperation = {
  purpose: 'work out prices and tax',
  cost: 60,
  text: `mutation Tax($input: DraftOrderInput!) {
  draftOrderCalculate(input: $input) {
    calculatedDraftOrder {
      currencyCode taxesIncluded
      lineItems { quantity requiresShipping variant { legacyResourceId } originalUnitPriceSet { shopMoney { amount currencyCode } } }
      taxLines { title rate priceSet { shopMoney { amount currencyCode } } }
      warnings { field message errorCode }
      subtotalPriceSet { shopMoney { amount currencyCode } }
      totalShippingPriceSet { shopMoney { amount currencyCode } }
      totalTaxSet { shopMoney { amount currencyCode } }
      totalPriceSet { shopMoney { amount currencyCode } }
    }
    userErrors { field message }
  }
}`
}

/** The draft only reserves goods. */
export const HOLD: ShopifyOperation = {
  purpose: 'hold goods',
  cost: 15,
  isPaid: true,
  text: `mutation Hold($input: DraftOrderInput!) {
  draftOrderCreate(input: $input) {
    draftOrder { id }
    userErrors { field message }
  }
}`
}

export const HELD: ShopifyOperation = {
  purpose: 'say what it holds',
  cost: 5,
  isPaid: true,
  text: `query Held($id: ID!) {
  draftOrder(id: $id) { status reserveInventoryUntil }
}`
}

export const RELEASE: ShopifyOperation = {
  purpose: 'release goods',
  cost: 15,
  text: `mutation Release($input: DraftOrderDeleteInput!) {
  draftOrderDelete(input: $input) {
    deletedId
    userErrors { field message }
  }
}`
}

export const CREATE_ORDER: ShopifyOperation = {
  purpose: 'make an order',
  cost: 30,
  isPaid: true,
  text: `mutation CreateOrder($order: OrderCreateOrderInput!, $options: OrderCreateOptionsInput) {
  orderCreate(order: $order, options: $options) {
    order { id name sourceIdentifier }
    userErrors { code field message }
  }
}`
}

/** By search, which lags, and among the newest orders, which do not. */
export const FIND_ORDER: ShopifyOperation = {
  purpose: 'look for an order',
  cost: 120,
  isPaid: true,
  text: `query FindOrder($query: String!) {
  found: orders(first: 5, query: $query) { nodes { id name sourceIdentifier tags } }
  newest: orders(first: ${NEWEST}, sortKey: CREATED_AT, reverse: true) { nodes { id name sourceIdentifier tags } }
}`
}

export const FULFILMENTS: ShopifyOperation = {
  purpose: 'say how far orders are',
  cost: 230,
  text: `query Fulfilments($ids: [ID!]!) {
  nodes(ids: $ids) {
    ... on Order {
      id cancelledAt displayFulfillmentStatus
      fulfillments(first: 5) { status displayStatus createdAt inTransitAt trackingInfo(first: 1) { company number url } }
    }
  }
}`
}

export const SUBSCRIPTIONS: ShopifyOperation = {
  purpose: 'list its webhooks',
  cost: 60,
  text: `query Subscriptions($uri: String!, $topics: [WebhookSubscriptionTopic!]) {
  webhookSubscriptions(first: 50, uri: $uri, topics: $topics) { nodes { topic uri } }
}`
}

export const SUBSCRIBE: ShopifyOperation = {
  purpose: 'send webhooks',
  cost: 15,
  text: `mutation Subscribe($topic: WebhookSubscriptionTopic!, $webhookSubscription: WebhookSubscriptionInput!) {
  webhookSubscriptionCreate(topic: $topic, webhookSubscription: $webhookSubscription) {
    webhookSubscription { id }
    userErrors { field message }
  }
}`
}

export const TOPICS = [
  'ORDERS_FULFILLED',
  'ORDERS_PARTIALLY_FULFILLED',
  'ORDERS_CANCELLED',
  'FULFILLMENTS_CREATE',
  'FULFILLMENTS_UPDATE'
] as const

export const SCOPES = ['write_orders', 'write_draft_orders', 'read_products', 'read_inventory'] as const
/** Required by both FULFILLMENTS topics. Apps without a secret get no notifications. */
export const NOTICE_SCOPE = 'read_fulfillments'

export const OPERATIONS: readonly ShopifyOperation[] = [
  SHOP_INFO,
  CATALOG_PAGE,
  VARIANTS_PAGE,
  STOCK,
  TAX,
  HOLD,
  HELD,
  RELEASE,
  CREATE_ORDER,
  FIND_ORDER,
  FULFILMENTS,
  SUBSCRIPTIONS,
  SUBSCRIBE
]
