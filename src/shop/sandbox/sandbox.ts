import type { Clock } from '../../platform/system/clock.ts'
import type { Database } from '../../platform/database/database.ts'
import {
  StorePlatformError,
  type Catalog,
  type CatalogProduct,
  type Fulfilment,
  type PlatformOrder,
  type StoreAccess,
  type StorePlatform
} from '../platform.ts'
import type { BuyerLocation } from '../schema.ts'

interface SandboxShopOptions {
  readonly database: Pick<Database, 'sql'>
  readonly clock: Clock
}

/** What every sandbox shop sells. One variant is sold out, to try that. */
const CATALOG: Catalog = {
  storeName: 'Sandbox shop',
  products: [
    product(101, 'Coin mug', 'A stoneware mug with an orange coin on its side. Holds coffee, not keys.', {
      Small: 1250,
      Large: 1590
    }),
    product(102, 'Lightning socks', 'Knitted cotton socks with a bolt at each ankle.', { 'S/M': 995, 'L/XL': 995 }),
    product(103, 'Sticker pack', 'Twelve stickers for the lid of a laptop.', { Default: 420 }),
    product(104, 'Pocket notebook', 'Ninety-six pages that need no charger.', { Plain: 735, Dotted: 785 }),
    product(105, 'Block zero T-shirt', 'Heavy cotton, black, with the first block header in small print.', {
      S: 2400,
      M: 2400,
      L: 2400,
      XL: 2600
    }),
    product(106, 'Precision screwdriver', 'For opening small computers, and closing them again.', { Default: 1849 }),
    product(107, 'A short history of money', 'From shells to satoshis in 180 pages.', {
      Paperback: 1399,
      Hardcover: 2899
    })
  ]
}

/** Variants are numbered within their product; `XL` is sold out. `prices`: cents by title. */
function product(
  productId: number,
  title: string,
  description: string,
  prices: Readonly<Record<string, number>>
): CatalogProduct {
  const variants = Object.entries(prices).map(([title, priceCents], index) => ({
    variantId: productId * 100 + index + 1,
    title,
    priceCents,
    available: title !== 'XL'
  }))
  return { productId, title, description, imageUrl: null, variants }
}

const variants = new Map(
  CATALOG.products.flatMap(({ variants }) => variants.map(variant => [variant.variantId, variant]))
)

/** Milliseconds until an order is fulfilled, and until it is shipped. */
const FULFILLED_AFTER = 60_000
const SHIPPED_AFTER = 120_000

/** Rejected credentials, to try that. */
const INVALID = 'sandbox-invalid'
/** First labels of hosts that fail in one way each. */
const UNAVAILABLE = 'away'
const UNKNOWN = 'unknown'
const FOREIGN = 'euro'
/** A state without a computable tax. */
const UNTAXABLE = 'ZZ'

interface OrderRow {
  number: number
  created_at: Date
}

/**
 * A platform without goods: every shop has the same small catalog, and orders progress with the clock. Refused in
 * production.
 */
