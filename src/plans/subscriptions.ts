import type { SqlAdminStore } from '../web/admin/store.ts'
import type { Merchants } from '../accounts/merchants/service.ts'
import type { SubscriptionFacts, Merchant } from '../accounts/merchants/schema.ts'
import { inTime, type Clock } from '../platform/system/clock.ts'
import type { Database, TransactionSql } from '../platform/database/database.ts'
import type { Log } from '../platform/telemetry/log.ts'
import {
  currentSubscription,
  isLive,
  type BeforeLookup,
  type CardSubscription,
  type CardSubscriptionStore
} from './store.ts'
import { type BilledSubscription, type BillingProvider, isCardSubscription } from './provider.ts'
import { LRUCache } from 'lru-cache'

interface CardSubscriptionsOptions {
  readonly provider: Pick<BillingProvider, 'subscription'>
  readonly database: Database
  readonly store: CardSubscriptionStore
  readonly merchants: Merchants
  readonly pending: SqlAdminStore
  readonly clock: Clock
  readonly log: Log
}

/** Attempts in one call, while later lookups overtake them. */
const LOOKUPS = 5

/** Each attempt was overtaken by a later lookup. The caller retries. */
export class LookupsOvertaken extends Error {
  override name = 'LookupsOvertaken'
}

/**
 * Updates accounts from the billing provider (decisions 77 and 171). A notification only triggers a lookup, whose
 * result is written whole: notifications may be repeated, late and reordered. Tickets order concurrent lookups (see
 * `CardSubscriptionStore`): the latest writes, others repeat theirs.
 */
export class CardSubscriptions {
  readonly #options: CardSubscriptionsOptions

  constructor(options: CardSubscriptionsOptions) {
    this.#options = options
  }

  /**
   * Looks up a subscription and writes its state. Ignores one that the provider does not know, and one that is neither
   * of our plans nor of an account.
   * @throws BillingError, LookupsOvertaken; errors of the database
   */
  async refresh(subscriptionId: string): Promise<void> {
    const { provider, database, store, log } = this.#options
    for (let look = 0; look < LOOKUPS; look++) {
      const ticket = await store.ticket(subscriptionId)
      const seen = await provider.subscription(subscriptionId)
      if (seen === null) {
        log.warn({ subscriptionId }, 'the billing provider does not know a subscription that it was asked about')
        return
      }
      if (await database.transaction(tx => this.#write(tx, ticket, { ...seen, subscriptionId }))) return
    }
    throw new LookupsOvertaken(`${LOOKUPS} looks at the subscription ${subscriptionId} were overtaken by later ones`)
  }

  async #write(tx: TransactionSql, ticket: bigint, seen: BilledSubscription): Promise<boolean> {
    const { store } = this.#options
    const before = await store.lock(tx, seen.subscriptionId, ticket)
    if (before === null) return false
    const merchantId = (await this.#merchantOf(tx, seen, before)) ?? (await this.#pend(tx, seen))
    if (merchantId === null || !(await store.lockMerchant(tx, merchantId))) await store.write(tx, seen, null)
    else await this.#apply(tx, seen, before, merchantId)
    return true
  }

  /** The account: as stored, from the checkout's metadata, or the one that shows it. */
  async #merchantOf(tx: TransactionSql, seen: BilledSubscription, before: BeforeLookup): Promise<number | null> {
    const { merchants, store, log } = this.#options
    if (before.merchantId !== null) return before.merchantId
    if (seen.merchantId !== null && seen.plan === null) {
      // Other products of the provider account may use the same metadata names.
      log.warn(
        { subscriptionId: seen.subscriptionId, merchantId: seen.merchantId },
        'a subscription names an account, and its price is no plan of ours; the account does not get it'
      )
    } else if (seen.merchantId !== null) {
      if ((await merchants.within(tx).byId(seen.merchantId)) !== null) return seen.merchantId
      log.error(
        { subscriptionId: seen.subscriptionId, merchantId: seen.merchantId },
        'a subscription names an account that does not exist'
      )
    }
    return await store.merchantWith(tx, seen.subscriptionId)
  }

  /**
   * Without an account it waits for the administrator (decision 171). Returns the account of an approved one, also of
   * an approval in progress, for which the insert waits.
   */
  async #pend(tx: TransactionSql, seen: BilledSubscription): Promise<number | null> {
    const { pending, store, clock, log } = this.#options
    const { subscriptionId, plan, email } = seen
    const pendingPlan = await store.pendingPlan(tx, subscriptionId)
    if (plan === null) {
      log.info({ subscriptionId }, 'a subscription of the billing provider is to no plan of ours')
      return pendingPlan?.merchantId ?? null
    }
    // Ended before it was first reported: nothing to approve.
    if (pendingPlan === null && !isLive(seen.status)) return null
    if (email === null) {
      log.error(
        { subscriptionId },
        'a subscription was bought by a customer without an email address, so it cannot wait for approval'
      )
      return pendingPlan?.merchantId ?? null
    }
    const waiting = await pending.insert(
      { email, customerName: seen.customerName, planTier: plan, ...factsOf(seen) },
      clock.now(),
      tx
    )
    return waiting.linkedMerchantId
  }

