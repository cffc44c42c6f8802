import { t } from '../../engine/formats/language.ts'
import type { VNode } from 'preact'
import type { EarningsView, MarginsView } from '../../selling/sales/operations.ts'
import { html } from '../kit/document.ts'
import { queryOf } from './api.ts'
import { columnChart, timesOf } from './chart.ts'
import type { PageRequest } from './page.ts'
import { csvLink, oneOf, viewForm } from './lists.ts'
import { figure, kept, table, input } from './parts.ts'
import { count, percent, sats } from './words.ts'

const STEPS = [
  ['hour', 'Hours'],
  ['day', 'Days'],
  ['month', 'Months']
] as const

const KINDS: Readonly<Record<string, string>> = {
  source: t('what was sold'),
  proxy: t('API'),
  endpoint: t('address'),
  scheme: t('scheme'),
  merchant: t('merchant')
}

/** Sources of sales whose name in the API is not the reader's. */
export const SOURCES: Readonly<Record<string, string>> = {
  proxy: t('API'),
  producer: t('producer API'),
  storefront: t('store'),
  bundle: t('bundle'),
  route: t('route'),
  session: t('session'),
  subscription: t('subscription'),
  ping: t('ping'),
  test: t('test'),
  payment: t('payment')
}

/** Earnings over time: filter form, sums and chart. A single kind cannot be split. */
export async function earningsSection(
  request: PageRequest,
  address: string,
  kinds: readonly string[],
  whose: Readonly<Record<string, string | number>> = {}
): Promise<VNode> {
  const { api, query } = request
  const by = oneOf(request, 'by', ['hour', 'month']) ?? 'day'
  const of = oneOf(request, 'of', kinds) ?? kinds[0]
  const filter = { ...whose, by, of }
  const sums = await api.get<EarningsView>(`${address}${queryOf(filter)}`)
  const times = timesOf(by, sums)
  return html`
    <section aria-labelledby="earned">
      <div class="heading">
        <h2 id="earned">Earnings</h2>
        ${viewForm(
          html`${kept(query, 'over')}
          ${input('by', 'By', { options: STEPS, value: by })}
          ${
            kinds.length === 1
              ? null
              : input('of', 'Split by', { options: kinds.map(kind => [kind, KINDS[kind] ?? kind] as const), value: of })
          }`,
          csvLink(request, address, filter, 'earnings')
        )}
      </div>
      <dl class="figures-row">
        ${figure('Total', sats(sums.sats))}
        ${figure('Sales', count(sums.sales))}
      </dl>
      ${
        sums.sales === 0
          ? html`<p class="empty">No sales in this period.</p>`
          : columnChart({
              title: t`Satoshis earned by ${t(by)}`,
              step: by,
              times,
              series: seriesOf(sums, times),
              format: sats
            })
      }
    </section>`
}

type Sums = Omit<MarginsView['points'][number], 'at'>

/** Revenue, cost and margin of the models that price lists sell, over 30 days; null without any. */
export async function modelsSection({ api }: PageRequest): Promise<VNode | null> {
  const all = await api.get<MarginsView>('/api/admin/margins')
  if (all.points.length === 0) return null
  const times = timesOf('day', all)
  const points = all.points.map(({ at, model, msat }) => ({ at, key: model, name: model, sats: msat / 1000 }))
  const models = [...Map.groupBy(all.points, ({ model }) => model)].map(([model, days]) =>
    days.reduce<Sums>(
      (sum, { requests, msat, costMsat }) => ({
        model,
        requests: sum.requests + requests,
        msat: sum.msat + msat,
        costMsat: sum.costMsat + costMsat
      }),
      { model, requests: 0, msat: 0, costMsat: 0 }
    )
  )
  const margin = ({ msat, costMsat }: Pick<Sums, 'msat' | 'costMsat'>) => msat - costMsat
  const amount = (msat: number): string => sats(msat / 1000)
  return html`
    <section aria-labelledby="models">
      <h2 id="models">Models</h2>
      <dl class="figures-row">
        ${figure('Revenue', amount(all.msat), t`${count(all.requests)} requests`)}
        ${figure('Cost', amount(all.costMsat), t('list prices without markup'))}
        ${figure('Margin', amount(margin(all)), percent(margin(all), all.msat))}
      </dl>
      ${columnChart({ title: 'Revenue by model', step: 'day', times, series: seriesOf({ points }, times), format: sats })}
      ${table(
        'Models, last 30 days',
        [
          ['Model', ({ model }) => html`<bdi>${model ?? t('all others')}</bdi>`],
          ['Requests', ({ requests }) => count(requests), 'number'],
          ['Revenue', ({ msat }) => amount(msat), 'number'],
          ['Cost', ({ costMsat }) => amount(costMsat), 'number'],
          ['Margin', sums => `${amount(margin(sums))} (${percent(margin(sums), sums.msat)})`, 'number']
        ],
        models.toSorted((one, other) => other.msat - one.msat),
        html`<p>No sales in this period.</p>`
      )}
    </section>`
}

function seriesOf(
  { points }: { readonly points: ReadonlyArray<Pick<EarningsView['points'][number], 'at' | 'key' | 'name' | 'sats'>> },
  times: readonly number[]
) {
  const place = new Map(times.map((time, at) => [time, at]))
  const byName = new Map<string, number[]>()
  for (const { at, key, name, sats: earned } of points) {
    const called = name ?? (key === null ? t('all others') : key === '' ? t('none') : t(SOURCES[key] ?? key))
    let values = byName.get(called)
    if (values === undefined) byName.set(called, (values = times.map(() => 0)))
    const column = place.get(Date.parse(at))
    if (column !== undefined) values[column] = (values[column] ?? 0) + earned
  }
  const sum = (values: readonly number[]): number => values.reduce((one, value) => one + value, 0)
  return [...byName]
    .map(([name, values]) => ({ name, values }))
    .sort((one, other) => sum(other.values) - sum(one.values))
}
