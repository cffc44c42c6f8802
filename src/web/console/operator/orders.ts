import type { AdminOrderRow } from '../../../shop/orders/views.ts'
import { html } from '../../kit/document.ts'
import type { ConsolePage } from '../page.ts'
import { queryOf, type AsRead } from '../api.ts'
import { action, offsetOf, offsetPager, ROWS, table } from '../parts.ts'
import { sats, timeOf } from '../words.ts'

export const operatorOrders: ConsolePage = {
  id: 'getOperatorOrders',
  console: 'operator',
  path: 'orders',
  summary: 'Paid orders that their shop rejected, and retrying one',
  async show({ api, link, query }) {
    const skip = offsetOf(query)
    const orders = await api.get<readonly AdminOrderRow[]>(
      `/api/admin/storefront/orders${queryOf({ skip, take: ROWS + 1 })}`
    )
    return {
      title: 'Orders',
      content: html`${table(
        'Orders',
        [
          { title: 'Order', cell: (order: AsRead<AdminOrderRow>) => order.orderId },
          {
            title: 'Merchant',
            cell: ({ merchantId }) => html`<a href=${link(`merchants/${merchantId}`)}>${merchantId}</a>`
          },
          { title: 'Created', cell: order => timeOf(order.createdAt) },
          {
            title: 'Problem',
            cell: ({ failure, refundRequest }) =>
              html`${failure?.message ?? ''}${refundRequest === undefined ? null : html` The buyer requested a refund.`}`
          },
          { title: 'Paid', cell: ({ paidSats }) => (paidSats === null ? '–' : sats(paidSats)), isNumber: true },
          { title: 'Retry', cell: ({ orderId }) => action('Retry order', { orderId }, { what: orderId }) }
        ],
        orders.slice(0, ROWS),
        html`<p>No orders need attention. Paid orders that their shop rejects, or whose buyer requests a refund, appear here.</p>`
      )}
      ${offsetPager(offset => link(`orders${queryOf({ offset })}`), skip, orders.length > ROWS)}`
    }
  },
  async act({ api, form }) {
    await api.send({
      method: 'POST',
      target: `/api/admin/storefront/orders/${encodeURIComponent(form.get('orderId') ?? '')}/retry`
    })
    return { to: 'orders', done: 'retried' }
  }
}
