import type { OperationText } from '../../engine/operations/operation.ts'

const entries = [
  {
    id: '01a1ff70-dd2e-711d-b419-983214ef9bd0',
    at: '2026-11-22T10:15:00.000Z',
    merchantId: 7,
    by: { kind: 'member', name: 'editor@example.com' },
    operation: 'updateProxy',
    target: { proxyId: '482910375516204' },
    change: { name: '…', defaultPriceSats: 12 },
    status: 200
  }
]

/** What OpenAPI says of the audit trail. */
export const auditTexts: Readonly<Record<string, OperationText>> = {
  listAudit: {
    description:
      'Every request to change the account, by its keys, its members and the operator, those that were refused too; also sign-ins and sign-outs; not its sales. Kept for a year.',
    example: { responses: { 200: { entries, next: null } } }
  },
  adminListAudit: {
    description:
      'What merchants and operators asked to change, and sign-ins, sign-outs and failed sign-ins. A failed one names no account, so it is in this list alone: one entry for each client network and minute, with the number of attempts. Kept for a year.',
    example: { responses: { 200: { entries, next: null } } }
  }
}
