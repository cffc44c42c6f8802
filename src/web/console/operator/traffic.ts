import { t } from '../../../engine/formats/language.ts'
import type { VNode } from 'preact'
import type { MetricsView, TrafficView } from '../../../accounts/traffic/operations.ts'
import { html } from '../../kit/document.ts'
import type { PageRequest } from '../page.ts'
import { lineChart } from '../chart.ts'
import { figure } from '../parts.ts'
import { count, latency, percent, sats } from '../words.ts'

const HOUR = 3_600_000

/** Requests, 402 conversion, errors and latencies: the last minutes, and a day. */
export async function trafficSection({ api }: PageRequest, now: TrafficView): Promise<VNode> {
  const { from, to, total, points = [] } = await api.get<MetricsView>('/api/admin/metrics?step=1h')
  const times: number[] = []
  for (let at = Date.parse(from); at < Date.parse(to) && times.length < 48; at += HOUR) times.push(at)
  const byTime = new Map(points.map(point => [Date.parse(point.at), point]))
  const line = (name: string, of: (point: TrafficView) => number | null, without: number | null = 0) => ({
    name,
    values: times.map(time => {
      const point = byTime.get(time)
      return point === undefined ? without : of(point)
    })
  })
  const chart = { step: 'hour', times, format: count } as const
  const bad = (item: TrafficView): number => item.serverErrors + item.unfinished
  return html`
    <section aria-labelledby="traffic">
      <h2 id="traffic">Traffic</h2>
      <h3>Last 5 minutes</h3>
      <dl class="figures-row">
        ${figure('Requests', count(now.requests), t`${count(Math.round(now.requests / 5))} per minute`)}
        ${figure('402 responses', count(now.asked), t`${count(now.sales)} paid`)}
        ${figure('Earnings', sats(now.sats))}
        ${figure('Errors', count(now.serverErrors), t`${count(now.clientErrors)} client errors`)}
        ${figure('p50', latency(now.p50), `p99 ${latency(now.p99)}`)}
      </dl>
      <h3>Last 24 hours</h3>
      <dl class="figures-row">
        ${figure('Requests', count(total.requests), t`${count(total.paidRequests)} paid requests`)}
        ${figure('402 responses', count(total.asked), t`${percent(total.sales, total.asked)} converted (${count(total.sales)} paid)`)}
        ${figure('Earnings', sats(total.sats))}
        ${figure('Errors', count(total.serverErrors), t`${percent(bad(total), total.requests)} of requests, including aborted`)}
        ${figure('p50', latency(total.p50), `p99 ${latency(total.p99)}`)}
      </dl>
      ${
        total.requests === 0 && total.sales === 0
          ? html`<p class="empty">No requests in the last 24 hours. Processes report once a minute, for routes with <code>metrics</code> in their chain.</p>`
          : html`
            <h3>Requests by hour</h3>
            ${lineChart({
              ...chart,
              title: 'Requests by hour',
              series: [
                line('All', one => one.requests),
                line('402 responses', one => one.asked),
                line('Paid requests', one => one.paidRequests),
                line('Payments', one => one.sales)
              ]
            })}
            <h3>Earnings by hour</h3>
            ${lineChart({ ...chart, title: 'Satoshis earned by hour', format: sats, series: [line('Satoshis', one => one.sats)] })}
            <h3>Errors by hour</h3>
            ${lineChart({
              ...chart,
              title: 'Errors by hour',
              series: [
                line('5xx', one => one.serverErrors),
                line('4xx', one => one.clientErrors),
                line('Upstream failures', one => one.upstreamFailures),
                line('Aborted', one => one.unfinished)
              ]
            })}
            <h3>Latency by hour</h3>
            ${lineChart({
              ...chart,
              title: 'Latency by hour',
              format: latency,
              series: [line('p50, ms', one => one.p50, null), line('p99, ms', one => one.p99, null)]
            })}`
      }
    </section>`
}
