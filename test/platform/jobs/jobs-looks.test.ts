import t from 'tap'
import { JobLooks, type Due } from '../../../src/platform/jobs/looks.ts'
import { JobTable } from '../../../src/platform/jobs/table.ts'
import { silentLog, type Log } from '../../../src/platform/telemetry/log.ts'
import { eachDatabase, withSql } from '../../support/database.ts'
import { declareQueue, openJobs, plain } from './jobs.ts'

// The looks' own timers do not keep a process that has nothing else to do.
const held = setInterval(() => {}, 60_000)
t.teardown(() => {
  clearInterval(held)
})

/** Looks that find one answer after the other; the last is an answer for ever. */
function looks(
  answers: ReadonlyArray<readonly Due[] | Error>,
  parts: { readonly most?: number; readonly log?: Log } = {}
): { readonly looks: JobLooks; readonly woken: Promise<string>; asked(): number } {
  const woken = Promise.withResolvers<string>()
  let asked = 0
  return {
    looks: new JobLooks({
      log: parts.log ?? silentLog,
      most: parts.most ?? 60_000,
      due: async () => {
        const answer = answers[Math.min(asked++, answers.length - 1)] ?? []
        if (answer instanceof Error) throw answer
        return answer
      },
      wake: name => {
        woken.resolve(name)
      }
    }),
    woken: woken.promise,
    asked: () => asked
  }
}

t.test('a job is looked for when it is due, and nothing is asked in between', async t => {
  const one = looks([
    [
      { name: 'a', isDue: false, inMs: 30 },
      { name: 'b', isDue: false, inMs: 40_000 }
    ],
    [
      { name: 'a', isDue: true, inMs: null },
      { name: 'b', isDue: false, inMs: 39_000 }
    ]
  ])
  one.looks.soon(0)
  t.equal(await one.woken, 'a')
  t.equal(one.asked(), 2)
  await one.looks.close()
})

t.test('a job that is added and due sooner than the next look brings it forward', async t => {
  const one = looks([[{ name: 'added', isDue: true, inMs: null }]])
  one.looks.soon(40_000)
  one.looks.soon(20)
  one.looks.soon(10_000)
  one.looks.soon(30)
  t.equal(one.asked(), 0)
  one.looks.soon(10)
  t.equal(await one.woken, 'added', 'long before the 40 s')
  t.equal(one.asked(), 1, 'once, however often it was brought forward')
  await one.looks.close()
})

t.test('what other processes have added is found in the stated time, also after looks that found nothing', async t => {
  const one = looks([[], [], [{ name: 'theirs', isDue: true, inMs: null }]], { most: 10 })
  one.looks.soon(0)
  t.equal(await one.woken, 'theirs')
  t.equal(one.asked(), 3)
  await one.looks.close()
})

t.test('a look that fails is told and done again', async t => {
  const warnings: string[] = []
  const log = {
    ...silentLog,
    warn: (_first: object | string, message?: string) => {
      warnings.push(message ?? '')
    }
  }
  const one = looks([new Error('broken'), [{ name: 'a', isDue: true, inMs: null }]], { log, most: 10 })
  one.looks.soon(0)
  t.equal(await one.woken, 'a')
  t.same(warnings, ['no jobs could be looked for; it is tried again'])
  await one.looks.close()
})

t.test('a job that is due a moment after another of its queue is looked for at its own time', async t => {
  const first = Promise.withResolvers<void>()
  const second = Promise.withResolvers<void>()
  const answers: Due[] = [
    { name: 'a', isDue: true, inMs: 20 },
    { name: 'a', isDue: true, inMs: null }
  ]
  const one = new JobLooks({
    log: silentLog,
    most: 1_000_000_000,
    due: async () => answers.splice(0, 1),
    wake: () => {
      ;(answers.length === 1 ? first : second).resolve()
    }
  })
  one.soon(0)
  await first.promise
  await second.promise
  t.pass('and not when everything is looked at again')
  await one.close()
})

await eachDatabase(t, 'the looks at the table', async (t, database) => {
  const jobs = openJobs(t, database)
  declareQueue(jobs, 'numbers', plain, async () => {})
  await jobs.start()
  await jobs.close()
  const add = (state: string, after: string, count: number) =>
    database.sql.unsafe(
      `insert into boltgate_jobs.job (name, state, start_after, policy)
       select 'numbers', '${state}', now() + interval '${after}', 'short' from generate_series(1, ${count})`
    )

  await t.test('tell what is due now, and when the first is that is not', async t => {
    const table = new JobTable(database)
    t.same(await table.due(['numbers', 'others']), [])
    await add('created', '40 seconds', 1)
    t.match(await table.due(['numbers']), [{ name: 'numbers', isDue: false, inMs: Number }])
    await add('retry', '-40 seconds', 1)
    const [due] = await table.due(['numbers'])
    t.match(due, { isDue: true })
    t.ok((due?.inMs ?? 0) > 20_000 && (due?.inMs ?? 0) <= 40_000)
  })

  await t.test('read by an index what waits, however much was done', async t => {
    await add('completed', '-1 hour', 20_000)
    await database.sql`analyze boltgate_jobs.job`
    const [read] = await database.transaction(async tx => {
      await new JobTable(withSql(database, tx)).due(['numbers', 'others'])
      return await tx<Array<{ rows: number }>>`
        select coalesce(sum(seq_tup_read), 0)::int as rows from pg_stat_xact_user_tables where schemaname = 'boltgate_jobs'`
    })
    t.ok((read?.rows ?? Infinity) < 1_000, `${read?.rows} rows`)
  })
})
