import { type Fulfilment, StorePlatformError, type StoreAccess } from '../platform.ts'
import { ShopifyValue } from './reader.ts'
import type { Tracking } from '../schema.ts'
import { createHmac } from 'node:crypto'
import { equalBytes } from '../../platform/keys/constant-time.ts'

const ORDER_GID = 'gid://shopify/Order/'
/** Fulfilments that were not abandoned. */
const LIVE = new Set(['SUCCESS', 'OPEN', 'PENDING'])
/** Parcels in transit, or delivered. */
const UNDER_WAY = new Set([
  'IN_TRANSIT',
  'OUT_FOR_DELIVERY',
  'ATTEMPTED_DELIVERY',
  'DELIVERED',
  'NOT_DELIVERED',
  'CARRIER_PICKED_UP',
  'DELAYED',
  'PICKED_UP'
])

interface Parcel {
  readonly tracking: Tracking
  readonly isUnderWay: boolean
  readonly since: number | null
}

/** The GraphQL id of a webhook's numeric id. */
function orderGid(id: number): string {
  return `${ORDER_GID}${id}`
}

/** An order of FULFILMENTS; null for a deleted one. */
export function readFulfilment(node: ShopifyValue): Fulfilment | null {
  if (node.isNull) return null
  const parcels = node
    .member('fulfillments')
    .list()
    .filter(given => LIVE.has(given.member('status').text()))
    .map(given => {
      const status = given.optional('displayStatus')?.text() ?? ''
      const [tracking] = given.member('trackingInfo').list()
      return {
        tracking: {
          number: words(tracking?.optional('number')),
          carrier: words(tracking?.optional('company')),
          url: link(tracking?.optional('url'))
        },
        isUnderWay: UNDER_WAY.has(status),
        since: given.optional('inTransitAt')?.time() ?? given.member('createdAt').time()
      }
    })
  return summary(
    node.member('id').text(),
    node.member('displayFulfillmentStatus').text() === 'FULFILLED',
    !node.member('cancelledAt').isNull,
    parcels
  )
}

/** Webhook topics `orders/…`. */
export function readOrderNotification(order: ShopifyValue): Fulfilment {
  const parcels = order.member('fulfillments').list().flatMap(parcelOf)
  const status = order.optional('fulfillment_status')?.text() ?? ''
  return summary(
    orderGid(order.member('id').id()),
    status.toLowerCase() === 'fulfilled',
    !order.member('cancelled_at').isNull,
    parcels
  )
}

/** Webhook topics `fulfillments/…`, which do not say whether the rest of the order is fulfilled. */
export function readFulfilmentNotification(given: ShopifyValue): Fulfilment {
  return summary(orderGid(given.member('order_id').id()), false, false, parcelOf(given))
}

function parcelOf(given: ShopifyValue): Parcel[] {
  if (!LIVE.has((given.optional('status')?.text() ?? '').toUpperCase())) return []
  const status = given.optional('shipment_status')?.text().toUpperCase() ?? ''
  return [
    {
      tracking: {
        number: words(given.optional('tracking_number')) ?? words(given.optional('tracking_numbers')?.list()[0]),
        carrier: words(given.optional('tracking_company')),
        url: link(given.optional('tracking_url')) ?? link(given.optional('tracking_urls')?.list()[0])
      },
      isUnderWay: UNDER_WAY.has(status),
      since: given.optional('created_at')?.time() ?? null
    }
  ]
}

/** Of several parcels the first with tracking is shown. */
function summary(
  platformOrderId: string,
  isFulfilled: boolean,
  isCanceled: boolean,
  parcels: readonly Parcel[]
): Fulfilment {
  const shipped = parcels.filter(({ tracking, isUnderWay }) => tracking.number !== null || isUnderWay)
  const shown = shipped.find(({ tracking }) => tracking.number !== null) ?? shipped[0]
  return {
    platformOrderId,
    isFulfilled,
    isShipped: shown !== undefined,
    isCanceled,
    tracking: shown?.tracking ?? { number: null, carrier: null, url: null },
    shippedAt: shown?.since ?? null
  }
}

function words(given: ShopifyValue | null | undefined): string | null {
  const text = given?.text().trim() ?? ''
  return text === '' ? null : text
}

/** Buyers see it as a link: web addresses only. */
function link(given: ShopifyValue | null | undefined): string | null {
  const text = words(given)
  return text !== null && URL.canParse(text) && /^https?:$/.test(new URL(text).protocol) ? text : null
}

const SIGNATURE = /^[A-Za-z0-9+/]{43}=$/

/**
 * Reads a Shopify webhook about an order; null for other topics. The signature is the base64 HMAC-SHA256 of the raw
 * body under the app's client secret. It does not cover headers: the shop's name is compared with the store's, and the
 * body's shape tells the topics apart.
 * @throws StorePlatformError `credentials` for an invalid signature, `refused` for an unreadable body
 */
export function readShopifyNotification(
  store: StoreAccess,
  headers: ReadonlyMap<string, string>,
  body: Uint8Array
): Fulfilment | null {
  if (store.clientSecret === null)
    throw new StorePlatformError(
      'credentials',
      'This store has no client secret, so that its notifications cannot be checked.'
    )
  const given = headers.get('x-shopify-hmac-sha256') ?? ''
  const expected = createHmac('sha256', store.clientSecret.reveal()).update(body).digest()
  if (!SIGNATURE.test(given) || !equalBytes(Buffer.from(given, 'base64'), expected))
    throw new StorePlatformError('credentials', 'The signature of the notification is not good.')
  if (headers.get('x-shopify-shop-domain')?.toLowerCase() !== store.domain)
    throw new StorePlatformError('credentials', 'The notification is one of another store.')
  const topic = headers.get('x-shopify-topic')?.toLowerCase() ?? ''
  if (topic.startsWith('orders/')) return read(body, readOrderNotification)
  if (topic.startsWith('fulfillments/')) return read(body, readFulfilmentNotification)
  return null
}

function read(body: Uint8Array, reading: (answer: ShopifyValue) => Fulfilment): Fulfilment {
  try {
    return reading(new ShopifyValue(JSON.parse(Buffer.from(body).toString('utf8')), 'notification'))
  } catch (error) {
    if (error instanceof SyntaxError) throw new StorePlatformError('refused', 'The notification is no JSON.')
    if (error instanceof StorePlatformError)
      throw new StorePlatformError('refused', 'The notification cannot be read.', { cause: error })
    throw error
  }
}
