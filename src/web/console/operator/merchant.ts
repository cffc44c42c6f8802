import { t } from '../../../engine/formats/language.ts'
import type { VNode } from 'preact'
import type { AuditPage } from '../../../accounts/audit/operations.ts'
import type { UsageView } from '../../../accounts/merchants/plans.ts'
import type { QuickstartView } from '../../../accounts/merchants/quickstart.ts'
import type { ProxyView } from '../../../payments/proxies/schema.ts'
import type { MemberView } from '../../sign-in/members.ts'
import type { MerchantDetail, RegeneratedKey } from '../../admin/schema.ts'
import { html } from '../../kit/document.ts'
import { expectUnchanged, markOf, queryOf, type PageApi } from '../api.ts'
import { earningsSection } from '../earnings.ts'
import { readOnly } from '../frame.ts'
import { latest, openProblems } from '../merchant/overview.ts'
import { usageSection } from '../merchant/plan.ts'
import { apiTraffic } from '../merchant/traffic.ts'
import type { PageRequest, ConsolePage, PageContent } from '../page.ts'
import {
  action,
  badge,
  copyable,
  danger,
  facts,
  fieldsOf,
  figure,
  steps,
  ticks,
  type Choices,
  input
} from '../parts.ts'
import { count, latency, timeOf } from '../words.ts'

export const PLANS = ['free', 'individual', 'l402'] as const
/** Subscription states of the API; none selected without a subscription. */
const STATUSES: Choices = [
  ['', '–'],
  'active',
  'trialing',
  'past_due',
  'canceled',
  'unpaid',
  'incomplete',
  'incomplete_expired'
]

const FEATURES = [
  ['refundsEnabled', 'Refunds'],
  ['multiCurrencyEnabled', 'Prices in dollars and euros'],
  ['l402Enabled', 'APIs and L402']
] as const

const LIMITS = [
  ['endpoints', 'APIs and other endpoints'],
  ['challengesPerMonth', 'Challenges per month'],
  ['webhookEndpoints', 'Webhook endpoints'],
  ['maxPriceSats', 'Highest price of a request']
] as const

function subscriptionOf({ subscriptionStatus, currentPeriodEnd }: MerchantDetail): string {
  return `${subscriptionStatus ?? 'none'}, until ${currentPeriodEnd ?? 'no end'}`
}

