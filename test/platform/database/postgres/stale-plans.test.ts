import t from 'tap'
import type { Database } from '../../../../src/platform/database/database.ts'
import { eachDatabase } from '../../../support/database.ts'

const ROWS = 60

async function fill(database: Database): Promise<void> {
  await database.sql`create table apples (id integer primary key, weight integer not null, marks text not null)`
  await database.sql`insert into apples select n, n * 10, '' from generate_series(1, ${ROWS}::int) n`
}

/** Statements of three kinds, mixed as they come from requests; each must get the answer to its own. */
async function use(database: Database): Promise<void> {
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
