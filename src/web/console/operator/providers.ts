import { t } from '../../../engine/formats/language.ts'
import { html } from '../../kit/document.ts'
import type { ProviderState } from '../../admin/overview.ts'
import type { ConsolePage, PageRequest } from '../page.ts'
import { badge, table, live, type Tone } from '../parts.ts'
import type { VNode } from 'preact'
import type { AdminHealth } from '../../admin/health.ts'
import { timeOf } from '../words.ts'

export const operatorProviders: ConsolePage = {
  id: 'getOperatorProviders',
  path: 'providers',
  summary: 'Provider status: call limits and hosts that do not respond',
  async show({ api, link }) {
    const providers = await api.get<readonly ProviderState[]>('/api/admin/providers')
    return {
      title: 'Providers',
      content: html`
        ${table(
          'Providers',
          [
            ['Provider', one => html`${one.kind}<span class="soft"> ${one.slot}</span>`],
            ['Your own key', one => (one.hasKey ? badge('set', 'good') : badge('none', 'quiet'))],
            ['Call limits', budgets],
            ['Failing hosts', hosts]
          ],
          providers,
          html`<p>No providers. Set <code>lightning</code> in gateway.yaml.</p>`
        )}
        <p>See also <a href=${link('health')}>Health</a>, <a href=${link('jobs')}>Jobs</a>.</p>`
    }
  }
}

function wait(seconds: number | null): string {
  return seconds === null ? '' : `, retry in ${seconds} s`
}

function budgets({ budgets: all }: ProviderState) {
  return all.length === 0
    ? badge('within limits', 'good')
    : html`<ul>${all.map(
        ({ limit, exhausted, retryAfter }) =>
          html`<li>${limit}: ${exhausted ? badge(`exhausted${wait(retryAfter)}`, 'bad') : badge('available', 'good')}</li>`
      )}</ul>`
}

function hosts({ hosts: all }: ProviderState) {
  return all.length === 0
    ? badge('none', 'good')
    : html`<ul>${all.map(
        ({ host, failures, isLeftAlone, retryAfter }) =>
          html`<li><bdi>${host ?? t('configured host')}</bdi>: ${badge(`${failures} failures${isLeftAlone ? `, paused${wait(retryAfter)}` : ''}`, isLeftAlone ? 'bad' : 'wait')}</li>`
      )}</ul>`
}

type Check = AdminHealth['checks'][number]

const CHECKS: Readonly<Record<Check['name'], readonly [title: string, page: string]>> = {
  database: [t('Database'), 'health'],
  state: [t('Counters and idempotency'), 'health'],
  upstreams: [t('Upstreams'), 'routes'],
  providers: [t('Payment providers'), 'providers'],
  reload: [t('Configuration'), 'configuration'],
  errors: [t('Errors'), 'routes'],
  refunds: [t('Refunds'), 'refunds'],
  sessions: [t('Sessions'), 'sessions'],
  orders: [t('Orders'), 'orders'],
  subscriptions: [t('Subscriptions'), 'subscriptions'],
  webhooks: [t('Webhooks'), 'merchants'],
  jobs: [t('Background jobs'), 'jobs'],
  certificate: [t('TLS certificate'), 'health'],
  disk: [t('Disk'), 'health'],
  files: [t('Open files'), 'health'],
  clock: [t('Clock'), 'health'],
  processes: [t('Processes'), 'health']
}

const STATES: Readonly<Record<Check['state'], readonly [words: string, tone: Tone]>> = {
  good: [t('good'), 'good'],
  warning: [t('warning'), 'wait'],
  bad: [t('failing'), 'bad']
}

/** Everything that is wrong: since when, the effect on sales, and the fix. Kept current by the script. */
export function problemsSection({ checks, ready }: AdminHealth, link: PageRequest['link']): VNode {
  const problems = checks.filter(({ state }) => state !== 'good')
  const isBad = !ready || problems.some(({ state }) => state === 'bad')
  return live(
    'problems',
    problems.length === 0 && ready
      ? html`<p class="notice good">Nothing needs attention.</p>`
      : html`<section class=${`notice ${isBad ? 'bad' : 'wait'}`} aria-labelledby="open"><h2 id="open">Needs attention</h2>
          <ul>
            ${ready ? null : html`<li>Not accepting traffic: /ready tells load balancers to skip this process.</li>`}
            ${problems.map(check => {
              const [title, page] = CHECKS[check.name]
              const [words, tone] = STATES[check.state]
              return html`<li>${badge(words, tone)} <a href=${link(page)}>${t(title)}</a>: <bdi>${check.says}</bdi> Since ${timeOf(check.since)}. <span class="soft">Effect: ${check.effect}</span> <strong>${check.wayOut}</strong></li>`
            })}
          </ul></section>`
  )
}

export const operatorHealth: ConsolePage = {
  id: 'getOperatorHealth',
  path: 'health',
  summary: 'Health checks of the gateway and what it depends on, with fixes',
  async show({ api, isRenewal, link }) {
    const health = await api.get<AdminHealth>('/api/admin/health')
    const problems = problemsSection(health, link)
    return {
      title: 'Health',
      content: isRenewal
        ? problems
        : html`
        ${problems}
        <dl class="facts">${health.checks.map(({ name, says, state }) => {
          const [words, tone] = STATES[state]
          return html`<div><dt>${t(CHECKS[name][0])}</dt><dd>${badge(words, tone)} <bdi>${says}</bdi></dd></div>`
        })}</dl>
        <p class="soft">Seen by the process that served this page, ${timeOf(health.at)}. See also <a href=${link('jobs')}>Jobs</a>, <a href=${link('providers')}>Providers</a>.</p>`
    }
  }
}
