/*
 * A gateway's webhooks as a process of their own, so that a test can kill it: has every unpaid payment of the database paid,
 * prints the invoice id of each once that was committed, and `done` when no delivery is pending any more. Arguments: the
 * database's url, the data folder.
 */
import { setTimeout } from 'node:timers/promises'
import { PaymentChanges } from '../../../src/payments/payments/changes.ts'
import { PaymentStore } from '../../../src/payments/payments/store-sql.ts'
import { systemClock as clock } from '../../../src/platform/system/clock.ts'
import { openDatabase } from '../../../src/platform/database/database.ts'
import { DatabaseJobs } from '../../../src/platform/jobs/queue.ts'
import { silentLog as log } from '../../../src/platform/telemetry/log.ts'
import { Metrics } from '../../../src/platform/telemetry/metrics.ts'
import { webhooksOf } from './accounts.ts'

const [url = '', dataDir = ''] = process.argv.slice(2)
const database = await openDatabase({ url, dataDir, log, clock })
const metrics = new Metrics()
const jobs = new DatabaseJobs({ database, clock, log, metrics })
const store = new PaymentStore(database)
const webhooks = webhooksOf({
  database,
  clock,
  jobs,
  log,
  metrics,
  // The contract's times, divided by a hundred and by ten.
  times: { backoff: [300, 600, 1_200, 2_400, 4_800], timeout: 1_000 }
})
jobs.declare(webhooks.jobs)
await jobs.start()
const changes = new PaymentChanges({
  store,
  database,
  clock,
  changed: (sql, change) => webhooks.paymentChanged(sql, change)
})
for (;;) {
  const unpaid = await database.sql<
    Array<{ merchant_id: number; invoice_id: string }>
  >`select merchant_id, invoice_id from payments where status = 'unpaid' order by invoice_id limit 20`
  for (const { merchant_id: merchantId, invoice_id: invoiceId } of unpaid) {
    await changes.observe(
      { merchantId, invoiceId },
      { status: 'paid', receivedSats: null, settledAt: null },
      clock.now()
    )
    process.stdout.write(`${invoiceId}\n`)
  }
  if (unpaid.length > 0) continue
  const [left] = await database.sql`select 1 from webhook_deliveries where status = 'pending' limit 1`
  if (left === undefined) process.stdout.write('done\n')
  await setTimeout(200)
}
