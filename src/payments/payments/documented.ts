import type { OperationText } from '../../engine/operations/operation.ts'

const input = {
  orderId: 'order-1001',
  amount: 12.5,
  currency: 'USD',
  description: 'Two tickets',
  customerEmail: 'buyer@example.com',
  successUrl: 'https://shop.example.com/thanks',
  metadata: { basket: '42' }
}

const made = {
  invoiceId: '482910573648201',
  orderId: 'order-1001',
  status: 'unpaid',
  amount: 12.5,
  currency: 'USD',
  lightningInvoice: 'lnbcrt208330n1p5q0example',
  paymentHash: '4d784aaa1f64c1b2b6b4a9d0a4c7c3f0e9d3a7b5c1f2e4d6a8b0c2d4e6f80123',
  hostedCheckoutUrl: '',
  payUrl: 'https://gateway.example.com/pay/uJ0mZ5q3W8nX1rT6vY2bC4dE7fG9hK0lM3nP5qR8sTw',
  providerChargeId: 'sbx_0199f1d2-6f0e-7c41-9d25-0c7a8f3b2e10',
  alternateChargeId: 'sbx_0199f1d2-6f0e-7c41-9d25-0c7a8f3b2e10',
  createdAt: '2026-11-22T10:15:00.000Z',
  expiresAt: '2026-11-22T10:30:00.000Z',
  description: 'Two tickets',
  customerEmail: 'buyer@example.com',
  customerName: null,
  metadata: { basket: '42' }
}
const paid = { ...made, status: 'paid', paidAt: '2026-11-22T10:16:30.000Z' }
const byInvoice = { invoiceId: made.invoiceId }

const listedPayment = { ...paid, amountSats: 12_500, receivedSats: 12_500 }

/** What OpenAPI says of the lists of payments. */
export const paymentListTexts: Readonly<Record<string, OperationText>> = {
  listPayments: {
    description:
      'Your own alone, also while no subscription is active. A status is as it reads now: what nobody paid in time is ' +
      'expired. With `Accept: text/csv` all that fit, as they are read; amounts stand there as they were given.',
    example: { responses: { 200: { payments: [listedPayment], next: '1795515420000-482910573648201' } } }
  },
  adminListPayments: {
    description: 'The same over all merchants, or of the one that merchantId names.',
    example: {
      responses: { 200: { payments: [{ merchantId: 7, ...listedPayment }], next: null } }
    }
  }
}

/** What OpenAPI says of the operations of payments. */
export const paymentTexts: Readonly<Record<string, OperationText>> = {
  createPayment: {
    description:
      'The amount is turned into satoshis at the price of this moment, and the invoice keeps that amount until it expires. ' +
      'Show lightningInvoice or send the buyer to payUrl; a webhook tells of each change of the status.',
    example: { body: input, responses: { 201: made } }
  },
  syncPayment: {
    description:
      'Asks the provider now instead of waiting for its notification. A change that is found is written and sent as a webhook, once.',
    example: { params: byInvoice, responses: { 200: paid } }
  },
  cancelPayment: {
    description:
      'The provider is asked first; then the payment is expired, its page says so, and a webhook tells of it. Nobody can take back a Lightning invoice that somebody ' +
      'holds: what is paid to it all the same makes the payment paid, and can be refunded. The orderId stays taken.',
    example: { params: byInvoice, responses: { 200: { ...made, status: 'expired' } } }
  },
  getPayment: {
    description: 'The payment as it stands here; the provider is not asked. Fulfil the order when the status is paid.',
    example: { params: byInvoice, responses: { 200: paid } }
  },
  getPaymentByOrder: {
    description: 'For a shop that has lost the answer of a creation: the orderId is unique among your payments.',
    example: { params: { orderId: made.orderId }, responses: { 200: paid } }
  },
  getPaymentStatus: {
    description:
      'For a page that waits for its payment without a key. Whoever knows the invoiceId can ask, and learns nothing but the status.',
    example: { params: byInvoice, responses: { 200: { status: 'paid' } } }
  }
}

/** What OpenAPI says of checkout sessions. */
export const checkoutTexts: Readonly<Record<string, OperationText>> = {
  createCheckoutSession: {
    description:
      'Makes a payment as POST /api/payments does and answers the address of its page: send the buyer there. ' +
      'The payment is read, and told of by webhooks, under its invoiceId.',
    example: {
      body: input,
      responses: {
        201: {
          sessionId: `cs_${made.invoiceId}`,
          checkoutUrl: made.payUrl,
          invoiceId: made.invoiceId,
          status: 'unpaid',
          expiresAt: made.expiresAt
        }
      }
    }
  }
}
