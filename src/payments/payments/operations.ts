import { Type } from 'typebox'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { merchantOf, merchantOperation } from '../../accounts/merchants/principal.ts'
import { PaymentInput, PaymentStatusView, PaymentView } from './schema.ts'
import type { Payments } from './service.ts'
import { isoTime } from '../../engine/formats/iso-time.ts'

const unknown = "There is no such payment, or it is another account's."
const refused = 'The payment provider refused.'
const unavailable = 'The payment provider or the database is down. Retry-After says when to retry.'
const correlation = {
  'X-Correlation-Id':
    'Returned in the response and logged. 1 to 128 letters, digits, dots, colons, dashes and underscores.'
}

const common = { tag: 'Payments', access: 'merchant', headers: correlation } as const
const byInvoice = Type.Object({ invoiceId: Type.String({ 'x-judged': true }) })
const reads = { ...common, method: 'GET', mount: { use: 'merchant-api', chain: 'payments-read' } } as const
const asks = {
  ...common,
  method: 'POST',
  mount: { use: 'merchant-api', chain: 'payments-sync' },
  params: byInvoice
} as const
const creates = {
  ...common,
  method: 'POST',
  unaudited: true,
  mount: { use: 'merchant-api', chain: 'payments-create' },
  body: PaymentInput
} as const
const notCreated = {
  400: 'A field is not valid; or the amount does not fit its currency, the orderId is taken, no key of the payment provider is saved, or the account is not active.',
  502: refused,
  503: 'The payment provider, the price feed or the database is down; nothing was created. Retry-After says when to retry.'
}
const idempotent = (made: string) => ({
  ...correlation,
  'Idempotency-Key': `At most 256 characters. For 24 hours the same key with the same body returns the first response, and later the current state of the same ${made}, with X-Idempotency-Replayed: true.`,
  'X-Idempotency-Key': 'Alias of Idempotency-Key, which takes precedence.'
})

/** Response of `POST /api/checkout/sessions` (decision 168). */
const CheckoutSessionView = Type.Object(
  {
    sessionId: Type.String({ description: '`cs_` and the invoiceId.' }),
    checkoutUrl: Type.String({
      description: 'The pay page, the same as the payUrl of the payment. Treat it as a secret.'
    }),
    invoiceId: Type.String({ description: '15 digits; the payment is read with it.' }),
    ...PaymentStatusView.properties,
    expiresAt: isoTime('Until when it can be paid.')
  },
  { title: 'CheckoutSession' }
)

