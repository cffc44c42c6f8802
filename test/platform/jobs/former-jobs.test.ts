import t from 'tap'
import type { Database } from '../../../src/platform/database/database.ts'
import { adoptFormerJobs } from '../../../src/platform/jobs/queue.ts'
import { eachDatabase } from '../../support/database.ts'
import { declarePeriodic, declareQueue, Notes, openJobs, plain, type Numbered } from './jobs.ts'

/** The tables of pg-boss 12.35 as far as a gateway of the version before uses them. */
async function formerTables({ sql }: Database) {
  await sql.unsafe(`
    create schema boltgate_jobs;
    create type boltgate_jobs.job_state as enum ('created', 'retry', 'active', 'completed', 'cancelled', 'failed');
    create table boltgate_jobs.queue (
      name text primary key, updated_on timestamptz not null default now(), monitor_claim_on timestamptz);
    create table boltgate_jobs.job (
      id uuid not null default gen_random_uuid(), name text not null, priority integer not null default 0, data jsonb,
      state boltgate_jobs.job_state not null default 'created', retry_count integer not null default 0,
      expire_seconds int not null default 66, deletion_seconds int not null default 86400, singleton_key text,
      group_id text, start_after timestamptz not null default now(), created_on timestamptz not null default now(),
      started_on timestamptz, completed_on timestamptz, output jsonb, policy text, heartbeat_on timestamptz,
      heartbeat_seconds int, primary key (name, id)) partition by list (name);
    create table boltgate_jobs.job_common partition of boltgate_jobs.job default;
    insert into boltgate_jobs.queue (name) values ('numbers'), ('tick')`)
}

const rowsOf = ({ sql }: Database) =>
  sql`select queue, state, data, group_id, pace, key, runs, reason, ended_at is null as waits from jobs order by data ->> 'n'`

await eachDatabase(
  t,
  'former jobs: what waits and what failed is moved, once, with all that it has',
  async (t, database) => {
    await formerTables(database)
    await database.sql`
    insert into boltgate_jobs.job
      (name, policy, data, state, singleton_key, group_id, priority, start_after, retry_count, started_on, completed_on, output)
    values
      ('numbers', 'short', '{"n":1}', 'created', 'key 1', 'group', 1, now() + interval '1 hour', 0, null, null, null),
      ('numbers', 'short', '{"n":2}', 'retry', 'key 1', null, 0, now(), 1, now(), null, '{"message":"not now"}'),
      ('numbers', 'short', '{"n":3}', 'failed', 'key 3', null, -1, now(), 0, now(), now(), '{"message":"it said 500"}'),
      ('numbers', 'short', '{"n":4}', 'failed', 'key 4', null, 0, now(), 50, now(), now(), '{"value":{"message":"job timed out"}}'),
      ('numbers', 'short', '{"n":5}', 'completed', 'key 5', null, 0, now(), 0, now(), now(), null),
      ('tick', 'exclusive', '{}', 'created', 'periodic', null, 0, now() + interval '10 s', 0, null, null, null)`
    t.equal(await adoptFormerJobs(database), database.kind === 'postgres')
    const waiting = { state: 'waiting', waits: true }
    t.match(await rowsOf(database), [
      { ...waiting, data: { n: 1 }, group_id: 'group', pace: 1, key: 'key 1', runs: 0 },
      { ...waiting, data: { n: 2 }, key: null, runs: 2, reason: 'not now' },
      { state: 'failed', waits: false, data: { n: 3 }, pace: -1, key: null, runs: 1, reason: 'it said 500' },
      { state: 'failed', waits: false, data: { n: 4 }, runs: 51, reason: 'job timed out' },
      { ...waiting, queue: 'tick', key: '' }
    ])
    t.equal(await adoptFormerJobs(database), database.kind === 'postgres')
    t.equal((await rowsOf(database)).length, 5)
  }
)

await eachDatabase(t, 'former jobs: what a killed gateway was running is run again', async (t, database) => {
  await formerTables(database)
  await database.sql`
    insert into boltgate_jobs.job (name, policy, data, state, started_on, heartbeat_on, heartbeat_seconds)
    values ('numbers', 'short', '{"n":1}', 'active', now() - interval '60 s', now() - interval '13 s', 12),
      ('numbers', 'short', '{"n":2}', 'active', now() - interval '67 s', null, null),
      ('numbers', 'short', '{"n":3}', 'active', now() - interval '30 s', now(), 12)`
  const jobs = openJobs(t, database)
  const notes = new Notes()
  declareQueue<Numbered>(jobs, 'numbers', plain, async ({ data }) => {
    notes.note(String(data.n))
  })
  await jobs.start()
  // Another gateway of the version before may have the third; the embedded database has one gateway.
  const lost = database.kind === 'postgres' ? ['1', '2'] : ['1', '2', '3']
  await notes.until(lost.length)
  t.same(notes.ran.toSorted(), lost)
})

await eachDatabase(
  t,
  'former jobs: a gateway of the version before keeps working beside this one',
  async (t, database) => {
    if (database.kind === 'pglite') return
    await formerTables(database)
    const add = (n: number, state: string) => database.sql`
    insert into boltgate_jobs.job (name, policy, singleton_key, data, state, started_on)
    values ('numbers', 'short', ${`key ${n}`}, ${database.sql.json({ n })}, ${state}, case when ${state} = 'active' then now() end)`
    await add(1, 'active')
    await database.sql`
    insert into boltgate_jobs.job (name, policy, singleton_key, data, state, started_on)
    values ('tick', 'exclusive', 'periodic', '{}', 'active', now())`
    const jobs = openJobs(t, database)
    declareQueue<Numbered>(jobs, 'numbers', plain, async () => {})
    declarePeriodic(jobs, 'tick', 60_000, 'Ticks', async () => {
      t.fail('it does not run in two processes')
    })
    await jobs.start()
    t.match(await jobs.queues(), [
      { name: 'numbers', waiting: 0 },
      { name: 'tick', waiting: 1, later: 1 }
    ])
    await jobs.close()
    // The other gateway adds a job, and one that waits here already.
    await jobs.enqueue(database.sql, 'numbers', { n: 2 }, { key: 'key 2' })
    await add(2, 'created')
    await add(3, 'created')
    t.equal(await adoptFormerJobs(database), true)
    const carried = async () => {
      const { jobs: found } = await jobs.list({ queue: 'numbers', page: 1, size: 10 })
      return found.map(({ data }) => (data as Numbered).n).toSorted()
    }
    t.same(await carried(), [2, 3])
    // It claims one while ours are moved.
    await add(4, 'created')
    const [isClaimed, isMoved] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const claim = database.transaction(async tx => {
      await tx`update boltgate_jobs.job set state = 'active', started_on = now() where data = '{"n":4}'`
      isClaimed.resolve()
      await isMoved.promise
    })
    await isClaimed.promise
    t.equal(await adoptFormerJobs(database), true)
    isMoved.resolve()
    await claim
    t.same(await carried(), [2, 3])
    await database.sql`
    update boltgate_jobs.queue set updated_on = now() - interval '2 days', monitor_claim_on = now() - interval '25 hours'`
    t.equal(await adoptFormerJobs(database), false)
    t.same(await database.sql`select from pg_namespace where nspname = 'boltgate_jobs'`, [], 'once it is gone')
  }
)
