import { Type } from 'typebox'
import { RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { PageAssets } from '../kit/assets.ts'
import { HTML_TYPE } from '../kit/document.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Jobs } from '../../platform/jobs/jobs.ts'
import { JobParams, JOBS_PAGE, jobsFilter } from './jobs-operations.ts'
import { dashboardPage, JOBS_HEADERS, listAddress } from './jobs-page.ts'

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
const headers = { 'X-Admin-Key': 'The admin key, where no cookie stands for it.' }

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
  const style = new PageAssets().jobsStyle
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
        303: { description: 'The key was in the address: a cookie stands for it from now on.' },
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
