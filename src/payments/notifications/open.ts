import { ChallengeCharges } from '../../selling/minting/charges.ts'
import type { Challenges } from '../../selling/challenges/service.ts'
import type { Database } from '../../platform/database/database.ts'
import { periodic, type Jobs } from '../../platform/jobs/jobs.ts'
import type { Sealer } from '../../platform/keys/secrets.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import { PaymentCharges } from '../payments/charges.ts'
import type { Payments } from '../payments/service.ts'
import type { ProviderSeatName } from '../payments/store.ts'
import type { ProviderSlot } from '../../lightning/providers/account.ts'
import type { Recoveries } from '../../lightning/providers/recoveries.ts'
import type { KindName } from '../../lightning/providers/provider.ts'
import type { Payees } from '../../lightning/providers/payees.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Random } from '../../platform/system/ids.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import { Charges } from './charges.ts'
import { notificationOperations } from './operations.ts'
import { PollMemory } from './poll-memory.ts'
import { pollRules } from './poll-rules.ts'
import { SqlPollStore } from './poll-store.ts'
import { Poller } from './poller.ts'
import { Registration, type RegisteredAccount } from './registration.ts'
import { Notifications } from './service.ts'
import { Streams } from './streams.ts'
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
  const memories = (['primary', 'alternate'] as const).flatMap(slot =>
    payees
      .inOrder(slot)
      .flatMap(({ polling, ...seat }) =>
        polling === null
          ? []
          : [{ seat, slot, polling, memory: new PollMemory({ slot, kind: seat.name, store, clock }) }]
      )
  )
  metrics.sampled(
    'boltgate_provider_accounts_resting',
    'Accounts whose provider is not asked for a while what was paid: it refuses their key, or is away.',
    ['slot', 'reason'],
    async () =>
      (
        await Promise.all(
          memories.map(async ({ slot, memory }) =>
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
    charged(account: RegisteredAccount | null, slot: ProviderSlot, kind: KindName): void {
      registration.charged(account, slot, kind)
    },
    /** Seats that a poller asks about. */
    polled: memories.map(({ slot, seat }): ProviderSeatName => `${slot} ${seat.name}`),
    /**
     * An account's key was saved or has proved good: it is asked again at once. Logs what fails; it is asked again all
     * the same, later.
     */
    async keyIsGood(merchantId: number, slot: ProviderSlot): Promise<void> {
      try {
        for (const each of memories) if (each.slot === slot) await each.memory.wake(merchantId)
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
  readonly recoveries: Recoveries
}

/** Opens the receivers of notifications and the pollers, which tell payments and challenges what was paid. */
export function openNotifications(parts: OpenNotificationsParts) {
  const { accounts, challenges, clock, database, jobs, log, merchants, payees, payments, random, recoveries } = parts
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
  const { memories } = accounts
  const polls = memories.map(({ slot, seat: { name, provider }, polling, memory }) => {
    const sharers = memories.filter(({ seat }) => seat.provider.kind === provider.kind).length
    const rules = pollRules(provider, polling, sharers)
    const streams = new Streams({ slot, kind: name, provider, database, clock, log, payees, charges, merchant })
    const poller = new Poller({
      slot,
      kind: name,
      provider,
      rules,
      memory,
      clock,
      log,
      payees,
      charges,
      payments,
      ofPayments,
      ofChallenges,
      streams,
      merchant
    })
    // Of several in a slot each has its own; an only one keeps the name that it always had.
    const job = payees.inOrder(slot).length === 1 ? `poll-${slot}` : `poll-${slot}-${name}`
    return { slot, name, poller, streams, job, rules }
  })
  const under = new Set<Promise<void>>()
  recoveries.listen((slot, name, host) => {
    for (const { poller, job } of polls.filter(each => each.slot === slot && each.name === name)) {
      const asked = hasten(poller, job, host).finally(() => under.delete(asked))
      under.add(asked)
    }
  })
  const hasten = async (poller: Poller, job: string, host: string): Promise<void> => {
    try {
      if (await poller.recovered(host)) await jobs.hasten(job)
    } catch (error) {
      log.warn({ err: error, job }, 'an account could not be asked again at once; it is asked when its rest is over')
    }
  }
  return {
    operations: notificationOperations(notifications),
    jobs: [
      ...notifications.jobs,
      ...polls.map(({ slot, name, poller, job, rules }) =>
        periodic(
          job,
          rules.tick,
          `Asks the ${slot} provider ${name} for payments whose notification was lost`,
          signal => poller.run(signal),
          { expiry: 120_000 }
        )
      )
    ],
    close: async () => {
      await Promise.all([...under, ...polls.map(({ streams }) => streams.close())])
    }
  }
}
