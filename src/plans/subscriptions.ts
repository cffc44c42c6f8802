import type { AdminStore } from '../web/admin/store.ts'
import type { Merchants } from '../accounts/merchants/service.ts'
import type { SubscriptionFacts } from '../accounts/merchants/schema.ts'
import type { Clock } from '../platform/system/clock.ts'
import type { Database, TransactionSql } from '../platform/database/database.ts'
import type { Log } from '../platform/telemetry/log.ts'
import { currentSubscription, isLive } from './current.ts'
import type { BilledSubscription, BillingProvider } from './provider.ts'
import type { BeforeLook, CardSubscription, CardSubscriptionStore } from './store.ts'

/** What subscriptions by card are taken in with. */
export interface CardSubscriptionsParts {
  readonly provider: Pick<BillingProvider, 'subscription'>
  readonly database: Pick<Database, 'transaction'>
  readonly store: CardSubscriptionStore
  readonly merchants: Merchants
  readonly pending: Pick<AdminStore, 'insert'>
  readonly clock: Clock
  readonly log: Log
}

/** Looks in one call, where others begin later ones all the time. */
const LOOKS = 5

/** Each of them was overtaken by a later look. Whoever asked comes again. */
export class LooksOvertaken extends Error {
  override name = 'LooksOvertaken'
}

/**
 * Brings accounts up to date with the billing provider (decisions 77 and 171). What has happened is never believed from
 * a notification: each time the subscription is read anew and written whole, so that notifications may come twice, late
 * and in any order. Two looks at once are kept in order by tickets (see `CardSubscriptionStore`): the one that began
 * last writes, and one that was overtaken looks again.
 */
export class CardSubscriptions {
  readonly #parts: CardSubscriptionsParts

  constructor(parts: CardSubscriptionsParts) {
    this.#parts = parts
  }

  /**
   * Reads a subscription and writes what it is. Nothing is changed for one that the provider does not know, nor for one
   * that is no plan of ours and nobody's.
   * @throws BillingError, LooksOvertaken; errors of the database
   */
  async refresh(subscriptionId: string): Promise<void> {
    const { provider, database, store, log } = this.#parts
    for (let look = 0; look < LOOKS; look++) {
      const ticket = await store.ticket(subscriptionId)
      const seen = await provider.subscription(subscriptionId)
      if (seen === null) {
        log.warn({ subscriptionId }, 'the billing provider does not know a subscription that it was asked about')
        return
      }
      if (await database.transaction(tx => this.#write(tx, ticket, { ...seen, subscriptionId }))) return
    }
    throw new LooksOvertaken(`${LOOKS} looks at the subscription ${subscriptionId} were overtaken by later ones`)
  }

  /** False when the look was overtaken. */
  async #write(tx: TransactionSql, ticket: bigint, seen: BilledSubscription): Promise<boolean> {
    const { store } = this.#parts
    const before = await store.lock(tx, seen.subscriptionId, ticket)
    if (before === null) return false
    const merchantId = (await this.#merchantOf(tx, seen, before)) ?? (await this.#pend(tx, seen))
    if (merchantId === null || !(await store.lockMerchant(tx, merchantId))) await store.write(tx, seen, null)
    else await this.#apply(tx, seen, before, merchantId)
    return true
  }

  /** Whose subscription it is: as it was, as its checkout said, or whose account shows it. */
  async #merchantOf(tx: TransactionSql, seen: BilledSubscription, before: BeforeLook): Promise<number | null> {
    const { merchants, store, log } = this.#parts
    if (before.merchantId !== null) return before.merchantId
    if (seen.merchantId !== null && seen.plan === null) {
      // The same provider account may sell other things, whose metadata mean other things by the same name.
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
   * Nobody's yet: it waits for the administrator (decision 171). Answers the account of one that was approved, also of
   * one that is being approved at this moment, for which the insert waits.
   */
  async #pend(tx: TransactionSql, seen: BilledSubscription): Promise<number | null> {
    const { pending, store, clock, log } = this.#parts
    const { subscriptionId, plan, email } = seen
    const pended = await store.pended(tx, subscriptionId)
    if (plan === null) {
      log.info({ subscriptionId }, 'a subscription of the billing provider is to no plan of ours')
      return pended?.merchantId ?? null
    }
    // Over before anybody heard of it: there is nothing to approve.
    if (pended === null && !isLive(seen.status)) return null
    if (email === null) {
      log.error(
        { subscriptionId },
        'a subscription was bought by a customer without an email address, so it cannot wait for approval'
      )
      return pended?.merchantId ?? null
    }
    const waiting = await pending.insert(
      { email, customerName: seen.customerName, planTier: plan, ...factsOf(seen) },
      clock.now(),
      tx
    )
    return waiting.linkedMerchantId
  }

  async #apply(tx: TransactionSql, seen: BilledSubscription, before: BeforeLook, merchantId: number): Promise<void> {
    const { store, log } = this.#parts
    const merchants = this.#parts.merchants.within(tx)
    await store.write(tx, seen, merchantId)
    const merchant = await merchants.byId(merchantId)
    const subscriptions = await store.ofMerchant(merchantId, tx)
    const live = subscriptions.filter(({ status }) => isLive(status)).map(({ subscriptionId }) => subscriptionId)
    // Two checkouts can be opened before either is completed. Which of them is not wanted only people know.
    if (live.length > 1)
      log.error(
        { merchantId, subscriptions: live },
        'an account has several subscriptions by card, and all of them are charged: cancel those that are too many at the billing provider'
      )
    const current = merchant === null ? null : currentSubscription(merchant, subscriptions)
    if (merchant === null || current === null) return
    await merchants.setSubscription(merchantId, factsOf(current))
    const isNew =
      merchant.billingSubscriptionId !== current.subscriptionId ||
      (current.subscriptionId === seen.subscriptionId && before.plan !== seen.plan)
    // An administrator's choice of plan and flags stands until billing has something new to say (decision 77). The end
    // of a subscription changes no plan: the gate refuses for the status (decision 82), and on the free plan it would
    // not.
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
