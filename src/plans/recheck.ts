import { LRUCache } from 'lru-cache'
import type { Merchant } from '../accounts/merchants/schema.ts'
import type { Clock } from '../platform/system/clock.ts'
import type { Log } from '../platform/telemetry/log.ts'
import { isLive } from './current.ts'
import { isCardSubscription } from './provider.ts'
import type { CardSubscriptionStore } from './store.ts'
import type { CardSubscriptions } from './subscriptions.ts'

/** What a recheck asks. */
export interface RecheckParts {
  readonly subscriptions: Pick<CardSubscriptions, 'refresh'>
  readonly store: Pick<CardSubscriptionStore, 'ofMerchant'>
  readonly merchants: { byId(id: number): Promise<Merchant | null> }
  readonly clock: Clock
  readonly log: Log
}

/**
 * Milliseconds that a request waits for the billing provider. What comes later is written all the same, for the next
 * one.
 */
const PATIENCE = 3_000
/** Milliseconds between two questions about one account, whatever came of the first. */
const PAUSE = 60_000
/** Accounts that are remembered; of more, the provider is asked about some once more. */
const ACCOUNTS = 10_000

/**
 * The look that the subscription gate takes before it refuses for an ended period, since the news of the renewal may be
 * minutes late (decision 83). Of many requests at once one asks and the others wait for it; then nobody asks for a
 * minute, in this process. It never rejects: an account that cannot be looked up is judged by what is known.
 */
export class Recheck {
  readonly #parts: RecheckParts
  readonly #asked = new LRUCache<number, number>({ max: ACCOUNTS })
  readonly #underWay = new Map<number, Promise<Merchant | null>>()

  constructor(parts: RecheckParts) {
    this.#parts = parts
  }

  /** The account after one look at its subscription; null when there was none to look at, or no answer in time. */
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

  /** What the account shows; where that is nothing of the provider's, a card that was put behind it. */
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
