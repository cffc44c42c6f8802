import { SqlAdminStore } from '../admin/store.ts'
import type { OnApproved } from '../admin/schema.ts'
import { PlanInvoices } from '../billing/bitcoin/invoices.ts'
import { SqlBitcoinStore } from '../billing/bitcoin/store.ts'
import { BitcoinPlans } from '../billing/bitcoin/bitcoin.ts'
import { PlanReminders } from '../billing/reminders.ts'
import type { Challenges } from '../challenges/service.ts'
import type { Outbox } from '../mail/outbox.ts'
import type { Merchants } from '../merchants/service.ts'
import type { Quotes } from '../money/prices.ts'
import { systemRandom } from '../system/ids.ts'
import type { Jobs } from '../jobs/jobs.ts'
import type { Sealer } from '../keys/secrets.ts'
import type { Payees } from '../providers/payees.ts'
import { SignIns } from '../sign-in/service.ts'
import { SqlSignInStore } from '../sign-in/store.ts'
import type { Running, Surroundings } from './parts.ts'

/** What plans in bitcoin and signing in are composed from. */
export interface PlanParts {
  readonly challenges: Challenges
  readonly merchants: Merchants
  readonly payees: Payees
  readonly prices: Quotes
  readonly jobs: Jobs
  readonly outbox: Outbox
  readonly sealer: Sealer
}

/** What an approval sets off in its transaction, and the services behind it. */
export interface OpenedPlans {
  readonly bitcoinPlans: BitcoinPlans
  readonly signIns: SignIns
  readonly approved: OnApproved
}

/** Makes the services of plans paid in bitcoin and of signing in, and declares their jobs; before those are started. */
export function openPlans(
  parts: PlanParts,
  running: Running,
  { clock, log, database, publicUrl }: Surroundings
): OpenedPlans {
  const { challenges, merchants, payees, prices, jobs, outbox, sealer } = parts
  const store = new SqlBitcoinStore(database)
  const random = systemRandom
  const invoices = new PlanInvoices({ challenges, store, database, prices, clock, random })
  const expiry = (): number => running.config.payments.expiry[payees.platform().slot]
  const payee = (): string => running.config.payment.serviceName
  const bitcoinPlans = new BitcoinPlans({
    store,
    invoices,
    pending: new SqlAdminStore(database),
    database,
    merchants,
    prices,
    clock,
    random,
    log,
    publicUrl,
    expiry,
    payee,
    caps: () => running.config.plans,
    sold: amountSats => {
      challenges.counters.payment('subscription', 'invoice', amountSats)
    }
  })
  challenges.onSettled('subscription', challenge => bitcoinPlans.settled(challenge))
  const reminders = new PlanReminders({
    store,
    invoices,
    outbox,
    merchants,
    database,
    clock,
    log,
    publicUrl,
    expiry,
    payee
  })
  const signIns = new SignIns({
    store: new SqlSignInStore(database),
    database,
    merchants,
    jobs,
    outbox,
    sealer,
    clock,
    random,
    log,
    publicUrl
  })
  jobs.declare([...reminders.jobs, ...signIns.jobs])
  return {
    bitcoinPlans,
    signIns,
    approved: async (sql, approval) => {
      await bitcoinPlans.approved(sql, approval)
      await signIns.invite(sql, approval)
    }
  }
}
