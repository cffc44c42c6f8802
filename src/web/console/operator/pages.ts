import { t } from '../../../engine/formats/language.ts'
import type { VNode } from 'preact'
import type { AdminRefund } from '../../../payments/refunds/operations.ts'
import type { AdminHealth } from '../../admin/health.ts'
import type { OverviewView } from '../../admin/overview.ts'
import { html } from '../../kit/document.ts'
import type { CreatedMerchant, LinkedMerchant, MerchantSummary, PendingSubscriptionView } from '../../admin/schema.ts'
import { queryOf } from '../api.ts'
import {
  csvLink,
  filterChoice,
  isFiltered,
  oneOf,
  pager,
  ROWS,
  rowsOf,
  searchForm,
  viewForm,
  viewOf
} from '../lists.ts'
import { earningsSection, modelsSection } from '../earnings.ts'
import { ALL_SOURCES, listOf, revocation, salesPage } from '../sales.ts'
import { status, count, sats, short, timeOf } from '../words.ts'
import type { PageRequest, ConsolePage } from '../page.ts'
import { action, badge, facts, fieldsOf, figure, table, input, searchField } from '../parts.ts'
import { problemsSection } from './providers.ts'
import { keyPage, merchantPage, PLANS } from './merchant.ts'
import { settlementOf, settlementSection } from './sessions.ts'
import { trafficSection } from './routes.ts'

const overview: ConsolePage = {
  id: 'getOperator',
  path: '',
  summary: 'Traffic, earnings, and what needs attention',
  async show(request) {
    const { api, isRenewal, link } = request
    const health = await api.get<AdminHealth>('/api/admin/health')
    const problems = problemsSection(health, link)
    if (isRenewal) return { title: 'Overview', content: problems }
    const isThere = health.checks.every(({ name, state }) => name !== 'database' || state !== 'bad')
    return { title: 'Overview', content: html`${problems}${isThere ? await figures(request) : null}` }
  }
}

async function figures(request: PageRequest): Promise<VNode> {
  const [earned, models, now] = await Promise.all([
    earningsSection(request, '/api/admin/earnings', ['source', 'merchant', 'proxy', 'scheme']),
    modelsSection(request),
    request.api.get<OverviewView>('/api/admin/overview')
  ])
  const { earned: sums, merchants: accounts, traffic, waiting } = now
  return html`
    <dl class="figures-row">
      ${figure('Today', sats(sums.today.sats), t`${count(sums.today.sales)} sales`)}
      ${figure('Last 30 days', sats(sums.thirtyDays.sats), t`${count(sums.thirtyDays.sales)} sales`)}
      ${figure('Merchants', count(accounts.active), t`of ${count(accounts.total)} active`)}
      ${figure('Open refunds', count(waiting.openRefunds))}
    </dl>
    ${await trafficSection(request, traffic.now)}
    ${earned}
    ${models}`
}

const sales: ConsolePage = {
  id: 'getOperatorSales',
  path: 'sales',
  summary: 'What all merchants and the gateway itself sold, and revoking what was sold',
  show: request =>
    salesPage(request, '/api/admin/sales', ALL_SOURCES, ({ isRevoked, paymentHash }) =>
      isRevoked ? null : revocation(request, paymentHash, 'The buyer can no longer use it and must pay again.')
    ),
  async act({ api, form }) {
    await api.delete(`/api/admin/tokens/${encodeURIComponent(form.text('hash'))}`)
    return { to: listOf('sales', form), done: 'revoked' }
  }
}

const MERCHANTS = '/api/admin/merchants'

