import type { OperationText } from '../../engine/operations/operation.ts'

const sessionId = '4d784aaa1f64c1b2b6b4a9d0a4c7c3f0e9d3a7b5c1f2e4d6a8b0c2d4e6f80123'
const session = {
  id: sessionId,
  depositedMsat: 500_000,
  spentMsat: 360_000,
  balanceMsat: 140_000,
  openedAt: '2026-11-22T10:15:30.000Z',
  usedAt: '2026-11-22T10:21:00.000Z',
  expiresAt: '2026-12-22T10:05:30.000Z',
  closedAt: '2026-11-22T10:26:30.000Z',
  closedBy: 'idle',
  returnInvoice: 'lnbcrt1p5abcdef',
  refund: {
    status: 'failed',
    satoshis: 140,
    feeSatoshis: 0,
    reference: '7214590318264053',
    providerPayoutId: null,
    begunAt: '2026-11-22T10:26:30.000Z',
    askedAt: '2026-11-22T10:26:30.000Z',
    endedAt: '2026-11-22T10:26:31.000Z',
    fault: 'The node could not pay the Lightning invoice.',
    retryAt: null,
    settledBy: null,
    settledWhy: null
  }
} as const
const confirmed = {
  ...session,
  balanceMsat: 0,
  refund: { ...session.refund, status: 'confirmed', feeSatoshis: 1, providerPayoutId: '9f2c', fault: null }
} as const
const params = { sessionId }

/** What OpenAPI says of sessions. */
export const prepaidTexts: Readonly<Record<string, OperationText>> = {
  adminListSessions: {
    description: 'Clients see what is left of a session at `GET /l402/balance` with its credential.',
    example: { responses: { 200: [session] } }
  },
  adminGetSession: {
    description: 'What its requests took stands at `GET /api/admin/balances/{balanceId}/entries`, under the same id.',
    example: { params, responses: { 200: session } }
  },
  adminCloseSession: {
    description:
      'As a client closes one: nothing more is served from it, and what is left is sent to its return invoice once. Streams that it pays for end.',
    example: { params, responses: { 200: confirmed } }
  },
  adminRefundSession: {
    description:
      'Refunds that were certainly not sent are retried automatically; this sends one at once, or after it failed, under another reference. What may have been sent is looked up until the provider says what became of it.',
    example: { params, body: {}, responses: { 200: confirmed } }
  },
  adminSettleSessionRefund: {
    description:
      'For a refund that the provider has not acknowledged ten minutes after it was sent, and for one that could not be sent. sent ends it; not-sent makes it fail, so that it is sent again by hand alone.',
    example: {
      params,
      body: { outcome: 'not-sent', settledBy: 'Ada', reason: 'No such payment in the node between 10:20 and 10:40.' },
      responses: { 200: session }
    }
  }
}
