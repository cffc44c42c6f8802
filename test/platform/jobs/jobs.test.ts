import t from 'tap'
import { ManualClock } from '../../support/manual-clock.ts'
import { eachDatabase, withSql } from '../../support/database.ts'
import { eventually } from '../../support/gateway-process.ts'
import { declarePeriodic, declareQueue, Notes, openJobs, plain, type Numbered } from './jobs.ts'

await eachDatabase(
  t,
  'a job runs once when its transaction is committed, and not when it is rolled back',
  async (t, database) => {
    const jobs = openJobs(t, database)
    const notes = new Notes()
    declareQueue<Numbered>(jobs, 'numbers', plain, async ({ data }) => {
      notes.note(String(data.n))
    })
    await jobs.start()
    await t.rejects(
      database.transaction(async tx => {
        await jobs.enqueue(tx, 'numbers', { n: 1 })
        throw new Error('rolled back')
      }),
      /rolled back/
    )
    await database.transaction(async tx => {
      await jobs.enqueue(tx, 'numbers', { n: 2 })
    })
    await jobs.enqueue(database.sql, 'numbers', { n: 3 })
    await notes.until(2)
    await eventually('both done', async () =>
      (await jobs.queues()).find(queue => queue.name === 'numbers')?.done === 2 ? true : null
    )
    t.strictSame(notes.ran.toSorted(), ['2', '3'])
  }
)

await eachDatabase(
  t,
  'a job waits for its time, and jobs with one key are one while they wait',
  async (t, database) => {
    const jobs = openJobs(t, database)
    const notes = new Notes()
    declareQueue<Numbered>(jobs, 'numbers', { ...plain, poll: 500 }, async ({ data }) => {
      notes.note(String(data.n))
    })
    await jobs.start()
    const begun = Date.now()
    await jobs.enqueue(database.sql, 'numbers', { n: 1 }, { startAfter: begun + 3_000, key: 'same' })
    await jobs.enqueue(database.sql, 'numbers', { n: 2 }, { key: 'same' })
    await jobs.enqueue(database.sql, 'numbers', { n: 3 }, { startAfter: begun + 3_000, key: 'other' })
    const [queue] = await jobs.queues()
    t.match(queue, { waiting: 2, later: 2 })
    await notes.until(2)
    t.ok(Date.now() - begun >= 3_000)
    t.strictSame(notes.ran.toSorted(), ['1', '3'])
    await jobs.enqueue(database.sql, 'numbers', { n: 4 }, { key: 'same' })
    await notes.until(3)
    t.equal(notes.ran[2], '4', 'the key is free again once its job has begun')
  }
)

await eachDatabase(t, 'a group that hangs takes only its own places', async (t, database) => {
  const jobs = openJobs(t, database)
  const notes = new Notes()
  const most = { slow: 0, now: 0 }
  declareQueue<{ who: string }>(
    jobs,
    'calls',
    { title: 'Calls', concurrency: 4, perGroup: 2 },
    async ({ data: { who } }, signal) => {
      if (who !== 'slow') return notes.note(who)
      most.now++
      most.slow = Math.max(most.slow, most.now)
      await new Promise<void>(resolve => {
        signal.addEventListener('abort', () => {
          resolve()
        })
      })
      most.now--
    }
  )
  await jobs.start()
  await database.transaction(async tx => {
    for (let n = 0; n < 6; n++) await jobs.enqueue(tx, 'calls', { who: 'slow' }, { group: 'slow' })
    for (let n = 0; n < 6; n++) await jobs.enqueue(tx, 'calls', { who: `quick ${n}` }, { group: 'quick' })
  })
  await notes.until(6)
  t.equal(most.slow, 2)
  t.equal(notes.ran.length, 6)
})

