import t from 'tap'
import { GrowthWatch } from '../../../src/platform/database/growth.ts'
import { silentLog, type Log } from '../../../src/platform/telemetry/log.ts'
import { eachDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'

await eachDatabase(
  t,
  'a table that has doubled is analyzed some seconds later, and one of a few pages or of another owner is not',
  async (t, database) => {
    const { sql } = database
    const clock = new ManualClock()
    await sql`create table apples (id integer primary key, peel text)`
    await sql`create table pears (id integer primary key)`
    await sql`create schema others`
    await sql`create table others.plums (id integer primary key, peel text)`
    const grow = async (from: number, to: number) => {
      for (const table of ['apples', 'others.plums'])
        await sql.unsafe(`insert into ${table} select n, repeat('x', 1000) from generate_series(${from}, ${to}) as n`)
      await sql.unsafe(`insert into pears select n from generate_series(${from}, ${to}) as n`)
    }
    const watch = new GrowthWatch(database, clock, silentLog)
    t.teardown(() => watch.close())
    const looked = async (ms: number) => {
      await clock.advance(ms)
      await watch.looking
      const rows = await sql`
        select relname, reltuples::int as tuples from pg_class where relname in ('apples', 'pears', 'plums') order by relname`
      return rows.map(row => row['tuples'])
    }
    await grow(1, 500)
    t.same(await looked(2_999), [-1, -1, -1])
    t.same(await looked(1), [500, -1, -1])
    await grow(501, 900)
    t.same(await looked(3_000), [500, -1, -1], 'less than twice as large')
    await grow(901, 1_400)
    t.same(await looked(3_000), [1_400, -1, -1])
    for (let minute = 0; minute < 60; minute++) await looked(60_000)
    await grow(1_401, 3_000)
    t.same(await looked(3_000), [3_000, -1, -1], 'a merchant may sell for the first time after months')
  }
)

t.test('a refused ANALYZE is reported once and is the last', async t => {
  const clock = new ManualClock()
  const notified: string[] = []
  const log: Log = {
    ...silentLog,
    warn: (first: object | string, text?: string) => {
      notified.push(text ?? String(first))
    }
  }
  let requests = 0
  const sql = {
    unsafe: async () => {
      requests++
      throw new Error('permission denied')
    }
  }
  const watch = new GrowthWatch({ sql } as never, clock, log)
  for (let n = 0; n < 3; n++) await clock.advance(60_000)
  await watch.close()
  t.equal(requests, 1)
  t.match(notified, [/Growing tables could not be analyzed/])
})
