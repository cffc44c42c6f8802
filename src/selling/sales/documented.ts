import type { OperationText } from '../../engine/operations/operation.ts'

const sale = {
  soldAt: '2026-11-22T10:15:30.000Z',
  source: 'proxy',
  resource: '/l402/proxy/weather-3fa9c1/v1/today',
  description: 'Weather of today',
  proxyId: 'weather-3fa9c1',
  scheme: 'l402',
  sats: 10,
  price: null,
  state: 'paid',
  isRevoked: false,
  paymentHash: '4d784aaa1f64c1b2b6b4a9d0a4c7c3f0e9d3a7b5c1f2e4d6a8b0c2d4e6f80123'
}
const earned = {
  by: 'day',
  of: 'proxy',
  from: '2026-10-24T00:00:00.000Z',
  to: '2026-11-23T00:00:00.000Z',
  sales: 340,
  sats: 3_400,
  points: [{ at: '2026-11-22T00:00:00.000Z', key: 'weather-3fa9c1', name: 'Weather', sales: 340, sats: 3_400 }]
}
const KEPT = 'What routes and proxies sold is listed until a month after its token has ended; sums stay.'

/** What OpenAPI says of sales and earnings. */
export const salesTexts: Readonly<Record<string, OperationText>> = {
  listSales: {
    description: `Each paid challenge once. Invoices that you asked for yourself are at /api/payments. ${KEPT}`,
    example: { responses: { 200: { sales: [sale], next: null } } }
  },
  adminListSales: {
    description: KEPT,
    example: { responses: { 200: { sales: [{ merchantId: 7, ...sale }], next: null } } }
  },
  getEarnings: {
    description:
      'Sums of what was paid, payments and sales alike, before refunds and fees; exact at any moment. A session counts with its whole deposits ' +
      'when they are paid, under the route that asked for them; what it paid back stands at /api/admin/sessions. Steps are in UTC: for ' +
      'days of another zone ask by hour. At most 744 hours, 366 days or 120 months.',
    example: { responses: { 200: earned } }
  },
  adminGetEarnings: {
    description: 'As a merchant’s own; over all of them also by merchant.',
    example: {
      responses: {
        200: {
          ...earned,
          of: 'merchant',
          points: [{ at: '2026-11-22T00:00:00.000Z', key: '7', name: 'Example Shop', sales: 340, sats: 3_400 }]
        }
      }
    }
  }
}
