import t from 'tap'
import { claimRows, FIND_CHALLENGES, OPEN_INVOICES } from '../../../src/selling/holding/sql/statements.ts'
import { eachDatabase } from '../../support/database.ts'

const HASH = '0'.repeat(64)
const NOW = Date.parse('2026-11-24T00:00:00Z')

await eachDatabase(
  t,
  'a gateway that starts with an empty table does not scan it for each request',
  async (t, database) => {
    await database.transaction(async tx => {
      // PostgreSQL keeps a plan for all values from the sixth time on.
      for (let time = 0; time < 12; time++) {
        const open = {
          clientKey: '10.0.0.1',
          place: 'a',
          now: NOW,
          since: NOW,
          placeLimit: 5,
          binding: 'b',
          requestLimit: 1
        }
        await OPEN_INVOICES.all(tx, [{ ...open, payableUntil: NOW }])
        await OPEN_INVOICES.all(
          tx,
          Array.from({ length: 3 }, () => ({ ...open, payableUntil: NOW }))
        )
        await FIND_CHALLENGES.one(tx, [HASH])
        await claimRows('challenges.*').one(tx, [{ paymentHash: HASH, scheme: 'l402', now: NOW }])
      }
      await tx`set local plan_cache_mode = force_generic_plan`
      const kept = await tx<Array<{ name: string; statement: string; parameters: number }>>`
        select name, statement, cardinality(parameter_types) as parameters from pg_prepared_statements
        where statement ~ '\\mchallenges\\M' and generic_plans > 0 and statement !~ 'pg_prepared_statements'`
      t.ok(kept.length >= 3, `${kept.length} statements have a plan that is kept`)
      for (const { name, statement, parameters } of kept) {
        const plan = await tx.unsafe(
          `explain execute "${name}" (${Array.from({ length: parameters }, () => 'null').join(', ')})`
        )
        const lines = plan.map(row => String(row['QUERY PLAN']))
        t.notOk(
          lines.some(line => line.includes('Seq Scan on challenges')),
          statement,
          { lines }
        )
      }
    })
  }
)