/** Payments of merchants (contract, Endpoints: Payments). */
export function paymentOperations(payments: Payments): AnyOperation[] {
  return [
    defineOperation({
      ...creates,
      id: 'createPayment',
      path: '/api/payments',
      summary: 'Create a payment with a Lightning invoice and a page to pay it',
      description:
        'The amount is converted to satoshis at the current rate, and stays fixed until the invoice expires. ' +
        'Show lightningInvoice or send the buyer to payUrl. A webhook reports each change of the status.',
      headers: idempotent('payment'),
      responses: {
        201: { description: 'The payment.', schema: PaymentView },
        ...notCreated
      },
      handle: async ({ ctx, body }) => {
        const { made, headers } = await payments.createOnce(merchantOf(ctx), body, 'payment', ctx.idempotency)
        return {
          status: 201,
          body: payments.view(made),
          headers: ['Location', `/api/payments/${made.invoiceId}`, ...headers]
        }
      }
    }),
    merchantOperation({
      ...asks,
      id: 'syncPayment',
      unaudited: true,
      path: '/api/payments/:invoiceId/sync',
      summary: 'Look up a payment at the payment provider',
      description:
        'Asks the provider now instead of waiting for its notification. A change that is found is written and sent as a webhook, once.',
      responses: {
        200: { description: 'The current payment.', schema: PaymentView },
        400: 'The key of the provider that made the invoice is no longer saved.',
        404: unknown,
        502: refused,
        503: unavailable
      },
      handle: async ({ merchant, params }) => payments.view(await payments.sync(merchant, params.invoiceId))
    }),
    merchantOperation({
      ...asks,
      id: 'cancelPayment',
      path: '/api/payments/:invoiceId/cancel',
      summary: 'Cancel an unpaid payment before it expires',
      description:
        'The provider is asked first; then the payment is expired, its page says so, and a webhook reports it. A Lightning invoice cannot be withdrawn from a payer who ' +
        'holds it: what is still paid to it makes the payment paid, and can be refunded. The orderId stays taken.',
      responses: {
        200: { description: 'The payment, which is now expired.', schema: PaymentView },
        400: 'The key of the provider that made the invoice is no longer saved.',
        404: unknown,
        409: 'Money has come, or is on its way; nothing was changed.',
        502: refused,
        503: unavailable
      },
      handle: async ({ merchant, params }) => payments.view(await payments.cancel(merchant, params.invoiceId))
    }),
    merchantOperation({
      ...reads,
      id: 'getPayment',
      path: '/api/payments/:invoiceId',
      summary: 'One payment',
      description: 'The stored state; the provider is not called. Fulfill the order when the status is paid.',
      params: byInvoice,
      responses: { 200: { description: 'The payment.', schema: PaymentView }, 404: unknown, 503: unavailable },
      handle: async ({ merchant, params }) => payments.view(await payments.get(merchant, params.invoiceId))
    }),
    merchantOperation({
      ...reads,
      id: 'getPaymentByOrder',
      path: '/api/payments/order/:orderId',
      summary: 'Get a payment by your order ID; write a slash as %2F',
      description: 'Recovers a payment after a lost response: the orderId is unique among your payments.',
      params: Type.Object({ orderId: Type.String({ 'x-judged': true }) }),
      responses: { 200: { description: 'The payment.', schema: PaymentView }, 404: unknown, 503: unavailable },
      handle: async ({ merchant, params }) => payments.view(await payments.byOrder(merchant, params.orderId))
    }),
    defineOperation({
      ...common,
      access: 'public',
      id: 'getPaymentStatus',
      method: 'GET',
      path: '/api/payments/:invoiceId/status',
      mount: { use: 'merchant-api', chain: 'public-read' },
      summary: 'Get the status of a payment, without a key',
      description:
        'For a page that waits for its payment without a key. Anyone who knows the invoiceId can ask, and learns nothing but the status.',
      params: byInvoice,
      responses: {
        200: { description: 'The status and nothing else.', schema: PaymentStatusView },
        404: 'There is no such payment.',
        503: unavailable
      },
      handle: async ({ params }) => ({ status: 200, body: { status: await payments.status(params.invoiceId) } })
    }),
    // Payments by hosted page (contract, Billing and checkout; decision 168).
    defineOperation({
      ...creates,
      id: 'createCheckoutSession',
      path: '/api/checkout/sessions',
      summary: 'Create a payment and get the URL of its page',
      description:
        'Makes a payment as POST /api/payments does and answers the address of its page: send the buyer there. ' +
        'The payment is read, and reported by webhooks, under its invoiceId.',
      headers: idempotent('session'),
      responses: {
        201: {
          description: 'A payment was made, by the same rules as with `POST /api/payments`.',
          schema: CheckoutSessionView
        },
        ...notCreated
      },
      handle: async ({ ctx, body }) => {
        const { made, headers } = await payments.createOnce(merchantOf(ctx), body, 'checkout-session', ctx.idempotency)
        const { invoiceId, payUrl, status, expiresAt } = payments.view(made)
        return {
          status: 201,
          body: { sessionId: `cs_${invoiceId}`, checkoutUrl: payUrl, invoiceId, status, expiresAt },
          headers: ['Location', `/api/payments/${invoiceId}`, ...headers]
        }
      }
    })
  ]
}
