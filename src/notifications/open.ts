import { ChallengeCharges } from '../challenges/charges.ts'
import type { Challenges } from '../challenges/service.ts'
import type { Database } from '../database/database.ts'
import { periodic, type Jobs } from '../jobs/jobs.ts'
import type { Sealer } from '../keys/secrets.ts'
import type { Merchants } from '../merchants/service.ts'
import { PaymentCharges } from '../payments/charges.ts'
import type { Payments } from '../payments/service.ts'
import type { ProviderSeatName } from '../payments/store.ts'
import type { ProviderSlot } from '../providers/account.ts'
import type { Polling } from '../providers/kind.ts'
import type { Payees } from '../providers/payees.ts'
import type { Clock } from '../system/clock.ts'
import type { Random } from '../system/ids.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { Charges } from './charges.ts'
import { notificationOperations } from './operations.ts'
import { PollMemory } from './poll-memory.ts'
import { pollRules } from './poll-rules.ts'
import { SqlPollStore } from './poll-store.ts'
import { Poller } from './poller.ts'
import { Registration, type RegisteredAccount } from './registration.ts'
import { Notifications } from './service.ts'
import { SqlSubscriptionStore } from './subscriptions.ts'

interface Around {
  readonly clock: Clock
  readonly database: Database
  readonly log: Log
  readonly payees: Payees
  readonly random: Random
}

/** What the accounts at providers are opened with. */
export interface OpenProviderAccountsParts extends Around {
  readonly metrics: Metrics
  readonly sealer: Sealer
  publicUrl(): string
}

/** What is kept of accounts at their providers. */
export type ProviderAccounts = ReturnType<typeof openProviderAccounts>

/**
 * Opens what is kept of accounts at their providers: where these were told to send notifications, and when they are
 * asked. Before the accounts themselves and before whoever makes invoices, since both tell it something; what comes of
 * it, `openNotifications` takes in, after them.
 */
export function openProviderAccounts(parts: OpenProviderAccountsParts) {
  const { clock, database, log, metrics, payees, publicUrl, random, sealer } = parts
  const registration = new Registration({
    store: new SqlSubscriptionStore(database),
    payees,
    sealer,
    clock,
    random,
    log,
    publicUrl
  })
  const store = new SqlPollStore(database)
  const memories = new Map<ProviderSlot, { readonly polling: Polling; readonly memory: PollMemory }>()
  for (const slot of ['primary', 'alternate'] as const) {
    const polling = payees.polling(slot)
    if (polling === null) continue
    memories.set(slot, {
      polling,
      memory: new PollMemory({ slot, kind: payees.provider(slot).kind, store, clock })
    })
  }
  metrics.sampled(
    'boltgate_provider_accounts_resting',
    'Accounts whose provider is not asked for a while what was paid: it refuses their key, or is away.',
    ['slot', 'reason'],
    async () =>
      (
        await Promise.all(
          [...memories].map(async ([slot, { memory }]) =>
            Object.entries(await memory.resting()).map(([reason, count]) => ({
              labels: { slot, reason },
              value: count
            }))
          )
        )
      ).flat()
  )
  return {
    registration,
    memories,
    /** An invoice was made for an account, null for the operator. Answers at once and never throws. */
    charged(account: RegisteredAccount | null, slot: ProviderSlot): void {
      registration.charged(account, slot)
    },
    /** Seats that a poller asks about. */
    polled: [...memories.keys()].map((slot): ProviderSeatName => `${slot} ${payees.provider(slot).kind}`),
    /**
     * An account's key was saved or has proved good: it is asked again at once. Logs what fails; it is asked again all
     * the same, later.
     */
    async keyIsGood(merchantId: number, slot: ProviderSlot): Promise<void> {
      try {
        await memories.get(slot)?.memory.wake(merchantId)
      } catch (error) {
        log.warn(
          { err: error, merchantId, slot },
          'an account could not be asked again at once; it is asked when its rest is over'
        )
      }
    },
    operations: [],
    jobs: [],
    close: () => registration.close()
  }
}

/** What receivers and pollers are opened with. */
export interface OpenNotificationsParts extends Around {
  readonly accounts: Pick<ProviderAccounts, 'registration' | 'memories'>
  readonly challenges: Challenges
  readonly jobs: Jobs
  readonly merchants: Merchants
  readonly payments: Payments
}

/** Opens the receivers of notifications and the pollers, which tell payments and challenges what was paid. */
export function openNotifications(parts: OpenNotificationsParts) {
  const { accounts, challenges, clock, database, jobs, log, merchants, payees, payments, random } = parts
  const ofPayments = new PaymentCharges(database)
  const ofChallenges = new ChallengeCharges(database)
  const charges = new Charges({ ofPayments, ofChallenges, payments, challenges })
  const merchant = (id: number): ReturnType<Merchants['byId']> => merchants.byId(id)
  const { registration } = accounts
  const notifications = new Notifications({
    database,
    clock,
    random,
    log,
    jobs,
    payees,
    charges,
    registration,
    merchant
  })
  const isTwice = payees.provider('primary').kind === payees.provider('alternate').kind
  const polls = [...accounts.memories].map(([slot, { polling, memory }]) => {
    const rules = pollRules(payees.provider(slot), polling, isTwice)
    const poller = new Poller({
      slot,
      rules,
      memory,
      clock,
      log,
      payees,
      charges,
      payments,
      ofPayments,
      ofChallenges,
      merchant
    })
    return periodic(
      `poll-${slot}`,
      rules.tick,
      `Asks the ${slot} provider for payments whose notification was lost`,
      signal => poller.run(signal),
      { expiry: 120_000 }
    )
  })
  return {
    operations: notificationOperations(notifications),
    jobs: [...notifications.jobs, ...polls],
    close: () => {}
  }
}
