import t from 'tap'
import { withOwnPlan } from '../../../src/platform/database/own-plan.ts'
import { eachDatabase } from '../../support/database.ts'

await eachDatabase(
  t,
  'a list by filters is planned for its own values, and statements behind it as ever',
  async (t, database) => {
    const mode = async (sql = database.sql) => (await sql`show plan_cache_mode`)[0]?.['plan_cache_mode']
    t.equal(await mode(), 'auto')
    t.equal(await withOwnPlan(database, mode), 'force_custom_plan')
    t.equal(await mode(), 'auto')
  }
)
