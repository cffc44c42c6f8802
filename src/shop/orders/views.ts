import { nullableText, nullableInteger } from '../../engine/formats/text-patterns.ts'
import { Type, type Static } from 'typebox'
import { iso, isoTime, isoTimeOrNull } from '../../engine/formats/iso-time.ts'

import type { StoreStats } from './orders.ts'
import { failureWords } from './placement.ts'
import { dollars, ORDER_STATUSES, type Integration, type Order, usd } from '../schema.ts'

/** Largest page, and its default size (contract, Storefront merchant endpoints). */
const MOST_ORDERS = 100
const ORDERS = 20
/** Beyond any real list; bounds the database's counting. */
const LAST_PAGE = 20_000_000

/** Out of range is clamped (decision 12). */
export const OrdersQuery = Type.Object({
  status: Type.Optional(Type.Enum([...ORDER_STATUSES])),
  text: Type.Optional(
    Type.String({
      maxLength: 200,
      description: 'Searches the email, case-insensitive; or equals the order ID, its number or the payment hash.'
    })
  ),
  page: Type.Optional(Type.Integer({ description: 'From 1, which it is unless said.' })),
  pageSize: Type.Optional(Type.Integer({ description: `From 1 to ${MOST_ORDERS}; ${ORDERS} unless said.` }))
})
export type OrdersQuery = Static<typeof OrdersQuery>

export function orderPageOf({ page, pageSize }: Pick<OrdersQuery, 'page' | 'pageSize'>): {
  readonly page: number
  readonly pageSize: number
} {
  return {
    page: Math.min(Math.max(page ?? 1, 1), LAST_PAGE),
    pageSize: Math.min(Math.max(pageSize ?? ORDERS, 1), MOST_ORDERS)
  }
}

const row = {
  orderId: Type.String(),
  status: Type.Enum([...ORDER_STATUSES]),
  totalUsd: dollars('A number of US dollars: goods, shipping and tax.'),
  paidSats: nullableInteger('Null until it is paid.'),
  email: nullableText('As the buyer gave it; null where none was given.'),
  storefrontOrderNumber: nullableText("The platform's number of the order; null until it was claimed.")
}

/** Left out where nothing is wrong. */
const trouble = {
  failure: Type.Optional(
    Type.Object(
      {
        reason: Type.Enum(['sold_out', 'refused', 'store_access', 'store_closed']),
        message: Type.String(),
        failedAt: isoTime()
      },
      { description: 'Why the shop did not make the paid order.' }
    )
  ),
  refundRequest: Type.Optional(
    Type.Object(
      { refundAddress: Type.String(), refundType: Type.Enum(['chain', 'ln']), requestedAt: isoTime() },
      {
        description: 'Where the buyer wants the money back. POST /api/refunds with the orderId as invoiceId gives it.'
      }
    )
  ),
  canceledAt: Type.Optional(isoTime('When the shop called the order off.')),
  refundedAt: Type.Optional(isoTime('When all that was paid had been given back.'))
}

/** An order in its merchant's list (contract, Storefront merchant endpoints). */
export const OrderRow = Type.Object({ ...row, createdAt: isoTime(), ...trouble }, { title: 'StoreOrderRow' })
export type OrderRow = Static<typeof OrderRow>

/** A single order (contract, Storefront integration resources: Order). */
export const OrderView = Type.Object(
  {
    ...row,
    trackingNumber: nullableText('Once it is shipped.'),
    trackingCarrier: nullableText('Once it is shipped.'),
    trackingUrl: nullableText('Once it is shipped.'),
    createdAt: isoTime(),
    paidAt: isoTimeOrNull('Null until it is paid.'),
    shippedAt: isoTimeOrNull('Null until it is shipped.'),
    ...trouble
  },
  { title: 'StoreOrder' }
)
export type OrderView = Static<typeof OrderView>

export function orderRow(order: Order): OrderRow {
  return {
    orderId: order.id,
    status: order.status,
    totalUsd: usd(order.totalCents),
    paidSats: order.paidAt === null ? null : order.totalSats,
    email: order.email,
    storefrontOrderNumber: order.orderNumber,
    createdAt: iso(order.createdAt),
    ...troubleOf(order)
  }
}

function troubleOf({ failure, refundRequest, canceledAt, refundedAt }: Order): Partial<OrderRow> {
  return {
    ...(failure === null
      ? {}
      : { failure: { reason: failure.reason, message: failure.message, failedAt: iso(failure.at) } }),
    ...(refundRequest === null
      ? {}
      : {
          refundRequest: {
            refundAddress: refundRequest.address,
            refundType: refundRequest.type,
            requestedAt: iso(refundRequest.at)
          }
        }),
    ...(canceledAt === null ? {} : { canceledAt: iso(canceledAt) }),
    ...(refundedAt === null ? {} : { refundedAt: iso(refundedAt) })
  }
}

/** For buyers: the failure in our words, since the platform's are for the merchant. */
export function buyerView(order: Order): OrderView {
  const { failure } = order
  return failure === null
    ? orderView(order)
    : orderView({ ...order, failure: { ...failure, message: failureWords(failure.reason) } })
}

export const AdminOrderRow = Type.Object(
  { ...OrderRow.properties, merchantId: Type.Integer() },
  { title: 'AdminStoreOrderRow' }
)
export type AdminOrderRow = Static<typeof AdminOrderRow>

export function adminOrderRow(order: Order): Static<typeof AdminOrderRow> {
  return { ...orderRow(order), merchantId: order.merchantId }
}

/** Nothing in it opens the claim page. */
export function orderView(order: Order): OrderView {
  const { tracking } = order
  return {
    ...orderRow(order),
    trackingNumber: tracking.number,
    trackingCarrier: tracking.carrier,
    trackingUrl: tracking.url,
    paidAt: iso(order.paidAt),
    shippedAt: iso(order.shippedAt)
  }
}

const counters = {
  totalCheckouts: Type.Integer(),
  paidOrders: Type.Integer(),
  conversionRate: Type.Number({
    description: 'Paid orders for each checkout, 0 to 1 with four places; 0 when there was none.'
  }),
  totalPaidSats: Type.Integer(),
  totalPaidUsd: dollars('A number of US dollars, of paid orders only.'),
  fulfilled: Type.Integer({ description: 'Those shipped since are among them.' }),
  shipped: Type.Integer(),
  firstOrderAt: isoTimeOrNull('Null when there was no order yet.'),
  lastOrderAt: isoTimeOrNull('Null when there was no order yet.')
}

/** `GET /api/merchant/storefront/stats` (contract, Storefront merchant endpoints; decision 149). */
export const StatsView = Type.Object(
  {
    merchantId: Type.Integer(),
    total: Type.Object({ totalIntegrations: Type.Integer(), ...counters }),
    byStore: Type.Array(Type.Object({ slug: Type.String(), storefrontDomain: Type.String(), ...counters }))
  },
  { title: 'StoreStats' }
)
export type StatsView = Static<typeof StatsView>

/** Zeros without a store; purged orders count. */
export function statsView(merchantId: number, integration: Integration | null, stats: StoreStats): StatsView {
  const { totalPaidCents, firstOrderAt, lastOrderAt, ...counted } = stats
  const all = {
    ...counted,
    totalPaidUsd: usd(totalPaidCents),
    firstOrderAt: iso(firstOrderAt),
    lastOrderAt: iso(lastOrderAt)
  }
  return {
    merchantId,
    total: { totalIntegrations: integration === null ? 0 : 1, ...all },
    byStore:
      integration === null ? [] : [{ slug: integration.slug, storefrontDomain: integration.storefrontDomain, ...all }]
  }
}
