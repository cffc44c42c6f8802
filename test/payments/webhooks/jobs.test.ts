import t, { type Test as T } from 'tap'
import { PaymentChanges } from '../../../src/payments/payments/changes.ts'
import type { Payment } from '../../../src/payments/payments/schema.ts'
import { PaymentStore } from '../../../src/payments/payments/store-sql.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { DatabaseJobs } from '../../../src/platform/jobs/queue.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { Metrics } from '../../../src/platform/telemetry/metrics.ts'
import { startReceiver, type ReceiverOptions } from '../../fakes/receiver.ts'
import { eachDatabase } from '../../support/database.ts'
import { testMerchants } from '../../support/merchants.ts'
import { anAccount, webhooksOf } from './accounts.ts'
import { insertPayment, type DeliveryRow } from './fixture.ts'

interface Paying {
  readonly id: number
  pay(): Promise<void>
}

/** Webhooks over the queue of the product. */
async function running(t: T, database: Database) {
  const clock = systemClock
  const merchants = testMerchants(database, clock)
  const jobs = new DatabaseJobs({ database, clock, log: silentLog, metrics: new Metrics(), patience: 50 })
  // On a slow machine all that follows may take longer than the ten seconds after which an attempt ends.
  const webhooks = webhooksOf({ database, clock, jobs, times: { backoff: [], timeout: 120_000 } })
  jobs.declare(webhooks.jobs)
  await jobs.start()
  t.teardown(() => jobs.close())
  const changes = new PaymentChanges({
    store: new PaymentStore(database),
    database,
    clock,
    changed: (sql, change) => webhooks.paymentChanged(sql, change)
  })
  return {
    receiver: async (options?: ReceiverOptions) => {
      const receiver = await startReceiver(options)
      t.teardown(() => receiver.close())
      return receiver
    },
    /** A new account with so many payments, not yet reported to it; the returned function has them paid. */
    account: async (url: string, count: number): Promise<Paying> => {
      const { id } = await anAccount(merchants, url)
      const payments: Payment[] = []
      for (let n = 0; n < count; n++) payments.push(await insertPayment(database, id, clock.now()))
      return {
        id,
        pay: async () => {
          for (const payment of payments)
            await changes.observe(payment, { status: 'paid', receivedSats: null, settledAt: null }, clock.now())
        }
      }
    },
    rows: async (merchantId: number) =>
      await database.sql<DeliveryRow[]>`select * from webhook_deliveries where merchant_id = ${merchantId} order by id`
  }
}

await eachDatabase(
  t,
  'webhooks: 100 endpoints that hang do not delay the p99 of the healthy ones by more than 2 s',
  async (t, database) => {
    const { account, receiver, rows } = await running(t, database)
    const hanging = await receiver({ answer: () => 'hang' })
    const healthy = await receiver()
    const dead: Paying[] = []
    for (let n = 0; n < 100; n++) dead.push(await account(`${hanging.url}/${n}`, 6))
    const rounds: Paying[][] = []
    for (let n = 0; n < 2; n++) {
      const accounts: Paying[] = []
      for (let one = 0; one < 5; one++) accounts.push(await account(healthy.url, 8))
      rounds.push(accounts)
    }
    /** Has 40 payments of 5 accounts paid, and answers how long the slowest took to arrive: of 40, that is the p99. */
    const slowest = async (accounts: readonly Paying[]) => {
      const before = healthy.received.length
      for (const { pay } of accounts) await pay()
      await healthy.until(before + 40)
      const made = new Map<string, number>()
      for (const { id } of accounts) {
        for (const row of await rows(id))
          made.set((JSON.parse(row.body) as { invoiceId: string }).invoiceId, row.created_at.getTime())
      }
      return Math.max(
        ...healthy.received
          .slice(before)
          .map(one => one.at - (made.get((JSON.parse(one.text) as { invoiceId: string }).invoiceId) ?? 0))
      )
    }
    const alone = await slowest(rounds[0] ?? [])
    for (const { pay } of dead) await pay()
    // All of their places are taken, and more is waiting behind them.
    await hanging.until(100)
    const beside = await slowest(rounds[1] ?? [])
    t.equal(hanging.received.length, 100, 'one attempt for each of those that hang')
    for (const { id } of dead) t.match(await rows(id), [{ attempts: 0 }])
    t.comment(`${alone} ms alone, ${beside} ms beside those that hang`)
    t.ok(beside - alone <= 2_000, `${beside} ms instead of ${alone} ms`)
  }
)
