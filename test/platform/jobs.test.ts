import t, { type Test as T } from 'tap'
import type { Database } from '../../src/platform/database.ts'
import { PgBossJobs, type JobsParts } from '../../src/platform/jobs.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLog } from '../../src/platform/log.ts'
import { Metrics } from '../../src/platform/metrics.ts'
import { eachDatabase } from '../support/database.ts'
import { eventually } from '../support/gateway-process.ts'

function openJobs (t: T, database: Database, parts: Partial<JobsParts> = {}): PgBossJobs {
  const jobs = new PgBossJobs({ database, clock: systemClock, log: silentLog, metrics: new Metrics(), patience: 100, ...parts })
  t.teardown(() => jobs.close())
  return jobs
}

/** Notes what ran, and lets a test wait for it. */
class Notes {
  readonly ran: string[] = []
  #told = Promise.withResolvers<void>()

  note (what: string): void {
    this.ran.push(what)
    this.#told.resolve()
    this.#told = Promise.withResolvers()
  }

  async until (count: number): Promise<void> {
    while (this.ran.length < count) await this.#told.promise
  }
}

interface Numbered { readonly [name: string]: number, readonly n: number }

const plain = { title: 'Test', concurrency: 4 }

await eachDatabase(t, 'a job runs once when its transaction is committed, and not when it is rolled back', async (t, database) => {
  const jobs = openJobs(t, database)
  const notes = new Notes()
  jobs.queue<Numbered>('numbers', plain, async ({ data }) => { notes.note(String(data.n)) })
  await jobs.start()
  await t.rejects(database.transaction(async tx => {
    await jobs.enqueue(tx, 'numbers', { n: 1 })
    throw new Error('rolled back')
  }), /rolled back/)
  await database.transaction(async tx => { await jobs.enqueue(tx, 'numbers', { n: 2 }) })
  await jobs.enqueue(database.sql, 'numbers', { n: 3 })
  await notes.until(2)
  await eventually('both done', 3_000, async () => (await jobs.queues()).find(queue => queue.name === 'numbers')?.done === 2 ? true : null)
  t.strictSame(notes.ran.toSorted(), ['2', '3'])
})
