import { t } from '../../../engine/formats/language.ts'
import type { ComponentChildren, VNode } from 'preact'
import type { PaymentPage } from '../../../payments/payments/listing.ts'
import type { ProxyTrafficView } from '../../../accounts/traffic/operations.ts'
import type { RefundDetails } from '../../../payments/refunds/schema.ts'
import type { SubscriptionView } from '../../../accounts/merchants/account.ts'
import type { QuickstartView } from '../../../accounts/merchants/quickstart.ts'
import type { SettingsView } from '../../../accounts/merchants/settings-operation.ts'
import type { ProxyView } from '../../../payments/proxies/schema.ts'
import type { DeliveryPage } from '../../../payments/webhooks/schema.ts'
import { html } from '../../kit/document.ts'
import { permitted, queryOf } from '../api.ts'
import type { PageRequest } from '../page.ts'
import { count, percent, sats } from '../words.ts'
import { isPaidFor } from './plan.ts'
import { refundedLink } from './refunds.ts'
import { failingProvider } from './settings.ts'

const DAY = 86_400_000
/** Older events have been seen or no longer matter. */
const LOOK_BACK = 7 * DAY
/** An unconfirmed refund of this age is shown. */
const SLOW_REFUND = 3_600_000

/** Problems that block sales, payments or webhooks, with their solutions; null for none. */
export async function openProblems(asked: PageRequest, quickstart: QuickstartView): Promise<VNode | null> {
  const settings = await asked.api.get<SettingsView>('/api/merchant/settings')
  const problems = [
    ...stepsLeft(asked, quickstart),
    ...(
      await Promise.all([
        planEnded(asked, settings),
        refundsOpen(asked),
        underpaid(asked),
        undelivered(asked),
        failing(asked)
      ])
    ).flat()
  ]
  const refused = failingProvider(asked, settings.paymentProvider)
  if (problems.length === 0) return refused
  return html`${refused}<section class="notice wait" aria-labelledby="next"><h2 id="next">To do</h2>
    <ul>${problems.map(problem => html`<li>${problem}</li>`)}</ul>
  </section>`
}

/** Where each step of the quickstart is done. */
const STEP_PLACES: Readonly<Record<number, string>> = {
  2: 'settings#provider',
  3: 'webhooks#url',
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

async function refundsOpen(asked: PageRequest): Promise<readonly VNode[]> {
  const { ctx } = asked
  const refunds = await permitted<readonly RefundDetails[]>(asked.api, '/api/refunds?take=100')
  // Newest first: a retry precedes its failure.
  const seen = new Set<string>()
  return (refunds ?? []).flatMap(({ invoiceId, status, amountSatoshis, createdAt }) => {
    const isLast = !seen.has(invoiceId)
    seen.add(invoiceId)
    const age = ctx.now - Date.parse(createdAt)
    if (!isLast || age > LOOK_BACK) return []
    const payment = refundedLink(asked, invoiceId)
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
  const from = new Date(ctx.now - LOOK_BACK).toISOString()
  const { payments } = await api.get<PaymentPage>(`/api/payments${queryOf({ status: 'underpaid', from, limit: 5 })}`)
  return payments.map(
    ({ invoiceId, orderId, receivedSats }) =>
      html`<strong>Order <bdi>${orderId}</bdi> was underpaid</strong>: ${sats(receivedSats ?? 0)} received. Refund or fulfill it: <a href=${link(`payments/${invoiceId}`)}>payment</a>.`
  )
}

async function undelivered({ api, ctx, link }: PageRequest): Promise<readonly VNode[]> {
  const since = new Date(ctx.now - LOOK_BACK).toISOString()
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

async function failing(asked: PageRequest): Promise<readonly VNode[]> {
  const { proxies } = await asked.api.get<ProxyTrafficView>('/api/merchant/traffic?step=1h')
  const bad = proxies.filter(({ upstreamFailures }) => upstreamFailures > 0).slice(0, 5)
  if (bad.length === 0) return []
  const all = await permitted<readonly ProxyView[]>(asked.api, '/api/proxy')
  const names = new Map(all?.map(({ proxyId, name }) => [proxyId, name]))
  return bad.map(({ proxyId, requests, asked: unpaid, upstreamFailures }) => {
    const forwarded = Math.max(upstreamFailures, requests - unpaid)
    return html`<strong><bdi>${names.get(proxyId) ?? proxyId}</bdi> failed on ${count(upstreamFailures)} of ${count(forwarded)} requests</strong> in the last 24 hours (${percent(upstreamFailures, forwarded)}). <a href=${asked.link(`apis/${proxyId}`)}>Test it</a>.`
  })
}
