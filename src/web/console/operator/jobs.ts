import type { VNode } from 'preact'
import { currentLanguage, t } from '../../../engine/formats/language.ts'
import type { JobsReport } from '../../admin/jobs-operations.ts'
import { html } from '../../kit/document.ts'
import { queryOf } from '../api.ts'
import { filterChoice, numberedPager, pageOf, viewForm, type Filter } from '../lists.ts'
import type { ConsolePage, PageRequest } from '../page.ts'
import { action, badge, table, type Tone } from '../parts.ts'
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

/** Failed jobs, unless the query says which. */
export function jobFilter({ query }: Pick<PageRequest, 'query'>) {
  const state = STATES.find(([name]) => name === query.get('state'))?.[0]
  const queue = query.get('queue') || undefined
  return { queue, state: query.has('state') || queue !== undefined ? state : 'failed' } as const
}

/** Jobs and queues; `retry` is the form of a failed one. */
export function jobLists(
  request: Pick<PageRequest, 'link' | 'query'>,
  { hasMore, jobs, queues }: JobsReport,
  retry: (job: JobItem) => VNode
): VNode {
  const filter: Filter = jobFilter(request)
  return html`
    ${viewForm(html`${filterChoice(
      'queue',
      'Queue',
      queues.map(({ name, title }) => [name, title] as const),
      filter['queue']
    )}
      ${filterChoice('state', 'Status', STATES, filter['state'])}`)}
    ${table(
      'Jobs',
      [
        [
          'Queue',
          job =>
            html`<bdi>${job.queue}</bdi>${job.group === null ? null : html`<span class="soft"> ${job.group}</span>`}`
        ],
        ['Status', job => badge(job.state, TONES[job.state] ?? 'quiet')],
        ['When', job => timeOf(job.endedAt ?? job.startedAt ?? job.dueAt)],
        ['Runs', job => count(job.runs), 'number'],
        ['Reason', job => html`<span class="error">${job.reason ?? '–'}</span>`],
        ['Data', job => (job.data === '{}' ? '–' : html`<code>${job.data}</code>`)],
        ['Retry', job => (job.state === 'failed' ? retry(job) : '–')]
      ],
      jobs,
      filter['state'] === 'failed' ? html`<p>No failed jobs.</p>` : html`<p>No jobs.</p>`
    )}
    ${numberedPager(request, 'jobs', { ...filter, state: filter['state'] ?? '' }, hasMore)}
    <section aria-labelledby="queues"><h2 id="queues">Queues</h2>
      ${table(
        'Queues',
        [
          [
            'Queue',
            one =>
              html`<a href=${request.link(`jobs${queryOf({ queue: one.name })}`)}>${t(one.title)}</a>${one.every === null ? null : html`<span class="soft"> ${every(one.every)}</span>`}`
          ],
          ['Failed', one => count(one.failed), 'number'],
          ['Waiting', waiting, 'number'],
          ['Running', one => count(one.running), 'number'],
          ['Done', one => count(one.done), 'number'],
          ['Last completed', one => timeOf(one.lastDone)]
        ],
        queues,
        html`<p>No process runs jobs.</p>`
      )}
      <p class="soft">Completed jobs are kept for a day, failed ones for 14 days.</p>
    </section>`
}

function waiting({ every: period, later, waiting: all }: QueueItem): string {
  return period !== null || later === 0 ? count(all) : t`${count(all)}, ${count(later)} later`
}

/** `every 5 min`, in the largest unit without a remainder. */
function every(ms: number): string {
  const units = [
    ['day', 86_400_000],
    ['hour', 3_600_000],
    ['minute', 60_000]
  ] as const
  const [unit, size] = units.find(([, of]) => ms >= of && ms % of === 0) ?? (['second', 1_000] as const)
  const span = (ms / size).toLocaleString(currentLanguage(), { style: 'unit', unit, unitDisplay: 'short' })
  return t`every ${span}`
}

export const operatorJobs: ConsolePage = {
  id: 'getOperatorJobs',
  path: 'jobs',
  summary: 'Background jobs by state, and retrying failed ones',
  async show(request) {
    const parameters = { ...jobFilter(request), page: pageOf(request) }
    const report = await request.api.get<JobsReport>(`/api/admin/jobs${queryOf(parameters)}`)
    return {
      title: 'Jobs',
      content: jobLists(request, report, ({ id, queue }) => action('Retry', { queue, id }, { what: id }))
    }
  },
  async act({ api, form }) {
    const [queue, id] = [form.text('queue'), form.text('id')].map(encodeURIComponent)
    await api.post(`/api/admin/jobs/${queue}/${id}/retry`)
    return { to: 'jobs', done: 'retried' }
  }
}
