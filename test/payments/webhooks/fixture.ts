import tap, { type Test as T } from 'tap'
import type { Merchant } from '../../../src/accounts/merchants/schema.ts'
import { PaymentChanges } from '../../../src/payments/payments/changes.ts'
import type { Payment } from '../../../src/payments/payments/schema.ts'
import { PaymentStore } from '../../../src/payments/payments/store-sql.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { numericId } from '../../../src/platform/system/ids.ts'
import { AddressGuard, type ResolveName } from '../../../src/engine/upstream/guard.ts'
import { outboundCall } from '../../../src/engine/upstream/outbound.ts'
import { endpointOperations, webhookOperations } from '../../../src/payments/webhooks/operations.ts'
import type { WebhooksDependencies } from '../../../src/payments/webhooks/service.ts'
import { startReceiver, type ReceiverOptions } from '../../fakes/receiver.ts'
import { aPayment, caller } from '../payments/fixture.ts'
import { openAnyDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { testMerchants } from '../../support/merchants.ts'
import { anAccount, endpointsOf, webhooksOf } from './accounts.ts'
import { FakeJobs } from './fake-jobs.ts'

/** Writes a payment as if it had been made, unpaid and good for an hour. */
export async function insertPayment(
  database: Database,
  merchantId: number,
  now: number,
  different: Partial<Payment> = {}
): Promise<Payment> {
  const store = new PaymentStore(database)
  const invoiceId = numericId()
  const payment = aPayment({
    invoiceId,
    merchantId,
    orderId: `order-${invoiceId}`,
    payToken: invoiceId.padEnd(43, 'x'),
    paymentHash: invoiceId.padEnd(64, '0'),
    chargeId: `charge-${invoiceId}`,
    createdAt: now,
    expiresAt: now + 3_600_000,
    ...different
  })
  const reservation = { merchantId, orderId: payment.orderId, reservationId: invoiceId, heldUntil: now + 60_000 }
  await store.reserve(reservation, now)
  if ((await store.insert(payment, reservation)) !== 'done') throw new Error('the payment was not written')
  return payment
}

/** A row of webhook_deliveries, as far as tests look at it. */
export interface DeliveryRow {
  readonly id: string
  readonly merchant_id: number
  readonly endpoint_id: string | null
  readonly event: string
  readonly event_key: string
  readonly body: string
  readonly status: string
  readonly attempts: number
  readonly url: string | null
  readonly response_status: number | null
  readonly response_body: string | null
  readonly error: string | null
  readonly claimed_until: Date | null
  readonly created_at: Date
  readonly last_attempt_at: Date | null
  readonly next_attempt_at: Date | null
  readonly delivered_at: Date | null
}

let shared: Promise<Database> | null = null

/** Webhooks over a database that the tests of one file share unless one is given. */
export async function fixture(
  t: T,
  options: { readonly database?: Database; readonly production?: boolean; readonly resolve?: ResolveName } = {}
) {
  const database = options.database ?? (await (shared ??= openAnyDatabase(tap)))
  const clock = new ManualClock()
  const jobs = new FakeJobs(database, clock)
  await jobs.start()
  await database.sql`delete from fake_jobs`
  const merchants = testMerchants(database, clock)
  const guard = new AddressGuard({
    production: options.production ?? false,
    resolve: options.resolve ?? (async () => [])
  })
  const endpoints = endpointsOf(database, clock, options.production)
  /** Another gateway on the same database, clock and jobs, with different parts. */
  const another = (different: Partial<WebhooksDependencies>) =>
    webhooksOf({ database, clock, jobs, endpoints, call: outboundCall(guard), ...different })
  const webhooks = another({})
  jobs.declare(webhooks.jobs)
  const changes = new PaymentChanges({
    store: new PaymentStore(database),
    database,
    clock,
    changed: (sql, change) => webhooks.paymentChanged(sql, change)
  })
  const call = await caller([...webhookOperations(webhooks), ...endpointOperations(endpoints, webhooks)])
  const payment = (merchant: Merchant, different?: Partial<Payment>) =>
    insertPayment(database, merchant.id, clock.now(), different)
  const rows = async (merchant: Merchant) =>
    await database.sql<
      DeliveryRow[]
    >`select * from webhook_deliveries where merchant_id = ${merchant.id} order by created_at, id`
  return {
    database,
    clock,
    jobs,
    merchants,
    webhooks,
    endpoints,
    changes,
    payment,
    rows,
    another,
    /** An endpoint that is closed when the test ends. */
    receiver: async (receiverOptions?: ReceiverOptions) => {
      const receiver = await startReceiver(receiverOptions)
      t.teardown(() => receiver.close())
      return receiver
    },
    merchant: (url: string | null) => anAccount(merchants, url),
    /** Has a new payment of the merchant paid, which writes one event. */
    paid: async (merchant: Merchant, different?: Partial<Payment>) => {
      const made = await payment(merchant, different)
      const changed = await changes.observe(
        made,
        { status: 'paid', receivedSats: made.amountSats ?? 0, settledAt: clock.now() },
        clock.now()
      )
      if (changed === null) throw new Error('the payment is gone')
      return changed
    },
    /** The only one. */
    row: async (merchant: Merchant) => {
      const [row, ...more] = await rows(merchant)
      if (row === undefined || more.length > 0)
        throw new Error(`${more.length + (row === undefined ? 0 : 1)} rows instead of one`)
      return row
    },
    call
  }
}

export type Fixture = Awaited<ReturnType<typeof fixture>>
