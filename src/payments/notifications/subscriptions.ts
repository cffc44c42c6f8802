import type { Database } from '../../platform/database/database.ts'
import { integer, optional, records, text, moment, type Records } from '../../platform/database/rows.ts'
import type { SealedPlace } from '../../platform/keys/secrets.ts'
import type { ProviderSlot } from '../../lightning/providers/account.ts'
import type { KindName } from '../../lightning/provider-calls/provider.ts'

/** A merchant's id, or null for the operator. */
export type Owner = number | null

const OPERATOR = 'operator'

export function accountName(owner: Owner): string {
  return owner === null ? OPERATOR : String(owner)
}

/** Inverse of `accountName`; undefined for an invalid name. */
export function ownerOfName(name: string): Owner | undefined {
  if (name === OPERATOR) return null
  return /^[1-9]\d{0,8}$/.test(name) ? Number(name) : undefined
}

/** Our receiver at a provider, as last registered or attempted. Times in milliseconds since the epoch. */
export interface Subscription {
  readonly owner: Owner
  readonly slot: ProviderSlot
  readonly kind: KindName
  readonly url: string
  /** Sealed signing secret. */
  readonly secret: string
  /** Fingerprint of the key that registered it. */
  readonly keyMark: string
  readonly attemptId: string
  readonly attemptedAt: number
  /** The provider's id; null until it answered. */
  readonly subscriptionId: string | null
}

export interface SubscriptionStore {
  find(owner: Owner, slot: ProviderSlot, kind: KindName): Promise<Subscription | null>
  /** Replaces the attempt that the caller has read (null: none). Of concurrent callers exactly one gets true. */
  begin(attempt: Omit<Subscription, 'subscriptionId'>, seen: string | null): Promise<boolean>
  /** A no-op when a newer attempt has begun. */
  registered(
    attempt: Pick<Subscription, 'owner' | 'slot' | 'kind' | 'attemptId'>,
    subscriptionId: string,
    now: number
  ): Promise<void>
}

export function secretPlace(owner: Owner, slot: ProviderSlot): SealedPlace {
  return { table: 'provider_subscriptions', column: 'secret', row: `${accountName(owner)} ${slot}` }
}

const subscriptionRows: Records<Subscription> = records({
  owner: optional(integer('merchant_id')),
  slot: text<ProviderSlot>(),
  kind: text<KindName>(),
  url: text(),
  secret: text(),
  keyMark: text(),
  attemptId: text(),
  attemptedAt: moment(),
  subscriptionId: optional(text())
})

export class SqlSubscriptionStore implements SubscriptionStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async find(owner: Owner, slot: ProviderSlot, kind: KindName): Promise<Subscription | null> {
    return await subscriptionRows.one(this.#database.sql`
      select ${this.#database.sql(subscriptionRows.names)} from provider_subscriptions
      where merchant_id is not distinct from ${owner}::integer and slot = ${slot} and kind = ${kind}`)
  }

  async begin(attempt: Omit<Subscription, 'subscriptionId'>, seen: string | null): Promise<boolean> {
    const { owner, slot, kind, url, secret, keyMark, attemptId, attemptedAt } = attempt
    const { sql } = this.#database
    const at = new Date(attemptedAt)
    const written =
      seen === null
        ? await sql`
          insert into provider_subscriptions (merchant_id, slot, kind, url, secret, key_mark, attempt_id, attempted_at)
          values (${owner}, ${slot}, ${kind}, ${url}, ${secret}, ${keyMark}, ${attemptId}, ${at})
          on conflict do nothing`
        : await sql`
          update provider_subscriptions
          set url = ${url}, secret = ${secret}, key_mark = ${keyMark}, attempt_id = ${attemptId}, attempted_at = ${at},
            subscription_id = null, registered_at = null
          where merchant_id is not distinct from ${owner}::integer and slot = ${slot} and kind = ${kind} and attempt_id = ${seen}`
    return written.count === 1
  }

  async registered(
    { owner, slot, kind, attemptId }: Pick<Subscription, 'owner' | 'slot' | 'kind' | 'attemptId'>,
    subscriptionId: string,
    now: number
  ): Promise<void> {
    await this.#database.sql`
      update provider_subscriptions set subscription_id = ${subscriptionId}, registered_at = ${new Date(now)}
      where merchant_id is not distinct from ${owner}::integer and slot = ${slot} and kind = ${kind} and attempt_id = ${attemptId}`
  }
}
