import type { Fulfilment } from '../platform.ts'
import type { ShopifyValue } from './reader.ts'
import type { Tracking } from '../schema.ts'

const ORDER_GID = 'gid://shopify/Order/'
/** Fulfilments that count; the others were given up. */
const LIVE = new Set(['SUCCESS', 'OPEN', 'PENDING'])
/** Said of a parcel that is on its way, or has been. */
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
  /** Milliseconds. */
  readonly since: number | null
}

/** The platform's id of an order as its webhooks give it, as a number. */
function orderGid(id: number): string {
  return `${ORDER_GID}${id}`
}

/** One order of the answer to FULFILMENTS; null for what is none any more. */
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

/** An order as webhooks of the topics `orders/…` give it. */
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

/**
 * A fulfilment as webhooks of the topics `fulfillments/…` give it. It does not say whether the rest of the order is
 * fulfilled too.
 */
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

/** An order of several parcels is shown with the first that can be followed. */
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

/** Shown to buyers as a link, so that nothing but a web address may be one. */
function link(given: ShopifyValue | null | undefined): string | null {
  const text = words(given)
  return text !== null && URL.canParse(text) && /^https?:$/.test(new URL(text).protocol) ? text : null
}
