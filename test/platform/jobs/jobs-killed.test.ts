import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t, { type Test as T } from 'tap'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { openDatabase } from '../../../src/platform/database/database.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { eachDatabase, temporaryFolder } from '../../support/database.ts'
import { eventually, freshPostgres } from '../../support/gateway-process.ts'
import { declareQueue, Notes, openJobs, plain, type Numbered } from './jobs.ts'

await eachDatabase(
  t,
  'stopping waits for what runs, and what does not end runs again elsewhere',
  async (t, database) => {
    const notes = new Notes()
    const first = openJobs(t, database, { patience: 2_000 })
    const ready = Promise.withResolvers<void>()
    declareQueue<Numbered>(first, 'numbers', plain, async ({ data }) => {
      if (data.n === 2) ready.resolve()
      await new Promise<void>(resolve => {
        if (data.n === 1) setImmediate(resolve)
      })
      notes.note(`first ${data.n}`)
    })
    await first.start()
    await database.transaction(async tx => {
      await first.enqueue(tx, 'numbers', { n: 1 })
      await first.enqueue(tx, 'numbers', { n: 2 })
    })
    await ready.promise
    await first.close()
    t.strictSame(notes.ran, ['first 1'])
    const second = openJobs(t, database)
    declareQueue<Numbered>(second, 'numbers', plain, async ({ data }) => {
      notes.note(`second ${data.n}`)
    })
    await second.start()
    await notes.until(2)
    t.strictSame(notes.ran, ['first 1', 'second 2'])
    await first.enqueue(database.sql, 'numbers', { n: 3 })
    await notes.until(3)
    t.equal(notes.ran[2], 'second 3', 'jobs that a stopped gateway still adds run elsewhere')
  }
)

const servers: ReadonlyArray<readonly [name: string, open: (t: T) => Promise<string | null>]> = [
  ['embedded', async () => 'pglite:killed'],
  ['PostgreSQL', freshPostgres]
]
for (const [name, open] of servers) {
  await t.test(
    `jobs of a killed process are run again when their lease ends, long before their expiry (${name})`,
    async t => {
      const url = await open(t)
      if (url === null) return t.pass('no PostgreSQL here', { skip: 'TEST_DATABASE_URL names no server' })
      const dataDir = temporaryFolder(t)
      const child = spawn(
        'env',
        [
          '-u',
          'NODE_OPTIONS',
          process.execPath,
          fileURLToPath(new URL('./jobs-process.ts', import.meta.url)),
          url,
          dataDir
        ],
        { stdio: ['ignore', 'pipe', 'inherit'] }
      )
      const ended = once(child, 'exit')
      const [said] = (await once(child.stdout, 'data')) as [Buffer]
      t.equal(said.toString(), 'running\n')
      child.kill('SIGKILL')
      await ended
      const database = await openDatabase({ url, dataDir, log: silentLog, clock: systemClock })
      const jobs = openJobs(t, database)
      t.teardown(() => database.close())
      const past = await database.sql`
      update jobs set next_at = next_at - interval '13 s'
      where state = 'running' and next_at <= now() + interval '12 s'`
      t.equal(past.count, 1, 'it was leased for seconds')
      const notes = new Notes()
      declareQueue<Numbered>(jobs, 'kills', { ...plain, expiry: 120_000 }, async ({ data }) => {
        notes.note(String(data.n))
      })
      await jobs.start()
      await notes.until(1)
      t.strictSame(notes.ran, ['1'])
      const job = await eventually(
        'its end',
        async () => (await jobs.list({ state: 'done', page: 1, size: 1 })).jobs[0] ?? null
      )
      t.match(job, { runs: 2, reason: null })
    }
  )
}
