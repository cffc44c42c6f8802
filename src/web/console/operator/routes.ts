import { t } from '../../../engine/formats/language.ts'
import type { VNode } from 'preact'
import type { LiveRoute } from '../../admin/live.ts'
import { html } from '../../kit/document.ts'
import type { ConsolePage, PageRequest } from '../page.ts'
import { badge, facts, table, type Tone, figure, input } from '../parts.ts'
import { count, latency, percent, timeOf, sats } from '../words.ts'
import type { MetricsView, TrafficView } from '../../../accounts/traffic/operations.ts'
import { lineChart, chartLines, timesOf } from '../chart.ts'
import { numberedPager, pageOf, viewForm, viewOf } from '../lists.ts'

const VIEWS = [
  ['file', 'From the file'],
  ['presets', 'Built-in']
] as const

const STATES: Readonly<Record<LiveRoute['upstream']['state'], readonly [words: string, tone: Tone]>> = {
  good: [t('answers'), 'good'],
  failing: [t('failing intermittently'), 'wait'],
  down: [t('not responding'), 'bad'],
  idle: [t('no recent requests'), 'quiet']
}

/** Routes per page; each has a diagram. */
const AT_ONCE = 25

export const operatorRoutes: ConsolePage = {
  id: 'getOperatorRoutes',
  path: 'routes',
  summary: 'What is live: the chain of each route, its price, how its upstream is, and its last errors',
  async show(request) {
    const view = viewOf(request, 'view', VIEWS)
    const page = pageOf(request)
    const routes = await request.api.get<readonly LiveRoute[]>(`/api/admin/routes?of=${view}`)
    const shown = routes.slice((page - 1) * AT_ONCE, page * AT_ONCE)
    return {
      title: 'Routes',
      content: html`
        ${viewForm(input('view', 'View', { options: VIEWS, value: view }))}
        ${view === 'file' ? shown.map(drawn) : ownRoutes(routes)}
        ${routes.length > 0 ? null : html`<p class="empty">The file has no routes. Add one under <code>routes</code>; it takes effect when you save the file.</p>`}
        ${view === 'file' ? numberedPager(request, 'routes', { view }, routes.length > page * AT_ONCE, [t('Before'), t('Next')]) : null}`
    }
  }
}

function drawn(route: LiveRoute, nth: number): VNode {
  const { chain, day, faults, now, price, upstream } = route
  const [words, tone] = STATES[upstream.state]
  const id = `route-${nth}`
  return html`
    <section class="route" aria-labelledby=${id}>
      <div class="heading"><h2 id=${id}><bdi>${route.name}</bdi></h2>${badge(words, tone)}</div>
      ${route.description === null ? null : html`<p><bdi>${route.description}</bdi></p>`}
      ${wayOf(route)}
      ${facts([
        [
          'Methods',
          html`${route.methods.join(', ') || t('any method')} <code>${route.host ?? ''}${route.paths.join(', ')}</code>`
        ],
        ['Price', price ?? 'free'],
        [
          'Chain',
          html`<code>${chain.name}</code>, ${route.from.replace(/^line (\d+)$/, (_, line: string) => t`line ${line}`)}`
        ],
        ['Last 5 minutes', now.requests === 0 ? t('no requests') : goneThrough(now)],
        ['Last 24 hours', day.requests === 0 ? t('no requests') : goneThrough(day)]
      ])}
      ${
        faults.length === 0
          ? null
          : html`<details><summary>${t`Last errors (${faults.length})`}</summary>${table(
              t`Last errors of ${route.name}`,
              [
                ['What', fault => html`${fault.status}: ${fault.message}`],
                ['Count', fault => count(fault.times), 'number'],
                ['Last seen', fault => timeOf(fault.lastAt)],
                ['Correlation ID', fault => html`<code>${fault.correlationId}</code>`]
              ],
              faults,
              html`<p>No errors.</p>`
            )}</details>`
      }
    </section>`
}

