import { iso } from '../../../engine/formats/iso-time.ts'
import { t } from '../../../engine/formats/language.ts'
import type { VNode } from 'preact'
import type { ProxyTrafficView, RequestPage } from '../../../accounts/traffic/operations.ts'
import { html } from '../../kit/document.ts'
import { queryOf } from '../api.ts'
import { lineChart, chartLines, timesOf } from '../chart.ts'
import { csvLink, filterChoice, oneOf, pager, searchForm, viewForm } from '../lists.ts'
import type { PageRequest, ConsolePage } from '../page.ts'
import { figure, kept, badge, live, table, type Tone, input, searchField } from '../parts.ts'
import { count, latency, percent, timeOf } from '../words.ts'
import type { ProxyView } from '../../../payments/proxies/schema.ts'

const DAY = 86_400_000
const STEPS = { '1h': 'hour', '1d': 'day' } as const

/**
 * One API or all, over a day by hour or 30 days, by the page's query.
 * @throws ApiRefusal
 */
export async function apiTraffic({ api, ctx, query }: PageRequest, proxyId: string | null): Promise<ProxyTrafficView> {
  const isMonth = query.get('over') === 'month'
  const period = isMonth ? { from: iso(ctx.now - 29 * DAY), step: '1d' } : { step: '1h' }
  return await api.get<ProxyTrafficView>(`/api/merchant/traffic${queryOf({ proxyId, ...period })}`)
}

export function apiTrafficSection(
  { id, link, query }: PageRequest,
  { points, total, ...period }: ProxyTrafficView
): VNode {
  const name = STEPS[period.step]
  const times = timesOf(name, period)
  const line = chartLines(points, times)
  const proxyId = id('proxyId')
  const chart = { step: name, times, format: count } as const
  return html`
    <section aria-labelledby="traffic">
      <div class="heading">
        <h2 id="traffic">Traffic</h2>
        ${proxyId === '' ? null : html`<a href=${link(`apis/${proxyId}/requests`)}>Request log</a>`}
        ${viewForm(html`${kept(query, 'by', 'of')}
          ${input('over', 'Period', {
            options: [
              ['day', '1 day'],
              ['month', '30 days']
            ],
            value: query.get('over')
          })}`)}
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
            <h3>Requests by ${t(name)}</h3>
            ${lineChart({
              ...chart,
              title: t`Requests by ${t(name)}`,
              series: [
                line(t('All'), one => one.requests),
                line(t('402 responses'), one => one.asked),
                line(t('Paid'), one => one.paidRequests),
                line('5xx', one => one.serverErrors),
                line('4xx', one => one.clientErrors)
              ]
            })}
            <h3>Latency by ${t(name)}</h3>
            ${lineChart({
              ...chart,
              title: t`Latency by ${t(name)}`,
              format: latency,
              series: [line('p50, ms', one => one.p50, null), line('p99, ms', one => one.p99, null)]
            })}`
      }
    </section>`
}

const STATUSES = ['2xx', '3xx', '4xx', '5xx'] as const
const REQUESTS = '/api/merchant/requests'

function tone(status: number): Tone {
  return status >= 500 ? 'bad' : status >= 400 ? 'wait' : 'good'
}

export const requestsPage: ConsolePage = {
  id: 'getConsoleApiRequests',
  path: 'apis/:proxyId/requests',
  summary: 'The last 1,000 requests of an API, by status, payment and path',
  async show(page) {
    const { api, id, link, query } = page
    const { name, proxyId } = await api.get<ProxyView>(`/api/proxy/${id('proxyId')}`)
    const filter = {
      status: oneOf(page, 'status', STATUSES),
      paid: oneOf(page, 'paid', ['true', 'false']),
      text: query.get('text')
    }
    const target = `${REQUESTS}${queryOf({ proxyId, ...filter, after: query.get('after') })}`
    const { requests, next } = await api.get<RequestPage>(target)
    return {
      title: t`Requests: ${name}`,
      content: html`
        <p><a href=${link(`apis/${proxyId}`)}><bdi>${name}</bdi></a>. The last 1,000 requests of up to 30 days, without bodies, queries and client addresses.</p>
        ${searchForm(
          'Requests',
          html`${filterChoice('status', 'Status', STATUSES, filter.status)}
          ${filterChoice(
            'paid',
            'Payment',
            [
              ['true', 'Paid'],
              ['false', 'Unpaid']
            ],
            filter.paid
          )}
          ${searchField('Path or correlation ID', filter.text)}`,
          csvLink(page, REQUESTS, { proxyId, ...filter }, 'requests')
        )}
        ${live(
          'list',
          table(
            'Requests',
            [
              ['Time', request => timeOf(request.at)],
              ['Request', ({ method, path }) => html`<code>${method} <bdi>${path}</bdi></code>`],
              ['Status', ({ status }) => badge(String(status), tone(status))],
              ['Payment', ({ isPaid }) => (isPaid ? t('Paid') : t('Unpaid'))],
              ['Latency', ({ latencyMs }) => latency(latencyMs), 'number'],
              ['Correlation ID', ({ correlationId }) => html`<code>${correlationId}</code>`]
            ],
            requests,
            html`<p>No requests match. New requests appear within ten seconds.</p>`
          )
        )}
        ${pager(page, `apis/${proxyId}/requests`, filter, next)}`
    }
  }
}
