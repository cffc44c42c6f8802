import t from 'tap'
import { Metrics } from '../../../src/platform/telemetry/metrics.ts'
import { eachDatabase } from '../../support/database.ts'
import { eventually } from '../../support/gateway-process.ts'
import { declarePeriodic, declareQueue, Notes, openJobs, plain, type Numbered } from './jobs.ts'

await eachDatabase(
  t,
  'a queue with retries retries automatically before it gives up, and a run that takes too long has failed',
  async (t, database) => {
    const metrics = new Metrics()
    const jobs = openJobs(t, database, { metrics })
    declareQueue(jobs, 'again', { ...plain, retries: 1 }, async () => {
      throw new Error('not now')
    })
    declareQueue(jobs, 'slow', { ...plain, expiry: 1_000 }, () => new Promise<void>(() => {}))
    await jobs.start()
    await jobs.enqueue(database.sql, 'again', {})
    await jobs.enqueue(database.sql, 'slow', {})
    const [slow, again] = await Promise.all([
      eventually(
        'the end of its time',
        async () => (await jobs.list({ queue: 'slow', state: 'failed', page: 1, size: 1 })).jobs[0] ?? null
      ),
      eventually(
        'the first failure',
        async () =>
          (await jobs.list({ queue: 'again', page: 1, size: 1 })).jobs.find(job => job.reason !== null) ?? null
      )
    ])
    t.equal(slow.reason, 'it took longer than 1 s')
    t.match(again, { state: 'waiting', reason: 'not now', runs: 1 })
    t.ok(again.dueAt - (again.startedAt ?? 0) >= 4_000, 'after a pause')
    t.match(await metrics.render(), /boltgate_job_runs_total\{queue="again",result="failed"\} 1/)
  }
)

await eachDatabase(t, 'two gateways share a queue, and each job runs once', async (t, database) => {
  const notes = new Notes()
  const gateways = [openJobs(t, database), openJobs(t, database)]
  for (const [index, jobs] of gateways.entries()) {
    declareQueue<Numbered>(jobs, 'numbers', { ...plain, concurrency: 2 }, async ({ data }) => {
      notes.note(`${data.n}`)
      by.add(index)
      // The first to hear of them would have done them all.
      if (by.size === gateways.length) both.resolve()
      await both.promise
    })
    declarePeriodic(jobs, 'often', 60_000, 'Often', async () => {
      periodic++
    })
  }
  const both = Promise.withResolvers<void>()
  const by = new Set<number>()
  let periodic = 0
  await Promise.all(gateways.map(jobs => jobs.start()))
  await database.transaction(async tx => {
    for (let n = 0; n < 60; n++) await gateways[0]?.enqueue(tx, 'numbers', { n })
  })
  await notes.until(60)
  await eventually('all done', async () =>
    (await gateways[1]?.queues())?.find(queue => queue.name === 'numbers')?.done === 60 ? true : null
  )
  t.equal(new Set(notes.ran).size, 60)
  t.equal(notes.ran.length, 60)
  t.equal(by.size, 2, 'both had a share')
  await eventually('the periodic job', async () =>
    (await gateways[0]?.queues())?.find(queue => queue.name === 'often')?.done === 1 ? true : null
  )
  t.equal(periodic, 1, 'one of them ran what is periodic')
})

await eachDatabase(t, 'a periodic job runs repeatedly, also after it has failed', async (t, database) => {
  const jobs = openJobs(t, database)
  const notes = new Notes()
  declarePeriodic(jobs, 'tick', 600, 'Ticks', async () => {
    notes.note('tick')
    if (notes.ran.length === 1) throw new Error('the first one fails')
  })
  await jobs.start()
  await notes.until(3)
  const failed = (await jobs.list({ queue: 'tick', state: 'failed', page: 1, size: 10 })).jobs
  t.strictSame(
    failed.map(job => job.reason),
    ['the first one fails']
  )
  t.match((await jobs.queues())[0], { name: 'tick', title: 'Ticks', every: 600 })
  t.equal(await jobs.retry('tick', failed[0]?.id ?? ''), true)
  await notes.until(4)
})