export const merchantPage: ConsolePage = {
  id: 'getOperatorMerchant',
  path: 'merchants/:merchantId',
  summary: 'One account, and the operator actions on it',
  async show(request) {
    const { api, link } = request
    const found = await api.get<MerchantDetail>(`/api/admin/merchants/${request.id('merchantId')}`)
    const id = found.merchantId
    const [earned, account, replaced] = await Promise.all([
      earningsSection(request, '/api/admin/earnings', ['source', 'proxy', 'endpoint', 'scheme'], { merchantId: id }),
      accountSection(request, id),
      lastReplaced(api, id)
    ])
    const was = (text: string): VNode => html`<input type="hidden" name="was" value=${text} />`
    const field = fieldsOf(request, 'account')
    return {
      title: found.name,
      isName: true,
      content: html`
        <p><a class="button second" href=${link(`merchants/${id}/as`)}>View as this merchant</a> <a href=${link(`changes?merchantId=${id}`)}>Audit log</a></p>
        ${facts([
          ['Email', html`<bdi>${found.email}</bdi>`],
          ['Plan', found.planTier],
          ['Status', found.isActive ? badge('active', 'good') : badge('suspended', 'bad')],
          ['Subscription', found.subscriptionStatus ?? 'none'],
          ['Paid until', timeOf(found.currentPeriodEnd)],
          [
            'Provider keys',
            [found.hasPrimaryKey ? 'primary' : null, found.hasAlternateKey ? 'alternate' : null]
              .filter(slot => slot !== null)
              .join(', ') || 'none'
          ]
        ])}
        ${account}
        ${earned}
        <section aria-labelledby="features"><h2 id="features">Features</h2>
          <form method="post" class="form">
            <input type="hidden" name="do" value="features" />${was(featuresOf(found))}
            ${ticks(
              'feature',
              'Enabled for this account',
              FEATURES,
              FEATURES.flatMap(([name]) => (found.features[name] ? [name] : [])),
              'Setting a plan resets multi-currency and L402.'
            )}
            <button class="button" type="submit">Save features</button>
          </form>
        </section>
        <section aria-labelledby="can"><h2 id="can">Actions</h2>
          <form method="post" class="form">
            <input type="hidden" name="do" value="account" />${was(`${found.name} <${found.email}>`)}
            ${field('name', 'Name', { value: found.name, required: true, maxlength: 200 })}
            ${field('email', 'Email', { value: found.email, type: 'email', required: true, maxlength: 254 })}
            <button class="button" type="submit">Save account</button>
          </form>
          <form method="post" class="filter">
            <input type="hidden" name="do" value="plan" />${was(found.planTier)}
            ${input('planTier', 'Plan', { options: PLANS, value: found.planTier })}
            <button class="button small" type="submit">Set plan</button>
          </form>
          <form method="post" class="filter">
            <input type="hidden" name="do" value="subscription" />${was(subscriptionOf(found))}
            ${input('subscriptionStatus', 'Subscription', { options: STATUSES, value: found.subscriptionStatus })}
            ${fieldsOf(request, 'subscription')('currentPeriodEnd', 'Paid until the end of (UTC)', {
              value: found.currentPeriodEnd?.slice(0, 10),
              hint: 'Leave empty for no end. Both apply until the next billing update.',
              type: 'date'
            })}
            <button class="button small" type="submit">Set subscription</button>
          </form>
          ${found.isActive ? danger('Suspend', 'Its keys, members and APIs stop working until it is reactivated. Nothing is deleted, and payments already made are still reported.', action('Suspend', { do: 'deactivate', was: 'active' }, { isDanger: true })) : action('Reactivate', { do: 'reactivate', was: 'deactivated' })}
          ${guide('Replace API key', [
            [
              'Notify the merchant',
              html`<p>Programs with the first key stop immediately. Keys that the merchant made stay valid: where one leaked, the merchant rotates it with an overlap under <a href=${link(`merchants/${id}/as/keys`)}>Keys</a>.</p>`
            ],
            ['Replace the key', action('Replace key', { do: 'key', was: replaced }, { isDanger: true })],
            [
              'Hand over the new key',
              html`<p>It is shown once. Send it over a channel that only the merchant reads, then check under Keys that it is used.</p>`
            ]
          ])}
          ${guide('Revoke sales', [
            [
              'Choose what to revoke',
              html`<p>Revoke a single payment on <a href=${link('sales')}>Sales</a>. To stop new sales too, suspend the account first.</p>`
            ],
            [
              'Notify the merchant',
              html`<p>Buyers can no longer use what they paid for and must pay again. This cannot be undone.</p>`
            ],
            ['Revoke', action('Revoke all', { do: 'revoke' }, { isDanger: true })]
          ])}
        </section>`
    }
  },
  async act(request) {
    const { api, form } = request
    const id = request.id('merchantId')
    const target = `/api/admin/merchants/${id}`
    const to = `merchants/${id}`
    switch (form.get('do')) {
      case 'plan':
        expectUnchanged(form, (await api.get<MerchantDetail>(target)).planTier)
        await api.put(target, { planTier: form.text('planTier') })
        break
      case 'features': {
        expectUnchanged(form, featuresOf(await api.get<MerchantDetail>(target)))
        const features = Object.fromEntries(FEATURES.map(([name]) => [name, form.getAll('feature').includes(name)]))
        await api.put(target, { features })
        break
      }
      case 'limits': {
        const view = await request.viewAs(id)
        expectUnchanged(form, markOf((await view?.api.get<UsageView>('/api/merchant/usage'))?.ownLimits), 'different')
        const limits = Object.fromEntries(
          LIMITS.map(([name]) => [name, form.number(name)] as const).filter(([, limit]) => limit !== '')
        )
        await api.put(target, { limits })
        break
      }
      case 'account': {
        const { email, name } = await api.get<MerchantDetail>(target)
        expectUnchanged(form, `${name} <${email}>`)
        await api.put(target, { name: form.text('name'), email: form.text('email') })
        break
      }
      case 'subscription': {
        expectUnchanged(form, subscriptionOf(await api.get<MerchantDetail>(target)))
        const [subscriptionStatus, day] = [form.text('subscriptionStatus'), form.text('currentPeriodEnd')]
        const end = /^\d{4}-\d\d-\d\d$/.test(day) ? `${day}T23:59:59Z` : day
        await api.put(target, {
          ...(subscriptionStatus === '' ? {} : { subscriptionStatus }),
          currentPeriodEnd: end || null
        })
        break
      }
      case 'deactivate':
      case 'reactivate':
        expectUnchanged(form, (await api.get<MerchantDetail>(target)).isActive ? 'active' : 'deactivated')
        await api.post(`${target}/${form.text('do')}`)
        break
      case 'revoke':
        await api.delete(`${target}/tokens`)
        return { to, done: 'revoked' }
      case 'key':
        expectUnchanged(form, await lastReplaced(api, id), 'another key')
        return keyPage((await api.post<RegeneratedKey>(`${target}/regenerate-key`)).apiKey, id)
    }
    return { to, done: 'saved' }
  }
}

