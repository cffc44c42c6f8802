import { t } from '../../../engine/formats/language.ts'
import type { PaymentPage } from '../../../payments/payments/listing.ts'
import type { RefundDetails } from '../../../payments/refunds/schema.ts'
import type { SalePage, SaleView } from '../../../selling/sales/operations.ts'
import type { OrderRow } from '../../../shop/orders/views.ts'
import { html } from '../../kit/document.ts'
import { queryOf, type AsRead } from '../api.ts'
import type { ConsolePage } from '../page.ts'
import { field, table, type TableColumn } from '../parts.ts'
import { orderState, status, sats, short, timeOf } from '../words.ts'
import { paymentColumns, type PaymentItem } from './payments.ts'
import { refundedLink } from './refunds.ts'

type FoundOrder = AsRead<OrderRow>
type Columns<T> = ReadonlyArray<TableColumn<T>>

/** Results per kind. */
const MOST = 10

/** One box over payments, customers, sales, refunds and orders of the store. */
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
    const found = <T>(id: string, title: string, columns: Columns<T>, rows: readonly T[] | null, all?: string) => html`
      <section aria-labelledby=${id}>
        <div class="heading"><h2 id=${id}>${t(title)}</h2>${all === undefined ? null : html`<a href=${link(`${all}${queryOf({ text })}`)}>Show all</a>`}</div>
        ${table(title, columns, rows ?? [], html`<p>No matches.</p>`)}
      </section>`
    return {
      title: 'Search',
      content: html`
        <form method="get" class="filter" role="search" aria-label="Everything">
          ${field({ name: 'text', label: 'Order, customer, description, address, ID or payment hash', value: text, attributes: { type: 'search', maxlength: 200, required: true } })}
          <button class="button small" type="submit">Search</button>
        </form>
        ${
          text === ''
            ? null
            : html`
          <p class="soft">Shows the ${MOST} newest of each kind.</p>
          ${found('payments', 'Payments', paymentColumns(request), payments, 'payments')}
          ${found(
            'customers',
            'Customers',
            [
              { title: 'Name', cell: (one: PaymentItem) => html`<bdi>${one.customerName ?? '–'}</bdi>` },
              {
                title: 'Payments',
                cell: ({ customerEmail, customerName }) =>
                  html`<a href=${link(`payments${queryOf({ text: customerEmail ?? customerName })}`)}><bdi>${customerEmail ?? t('Show')}</bdi></a>`
              }
            ],
            [...customers.values()]
          )}
          ${found(
            'sales',
            'Sales',
            [
              { title: 'What', cell: (sale: SaleView) => html`<bdi>${sale.resource}</bdi>` },
              { title: 'When', cell: sale => timeOf(sale.soldAt) },
              { title: 'Payment hash', cell: sale => short(sale.paymentHash) },
              { title: 'Earnings', cell: sale => sats(sale.sats), isNumber: true }
            ],
            sold?.sales ?? null,
            'sales'
          )}
          ${found(
            'refunds',
            'Refunds',
            [
              { title: 'Payment', cell: (refund: RefundDetails) => refundedLink(request, refund.invoiceId) },
              { title: 'Status', cell: refund => status(refund.status) },
              { title: 'Created', cell: refund => timeOf(refund.createdAt) },
              { title: 'Amount', cell: refund => sats(refund.amountSatoshis), isNumber: true }
            ],
            refunds
          )}
          ${found(
            'orders',
            'Orders',
            [
              {
                title: 'Order',
                cell: (one: FoundOrder) =>
                  html`<a href=${link('store')}>${one.storefrontOrderNumber ?? one.orderId}</a>`
              },
              { title: 'Email', cell: one => html`<bdi>${one.email ?? '–'}</bdi>` },
              { title: 'Status', cell: one => orderState(one.status) },
              { title: 'Created', cell: one => timeOf(one.createdAt) }
            ],
            orders
          )}`
        }`
    }
  }
}
