import { nullableInteger, nullableText } from '../../engine/formats/text-patterns.ts'
import { Type, type Static } from 'typebox'
import { RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { isoTime, isoTimeOrNull, iso } from '../../engine/formats/iso-time.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import type { Jobs, JobState, JobView } from '../../platform/jobs/jobs.ts'

export const jobsFilter = {
  queue: Type.Optional(Type.String({ maxLength: 100, description: 'Only jobs of this queue.' })),
  state: Type.Optional(
    Type.Union([Type.Literal('waiting'), Type.Literal('running'), Type.Literal('failed'), Type.Literal('done')], {
      description: 'Only jobs in this state.'
    })
  ),
  page: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000, description: 'From 1.' }))
}

export const JobParams = Type.Object({
  queue: Type.String({ pattern: '^[\\w.-]{1,100}$' }),
  id: Type.String({ pattern: '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' })
})

const JOBS_PAGE = 50

const JobsView = Type.Object(
  {
    queues: Type.Array(
      Type.Object({
        name: Type.String(),
        title: Type.String(),
        every: nullableInteger('Milliseconds between the runs of a periodic job; null for queues.'),
        failed: Type.Integer(),
        waiting: Type.Integer(),
        later: Type.Integer({ description: 'Of those that wait, how many are not due yet.' }),
        running: Type.Integer(),
        done: Type.Integer(),
        lastDone: isoTimeOrNull()
      })
    ),
    jobs: Type.Array(
      Type.Object({
        id: Type.String(),
        queue: Type.String(),
        state: Type.String(),
        data: Type.String({ description: 'What it carries, as JSON; never secrets.' }),
        group: nullableText(),
        reason: nullableText('Why it failed.'),
        runs: Type.Integer(),
        createdAt: isoTime(),
        dueAt: isoTime(),
        startedAt: isoTimeOrNull(),
        endedAt: isoTimeOrNull()
      }),
      { description: 'Newest first.' }
    ),
    hasMore: Type.Boolean({ description: 'There is another page.' })
  },
  { title: 'Jobs' }
)

export type JobsReport = Static<typeof JobsView>

/** A page of jobs with all queues, as `/api/admin/jobs` and the pages show them. */
export async function jobsReport(
  jobs: Pick<Jobs, 'queues' | 'list'>,
  { page = 1, ...filter }: { queue?: string | undefined; state?: JobState | undefined; page?: number | undefined }
): Promise<JobsReport> {
  const [queues, list] = await Promise.all([jobs.queues(), jobs.list({ ...filter, page, size: JOBS_PAGE })])
  return {
    queues: queues.map(one => ({ ...one, lastDone: iso(one.lastDone) })),
    jobs: list.jobs.map(view),
    hasMore: list.more
  }
}

/** @throws ShortError 404 for a job that has not failed */
export async function retryJob(jobs: Pick<Jobs, 'retry'>, { id, queue }: Static<typeof JobParams>): Promise<void> {
  if (!(await jobs.retry(queue, id))) throw new ShortError(RESOURCE_NOT_FOUND, 'Failed job not found')
}

function view(job: JobView): JobsReport['jobs'][number] {
  return {
    ...job,
    data: JSON.stringify(job.data ?? null),
    createdAt: iso(job.createdAt),
    dueAt: iso(job.dueAt),
    startedAt: iso(job.startedAt),
    endedAt: iso(job.endedAt)
  }
}

/** `/api/admin/jobs`: the functions of `/jobs` for programs and the console. */
export function jobsOperations(jobs: Pick<Jobs, 'queues' | 'list' | 'retry'>): AnyOperation[] {
  const common = { tag: 'jobs', access: 'admin', mount: { use: 'operator-api', chain: 'admin' } } as const
  return [
    defineOperation({
      ...common,
      id: 'adminListJobs',
      method: 'GET',
      path: '/api/admin/jobs',
      summary: 'Background jobs: what waits, runs, failed and is done',
      description: 'What went well is kept for a day, failures for 14 days. The same for people is at /operator/jobs.',
      query: Type.Object(jobsFilter),
      responses: { 200: { description: 'Queues with counts, and 50 jobs.', schema: JobsView } },
      handle: async ({ query }) => ({ status: 200, body: await jobsReport(jobs, query) })
    }),
    defineOperation({
      ...common,
      id: 'adminRetryJob',
      method: 'POST',
      path: '/api/admin/jobs/:queue/:id/retry',
      summary: 'Run a failed job again',
      description: 'Every job may be run twice: it looks at the rows again before it does anything.',
      params: JobParams,
      responses: {
        204: { description: 'It waits for its run.' },
        404: 'No job of the queue with this id has failed.'
      },
      handle: async ({ params }) => {
        await retryJob(jobs, params)
        return { status: 204, body: null }
      }
    })
  ]
}
