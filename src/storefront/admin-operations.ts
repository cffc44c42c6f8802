import { Type } from 'typebox'
import { defineOperation, type AnyOperation } from '../gateway/operation.ts'
import { OrderView, orderView } from './order-views.ts'
import type { Orders } from './orders.ts'

// Whatever is no id of ours is 404 like one that is not there (decision 10).
const OrderId = Type.Object({ orderId: Type.String() })
const ErrorBody = Type.Object({ error: Type.String(), message: Type.String() })

/** What the administrator does with orders: has one made that its store did not take at the claim (decision 146). */
export function storefrontAdminOperations (orders: Pick<Orders, 'retry'>): AnyOperation[] {
  return [
    defineOperation({
      id: 'adminRetryStorefrontOrder',
      method: 'POST',
      path: '/api/admin/storefront/orders/:orderId/retry',
      summary: 'Make the store\'s order of what the buyer gave at a claim that failed',
      tag: 'Admin',
      access: 'admin',
      params: OrderId,
      answers: {
        200: { description: 'The order, which the store has taken.', schema: OrderView },
        400: { description: 'There is nothing to retry: the order is not paid, nobody claimed it yet, or it was made.', schema: ErrorBody },
        404: { description: 'There is no such order.', schema: ErrorBody },
        502: { description: 'The store did not take it this time either.', schema: ErrorBody }
      },
      handle: async ({ params }) => ({ status: 200, body: orderView(await orders.retry(params.orderId)) })
    })
  ]
}
