import { iso } from '../../../engine/formats/iso-time.ts'
import { t } from '../../../engine/formats/language.ts'
import type { PaymentPage } from '../../../payments/payments/listing.ts'
import type { SalePage, EarningsView } from '../../../selling/sales/operations.ts'
import type { QuickstartView } from '../../../accounts/merchants/quickstart.ts'
import { html } from '../../kit/document.ts'
import { earningsSection } from '../earnings.ts'
import type { PageRequest, ConsolePage } from '../page.ts'
import { live, table, figure } from '../parts.ts'
import { amountIn, sats, count, percent } from '../words.ts'
import { paymentColumns } from './payments.ts'
import { saleColumns } from '../sales.ts'
import type { VNode, ComponentChildren } from 'preact'
import type { ProxyTrafficView } from '../../../accounts/traffic/operations.ts'
import { queryOf } from '../api.ts'
import { lineChart, chartLines, timesOf } from '../chart.ts'
import type { RefundDetails } from '../../../payments/refunds/schema.ts'
import type { SubscriptionView } from '../../../accounts/merchants/account.ts'
import type { SettingsView } from '../../../accounts/merchants/settings-operation.ts'
import type { ProxyView } from '../../../payments/proxies/schema.ts'
import type { DeliveryPage } from '../../../payments/webhooks/schema.ts'
import { isPaidFor } from './plan.ts'
import { refundedLink } from './refunds.ts'
import { failingProvider } from './settings.ts'

const DAY = 86_400_000
const DAYS = 30
/** Sales of an account's APIs: requests and balances. */
const SOLD_BY_APIS: ReadonlySet<string | null> = new Set(['proxy', 'bundle'])

/** Conversion of 402 responses by day; null without any. */
async function conversionSection({ api, ctx }: PageRequest): Promise<VNode | null> {
  const from = iso(ctx.now - (DAYS - 1) * DAY)
  const [traffic, earned] = await Promise.all([
    api.get<ProxyTrafficView>(`/api/merchant/traffic${queryOf({ from, step: '1d' })}`),
    api.get<EarningsView>(`/api/merchant/earnings${queryOf({ from, by: 'day', of: 'source' })}`)
  ])
  const { asked: challenges } = traffic.total
  const paid = earned.points.filter(({ key }) => SOLD_BY_APIS.has(key))
  if (challenges === 0) return null
  const times = timesOf('day', traffic)
  const salesOf = (points: typeof paid): number => points.reduce((sum, { sales }) => sum + sales, 0)
  const days = [...Map.groupBy(paid, ({ at }) => at)].map(([at, points]) => ({ at, sales: salesOf(points) }))
  const sales = salesOf(paid)
  return html`
    <section aria-labelledby="asked">
      <h2 id="asked">402 responses and payments</h2>
      <dl class="figures-row">
        ${figure('402 responses', count(challenges), 'Last 30 days')}
        ${figure('Paid', count(sales), t`${percent(sales, challenges)} conversion`)}
      </dl>
      ${lineChart({
        title: '402 responses and payments by day',
        step: 'day',
        times,
        format: count,
        series: [
          chartLines(traffic.points, times)(t('402 responses'), point => point.asked),
          chartLines(days, times)(t('Paid'), point => point.sales)
        ]
      })}
    </section>`
}

