import { createHmac } from 'node:crypto'
import { Type, type StaticDecode } from 'typebox'
import { fitting, mapped, nullable, parseResponse } from '../../engine/formats/response-schema.ts'
import { equalBytes } from '../../platform/keys/secrets.ts'
import { type Fulfilment, StorePlatformError, type StoreAccess } from '../platform.ts'
import type { Tracking } from '../schema.ts'
import { jsonOrUndefined } from '../../platform/system/json.ts'
import { IsoTime, NumericId, requireShopify } from './responses.ts'

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

const Word = Type.Decode(nullable(Type.String()), text => text?.trim() || null)
/** Buyers see it as a link: web addresses only. */
const Link = Type.Decode(Word, linkOf)

const Fulfilments = Type.Object({
  nodes: Type.Array(
    nullable(
      Type.Object({
        id: Type.String(),
        cancelledAt: nullable(Type.Unknown()),
        displayFulfillmentStatus: Type.String(),
        fulfillments: Type.Array(
          Type.Object({
            status: Type.String(),
            displayStatus: nullable(Type.String()),
            createdAt: IsoTime,
            inTransitAt: nullable(IsoTime),
            trackingInfo: Type.Array(Type.Object({ number: Word, company: Word, url: Link }))
          })
        )
      })
    )
  )
})

export function readFulfilments(data: unknown): Fulfilment[] {
  return fitting(requireShopify(Fulfilments, data).nodes).map(order => {
    const parcels = order.fulfillments
      .filter(({ status }) => LIVE.has(status))
      .map(({ displayStatus, createdAt, inTransitAt, trackingInfo: [tracking] }) => ({
        tracking: {
          number: tracking?.number ?? null,
          carrier: tracking?.company ?? null,
          url: tracking?.url ?? null
        },
        isUnderWay: UNDER_WAY.has(displayStatus ?? ''),
        since: inTransitAt ?? createdAt
      }))
    return summary(order.id, order.displayFulfillmentStatus === 'FULFILLED', order.cancelledAt !== null, parcels)
  })
}

const NoticedParcel = Type.Object({
  status: nullable(Type.String()),
  shipment_status: nullable(Type.String()),
  tracking_number: Word,
  tracking_numbers: nullable(Type.Array(Word)),
  tracking_company: Word,
  tracking_url: Link,
  tracking_urls: nullable(Type.Array(Link)),
  created_at: nullable(IsoTime)
})

function parcelOf({ status, shipment_status, created_at, ...given }: StaticDecode<typeof NoticedParcel>): Parcel[] {
  if (!LIVE.has((status ?? '').toUpperCase())) return []
  const tracking = {
    number: given.tracking_number ?? given.tracking_numbers?.[0] ?? null,
    carrier: given.tracking_company,
    url: given.tracking_url ?? given.tracking_urls?.[0] ?? null
  }
  return [{ tracking, isUnderWay: UNDER_WAY.has((shipment_status ?? '').toUpperCase()), since: created_at }]
}

/** Webhook topics `orders/…`. */
const OrderNotification = mapped(
  Type.Object({
    id: NumericId,
    fulfillment_status: nullable(Type.String()),
    cancelled_at: nullable(Type.Unknown()),
    fulfillments: Type.Array(NoticedParcel)
  }),
  ({ id, fulfillment_status, cancelled_at, fulfillments }) =>
    summary(
      orderGid(id),
      (fulfillment_status ?? '').toLowerCase() === 'fulfilled',
      cancelled_at !== null,
      fulfillments.flatMap(parcelOf)
    )
)

/** Webhook topics `fulfillments/…`, which do not say whether the rest of the order is fulfilled. */
const FulfilmentNotification = mapped(
  Type.Object({ order_id: NumericId, ...NoticedParcel.properties }),
  ({ order_id, ...parcel }) => summary(orderGid(order_id), false, false, parcelOf(parcel))
)

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

function linkOf(text: string | null): string | null {
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
  if (topic.startsWith('orders/')) return read(body, OrderNotification)
  if (topic.startsWith('fulfillments/')) return read(body, FulfilmentNotification)
  return null
}

function read(body: Uint8Array, schema: typeof OrderNotification | typeof FulfilmentNotification): Fulfilment {
  const value = jsonOrUndefined(body)
  if (value === undefined) throw new StorePlatformError('refused', 'The notification is no JSON.')
  return parseResponse(schema, value, mismatch => {
    const cause = new Error(mismatch)
    return new StorePlatformError('refused', 'The notification cannot be read.', { cause })
  })
}
