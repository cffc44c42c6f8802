import { t } from '../../../engine/formats/language.ts'
import type { VNode } from 'preact'
import type { AdminRefund } from '../../../payments/refunds/operations.ts'
import type { AdminHealth } from '../../admin/health.ts'
import type { OverviewView } from '../../admin/overview.ts'
import { html } from '../../kit/document.ts'
import type { CreatedMerchant, MerchantSummary, PendingSubscriptionView } from '../../admin/schema.ts'
import { queryOf } from '../api.ts'
import { earningsSection, modelsSection } from '../earnings.ts'
import { ALL_SOURCES, listOf, revocation, salesPage } from '../sales.ts'
import { status, count, sats, short, timeOf } from '../words.ts'
import type { PageRequest, ConsolePage } from '../page.ts'
import { action, badge, choice, facts, field, figure, table, offsetOf, offsetPager, ROWS } from '../parts.ts'
import { problemsSection } from './providers.ts'
import { keyPage, merchantPage } from './merchant.ts'
import { settlementOf, settlementSection } from './sessions.ts'
import { trafficSection } from './routes.ts'

/** Earnings of all merchants and the gateway's own routes. */
const overview: ConsolePage = {
  id: 'getOperator',
  console: 'operator',
  path: '',
  summary: 'Traffic, earnings, and what needs attention',
  async show(asked) {
    const { api, isRenewal, link } = asked
    const health = await api.get<AdminHealth>('/api/admin/health')
    const problems = problemsSection(health, link)
    if (isRenewal) return { title: 'Overview', content: problems }
    const isThere = health.checks.every(({ name, state }) => name !== 'database' || state !== 'bad')
    return { title: 'Overview', content: html`${problems}${isThere ? await figures(asked) : null}` }
  }
}

async function figures(asked: PageRequest): Promise<VNode> {
  const [earned, models, now] = await Promise.all([
    earningsSection(asked, '/api/admin/earnings', ['source', 'merchant', 'proxy', 'scheme']),
    modelsSection(asked),
    asked.api.get<OverviewView>('/api/admin/overview')
  ])
  const { earned: sums, merchants: accounts, traffic, waiting } = now
  return html`
    <dl class="figures-row">
      ${figure('Today', sats(sums.today.sats), t`${count(sums.today.sales)} sales`)}
      ${figure('Last 30 days', sats(sums.thirtyDays.sats), t`${count(sums.thirtyDays.sales)} sales`)}
      ${figure('Merchants', count(accounts.active), t`of ${count(accounts.total)} active`)}
      ${figure('Open refunds', count(waiting.openRefunds))}
    </dl>
    ${await trafficSection(asked, traffic.now)}
    ${earned}
    ${models}`
}

const sales: ConsolePage = {
  id: 'getOperatorSales',
  console: 'operator',
  path: 'sales',
  summary: 'What all merchants and the gateway itself sold, and revoking what was sold',
  show: asked =>
    salesPage(asked, '/api/admin/sales', ALL_SOURCES, ({ isRevoked, paymentHash }) =>
      isRevoked ? null : revocation(asked, paymentHash, 'The buyer can no longer use it and must pay again.')
    ),
  async act({ api, form }) {
    await api.send({ method: 'DELETE', target: `/api/admin/tokens/${encodeURIComponent(form.get('hash') ?? '')}` })
    return { to: listOf('sales', form), done: 'revoked' }
  }
}

const PLANS = ['free', 'individual', 'l402'] as const
const MERCHANTS = 50

