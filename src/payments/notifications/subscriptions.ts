import type { Database } from '../../platform/database/database.ts'
import { integer, optional, records, text, moment, type Records } from '../../platform/database/rows.ts'
import type { SealedPlace } from '../../platform/keys/secrets.ts'
import type { ProviderSlot } from '../../lightning/providers/account.ts'
import type { KindName } from '../../lightning/providers/provider.ts'

/** Whose account at a provider: a merchant's, by its id, or the operator's own. */
export type Owner = number | null

const OPERATOR = 'operator'

/** An owner in addresses, names of jobs and the like. */
export function accountName(owner: Owner): string {
  return owner === null ? OPERATOR : String(owner)
}

/** Whose name it is; undefined for a text that is nobody's. */
export function ownerOfName(name: string): Owner | undefined {
  if (name === OPERATOR) return null
  return /^[1-9]\d{0,8}$/.test(name) ? Number(name) : undefined
}

/** A receiver of ours at a provider, as it was last registered or tried. Times in milliseconds since the epoch. */
export interface Subscription {
  readonly owner: Owner
  readonly slot: ProviderSlot
  readonly kind: KindName
  /** The address that the provider calls. */
  readonly url: string
  /** Sealed; signs what the provider sends there. */
  readonly secret: string
  /** Says which key it was registered with. */
  readonly keyMark: string
  readonly attemptId: string
  readonly attemptedAt: number
  /** The provider's own id; null while it has not answered. */
  readonly subscriptionId: string | null
}

/** Where registrations are kept: one row for each account at a provider of a slot. */
export interface SubscriptionStore {
  find(owner: Owner, slot: ProviderSlot, kind: KindName): Promise<Subscription | null>
  /**
   * Writes an attempt in the place of the one that the caller has seen (null: none). Of any number of callers that saw
   * the same, in any number of processes, one gets true.
   */
  begin(attempt: Omit<Subscription, 'subscriptionId'>, seen: string | null): Promise<boolean>
  /** Notes that an attempt succeeded; nothing when another has begun since. */
  registered(
    attempt: Pick<Subscription, 'owner' | 'slot' | 'kind' | 'attemptId'>,
    subscriptionId: string,
    now: number
  ): Promise<void>
}

/** Where a subscription's secret is sealed for. */
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

/** Registrations in the SQL database. */
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
