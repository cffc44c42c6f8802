import type { Database, TransactionSql } from './database.ts'

/**
 * Runs a statement that is planned for its own values each time: for lists by filters that somebody chooses. A statement
 * that was sent five times may get one plan for all values, which takes every account for one of average size: it then
 * reads and sorts everything of a busy one for a page of fifty rows (a million sales: 320 ms in place of 11).
 * @throws what `Database.transaction` and `run` do
 */
export async function withOwnPlan<T>(database: Database, run: (tx: TransactionSql) => Promise<T>): Promise<T> {
  return await database.transaction(async tx => {
    await tx`set local plan_cache_mode = force_custom_plan`
    return await run(tx)
  })
}
