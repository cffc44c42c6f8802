import t from 'tap'
import type { Database } from '../../../../src/platform/database/database.ts'
import { eachDatabase } from '../../../support/database.ts'

const ROWS = 60

async function fill(database: Database) {
  await database.sql`create table apples (id integer primary key, weight integer not null, marks text not null)`
  await database.sql`insert into apples select n, n * 10, '' from generate_series(1, ${ROWS}::int) n`
}

/** Statements of three kinds, mixed as they come from requests; each must get the answer to its own. */
async function use(database: Database) {
  const { sql } = database
  const answers = await Promise.all(
    Array.from({ length: ROWS }, async (_, at) => {
      const id = at + 1
      if (at % 3 === 0) return (await sql`select ${id}::int as id`)[0]?.['id'] as unknown
      if (at % 3 === 1) return (await sql`select * from apples where id = ${id}`)[0]?.['id'] as unknown
      return await database.transaction(async tx => {
        await tx`update apples set marks = marks || 'x' where id = ${id}`
        return (await tx`select * from apples where id = ${id}`)[0]?.['id'] as unknown
      })
    })
  )
  answers.forEach((answer, at) => {
    if (answer !== at + 1) throw new Error(`the statement for ${at + 1} got ${String(answer)}`)
  })
}

await eachDatabase(
  t,
  'stale plans: running statements and transactions survive a migration and write once',
  async (t, database) => {
    await fill(database)
    await use(database)
    for (const change of [
      'alter table apples add column color text',
      'alter table apples alter column weight type bigint',
      'alter table apples drop column color'
    ]) {
      await database.transaction(tx => tx.unsafe(change))
      await use(database)
    }
    t.same(await database.sql`select distinct marks from apples where id % 3 = 0`, [{ marks: 'xxxx' }])
  },
  { migrations: [] }
)

await eachDatabase(
  t,
  'stale plans: a transaction that meets one migration after another retries until none is in its way',
  async (t, database) => {
    // The embedded database has one session, in which nothing can come between.
    if (database.kind === 'pglite') return
    await fill(database)
    const add = async (column: string) => {
      await database.transaction(tx => tx.unsafe(`alter table apples add column ${column} text`))
    }
    const others = async () => {
      await Promise.all(Array.from({ length: 40 }, () => database.sql`select * from apples where id = 2`))
    }
    await others()
    const begun = Promise.withResolvers<void>()
    const first = Promise.withResolvers<void>()
    const seen = Promise.withResolvers<void>()
    const second = Promise.withResolvers<void>()
    let runs = 0
    const waits = database.transaction(async tx => {
      const read = async (sql: typeof tx) => await sql`select * from apples where id = 2`
      if (++runs > 1) return await read(tx)
      begun.resolve()
      await first.promise
      // Prepared, and the table is free again for the next migration.
      const undone = new Error('undone')
      await tx
        .savepoint(async inner => {
          await read(inner)
          throw undone
        })
        .catch((error: unknown) => {
          if (error !== undone) throw error
        })
      seen.resolve()
      await second.promise
      return await read(tx)
    })
    await begun.promise
    await add('color')
    await others()
    await others()
    first.resolve()
    await seen.promise
    await add('taste')
    second.resolve()
    t.match(await waits, [{ id: 2, color: null, taste: null }])
  },
  { migrations: [] }
)

await eachDatabase(
  t,
  'stale plans: a new column of any table reaches no client of a running gateway',
  async (t, database) => {
    const tables = await database.sql<{ name: string }[]>`
    select tablename as name from pg_tables where schemaname = 'public' order by tablename`
    t.ok(tables.length > 40)
    for (const { name } of tables) {
      // What a tagged template passes.
      const text = Object.assign([`select * from ${name} limit 1`], { raw: [] })
      const read = async () => {
        await Promise.all([database.sql(text), database.transaction(tx => tx(text))])
      }
      await read()
      await database.transaction(tx => tx.unsafe(`alter table ${name} add column of_a_newer_version text default 'x'`))
      await read()
    }
  }
)

await eachDatabase(
  t,
  'stale plans: other errors are not retried',
  async (t, database) => {
    await fill(database)
    let runs = 0
    await t.rejects(
      database.transaction(async tx => {
        runs++
        await tx`insert into apples (id, weight, marks) values (1, 1, '')`
      }),
      { code: '23505' }
    )
    t.equal(runs, 1)
    await t.rejects(database.sql`select no_such_column from apples`, { code: '42703' })
  },
  { migrations: [] }
)
