import { Type } from 'typebox'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { merchantOf } from '../../accounts/merchants/principal.ts'
import { DeliveryPage, DeliveryQuery, DeliverySentView, DeliveryView, TestView } from './schema.ts'
import type { Webhooks } from './service.ts'

export function webhookOperations(webhooks: Webhooks): AnyOperation[] {
  const common = { tag: 'Merchant', access: 'merchant' } as const
  return [
    defineOperation({
      ...common,
      id: 'listWebhookDeliveries',
      method: 'GET',
      path: '/api/merchant/webhooks/deliveries',
      mount: { use: 'merchant-api', chain: 'settings-read' },
      summary: 'What webhooks were sent and what became of them, newest first; kept for 30 days',
      description:
        'Each event is one delivery, however many attempts it took. Look here when a webhook did not arrive: ' +
        'responseStatus, responseBody and error say what your server answered last.',
      query: DeliveryQuery,
      responses: {
        200: { description: 'One page; X-Total-Count has the total without paging.', schema: DeliveryPage },
        400: 'endpoint, status or since is none.'
      },
      handle: async ({ ctx, query }) => {
        const page = await webhooks.list(merchantOf(ctx), query)
        return { status: 200, body: page, headers: ['X-Total-Count', String(page.total)] }
      }
    }),
    defineOperation({
      ...common,
      id: 'getWebhookDelivery',
      method: 'GET',
      path: '/api/merchant/webhooks/deliveries/:id',
      mount: { use: 'merchant-api', chain: 'settings-read' },
      summary: 'One webhook with its body as it was sent',
      description: 'The body is the same in every attempt; compare it with what your server read.',
      params: Type.Object({ id: Type.String() }),
      responses: {
        200: { description: 'The delivery and what was sent.', schema: DeliverySentView },
        404: "There is no such delivery, or it is another account's."
      },
      handle: async ({ ctx, params }) => ({ status: 200, body: await webhooks.get(merchantOf(ctx), params.id) })
    }),
    defineOperation({
      ...common,
      id: 'resendWebhookDelivery',
      method: 'POST',
      path: '/api/merchant/webhooks/deliveries/:id/resend',
      mount: { use: 'merchant-api', chain: 'settings-write' },
      summary: 'Send a webhook once more, now: the same bytes, signed anew',
      description: 'It goes to the address that its endpoint has now, signed with the secret that it has now.',
      params: Type.Object({ id: Type.String() }),
      responses: {
        202: {
          description:
            'It is sent in a moment. One that waits for its next attempt is brought forward and goes on by its schedule; one that was delivered or has failed gets this one attempt.',
          schema: DeliveryView
        },
        400: 'No webhook URL is set; the endpoint is paused or was removed.',
        404: "There is no such delivery, or it is another account's."
      },
      handle: async ({ ctx, params }) => ({ status: 202, body: await webhooks.resend(merchantOf(ctx), params.id) })
    }),
    defineOperation({
      ...common,
      id: 'testWebhook',
      method: 'POST',
      path: '/api/merchant/webhooks/test',
      mount: { use: 'merchant-api', chain: 'settings-write' },
      summary: 'Send a signed test event to the first endpoint now, and see what it answers',
      description:
        'The response comes when your server has answered, after 10 seconds at the latest; further endpoints have an operation of their own. The event is signed with the secret that is set now, ' +
        'is in no list of deliveries, and is not sent again.',
      responses: {
        200: { description: 'It was sent; isDelivered says how it ended.', schema: TestView },
        400: 'No webhook URL is set.'
      },
      handle: async ({ ctx }) => ({ status: 200, body: await webhooks.test(merchantOf(ctx), null) })
    })
  ]
}
