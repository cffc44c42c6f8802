import { t } from '../../engine/formats/language.ts'
import type { VNode } from 'preact'
import type { SalePage, SaleView } from '../../selling/sales/operations.ts'
import { html } from '../kit/document.ts'
import { queryOf } from './api.ts'
import { SOURCES } from './earnings.ts'
import type { PageRequest, PageContent, ConsolePage } from './page.ts'
import { csvLink, filterChoice, isFiltered, oneOf, pager, searchForm } from './lists.ts'
import { action, badge, danger, days, live, table, searchField, type TableColumn } from './parts.ts'
import { orderState, may, short, timeOf } from './words.ts'
import { presets, totals, valued } from './totals.ts'

/** What merchants sell; the gateway itself sells the rest. */
export const MERCHANT_SOURCES = ['proxy', 'producer', 'storefront', 'bundle'] as const
export const ALL_SOURCES = [...MERCHANT_SOURCES, 'route', 'session', 'subscription', 'ping', 'test'] as const
const STATES = ['settled', 'paid', 'leased', 'spent'] as const

const STATE_WORDS: Readonly<Record<SaleView['state'], string>> = {
  settled: t('paid, not used yet'),
  paid: t('valid'),
  leased: t('in use'),
  spent: t('used')
}

/** Confirmation and button that revoke a payment's credentials; returns to the same part of the list. */
export function revocation({ query }: Pick<PageRequest, 'query'>, paymentHash: string, words: string): VNode {
  return danger(
    'Revoke',
    words,
    action('Revoke', { hash: paymentHash, list: String(listQuery(query)) }, { what: paymentHash, isDanger: true })
  )
}

export function listOf(name: string, form: URLSearchParams): string {
  const query = listQuery(new URLSearchParams(form.get('list') ?? ''))
  return query.size === 0 ? name : `${name}?${query}`
}

/** Drops the last success message. */
function listQuery(query: URLSearchParams): URLSearchParams {
  const kept = new URLSearchParams(query)
  kept.delete('done')
  return kept
}

/** What a sale says in every list. */
export const saleColumns: ReadonlyArray<TableColumn<SaleView>> = [
  [
    'What',
    ({ orderNumber, orderStatus, resource, source }) =>
      html`<bdi>${orderStatus === null ? resource : t`Order ${orderNumber ?? '(no number yet)'}`}</bdi><span class="soft"> ${t(SOURCES[source] ?? source)}</span>`
  ],
  ['When', sale => timeOf(sale.soldAt)]
]

/** Sales, newest first. `address`: the list's operation; `act`: action of a row. */
export async function salesPage(
  request: PageRequest,
  address: string,
  sources: readonly string[],
  act: (sale: SaleView) => VNode | null
): Promise<PageContent> {
  const { api, query, link } = request
  const filter = {
    source: oneOf(request, 'source', sources),
    state: oneOf(request, 'state', STATES),
    text: query.get('text'),
    from: query.get('from'),
    to: query.get('to'),
    proxyId: query.get('proxyId')
  }
  const [page, sums] = await Promise.all([
    api.get<SalePage>(`${address}${queryOf({ ...filter, after: query.get('after') })}`),
    request.isRenewal ? null : totals(request, address, filter, 'Sales')
  ])
  const value = await valued(
    request,
    page.sales.map(({ sats }) => sats)
  )
  return {
    title: 'Sales',
    content: html`
      ${searchForm(
        'Sales',
        html`${filterChoice(
          'source',
          'Source',
          sources.map(name => [name, SOURCES[name] ?? name] as const),
          filter.source
        )}
        ${filterChoice(
          'state',
          'Status',
          STATES.map(name => [name, STATE_WORDS[name]] as const),
          filter.state
        )}
        ${searchField('Address, description or payment hash', filter.text)}
        ${days(filter.from, filter.to)}`,
        csvLink(request, address, filter, 'sales')
      )}
      ${presets(request, 'sales', filter)}
      ${sums}
      ${live(
        'list',
        table(
          'Sales',
          [
            ...saleColumns,
            ['Payment hash', sale => short(sale.paymentHash)],
            [
              'Status',
              sale =>
                sale.isRevoked
                  ? badge('revoked', 'bad')
                  : sale.orderStatus !== null
                    ? orderState(sale.orderStatus)
                    : badge(STATE_WORDS[sale.state], sale.state === 'spent' ? 'quiet' : 'good')
            ],
            ['Earnings', sale => value(sale.sats), 'number'],
            ['Revoke', act]
          ],
          page.sales,
          isFiltered(filter)
            ? html`<p>No sales match these filters. <a href=${link('sales')}>Show all</a></p>`
            : html`<p>No sales yet.</p>`
        )
      )}
      <p class="soft">Single API sales are listed until 30 days after their token expires; totals are kept. Download the CSV each month for your books.</p>
      ${pager(request, 'sales', filter, page.next)}`
  }
}

export const merchantSales: ConsolePage = {
  id: 'getConsoleSales',
  path: 'sales',
  summary: 'What was sold, and revoking what was sold',
  show: request =>
    salesPage(request, '/api/merchant/sales', MERCHANT_SOURCES, ({ isRevoked, paymentHash }) =>
      isRevoked || !may(request, 'editor')
        ? null
        : revocation(request, paymentHash, 'Buyers can no longer use what they paid for and must pay again.')
    ),
  async act({ api, form }) {
    await api.delete(`/api/merchant/tokens/${encodeURIComponent(form.text('hash'))}`)
    return { to: listOf('sales', form), done: 'revoked' }
  }
}
