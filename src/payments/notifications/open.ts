import { ChallengeCharges } from '../../selling/minting/charges.ts'
import type { Settlements } from '../../selling/holding/settlements.ts'
import type { Database } from '../../platform/database/database.ts'
import { periodic, type Jobs } from '../../platform/jobs/jobs.ts'
import type { Sealer } from '../../platform/keys/secrets.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import { PaymentCharges } from '../payments/charges.ts'
import type { Payments } from '../payments/service.ts'
import type { ProviderEvents } from '../../lightning/providers/events.ts'
import type { Payees } from '../../lightning/providers/payees.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Random } from '../../platform/system/ids.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import { Charges } from './charges.ts'
import { notificationOperations } from './operations.ts'
import { PollMemory } from './poll-store.ts'
import { pollRules, Poller } from './poller.ts'
import { Registration, SubscriptionStore } from './registration.ts'
import { Notifications } from './service.ts'
import { Streams } from './streams.ts'

export function openNotifications(dependencies: {
  readonly clock: Clock
  readonly database: Database
  readonly events: ProviderEvents
  readonly jobs: Jobs
  readonly log: Log
  readonly merchants: Merchants
  readonly metrics: Metrics
  readonly payees: Payees
  readonly payments: Payments
  readonly random: Random
  readonly sealer: Sealer
  readonly settlements: Settlements
  publicUrl(): string
}) {
  const { clock, database, events, jobs, log, metrics, payees } = dependencies
  const registration = new Registration({ ...dependencies, store: new SubscriptionStore(database) })
  const memories = (['primary', 'alternate'] as const).flatMap(slot =>
    payees
      .inOrder(slot)
      .flatMap(({ polling, ...seat }) =>
        polling === null
          ? []
          : [{ seat, slot, polling, memory: new PollMemory({ slot, kind: seat.name, database, clock }) }]
      )
  )
  metrics.sampled(
    'boltgate_provider_accounts_resting',
    'Accounts whose payments are not polled for a while, because the provider rejects their key or is down.',
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
  events.listen({
    charged(account, slot, kind) {
      registration.charged(account, slot, kind)
    },
    /** Polls the account without waiting out its backoff. */
    async keyIsGood(merchantId, slot) {
      try {
        for (const each of memories) if (each.slot === slot) await each.memory.wake(merchantId)
      } catch (error) {
        log.warn(
          { err: error, merchantId, slot },
          'an account could not be polled early; its next poll is as scheduled'
        )
      }
    }
  })
  const ofPayments = new PaymentCharges(database)
  const ofChallenges = new ChallengeCharges(database)
  const charges = new Charges({ ...dependencies, ofPayments, ofChallenges })
  const notifications = new Notifications({ ...dependencies, charges, registration })
  const polls = memories.map(({ slot, seat: { name, provider }, polling, memory }) => {
    const sharers = memories.filter(({ seat }) => seat.provider.kind === provider.kind).length
    const rules = pollRules(provider, polling, sharers)
    const seat = { ...dependencies, slot, kind: name, provider, charges }
    const streams = new Streams(seat)
    const poller = new Poller({ ...seat, rules, memory, ofPayments, ofChallenges, streams })
    // A single provider keeps its old job name.
    const job = payees.inOrder(slot).length === 1 ? `poll-${slot}` : `poll-${slot}-${name}`
    return { slot, name, poller, streams, job, rules }
  })
  const under = new Set<Promise<void>>()
  events.listen({
    recovered(slot, name, host) {
      for (const { poller, job } of polls.filter(each => each.slot === slot && each.name === name)) {
        const check = hasten(poller, job, host).finally(() => under.delete(check))
        under.add(check)
      }
    }
  })
  const hasten = async (poller: Poller, job: string, host: string): Promise<void> => {
    try {
      if (await poller.recovered(host)) await jobs.hasten(job)
    } catch (error) {
      log.warn({ err: error, job }, 'an account could not be polled again immediately; it is polled after its pause')
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
      await Promise.all([registration.close(), ...under, ...polls.map(({ streams }) => streams.close())])
    }
  }
}
