import { createHmac } from 'node:crypto'
import { jsonOrUndefined } from '../../platform/system/json.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { equalText, type Secret } from '../../platform/keys/secrets.ts'
import { isConnectionFault, type Database } from '../../platform/database/database.ts'
import {
  StorePlatformError,
  type Calculation,
  type CartQuestion,
  type Catalog,
  type CatalogVariant,
  type Fulfilment,
  type NewPlatformOrder,
  type ShopInfo,
  type StoreAccess,
  type PlatformOrder,
  type StorePlatform
} from '../platform.ts'
import { SANDBOX_CATALOG, sandboxRate, taxOf } from './catalog.ts'

interface SandboxShopOptions {
  readonly database: Pick<Database, 'sql'>
  readonly clock: Clock
}

/** Milliseconds until an order is fulfilled, and until it is shipped. */
const FULFILLED_AFTER = 60_000
const SHIPPED_AFTER = 120_000

/** Hex HMAC-SHA256 of the raw body under the store's secret or token. */
export const SANDBOX_SIGNATURE = 'x-sandbox-signature'

/** Rejected credentials, to try that. */
const INVALID = 'sandbox-invalid'
/** First labels of hosts that fail in one way each. */
const UNAVAILABLE = 'away'
const UNKNOWN = 'unknown'
const FOREIGN = 'euro'
/** A state without a computable tax. */
const UNTAXABLE = 'ZZ'

/**
 * A platform without goods: every shop has the same small catalog, and orders progress with the clock. Refused in
 * production.
 */
export function openSandboxShop(options: SandboxShopOptions): StorePlatform {
  return new SandboxShop(options)
}

const variants: ReadonlyMap<number, CatalogVariant> = new Map(
  SANDBOX_CATALOG.products.flatMap(product => product.variants.map(variant => [variant.variantId, variant]))
)

interface OrderRow {
  number: number
  created_at: Date
}

class SandboxShop implements StorePlatform {
  readonly kind = 'sandbox'
  readonly #options: SandboxShopOptions

  constructor(options: SandboxShopOptions) {
    this.#options = options
  }

  async shopInfo(store: StoreAccess): Promise<ShopInfo> {
    open(store)
    const handle = labelOf(store)
    return {
      name: SANDBOX_CATALOG.storeName,
      domain: store.domain,
      handle,
      country: 'US',
      currency: handle === FOREIGN ? 'EUR' : 'USD'
    }
  }

  async catalog(store: StoreAccess): Promise<Catalog> {
    open(store)
    return SANDBOX_CATALOG
  }

  async available(store: StoreAccess, items: CartQuestion['items']): Promise<ReadonlySet<number>> {
    open(store)
    return new Set(items.map(item => item.variantId).filter(id => variants.get(id)?.available === true))
  }

  async calculate(store: StoreAccess, { items, location, shippingCents }: CartQuestion): Promise<Calculation> {
    open(store)
    if (location.state === UNTAXABLE)
      throw new StorePlatformError(
        'away',
        'The sandbox works out no tax for the state ZZ, so that its absence can be tried.',
        { upstreamStatus: 503 }
      )
    const goods = items.reduce((sum, { variantId, quantity }) => sum + sold(variantId).priceCents * quantity, 0)
    const rate = sandboxRate(location)
    const taxCents = taxOf(goods + shippingCents, rate)
    return {
      lines: new Map(
        items.map(({ variantId }) => [variantId, { priceCents: sold(variantId).priceCents, requiresShipping: true }])
      ),
      taxCents,
      tax: {
        lines: taxCents === 0 ? [] : [{ title: 'Sandbox sales tax', rate: String(rate / 10_000), cents: taxCents }],
        isIncluded: false
      }
    }
  }

  /** Its goods do not run out. */
  async hold(store: StoreAccess): Promise<null> {
    open(store)
    return null
  }

  async release(store: StoreAccess): Promise<void> {
    open(store)
  }

  async createOrder(store: StoreAccess, order: NewPlatformOrder): Promise<PlatformOrder> {
    open(store)
    const goods = order.items.reduce((sum, { variantId, quantity, priceCents }) => {
      if (!sold(variantId).available) throw refused(`Variant ${variantId} is sold out.`, true)
      return sum + priceCents * quantity
    }, 0)
    if (goods + order.shippingCents + order.taxCents !== order.totalCents)
      throw refused('The amounts of the order do not add up to its total.')
    const { sql } = this.#options.database
    const [row] = await reaching(sql<OrderRow[]>`
      insert into sandbox_shop_orders (storefront_id, source_identifier, total_cents, created_at)
      values (${store.storefrontId}, ${order.sourceIdentifier}, ${order.totalCents}, ${new Date(this.#options.clock.now())})
      returning number, created_at`)
    // An insert answers its row or throws.
    return named(row!)
  }

  async findOrder(store: StoreAccess, sourceIdentifier: string): Promise<PlatformOrder | null> {
    open(store)
    const { sql } = this.#options.database
    const [row] = await reaching(sql<OrderRow[]>`
      select number, created_at from sandbox_shop_orders
      where storefront_id = ${store.storefrontId} and source_identifier = ${sourceIdentifier} order by number limit 1`)
    return row === undefined ? null : named(row)
  }

