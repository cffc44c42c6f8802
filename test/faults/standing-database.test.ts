/**
 * A database that is paused and resumed leaves the pool as it was: nothing of it is lost with the statements that
 * gave up.
 */
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test as T } from 'tap'
import { isConnectionFault, type Database } from '../../src/platform/database/database.ts'
import { migrations } from '../../src/platform/database/migrations/list.ts'
import { openAt, onEmbedded, startedServers, testImage } from '../support/database.ts'
import { startGateway } from '../support/gateway.ts'
import { declareQueue, openJobs, plain } from '../platform/jobs/jobs.ts'
import { freshPostgres } from '../support/gateway-process.ts'
import { stopwatch } from '../support/passing-time.ts'
import { behindGate } from './tcp-gate.ts'
import { until } from '../support/until.ts'

const server = process.env['TEST_DATABASE_URL'] ?? ''
const skip = server === '' ? 'TEST_DATABASE_URL is not set' : false
const connections = 2

/**
 * A pool that has not connected yet, behind a door through which nothing comes. `silence` as `DatabaseOptions` has it.
 */
async function behindStandingGate(t: T, silence: number) {
  const { gate, url } = await behindGate(t, (await freshPostgres(t)) ?? '')
  gate.stall()
  const database = await openAt(t, url, { connections, silence })
  return { database, gate }
}

/** Each connection of the pool must answer: as many concurrent transactions as there are. */
async function answers(database: Database) {
  const slept = Array.from({ length: connections }, () => database.transaction(tx => tx`select pg_sleep(0.05)`))
  return (await Promise.all(slept)).length
}

void t.test(
  'statements that give up while they wait for a connection that is being made cost the pool none',
  { skip },
  async t => {
    const silence = 1_000
    const { database, gate } = await behindStandingGate(t, silence)
    const first = Array.from({ length: connections }, () => database.sql`select 1`)
    const firstOver = Promise.allSettled(first)
    await wait(silence / 2)
    // They wait for a connection until the first ones have given up theirs, and then for as long again for that one.
    const second = Promise.allSettled(Array.from({ length: connections }, () => database.sql`select 2`))
    for (const one of [...(await firstOver), ...(await second)]) {
      t.ok(one.status === 'rejected' && isConnectionFault(one.reason), 'gave up as on a lost connection')
    }
    gate.open()
    t.equal(await answers(database), connections)
  }
)

void t.test(
  'a statement that its caller cancels while its connection is being made costs the pool none',
  { skip },
  async t => {
    const { database, gate } = await behindStandingGate(t, 3_000)
    const given = Array.from({ length: connections }, () => database.sql`select 1`)
    const over = Promise.allSettled(given)
    // Their connections are asked for in the next turn.
    await wait(50)
    for (const statement of given) statement.cancel()
    t.ok((await over).every(({ status }) => status === 'rejected'))
    gate.open()
    t.equal(await answers(database), connections)
  }
)

void onEmbedded(t, 'while the process of the embedded database is paused, statements fail in bounded time', async t => {
  const servers = startedServers(t)
  const silence = 1_000
  const url = 'pglite:memory'
  const database = await openAt(t, url, { image: await testImage(), silence })
  await database.sql`create table written (n integer)`
  // The last: where a process takes too long to start, another takes its place.
  const pid = servers.at(-1)?.pid
  if (pid === undefined) throw new Error('the database has no process')
  const half = Promise.withResolvers<void>()
  const held = database.transaction(async tx => {
    await tx`insert into written values (1)`
    process.kill(pid, 'SIGSTOP')
    half.resolve()
    await tx`insert into written values (2)`
  })
  const over = Promise.allSettled([held])
  // A machine that is too slow for the first statement fails here, and hangs nowhere.
  await Promise.race([half.promise, held])
  const took = stopwatch(t)
  const round = async () => {
    const pending = [
      ...Array.from({ length: 3 }, () => database.sql`select 1`),
      database.transaction(tx => tx`select 1`)
    ]
    for (const one of await Promise.allSettled(pending))
      t.ok(one.status === 'rejected' && isConnectionFault(one.reason))
  }
  await round()
  const [outcome] = await over
  t.ok(outcome.status === 'rejected' && isConnectionFault(outcome.reason), 'the transaction failed as a whole')
  await round()
  // Twice its time for each round, and some more; without a bound neither would end.
  t.ok(took() < 10 * silence, `${took()} ms`)
  process.kill(pid, 'SIGCONT')
  await until(async () => (await database.health()).status === 'healthy')
  t.same(await database.sql`select n from written`, [], 'nothing of the transaction stays')
  const rows = await Promise.all(
    Array.from({ length: 20 }, (_, n) => database.sql<{ n: number }[]>`select ${n}::int as n`)
  )
  t.same(
    rows.map(([row]) => row?.n),
    Array.from({ length: 20 }, (_, n) => n),
    'each statement gets its own answer'
  )
  await database.transaction(tx => tx`insert into written values (3)`)
  t.same(await database.sql`select n from written`, [{ n: 3 }])
})

void onEmbedded(
  t,
  'when the embedded database is paused within a statement of the job queue, GET /api/merchant/me is 503 once its silence is over',
  async t => {
    const servers = startedServers(t)
    const silence = 1_000
    const image = await testImage(migrations)
    const database = await openAt(t, 'pglite:memory', { image, silence })
    const gateway = await startGateway(t, { database })
    // The last: where a process takes too long to start, another takes its place.
    const pid = servers.at(-1)?.pid
    if (pid === undefined) throw new Error('the database has no process')
    const stands = Promise.withResolvers<void>()
    let started = false
    const jobs = openJobs(t, {
      kind: database.kind,
      sql: new Proxy(database.sql, {
        apply: (target, self, args: unknown[]) => {
          if (started && String(args[0]).includes('update jobs set')) {
            started = false
            process.kill(pid, 'SIGSTOP')
            stands.resolve()
          }
          return Reflect.apply(target, self, args)
        }
      }),
      transaction: (run, options) => database.transaction(run, options),
      listen: (channel, heard) => database.listen(channel, heard),
      notify: (channel, payload, tx) => database.notify(channel, payload, tx),
      load: () => database.load(),
      health: () => database.health(),
      verify: () => database.verify(),
      close: () => database.close()
    })
    declareQueue(jobs, 'looked-after', plain, async () => {})
    await jobs.start()
    started = true
    await stands.promise
    const ask = () => gateway.merchantSend('GET', '/api/merchant/me')
    for (const place of ['first', 'second', 'third']) {
      const took = stopwatch(t)
      const answer = await ask()
      t.ok(took() < 3 * silence, `the ${place} request: ${took()} ms`)
      t.equal(answer.status, 503, `the ${place} request`)
      t.equal(answer.headers['retry-after'], '5', `the ${place} request`)
    }
    process.kill(pid, 'SIGCONT')
    await until(async () => (await database.health()).status === 'healthy')
    t.equal((await ask()).status, 200, 'and continues with the database')
  }
)
