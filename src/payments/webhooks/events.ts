import { nullableText } from '../../engine/formats/text-patterns.ts'
import { Type } from 'typebox'
import { isoTimeOrNull } from '../../engine/formats/iso-time.ts'
import type { WebhookFacts } from '../../engine/openapi/openapi.ts'

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

/** For OpenAPI (contract, Events). */
export const sentWebhooks: Readonly<Record<string, WebhookFacts>> = Object.freeze({
  'payment.status': {
    summary: 'A payment changed',
    description:
      'Sent once for each invoice and status. The body has no name of an event: route on `status`, and tell repeats by ' +
      'invoiceId and status.',
    schema: PaymentEvent
  },
  'l402.challenge.paid': {
    summary: 'A challenge was paid and used for the first time',
    description:
      'Sent once for each challenge of the producer API or of a proxy, when its credential is verified for the first time.',
    schema: ChallengePaidEvent
  },
  'storefront.order.failed': {
    summary: 'A shop did not make a paid order',
    description:
      'Sent once for each order and reason. The order can be made later, or its money given back: POST /api/refunds with orderId as invoiceId.',
    schema: StoreOrderFailedEvent
  },
  'webhook.test': {
    summary: 'Somebody tries the webhook',
    description: 'Sent once for each POST /api/merchant/webhooks/test, and never again. It tells of nothing.',
    schema: TestEvent
  }
})
