import type { PaymentPage } from '../../../payments/payments/listing.ts'
import type { SalePage, SaleView } from '../../../selling/sales/operations.ts'
import type { QuickstartView } from '../../../accounts/merchants/quickstart.ts'
import { html } from '../../kit/document.ts'
import { earningsSection } from '../earnings.ts'
import type { Asked, ConsolePage, PageContent } from '../page.ts'
import { live, table } from '../parts.ts'
import { amountIn, timeOf, sats } from '../words.ts'
import type { PaymentItem } from './payments.ts'
import { askedAndPaidSection } from './asked-and-paid.ts'
import { openProblems } from './problems.ts'

/** What an account earned, what it lately sold, and what stands in the way of selling more. */
export const overviewPage: ConsolePage = {
  id: 'getConsole',
  console: 'merchant',
  path: '',
  summary: 'What the account earned, what it lately sold, and what stands in its way',
  async show(asked: Asked): Promise<PageContent> {
    const { api, link } = asked
    const [problems, earned, askedAndPaid, { sales }, { payments }] = await Promise.all([
      api.get<QuickstartView>('/api/merchant/quickstart').then(quickstart => openProblems(asked, quickstart)),
      earningsSection(asked, '/api/merchant/earnings', ['source', 'proxy', 'scheme']),
      askedAndPaidSection(asked),
      api.get<SalePage>('/api/merchant/sales?limit=5'),
      api.get<PaymentPage>('/api/payments?limit=5')
    ])
    return {
      title: 'Overview',
      content: html`
        ${problems}
        ${earned}
        ${askedAndPaid}
        <section aria-labelledby="sold">
          <div class="heading"><h2 id="sold">Lately sold</h2><a href=${link('sales')}>All sales</a></div>
          ${live(
            'sold-list',
            table(
              'What was lately sold',
              [
                { title: 'What', cell: (sale: SaleView) => html`<bdi>${sale.resource}</bdi>` },
                { title: 'When', cell: sale => timeOf(sale.soldAt) },
                { title: 'Earned', cell: sale => sats(sale.sats), isNumber: true }
              ],
              sales,
              html`<p>Nothing yet. <a href=${link('apis')}>Make an API</a>, and send its address to somebody.</p>`
            )
          )}
        </section>
        <section aria-labelledby="paid">
          <div class="heading"><h2 id="paid">Latest payments</h2><a href=${link('payments')}>All payments</a></div>
          ${live(
            'paid-list',
            table(
              'The latest payments',
              [
                {
                  title: 'Order',
                  cell: (payment: PaymentItem) =>
                    html`<a href=${link(`payments/${payment.invoiceId}`)}><bdi>${payment.orderId}</bdi></a>`
                },
                { title: 'Status', cell: payment => payment.status },
                { title: 'Made', cell: payment => timeOf(payment.createdAt) },
                { title: 'Amount', cell: payment => amountIn(payment.amount, payment.currency), isNumber: true }
              ],
              payments,
              html`<p>None yet. <code>POST /api/payments</code> makes an invoice that your customer pays on a page of its own.</p>`
            )
          )}
        </section>`
    }
  }
}
