import t from 'tap'
import { queue } from '../../../src/platform/jobs/jobs.ts'
import { JobTable, type ClaimedJob, type Want } from '../../../src/platform/jobs/table.ts'
import { JobWorker } from '../../../src/platform/jobs/worker.ts'
import { silentLog, type Log } from '../../../src/platform/telemetry/log.ts'
import { Metrics } from '../../../src/platform/telemetry/metrics.ts'
import { eachDatabase, withSql } from '../../support/database.ts'
import { eventually } from '../../support/gateway-process.ts'
import { declareQueue, Notes, openJobs, plain } from './jobs.ts'

// The worker's own timers do not keep a process that has nothing else to do.
const held = setInterval(() => {}, 60_000)
t.teardown(() => {
  clearInterval(held)
})

type Claim = Awaited<ReturnType<JobTable['claim']>>

const none: Claim = { jobs: [], inMs: null }
const one = (inMs: number | null): Claim => {
  return { jobs: [{ id: 'one', queue: 'a', data: {}, runs: 1, pace: 'unproven' }], inMs }
}

/** A worker whose claims find one answer after the other; the last is repeated forever. */
function working(
  answers: ReadonlyArray<Claim | Error>,
  options: { readonly poll?: number; readonly log?: Log } = {}
): {
  readonly worker: JobWorker
  readonly notes: Notes
  readonly claims: Want[][]
  until(claims: number): Promise<void>
} {
  const notes = new Notes()
  const claimed = new Notes()
  const claims: Want[][] = []
  const run = async ({ id }: { readonly id: string }): Promise<void> => {
    notes.note(id)
  }
  const worker = new JobWorker({
    table: {
      claim: async wants => {
        claims.push([...wants])
        claimed.note('claim')
        const answer = answers[Math.min(claims.length, answers.length) - 1] ?? none
        if (answer instanceof Error) throw answer
        return answer
      },
      renew: async () => {},
      settle: async (_job: ClaimedJob) => {}
    },
    declared: new Map(['a', 'b'].map(name => [name, queue(name, plain, run)])),
    log: options.log ?? silentLog,
    runs: new Metrics().counter('boltgate_job_runs_total', 'Runs', ['queue', 'result']),
    poll: () => options.poll ?? 60_000
  })
  t.teardown(() => worker.close(0))
  return { worker, notes, claims, until: count => claimed.until(count) }
}

t.test('worker: a job is claimed when it is due, without polls in between', async t => {
  const { notes, claims } = working([{ jobs: [], inMs: 30 }, one(null), none])
  await notes.until(1)
  t.equal(claims.length, 2)
  t.same(
    claims[1]?.map(want => want.queue),
    ['a', 'b'],
    'one statement for all queues'
  )
})

t.test('worker: a job that is added and due sooner than the next claim brings it forward', async t => {
  const { claims, notes, until, worker } = working([none, one(null), none])
  await until(1)
  worker.soon(40_000)
  worker.soon(20)
  worker.soon(10_000)
  worker.soon(30)
  worker.soon(10)
  t.equal(claims.length, 1)
  await notes.until(1)
  t.equal(claims.length, 2, 'once, however often it was brought forward')
})

t.test('worker: a notification claims from its queue alone', async t => {
  const { claims, notes, until, worker } = working([none, one(null), none])
  await until(1)
  worker.wake('a')
  await notes.until(1)
  t.match(claims[1], [{ queue: 'a', most: 4 }])
  t.equal(claims[1]?.length, 1)
})

t.test(
  'worker: jobs of other processes are found in the stated time, also after claims that found nothing',
  async t => {
    const { claims, notes } = working([none, none, one(null), none], { poll: 10 })
    await notes.until(1)
    t.equal(claims.length, 3)
  }
)

t.test('worker: a claim that fails is logged and repeated', async t => {
  const warnings: string[] = []
  const log = {
    ...silentLog,
    warn: (_first: object | string, message?: string) => {
      warnings.push(message ?? '')
    }
  }
  const { notes } = working([new Error('broken'), one(null), none], { log, poll: 10 })
  await notes.until(1)
  t.same(warnings, ['no jobs could be claimed; it is tried again'])
})