const merchants: ConsolePage = {
  id: 'getOperatorMerchants',
  console: 'operator',
  path: 'merchants',
  summary: 'Accounts, and the form that makes another one',
  async show({ api, form, link, problem, query, root }) {
    const after = query.get('after')
    const filter = {
      search: query.get('search'),
      planTier: PLANS.find(name => name === query.get('planTier')),
      isActive: ['true', 'false'].find(value => value === query.get('isActive'))
    }
    const list = await api.get<readonly MerchantSummary[]>(
      `/api/admin/merchants${queryOf({ ...filter, limit: MERCHANTS, after })}`
    )
    const isFiltered = Object.values(filter).some(value => value !== undefined && value !== null && value !== '')
    return {
      title: 'Merchants',
      content: html`
        <form method="get" class="filter" role="search" aria-label="Merchants">
          ${field({ name: 'search', label: 'Name, email or ID', value: filter.search ?? '', attributes: { type: 'search', maxlength: 200 } })}
          ${choice('planTier', 'Plan', [['', 'All'], ...PLANS.map(name => [name, name] as const)], filter.planTier ?? '')}
          ${choice(
            'isActive',
            'Status',
            [
              ['', 'All'],
              ['true', 'active'],
              ['false', 'suspended']
            ],
            filter.isActive ?? ''
          )}
          <button class="button small" type="submit">Show</button>
          <a class="button small second" href=${`${root}api/admin/merchants${queryOf({ ...filter, format: 'csv' })}`} download="merchants.csv">CSV</a>
        </form>
        ${table(
          'Merchants',
          [
            {
              title: 'Name',
              cell: (merchant: MerchantSummary) =>
                html`<a href=${link(`merchants/${merchant.merchantId}`)}><bdi>${merchant.name}</bdi></a>`
            },
            { title: 'Email', cell: merchant => merchant.email },
            { title: 'Plan', cell: merchant => merchant.planTier },
            {
              title: 'Status',
              cell: merchant => (merchant.isActive ? badge('active', 'good') : badge('suspended', 'bad'))
            },
            { title: 'Since', cell: merchant => timeOf(merchant.createdAt) }
          ],
          list,
          isFiltered
            ? html`<p>No accounts match these filters. <a href=${link('merchants')}>Show all</a></p>`
            : html`<p>No accounts yet. Create one below, or let merchants buy a plan.</p>`
        )}
        <nav class="pager" aria-label="Pages">
          ${after === null ? null : html`<a href=${link(`merchants${queryOf(filter)}`)}>First</a>`}
          ${list.length < MERCHANTS ? null : html`<a rel="next" href=${link(`merchants${queryOf({ ...filter, after: list.at(-1)?.merchantId })}`)}>Next</a>`}
        </nav>
        <section aria-labelledby="make"><h2 id="make">Create account</h2>
          <form method="post" class="form">
            ${field({ name: 'name', label: 'Name', value: form.get('name') ?? '', problem: problem?.fields['name'], attributes: { required: true, maxlength: 200 } })}
            ${field({ name: 'email', label: 'Email', value: form.get('email') ?? '', problem: problem?.fields['email'], attributes: { type: 'email', required: true, maxlength: 254 } })}
            <button class="button" type="submit">Create account</button>
          </form>
        </section>`
    }
  },
  async act({ api, form }) {
    const made = await api.send<CreatedMerchant>({
      method: 'POST',
      target: '/api/admin/merchants',
      body: { name: (form.get('name') ?? '').trim(), email: (form.get('email') ?? '').trim() }
    })
    return keyPage(made.apiKey, `merchants/${made.merchantId}`)
  }
}

const subscriptions: ConsolePage = {
  id: 'getOperatorSubscriptions',
  console: 'operator',
  path: 'subscriptions',
  summary: 'Pending subscriptions',
  async show({ api }) {
    const list = await api.get<readonly PendingSubscriptionView[]>('/api/admin/pending-subscriptions')
    return {
      title: 'Subscriptions',
      content: table(
        'Pending subscriptions',
        [
          { title: 'Email', cell: (one: PendingSubscriptionView) => one.email },
          { title: 'Plan', cell: one => one.planTier },
          { title: 'Since', cell: one => timeOf(one.createdAt) },
          {
            title: 'Approve',
            cell: one => action('Approve', { do: 'approve', id: String(one.id) }, { what: one.email })
          },
          {
            title: 'Reject',
            cell: one => action('Reject', { do: 'reject', id: String(one.id) }, { what: one.email, isDanger: true })
          }
        ],
        list,
        html`<p>No pending subscriptions. Plans bought without an account appear here.</p>`
      )
    }
  },
  async act({ api, form }) {
    const change = form.get('do') === 'reject' ? 'reject' : 'approve'
    const made = await api.send<Partial<CreatedMerchant>>({
      method: 'POST',
      target: `/api/admin/pending-subscriptions/${encodeURIComponent(form.get('id') ?? '')}/${change}`
    })
    return typeof made.apiKey === 'string'
      ? keyPage(made.apiKey, 'subscriptions')
      : { to: 'subscriptions', done: 'saved' }
  }
}

