import { t } from '../../../engine/formats/language.ts'
import type { VNode } from 'preact'
import type { ProxyTrafficView } from '../../../accounts/traffic/operations.ts'
import { html } from '../../kit/document.ts'
import { queryOf } from '../api.ts'
import { lineChart } from '../chart.ts'
import type { PageRequest } from '../page.ts'
import { choice, figure, kept } from '../parts.ts'
import { count, latency, percent } from '../words.ts'

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
