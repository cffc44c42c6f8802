import { t } from '../../../engine/formats/language.ts'
import type { VNode } from 'preact'
import type { LiveRoute } from '../../admin/live.ts'
import { html } from '../../kit/document.ts'
import type { ConsolePage } from '../page.ts'
import { badge, choice, facts, table, type Tone } from '../parts.ts'
import { count, latency, percent, timeOf } from '../words.ts'

const VIEWS = [
  ['file', 'From the file'],
  ['presets', 'Built-in']
] as const

const STATES: Readonly<Record<LiveRoute['upstream']['state'], readonly [words: string, tone: Tone]>> = {
  good: ['answers', 'good'],
  failing: ['failing intermittently', 'wait'],
  down: ['not responding', 'bad'],
  idle: ['no recent requests', 'quiet']
}

/** Routes per page; each has a diagram. */
const AT_ONCE = 25

/** Live routes: their request path and state. */
export const operatorRoutes: ConsolePage = {
  id: 'getOperatorRoutes',
  console: 'operator',
  path: 'routes',
  summary: 'What is live: the chain of each route, its price, how its upstream is, and its last errors',
  async show({ api, link, query }) {
    const view = VIEWS.find(([name]) => name === query.get('view'))?.[0] ?? 'file'
    const page = Math.max(1, Math.trunc(Number(query.get('page') ?? 1)) || 1)
    const routes = await api.get<readonly LiveRoute[]>(`/api/admin/routes?of=${view}`)
    const shown = routes.slice((page - 1) * AT_ONCE, page * AT_ONCE)
    const to = (at: number): string => link(`routes?view=${view}&page=${at}`)
    return {
      title: 'Routes',
      content: html`
        <form method="get" class="filter">${choice('view', 'View', VIEWS, view)}<button class="button small second" type="submit">Show</button></form>
        ${view === 'file' ? shown.map(drawn) : ownRoutes(routes)}
        ${routes.length > 0 ? null : html`<p class="empty">The file has no routes. Add one under <code>routes</code>; it takes effect when you save the file.</p>`}
        ${
          view === 'file' && routes.length > AT_ONCE
            ? html`<nav class="pager" aria-label="Pages">
                ${page > 1 ? html`<a rel="prev" href=${to(page - 1)}>Before</a>` : null}
                ${routes.length > page * AT_ONCE ? html`<a rel="next" href=${to(page + 1)}>Next</a>` : null}
              </nav>`
            : null
        }`
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
        ['Chain', html`<code>${chain.name}</code>, ${route.from}`],
        ['Last 5 minutes', now.requests === 0 ? t('no requests') : goneThrough(now)],
        ['Last 24 hours', day.requests === 0 ? t('no requests') : goneThrough(day)]
      ])}
      ${
        faults.length === 0
          ? null
          : html`<details><summary>${t`Last errors (${faults.length})`}</summary>${table(
              t`Last errors of ${route.name}`,
              [
                {
                  title: 'What',
                  cell: (fault: LiveRoute['faults'][number]) => html`${fault.status}: ${fault.message}`
                },
                { title: 'Count', cell: fault => count(fault.times), isNumber: true },
                { title: 'Last seen', cell: fault => timeOf(fault.lastAt) },
                { title: 'Correlation ID', cell: fault => html`<code>${fault.correlationId}</code>` }
              ],
              faults,
              html`<p>No refunds.</p>`
            )}</details>`
      }
    </section>`
}

function goneThrough(sums: LiveRoute['day']): string {
  const { asked, p50, p99, paidRequests, requests, serverErrors } = sums
  return t`${count(requests)} requests, ${count(asked)} 402 responses, ${count(paidRequests)} paid requests, ${count(serverErrors)} errors (${percent(serverErrors, requests)}); p50 ${latency(p50)}, p99 ${latency(p99)}`
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
        { title: 'Route', cell: (route: LiveRoute) => html`<bdi>${route.name}</bdi>` },
        { title: 'Chain', cell: ({ chain }) => html`<code>${chain.name}</code>` },
        { title: 'Requests', cell: ({ day }) => count(day.requests), isNumber: true },
        { title: 'Errors', cell: ({ day }) => count(day.serverErrors), isNumber: true },
        { title: 'p99', cell: ({ day }) => latency(day.p99), isNumber: true }
      ],
      busy.filter(({ day }) => day.requests > 0).slice(0, 50),
      html`<p>No requests in the last 24 hours.</p>`
    )}`
}
