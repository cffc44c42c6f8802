import type { ConsolePage } from '../page.ts'
import { may } from '../role.ts'
import { MERCHANT_SOURCES, listOf, revocation, salesPage } from '../sales.ts'

/** Sales, and revoking leaked tokens. */
export const merchantSales: ConsolePage = {
  id: 'getConsoleSales',
  console: 'merchant',
  path: 'sales',
  summary: 'What was sold, and revoking what was sold',
  show: asked =>
    salesPage(asked, '/api/merchant/sales', MERCHANT_SOURCES, ({ isRevoked, paymentHash }) =>
      isRevoked || !may(asked, 'editor')
        ? null
        : revocation(asked, paymentHash, 'Whoever paid can no longer use it, and must pay again.')
    ),
  async act({ api, form }) {
    await api.send({ method: 'DELETE', target: `/api/merchant/tokens/${encodeURIComponent(form.get('hash') ?? '')}` })
    return { to: listOf('sales', form), done: 'revoked' }
  }
}