  async #apply(tx: TransactionSql, seen: BilledSubscription, before: BeforeLookup, merchantId: number): Promise<void> {
    const { store, log } = this.#options
    const merchants = this.#options.merchants.within(tx)
    await store.write(tx, seen, merchantId)
    const merchant = await merchants.byId(merchantId)
    const subscriptions = await store.ofMerchant(merchantId, tx)
    const live = subscriptions.filter(({ status }) => isLive(status)).map(({ subscriptionId }) => subscriptionId)
    // Two checkouts can be open concurrently; only people know which one is unwanted.
    if (live.length > 1)
      log.error(
        { merchantId, subscriptions: live },
        'an account has several subscriptions by card, and all of them are charged: cancel those that are too many at the billing provider'
      )
    const current = merchant === null ? null : currentSubscription(merchant, subscriptions)
    if (merchant === null || current === null) return
    await merchants.change(merchantId, factsOf(current))
    const isNew =
      merchant.billingSubscriptionId !== current.subscriptionId ||
      (current.subscriptionId === seen.subscriptionId && before.plan !== seen.plan)
    // An administrator's plan and flags stay until billing reports a change (decision 77). The end of a subscription
    // keeps the plan: the gate refuses by status (decision 82), which it would not on the free plan.
    if (current.plan === null)
      log.warn(
        { merchantId, subscriptionId: current.subscriptionId },
        'the price of a subscription is no plan of ours; the account keeps its plan'
      )
    else if (isNew && isLive(current.status) && merchant.tier !== current.plan)
      await merchants.setTier(merchantId, current.plan)
  }
}

function factsOf({
  subscriptionId,
  customerId,
  status,
  currentPeriodEnd
}: BilledSubscription | CardSubscription): SubscriptionFacts {
  return {
    subscriptionStatus: status,
    currentPeriodEnd,
    billingCustomerId: customerId,
    billingSubscriptionId: subscriptionId
  }
}

interface RecheckOptions {
  readonly subscriptions: CardSubscriptions
  readonly store: CardSubscriptionStore
  readonly merchants: { byId(id: number): Promise<Merchant | null> }
  readonly clock: Clock
  readonly log: Log
}

/** Milliseconds that a request waits for the billing provider. A later result is still stored, for the next request. */
const PATIENCE = 3_000
/** Milliseconds between two requests about one account. */
const PAUSE = 60_000
/** Accounts that are remembered; evicted ones may be asked about again. */
const ACCOUNTS = 10_000

/**
 * The lookup that the subscription gate makes before it refuses an ended period, since the notification of a renewal
 * may be minutes late (decision 83). Concurrent requests share it, and each process asks at most once a minute per
 * account. Never rejects: without a result the stored state decides.
 */
export class Recheck {
  readonly #options: RecheckOptions
  readonly #checkedAt = new LRUCache<number, number>({ max: ACCOUNTS })
  readonly #inFlight = new Map<number, Promise<Merchant | null>>()

  constructor(options: RecheckOptions) {
    this.#options = options
  }

  /** The account after a lookup; null without a subscription, or without an answer in time. */
  ask(merchant: Merchant): Promise<Merchant | null> {
    const { id } = merchant
    const now = this.#options.clock.now()
    const begun = this.#inFlight.get(id)
    if (begun !== undefined) return begun
    if (now - (this.#checkedAt.get(id) ?? -Infinity) < PAUSE) return Promise.resolve(null)
    this.#checkedAt.set(id, now)
    const pending = inTime(this.#options.clock, PATIENCE, this.#ask(merchant), null).finally(() => {
      this.#inFlight.delete(id)
    })
    this.#inFlight.set(id, pending)
    return pending
  }

  async #ask(merchant: Merchant): Promise<Merchant | null> {
    const { subscriptions, merchants, log } = this.#options
    try {
      const subscriptionId = await this.#subscriptionOf(merchant)
      if (subscriptionId === null) return null
      await subscriptions.refresh(subscriptionId)
      return await merchants.byId(merchant.id)
    } catch (error) {
      log.warn({ err: error, merchantId: merchant.id }, 'the billing provider could not be asked about an ended period')
      return null
    }
  }

  /** The account's subscription, else a card subscription assigned to it. */
  async #subscriptionOf({ id, billingSubscriptionId }: Merchant): Promise<string | null> {
    if (billingSubscriptionId !== null && isCardSubscription(billingSubscriptionId)) return billingSubscriptionId
    return (await this.#options.store.ofMerchant(id)).find(({ status }) => isLive(status))?.subscriptionId ?? null
  }
}
