import { testMerchants } from '../support/merchants.ts'
import { SqlAdminStore } from '../../src/web/admin/store.ts'
import type { PendingSubscription } from '../../src/web/admin/schema.ts'
import type { BilledSubscription } from '../../src/plans/provider.ts'
import { CardSubscriptionStore } from '../../src/plans/store.ts'
import { CardSubscriptions } from '../../src/plans/subscriptions.ts'
import type { Merchant } from '../../src/accounts/merchants/schema.ts'
import { Merchants, type CreateMerchant } from '../../src/accounts/merchants/service.ts'
import type { Database } from '../../src/platform/database/database.ts'
import { silentLog } from '../../src/platform/telemetry/log.ts'
import type { FakeStripe } from '../fakes/stripe.ts'
import { defaultYaml } from '../support/gateway.ts'
import { ManualClock } from '../support/manual-clock.ts'

export const DAY = 86_400_000

/** The default deployment with a fake of Stripe. */
export function stripeYaml({ url, key, webhookSecret, price }: FakeStripe): string {
  const billing = `billing: { kind: stripe, url: "${url}", key: "${key}", webhookSecret: "${webhookSecret}", prices: { individual: ${price} } }`
  return defaultYaml({ replace: [['billing:    { kind: sandbox }', billing]] })
}

/** A billing provider whose subscription statuses a test sets. */
export class ToldProvider {
  readonly subscriptions = new Map<string, BilledSubscription>()
  requests = 0
  /** Waited for between the moment at which a look is taken and its answer. */
  answering: (subscriptionId: string, look: number) => Promise<void> = async () => {}

  async subscription(subscriptionId: string): Promise<BilledSubscription | null> {
    const look = ++this.requests
    const seen = this.subscriptions.get(subscriptionId) ?? null
    await this.answering(subscriptionId, look)
    return seen
  }
}

/** Subscriptions by card over a database, with a scripted provider. */
export interface Fixture {
  readonly clock: ManualClock
  readonly provider: ToldProvider
  readonly merchants: Merchants
  readonly store: CardSubscriptionStore
  readonly pending: SqlAdminStore
  readonly cards: CardSubscriptions
  account(more?: Partial<CreateMerchant>): Promise<Merchant>
  /** The account as it is now. */
  merchant(id: number): Promise<Merchant>
  /** Sets a subscription's status at the provider; creates or changes it. */
  stands(different: Partial<BilledSubscription> & { readonly subscriptionId: string }): BilledSubscription
  /** Those that wait for approval, or did, by the id of their subscription. */
  pended(subscriptionId: string): Promise<PendingSubscription | null>
}

let count = 0

/** A fresh id of a subscription. */
export function subId(): string {
  return `sub_${++count}`
}

export function fixture(database: Database): Fixture {
  const clock = new ManualClock()
  const merchants = testMerchants(database, clock)
  const provider = new ToldProvider()
  const store = new CardSubscriptionStore(database)
  const pending = new SqlAdminStore(database)
  const cards = new CardSubscriptions({ provider, database, store, merchants, pending, clock, log: silentLog })
  return {
    clock,
    provider,
    merchants,
    store,
    pending,
    cards,
    account: async (more = {}) =>
      (await merchants.create({ name: 'Shop', email: `shop-${++count}@example.com`, ...more })).merchant,
    async merchant(id) {
      const merchant = await merchants.byId(id)
      if (merchant === null) throw new Error(`there is no merchant ${id}`)
      return merchant
    },
    stands(different) {
      const { subscriptionId } = different
      const before =
        provider.subscriptions.get(subscriptionId) ??
        ({
          subscriptionId,
          customerId: `cus_of_${subscriptionId}`,
          status: 'active',
          currentPeriodEnd: clock.now() + 30 * DAY,
          startedAt: clock.now(),
          plan: 'individual',
          merchantId: null,
          email: `buyer-of-${subscriptionId}@example.com`,
          customerName: null
        } as const)
      const made: BilledSubscription = { ...before, ...different }
      provider.subscriptions.set(subscriptionId, made)
      return made
    },
    pended: async subscriptionId =>
      (await pending.list(true)).find(one => one.billingSubscriptionId === subscriptionId) ?? null
  }
}
