import type { Db as BossDatabase } from 'pg-boss'
import type { Database, Sql, TransactionSql } from '../database/database.ts'

/** Rows as pg-boss reads them; it knows its own columns. */
type Rows = Awaited<ReturnType<BossDatabase['executeSql']>>

/** Values as pg-boss sends them: text, numbers, objects for jsonb, lists of uuid or text. */
type Values = NonNullable<Parameters<Sql['unsafe']>[1]>

/**
 * The database as pg-boss takes it, the same on PostgreSQL and the embedded one. Statements of several texts bring
 * their own `BEGIN` and `COMMIT`, which a pool of connections cannot run: what is between runs in a transaction of ours
 * instead. `heard` is called with the name of a queue to which a job was added, by whatever process; `slow` says
 * whether tables are being made, which may take longer than a request would wait. At all other times a statement of the
 * queue that stands must not let others wait with it.
 */
export function bossDatabase(database: Database, heard: (queue: string) => void, slow: () => boolean): BossDatabase {
  return {
    executeSql: async (text, values) => {
      const inner = /^\s*BEGIN;([\s\S]*)COMMIT;\s*$/.exec(text)?.[1]
      if (inner === undefined || (values !== undefined && values.length > 0))
        return await execute(database.sql, text, values)
      return await database.transaction(tx => execute(tx, inner, []), { slow: slow() })
    },
    listen: async (channel, told, again) => {
      const stop = await database.listen(channel, queue => {
        told(queue)
        heard(queue)
      })
      again()
      return { close: stop }
    }
  }
}

/** A transaction's handle, or the outer one, as pg-boss takes it for one call. */
export function bossHandle(sql: Sql | TransactionSql): BossDatabase {
  return { executeSql: (text, values) => execute(sql, text, values) }
}

async function execute(sql: Sql, text: string, values: unknown[] | undefined): Promise<Rows> {
  // Without values the simple protocol is used, which takes several statements and answers a list for each.
  const answer: readonly unknown[] =
    values === undefined || values.length === 0 ? await sql.unsafe(text) : await sql.unsafe(text, values as Values)
  return { rows: answer.flat() }
}