export const overviewPage: ConsolePage = {
  id: 'getConsole',
  path: '',
  summary: 'Overview: earnings, recent sales, and problems of the account',
  async show(request) {
    if (request.isRenewal) return { title: 'Overview', content: await latest(request) }
    const [problems, earned, conversion, lists] = await Promise.all([
      request.api.get<QuickstartView>('/api/merchant/quickstart').then(quickstart => openProblems(request, quickstart)),
      earningsSection(request, '/api/merchant/earnings', ['source', 'proxy', 'scheme']),
      conversionSection(request),
      latest(request)
    ])
    return {
      title: 'Overview',
      content: html`
        ${problems}
        ${earned}
        ${conversion}
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
          [...saleColumns, ['Earnings', sale => sats(sale.sats), 'number']],
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
          [...paymentColumns({ link }), ['Amount', payment => amountIn(payment.amount, payment.currency), 'number']],
          payments,
          html`<p>No payments yet. <a href=${link('till')}>Take a payment here</a>, or create one with <code>POST /api/payments</code>.</p>`
        )
      )}
    </section>`
}

/** Older events have been seen or no longer matter. */
const LOOK_BACK = 7 * DAY
/** An unconfirmed refund of this age is shown. */
const SLOW_REFUND = 3_600_000

/** Problems that block sales, payments or webhooks, with their solutions; null for none. */
export async function openProblems(request: PageRequest, quickstart: QuickstartView): Promise<VNode | null> {
  const settings = await request.api.get<SettingsView>('/api/merchant/settings')
  const problems = [
    ...stepsLeft(request, quickstart),
    ...(
      await Promise.all([
        planEnded(request, settings),
        refundsOpen(request),
        underpaid(request),
        undelivered(request),
        failing(request)
      ])
    ).flat()
  ]
  const refused = failingProvider(request, settings.paymentProvider)
  if (problems.length === 0) return refused
  return html`${refused}<section class="notice wait" aria-labelledby="next"><h2 id="next">To do</h2>
    <ul>${problems.map(problem => html`<li>${problem}</li>`)}</ul>
  </section>`
}

/** Where each step of the quickstart is done. */
const STEP_PLACES: Readonly<Record<number, string>> = {
  2: 'settings#provider',
  3: 'webhooks#where',
  4: 'till',
  5: 'apis#make'
}

function stepsLeft({ link }: PageRequest, { steps }: QuickstartView): readonly ComponentChildren[] {
  return steps
    .filter(({ isCompleted, isRequired }) => isRequired && !isCompleted)
    .map(
      ({ stepNumber, title, description }) =>
        html`<a href=${link(STEP_PLACES[stepNumber] ?? '')}><strong>${title}</strong></a>. ${description}`
    )
}

async function planEnded({ api, ctx, link }: PageRequest, { plan }: SettingsView): Promise<readonly VNode[]> {
  const subscription = await api.get<SubscriptionView>('/api/merchant/subscription')
  if (subscription.planTier === 'free' || isPaidFor(subscription, plan, ctx.now)) return []
  const what =
    subscription.status === 'past_due' ? t('The last payment for your plan failed.') : t('Your plan is unpaid.')
  return [html`<strong>${what}</strong> <a href=${link('plan')}>Pay now</a> to keep selling.`]
}

async function refundsOpen(request: PageRequest): Promise<readonly VNode[]> {
  const { api, ctx } = request
  const refunds = await api.permitted<readonly RefundDetails[]>('/api/refunds?take=100')
  // Newest first: a retry precedes its failure.
  const seen = new Set<string>()
  return (refunds ?? []).flatMap(({ invoiceId, status, amountSatoshis, createdAt }) => {
    const isLast = !seen.has(invoiceId)
    seen.add(invoiceId)
    const age = ctx.now - Date.parse(createdAt)
    if (!isLast || age > LOOK_BACK) return []
    const payment = refundedLink(request, invoiceId)
    if (status === 'failed')
      return [
        html`<strong>A refund of ${sats(amountSatoshis)} failed</strong>. No money was sent. Retry it: ${payment}.`
      ]
    if ((status === 'pending' || status === 'processing') && age > SLOW_REFUND)
      return [
        html`<strong>A refund of ${sats(amountSatoshis)} has been unconfirmed</strong> for over an hour: ${payment}.`
      ]
    return []
  })
}

async function underpaid({ api, ctx, link }: PageRequest): Promise<readonly VNode[]> {
  const from = iso(ctx.now - LOOK_BACK)
  const { payments } = await api.get<PaymentPage>(`/api/payments${queryOf({ status: 'underpaid', from, limit: 5 })}`)
  return payments.map(
    ({ invoiceId, orderId, receivedSats }) =>
      html`<strong>Order <bdi>${orderId}</bdi> was underpaid</strong>: ${sats(receivedSats ?? 0)} received. Refund or fulfill it: <a href=${link(`payments/${invoiceId}`)}>payment</a>.`
  )
}

async function undelivered({ api, ctx, link }: PageRequest): Promise<readonly VNode[]> {
  const since = iso(ctx.now - LOOK_BACK)
  const { total, deliveries } = await api.get<DeliveryPage>(
    `/api/merchant/webhooks/deliveries${queryOf({ status: 'failed', since, limit: 1 })}`
  )
  const [last] = deliveries
  if (last === undefined) return []
  const why = last.error ?? t`status ${last.responseStatus ?? ''}`
  return [
    html`<strong>${count(total)} ${total === 1 ? t('webhook') : t('webhooks')} failed in the last week</strong>; the last one: ${why}. Fix the endpoint, then <a href=${link('webhooks?status=failed')}>resend them</a>.`
  ]
}

async function failing({ api, link }: PageRequest): Promise<readonly VNode[]> {
  const { proxies } = await api.get<ProxyTrafficView>('/api/merchant/traffic?step=1h')
  const bad = proxies.filter(({ upstreamFailures }) => upstreamFailures > 0).slice(0, 5)
  if (bad.length === 0) return []
  const all = await api.permitted<readonly ProxyView[]>('/api/proxy')
  const names = new Map(all?.map(({ proxyId, name }) => [proxyId, name]))
  return bad.map(({ proxyId, requests, asked: unpaid, upstreamFailures }) => {
    const forwarded = Math.max(upstreamFailures, requests - unpaid)
    return html`<strong><bdi>${names.get(proxyId) ?? proxyId}</bdi> failed on ${count(upstreamFailures)} of ${count(forwarded)} requests</strong> in the last 24 hours (${percent(upstreamFailures, forwarded)}). <a href=${link(`apis/${proxyId}`)}>Test it</a>.`
  })
}
