import type { GatewayConfig } from '../../engine/config/schema.ts'
import { ALREADY_EXISTS } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { generateApiKey, matchesApiKey, parseApiKey } from '../../platform/keys/api-key.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { TransactionSql } from '../../platform/database/database.ts'
import { randomToken, systemRandom, type Random } from '../../platform/system/ids.ts'
import { Secret, type Sealer } from '../../platform/keys/secrets.ts'
import { choiceAfterSaving, type ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import { ProviderKeyRequired } from '../../lightning/provider-calls/errors.ts'
import { flagsOfTier, planCaps, type PlanCaps, type PlanTier } from './plans.ts'
import type { Merchant, MerchantFlags, SubscriptionFacts } from './schema.ts'
import { EmailTaken, type MerchantChanges, type MerchantStore, type StoredMerchant } from './store.ts'

declare module '../../engine/pipeline/plugin.ts' {
  interface Services {
    readonly merchants: Merchants
  }
}

interface MerchantsOptions {
  readonly store: MerchantStore
  readonly sealer: Sealer
  readonly clock: Clock
  /** A function, since a reload changes them. */
  plans(): GatewayConfig['plans']
  readonly random?: Random
  /** Called after the commit of each provider key; must not reject. */
  readonly keySaved?: (id: number, slot: ProviderSlot) => Promise<void>
  /** Called with each valid API key's id; must not block or throw. */
  readonly keyUsed?: (keyId: string) => void
}

export interface CreateMerchant {
  readonly name: string
  /** Stored in lower case; unique. */
  readonly email: string
  /** Default: free, as for accounts made by an admin (decision 76). */
  readonly tier?: PlanTier
  /** Default: `active` without billing ids (decision 76). */
  readonly subscription?: SubscriptionFacts
  /** Overrides the plan's. */
  readonly flags?: Partial<MerchantFlags>
  readonly primaryApiKey?: Secret<string>
  readonly alternateApiKey?: Secret<string>
  /** Its generated secret is not shown: the merchant sets or resets it. */
  readonly webhookUrl?: string
}

/** An account with its new key, shown only once. */
export interface Issued {
  readonly merchant: Merchant
  readonly apiKey: Secret<string>
}

interface KeyHolder {
  readonly merchant: Merchant
  readonly keyId: string
  readonly isReadOnly: boolean
}

/** Omitted members stay, null clears. */
export interface WebhookChange {
  readonly url?: string | null
  readonly secret?: Secret<string> | null
}

/** `issued` is a generated secret, or null. */
interface ChangedWebhook {
  readonly merchant: Merchant
  readonly issued: Secret<string> | null
}

type SealedColumn = 'primary_key' | 'alternate_key' | 'webhook_secret'

// Compared with unknown key ids, for constant time. No known key hashes to it.
const NO_DIGEST = Buffer.alloc(32)

/**
 * Accounts. Uncached: changes apply to every node's next request (decision 37). Mutations return null for an unknown
 * id.
 */
export class Merchants {
  readonly #options: MerchantsOptions

  constructor(options: MerchantsOptions) {
    this.#options = options
  }

  /**
   * The same on a caller's transaction. An error aborts that transaction, unless a savepoint guards it. `keySaved` is
   * not called.
   */
  within(sql: TransactionSql): Merchants {
    const { keySaved: _keySaved, ...options } = this.#options
    return new Merchants({ ...options, store: options.store.within(sql) })
  }

  /**
   * Creates an account with its first key. A primary key makes the explicit choice (decision 68).
   * @throws ShortError 409 for a used address (decision 24), ProviderKeyRequired for a blank provider key
   */
  async create(wanted: CreateMerchant, testOf: number | null = null): Promise<Issued> {
    const { clock, random = systemRandom, store } = this.#options
    const tier = wanted.tier ?? 'free'
    const key = generateApiKey(random)
    const id = testOf === null ? await store.nextId() : -testOf
    const sealKey = (column: SealedColumn, secret: Secret<string> | undefined): string | null =>
      secret === undefined ? null : this.#seal(id, column, providerKey(secret))
    const primaryKey = sealKey('primary_key', wanted.primaryApiKey)
    const merchant = await conflicting(
      store.insert(
        {
          id,
          name: wanted.name,
          email: normalEmail(wanted.email),
          keyId: key.id,
          keyDigest: key.digest,
          planTier: tier,
          isActive: true,
          subscriptionStatus: 'active',
          ...wanted.subscription,
          refundsEnabled: false,
          ...flagsOfTier(tier),
          ...wanted.flags,
          providerChoice: primaryKey === null ? null : 'primary',
          primaryKey,
          alternateKey: sealKey('alternate_key', wanted.alternateApiKey),
          webhookUrl: wanted.webhookUrl ?? null,
          webhookSecret:
            wanted.webhookUrl === undefined ? null : this.#seal(id, 'webhook_secret', newWebhookSecret(random).reveal())
        },
        clock.now()
      )
    )
    return { merchant, apiKey: key.key }
  }

  /** The test account of an account, made on first use: then with its first key, else null. */
  async testOf({ id, name }: Pick<Merchant, 'id' | 'name'>): Promise<Issued | { merchant: Merchant; apiKey: null }> {
    const live = Math.abs(id)
    const merchant = await this.#options.store.byId(-live)
    if (merchant !== null) return { merchant, apiKey: null }
    const primaryApiKey = new Secret(`sandbox-${randomToken(12, this.#options.random)}`)
    const flags = { refundsEnabled: true }
    // No address: it cannot be used to sign in and gets no mail.
    return await this.create({ name, email: `test-of-${live}`, tier: 'individual', flags, primaryApiKey }, live)
  }

  /**
   * Account of an API key. Null for a malformed, unknown, replaced or expired key or a deactivated account, in the same
   * time (contract, Authentication 5).
   * @throws Unavailable when the database is down: no verdict on the key
   */
  async holderOf(text: string): Promise<KeyHolder | null> {
    const parsed = parseApiKey(text)
    if (parsed === null) return null
    const found = await this.#options.store.byKeyId(parsed.id)
    const matches = matchesApiKey(parsed, found?.keyDigest ?? NO_DIGEST)
    const holder = matches ? this.#holder(parsed.id, found) : null
    if (holder !== null) this.#options.keyUsed?.(parsed.id)
    return holder
  }

  #holder(keyId: string, found: StoredMerchant | null): KeyHolder | null {
    if (found === null || !found.merchant.isActive) return null
    if (found.endsAt !== null && found.endsAt <= this.#options.clock.now()) return null
    return { merchant: found.merchant, keyId, isReadOnly: found.isReadOnly }
  }

  /**
   * Account of a key id, by the rules of `holderOf`.
   * @throws Unavailable
   */
  async holderOfId(keyId: string): Promise<KeyHolder | null> {
    return this.#holder(keyId, await this.#options.store.byKeyId(keyId))
  }

  byId(id: number): Promise<Merchant | null> {
    return this.#options.store.byId(id)
  }

  /**
   * Existing accounts by id.
   * @throws Unavailable when the database is down
   */
  async byIds(ids: readonly number[]): Promise<ReadonlyMap<number, Merchant>> {
    const merchants = await this.#options.store.byIds(ids)
    return new Map(merchants.map(merchant => [merchant.id, merchant]))
  }

  /**
   * Case-insensitive.
   * @throws Unavailable when the database is down
   */
  byEmail(email: string): Promise<Merchant | null> {
    return this.#options.store.byEmail(normalEmail(email))
  }

  /** Replaces the key; the old one is invalid everywhere once this resolves. */
  async regenerateKey(id: number): Promise<Issued | null> {
    const key = generateApiKey(this.#options.random ?? systemRandom)
    const merchant = await this.#options.store.replaceKey(id, key.id, key.digest, this.#options.clock.now())
    return merchant === null ? null : { merchant, apiKey: key.key }
  }

  /** Idempotent, like `reactivate` (decision 151). */
  deactivate(id: number): Promise<Merchant | null> {
    return this.#setActive(id, false)
  }

  reactivate(id: number): Promise<Merchant | null> {
    return this.#setActive(id, true)
  }

  /**
   * Writes what is given, unvalidated. A provider choice may name a slot without a key (decision 69); caps replace all
   * limits that differ from the plan's.
   * @throws ShortError 409 for a used address (decision 152)
   */
  change(id: number, changes: MerchantChanges): Promise<Merchant | null> {
    return this.#update(id, changes.email === undefined ? changes : { ...changes, email: normalEmail(changes.email) })
  }

  /**
   * Saves a provider key, sealed for its row and column. A primary key makes the explicit choice if unset (contract,
   * What the service does 4; decision 68).
   * @throws ProviderKeyRequired for a blank key
   */
  async setProviderKey(id: number, slot: ProviderSlot, key: Secret<string>): Promise<Merchant | null> {
    const ciphertext = this.#seal(id, `${slot}_key`, providerKey(key))
    const { clock, store } = this.#options
    const merchant = await store.setKey(id, slot, ciphertext, choiceAfterSaving(slot, null) === slot, clock.now())
    if (merchant !== null) await this.keySaved(id, slot)
    return merchant
  }

  /**
   * Removes a provider key, and the choice that saving it had made, but no explicit one. Its payments can no longer be
   * looked up or refunded.
   */
  removeProviderKey(id: number, slot: ProviderSlot): Promise<Merchant | null> {
    return this.#options.store.clearKey(id, slot, this.#options.clock.now())
  }

  /** Reports a key saved in a caller's transaction, after its commit. */
  async keySaved(id: number, slot: ProviderSlot): Promise<void> {
    await this.#options.keySaved?.(id, slot)
  }

  /** Changes the plan with its flags; refunds stay unchanged (decision 77). */
  setTier(id: number, tier: PlanTier): Promise<Merchant | null> {
    return this.#update(id, { planTier: tier, ...flagsOfTier(tier) })
  }

  /**
   * Writes the webhook URL and signing secret, unvalidated; omitted members stay, null clears. A URL without a secret
   * gets a generated one atomically, returned only here as `issued` (decision 67).
   */
  async changeWebhook(id: number, webhook: WebhookChange): Promise<ChangedWebhook | null> {
    const spare = newWebhookSecret(this.#options.random)
    const sealed = this.#seal(id, 'webhook_secret', spare.reveal())
    const merchant = await this.#options.store.setWebhook(
      id,
      {
        url: webhook.url,
        secret:
          webhook.secret === undefined || webhook.secret === null
            ? webhook.secret
            : this.#seal(id, 'webhook_secret', webhook.secret.reveal()),
        spare: sealed
      },
      this.#options.clock.now()
    )
    return merchant === null ? null : { merchant, issued: merchant.webhookSecret?.ciphertext === sealed ? spare : null }
  }

  /**
   * Unsealed webhook secret; null without one.
   * @throws UnsealError
   */
  webhookSecret(merchant: Merchant): Secret<string> | null {
    return merchant.webhookSecret === null
      ? null
      : this.#options.sealer.open(merchant.webhookSecret.ciphertext, merchant.webhookSecret.place)
  }

  caps(merchant: Merchant): PlanCaps {
    return planCaps(this.#options.plans(), merchant.tier, merchant.caps)
  }

  async #setActive(id: number, isActive: boolean): Promise<Merchant | null> {
    await this.#update(-id, { isActive })
    return await this.#update(id, { isActive })
  }

  #update(id: number, changes: MerchantChanges): Promise<Merchant | null> {
    return conflicting(this.#options.store.update(id, changes, this.#options.clock.now()))
  }

  #seal(id: number, column: SealedColumn, text: string): string {
    return this.#options.sealer.seal(text, { table: 'merchants', column, row: String(id) })
  }
}

export function newWebhookSecret(random: Random = systemRandom): Secret<string> {
  return new Secret(`whsec_${randomToken(32, random)}`)
}

function providerKey(key: Secret<string>): string {
  const text = key.reveal().trim()
  if (text === '') throw new ProviderKeyRequired()
  return text
}

function normalEmail(email: string): string {
  return email.trim().toLowerCase()
}

async function conflicting<T>(writing: Promise<T>): Promise<T> {
  try {
    return await writing
  } catch (error) {
    if (error instanceof EmailTaken) throw new ShortError(ALREADY_EXISTS, 'A merchant with this email already exists')
    throw error
  }
}