t.test('worker: a job that is due a moment after another of its queue is claimed at its own time', async t => {
  const { notes } = working([one(20), one(null), none])
  await notes.until(2)
  t.pass('and not at the next full scan')
})

t.test('worker: a job that keeps being lost with its process fails, and can be retried manually', async t => {
  const lost: ClaimedJob = { id: 'lost', queue: 'a', data: {}, runs: 51, pace: 'unproven' }
  const answers: Claim[] = [lost, { ...lost, runs: 52 }].map(job => ({ jobs: [job], inMs: 5 }))
  const outcomes: unknown[] = []
  const settled = new Notes()
  const worker = new JobWorker({
    table: {
      claim: async () => answers.shift() ?? none,
      renew: async () => {},
      settle: async (_job, outcome) => {
        outcomes.push(outcome)
        settled.note('settled')
      }
    },
    declared: new Map([['a', queue('a', plain, async () => {})]]),
    log: silentLog,
    runs: new Metrics().counter('boltgate_job_runs_total', 'Runs', ['queue', 'result']),
    poll: () => 60_000
  })
  t.teardown(() => worker.close(0))
  await settled.until(2)
  t.match(outcomes, [{ state: 'failed', reason: /too often/ }, { state: 'done' }])
})

await eachDatabase(t, 'claims at the table', async (t, database) => {
  const jobs = openJobs(t, database)
  declareQueue(jobs, 'numbers', plain, async () => {})
  const add = (state: string, after: string, count: number) =>
    database.sql.unsafe(
      `insert into jobs (queue, state, due_at, next_at, ended_at)
       select 'numbers', '${state}', now() + interval '${after}', now() + interval '${after}',
         case when '${state}' = 'done' then now() end from generate_series(1, ${count})`
    )
  const want: Want = { queue: 'numbers', most: 4, slowest: 'slow', perGroup: null }
  const wants = [want, { ...want, queue: 'others', perGroup: { quick: 2, others: 1 } }]

  await t.test('return what is due now, and when the first is that is not', async t => {
    const table = new JobTable(database)
    t.same(await table.claim(wants), none)
    await add('waiting', '40 seconds', 1)
    const early = await table.claim(wants)
    t.same(early.jobs, [])
    t.ok((early.inMs ?? 0) > 20_000 && (early.inMs ?? 0) <= 40_000)
    await add('waiting', '-40 seconds', 1)
    t.match(await table.claim(wants), { jobs: [{ queue: 'numbers', runs: 1 }], inMs: Number })
    t.same((await table.claim(wants)).jobs, [], 'claimed once')
  })

  await t.test('read by an index what waits, however much was done', async t => {
    await add('done', '-1 hour', 20_000)
    await database.sql`analyze jobs`
    const [read] = await database.transaction(async tx => {
      await new JobTable(withSql(database, tx)).claim(wants)
      return await tx<Array<{ rows: number }>>`
        select coalesce(sum(seq_tup_read), 0)::int as rows from pg_stat_xact_user_tables where relname = 'jobs'`
    })
    t.ok((read?.rows ?? Infinity) < 1_000, `${read?.rows} rows`)
  })

  await t.test('purge what ended long enough ago', async t => {
    await new JobTable(database).purge()
    t.match(await new JobTable(database).counts(), [{ name: 'numbers', done: 0, waiting: 1, running: 1 }])
  })
})

await eachDatabase(t, 'worker: whatever a run throws becomes the reason of its failure', async (t, database) => {
  const thrown = [new Error('a \0 of another program'), Object.create(null), null, 'words']
  const jobs = openJobs(t, database)
  declareQueue<{ readonly n: number }>(jobs, 'odd', plain, async ({ data }) => {
    throw thrown[data.n]
  })
  await jobs.start()
  for (const n of thrown.keys()) await jobs.enqueue(database.sql, 'odd', { n })
  const failed = await eventually('all failed', async () => {
    const list = await jobs.list({ state: 'failed', page: 1, size: 9 })
    return list.jobs.length === thrown.length ? list.jobs : null
  })
  t.same(
    new Set(failed.map(({ reason }) => reason)),
    new Set(['a \u{fffd} of another program', '[Object: null prototype] {}', 'null', 'words'])
  )
})
