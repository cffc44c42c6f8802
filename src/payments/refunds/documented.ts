import type { OperationText } from '../../engine/operations/operation.ts'

const created = {
  refundId: '719305284610357',
  providerRefundId: 'sbx_0199f1e0-2b11-7d0c-8a34-5f6e7d8c9b0a',
  alternateRefundId: 'sbx_0199f1e0-2b11-7d0c-8a34-5f6e7d8c9b0a',
  invoiceId: '482910573648201',
  status: 'processing',
  amountSatoshis: 20833,
  feeSatoshis: 0,
  refundAddress: 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080',
  refundType: 'chain',
  transactionHash: null,
  createdAt: '2026-11-23T09:00:00.000Z'
}
const refund = {
  ...created,
  status: 'confirmed',
  feeSatoshis: 210,
  transactionHash: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
  processedAt: '2026-11-23T09:00:05.000Z',
  reason: 'Sold out'
}
const byId = { refundId: created.refundId }

/** What OpenAPI says of the operations of refunds. */
export const refundTexts: Readonly<Record<string, OperationText>> = {
  createRefund: {
    description:
      'Sends money back by the provider that took it in. Several refunds of one payment are possible, together at most what came in; ' +
      'the amount is reserved first, so two at once cannot give more.',
    example: {
      body: {
        invoiceId: created.invoiceId,
        refundAddress: created.refundAddress,
        refundType: 'chain',
        amountSatoshis: 20833,
        reason: 'Sold out'
      },
      responses: { 201: created }
    }
  },
  listRefunds: {
    description:
      'What is pending or processing is looked up at the provider by itself; the list shows what was found last.',
    example: { responses: { 200: [refund] } }
  },
  listRefundsOfInvoice: {
    description: 'Shows how much of a payment went back already: failed refunds have freed their amount.',
    example: { params: { invoiceId: created.invoiceId }, responses: { 200: [refund] } }
  },
  getRefund: {
    description:
      'The refund as it stands here. A message says what to do about one that the provider has not acknowledged.',
    example: { params: byId, responses: { 200: refund } }
  },
  syncRefund: {
    description:
      'Asks the provider now. It never sends anything: a refund whose answer was lost is found by its own id.',
    example: { params: byId, responses: { 200: refund } }
  }
}

const admin = {
  ...refund,
  merchantId: 7,
  provider: 'sandbox',
  lookedUpUntil: '2026-12-23T09:00:00.000Z',
  settlement: {
    outcome: 'sent',
    settledBy: 'Ada',
    reason: "Withdrawal 88 in the provider's list",
    correlationId: '0199f1e1-0000-7000-8000-000000000001',
    settledAt: '2026-11-23T10:00:00.000Z'
  }
}

/** What OpenAPI says of the operator's side of refunds. */
export const refundAdminTexts: Readonly<Record<string, OperationText>> = {
  adminListRefunds: {
    description:
      "Unless view says otherwise, the refunds that may or may not have been sent: compare each with the provider's own records and settle it.",
    example: { responses: { 200: [admin] } }
  },
  adminGetRefund: {
    description:
      'Beside what its merchant sees: whose it is, by which provider it goes out, and how it was settled by hand.',
    example: { params: byId, responses: { 200: admin } }
  },
  adminSettleRefund: {
    description:
      'Ends the doubt about one refund: sent confirms it, not-sent fails it and frees its amount to be refunded again. ' +
      'It is kept who said so and why, and it cannot be taken back.',
    example: {
      params: byId,
      body: {
        outcome: 'sent',
        providerRefundId: created.providerRefundId,
        settledBy: 'Ada',
        reason: "Withdrawal 88 in the provider's list"
      },
      responses: { 200: admin }
    }
  }
}