const VIEWS = [
  ['lost', 'Unknown outcome'],
  ['open', 'Open'],
  ['settled', 'Settled manually']
] as const

const refunds: ConsolePage = {
  id: 'getOperatorRefunds',
  console: 'operator',
  path: 'refunds',
  summary: 'Refunds, first those with an unknown outcome',
  async show({ api, link, query }) {
    const view = VIEWS.find(([name]) => name === query.get('view'))?.[0] ?? 'lost'
    const skip = offsetOf(query)
    const list = await api.get<readonly AdminRefund[]>(`/api/admin/refunds${queryOf({ view, skip, take: ROWS + 1 })}`)
    return {
      title: 'Refunds',
      content: html`
        <form method="get" class="filter">${choice('view', 'View', VIEWS, view)}<button class="button small second" type="submit">Show</button></form>
        ${table(
          'Refunds',
          [
            {
              title: 'Refund',
              cell: (refund: AdminRefund) => html`<a href=${link(`refunds/${refund.refundId}`)}>${refund.refundId}</a>`
            },
            {
              title: 'Merchant',
              cell: refund => html`<a href=${link(`merchants/${refund.merchantId}`)}>${refund.merchantId}</a>`
            },
            { title: 'Status', cell: refund => status(refund.status) },
            { title: 'Provider', cell: refund => refund.provider },
            { title: 'Created', cell: refund => timeOf(refund.createdAt) },
            { title: 'Amount', cell: refund => sats(refund.amountSatoshis), isNumber: true }
          ],
          list.slice(0, ROWS),
          html`<p>No refunds.</p>`
        )}
        ${offsetPager(offset => link(`refunds${queryOf({ view, offset })}`), skip, list.length > ROWS)}`
    }
  }
}

const refund: ConsolePage = {
  id: 'getOperatorRefund',
  console: 'operator',
  path: 'refunds/:refundId',
  summary: 'One refund, and settling it manually',
  async show(asked) {
    const { api, form, params, problem } = asked
    const found = await api.get<AdminRefund>(`/api/admin/refunds/${encodeURIComponent(params['refundId'] ?? '')}`)
    const isOpen = found.settlement === null && ['pending', 'processing'].includes(found.status)
    return {
      title: t`Refund ${found.refundId}`,
      content: html`
        ${facts([
          ['Status', status(found.status)],
          ['Amount', sats(found.amountSatoshis)],
          ['Refund address', short(found.refundAddress)],
          ['Provider', found.provider],
          ['Created', timeOf(found.createdAt)],
          ['Looked up until', timeOf(found.lookedUpUntil)],
          ['Advice', found.message ?? '–'],
          ...(found.settlement === null
            ? []
            : ([
                [
                  'Settled',
                  html`${found.settlement.outcome} by <bdi>${found.settlement.settledBy}</bdi>: <bdi>${found.settlement.reason}</bdi>`
                ]
              ] as const))
        ])}
        ${
          isOpen
            ? settlementSection(
                asked,
                {
                  provider: found.provider,
                  amount: sats(found.amountSatoshis),
                  sentAt: found.createdAt,
                  references: [
                    ['Refund', html`<code>${found.refundId}</code>`],
                    ['Refund address', html`<code>${found.refundAddress}</code>`]
                  ]
                },
                {
                  fields: field({
                    name: 'providerRefundId',
                    label: 'Provider refund ID, if sent',
                    value: form.get('providerRefundId') ?? '',
                    problem: problem?.fields['providerRefundId'],
                    attributes: { maxlength: 200 }
                  })
                }
              )
            : null
        }`
    }
  },
  async act({ api, form, params }) {
    const id = params['refundId'] ?? ''
    const provider = (form.get('providerRefundId') ?? '').trim()
    await api.send({
      method: 'POST',
      target: `/api/admin/refunds/${encodeURIComponent(id)}/settle`,
      body: {
        ...settlementOf(form),
        ...(provider === '' ? {} : { providerRefundId: provider })
      }
    })
    return { to: `refunds/${id}`, done: 'saved' }
  }
}

export const OPERATOR_PAGES: readonly ConsolePage[] = [
  overview,
  sales,
  merchants,
  merchantPage,
  subscriptions,
  refunds,
  refund
]
