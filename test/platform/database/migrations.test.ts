import t from 'tap'
import { BalanceStore } from '../../../src/selling/balances/store.ts'
import { createLog, silentLog } from '../../../src/platform/telemetry/log.ts'
import { migrate, type Migration } from '../../../src/platform/database/migrations.ts'
import { migrations as released } from '../../../src/platform/database/migrations/list.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { eachDatabase } from '../../support/database.ts'

const empty = { migrations: [] }
const options = { clock: new ManualClock(), log: silentLog }

const first: Migration = {
  name: '0001-apples',
  async up(sql) {
    await sql`create table apples (id integer primary key)`
  }
}
const second: Migration = {
  name: '0002-pears',
  sql: 'create table pears (id integer primary key); insert into pears values (1)'
}

await eachDatabase(
  t,
  'migrations run once, in order, and are recorded',
  async (t, database) => {
    t.same(await migrate(database, [first, second], options), ['0001-apples', '0002-pears'])
    t.same(await migrate(database, [first, second], options), [])
    t.same(await database.sql`select id from pears`, [{ id: 1 }])
    const rows = await database.sql`select name, applied_at from schema_migrations order by name`
    t.same(rows, [
      { name: '0001-apples', applied_at: new Date('2026-11-21T00:00:00.000Z') },
      { name: '0002-pears', applied_at: new Date('2026-11-21T00:00:00.000Z') }
    ])
  },
  empty
)

await eachDatabase(
  t,
  'a failing migration leaves nothing of its run behind',
  async (t, database) => {
    const failing: Migration = {
      name: '0002-broken',
      async up(sql) {
        await sql`create table half (id integer)`
        await sql`select no_such_column from half`
      }
    }
    await t.rejects(migrate(database, [first, failing], options), {
      code: 'BG_DATABASE_MIGRATION',
      message: /0002-broken failed and was rolled back/
    })
    t.same(
      await database.sql`select to_regclass('apples') as apples, to_regclass('half') as half, to_regclass('schema_migrations') as record`,
      [{ apples: null, half: null, record: null }]
    )
    t.same(await migrate(database, [first, second], options), ['0001-apples', '0002-pears'])
  },
  empty
)

await eachDatabase(
  t,
  'a database that a newer version has used is refused',
  async (t, database) => {
    await migrate(database, [first, second], options)
    await t.rejects(migrate(database, [first], options), {
      code: 'BG_DATABASE_MIGRATION',
      message: /0002-pears, which this version does not know/
    })
  },
  empty
)

await eachDatabase(
  t,
  'a migration that was changed after it ran is refused; layout and comments do not count',
  async (t, database) => {
    await migrate(database, [first, second], options)
    const reformatted: Migration = {
      name: '0001-apples',
      up: async function (sql) {
        // The same statement, written otherwise.
        await sql`create table apples
        (id integer primary key)`
      }
    }
    t.same(await migrate(database, [reformatted, second], options), [])
    const changed: Migration = {
      name: '0001-apples',
      async up(sql) {
        await sql`create table apples (id bigint primary key)`
      }
    }
    await t.rejects(migrate(database, [changed, second], options), {
      code: 'BG_DATABASE_MIGRATION',
      message: /0001-apples is not the one that was applied/
    })
    const changedText: Migration = { name: '0002-pears', sql: 'create table pears (id bigint primary key)' }
    await t.rejects(migrate(database, [first, changedText], options), {
      code: 'BG_DATABASE_MIGRATION',
      message: /0002-pears is not the one/
    })
  },
  empty
)

await eachDatabase(
  t,
  'gateways that start concurrently run each migration once',
  async (t, database) => {
    const results = await Promise.all(Array.from({ length: 6 }, () => migrate(database, [first, second], options)))
    t.same(results.flat().toSorted(), ['0001-apples', '0002-pears'])
  },
  empty
)

await eachDatabase(
  t,
  'migrations: a lock of another session delays an upgrade, which blocks no other session and says where it is',
  async (t, database) => {
    // The embedded database has one session.
    if (database.kind === 'pglite') return
    const clock = new ManualClock()
    const after = clock.after.bind(clock)
    let armed = Promise.withResolvers<void>()
    clock.after = (ms, ring) => {
      const timer = after(ms, ring)
      armed.resolve()
      return timer
    }
    const refused = async () => {
      await armed.promise
      armed = Promise.withResolvers()
    }
    const lines: Array<Record<string, unknown>> = []
    const log = createLog({
      level: 'info',
      destination: {
        write: line => {
          lines.push(JSON.parse(line) as Record<string, unknown>)
        }
      }
    })
    await migrate(database, [first], { clock, log: silentLog })
    const held = Promise.withResolvers<void>()
    const isHeld = Promise.withResolvers<void>()
    const dump = database.transaction(async tx => {
      await tx`select from apples`
      isHeld.resolve()
      await held.promise
    })
    await isHeld.promise
    const change: Migration = { name: '0003-apples', sql: 'alter table apples add column color text' }
    const run = migrate(database, [first, second, change], { clock, log })
    for (let round = 0; round < 12; round++) {
      await refused()
      // Between two attempts the table is free.
      await database.sql`select from apples`
      clock.advance(1_000)
    }
    await refused()
    held.resolve()
    await dump
    clock.advance(1_000)
    t.same(await run, ['0002-pears', '0003-apples'])
    t.match(lines.slice(0, 3), [
      { migration: '0002-pears', number: 1, of: 2 },
      { migration: '0003-apples', number: 2, of: 2 },
      { level: 'warn', attempt: 1 }
    ])
    t.equal(lines.filter(({ level }) => level === 'warn').length, 2, 'the first attempt and the eleventh')
    t.match(lines.at(-1), { migrations: ['0002-pears', '0003-apples'] })
  },
  empty
)

await eachDatabase(
  t,
  'names out of order, doubled or malformed are refused',
  async (t, database) => {
    for (const list of [[second, first], [first, first], [{ ...first, name: '1-apples' }]])
      await t.rejects(migrate(database, list, options), { code: 'BG_DATABASE_MIGRATION' })
  },
  empty
)

await eachDatabase(
  t,
  'entries that were written as a list each are the same once they are stored column by column',
  async (t, database) => {
    const at = released.findIndex(({ name }) => name === '0063-entries-by-column')
    await migrate(database, released.slice(0, at), options)
    const others = [
      [1_700_000_000_005, 'b', null, 0, 1, 40, 2, 'usage'],
      [1_700_000_000_007, 'c "ü"', 'small', null, null, 50, 2, 'reservation']
    ]
    await database.sql`
      insert into balance_entries (balance_id, made_at, request, msat, unpaid_msat, basis, more)
      values ('x', ${new Date(1_700_000_000_004)}, 'a', 30, 0, 'usage', ${JSON.stringify(others)}), ('x', ${new Date(9)}, 'd', 1, 0, 'crash', null)`
    await migrate(database, released, options)
    t.same(
      (await new BalanceStore(database).entries('x', { skip: 0, take: 10 })).map(entry => Object.values(entry)),
      [
        ['x', 9, 'd', null, null, null, 1, 0, 'crash'],
        ...others.toReversed().map(entry => ['x', ...entry]),
        ['x', 1_700_000_000_004, 'a', null, null, null, 30, 0, 'usage']
      ]
    )
  },
  empty
)