function featuresOf({ features }: MerchantDetail): string {
  return FEATURES.map(([name]) => `${name}: ${features[name]}`).join(', ')
}

function guide(title: string, list: Parameters<typeof steps>[0]): VNode {
  return html`<details class="danger-zone"><summary>${t(title)}</summary>${steps(list)}</details>`
}

/** What the merchant's own overview shows first, and how much of the plan is used. */
async function accountSection(request: PageRequest, merchantId: number): Promise<VNode | null> {
  const view = await request.viewAs(String(merchantId))
  if (view === null) return null
  const { api, link } = view
  const [problems, traffic, lists, proxies, members, used] = await Promise.all([
    api.get<QuickstartView>('/api/merchant/quickstart').then(quickstart => openProblems(view, quickstart)),
    apiTraffic(view, null),
    latest(view),
    api.permitted<readonly ProxyView[]>('/api/proxy'),
    api.get<readonly MemberView[]>('/api/merchant/members'),
    api.get<UsageView>('/api/merchant/usage')
  ])
  const { total } = traffic
  return html`
    ${problems}
    <dl class="figures-row">
      ${figure('Requests', count(total.requests), t('Last 24 hours'))}
      ${figure('402 responses', count(total.asked), t`${count(total.paidRequests)} paid requests`)}
      ${figure('Errors', count(total.serverErrors), `p99 ${latency(total.p99)}`)}
    </dl>
    ${facts([
      ['APIs', html`<a href=${link('apis')}>${count(proxies?.length ?? 0)}</a>`],
      ['Webhooks', html`<a href=${link('webhooks')}>Endpoints and deliveries</a>`],
      [
        'Members',
        html`<a href=${link('members')}>${count(members.length)}</a> ${members.slice(0, 5).map(({ email, role }) => html`<bdi>${email}</bdi> (${t(role)}) `)}`
      ]
    ])}
    ${usageSection(used)}
    ${limitsForm(request, used)}
    ${readOnly(lists)}`
}

function limitsForm(request: PageRequest, { ownLimits }: UsageView): VNode {
  const field = fieldsOf(request, 'limits')
  return html`
    <section aria-labelledby="limits"><h2 id="limits">Limits</h2>
      <p>Leave a field empty for the limit of the plan.</p>
      <form method="post" class="form">
        <input type="hidden" name="do" value="limits" /><input type="hidden" name="was" value=${markOf(ownLimits)} />
        ${LIMITS.map(([name, label]) => field(name, label, { value: ownLimits[name], inputmode: 'numeric', pattern: '[0-9]*', maxlength: 10 }))}
        <button class="button" type="submit">Save limits</button>
      </form>
    </section>`
}

async function lastReplaced(api: PageApi, merchantId: number | string): Promise<string> {
  const { entries } = await api.get<AuditPage>(
    `/api/admin/audit${queryOf({ merchantId, text: 'regenerateKey', limit: 1 })}`
  )
  return entries[0]?.id ?? 'none'
}

/** Page that shows a key once. `to`: next page. */
export function keyPage(apiKey: string, to: string): PageContent {
  return {
    title: 'The API key',
    content: html`<p>This key is shown once. Send it to the merchant securely.</p>${copyable('key', 'API key', apiKey)}<p><a class="button" href=${to}>I have saved it</a></p>`
  }
}
