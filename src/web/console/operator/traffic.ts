import type { VNode } from 'preact'
import type { MetricsView, TrafficView } from '../../../accounts/traffic/operations.ts'
import { html } from '../../kit/document.ts'
import type { Asked } from '../page.ts'
import { lineChart } from '../chart.ts'
import { figure } from '../parts.ts'
import { count, latency, percent, sats } from '../words.ts'

const HOUR = 3_600_000

/** Requests, 402 conversion, errors and latencies: the last minutes, and a day. */
export async function trafficSection({ api }: Asked, now: TrafficView): Promise<VNode> {
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
      <h2 id="traffic">What goes through</h2>
      <h3>In the last five minutes</h3>
      <dl class="figures-row">
        ${figure('Requests', count(now.requests), `${count(Math.round(now.requests / 5))} a minute`)}
        ${figure('Asked to pay', count(now.asked), `${count(now.sales)} paid`)}
        ${figure('Earned', sats(now.sats))}
        ${figure('Errors', count(now.serverErrors), `${count(now.clientErrors)} of clients`)}
        ${figure('Half within', latency(now.p50), `99 of 100 within ${latency(now.p99)}`)}
      </dl>
      <h3>Over a day</h3>
      <dl class="figures-row">
        ${figure('Requests', count(total.requests), `${count(total.paidRequests)} served for a payment`)}
        ${figure('Asked to pay', count(total.asked), `${count(total.sales)} paid: ${percent(total.sales, total.asked)}`)}
        ${figure('Earned', sats(total.sats))}
        ${figure('Errors', count(total.serverErrors), `${percent(bad(total), total.requests)} of all with those broken off`)}
        ${figure('Half within', latency(total.p50), `99 of 100 within ${latency(total.p99)}`)}
      </dl>
      ${
        total.requests === 0 && total.sales === 0
          ? html`<p class="empty">Nothing was asked for in the last day. Each process tells once a minute what went through it; routes whose chain has <code>metrics</code> are counted.</p>`
          : html`
            <h3>Requests by hour</h3>
            ${lineChart({
              ...chart,
              title: 'Requests by hour',
              series: [
                line('All', one => one.requests),
                line('Asked to pay (402)', one => one.asked),
                line('Served for a payment', one => one.paidRequests),
                line('Paid', one => one.sales)
              ]
            })}
            <h3>Earned by hour</h3>
            ${lineChart({ ...chart, title: 'Satoshis earned by hour', format: sats, series: [line('Satoshis', one => one.sats)] })}
            <h3>Errors by hour</h3>
            ${lineChart({
              ...chart,
              title: 'Errors by hour',
              series: [
                line('Of the gateway and upstreams (5xx)', one => one.serverErrors),
                line('Of clients (4xx)', one => one.clientErrors),
                line('Upstream failed', one => one.upstreamFailures),
                line('Broken off', one => one.unfinished)
              ]
            })}
            <h3>Latency by hour</h3>
            ${lineChart({
              ...chart,
              title: 'Latency by hour',
              format: latency,
              series: [
                line('Half within (p50), ms', one => one.p50, null),
                line('99 of 100 within (p99), ms', one => one.p99, null)
              ]
            })}`
      }
    </section>`
}
