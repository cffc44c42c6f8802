import t from 'tap'
import { paceOf, recordAttempt } from '../../../src/payments/webhooks/delivery.ts'
import { eachDatabase } from '../../support/database.ts'

t.test('paceOf: an endpoint is slow until it has answered quickly and its probation is over', async t => {
  t.equal(paceOf({ quickAt: null, slowAt: null }, 100_000), 'unproven')
  t.equal(paceOf({ quickAt: 1, slowAt: null }, 100_000), 'quick')
  t.equal(paceOf({ quickAt: null, slowAt: 1 }, 100_000), 'slow')
  t.equal(paceOf({ quickAt: 50_000, slowAt: 60_000 }, 1_000_000), 'slow', 'its last attempt was slow')
  t.equal(paceOf({ quickAt: 70_000, slowAt: 60_000 }, 119_999), 'slow', 'probation')
  t.equal(paceOf({ quickAt: 70_000, slowAt: 60_000 }, 120_000), 'quick')
})

await eachDatabase(t, 'recordAttempt: attempts of all processes count', async (t, database) => {
  const record = (took: number | null, at: number, before: Parameters<typeof recordAttempt>[2] = 'unproven') =>
    database.transaction(sql => recordAttempt(sql, 'pace test', before, took, at))
  t.equal(await record(null, 1_000), 'unproven', 'it was not called')
  t.equal(await record(50, 2_000), 'quick')
  t.equal(await record(10_000, 20_000, 'quick'), 'slow')
  t.equal(await record(50, 15_000), 'slow', 'an attempt that began before it was slow')
  t.equal(await record(50, 30_000, 'slow'), 'slow')
  t.equal(await record(1_999, 80_000, 'slow'), 'quick')
  const before = await database.sql`select * from webhook_paces where endpoint = 'pace test'`
  await record(50, 90_000, 'quick')
  t.same(await database.sql`select * from webhook_paces where endpoint = 'pace test'`, before, 'nothing is written')
})