const merchants: ConsolePage = {
  id: 'getOperatorMerchants',
  path: 'merchants',
  summary: 'Accounts, and the form that makes another one',
  async show(request) {
    const { api, link, query } = request
    const field = fieldsOf(request)
    const filter = {
      search: query.get('search'),
      planTier: oneOf(request, 'planTier', PLANS),
      isActive: oneOf(request, 'isActive', ['true', 'false'])
    }
    const list = await api.get<readonly MerchantSummary[]>(
      `${MERCHANTS}${queryOf({ ...filter, limit: ROWS, after: query.get('after') })}`
    )
    const last = list.length < ROWS ? undefined : list.at(-1)
    return {
      title: 'Merchants',
      content: html`
        ${searchForm(
          'Merchants',
          html`${searchField('Name, email or ID', filter.search, 'search')}
          ${filterChoice('planTier', 'Plan', PLANS, filter.planTier)}
          ${filterChoice(
            'isActive',
            'Status',
            [
              ['true', 'active'],
              ['false', 'suspended']
            ],
            filter.isActive
          )}`,
          csvLink(request, MERCHANTS, filter, 'merchants')
        )}
        ${table(
          'Merchants',
          [
            [
              'Name',
              merchant => html`<a href=${link(`merchants/${merchant.merchantId}`)}><bdi>${merchant.name}</bdi></a>`
            ],
            ['Email', merchant => merchant.email],
            ['Plan', merchant => merchant.planTier],
            ['Status', merchant => (merchant.isActive ? badge('active', 'good') : badge('suspended', 'bad'))],
            ['Since', merchant => timeOf(merchant.createdAt)]
          ],
          list,
          isFiltered(filter)
            ? html`<p>No accounts match these filters. <a href=${link('merchants')}>Show all</a></p>`
            : html`<p>No accounts yet. Create one below, or let merchants buy a plan.</p>`
        )}
        ${pager(request, 'merchants', filter, last === undefined ? null : String(last.merchantId))}
        <section aria-labelledby="make"><h2 id="make">Create account</h2>
          <form method="post" class="form">
            ${field('name', 'Name', { required: true, maxlength: 200 })}
            ${field('email', 'Email', { type: 'email', required: true, maxlength: 254 })}
            <button class="button" type="submit">Create account</button>
          </form>
        </section>`
    }
  },
  async act({ api, form }) {
    const created = await api.post<CreatedMerchant>(MERCHANTS, { name: form.text('name'), email: form.text('email') })
    return keyPage(created.apiKey, `merchants/${created.merchantId}`)
  }
}

const subscriptions: ConsolePage = {
  id: 'getOperatorSubscriptions',
  path: 'subscriptions',
  summary: 'Pending subscriptions',
  async show({ api }) {
    const list = await api.get<readonly PendingSubscriptionView[]>('/api/admin/pending-subscriptions')
    return {
      title: 'Subscriptions',
      content: table(
        'Pending subscriptions',
        [
          ['Email', one => one.email],
          ['Plan', one => one.planTier],
          ['Since', one => timeOf(one.createdAt)],
          ['Approve', one => action('Approve', { do: 'approve', id: String(one.id) }, { what: one.email })],
          ['Reject', one => action('Reject', { do: 'reject', id: String(one.id) }, { what: one.email, isDanger: true })]
        ],
        list,
        html`<p>No pending subscriptions. Plans bought without an account appear here.</p>`
      )
    }
  },
  async act({ api, form }) {
    const change = form.get('do') === 'reject' ? 'reject' : 'approve'
    const id = encodeURIComponent(form.text('id'))
    const created = await api.post<CreatedMerchant | LinkedMerchant | undefined>(
      `/api/admin/pending-subscriptions/${id}/${change}`
    )
    return created !== undefined && 'apiKey' in created
      ? keyPage(created.apiKey, 'subscriptions')
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
  path: 'refunds',
  summary: 'Refunds, first those with an unknown outcome',
  async show(request) {
    const { link } = request
    const view = viewOf(request, 'view', VIEWS)
    const { rows, pages } = await rowsOf<AdminRefund>(request, '/api/admin/refunds', 'refunds', { view })
    return {
      title: 'Refunds',
      content: html`
        ${viewForm(input('view', 'View', { options: VIEWS, value: view }))}
        ${table(
          'Refunds',
          [
            ['Refund', refund => html`<a href=${link(`refunds/${refund.refundId}`)}>${refund.refundId}</a>`],
            ['Merchant', refund => html`<a href=${link(`merchants/${refund.merchantId}`)}>${refund.merchantId}</a>`],
            ['Status', refund => status(refund.status)],
            ['Provider', refund => refund.provider],
            ['Created', refund => timeOf(refund.createdAt)],
            ['Amount', refund => sats(refund.amountSatoshis), 'number']
          ],
          rows,
          html`<p>No refunds.</p>`
        )}
        ${pages}`
    }
  }
}

const refund: ConsolePage = {
  id: 'getOperatorRefund',
  path: 'refunds/:refundId',
  summary: 'One refund, and settling it manually',
  async show(request) {
    const found = await request.api.get<AdminRefund>(`/api/admin/refunds/${request.id('refundId')}`)
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
                request,
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
                  fields: fieldsOf(request, 'settle')('providerRefundId', 'Provider refund ID, if sent', {
                    maxlength: 200
                  })
                }
              )
            : null
        }`
    }
  },
  async act({ api, form, id }) {
    const to = `refunds/${id('refundId')}`
    const providerRefundId = form.text('providerRefundId')
    await api.post(`/api/admin/${to}/settle`, {
      ...settlementOf(form),
      ...(providerRefundId === '' ? {} : { providerRefundId })
    })
    return { to, done: 'saved' }
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
