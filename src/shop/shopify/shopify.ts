import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { OutboundCall } from '../../engine/upstream/outbound.ts'
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
  readPage,
  readProduct,
  readShopInfo,
  readStock,
  readVariant,
  requireDollars,
  requireScopes,
  type ProductPage,
  cartInput,
  readCalculation
} from './catalog.ts'
import { plainWords, type ShopifySettings } from './http.ts'
import { readFulfilment, readShopifyNotification } from './fulfilment.ts'
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
  orderInput,
  orderQuery,
  readCreatedOrder,
  readFoundOrder,
  requireDone,
  variantGid
} from './orders.ts'

export interface ShopifyOptions {
  /** Guarded: a merchant names the domain. */
  readonly call: OutboundCall
  readonly clock: Clock
  readonly log: Log
  /** Section `storefront`. */
  readonly config: ShopifySettings
}

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
      const data = await calls.ask(store, VARIANTS_PAGE, { id, after })
      const found = data.optional('product')
      if (found === null) break
      const page = readPage(found.member('variants'))
      variants.push(...page.nodes.map(readVariant))
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
        const data = await calls.ask(store, CATALOG_PAGE, { after })
        const shop = data.member('shop')
        requireDollars(shop.member('currencyCode').text())
        storeName = shop.member('name').text()
        const page = readPage(data.member('products'))
        for (const node of page.nodes) {
          const product = readProduct(node)
          if (product !== null) products.push(await allVariants(store, product))
        }
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
      return new Set(
        data
          .member('nodes')
          .list()
          .flatMap(node => readStock(node, id => quantities.get(id) ?? Infinity) ?? [])
      )
    },

    async calculate(store, question) {
      return readCalculation(await calls.ask(store, TAX, { input: cartInput(question) }), question)
    },

    async hold(store, request) {
      const payload = (await calls.ask(store, HOLD, { input: holdInput(request) })).member('draftOrderCreate')
      requireDone(payload, 'hold the goods')
      return payload.member('draftOrder').member('id').text()
    },

    async release(store, holdId) {
      const payload = (await calls.ask(store, RELEASE, { input: { id: holdId } })).member('draftOrderDelete')
      const gone = payload
        .member('userErrors')
        .list()
        .every(error => /not found|does not exist/i.test(error.member('message').text()))
      if (!gone) requireDone(payload, 'release the goods')
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
        const data = await calls.ask(store, FULFILMENTS, { ids: platformOrderIds.slice(from, from + ORDERS_AT_A_TIME) })
        found.push(
          ...data
            .member('nodes')
            .list()
            .flatMap(node => readFulfilment(node) ?? [])
        )
      }
      return found
    },

    async subscribe(store, address) {
      const data = await calls.ask(store, SUBSCRIPTIONS, { uri: address, topics: TOPICS })
      const had = new Set(
        data
          .member('webhookSubscriptions')
          .member('nodes')
          .list()
          .flatMap(node => (node.member('uri').text() === address ? node.member('topic').text() : []))
      )
      for (const topic of TOPICS) {
        if (had.has(topic)) continue
        const payload = (
          await calls.ask(store, SUBSCRIBE, { topic, webhookSubscription: { uri: address, format: 'JSON' } })
        ).member('webhookSubscriptionCreate')
        const words = payload
          .member('userErrors')
          .list()
          .map(error => error.member('message').text())
        // Another process subscribed meanwhile.
        if (words.every(text => /already been taken/i.test(text))) continue
        throw new StorePlatformError(
          'refused',
          `The store platform refused to send webhooks: ${plainWords(words.join(' '))}`,
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