export function openSandboxShop({ database: { sql }, clock }: SandboxShopOptions): StorePlatform {
  return {
    kind: 'sandbox',

    async shopInfo(store) {
      open(store)
      const handle = labelOf(store)
      return {
        name: CATALOG.storeName,
        domain: store.domain,
        handle,
        country: 'US',
        currency: handle === FOREIGN ? 'EUR' : 'USD'
      }
    },

    async catalog(store) {
      open(store)
      return CATALOG
    },

    async available(store, items) {
      open(store)
      return new Set(items.map(item => item.variantId).filter(id => variants.get(id)?.available === true))
    },

    async calculate(store, { items, location, shippingCents }) {
      open(store)
      if (location.state === UNTAXABLE)
        throw new StorePlatformError(
          'away',
          'The sandbox works out no tax for the state ZZ, so that its absence can be tried.',
          { upstreamStatus: 503 }
        )
      const lines = new Map(
        items.map(({ variantId }) => [variantId, { priceCents: priceOf(variantId), requiresShipping: true }])
      )
      const goods = items.reduce((sum, { variantId, quantity }) => sum + priceOf(variantId) * quantity, 0)
      const rate = rateOf(location)
      const taxCents = Math.round(((goods + shippingCents) * rate) / 10_000)
      const tax = { title: 'Sandbox sales tax', rate: String(rate / 10_000), cents: taxCents }
      return { lines, taxCents, tax: { lines: taxCents === 0 ? [] : [tax], isIncluded: false } }
    },

    /** Its goods do not run out. */
    hold: async () => null,
    async release() {},

    async createOrder(store, { sourceIdentifier, totalCents }) {
      open(store)
      const [row] = await sql<OrderRow[]>`
        insert into sandbox_shop_orders (storefront_id, source_identifier, total_cents, created_at)
        values (${store.storefrontId}, ${sourceIdentifier}, ${totalCents}, ${new Date(clock.now())})
        returning number, created_at`
      // An insert answers its row or throws.
      return orderOf(row!)
    },

    async findOrder(store, sourceIdentifier) {
      open(store)
      const [row] = await sql<OrderRow[]>`
        select number, created_at from sandbox_shop_orders
        where storefront_id = ${store.storefrontId} and source_identifier = ${sourceIdentifier} order by number limit 1`
      return row === undefined ? null : orderOf(row)
    },

    async fulfilments(store, platformOrderIds) {
      open(store)
      const numbers = platformOrderIds.flatMap(id => /^sbx_([1-9]\d{0,8})$/.exec(id)?.[1] ?? [])
      const rows = await sql<OrderRow[]>`
        select number, created_at from sandbox_shop_orders
        where storefront_id = ${store.storefrontId} and number = any(${numbers.map(Number)}::integer[]) order by number`
      return rows.map(row => fulfilmentOf(row, clock.now()))
    },

    /** Nothing to do: the sandbox is polled. */
    async subscribe() {},

    readNotification() {
      throw new StorePlatformError('credentials', 'The sandbox sends no notifications.')
    }
  }
}

function orderOf({ number }: OrderRow): PlatformOrder {
  return { platformOrderId: `sbx_${number}`, orderNumber: `#${number}` }
}

function fulfilmentOf(row: OrderRow, now: number): Fulfilment {
  const created = row.created_at.getTime()
  const isShipped = now - created >= SHIPPED_AFTER
  const number = `SBX${String(row.number).padStart(9, '0')}`
  return {
    platformOrderId: orderOf(row).platformOrderId,
    isFulfilled: now - created >= FULFILLED_AFTER,
    isShipped,
    isCanceled: false,
    tracking: isShipped
      ? { number, carrier: 'Sandbox Post', url: `https://example.com/track/${number}` }
      : { number: null, carrier: null, url: null },
    shippedAt: isShipped ? created + SHIPPED_AFTER : null
  }
}

/** @throws StorePlatformError for simulated faults */
function open(store: StoreAccess): void {
  switch (labelOf(store)) {
    case UNAVAILABLE:
      throw new StorePlatformError('away', `The shop ${store.domain} does not answer.`, { upstreamStatus: 503 })
    case UNKNOWN:
      throw new StorePlatformError('shop', `There is no shop at ${store.domain}.`, { upstreamStatus: 404 })
  }
  if ([store.adminApiToken, store.clientSecret].some(secret => secret?.reveal() === INVALID))
    throw new StorePlatformError('credentials', 'The shop does not accept these credentials.', { upstreamStatus: 401 })
}

function labelOf({ domain }: StoreAccess): string {
  return domain.split('.', 1)[0] ?? domain
}

function priceOf(variantId: number): number {
  const variant = variants.get(variantId)
  if (variant === undefined)
    throw new StorePlatformError('refused', `There is no variant ${variantId}.`, { upstreamStatus: 422 })
  return variant.priceCents
}

/** An invented tax rate in hundredths of a percent. */
function rateOf({ country, state }: BuyerLocation): number {
  if (country !== 'US') return 0
  return state === 'CA' ? 725 : 500
}
