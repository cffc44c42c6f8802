import { Type, type Static } from 'typebox'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { merchantOf, merchantOperation, settingsRead, settingsWrite } from '../../accounts/merchants/principal.ts'
import { DeliveryPage, DeliveryQuery, DeliverySentView, DeliveryView, TestView, WEBHOOK_EVENTS } from './schema.ts'
import type { Webhooks } from './service.ts'
import { nullableText } from '../../engine/formats/text-patterns.ts'
import { iso, isoTimeOrNull } from '../../engine/formats/iso-time.ts'
import type { WebhookFacts } from '../../engine/openapi/openapi.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { EndpointChoice, IssuedEndpoint, WebhookEndpoint, WebhookEndpoints } from './endpoints.ts'

export function webhookOperations(webhooks: Webhooks): AnyOperation[] {
  return [
    defineOperation({
      ...settingsRead,
      id: 'listWebhookDeliveries',
      path: '/api/merchant/webhooks/deliveries',
      summary: 'List webhook deliveries of the last 30 days with their outcome, newest first',
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
    merchantOperation({
      ...settingsRead,
      id: 'getWebhookDelivery',
      path: '/api/merchant/webhooks/deliveries/:id',
      summary: 'Get a webhook delivery with its body',
      description: 'The body is the same in every attempt; compare it with what your server read.',
      params: Type.Object({ id: Type.String() }),
      responses: {
        200: { description: 'The delivery and what was sent.', schema: DeliverySentView },
        404: "There is no such delivery, or it is another account's."
      },
      handle: ({ merchant, params }) => webhooks.get(merchant, params.id)
    }),
    merchantOperation({
      ...settingsWrite,
      id: 'resendWebhookDelivery',
      method: 'POST',
      path: '/api/merchant/webhooks/deliveries/:id/resend',
      summary: 'Resend a webhook now: the same bytes, with a new signature',
      description: 'It goes to the current URL of its endpoint, signed with the current secret.',
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
      handle: ({ merchant, params }) => webhooks.resend(merchant, params.id)
    }),
    merchantOperation({
      ...settingsWrite,
      id: 'testWebhook',
      method: 'POST',
      path: '/api/merchant/webhooks/test',
      summary: 'Send a signed test event to the first endpoint, and return its response',
      description:
        'The response comes when your server has answered, after 10 seconds at the latest; further endpoints have an operation of their own. The event is signed with the secret that is set now, ' +
        'is in no list of deliveries, and is not sent again.',
      responses: {
        200: { description: 'Sent. isDelivered has the outcome.', schema: TestView },
        400: 'No webhook URL is set.'
      },
      handle: ({ merchant }) => webhooks.test(merchant, null)
    })
  ]
}

const PaymentEvent = Type.Object(
  {
    invoiceId: Type.String(),
    orderId: Type.String(),
    status: Type.Enum(['paid', 'processing', 'expired', 'underpaid', 'refunded'], {
      description: 'Fulfill the order on paid.'
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
    paidAt: nullableText({ format: 'date-time' })
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
    summary: 'A shop did not create a paid order',
    description:
      'Sent once for each order and reason. The order can be made later, or its money given back: POST /api/refunds with orderId as invoiceId.',
    schema: StoreOrderFailedEvent
  },
  'webhook.test': {
    summary: 'A test of the webhook',
    description: 'Sent once for each POST /api/merchant/webhooks/test, without retries. It reports nothing.',
    schema: TestEvent
  }
})

/** Every event, including those of later versions. */
const ALL = '*'

const EndpointView = Type.Object(
  {
    endpointId: Type.String({ description: 'A UUID, or `first` for the one of PUT /api/merchant/webhook-url.' }),
    isFirst: Type.Boolean({ description: 'Gets every event, and is set by PUT /api/merchant/webhook-url.' }),
    url: Type.String(),
    events: Type.Array(Type.String(), { description: 'Events that it gets; `["*"]` for all.' }),
    isActive: Type.Boolean({ description: 'false while paused: no deliveries are created.' }),
    createdAt: isoTimeOrNull('Null for the first.')
  },
  { title: 'WebhookEndpoint' }
)
export type EndpointView = Static<typeof EndpointView>
const NewEndpoint = Type.Object(
  {
    ...EndpointView.properties,
    webhookSecret: Type.String({ description: 'Signs what is sent there; shown only once.' })
  },
  { title: 'NewWebhookEndpoint' }
)
const url = Type.String({ maxLength: 2048, description: 'By the rules of webhookUrl.' })
const events = Type.Array(Type.Enum([ALL, ...WEBHOOK_EVENTS]), {
  minItems: 1,
  uniqueItems: true,
  description: 'Events that it gets; `["*"]` for all.'
})
const isActive = Type.Boolean({ description: 'false pauses it. Its pending deliveries fail, and can be resent.' })
const EndpointChange = Type.Object({
  url: Type.Optional(url),
  events: Type.Optional(events),
  isActive: Type.Optional(isActive)
})
const missing = 'The account has no such endpoint.'
const refused = 'The address cannot be used, or there is no such event.'
const byId = Type.Object({ endpointId: Type.String() })
function view({ id, url, events, isActive, createdAt }: WebhookEndpoint): EndpointView {
  return { endpointId: id, isFirst: false, url, events: [...(events ?? [ALL])], isActive, createdAt: iso(createdAt) }
}

function issued({ endpoint, secret }: IssuedEndpoint): Static<typeof NewEndpoint> {
  return { ...view(endpoint), webhookSecret: secret.reveal() }
}

function firstOf({ webhookUrl }: Merchant): EndpointView[] {
  return webhookUrl === null
    ? []
    : [{ endpointId: 'first', isFirst: true, url: webhookUrl, events: [ALL], isActive: true, createdAt: null }]
}

function choiceOf({ events, ...choice }: Static<typeof EndpointChange>): Partial<EndpointChoice> {
  const names = events?.filter(name => name !== ALL)
  return { ...choice, ...(names === undefined ? {} : { events: names.length === events?.length ? names : null }) }
}

export function endpointOperations(endpoints: WebhookEndpoints, webhooks: Webhooks): AnyOperation[] {
  return [
    merchantOperation({
      ...settingsRead,
      id: 'listWebhookEndpoints',
      path: '/api/merchant/webhooks/endpoints',
      summary: 'Webhook endpoints of the account and their events',
      description: 'The first is the one of PUT /api/merchant/webhook-url; it is left out while no URL is set.',
      responses: { 200: { description: 'A bare array, the first endpoint first.', schema: Type.Array(EndpointView) } },
      handle: async ({ merchant }) => [...firstOf(merchant), ...(await endpoints.list(merchant.id)).map(view)]
    }),
    merchantOperation({
      ...settingsWrite,
      id: 'createWebhookEndpoint',
      method: 'POST',
      path: '/api/merchant/webhooks/endpoints',
      summary: 'Add a webhook endpoint',
      description:
        'Each event becomes a delivery of its own for every endpoint that wants it, with its own attempts and its own secret. ' +
        'The account may have as many as `limits.maxWebhookEndpoints` of its subscription, and the first one has its place among them.',
      body: Type.Object({ ...EndpointChange.properties, url }),
      responses: {
        201: { description: 'It receives events from now on.', schema: NewEndpoint },
        400: refused,
        403: 'The plan allows no more endpoints.'
      },
      handle: async ({ merchant, body }) =>
        issued(await endpoints.create(merchant, { events: null, isActive: true, ...choiceOf(body), url: body.url }))
    }),
    merchantOperation({
      ...settingsWrite,
      id: 'changeWebhookEndpoint',
      method: 'PUT',
      path: '/api/merchant/webhooks/endpoints/:endpointId',
      summary: 'Update the URL or events of an endpoint, or pause it',
      description:
        'What waits is sent to the new address. What waits for one that is paused has failed, which the list of deliveries says, and can be sent again later.',
      params: byId,
      body: EndpointChange,
      responses: {
        200: { description: 'The updated endpoint. Omitted fields keep their value.', schema: EndpointView },
        400: refused,
        404: missing
      },
      handle: async ({ merchant, params, body }) =>
        view(await endpoints.change(merchant.id, params.endpointId, choiceOf(body)))
    }),
    merchantOperation({
      ...settingsWrite,
      id: 'rotateWebhookSecret',
      method: 'POST',
      path: '/api/merchant/webhooks/endpoints/:endpointId/rotate-secret',
      summary: 'Rotate the secret of an endpoint immediately',
      description: 'All further attempts are signed with the new secret, also those of earlier events.',
      params: byId,
      responses: { 200: { description: 'The new secret, shown only once.', schema: NewEndpoint }, 404: missing },
      handle: async ({ merchant, params }) => issued(await endpoints.rotate(merchant.id, params.endpointId))
    }),
    merchantOperation({
      ...settingsWrite,
      id: 'testWebhookEndpoint',
      method: 'POST',
      path: '/api/merchant/webhooks/endpoints/:endpointId/test',
      summary: 'Send a signed test event to one endpoint, and return its response',
      description: 'As POST /api/merchant/webhooks/test does for the first endpoint, to a paused one too.',
      params: byId,
      responses: {
        200: { description: 'Sent. isDelivered has the outcome.', schema: TestView },
        400: 'It is the first, and no webhook URL is set.',
        404: missing
      },
      handle: ({ merchant, params: { endpointId } }) =>
        webhooks.test(merchant, endpointId === 'first' ? null : endpointId)
    }),
    merchantOperation({
      ...settingsWrite,
      id: 'removeWebhookEndpoint',
      method: 'DELETE',
      path: '/api/merchant/webhooks/endpoints/:endpointId',
      summary: 'Delete an endpoint; its pending deliveries fail',
      description: 'Its deliveries stay in the list for 30 days.',
      params: byId,
      responses: { 204: { description: 'Removed.' }, 404: missing },
      handle: ({ merchant, params }) => endpoints.remove(merchant.id, params.endpointId)
    })
  ]
}
