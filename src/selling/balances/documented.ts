import type { OperationText } from '../../engine/operations/operation.ts'

const HASH = '4d784aaa1f64c1b2b6b4a9d0a4c7c3f0e9d3a7b5c1f2e4d6a8b0c2d4e6f80123'
const standing = {
  state: 'open',
  unit: 'token',
  depositedMsat: 2_000_000,
  spentMsat: 431_250,
  reservedMsat: 33_000,
  balanceMsat: 1_568_750,
  expiresAt: '2026-12-22T10:15:30.000Z'
} as const
const balance = {
  id: HASH,
  kind: 'bundle',
  ...standing,
  merchantId: null,
  proxyId: null,
  place: 'route:POST /v1/chat/completions',
  openedAt: '2026-11-22T10:15:30.000Z',
  isRevoked: false
} as const
const list = { 200: [balance] }
const entries = {
  200: [
    {
      at: '2026-11-22T10:16:30.000Z',
      request: '0199f1d0-5a5b-7c5d-8e5f-606162636465',
      model: 'small',
      input: 1_250,
      output: 400,
      msat: 5_700,
      unpaidMsat: 0,
      basis: 'usage'
    }
  ]
}
const byId = { balanceId: HASH }

/** What OpenAPI says of balances. */
export const balanceTexts: Readonly<Record<string, OperationText>> = {
  getBalance: {
    description:
      'For whoever holds the credential of a bundle, in any of its forms: what is left of it. What requests under way have reserved is still in the balance.',
    example: { responses: { 200: standing } }
  },
  listBalances: {
    description: "What was bought of the account's metered proxies and what is left of it, by payment hash.",
    example: { responses: list }
  },
  listBalanceEntries: {
    description: 'What each request took from one balance, for 90 days.',
    example: { params: byId, responses: entries }
  },
  adminListBalances: {
    description: "Everybody's: those of the operator's own routes have no merchant.",
    example: { responses: list }
  },
  adminListBalanceEntries: {
    description: 'What each request took from one balance, for 90 days. The correlation id leads to the access log.',
    example: { params: byId, responses: entries }
  }
}