  async fulfilments(store: StoreAccess, platformOrderIds: readonly string[]): Promise<Fulfilment[]> {
    open(store)
    const numbers = platformOrderIds.flatMap(id => {
      const number = /^sbx_([1-9]\d{0,8})$/.exec(id)?.[1]
      return number === undefined ? [] : [Number(number)]
    })
    if (numbers.length === 0) return []
    const { sql } = this.#options.database
    const rows = await reaching(sql<OrderRow[]>`
      select number, created_at from sandbox_shop_orders
      where storefront_id = ${store.storefrontId} and number = any(${numbers}::integer[]) order by number`)
    return rows.map(row => this.#fulfilment(row))
  }

  /** Nothing to do: the sandbox is polled. */
  async subscribe(store: StoreAccess): Promise<void> {
    open(store)
  }

  readNotification(store: StoreAccess, headers: ReadonlyMap<string, string>, body: Uint8Array): Fulfilment | null {
    const secret = store.clientSecret ?? store.adminApiToken
    const given = headers.get(SANDBOX_SIGNATURE)
    if (secret === null || given === undefined || !equalText(given, signSandboxNotification(secret, body))) {
      throw new StorePlatformError('credentials', 'The notification is not signed with the secret of the store.')
    }
    return readFulfilment(body)
  }

  #fulfilment({ number, created_at: createdAt }: OrderRow): Fulfilment {
    const age = this.#options.clock.now() - createdAt.getTime()
    const isShipped = age >= SHIPPED_AFTER
    const tracking = `SBX${String(number).padStart(9, '0')}`
    return {
      platformOrderId: orderId(number),
      isFulfilled: age >= FULFILLED_AFTER,
      isShipped,
      isCanceled: false,
      tracking: isShipped
        ? { number: tracking, carrier: 'Sandbox Post', url: `https://example.com/track/${tracking}` }
        : { number: null, carrier: null, url: null },
      shippedAt: isShipped ? createdAt.getTime() + SHIPPED_AFTER : null
    }
  }
}

export function signSandboxNotification(secret: Secret<string>, body: Uint8Array): string {
  return createHmac('sha256', secret.reveal()).update(body).digest('hex')
}

/** @throws StorePlatformError for simulated faults */
function open(store: StoreAccess): void {
  switch (labelOf(store)) {
    case UNAVAILABLE:
      throw new StorePlatformError('away', `The shop ${store.domain} does not answer.`, { upstreamStatus: 503 })
    case UNKNOWN:
      throw new StorePlatformError('shop', `There is no shop at ${store.domain}.`, { upstreamStatus: 404 })
  }
  if ([store.adminApiToken, store.clientSecret].some(secret => secret?.reveal() === INVALID)) {
    throw new StorePlatformError('credentials', 'The shop does not accept these credentials.', { upstreamStatus: 401 })
  }
}

function labelOf({ domain }: StoreAccess): string {
  return domain.split('.', 1)[0] ?? domain
}

function sold(variantId: number): CatalogVariant {
  const variant = variants.get(variantId)
  if (variant === undefined) throw refused(`There is no variant ${variantId}.`)
  return variant
}

function refused(message: string, isSoldOut = false): StorePlatformError {
  return new StorePlatformError('refused', message, { upstreamStatus: 422, isSoldOut })
}

function orderId(number: number): string {
  return `sbx_${number}`
}

function named({ number }: OrderRow): PlatformOrder {
  return { platformOrderId: orderId(number), orderNumber: `#${number}` }
}

/**
 * `{platformOrderId, status: fulfilled | shipped | canceled, trackingNumber?, trackingCarrier?, trackingUrl?,
 * shippedAt?}`, the last in milliseconds; null for another status.
 */
function readFulfilment(body: Uint8Array): Fulfilment | null {
  const value = jsonOrUndefined(body)
  if (value === undefined) throw new StorePlatformError('refused', 'The notification is not JSON.')
  if (typeof value !== 'object' || value === null)
    throw new StorePlatformError('refused', 'The notification is not a JSON object.')
  // Each member is validated below.
  const { platformOrderId, status, trackingNumber, trackingCarrier, trackingUrl, shippedAt } = value as Record<
    string,
    unknown
  >
  if (typeof platformOrderId !== 'string')
    throw new StorePlatformError('refused', 'The notification has no platformOrderId.')
  if (status !== 'fulfilled' && status !== 'shipped' && status !== 'canceled') return null
  const text = (member: unknown): string | null => (typeof member === 'string' ? member : null)
  return {
    platformOrderId,
    isFulfilled: status !== 'canceled',
    isShipped: status === 'shipped',
    isCanceled: status === 'canceled',
    tracking: { number: text(trackingNumber), carrier: text(trackingCarrier), url: text(trackingUrl) },
    shippedAt:
      status === 'shipped' && typeof shippedAt === 'number' && Number.isSafeInteger(shippedAt) ? shippedAt : null
  }
}

async function reaching<T>(work: PromiseLike<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (!isConnectionFault(error)) throw error
    throw new StorePlatformError('away', 'The sandbox shop cannot reach its database.', { cause: error })
  }
}
