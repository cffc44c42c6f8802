import type { Merchants } from '../../accounts/merchants/service.ts'
import type { ChargedAccount } from '../../lightning/providers/events.ts'
import { createHmac } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../../platform/system/clock.ts'
import { freshId, randomToken, type Random } from '../../platform/system/ids.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { Secret, UnsealError, type Sealer, type SealedPlace } from '../../platform/keys/secrets.ts'
import type { ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import type { Payees } from '../../lightning/providers/payees.ts'
import type { Provider, KindName } from '../../lightning/provider-calls/provider.ts'
import type { Database } from '../../platform/database/database.ts'
import { integer, optional, records, text, moment, type RecordOf } from '../../platform/database/rows.ts'

/**
 * The key of an account, null without one; or of the operator.
 * @throws UnsealError
 */
export async function ownerKey(
  owner: Owner,
  { slot, kind }: RegisteredSeat,
  { merchants, payees }: { readonly merchants: Pick<Merchants, 'byId'>; readonly payees: Payees }
): Promise<Secret<string> | null> {
  const account = owner === null ? null : await merchants.byId(owner)
  return owner !== null && account === null ? null : payees.key(account, slot, kind)
}

interface RegisteredSeat {
  readonly slot: ProviderSlot
  readonly kind: KindName
}

interface RegistrationDependencies {
  readonly store: SubscriptionStore
  readonly payees: Payees
  readonly sealer: Sealer
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  publicUrl(): string
}

type Subscribing = Provider & Required<Pick<Provider, 'subscribe'>>

/** Milliseconds between attempts with one key. */
const PAUSE = 600_000
/** Milliseconds for which a registration is cached; bounds the delay of another process's change. */
const CACHE_TTL = 3_600_000
const REMEMBERED = 10_000

/**
 * Registers our receiver at a provider at an account's first charge, and after its key or our address changes
 * (contract, Merchant self-service: Validation rules). The attempt is written first, so that concurrent charges
 * register once. A failed attempt is retried with a later charge, at most every 10 minutes; the poller covers the gap.
 * Charges never wait for it. The secret is reused, since the provider may still call the former registration.
 */
export class Registration {
  readonly #dependencies: RegistrationDependencies
  readonly #remembered = new LRUCache<string, { readonly key: string; readonly until: number }>({ max: REMEMBERED })
  readonly #running = new Map<string, Promise<void>>()
  #closed = false

  constructor(dependencies: RegistrationDependencies) {
    this.#dependencies = dependencies
  }

  /** Called for each invoice; null account: the operator. Does not block and never throws. */
  charged(account: ChargedAccount | null, slot: ProviderSlot, kind: KindName): void {
    const { payees, clock } = this.#dependencies
    const provider = payees.provider(slot, kind)
    if (provider === null || !subscribes(provider) || this.#closed) return
    const id = `${accountName(account?.id ?? null)} ${slot} ${kind}`
    // The ciphertext changes with each save, so an unchanged key is detected without unsealing.
    const key = (slot === 'primary' ? account?.primaryKey : account?.alternateKey)?.ciphertext ?? ''
    const remembered = this.#remembered.get(id)
    if (this.#running.has(id) || (remembered !== undefined && remembered.key === key && remembered.until > clock.now()))
      return
    this.#running.set(id, this.#run(provider, account, { slot, kind }, id, key))
  }

  /**
   * Secret that signs notifications to the account's receiver; null without a registration.
   * @throws UnsealError
   */
  async secretOf(owner: Owner, slot: ProviderSlot, kind: KindName): Promise<Secret<string> | null> {
    const row = await this.#dependencies.store.find(owner, slot, kind)
    return row === null ? null : this.#dependencies.sealer.open(row.secret, secretPlace(owner, slot))
  }

  async close(): Promise<void> {
    this.#closed = true
    await Promise.all(this.#running.values())
  }

  async #run(
    provider: Subscribing,
    account: ChargedAccount | null,
    seat: RegisteredSeat,
    id: string,
    key: string
  ): Promise<void> {
    const { clock, log } = this.#dependencies
    let until = clock.now() + PAUSE
    try {
      until = await this.#register(provider, account, seat)
    } catch (error) {
      const fields = { err: error, merchantId: account?.id ?? null, slot: seat.slot, provider: seat.kind }
      log.warn(
        fields,
        'the receiver of notifications could not be registered; until it is, payments are found by polling'
      )
    } finally {
      this.#remembered.set(id, { key, until })
      this.#running.delete(id)
    }
  }

  async #register(
    provider: Subscribing,
    account: ChargedAccount | null,
    { slot, kind }: RegisteredSeat
  ): Promise<number> {
    const { store, payees, sealer, clock, log } = this.#dependencies
    const owner = account?.id ?? null
    const key = payees.key(account, slot, kind)
    if (key === null) return clock.now() + PAUSE
    // Names the receiver, for providers that send each receiver the events of the whole account (`Notifications`).
    const url = `${this.#dependencies.publicUrl()}/api/webhooks/${slot}?account=${accountName(owner)}`
    const row = await store.find(owner, slot, kind)
    const secret = this.#secretFor(row) ?? new Secret(randomToken(32, this.#dependencies.random))
    const keyMark = markOf(key, secret)
    if (row !== null && row.url === url && row.keyMark === keyMark) {
      if (row.subscriptionId !== null) return clock.now() + CACHE_TTL
      if (row.attemptedAt + PAUSE > clock.now()) return row.attemptedAt + PAUSE
    }
    const attempt = {
      owner,
      slot,
      kind,
      url,
      keyMark,
      attemptId: freshId(),
      attemptedAt: clock.now(),
      secret: sealer.seal(secret.reveal(), secretPlace(owner, slot))
    }
    // Another process won the race; its row is read after the pause.
    if (!(await store.begin(attempt, row?.attemptId ?? null))) return clock.now() + PAUSE
    const { subscriptionId } = await provider.subscribe(key, url, secret)
    await store.registered(attempt, subscriptionId, clock.now())
    log.info({ merchantId: owner, slot, provider: kind }, 'the receiver of notifications was registered')
    return clock.now() + CACHE_TTL
  }

  #secretFor(row: Subscription | null): Secret<string> | null {
    if (row === null) return null
    try {
      return this.#dependencies.sealer.open(row.secret, secretPlace(row.owner, row.slot))
    } catch (error) {
      // The master secret changed: nothing can be verified with it.
      if (!(error instanceof UnsealError)) throw error
      return null
    }
  }
}

function subscribes(provider: Provider): provider is Subscribing {
  return provider.subscribe !== undefined
}

/** Fingerprint of a key. The sealed secret keys it, so that a database reader cannot brute-force keys. */
function markOf(key: Secret<string>, secret: Secret<string>): string {
  return createHmac('sha256', secret.reveal()).update('key ').update(key.reveal()).digest('base64url')
}

/** A merchant's id, or null for the operator. */
export type Owner = number | null

const OPERATOR = 'operator'

export function accountName(owner: Owner): string {
  return owner === null ? OPERATOR : String(owner)
}

export function ownerOfName(name: string): Owner | undefined {
  if (name === OPERATOR) return null
  return /^[1-9]\d{0,8}$/.test(name) ? Number(name) : undefined
}

const subscriptionColumns = {
  owner: optional(integer('merchant_id')),
  slot: text<ProviderSlot>(),
  kind: text<KindName>(),
  url: text(),
  /** Sealed signing secret. */
  secret: text(),
  keyMark: text(),
  attemptId: text(),
  attemptedAt: moment(),
  /** The provider's id; null until it answered. */
  subscriptionId: optional(text())
}
type Subscription = RecordOf<typeof subscriptionColumns>
type Attempt = Omit<Subscription, 'subscriptionId'>
const subscriptionRows = records(subscriptionColumns)

export function secretPlace(owner: Owner, slot: ProviderSlot): SealedPlace {
  return { table: 'provider_subscriptions', column: 'secret', row: `${accountName(owner)} ${slot}` }
}

export class SubscriptionStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async find(owner: Owner, slot: ProviderSlot, kind: KindName): Promise<Subscription | null> {
    return await subscriptionRows.one(this.#database.sql`
      select ${this.#database.sql(subscriptionRows.names)} from provider_subscriptions
      where merchant_id is not distinct from ${owner}::integer and slot = ${slot} and kind = ${kind}`)
  }

  /** Replaces the attempt that the caller has read (null: none). Of concurrent callers exactly one gets true. */
  async begin(attempt: Attempt, seen: string | null): Promise<boolean> {
    const { owner, slot, kind } = attempt
    const { sql } = this.#database
    const row = subscriptionRows.write(sql, attempt)
    const written =
      seen === null
        ? await sql`insert into provider_subscriptions ${sql(row)} on conflict do nothing`
        : await sql`
          update provider_subscriptions set ${sql({ ...row, subscription_id: null, registered_at: null })}
          where merchant_id is not distinct from ${owner}::integer and slot = ${slot} and kind = ${kind} and attempt_id = ${seen}`
    return written.count === 1
  }

  /** A no-op when a newer attempt has begun. */
  async registered({ owner, slot, kind, attemptId }: Attempt, subscriptionId: string, now: number): Promise<void> {
    await this.#database.sql`
      update provider_subscriptions set subscription_id = ${subscriptionId}, registered_at = ${new Date(now)}
      where merchant_id is not distinct from ${owner}::integer and slot = ${slot} and kind = ${kind} and attempt_id = ${attemptId}`
  }
}
