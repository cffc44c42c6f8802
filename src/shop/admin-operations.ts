import { Type } from 'typebox'
import { defineOperation, type AnyOperation } from '../engine/operations/operation.ts'
import { AdminOrderRow, adminOrderRow, OrderView, orderView } from './orders/views.ts'
import { OrderNotMade } from './public-schema.ts'
import type { Orders } from './orders/orders.ts'

// Other forms are 404 like an unknown id (decision 10).
const OrderId = Type.Object({ orderId: Type.String() })

/** Orders for the administrator: lists those in trouble and retries failed ones (decision 146). */
export function storefrontAdminOperations(orders: Pick<Orders, 'retry' | 'troubled'>): AnyOperation[] {
  return [
    defineOperation({
      id: 'adminListTroubledOrders',
      method: 'GET',
      path: '/api/admin/storefront/orders',
      mount: { use: 'operator-api', chain: 'admin' },
      summary: 'Paid orders of all stores that their shop did not make, or whose buyer wants the money back',
      description:
        'Somebody has paid and has neither goods nor money: retry the order, or have its merchant refund it.',
      tag: 'Admin',
      access: 'admin',
      query: Type.Object({
        skip: Type.Optional(Type.Integer({ description: 'From 0, which it is unless said.' })),
        take: Type.Optional(Type.Integer({ description: 'From 1 to 100; 50 unless said.' }))
      }),
      responses: { 200: { description: 'A bare array, longest waiting first.', schema: Type.Array(AdminOrderRow) } },
      handle: async ({ query: { skip = 0, take = 50 } }) => ({
        status: 200,
        body: (
          await orders.troubled({
            skip: Math.min(Math.max(skip, 0), 2_147_483_647),
            take: Math.min(Math.max(take, 1), 100)
          })
        ).map(adminOrderRow)
      })
    }),
    defineOperation({
      id: 'adminRetryStorefrontOrder',
      method: 'POST',
      path: '/api/admin/storefront/orders/:orderId/retry',
      mount: { use: 'operator-api', chain: 'admin' },
      summary: "Make the store's order of what the buyer gave at a claim that failed",
      description:
        'An order that the platform made although its answer was lost is found by its id and not made twice.',
      tag: 'Admin',
      access: 'admin',
      params: OrderId,
      responses: {
        200: { description: 'The order, which the store has taken.', schema: OrderView },
        400: 'There is nothing to retry: the order is not paid, nobody claimed it yet, or it was made.',
        404: 'There is no such order.',
        502: { description: 'The store did not take it this time either.', schema: OrderNotMade }
      },
      handle: async ({ params }) => ({ status: 200, body: orderView(await orders.retry(params.orderId)) })
    })
  ]
}
