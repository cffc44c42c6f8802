import type { AdminOrderRow } from '../../../shop/orders/views.ts'
import { html } from '../../kit/document.ts'
import type { ConsolePage } from '../page.ts'
import { rowsOf } from '../lists.ts'
import { action, table } from '../parts.ts'
import { sats, timeOf } from '../words.ts'

const ORDERS = '/api/admin/storefront/orders'

export const operatorOrders: ConsolePage = {
  id: 'getOperatorOrders',
  path: 'orders',
  summary: 'Paid orders that their shop rejected, and retrying one',
  async show(request) {
    const { link } = request
    const { rows, pages } = await rowsOf<AdminOrderRow>(request, ORDERS, 'orders')
    return {
      title: 'Orders',
      content: html`${table(
        'Orders',
        [
          ['Order', order => order.orderId],
          ['Merchant', ({ merchantId }) => html`<a href=${link(`merchants/${merchantId}`)}>${merchantId}</a>`],
          ['Created', order => timeOf(order.createdAt)],
          [
            'Problem',
            ({ failure, refundRequest }) =>
              html`${failure?.message ?? ''}${refundRequest === undefined ? null : html` The buyer requested a refund.`}`
          ],
          ['Paid', ({ paidSats }) => (paidSats === null ? '–' : sats(paidSats)), 'number'],
          ['Retry', ({ orderId }) => action('Retry order', { orderId }, { what: orderId })]
        ],
        rows,
        html`<p>No orders need attention. Paid orders that their shop rejects, or whose buyer requests a refund, appear here.</p>`
      )}
      ${pages}`
    }
  },
  async act({ api, form }) {
    await api.post(`${ORDERS}/${encodeURIComponent(form.text('orderId'))}/retry`)
    return { to: 'orders', done: 'retried' }
  }
}
