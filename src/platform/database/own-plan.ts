import type { Database, Sql, TransactionSql } from './database.ts'

/**
 * Runs a statement with a custom plan: for lists with arbitrary filters. After five runs PostgreSQL may use a generic
 * plan for accounts of average size, which sorts all rows of a busy one for a page of fifty (a million sales: 320 ms
 * instead of 11).
 * @throws what `Database.transaction` and `run` do
 */
export async function withOwnPlan<T>(database: Database, run: (tx: TransactionSql) => Promise<T>): Promise<T> {
  return await database.transaction(async tx => {
    await tx`set local plan_cache_mode = force_custom_plan`
    return await run(tx)
  })
}

export const MOST_SUMMED = 100_000

/** Count and sum of the column `sats` of a statement, over its first 100,000 rows. */
export async function sumOf(
  database: Database,
  rows: (sql: TransactionSql) => ReturnType<Sql>
): Promise<{ readonly count: number; readonly sats: number }> {
  return await withOwnPlan(database, async sql => {
    const [row] = await sql<Array<{ count: number; sats: bigint }>>`
      select count(*)::int as count, coalesce(sum(sats), 0)::bigint as sats
      from (${rows(sql)} limit ${MOST_SUMMED}) as summed`
    return { count: row?.count ?? 0, sats: Number(row?.sats ?? 0) }
  })
}
