import type { JobsReport } from '../../admin/jobs-operations.ts'
import { t } from '../../../engine/formats/language.ts'
import { html } from '../../kit/document.ts'
import { queryOf } from '../api.ts'
import type { ConsolePage } from '../page.ts'
import { action, badge, choice, table, type Tone } from '../parts.ts'
import { count, timeOf } from '../words.ts'

type JobItem = JobsReport['jobs'][number]
type QueueItem = JobsReport['queues'][number]

const STATES = [
  ['failed', 'Failed'],
  ['waiting', 'Waiting'],
  ['running', 'Running'],
  ['done', 'Done']
] as const

const TONES: Readonly<Record<string, Tone>> = { failed: 'bad', waiting: 'wait', running: 'wait', done: 'quiet' }

export const operatorJobs: ConsolePage = {
  id: 'getOperatorJobs',
  console: 'operator',
  path: 'jobs',
  summary: 'Background jobs by state, and retrying failed ones',
  async show({ api, link, query }) {
    const queue = query.get('queue') ?? ''
    const state = STATES.find(([name]) => name === query.get('state'))?.[0] ?? 'failed'
    const page = Math.max(1, Math.trunc(Number(query.get('page') ?? 1)) || 1)
    const { hasMore, jobs, queues } = await api.get<JobsReport>(`/api/admin/jobs${queryOf({ queue, state, page })}`)
    const to = (at: number): string => link(`jobs${queryOf({ queue, state, page: at })}`)
    return {
      title: 'Jobs',
      content: html`
        <form method="get" class="filter">
          ${choice('queue', 'Queue', [['', 'All'], ...queues.map(({ name, title }) => [name, t(title)] as const)], queue)}
          ${choice('state', 'Status', STATES, state)}
          <button class="button small second" type="submit">Show</button>
        </form>
        ${table(
          'Jobs',
          [
            { title: 'Queue', cell: (job: JobItem) => html`<bdi>${job.queue}</bdi>` },
            { title: 'Status', cell: job => badge(job.state, TONES[job.state] ?? 'quiet') },
            { title: 'When', cell: job => timeOf(job.endedAt ?? job.startedAt ?? job.dueAt) },
            { title: 'Runs', cell: job => count(job.runs), isNumber: true },
            { title: 'Reason', cell: job => html`<span class="error">${job.reason ?? '–'}</span>` },
            { title: 'Data', cell: job => (job.data === '{}' ? '–' : html`<code>${job.data}</code>`) },
            {
              title: 'Retry',
              cell: job =>
                job.state === 'failed' ? action('Retry', { queue: job.queue, id: job.id }, { what: job.id }) : '–'
            }
          ],
          jobs,
          state === 'failed' ? html`<p>No failed jobs.</p>` : html`<p>No jobs.</p>`
        )}
        <nav class="pager" aria-label="Pages">
          ${page > 1 ? html`<a rel="prev" href=${to(page - 1)}>Newer</a>` : null}
          ${hasMore ? html`<a rel="next" href=${to(page + 1)}>Older</a>` : null}
        </nav>
        <section aria-labelledby="queues"><h2 id="queues">Queues</h2>
          ${table(
            'Queues',
            [
              {
                title: 'Queue',
                cell: (one: QueueItem) =>
                  html`<a href=${link(`jobs${queryOf({ queue: one.name, state })}`)}>${t(one.title)}</a>`
              },
              { title: 'Failed', cell: one => count(one.failed), isNumber: true },
              { title: 'Waiting', cell: one => count(one.waiting), isNumber: true },
              { title: 'Running', cell: one => count(one.running), isNumber: true },
              { title: 'Done', cell: one => count(one.done), isNumber: true },
              { title: 'Last completed', cell: one => timeOf(one.lastDone) }
            ],
            queues,
            html`<p>No process runs jobs.</p>`
          )}
          <p class="soft">Completed jobs are kept for a day, failed ones for 14 days.</p>
        </section>`
    }
  },
  async act({ api, form }) {
    const queue = encodeURIComponent(form.get('queue') ?? '')
    await api.send({
      method: 'POST',
      target: `/api/admin/jobs/${queue}/${encodeURIComponent(form.get('id') ?? '')}/retry`
    })
    return { to: 'jobs', done: 'retried' }
  }
}
