import t from 'tap'
import { eachDatabase } from '../../support/database.ts'

const sizes: string[] = []

for (const nth of ['first', 'second'])
  await eachDatabase(
    t,
    `the planner knows as little of the tables of a test's database as of new ones, whatever it saw in an earlier test (${nth})`,
    async (t, { kind, sql }) => {
      const [size] = await sql`select relpages, reltuples from pg_class where relname = 'api_key_uses'`
      sizes.push(`${kind}: ${JSON.stringify(size)}`)
      await sql`insert into api_key_uses (key_id, used_at) select n::text, now() from generate_series(1, 50) n`
      await sql`analyze api_key_uses`
      const [seen] = await sql`select reltuples from pg_class where relname = 'api_key_uses'`
      t.equal(seen?.['reltuples'], 50)
    }
  )

t.equal(new Set(sizes).size, sizes.length / 2, `the same both times: ${sizes.join('; ')}`)
