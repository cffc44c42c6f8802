import { Type } from 'typebox'
import type { OutboundCall } from '../../engine/upstream/outbound.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import {
  StorePlatformError,
  type CatalogProduct,
  type CatalogVariant,
  type Fulfilment,
  type StoreAccess,
  type StorePlatform
} from '../platform.ts'
import { ShopifyCalls } from './calls.ts'
import {
  readCatalogPage,
  readShopInfo,
  readStock,
  readVariants,
  requireScopes,
  type ProductPage,
  cartInput,
  readCalculation
} from './catalog.ts'
import { readFulfilments, readShopifyNotification } from './fulfilment.ts'
import { redactedLine, type ShopifySettings } from './http.ts'
import {
  CATALOG_PAGE,
  CREATE_ORDER,
  FIND_ORDER,
  FULFILMENTS,
  HELD,
  HOLD,
  NOTICE_SCOPE,
  RELEASE,
  SCOPES,
  SHOP_INFO,
  STOCK,
  SUBSCRIBE,
  SUBSCRIPTIONS,
  TAX,
  TOPICS,
  VARIANTS_PAGE
} from './operations.ts'
import {
  holdInput,
  holds,
  readHold,
  orderInput,
  orderQuery,
  mutationPayload,
  readCreatedOrder,
  readFoundOrder,
  requireDone,
  variantGid
} from './orders.ts'
import { requireShopify } from './responses.ts'

interface ShopifyOptions {
  readonly call: OutboundCall
  readonly clock: Clock
  readonly log: Log
  readonly config: ShopifySettings
}

const Subscriptions = Type.Object({
  webhookSubscriptions: Type.Object({ nodes: Type.Array(Type.Object({ uri: Type.String(), topic: Type.String() })) })
})

/** More pages are a loop. */
const MOST_PAGES = 500
/** Orders per query: their fulfilments cost points too. */
const ORDERS_AT_A_TIME = 20

/**
 * Stores on Shopify's Admin API. Keeps only tokens and points in memory. Merchants' apps need `SCOPES`, checked
 * whenever the shop is described.
 */
export function openShopify(options: ShopifyOptions): StorePlatform {
  const calls = new ShopifyCalls(options)

  const allVariants = async (store: StoreAccess, { id, product, next }: ProductPage): Promise<CatalogProduct> => {
    const variants: CatalogVariant[] = [...product.variants]
    let after = next
    for (let pages = 0; after !== null; pages++) {
      requirePages(pages)
      const page = readVariants(await calls.ask(store, VARIANTS_PAGE, { id, after }))
      if (page === null) break
      variants.push(...page.variants)
      after = page.next
    }
    return { ...product, variants }
  }

  return {
    kind: 'shopify',

    async shopInfo(store) {
      const data = await calls.ask(store, SHOP_INFO)
      requireScopes(data, store.clientSecret === null ? SCOPES : [...SCOPES, NOTICE_SCOPE])
      return readShopInfo(data)
    },

    async catalog(store) {
      const products: CatalogProduct[] = []
      let storeName = ''
      let after: string | null = null
      let pages = 0
      do {
        requirePages(pages++)
        const page = readCatalogPage(await calls.ask(store, CATALOG_PAGE, { after }))
        storeName = page.storeName
        for (const product of page.products) products.push(await allVariants(store, product))
        after = page.next
      } while (after !== null)
      return { storeName, products }
    },

    async available(store, items) {
      const quantities = new Map<number, number>()
      for (const { variantId, quantity } of items)
        quantities.set(variantId, (quantities.get(variantId) ?? 0) + quantity)
      if (quantities.size === 0) return new Set()
      const data = await calls.ask(store, STOCK, { ids: [...quantities.keys()].map(variantGid) })
      return new Set(readStock(data, id => quantities.get(id) ?? Infinity))
    },

    async calculate(store, question) {
      return readCalculation(await calls.ask(store, TAX, { input: cartInput(question) }), question)
    },

    async hold(store, request) {
      return readHold(await calls.ask(store, HOLD, { input: holdInput(request) }))
    },

    async release(store, holdId) {
      const { userErrors } = mutationPayload(
        await calls.ask(store, RELEASE, { input: { id: holdId } }),
        'draftOrderDelete'
      )
      const isGone = userErrors.every(({ message }) => /not found|does not exist/i.test(message))
      if (!isGone) requireDone(userErrors, 'release the goods')
    },

    async createOrder(store, order) {
      const isHeld =
        order.holdId !== null && holds(await calls.ask(store, HELD, { id: order.holdId }), options.clock.now())
      return readCreatedOrder(await calls.ask(store, CREATE_ORDER, { ...orderInput(order, isHeld) }))
    },

    async findOrder(store, sourceIdentifier) {
      return readFoundOrder(
        await calls.ask(store, FIND_ORDER, { query: orderQuery(sourceIdentifier) }),
        sourceIdentifier
      )
    },

    async fulfilments(store, platformOrderIds) {
      const found: Fulfilment[] = []
      for (let from = 0; from < platformOrderIds.length; from += ORDERS_AT_A_TIME) {
        const ids = platformOrderIds.slice(from, from + ORDERS_AT_A_TIME)
        found.push(...readFulfilments(await calls.ask(store, FULFILMENTS, { ids })))
      }
      return found
    },

    async subscribe(store, address) {
      const data = await calls.ask(store, SUBSCRIPTIONS, { uri: address, topics: TOPICS })
      const { nodes } = requireShopify(Subscriptions, data).webhookSubscriptions
      const had = new Set(nodes.filter(({ uri }) => uri === address).map(({ topic }) => topic))
      for (const topic of TOPICS) {
        if (had.has(topic)) continue
        const webhookSubscription = { uri: address, format: 'JSON' }
        const made = await calls.ask(store, SUBSCRIBE, { topic, webhookSubscription })
        const words = mutationPayload(made, 'webhookSubscriptionCreate').userErrors.map(({ message }) => message)
        // Another process subscribed meanwhile.
        if (words.every(text => /already been taken/i.test(text))) continue
        throw new StorePlatformError(
          'refused',
          `The store platform refused to send webhooks: ${redactedLine(words.join(' '))}`,
          { upstreamStatus: 200 }
        )
      }
    },

    readNotification: readShopifyNotification
  }
}

function requirePages(pages: number): void {
  if (pages >= MOST_PAGES)
    throw new StorePlatformError('away', 'The store platform lists more pages than a catalog can have.')
}
