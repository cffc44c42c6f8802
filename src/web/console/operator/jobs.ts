import type { JobsReport } from '../../admin/jobs-operations.ts'
import { t } from '../../../engine/formats/language.ts'
import { html } from '../../kit/document.ts'
import { queryOf } from '../api.ts'
import { filterChoice, numberedPager, pageOf, viewForm, viewOf } from '../lists.ts'
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
  async show(asked) {
    const { api, link, query } = asked
    const filter = { queue: query.get('queue') ?? '', state: viewOf(asked, 'state', STATES) }
    const { queue, state } = filter
    const page = pageOf(asked)
    const { hasMore, jobs, queues } = await api.get<JobsReport>(`/api/admin/jobs${queryOf({ ...filter, page })}`)
    return {
      title: 'Jobs',
      content: html`
        ${viewForm(html`${filterChoice(
          'queue',
          'Queue',
          queues.map(({ name, title }) => [name, title] as const),
          queue
        )}
          ${choice('state', 'Status', STATES, state)}`)}
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
        ${numberedPager(asked, 'jobs', filter, hasMore)}
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
    const [queue, id] = [form.text('queue'), form.text('id')].map(encodeURIComponent)
    await api.post(`/api/admin/jobs/${queue}/${id}/retry`)
    return { to: 'jobs', done: 'retried' }
  }
}
