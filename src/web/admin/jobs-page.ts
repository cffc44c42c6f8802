import type { VNode } from 'preact'
import { renderToString } from 'preact-render-to-string'
import { html, ICON, PAGE_HEADERS, HTML_TYPE } from '../kit/document.ts'
import type { JobPage, JobState, JobView, QueueView, Jobs } from '../../platform/jobs/jobs.ts'
import { Type } from 'typebox'
import { RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { assetNames } from '../kit/assets.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { JobParams, JOBS_PAGE, jobsFilter } from './jobs-operations.ts'

export interface JobFilter {
  readonly queue?: string | undefined
  readonly state?: JobState | undefined
}

export interface DashboardView {
  readonly queues: readonly QueueView[]
  readonly list: JobPage
  readonly filter: JobFilter
  readonly page: number
  readonly now: number
}

/** Its buttons are forms, unlike pay pages, and `no-referrer` would hide their origin. */
export const JOBS_HEADERS: readonly string[] = Object.freeze(
  PAGE_HEADERS.map(value =>
    value === 'no-referrer'
      ? 'same-origin'
      : value.replace("form-action 'none'", "form-action 'self'").replace("script-src 'self'", "script-src 'none'")
  )
)

const STATES: readonly JobState[] = ['failed', 'waiting', 'running', 'done']

/** Address of a list, relative to the dashboard. */
export function listAddress({ queue, state }: JobFilter, page = 1): string {
  const query = new URLSearchParams()
  if (queue !== undefined) query.set('queue', queue)
  if (state !== undefined) query.set('state', state)
  if (page > 1) query.set('page', String(page))
  return query.size === 0 ? 'jobs' : `jobs?${query}`
}

/** Works without scripts. `style`: file name under /assets/. */
export function dashboardPage(view: DashboardView, style: string): string {
  const failed = view.queues.reduce((sum, queue) => sum + queue.failed, 0)
  const plain = view.queues.filter(queue => queue.every === null)
  const periodic = view.queues.filter(queue => queue.every !== null)
  return (
    '<!doctype html>' +
    renderToString(html`
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <title>${failed === 0 ? 'Jobs · boltgate' : `${failed} failed · Jobs · boltgate`}</title>
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex, nofollow" />
        <meta name="color-scheme" content="light dark" />
        <link rel="icon" href=${ICON} />
        <link rel="stylesheet" href=${`assets/${style}`} />
      </head>
      <body>
        <header><h1><a href="jobs">Background jobs</a></h1><p class="soft">${timeOf(view.now)}</p></header>
        <main>
          ${plain.length === 0 ? null : queueTable('Queues', plain)}
          ${periodic.length === 0 ? null : queueTable('Periodic', periodic)}
          ${jobList(view)}
        </main>
        <footer class="soft">Times are UTC. Completed jobs are kept for a day, failed ones for 14 days.</footer>
      </body>
    </html>`)
  )
}

function queueTable(title: string, queues: readonly QueueView[]): VNode {
  return html`
    <section>
      <h2>${title}</h2>
      <table>
        <thead><tr><th scope="col">Queue</th><th scope="col">Failed</th><th scope="col">Waiting</th><th scope="col">Running</th><th scope="col">Done</th><th scope="col">Last completed</th></tr></thead>
        <tbody>${queues.map(
          queue => html`
          <tr>
            <th scope="row"><a href=${listAddress({ queue: queue.name })}>${queue.title}</a><span class="soft">${queue.name}${queue.every === null ? '' : `, every ${span(queue.every)}`}</span></th>
            ${STATES.map(state => html`<td data-label=${labelOf(state)} class=${state === 'failed' && queue.failed > 0 ? 'bad' : ''}>${countOf(queue, state)}</td>`)}
            <td data-label="Last done">${queue.lastDone === null ? '–' : timeOf(queue.lastDone)}</td>
          </tr>`
        )}
        </tbody>
      </table>
    </section>`
}

function countOf(queue: QueueView, state: JobState): VNode {
  const later = state === 'waiting' && queue.later > 0 ? html`<span class="soft">${queue.later} later</span>` : null
  return html`<span class="count"><a href=${listAddress({ queue: queue.name, state })}>${queue[state]}</a>${later}</span>`
}

function jobList({ list, filter, page, queues }: DashboardView): VNode {
  const name =
    filter.queue === undefined
      ? 'All queues'
      : (queues.find(queue => queue.name === filter.queue)?.title ?? filter.queue)
  return html`
    <section id="jobs">
      <h2>${filter.state === undefined ? 'Jobs' : labelOf(filter.state)}: ${name}</h2>
      <nav aria-label="States">
        ${filter.queue === undefined ? null : chip('All', listAddress({ queue: filter.queue }), filter.state === undefined)}
        ${STATES.map(state => chip(labelOf(state), listAddress({ queue: filter.queue, state }), filter.state === state))}
      </nav>
      ${list.jobs.length === 0 ? html`<p class="none">${filter.state === 'failed' && page === 1 ? 'Nothing has failed.' : 'There are none.'}</p>` : html`<ul class="jobs">${list.jobs.map(jobItem)}</ul>`}
      <nav aria-label="Pages">
        ${page > 1 ? html`<a rel="prev" href=${listAddress(filter, page - 1)}>Newer</a>` : null}
        ${list.more ? html`<a rel="next" href=${listAddress(filter, page + 1)}>Older</a>` : null}
      </nav>
    </section>`
}

function chip(text: string, href: string, current: boolean): VNode {
  return html`<a class="chip" href=${href} aria-current=${current ? 'page' : undefined}>${text}</a>`
}

function jobItem(job: JobView): VNode {
  const at = job.endedAt ?? job.startedAt ?? job.createdAt
  return html`
    <li class=${`job ${job.state}`}>
      <div class="head">
        <span class="state">${labelOf(job.state)}</span>
        <span>${job.queue}</span>
        <span class="soft">${timeOf(at)}</span>
        ${job.state !== 'failed' ? null : html`<form method="post" action=${`jobs/${encodeURIComponent(job.queue)}/${job.id}/retry`}><button>Retry</button></form>`}
      </div>
      ${job.reason === null ? null : html`<p class="reason">${job.reason}</p>`}
      <dl>
        ${fact('Job', html`<code>${job.id}</code>`)}
        ${job.group === null ? null : fact('Payment', job.group)}
        ${fact('Runs', job.runs)}
        ${fact('Created', timeOf(job.createdAt))}
        ${job.state === 'waiting' ? fact('Due', timeOf(job.dueAt)) : null}
        ${isEmpty(job.data) ? null : fact('Data', html`<code>${JSON.stringify(job.data)}</code>`)}
      </dl>
    </li>`
}

function fact(name: string, value: unknown): VNode {
  return html`<div><dt>${name}</dt><dd>${value}</dd></div>`
}

function isEmpty(data: unknown): boolean {
  return data === null || (typeof data === 'object' && Object.keys(data).length === 0)
}

function labelOf(state: JobState): string {
  return `${state.charAt(0).toUpperCase()}${state.slice(1)}`
}

/** `2026-11-21 00:00:00`. */
function timeOf(ms: number): VNode {
  const iso = new Date(ms).toISOString()
  return html`<time datetime=${iso}>${iso.slice(0, 19).replace('T', ' ')}</time>`
}

/** `30 s`, `5 min`, `2 h`; the largest unit without a remainder. */
function span(ms: number): string {
  for (const [unit, size] of [
    ['d', 86_400_000],
    ['h', 3_600_000],
    ['min', 60_000],
    ['s', 1_000]
  ] as const) {
    if (ms >= size && ms % size === 0) return `${ms / size} ${unit}`
  }
  return `${ms} ms`
}

const JobsQuery = Type.Object({
  ...jobsFilter,
  adminKey: Type.Optional(
    Type.String({ description: 'The admin key: answered by a cookie and a redirect to the address without it.' })
  )
})

const keyAnswers = {
  401: 'The admin key is missing or wrong.',
  429: 'Too many failed authentication attempts from this address; `Retry-After` says when.'
}
const headers = { 'X-Admin-Key': 'The admin key, unless a cookie has it.' }

/**
 * The operator's page of jobs: `GET /jobs`, and `POST /jobs/{queue}/{id}/retry` for its buttons (contract,
 * Authentication 2).
 */
export function dashboardOperations({
  jobs,
  clock
}: {
  readonly jobs: Pick<Jobs, 'queues' | 'list' | 'retry'>
  readonly clock: Clock
}): AnyOperation[] {
  const { jobsStyle: style } = assetNames()
  return [
    defineOperation({
      id: 'getJobsDashboard',
      method: 'GET',
      path: '/jobs',
      mount: { use: 'operator-api', chain: 'jobs' },
      summary: 'The dashboard of background jobs',
      description:
        'For the operator: what waits, runs, failed and is done. Without a queue and a state it shows what failed.',
      tag: 'jobs',
      access: 'admin',
      headers,
      query: JobsQuery,
      responses: {
        200: { description: 'The page: queues with counts, and jobs with why they failed.', mediaType: HTML_TYPE },
        303: { description: 'The key was in the URL and is now in a cookie.' },
        ...keyAnswers
      },
      async handle({ query }) {
        const filter = { queue: query.queue, state: query.state }
        const page = query.page ?? 1
        // Default: failed jobs.
        const shown = filter.queue === undefined && filter.state === undefined ? ({ state: 'failed' } as const) : filter
        const [queues, list] = await Promise.all([jobs.queues(), jobs.list({ ...shown, page, size: JOBS_PAGE })])
        return {
          status: 200,
          body: dashboardPage(
            { queues, list, filter: { ...filter, state: shown.state }, page, now: clock.now() },
            style
          ),
          headers: JOBS_HEADERS
        }
      }
    }),
    defineOperation({
      id: 'retryJob',
      method: 'POST',
      path: '/jobs/:queue/:id/retry',
      mount: { use: 'operator-api', chain: 'jobs' },
      summary: 'Run a failed job again',
      description:
        'What the button of a failed job is sent to. Every job may be run twice: it looks at the rows again before it does anything.',
      tag: 'jobs',
      access: 'admin',
      headers,
      params: JobParams,
      responses: {
        303: { description: 'It waits for its run; the jobs of its queue are at `Location`.' },
        403: 'A browser was made to ask for it by another site.',
        404: 'No job of the queue with this id has failed.',
        ...keyAnswers
      },
      async handle({ params: { queue, id } }) {
        if (!(await jobs.retry(queue, id))) throw new ShortError(RESOURCE_NOT_FOUND, 'Failed job not found')
        return { status: 303, body: null, headers: ['Location', `../../../${listAddress({ queue })}`, ...JOBS_HEADERS] }
      }
    })
  ]
}
