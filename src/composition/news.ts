import { ChallengeCharges } from '../challenges/charges.ts'
import type { Challenges } from '../challenges/service.ts'
import type { GatewayConfig } from '../config/schema.ts'
import type { Merchants } from '../merchants/service.ts'
import { Charges } from '../notifications/charges.ts'
import { pollRules } from '../notifications/poll-rules.ts'
import { SqlPollStore } from '../notifications/poll-store.ts'
import { Poller } from '../notifications/poller.ts'
import type { Registration } from '../notifications/registration.ts'
import { Notifications } from '../notifications/service.ts'
import { PaymentCharges } from '../payments/charges.ts'
import type { Payments } from '../payments/service.ts'
import type { ProviderSeatName } from '../payments/store.ts'
import { systemRandom } from '../system/ids.ts'
import { periodic, type Jobs } from '../jobs/jobs.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { ProviderSlot } from '../providers/account.ts'
import type { Payees } from '../providers/payees.ts'
import type { Surroundings } from './parts.ts'

/** What news of payments are told to, and asked with. */
export interface NewsParts {
  readonly challenges: Challenges
  readonly payments: Payments
  readonly merchants: Merchants
  readonly payees: Payees
  readonly registration: Registration
  readonly jobs: Jobs
  readonly metrics: Metrics
}

/** How the gateway hears what was paid at providers. */
export interface News {
  readonly notifications: Notifications
  /** Seats that a poller asks about. */
  readonly polled: readonly ProviderSeatName[]
  /**
   * An account's key was saved or has proved good: it is asked again at once. Logs what fails; it is asked again all
   * the same, later.
   */
  keyIsGood(merchantId: number, slot: ProviderSlot): Promise<void>
}

/** Makes the receivers and the pollers, and declares their jobs; before the jobs start. */
export function openNews(
  { challenges, payments, merchants, payees, registration, jobs, metrics }: NewsParts,
  config: GatewayConfig,
  { database, clock, log }: Surroundings
): News {
  const ofPayments = new PaymentCharges(database)
  const ofChallenges = new ChallengeCharges(database)
  const charges = new Charges({ ofPayments, ofChallenges, payments, challenges })
  const merchant = (id: number): ReturnType<Merchants['byId']> => merchants.byId(id)
  const notifications = new Notifications({
    database,
    clock,
    random: systemRandom,
    log,
    jobs,
    payees,
    charges,
    registration,
    merchant
  })
  jobs.declare(notifications.jobs)
  const { primary, alternate } = config.lightning
  const pollers = new Map<ProviderSlot, Poller>()
  for (const slot of ['primary', 'alternate'] as const) {
    const polling = payees.polling(slot)
    if (polling === null) continue
    const rules = pollRules(payees.provider(slot), polling, primary.kind === alternate.kind)
    const poller = new Poller({
      slot,
      rules,
      store: new SqlPollStore(database),
      clock,
      log,
      payees,
      charges,
      payments,
      ofPayments,
      ofChallenges,
      merchant
    })
    pollers.set(slot, poller)
    jobs.declare([
      periodic(
        `poll-${slot}`,
        rules.tick,
        `Asks the ${slot} provider for payments whose notification was lost`,
        signal => poller.run(signal),
        { expiry: 120_000 }
      )
    ])
  }
  metrics.sampled(
    'boltgate_provider_accounts_resting',
    'Accounts whose provider is not asked for a while what was paid: it refuses their key, or is away.',
    ['slot', 'reason'],
    async () =>
      (
        await Promise.all(
          [...pollers].map(async ([slot, poller]) =>
            Object.entries(await poller.resting()).map(([reason, count]) => ({
              labels: { slot, reason },
              value: count
            }))
          )
        )
      ).flat()
  )
  return {
    notifications,
    polled: [...pollers.keys()].map((slot): ProviderSeatName => `${slot} ${payees.provider(slot).kind}`),
    keyIsGood: async (merchantId, slot) => {
      try {
        await pollers.get(slot)?.wake(merchantId)
      } catch (error) {
        log.warn(
          { err: error, merchantId, slot },
          'an account could not be asked again at once; it is asked when its rest is over'
        )
      }
    }
  }
}
