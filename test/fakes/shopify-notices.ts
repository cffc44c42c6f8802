import type { FakeFulfilment, FakeOrder } from './shopify-shop.ts'

/** A webhook's topic with its body, as REST has it. */
export interface FakeNotice {
  readonly topic: string
  readonly body: string
}

/** The name of a topic as subscriptions have it, such as ORDERS_FULFILLED of orders/fulfilled. */
export function topicName(topic: string): string {
  return topic.replace('/', '_').toUpperCase()
}

/** The payload of an order's update. */
export function orderNotice(
  topic: 'orders/fulfilled' | 'orders/partially_fulfilled' | 'orders/cancelled',
  order: FakeOrder
): FakeNotice {
  const body = {
    id: order.id,
    admin_graphql_api_id: `gid://shopify/Order/${order.id}`,
    name: order.name,
    email: order.input.email ?? null,
    cancelled_at: order.cancelledAt,
    created_at: order.createdAt,
    financial_status: 'paid',
    fulfillment_status:
      order.fulfillmentStatus === 'FULFILLED'
        ? 'fulfilled'
        : order.fulfillmentStatus === 'PARTIALLY_FULFILLED'
          ? 'partial'
          : null,
    fulfillments: order.fulfilments.map(given => fulfilmentBody(order, given)),
    tags: (order.input.tags ?? []).join(', ')
  }
  return { topic, body: JSON.stringify(body) }
}

export function fulfilmentNotice(
  topic: 'fulfillments/create' | 'fulfillments/update',
  order: FakeOrder,
  given: FakeFulfilment
): FakeNotice {
  return { topic, body: JSON.stringify(fulfilmentBody(order, given)) }
}

function fulfilmentBody(order: FakeOrder, given: FakeFulfilment): object {
  return {
    id: given.id,
    order_id: order.id,
    status: given.status.toLowerCase(),
    created_at: given.createdAt,
    updated_at: given.createdAt,
    tracking_company: given.company,
    shipment_status: given.displayStatus === 'FULFILLED' ? null : (given.displayStatus?.toLowerCase() ?? null),
    tracking_number: given.number,
    tracking_numbers: given.number === null ? [] : [given.number],
    tracking_url: given.url,
    tracking_urls: given.url === null ? [] : [given.url],
    name: `${order.name}-F1`,
    admin_graphql_api_id: `gid://shopify/Fulfillment/${given.id}`
  }
}
