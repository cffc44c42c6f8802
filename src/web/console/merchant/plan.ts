import { t } from '../../../engine/formats/language.ts'
import type { VNode } from 'preact'
import { html } from '../../kit/document.ts'
import type { AccountView, SubscriptionView } from '../../../accounts/merchants/account.ts'
import type { PlanInvoicesView } from '../../../plans/bitcoin/schema.ts'
import type { UsageView } from '../../../accounts/merchants/plans.ts'
import type { PricingView } from '../../../plans/plans.ts'
import type { SettingsView } from '../../../accounts/merchants/settings-operation.ts'
import type { PageRequest, ConsolePage, PageContent } from '../page.ts'
import { action, badge, facts, table } from '../parts.ts'
import { forRole, status, amountIn, count, sats, timeOf } from '../words.ts'

type PlanInvoice = PlanInvoicesView['invoices'][number]

/** The self-service plan. */
const SOLD = 'individual'

export const planPage: ConsolePage = {
  id: 'getConsolePlan',
  path: 'plan',
  summary: 'The plan, until when it is paid, the next payment, and the page of the card with its invoices',
  async show(request) {
    const { api } = request
    const [subscription, { plan }, { invoices }, used, { plans }] = await Promise.all([
      api.get<SubscriptionView>('/api/merchant/subscription'),
      api.get<SettingsView>('/api/merchant/settings'),
      api.get<PlanInvoicesView>('/api/merchant/subscription/invoices'),
      api.get<UsageView>('/api/merchant/usage'),
      api.get<PricingView>('/api/billing/pricing')
    ])
    const { planName, planTier, status } = subscription
    const monthly = plans.find(({ planTier: tier }) => tier === SOLD)
    return {
      title: 'Plan and billing',
      content: html`
        ${facts([
          ['Plan', planName],
          ['Status', stateOf(status, isPaidFor(subscription, plan, request.ctx.now))],
          ['Paid until', timeOf(plan.paidUntil)],
          ['Next payment', next(subscription, plan, request.ctx.now)]
        ])}
        ${usageSection(used)}
        ${prices(plans, planTier)}
        ${forRole(request, 'owner', ways(subscription, plan, monthly, request.ctx.now))}
        ${invoices.length === 0 && plan.paidBy !== 'bitcoin' ? null : byLightning(invoices)}`
    }
  },
  async act({ address, api, form }) {
    switch (form.get('do')) {
      case 'portal': {
        const body = { returnUrl: address('plan') }
        const { portalUrl } = await api.post<{ portalUrl: string }>('/api/billing/customer-portal', body)
        return leaving('Manage card', portalUrl)
      }
      case 'card': {
        const body = { ...(await bought(api)), successUrl: address('plan'), cancelUrl: address('plan') }
        const { checkoutUrl } = await api.post<{ checkoutUrl: string }>('/api/billing/create-checkout-session', body)
        return leaving('Checkout', checkoutUrl)
      }
      case 'bitcoin': {
        const { payUrl } = await api.post<{ payUrl: string }>('/api/bitcoin/create-subscription', await bought(api))
        return leaving('Invoice', payUrl)
      }
      default:
        return { to: 'plan' }
    }
  }
}

async function bought(api: PageRequest['api']): Promise<{ readonly plan: string; readonly email: string }> {
  return { plan: SOLD, email: (await api.get<AccountView>('/api/merchant/me')).email }
}

/** Page that continues to another site. Forms cannot redirect there under `form-action 'self'`. */
function leaving(title: string, to: string): PageContent {
  return {
    title,
    goOn: to,
    content: html`<p>The page opens automatically. <a class="button" href=${to} rel="noreferrer">Continue</a></p>`
  }
}

function stateOf(status: string | null, isPaid: boolean): VNode {
  if (status === null) return badge('no subscription', 'bad')
  const isOver = !isPaid && (status === 'active' || status === 'trialing')
  return badge(isOver ? t`${status}, expired` : status, isPaid ? 'good' : 'bad')
}

