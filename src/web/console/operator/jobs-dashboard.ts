import { renderToString } from 'preact-render-to-string'
import { Type } from 'typebox'
import { currentLanguage, t } from '../../../engine/formats/language.ts'
import { defineOperation, type AnyOperation } from '../../../engine/operations/operation.ts'
import type { Jobs } from '../../../platform/jobs/jobs.ts'
import { JobParams, jobsFilter, jobsReport, retryJob, type JobsReport } from '../../admin/jobs-operations.ts'
import { assetNames } from '../../kit/assets.ts'
import { html, asHtml, ICON, PAGE_HEADERS } from '../../kit/document.ts'
import type { PageRequest } from '../page.ts'
import { jobFilter, jobLists } from './jobs.ts'

/** Its buttons are forms, unlike pay pages, and `no-referrer` would hide their origin. */
const HEADERS: readonly string[] = Object.freeze(
  PAGE_HEADERS.map(value =>
    value === 'no-referrer'
      ? 'same-origin'
      : value.replace("form-action 'none'", "form-action 'self'").replace("script-src 'self'", "script-src 'none'")
  )
)

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
const common = {
  mount: { use: 'operator-api', chain: 'jobs' },
  tag: 'jobs',
  access: 'admin',
  headers: { 'X-Admin-Key': 'The admin key, unless a cookie has it.' }
} as const

/**
 * The console's page of jobs for the admin key, without a session or scripts: `GET /jobs`, and
 * `POST /jobs/{queue}/{id}/retry` for its buttons (contract, Authentication 2).
 */
export function dashboardOperations(jobs: Pick<Jobs, 'queues' | 'list' | 'retry'>): AnyOperation[] {
  return [
    defineOperation({
      ...common,
      id: 'getJobsDashboard',
      method: 'GET',
      path: '/jobs',
      summary: 'The dashboard of background jobs',
      description:
        'For the operator: what waits, runs, failed and is done. Without a queue and a state it shows what failed.',
      query: JobsQuery,
      responses: {
        200: asHtml('The page: queues with counts, and jobs with why they failed.'),
        303: { description: 'The key was in the URL and is now in a cookie.' },
        ...keyAnswers
      },
      async handle({ ctx, query: { page } }) {
        const asked = { link: (to: string) => to, query: new URLSearchParams(ctx.query) }
        const report = await jobsReport(jobs, { ...jobFilter(asked), page })
        return { status: 200, body: dashboard(asked, report), headers: HEADERS }
      }
    }),
    defineOperation({
      ...common,
      id: 'retryJob',
      method: 'POST',
      path: '/jobs/:queue/:id/retry',
      summary: 'Run a failed job again',
      description:
        'What the button of a failed job is sent to. Every job may be run twice: it looks at the rows again before it does anything.',
      params: JobParams,
      responses: {
        303: { description: 'It waits for its run; the jobs of its queue are at `Location`.' },
        403: 'A browser was made to ask for it by another site.',
        404: 'No job of the queue with this id has failed.',
        ...keyAnswers
      },
      async handle({ params }) {
        await retryJob(jobs, params)
        return { status: 303, body: null, headers: ['Location', `../../../jobs?queue=${params.queue}`, ...HEADERS] }
      }
    })
  ]
}

function dashboard(request: Pick<PageRequest, 'link' | 'query'>, report: JobsReport): string {
  const failed = report.queues.reduce((sum, queue) => sum + queue.failed, 0)
  return (
    '<!doctype html>' +
    renderToString(html`
    <html lang=${currentLanguage()}>
      <head>
        <meta charset="utf-8" />
        <title>${`${failed === 0 ? t('Jobs') : t`${failed} failed · ${t('Jobs')}`} · boltgate`}</title>
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex, nofollow" />
        <meta name="color-scheme" content="light dark" />
        <link rel="icon" href=${ICON} />
        <link rel="stylesheet" href=${`assets/${assetNames().consoleStyle}`} />
      </head>
      <body>
        <header class="bar"><a class="brand" href="jobs">boltgate</a></header>
        <main>
          <h1>Jobs</h1>
          ${jobLists(request, report, ({ id, queue }) => html`<form method="post" action=${`jobs/${encodeURIComponent(queue)}/${id}/retry`}><button class="button small second" type="submit">${t('Retry')}<span class="unseen"> ${id}</span></button></form>`)}
        </main>
      </body>
    </html>`)
  )
}
