import { t } from '../../../engine/formats/language.ts'
import type { VNode } from 'preact'
import type { ProxyTrafficView, RequestPage } from '../../../accounts/traffic/operations.ts'
import { html } from '../../kit/document.ts'
import { queryOf } from '../api.ts'
import { lineChart } from '../chart.ts'
import type { PageRequest, ConsolePage } from '../page.ts'
import { choice, figure, kept, badge, field, live, pager, table, type Tone } from '../parts.ts'
import { count, latency, percent, timeOf } from '../words.ts'
import type { ProxyView } from '../../../payments/proxies/schema.ts'

const DAY = 86_400_000
const STEPS = { '1h': { name: 'hour', length: 3_600_000 }, '1d': { name: 'day', length: DAY } } as const

/**
 * One API or all, over a day by hour or 30 days, by the page's query.
 * @throws ApiRefusal
 */
export async function apiTraffic({ api, ctx, query }: PageRequest, proxyId: string | null): Promise<ProxyTrafficView> {
  const isMonth = query.get('over') === 'month'
  const period = isMonth ? { from: new Date(ctx.now - 29 * DAY).toISOString(), step: '1d' } : { step: '1h' }
  return await api.get<ProxyTrafficView>(`/api/merchant/traffic${queryOf({ proxyId, ...period })}`)
}

export function apiTrafficSection(
  { link, params, query }: PageRequest,
  { step, from, to, total, points }: ProxyTrafficView
): VNode {
  const { name, length } = STEPS[step]
  const times: number[] = []
  for (let at = Date.parse(from); at < Date.parse(to) && times.length < 48; at += length) times.push(at)
  const byTime = new Map(points.map(point => [Date.parse(point.at), point]))
  const line = (
    called: string,
    of: (point: ProxyTrafficView['total']) => number | string | null,
    without: number | null = 0
  ) => ({
    name: called,
    values: times.map(time => {
      const point = byTime.get(time)
      if (point === undefined) return without
      const value = of(point)
      return value === null ? null : Number(value)
    })
  })
  const chart = { step: name, times, format: count } as const
  return html`
    <section aria-labelledby="traffic">
      <div class="heading">
        <h2 id="traffic">Traffic</h2>
        ${params['proxyId'] === undefined ? null : html`<a href=${link(`apis/${params['proxyId']}/requests`)}>Request log</a>`}
        <form method="get" class="filter">
          ${kept(query, 'by', 'of')}
          ${choice(
            'over',
            'Period',
            [
              ['day', '1 day'],
              ['month', '30 days']
            ],
            query.get('over') === 'month' ? 'month' : 'day'
          )}
          <button class="button small second" type="submit">Show</button>
        </form>
      </div>
      <dl class="figures-row">
        ${figure('Requests', count(total.requests))}
        ${figure('402 responses', count(total.asked))}
        ${figure('Paid requests', count(total.paidRequests))}
        ${figure('Errors', count(total.serverErrors), t`${percent(total.serverErrors, total.requests)} of requests; ${count(total.upstreamFailures)} upstream failures`)}
        ${figure('p50', latency(total.p50), `p99 ${latency(total.p99)}`)}
      </dl>
      ${
        total.requests === 0
          ? html`<p class="empty">No requests in this period. New requests appear within a minute.</p>`
          : html`
            <h3>Requests by ${name}</h3>
            ${lineChart({
              ...chart,
              title: t`Requests by ${name}`,
              series: [
                line(t('All'), one => one.requests),
                line(t('402 responses'), one => one.asked),
                line(t('Paid'), one => one.paidRequests),
                line('5xx', one => one.serverErrors),
                line('4xx', one => one.clientErrors)
              ]
            })}
            <h3>Latency by ${name}</h3>
            ${lineChart({
              ...chart,
              title: t`Latency by ${name}`,
              format: latency,
              series: [line('p50, ms', one => one.p50, null), line('p99, ms', one => one.p99, null)]
            })}`
      }
    </section>`
}

const STATUSES = ['2xx', '3xx', '4xx', '5xx'] as const

function tone(status: number): Tone {
  return status >= 500 ? 'bad' : status >= 400 ? 'wait' : 'good'
}

export const requestsPage: ConsolePage = {
  id: 'getConsoleApiRequests',
  console: 'merchant',
  path: 'apis/:proxyId/requests',
  summary: 'The last 1,000 requests of an API, by status, payment and path',
  async show({ api, link, params, query, root }) {
    const proxyId = params['proxyId'] ?? ''
    const proxy = await api.get<ProxyView>(`/api/proxy/${encodeURIComponent(proxyId)}`)
    const after = query.get('after')
    const filter = {
      status: STATUSES.find(name => name === query.get('status')),
      paid: ['true', 'false'].find(name => name === query.get('paid')),
      text: query.get('text')
    }
    const here = link(`apis/${proxy.proxyId}/requests${queryOf(filter)}`)
    const target = `/api/merchant/requests${queryOf({ proxyId: proxy.proxyId, ...filter, after })}`
    const { requests, next } = await api.get<RequestPage>(target)
    return {
      title: t`Requests: ${proxy.name}`,
      content: html`
        <p><a href=${link(`apis/${proxy.proxyId}`)}><bdi>${proxy.name}</bdi></a>. The last 1,000 requests of up to 30 days, without bodies, queries and client addresses.</p>
        <form method="get" class="filter" role="search" aria-label="Requests">
          ${choice('status', 'Status', [['', 'All'], ...STATUSES.map(name => [name, name] as const)], filter.status ?? '')}
          ${choice(
            'paid',
            'Payment',
            [
              ['', 'All'],
              ['true', 'Paid'],
              ['false', 'Unpaid']
            ],
            filter.paid ?? ''
          )}
          ${field({ name: 'text', label: 'Path or correlation ID', value: filter.text ?? '', attributes: { type: 'search', maxlength: 200 } })}
          <button class="button small" type="submit">Show</button>
          <a class="button small second" href=${`${root}api/merchant/requests${queryOf({ proxyId: proxy.proxyId, ...filter, format: 'csv' })}`} download="requests.csv">CSV</a>
        </form>
        ${live(
          'list',
          table(
            'Requests',
            [
              { title: 'Time', cell: request => timeOf(request.at) },
              { title: 'Request', cell: ({ method, path }) => html`<code>${method} <bdi>${path}</bdi></code>` },
              { title: 'Status', cell: ({ status }) => badge(String(status), tone(status)) },
              { title: 'Payment', cell: ({ isPaid }) => (isPaid ? 'Paid' : 'Unpaid') },
              { title: 'Latency', cell: ({ latencyMs }) => latency(latencyMs), isNumber: true },
              { title: 'Correlation ID', cell: ({ correlationId }) => html`<code>${correlationId}</code>` }
            ],
            requests,
            html`<p>No requests match. New requests appear within ten seconds.</p>`
          )
        )}
        ${pager(here, next, query)}`
    }
  }
}
