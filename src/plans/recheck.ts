import { LRUCache } from 'lru-cache'
import type { Merchant } from '../accounts/merchants/schema.ts'
import type { Clock } from '../platform/system/clock.ts'
import type { Log } from '../platform/telemetry/log.ts'
import { isLive } from './current.ts'
import { isCardSubscription } from './provider.ts'
import type { CardSubscriptionStore } from './store.ts'
import type { CardSubscriptions } from './subscriptions.ts'

export interface RecheckParts {
  readonly subscriptions: Pick<CardSubscriptions, 'refresh'>
  readonly store: Pick<CardSubscriptionStore, 'ofMerchant'>
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
  readonly #parts: RecheckParts
  readonly #asked = new LRUCache<number, number>({ max: ACCOUNTS })
  readonly #underWay = new Map<number, Promise<Merchant | null>>()

  constructor(parts: RecheckParts) {
    this.#parts = parts
  }

  /** The account after a lookup; null without a subscription, or without an answer in time. */
  ask(merchant: Merchant): Promise<Merchant | null> {
    const { id } = merchant
    const now = this.#parts.clock.now()
    const begun = this.#underWay.get(id)
    if (begun !== undefined) return begun
    if (now - (this.#asked.get(id) ?? -Infinity) < PAUSE) return Promise.resolve(null)
    this.#asked.set(id, now)
    const asking = this.#inTime(this.#ask(merchant)).finally(() => {
      this.#underWay.delete(id)
    })
    this.#underWay.set(id, asking)
    return asking
  }

  async #ask(merchant: Merchant): Promise<Merchant | null> {
    const { subscriptions, merchants, log } = this.#parts
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
    return (await this.#parts.store.ofMerchant(id)).find(({ status }) => isLive(status))?.subscriptionId ?? null
  }

  #inTime(asking: Promise<Merchant | null>): Promise<Merchant | null> {
    const { clock } = this.#parts
    const late = Promise.withResolvers<null>()
    const timer = clock.after(PATIENCE, () => {
      late.resolve(null)
    })
    return Promise.race([asking, late.promise]).finally(() => {
      timer.cancel()
    })
  }
}
