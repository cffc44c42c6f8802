import type { OperationText } from '../../engine/operations/operation.ts'

const endpoint = {
  endpointId: '0199f1d3-0b1e-7c22-8f10-2d3c4b5a6979',
  isFirst: false,
  url: 'https://ledger.example.com/boltgate',
  events: ['payment.paid', 'payment.refunded'],
  isActive: true,
  createdAt: '2026-11-22T10:15:00.000Z'
}
const params = { endpointId: endpoint.endpointId }
const first = {
  ...endpoint,
  endpointId: 'first',
  isFirst: true,
  url: 'https://shop.example.com/webhooks',
  events: ['*']
}
const webhookSecret = 'whsec_4fWq0G3k2hJm8cT1vXz7nR5yB9dLpS6aUeKoQiHjMgE'

/** What OpenAPI says of the operations of webhook endpoints. */
export const endpointTexts: Readonly<Record<string, OperationText>> = {
  listWebhookEndpoints: {
    description: 'The first is the one of PUT /api/merchant/webhook-url; it is left out while none is set.',
    example: { responses: { 200: [{ ...first, createdAt: null }, endpoint] } }
  },
  createWebhookEndpoint: {
    description:
      'Each event becomes a delivery of its own for every endpoint that wants it, with its own attempts and its own secret. ' +
      'The account may have as many as `limits.maxWebhookEndpoints` of its subscription, and the first one has its place among them.',
    example: {
      body: { url: endpoint.url, events: endpoint.events },
      responses: { 201: { ...endpoint, webhookSecret } }
    }
  },
  changeWebhookEndpoint: {
    description:
      'What waits is sent to the new address. What waits for one that is paused has failed, which the list of deliveries says, and can be sent again later.',
    example: { params, body: { isActive: false }, responses: { 200: { ...endpoint, isActive: false } } }
  },
  rotateWebhookSecret: {
    description: 'Everything that is sent from now on is signed with the new secret, attempts of earlier events too.',
    example: { params, responses: { 200: { ...endpoint, webhookSecret } } }
  },
  testWebhookEndpoint: {
    description: 'As POST /api/merchant/webhooks/test does for the first endpoint, to a paused one too.',
    example: {
      params,
      responses: {
        200: {
          id: '0199f1d3-0b1e-7c22-8f10-2d3c4b5a6978',
          isDelivered: true,
          url: endpoint.url,
          responseStatus: 204,
          responseBody: '',
          error: null,
          sentAt: '2026-11-22T10:15:00.000Z'
        }
      }
    }
  },
  removeWebhookEndpoint: {
    description: 'Its deliveries stay in the list for as long as all others.',
    example: { params }
  }
}
