import { testMerchants, testPlans } from '../support/merchants.ts'
import tap, { type Test as T } from 'tap'
import { SqlAdminStore } from '../../src/web/admin/store.ts'
import { PlanInvoices } from '../../src/plans/bitcoin/invoices.ts'
import { BitcoinStore } from '../../src/plans/bitcoin/store.ts'
import { BitcoinPlans } from '../../src/plans/bitcoin/bitcoin.ts'
import type { BitcoinSubscriptionInput, BitcoinSubscriptionView } from '../../src/plans/bitcoin/schema.ts'
import { PlanReminders } from '../../src/plans/reminders.ts'
import type { Merchant } from '../../src/accounts/merchants/schema.ts'
import { Merchants, type CreateMerchant } from '../../src/accounts/merchants/service.ts'
import { FixedPrices } from '../../src/lightning/money/prices.ts'
import type { Database } from '../../src/platform/database/database.ts'
import { systemRandom } from '../../src/platform/system/ids.ts'
import { silentLog } from '../../src/platform/telemetry/log.ts'
import type { Mail } from '../../src/web/mail/mail.ts'
import { fixtureOn, freshAddress, type FakePayee } from '../selling/challenges/fixture.ts'
import { openAnyDatabase } from '../support/database.ts'
import { ManualClock } from '../support/manual-clock.ts'

export const DAY = 86_400_000

let shared: Promise<Database> | null = null
let accounts = 0

/** Plans in bitcoin over the real challenges, with a provider and a clock that a test moves. */
export interface Fixture {
  readonly clock: ManualClock
  readonly database: Database
  readonly payee: FakePayee
  readonly merchants: Merchants
  readonly plans: BitcoinPlans
  readonly reminders: PlanReminders
  readonly pending: SqlAdminStore
  /** Mails whose transaction was committed, oldest first. */
  mails(): Promise<Mail[]>
  account(different?: Partial<CreateMerchant>): Promise<Merchant>
  /** Buys a plan with an account's key, or anonymously from an address of its own. */
  buy(merchant: Merchant | null, different?: Partial<BitcoinSubscriptionInput>): Promise<BitcoinSubscriptionView>
  /** The provider says that the invoice was paid. */
  settle(made: { readonly paymentHash: string }): Promise<void>
  /** The account as it is now. */
  now(merchant: Merchant): Promise<Merchant>
}

/** At `start`; the database is shared by the tests of one file, mails and accounts are not. */
export async function fixture(t: T, start = '2026-11-21T08:30:00.000Z'): Promise<Fixture> {
  const database = await (shared ??= openAnyDatabase(tap))
  const clock = new ManualClock(start)
  const { selling, payee } = fixtureOn(t, database, clock)
  const merchants = testMerchants(database, clock)
  const store = new BitcoinStore(database)
  const prices = new FixedPrices({ USD: '100000', EUR: '90000', GBP: '80000' }, clock)
  const invoices = new PlanInvoices({ ...selling, store, database, prices, clock, random: systemRandom })
  const pending = new SqlAdminStore(database)
  const common = {
    store,
    invoices,
    merchants,
    database,
    clock,
    log: silentLog,
    publicUrl: () => 'https://pay.example.com',
    payee: () => 'boltgate'
  }
  const plans = new BitcoinPlans({ ...common, pending, prices, random: systemRandom, caps: () => testPlans })
  selling.settlements.onSettled('subscription', challenge => plans.settled(challenge))
  // In the transaction, as the real outbox: what is rolled back was never sent.
  await database.sql`create table if not exists test_mails (n integer generated always as identity, run text not null, mail jsonb not null)`
  // What other tests of the file have left is never renewed.
  await database.sql`update bitcoin_subscriptions set state = 'replaced'`
  const run = `run-${++accounts}`
  const reminders = new PlanReminders({
    ...common,
    outbox: {
      queue: async (sql, mail) => {
        await sql`insert into test_mails (run, mail) values (${run}, ${sql.json({ ...mail })})`
      }
    }
  })
  return {
    clock,
    database,
    payee,
    merchants,
    plans,
    reminders,
    pending,
    mails: async () =>
      (await database.sql<{ mail: Mail }[]>`select mail from test_mails where run = ${run} order by n`).map(
        row => row.mail
      ),
    account: async (different = {}) =>
      (await merchants.create({ name: 'Acme', email: `acme-${++accounts}@example.com`, ...different })).merchant,
    buy: (merchant, different = {}) =>
      plans.create(
        { plan: 'individual', email: merchant?.email ?? `buyer-${++accounts}@example.com`, ...different },
        { merchant, client: freshAddress() }
      ),
    settle: ({ paymentHash }) => selling.settlements.settled(paymentHash),
    now: async ({ id }) => {
      const merchant = await merchants.byId(id)
      if (merchant === null) throw new Error('the account is gone')
      return merchant
    }
  }
}

/** Milliseconds as ISO 8601; null stays. */
export function iso(time: number | null): string | null {
  return time === null ? null : new Date(time).toISOString()
}
