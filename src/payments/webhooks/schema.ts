import { nullableInteger, nullableText } from '../../engine/formats/text-patterns.ts'
import { Type, type Static } from 'typebox'
import { integer, moment, optional, text, type RecordOf } from '../../platform/database/rows.ts'
import { isoTime, isoTimeOrNull, isoTimeQuery, iso } from '../../engine/formats/iso-time.ts'

/** An attempt is due or running, the last one got 2xx, or the last one failed without a retry. */
const DELIVERY_STATUSES = ['pending', 'delivered', 'failed'] as const
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number]

/** Event names. Payment events differ by status, the others by name. */
export const WEBHOOK_EVENTS = Object.freeze([
  'payment.processing',
  'payment.paid',
  'payment.underpaid',
  'payment.expired',
  'payment.refunded',
  'l402.challenge.paid',
  'storefront.order.failed'
] as const)
export type WebhookEvent = (typeof WEBHOOK_EVENTS)[number]

/** An event for one merchant with its delivery state. */
export const deliveryFields = {
  id: text(),
  merchantId: integer(),
  endpointId: optional(text()),
  event: text<WebhookEvent>(),
  invoiceId: optional(text()),
  paymentHash: optional(text()),
  status: text<DeliveryStatus>(),
  /** Address of the last attempt; before the first, the address at the event. Null when none was set. */
  url: optional(text()),
  attempts: integer(),
  /** Of the last attempt; null without a response. */
  responseStatus: optional(integer()),
  /** First KiB of the last response. */
  responseBody: optional(text()),
  error: optional(text()),
  createdAt: moment(),
  lastAttemptAt: optional(moment()),
  /** Null when no retry is scheduled. */
  nextAttemptAt: optional(moment()),
  /** First successful delivery; kept when a later resend fails. */
  deliveredAt: optional(moment())
}
export type Delivery = RecordOf<typeof deliveryFields>

/** Response for the merchant (decision 161). */
export const DeliveryView = Type.Object(
  {
    id: Type.String({ description: 'A UUID; sent as X-Correlation-Id with every attempt.' }),
    endpointId: Type.String({
      description: 'Of GET /api/merchant/webhooks/endpoints, perhaps of one that was removed.'
    }),
    event: Type.String({ description: 'payment. and its status, l402.challenge.paid, or storefront.order.failed.' }),
    invoiceId: nullableText('Of a payment.'),
    paymentHash: nullableText('64 lower-case hex characters.'),
    status: Type.Enum([...DELIVERY_STATUSES], {
      description: 'failed: the last attempt failed, and no other is scheduled.'
    }),
    url: nullableText(
      'Where the last attempt went, or where the first will go as things were when the event was written.'
    ),
    attempts: Type.Integer({ description: 'Attempts that have ended, resends included.' }),
    responseStatus: nullableInteger('Status of the last response; null when there was none.'),
    responseBody: nullableText("The first KiB of that answer's body."),
    error: nullableText('Why the last attempt failed.'),
    createdAt: isoTime(),
    lastAttemptAt: isoTimeOrNull('When the last attempt ended.'),
    nextAttemptAt: isoTimeOrNull('When the next attempt is due; null when no attempt is scheduled.'),
    deliveredAt: isoTimeOrNull('When it was delivered for the first time.')
  },
  { title: 'Delivery' }
)
export type DeliveryView = Static<typeof DeliveryView>

export const DeliverySentView = Type.Object(
  {
    ...DeliveryView.properties,
    body: Type.String({ description: 'The bytes of every attempt, as text; each has a new signature.' })
  },
  { title: 'DeliverySent' }
)
export type DeliverySentView = Static<typeof DeliverySentView>

/** As for challenges (decision 161). */
export const DeliveryQuery = Type.Object({
  endpoint: Type.Optional(Type.String({ description: 'endpointId; only what was written for that endpoint.' })),
  status: Type.Optional(Type.Enum([...DELIVERY_STATUSES])),
  invoiceId: Type.Optional(Type.String({ maxLength: 64, description: 'Only events of this payment.' })),
  since: Type.Optional(isoTimeQuery('ISO 8601; only events of then or later.')),
  limit: Type.Optional(Type.Integer({ description: '50 unless said; clamped to 1 to 200.' })),
  offset: Type.Optional(Type.Integer({ description: '0 unless said; clamped to at least 0.' }))
})
export type DeliveryQuery = Static<typeof DeliveryQuery>

export const DeliveryPage = Type.Object(
  {
    deliveries: Type.Array(DeliveryView),
    total: Type.Integer({ description: 'Without paging; also in X-Total-Count.' }),
    limit: Type.Integer(),
    offset: Type.Integer()
  },
  { title: 'DeliveryPage' }
)
export type DeliveryPage = Static<typeof DeliveryPage>

export const TestView = Type.Object(
  {
    id: Type.String({ description: 'A UUID, also in the event and in its X-Correlation-Id.' }),
    isDelivered: Type.Boolean({ description: 'Your server answered 2xx within 10 seconds.' }),
    url: Type.String({ description: 'Where it was sent.' }),
    responseStatus: nullableInteger('What your server answered; null without a response.'),
    responseBody: nullableText("The first KiB of that answer's body."),
    error: nullableText('Why it was not delivered.'),
    sentAt: isoTime()
  },
  { title: 'WebhookTest' }
)
export type TestView = Static<typeof TestView>

export function deliveryView({ merchantId: _merchantId, ...delivery }: Delivery): DeliveryView {
  return {
    ...delivery,
    endpointId: delivery.endpointId ?? 'first',
    createdAt: iso(delivery.createdAt),
    lastAttemptAt: iso(delivery.lastAttemptAt),
    nextAttemptAt: iso(delivery.nextAttemptAt),
    deliveredAt: iso(delivery.deliveredAt)
  }
}
