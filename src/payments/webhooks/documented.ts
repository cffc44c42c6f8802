import { Type } from 'typebox'
import { isoTimeOrNull } from '../../engine/formats/iso-time.ts'
import type { WebhookFacts } from '../../engine/openapi/openapi.ts'
import type { OperationText } from '../../engine/operations/operation.ts'

const nullableText = (description: string) => Type.Unsafe<string | null>({ type: ['string', 'null'], description })

const PaymentEvent = Type.Object(
  {
    invoiceId: Type.String(),
    orderId: Type.String(),
    status: Type.Enum(['paid', 'processing', 'expired', 'underpaid', 'refunded'], {
      description: 'Fulfil the order on paid.'
    }),
    amount: Type.Number({ description: 'In `currency`.' }),
    currency: Type.Enum(['USD', 'EUR', 'GBP', 'BTC']),
    alternateChargeId: Type.Optional(Type.String({ description: 'Where the alternate provider made the invoice.' })),
    providerChargeId: Type.Optional(Type.String({ description: 'Where the primary provider made it.' })),
    provider: Type.Optional(Type.Enum(['primary'])),
    paidAt: isoTimeOrNull('When it was paid; null until then.'),
    metadata: nullableText('A text that holds the JSON given at creation.')
  },
  { title: 'PaymentEvent' }
)

const ChallengePaidEvent = Type.Object(
  {
    event: Type.Enum(['l402.challenge.paid']),
    paymentHash: Type.String(),
    resource: Type.String(),
    amountSats: Type.Integer(),
    status: Type.Enum(['paid']),
    merchantId: Type.Integer(),
    source: Type.Enum(['producer', 'proxy']),
    proxyId: nullableText('Null for the producer API.'),
    idempotencyKey: nullableText('Null where none was given.'),
    createdAt: Type.String({ format: 'date-time' }),
    paidAt: Type.Unsafe<string | null>({ type: ['string', 'null'], format: 'date-time' })
  },
  { title: 'ChallengePaidEvent' }
)

const StoreOrderFailedEvent = Type.Object(
  {
    event: Type.Enum(['storefront.order.failed']),
    orderId: Type.String(),
    status: Type.Enum(['PaidAwaitingDetails']),
    reason: Type.Enum(['sold_out', 'refused', 'store_access', 'store_closed']),
    message: Type.String({ description: "What the store's platform says." }),
    totalUsd: Type.Number(),
    paidSats: Type.Integer(),
    paymentHash: Type.String(),
    email: nullableText('As it was given at checkout; null where none was.'),
    merchantId: Type.Integer(),
    createdAt: Type.String({ format: 'date-time' }),
    paidAt: Type.String({ format: 'date-time' }),
    failedAt: Type.String({ format: 'date-time' })
  },
  { title: 'StoreOrderFailedEvent' }
)

const TestEvent = Type.Object(
  {
    event: Type.Enum(['webhook.test']),
    id: Type.String({ description: 'A UUID; also in X-Correlation-Id.' }),
    merchantId: Type.Integer(),
    createdAt: Type.String({ format: 'date-time' })
  },
  { title: 'TestEvent' }
)

const HASH = '4d784aaa1f64c1b2b6b4a9d0a4c7c3f0e9d3a7b5c1f2e4d6a8b0c2d4e6f80123'

