/** Tests share databases one after the other: what one leaves in them, the next must not find. */
import t from 'tap'
import type { Database } from '../../src/database/database.ts'
import { eachDatabase } from '../support/database.ts'

async function state({ sql }: Database): Promise<unknown> {
  const [row] = await sql`
    select (select count(*)::int from merchants) as merchants, (select count(*)::int from schema_migrations) as migrations,
      (select json_agg(v) from boltgate_jobs.version v) as jobs, (select json_agg(last_value) from pg_sequences) as sequences,
      to_regclass('tests_own')::text as own, to_regclass('tests_temporary')::text as temporary,
      current_setting('timezone') as zone, current_setting('statement_timeout') as timeout, current_setting('session_replication_role') as role,
      (select count(*)::int from pg_prepared_statements where name = 'tests_statement') as statements,
      (select count(*)::int from pg_listening_channels()) as channels, (select count(*)::int from pg_locks where locktype = 'advisory' and objid = 4711) as locks,
      (select json_agg(tgenabled) from pg_trigger) as triggers`
  return row
}

const asNew = new Map<string, unknown>()

for (const leave of ['nothing', 'rows and a session', 'nothing', 'a table', 'nothing'] as const) {
  await eachDatabase(
    t,
    `a database that will be left with ${leave} begins as the first one did`,
    async (t, database) => {
      const found = await state(database)
      if (!asNew.has(database.kind)) asNew.set(database.kind, found)
      t.same(found, asNew.get(database.kind))
      const { sql } = database
      if (leave === 'a table') await sql`create table tests_own as select 1 as one`
      if (leave !== 'rows and a session') return
      await sql`insert into merchants (name, email, key_id, key_digest, key_created_at, created_at, updated_at)
      values ('a', 'a@example.org', 'a', sha256('a'), to_timestamp(0), to_timestamp(0), to_timestamp(0))`
      await sql`delete from schema_migrations`
      await sql`update boltgate_jobs.version set version = 0`
      await sql.unsafe(
        "set timezone to 'Asia/Tokyo'; set statement_timeout to 1234567; create temporary table tests_temporary (one int); prepare tests_statement as select 1"
      )
      await sql`select pg_advisory_lock(4711)`
      await database.listen('tests_channel', () => {})
      t.not(JSON.stringify(await state(database)), JSON.stringify(found), 'it left something')
    }
  )
}