function next(subscription: SubscriptionView, plan: SettingsView['plan'], now: number): VNode | string {
  const { planTier, status } = subscription
  const { paidBy, paidUntil } = plan
  if (planTier === 'free') return t('none (free)')
  if (status === 'past_due') return t('card declined; update it under “Manage card”')
  if (!isPaidFor(subscription, plan, now)) return t('none until you subscribe again')
  if (paidUntil === null) return t('unknown')
  if (paidBy === 'card') return html`by card on ${timeOf(paidUntil)}`
  return paidBy === 'bitcoin'
    ? html`by Lightning before ${timeOf(paidUntil)}; we email an invoice one week earlier`
    : html`no automatic renewal; ends ${timeOf(paidUntil)}`
}

/** Whether the gate accepts the plan (decision 36): its status and period. */
export function isPaidFor({ status }: SubscriptionView, { paidUntil }: SettingsView['plan'], now: number): boolean {
  return (status === 'active' || status === 'trialing') && (paidUntil === null || Date.parse(paidUntil) >= now)
}

function byLightning(invoices: readonly PlanInvoice[]): VNode {
  return html`
    <section aria-labelledby="invoices"><h2 id="invoices">Lightning invoices</h2>
      ${table(
        'Lightning invoices',
        [
          ['Invoice', invoice => html`<a href=${invoice.payUrl}>${invoice.invoiceId}</a>`],
          ['Description', invoice => html`<bdi>${invoice.description}</bdi>`],
          ['Created', invoice => timeOf(invoice.createdAt)],
          ['Status', invoice => status(invoice.status)],
          ['Paid', invoice => timeOf(invoice.paidAt)],
          ['Amount', invoice => `${amountIn(invoice.priceUsd, 'USD')} (${sats(invoice.amountSats)})`, 'number']
        ],
        invoices,
        html`<p>No paid or open invoices.</p>`
      )}
    </section>`
}

export function usageSection({ endpoints, challengesThisMonth, webhookEndpoints, maxPriceSats }: UsageView): VNode {
  const of = ({ used, limit }: UsageView['endpoints']): VNode | string => {
    const words = t`${count(used)} of ${limit === null ? t('unlimited') : count(limit)}`
    return limit === null ? words : html`${words} <meter max=${limit} value=${used} aria-label=${words}></meter>`
  }
  return html`
    <section aria-labelledby="used"><h2 id="used">Usage</h2>
      ${facts([
        ['APIs and other endpoints', of(endpoints)],
        ['Challenges this month', of(challengesThisMonth)],
        ['Webhook endpoints', of(webhookEndpoints)],
        ['Highest price of a request', maxPriceSats === null ? t('unlimited') : sats(maxPriceSats)]
      ])}
    </section>`
}

type Plan = PricingView['plans'][number]

function prices(plans: readonly Plan[], current: string): VNode {
  return html`
    <section aria-labelledby="prices"><h2 id="prices">Plans</h2>
      ${table(
        'Plans',
        [
          ['Plan', ({ name, planTier }) => html`${name} ${planTier === current ? badge('your plan', 'good') : null}`],
          ['Includes', ({ features }) => html`<ul>${features.map(each => html`<li>${each}</li>`)}</ul>`],
          ['Price', priceOf, 'number']
        ],
        plans,
        html`<p>No plans are available here.</p>`
      )}
    </section>`
}

function priceOf({ priceUsd }: Pick<Plan, 'priceUsd'>): string {
  return priceUsd === 0 ? 'free' : t`${amountIn(priceUsd, 'USD')} per month`
}

function ways(
  subscription: SubscriptionView,
  plan: SettingsView['plan'],
  monthly: Plan | undefined,
  now: number
): VNode {
  const { billingCustomerId, planTier } = subscription
  const { paidBy } = plan
  const isLive = planTier !== 'free' && isPaidFor(subscription, plan, now)
  const price = monthly === undefined ? '' : ` (${priceOf(monthly)})`
  const actions = [
    billingCustomerId === null || paidBy === 'bitcoin'
      ? null
      : action('Manage card, invoices and cancellation', { do: 'portal' }),
    isLive || planTier === 'l402' ? null : action(t`Subscribe by card${price}`, { do: 'card' }),
    (isLive && paidBy !== 'bitcoin') || planTier === 'l402'
      ? null
      : action(t`Pay for one month by Lightning${price}`, { do: 'bitcoin' })
  ]
  if (actions.every(each => each === null)) return html`<p>To change this plan, contact the operator.</p>`
  return html`<section aria-labelledby="pay"><h2 id="pay">Change plan</h2>${actions}</section>`
}
