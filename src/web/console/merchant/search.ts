import { t } from '../../../engine/formats/language.ts'
import type { PaymentPage } from '../../../payments/payments/listing.ts'
import type { RefundDetails } from '../../../payments/refunds/schema.ts'
import type { SalePage } from '../../../selling/sales/operations.ts'
import type { OrderRow } from '../../../shop/orders/views.ts'
import { html } from '../../kit/document.ts'
import { queryOf } from '../api.ts'
import type { ConsolePage } from '../page.ts'
import { table, type TableColumn, input } from '../parts.ts'
import { orderState, sats, short, timeOf } from '../words.ts'
import { paymentColumns, type PaymentItem } from './payments.ts'
import { refundColumns } from './refunds.ts'
import { saleColumns } from '../sales.ts'

/** Results per kind. */
const MOST = 10

export const searchPage: ConsolePage = {
  id: 'getConsoleSearch',
  path: 'search',
  summary: 'Payments, customers, sales, refunds and orders that contain a text',
  async show(request) {
    const { api, link, query } = request
    const text = (query.get('text') ?? '').trim().slice(0, 200)
    const newest = queryOf({ text, limit: MOST })
    const [paid, sold, refunds, orders] =
      text === ''
        ? [null, null, null, null]
        : await Promise.all([
            api.get<PaymentPage>(`/api/payments${newest}`),
            api.get<SalePage>(`/api/merchant/sales${newest}`),
            api.permitted<readonly RefundDetails[]>(`/api/refunds${queryOf({ text, take: MOST })}`),
            api.permitted<readonly OrderRow[]>(`/api/merchant/storefront/orders${queryOf({ text, pageSize: MOST })}`)
          ])
    const payments: readonly PaymentItem[] = paid?.payments ?? []
    const customers = new Map(
      payments
        .filter(({ customerEmail, customerName }) => (customerEmail ?? customerName ?? '') !== '')
        .map(payment => [`${payment.customerEmail} ${payment.customerName}`, payment])
    )
    const found = <T>(title: string, columns: ReadonlyArray<TableColumn<T>>, rows: readonly T[] | null, all = '') => {
      const id = title.toLowerCase()
      return html`
      <section aria-labelledby=${id}>
        <div class="heading"><h2 id=${id}>${t(title)}</h2>${all === '' ? null : html`<a href=${link(`${all}${queryOf({ text })}`)}>Show all</a>`}</div>
        ${table(title, columns, rows ?? [], html`<p>No matches.</p>`)}
      </section>`
    }
    return {
      title: 'Search',
      content: html`
        <form method="get" class="filter" role="search" aria-label="Everything">
          ${input('text', 'Order, customer, description, address, ID or payment hash', { value: text, type: 'search', maxlength: 200, required: true })}
          <button class="button small" type="submit">Search</button>
        </form>
        ${
          text === ''
            ? null
            : html`
          <p class="soft">Shows the ${MOST} newest of each kind.</p>
          ${found('Payments', paymentColumns(request), payments, 'payments')}
          ${found(
            'Customers',
            [
              ['Name', one => html`<bdi>${one.customerName ?? '–'}</bdi>`],
              [
                'Payments',
                ({ customerEmail, customerName }) =>
                  html`<a href=${link(`payments${queryOf({ text: customerEmail ?? customerName })}`)}><bdi>${customerEmail ?? t('Show')}</bdi></a>`
              ]
            ],
            [...customers.values()]
          )}
          ${found(
            'Sales',
            [
              ...saleColumns,
              ['Payment hash', sale => short(sale.paymentHash)],
              ['Earnings', sale => sats(sale.sats), 'number']
            ],
            sold?.sales ?? null,
            'sales'
          )}
          ${found('Refunds', refundColumns(sats, request), refunds)}
          ${found(
            'Orders',
            [
              ['Order', one => html`<a href=${link('store')}>${one.storefrontOrderNumber ?? one.orderId}</a>`],
              ['Email', one => html`<bdi>${one.email ?? '–'}</bdi>`],
              ['Status', one => orderState(one.status)],
              ['Created', one => timeOf(one.createdAt)]
            ],
            orders
          )}`
        }`
    }
  }
}
