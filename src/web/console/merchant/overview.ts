import { t } from '../../../engine/formats/language.ts'
import type { PaymentPage } from '../../../payments/payments/listing.ts'
import type { SalePage, SaleView, EarningsView } from '../../../selling/sales/operations.ts'
import type { QuickstartView } from '../../../accounts/merchants/quickstart.ts'
import { html } from '../../kit/document.ts'
import { earningsSection } from '../earnings.ts'
import type { PageRequest, ConsolePage, PageContent } from '../page.ts'
import { live, table, figure } from '../parts.ts'
import { amountIn, timeOf, sats, count, percent } from '../words.ts'
import { paymentColumns } from './payments.ts'
import { openProblems } from './problems.ts'
import type { VNode } from 'preact'
import type { ProxyTrafficView } from '../../../accounts/traffic/operations.ts'
import { queryOf } from '../api.ts'
import { lineChart } from '../chart.ts'

const DAY = 86_400_000
const DAYS = 30
/** Sales of an account's APIs: requests and balances. */
const SOLD_BY_APIS: ReadonlySet<string | null> = new Set(['proxy', 'bundle'])

/** Conversion of 402 responses by day; null without any. */
async function askedAndPaidSection({ api, ctx }: PageRequest): Promise<VNode | null> {
  const from = new Date(ctx.now - (DAYS - 1) * DAY).toISOString()
  const [traffic, earned] = await Promise.all([
    api.get<ProxyTrafficView>(`/api/merchant/traffic${queryOf({ from, step: '1d' })}`),
    api.get<EarningsView>(`/api/merchant/earnings${queryOf({ from, by: 'day', of: 'source' })}`)
  ])
  const { asked } = traffic.total
  const paid = earned.points.filter(({ key }) => SOLD_BY_APIS.has(key))
  if (asked === 0) return null
  const times: number[] = []
  for (let at = Date.parse(traffic.from); at < Date.parse(traffic.to) && times.length <= DAYS; at += DAY) times.push(at)
  const byDay = (points: ReadonlyArray<readonly [at: string, sum: number]>): number[] => {
    const sums = new Map<number, number>()
    for (const [at, sum] of points) sums.set(Date.parse(at), (sums.get(Date.parse(at)) ?? 0) + sum)
    return times.map(time => sums.get(time) ?? 0)
  }
  const sales = paid.reduce((sum, point) => sum + point.sales, 0)
  return html`
    <section aria-labelledby="asked">
      <h2 id="asked">402 responses and payments</h2>
      <dl class="figures-row">
        ${figure('402 responses', count(asked), 'Last 30 days')}
        ${figure('Paid', count(sales), t`${percent(sales, asked)} conversion`)}
      </dl>
      ${lineChart({
        title: '402 responses and payments by day',
        step: 'day',
        times,
        format: count,
        series: [
          { name: '402 responses', values: byDay(traffic.points.map(({ at, asked: one }) => [at, one])) },
          { name: 'Paid', values: byDay(paid.map(({ at, sales: one }) => [at, one])) }
        ]
      })}
    </section>`
}

/** Earnings, recent sales and open problems. */
export const overviewPage: ConsolePage = {
  id: 'getConsole',
  console: 'merchant',
  path: '',
  summary: 'Overview: earnings, recent sales, and problems of the account',
  async show(asked: PageRequest): Promise<PageContent> {
    if (asked.isRenewal) return { title: 'Overview', content: await latest(asked) }
    const [problems, earned, askedAndPaid, lists] = await Promise.all([
      asked.api.get<QuickstartView>('/api/merchant/quickstart').then(quickstart => openProblems(asked, quickstart)),
      earningsSection(asked, '/api/merchant/earnings', ['source', 'proxy', 'scheme']),
      askedAndPaidSection(asked),
      latest(asked)
    ])
    return {
      title: 'Overview',
      content: html`
        ${problems}
        ${earned}
        ${askedAndPaid}
        ${lists}`
    }
  }
}

/** Recent sales, kept current by the script. */
export async function latest({ api, link }: PageRequest): Promise<VNode> {
  const [{ sales }, { payments }] = await Promise.all([
    api.get<SalePage>('/api/merchant/sales?limit=5'),
    api.get<PaymentPage>('/api/payments?limit=5')
  ])
  return html`
    <section aria-labelledby="sold">
      <div class="heading"><h2 id="sold">Recent sales</h2><a href=${link('sales')}>All sales</a></div>
      ${live(
        'sold-list',
        table(
          'Recent sales',
          [
            { title: 'What', cell: (sale: SaleView) => html`<bdi>${sale.resource}</bdi>` },
            { title: 'When', cell: sale => timeOf(sale.soldAt) },
            { title: 'Earnings', cell: sale => sats(sale.sats), isNumber: true }
          ],
          sales,
          html`<p>No sales yet. <a href=${link('apis')}>Add an API</a> and share its address.</p>`
        )
      )}
    </section>
    <section aria-labelledby="paid">
      <div class="heading"><h2 id="paid">Recent payments</h2><a href=${link('payments')}>All payments</a></div>
      ${live(
        'paid-list',
        table(
          'Recent payments',
          [
            ...paymentColumns({ link }),
            { title: 'Amount', cell: payment => amountIn(payment.amount, payment.currency), isNumber: true }
          ],
          payments,
          html`<p>No payments yet. Create one with <code>POST /api/payments</code>; your customer pays on its checkout page.</p>`
        )
      )}
    </section>`
}