await eachDatabase(
  t,
  'a paced queue: slow groups run one job at a time and leave places to quick ones',
  async (t, database) => {
    const jobs = openJobs(t, database)
    const notes = new Notes()
    const running: string[] = []
    declareQueue<{ who: string }>(
      jobs,
      'calls',
      { title: 'Calls', concurrency: 6, perGroup: 2, paced: { slow: 2, unproven: 4 } },
      async ({ data: { who } }, signal) => {
        if (who === 'quick') return notes.note(who)
        running.push(who)
        await new Promise<void>(resolve => {
          signal.addEventListener('abort', () => {
            resolve()
          })
        })
      }
    )
    await jobs.start()
    const paces = { slow: 'slow', new: 'unproven', turned: 'quick' } as const
    await database.transaction(async tx => {
      for (const [name, pace] of Object.entries(paces))
        for (const nth of [1, 2, 3])
          for (let n = 0; n < 2; n++)
            await jobs.enqueue(tx, 'calls', { who: `${name} ${nth}` }, { group: `${name} ${nth}`, pace })
      for (const nth of [1, 2, 3]) await jobs.setPace(tx, 'calls', `turned ${nth}`, 'slow')
    })
    await jobs.enqueueAll(database.sql, 'calls', [
      { data: { who: 'quick' }, group: 'quick', pace: 'quick', key: 'one' },
      { data: { who: 'quick' }, group: 'quick', pace: 'quick', key: 'two' }
    ])
    await notes.until(2)
    await eventually('the others fill their places', async () => (running.length === 4 ? true : null))
    t.same(running.filter(who => who.startsWith('new')).toSorted(), ['new 1', 'new 2', 'new 3'])
    t.equal(new Set(running).size, 4, 'and a slow group')
  }
)

await eachDatabase(
  t,
  'a job that throws has failed with its reason, is kept, and can be run again',
  async (t, database) => {
    const jobs = openJobs(t, database)
    const notes = new Notes()
    let broken = true
    declareQueue<Numbered>(jobs, 'numbers', plain, async () => {
      if (broken) throw new Error('the receiver said 500')
      notes.note('well')
    })
    await jobs.start()
    await jobs.enqueue(database.sql, 'numbers', { n: 1 }, { group: 'merchant 1' })
    const failed = await eventually(
      'the failure',
      async () => (await jobs.list({ state: 'failed', page: 1, size: 10 })).jobs[0] ?? null
    )
    t.match(failed, {
      queue: 'numbers',
      state: 'failed',
      reason: 'the receiver said 500',
      runs: 1,
      group: 'merchant 1',
      data: { n: 1 }
    })
    t.equal(await jobs.retry('numbers', '00000000-0000-4000-8000-000000000000'), false)
    t.equal(await jobs.retry('letters', failed.id), false)
    broken = false
    t.equal(await jobs.retry('numbers', failed.id), true)
    await notes.until(1)
    const done = await eventually(
      'the end',
      async () => (await jobs.list({ queue: 'numbers', state: 'done', page: 1, size: 10 })).jobs[0] ?? null
    )
    t.match(done, { id: failed.id, runs: 2 })
    t.equal(await jobs.retry('numbers', failed.id), false, 'a successful run is not repeated')
  }
)

await eachDatabase(t, 'jobs: a job added before the start runs after it', async (t, database) => {
  const jobs = openJobs(t, database, { clock: new ManualClock() })
  const notes = new Notes()
  declareQueue<Numbered>(jobs, 'numbers', plain, async ({ data }) => {
    notes.note(String(data.n))
  })
  await jobs.enqueue(database.sql, 'numbers', { n: 1 })
  await database.transaction(tx => jobs.enqueue(tx, 'numbers', { n: 2 }))
  await jobs.start()
  await notes.until(2)
  t.same(notes.ran.toSorted(), ['1', '2'])
})

await eachDatabase(t, 'queues declared after the start run once it is started again', async (t, database) => {
  const jobs = openJobs(t, database)
  declareQueue(jobs, 'numbers', plain, async () => {})
  await jobs.start()
  const notes = new Notes()
  declareQueue<Numbered>(jobs, 'late', plain, async ({ data }) => notes.note(String(data.n)))
  declarePeriodic(jobs, 'tick', 60_000, 'Test', async () => notes.note('tick'))
  await jobs.start()
  await jobs.enqueue(database.sql, 'late', { n: 1 })
  await notes.until(2)
  t.same(notes.ran.toSorted(), ['1', 'tick'])
})

await eachDatabase(t, 'a start reads all queues with one statement', async (t, database) => {
  let statements = 0
  const counting = withSql(
    database,
    new Proxy(database.sql, {
      apply: (target, self, args: unknown[]) => {
        statements++
        return Reflect.apply(target, self, args)
      }
    })
  )
  const start = async (queues: number) => {
    const jobs = openJobs(t, counting)
    for (let at = 0; at < queues; at++) {
      declareQueue(jobs, `queue-${at}`, plain, async () => {})
      declarePeriodic(jobs, `periodic-${at}`, 60_000, 'Test', async () => {})
    }
    statements = 0
    await jobs.start()
    const requests = statements
    await jobs.close()
    return requests
  }
  t.equal(await start(8), await start(1))
})