function goneThrough(sums: LiveRoute['day']): string {
  const { asked: challenges, p50, p99, paidRequests, requests, serverErrors } = sums
  return t`${count(requests)} requests, ${count(challenges)} 402 responses, ${count(paidRequests)} paid requests, ${count(serverErrors)} errors (${percent(serverErrors, requests)}); p50 ${latency(p50)}, p99 ${latency(p99)}`
}

/** Plugins in execution order, and the upstream. */
function wayOf({ chain, name, upstream }: LiveRoute): VNode {
  return html`
    <ol class="way" aria-label=${t`Request chain: ${name}`}>
      ${chain.plugins.map(
        ({ isConditional, isObserving, plugin }) =>
          html`<li><code>${plugin}</code>${isConditional ? html`<span class="soft"> intermittent</span>` : null}${isObserving ? html`<span class="soft"> observes</span>` : null}</li>`
      )}
      <li class="end"><code>${upstream.address}</code></li>
    </ol>`
}

function ownRoutes(routes: readonly LiveRoute[]): VNode {
  const busy = [...routes].sort((one, other) => other.day.requests - one.day.requests)
  return html`
    <p>${count(routes.length)} built-in routes. Shows those with requests in the last 24 hours, busiest first. Run <code>boltgate routes</code> to list all with their chains.</p>
    ${table(
      'Built-in routes',
      [
        ['Route', route => html`<bdi>${route.name}</bdi>`],
        ['Chain', ({ chain }) => html`<code>${chain.name}</code>`],
        ['Requests', ({ day }) => count(day.requests), 'number'],
        ['Errors', ({ day }) => count(day.serverErrors), 'number'],
        ['p99', ({ day }) => latency(day.p99), 'number']
      ],
      busy.filter(({ day }) => day.requests > 0).slice(0, 50),
      html`<p>No requests in the last 24 hours.</p>`
    )}`
}

export async function trafficSection({ api }: PageRequest, now: TrafficView): Promise<VNode> {
  const { total, points = [], ...period } = await api.get<MetricsView>('/api/admin/metrics?step=1h')
  const times = timesOf('hour', period)
  const line = chartLines(points, times)
  const chart = { step: 'hour', times, format: count } as const
  const bad = (item: TrafficView): number => item.serverErrors + item.unfinished
  return html`
    <section aria-labelledby="traffic">
      <h2 id="traffic">Traffic</h2>
      <h3>Last 5 minutes</h3>
      <dl class="figures-row">
        ${figure('Requests', count(now.requests), t`${count(Math.round(now.requests / 5))} per minute`)}
        ${figure('402 responses', count(now.asked), t`${count(now.sales)} paid, plus ${count(now.probes)} probes`)}
        ${figure('Earnings', sats(now.sats))}
        ${figure('Errors', count(now.serverErrors), t`${count(now.clientErrors)} client errors`)}
        ${figure('p50', latency(now.p50), `p99 ${latency(now.p99)}`)}
      </dl>
      <h3>Last 24 hours</h3>
      <dl class="figures-row">
        ${figure('Requests', count(total.requests), t`${count(total.paidRequests)} paid requests`)}
        ${figure('402 responses', count(total.asked), t`${percent(total.sales, total.asked)} converted (${count(total.sales)} paid), plus ${count(total.probes)} probes`)}
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
                line(t('All'), one => one.requests),
                line(t('402 responses'), one => one.asked),
                line(t('Paid requests'), one => one.paidRequests),
                line(t('Payments'), one => one.sales)
              ]
            })}
            <h3>Earnings by hour</h3>
            ${lineChart({ ...chart, title: 'Satoshis earned by hour', format: sats, series: [line(t('Satoshis'), one => one.sats)] })}
            <h3>Errors by hour</h3>
            ${lineChart({
              ...chart,
              title: 'Errors by hour',
              series: [
                line('5xx', one => one.serverErrors),
                line('4xx', one => one.clientErrors),
                line(t('Upstream failures'), one => one.upstreamFailures),
                line(t('Aborted'), one => one.unfinished)
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