/** The requests that are sent to a merchant's webhook URL, for OpenAPI (contract, Events). */
export const sentWebhooks: Readonly<Record<string, WebhookFacts>> = Object.freeze({
  'payment.status': {
    summary: 'A payment changed',
    description:
      'Sent once for each invoice and status. The body has no name of an event: route on `status`, and tell repeats by ' +
      'invoiceId and status.',
    schema: PaymentEvent,
    example: {
      invoiceId: '482910573648201',
      orderId: 'order-1001',
      status: 'paid',
      amount: 12.5,
      currency: 'USD',
      providerChargeId: 'sbx_0199f1d2-6f0e-7c41-9d25-0c7a8f3b2e10',
      provider: 'primary',
      paidAt: '2026-11-22T10:15:30.000Z',
      metadata: '{"basket":"42"}'
    }
  },
  'l402.challenge.paid': {
    summary: 'A challenge was paid and used for the first time',
    description:
      'Sent once for each challenge of the producer API or of a proxy, when its credential is verified for the first time.',
    schema: ChallengePaidEvent,
    example: {
      event: 'l402.challenge.paid',
      paymentHash: HASH,
      resource: '/l402/proxy/weather-3fa9c1/v1/today',
      amountSats: 10,
      status: 'paid',
      merchantId: 1,
      source: 'proxy',
      proxyId: 'weather-3fa9c1',
      idempotencyKey: null,
      createdAt: '2026-11-22T10:15:00.000Z',
      paidAt: '2026-11-22T10:15:30.000Z'
    }
  },
  'storefront.order.failed': {
    summary: 'A shop did not make a paid order',
    description:
      'Sent once for each order and reason. The order can be made later, or its money given back: POST /api/refunds with orderId as invoiceId.',
    schema: StoreOrderFailedEvent,
    example: {
      event: 'storefront.order.failed',
      orderId: 'ord_5f1c8e0d3a9b7c24',
      status: 'PaidAwaitingDetails',
      reason: 'sold_out',
      message: 'The store has not enough in stock: Unable to reserve inventory',
      totalUsd: 46.16,
      paidSats: 46_160,
      paymentHash: HASH,
      email: 'ada@example.com',
      merchantId: 1,
      createdAt: '2026-11-22T10:15:00.000Z',
      paidAt: '2026-11-22T10:15:30.000Z',
      failedAt: '2026-11-22T10:20:00.000Z'
    }
  },
  'webhook.test': {
    summary: 'Somebody tries the webhook',
    description: 'Sent once for each POST /api/merchant/webhooks/test, and never again. It tells of nothing.',
    schema: TestEvent,
    example: {
      event: 'webhook.test',
      id: '0199f1d3-0b1e-7c22-8f10-2d3c4b5a6978',
      merchantId: 1,
      createdAt: '2026-11-22T10:15:00.000Z'
    }
  }
})

const delivery = {
  id: '0199f1d3-0b1e-7c22-8f10-2d3c4b5a6978',
  endpointId: 'first',
  event: 'payment.paid',
  invoiceId: '482910573648201',
  paymentHash: HASH,
  status: 'failed',
  url: 'https://shop.example.com/webhooks',
  attempts: 6,
  responseStatus: 500,
  responseBody: 'Internal Server Error',
  error: 'The answer was 500.',
  createdAt: '2026-11-22T10:15:30.000Z',
  lastAttemptAt: '2026-11-22T10:31:05.000Z',
  nextAttemptAt: null,
  deliveredAt: null
}

/** What OpenAPI says of the operations that show what was sent. */
export const webhookTexts: Readonly<Record<string, OperationText>> = {
  listWebhookDeliveries: {
    description:
      'Each event is one delivery, however many attempts it took. Look here when a webhook did not arrive: ' +
      'responseStatus, responseBody and error say what your server answered last.',
    example: { responses: { 200: { deliveries: [delivery], total: 1, limit: 50, offset: 0 } } }
  },
  getWebhookDelivery: {
    description: 'The body is the same in every attempt; compare it with what your server read.',
    example: {
      params: { id: delivery.id },
      responses: {
        200: {
          ...delivery,
          body: '{"invoiceId":"482910573648201","orderId":"order-1001","status":"paid","amount":12.5,"currency":"USD","metadata":null}'
        }
      }
    }
  },
  resendWebhookDelivery: {
    description: 'It goes to the address that its endpoint has now, signed with the secret that it has now.',
    example: {
      params: { id: delivery.id },
      responses: { 202: { ...delivery, status: 'pending', nextAttemptAt: '2026-11-22T11:00:00.000Z' } }
    }
  },
  testWebhook: {
    description:
      'The response comes when your server has answered, after 10 seconds at the latest; further endpoints have an operation of their own. The event is signed with the secret that is set now, ' +
      'is in no list of deliveries, and is not sent again.',
    example: {
      responses: {
        200: {
          id: delivery.id,
          isDelivered: false,
          url: delivery.url,
          responseStatus: 401,
          responseBody: 'bad signature',
          error: 'The endpoint answered 401.',
          sentAt: '2026-11-22T10:15:00.000Z'
        }
      }
    }
  }
}
