import { Type } from 'typebox'
import { isoTime } from '../../engine/formats/iso-time.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { merchantOf } from '../../accounts/merchants/principal.ts'
import { PaymentInput, PaymentStatusView } from './schema.ts'
import type { Payments } from './service.ts'

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

/** Checkout sessions: payments by hosted page (contract, Billing and checkout; decision 168). */
export function checkoutOperations(payments: Pick<Payments, 'createOnce' | 'view'>): AnyOperation[] {
  return [
    defineOperation({
      id: 'createCheckoutSession',
      unaudited: true,
      method: 'POST',
      path: '/api/checkout/sessions',
      mount: { use: 'merchant-api', chain: 'payments-create' },
      summary: 'Ask for a payment and get the address of its page',
      description:
        'Makes a payment as POST /api/payments does and answers the address of its page: send the buyer there. ' +
        'The payment is read, and told of by webhooks, under its invoiceId.',
      tag: 'Payments',
      access: 'merchant',
      headers: {
        'X-Correlation-Id':
          'Comes back on the answer and stands in the log. 1 to 128 letters, digits, dots, colons, dashes and underscores.',
        'Idempotency-Key':
          'At most 256 characters. The same key with the same body gives the first answer again for 24 hours, and the same session, as it then stands, for ever; with X-Idempotency-Replayed: true.',
        'X-Idempotency-Key': 'The same; Idempotency-Key goes before it.'
      },
      body: PaymentInput,
      responses: {
        201: {
          description: 'A payment was made, by the same rules as with `POST /api/payments`.',
          schema: CheckoutSessionView
        },
        400: 'A field is not valid; or the amount does not fit its currency, the orderId is taken, no key of the payment provider is saved, or the account is not active.',
        502: 'The payment provider refused.',
        503: 'The payment provider, the price feed or the database is away; nothing was made. Retry-After says when to come back.'
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
