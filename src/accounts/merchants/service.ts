import type { GatewayConfig } from '../../engine/config/schema.ts'
import { ALREADY_EXISTS } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { generateApiKey, matchesApiKey, parseApiKey } from '../../platform/keys/api-key.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { TransactionSql } from '../../platform/database/database.ts'
import { randomToken, systemRandom, type Random } from '../../platform/system/ids.ts'
import { Secret, type Sealer } from '../../platform/keys/secrets.ts'
import { choiceAfterSaving, type ProviderSlot } from '../../lightning/providers/account.ts'
import { ProviderKeyRequired } from '../../lightning/provider-calls/errors.ts'
import { flagsOfTier, planCaps, type PlanCaps, type PlanTier } from './plans.ts'
import type { Merchant, MerchantFlags, SubscriptionFacts } from './schema.ts'
import {
  EmailTaken,
  sealedMerchantColumn,
  type MerchantChanges,
  type MerchantStore,
  type MerchantSealedColumn,
  type StoredMerchant
} from './store.ts'

declare module '../../engine/pipeline/services.ts' {
  interface Services {
    readonly merchants: Merchants
  }
}

/** What `Merchants` needs. */
export interface MerchantsOptions {
  readonly store: MerchantStore
  readonly sealer: Sealer
  readonly clock: Clock
  /** Asked each time, since a reload changes them. */
  plans(): GatewayConfig['plans']
  readonly random?: Random
  /** Told of each provider key that was saved, outside of any transaction; it must not reject. */
  readonly keySaved?: (id: number, slot: ProviderSlot) => Promise<void>
  /** Told of each API key that was good, by its id; answers at once and never throws. */
  readonly keyUsed?: (keyId: string) => void
}

/** A new account. */
export interface CreateMerchant {
  readonly name: string
  /** Stored in lower case; unique. */
  readonly email: string
  /** Free when left out, as for an account that an admin makes (decision 76). */
  readonly tier?: PlanTier
  /** Status `active` without billing ids when left out (decision 76). */
  readonly subscription?: SubscriptionFacts
  /** Set beside those of the plan. */
  readonly flags?: Partial<MerchantFlags>
  readonly primaryApiKey?: Secret<string>
  readonly alternateApiKey?: Secret<string>
  /** A secret is made with it, which nobody sees: the merchant sets its own, or clears it to be shown another. */
  readonly webhookUrl?: string
}

/** An account with its new key, which is shown this once and never again. */
export interface Issued {
  readonly merchant: Merchant
  readonly apiKey: Secret<string>
}

/** Whose a key is. */
export interface KeyHolder {
  readonly merchant: Merchant
  /** The part of the key that is no secret. */
  readonly keyId: string
  readonly isReadOnly: boolean
}

/** What is to be written of an account's webhooks; left out stays, null clears. */
export interface WebhookChange {
  readonly url?: string | null
  readonly secret?: Secret<string> | null
}

/** An account whose webhooks were changed, with the secret that was made on the way; null when none was. */
export interface ChangedWebhook {
  readonly merchant: Merchant
  readonly issued: Secret<string> | null
}

// What an unknown key id is compared with, so that it takes the time of a known one. Nothing is known to hash to it.
const nobody = Buffer.alloc(32)

/**
 * The accounts. Nothing is cached: what one node changes, the next request on any node sees (decision 37). Methods that
 * change an account answer null when no account has that id.
 */
export class Merchants {
  readonly #store: MerchantStore
  readonly #sealer: Sealer
  readonly #clock: Clock
  readonly #plans: () => GatewayConfig['plans']
  readonly #random: Random
  readonly #options: MerchantsOptions

  constructor(options: MerchantsOptions) {
    this.#options = options
    this.#store = options.store
    this.#sealer = options.sealer
    this.#clock = options.clock
    this.#plans = () => options.plans()
    this.#random = options.random ?? systemRandom
  }

  /**
   * The same accounts on a caller's transaction: what is changed here stands or falls with everything else in it. After
   * an error that transaction is spent, unless a savepoint was around it. Nobody is told of a key that may not stay.
   */
  within(sql: TransactionSql): Merchants {
    const { keySaved: _keySaved, ...options } = this.#options
    return new Merchants({ ...options, store: this.#store.within(sql) })
  }

  /**
   * Makes an account with its first key. A saved primary key makes the explicit choice, as it would later (decision
   * 68).
   * @throws ShortError 409 when another account has the address (decision 24), ProviderKeyRequired for a blank provider
   *   key
   */
  async create(wanted: CreateMerchant): Promise<Issued> {
    const now = this.#clock.now()
    const tier = wanted.tier ?? 'free'
    const key = generateApiKey(this.#random)
    const id = await this.#store.nextId()
    const sealKey = (column: MerchantSealedColumn, secret: Secret<string> | undefined): string | null =>
      secret === undefined ? null : this.#seal(id, column, providerKey(secret))
    const primaryKey = sealKey('primary_key', wanted.primaryApiKey)
    const merchant = await conflicting(
      this.#store.insert({
        id,
        name: wanted.name,
        email: normalEmail(wanted.email),
        keyId: key.id,
        keyDigest: key.digest,
        planTier: tier,
        subscription: wanted.subscription ?? {
          subscriptionStatus: 'active',
          currentPeriodEnd: null,
          billingCustomerId: null,
          billingSubscriptionId: null
        },
        flags: { refundsEnabled: false, ...flagsOfTier(tier), ...wanted.flags },
        providerChoice: primaryKey === null ? null : choiceAfterSaving('primary', null),
        primaryKey,
        alternateKey: sealKey('alternate_key', wanted.alternateApiKey),
        webhookUrl: wanted.webhookUrl ?? null,
        webhookSecret:
          wanted.webhookUrl === undefined
            ? null
            : this.#seal(id, 'webhook_secret', newWebhookSecret(this.#random).reveal()),
        now
      })
    )
    return { merchant, apiKey: key.key }
  }

  /**
   * Who holds an API key as a client sent it; null for a malformed, unknown, replaced or ended one and for that of a
   * deactivated account, which nothing tells apart, not even the time it takes (contract, Authentication 5).
   * @throws Unavailable when the database is away: that is never a verdict on the key
   */
  async holderOf(text: string): Promise<KeyHolder | null> {
    const parsed = parseApiKey(text)
    if (parsed === null) return null
    const found = await this.#store.byKeyId(parsed.id)
    const matches = matchesApiKey(parsed, found?.keyDigest ?? nobody)
    const holder = matches ? this.#holder(parsed.id, found) : null
    if (holder !== null) this.#options.keyUsed?.(parsed.id)
    return holder
  }

  #holder(keyId: string, found: StoredMerchant | null): KeyHolder | null {
    if (found === null || !found.merchant.isActive) return null
    if (found.endsAt !== null && found.endsAt <= this.#clock.now()) return null
    return { merchant: found.merchant, keyId, isReadOnly: found.isReadOnly }
  }

  /** Who holds the key with this id, as long as it stands as `holderOf` has it. @throws Unavailable */
  async holderOfId(keyId: string): Promise<KeyHolder | null> {
    return this.#holder(keyId, await this.#store.byKeyId(keyId))
  }

  /** @throws Unavailable when the database is away */
  byId(id: number): Promise<Merchant | null> {
    return this.#store.byId(id)
  }

  /** Those that stand, by id. @throws Unavailable when the database is away */
  async byIds(ids: readonly number[]): Promise<ReadonlyMap<number, Merchant>> {
    const merchants = await this.#store.byIds(ids)
    return new Map(merchants.map(merchant => [merchant.id, merchant]))
  }

  /** Compared in lower case. @throws Unavailable when the database is away */
  byEmail(email: string): Promise<Merchant | null> {
    return this.#store.byEmail(normalEmail(email))
  }

  /** Gives the account another key; the old one is invalid everywhere once this resolves. */
  async regenerateKey(id: number): Promise<Issued | null> {
    const key = generateApiKey(this.#random)
    const merchant = await this.#store.replaceKey(id, key.id, key.digest, this.#clock.now())
    return merchant === null ? null : { merchant, apiKey: key.key }
  }

  /** Repeatable, as is `reactivate` (decision 151). */
  deactivate(id: number): Promise<Merchant | null> {
    return this.#update(id, { isActive: false })
  }

  reactivate(id: number): Promise<Merchant | null> {
    return this.#update(id, { isActive: true })
  }

  /** @throws ShortError 409 when another account has the address (decision 152) */
  rename(id: number, changes: { readonly name?: string; readonly email?: string }): Promise<Merchant | null> {
    return this.#update(id, changes.email === undefined ? changes : { ...changes, email: normalEmail(changes.email) })
  }

  /**
   * Saves a provider key, encrypted for its row and column. Saving a primary key makes it the explicit choice where
   * there is none (contract, What the service does 4; decision 68).
   * @throws ProviderKeyRequired for a blank key
   */
  async setProviderKey(id: number, slot: ProviderSlot, key: Secret<string>): Promise<Merchant | null> {
    const ciphertext = this.#seal(id, `${slot}_key`, providerKey(key))
    const merchant = await this.#store.setKey(
      id,
      slot,
      ciphertext,
      choiceAfterSaving(slot, null) === slot,
      this.#clock.now()
    )
    if (merchant !== null) await this.keySaved(id, slot)
    return merchant
  }

  /**
   * Removes a provider key. An explicit choice of a provider stays; one that only saving this key had made is taken back.
   * Payments made with the key can be neither looked up nor refunded from then on.
   */
  removeProviderKey(id: number, slot: ProviderSlot): Promise<Merchant | null> {
    return this.#store.clearKey(id, slot, this.#clock.now())
  }

  /** Tells that a provider key was saved; for keys that were saved within a transaction, once that is committed. */
  async keySaved(id: number, slot: ProviderSlot): Promise<void> {
    await this.#options.keySaved?.(id, slot)
  }

  /** Makes the explicit choice, also of a slot without a key (decision 69). */
  setProviderChoice(id: number, slot: ProviderSlot): Promise<Merchant | null> {
    return this.#update(id, { providerChoice: slot })
  }

  /** Sets the colour of the account's pages for people; null for the usual one. Its form is not checked here. */
  setColour(id: number, colour: string | null): Promise<Merchant | null> {
    return this.#update(id, { colour })
  }

  setFlags(id: number, flags: Partial<MerchantFlags>): Promise<Merchant | null> {
    return this.#update(id, flags)
  }

  /** Moves the account to a plan and sets the flags that come with it; refunds stay as they are (decision 77). */
  setTier(id: number, tier: PlanTier): Promise<Merchant | null> {
    return this.#update(id, { planTier: tier, ...flagsOfTier(tier) })
  }

  /** Writes what billing says. */
  setSubscription(id: number, facts: Partial<SubscriptionFacts>): Promise<Merchant | null> {
    return this.#update(id, facts)
  }

  /**
   * Writes the webhook URL and the secret that signs its deliveries; left out stays, null clears. Neither is checked
   * here. A URL never stands without a secret: where it would, one is made in the same statement, and `issued` is the
   * only sight of it (decision 67).
   */
  async changeWebhook(id: number, webhook: WebhookChange): Promise<ChangedWebhook | null> {
    const spare = newWebhookSecret(this.#random)
    const sealed = this.#seal(id, 'webhook_secret', spare.reveal())
    const merchant = await this.#store.setWebhook(
      id,
      {
        url: webhook.url,
        secret:
          webhook.secret === undefined || webhook.secret === null
            ? webhook.secret
            : this.#seal(id, 'webhook_secret', webhook.secret.reveal()),
        spare: sealed
      },
      this.#clock.now()
    )
    return merchant === null ? null : { merchant, issued: merchant.webhookSecret?.ciphertext === sealed ? spare : null }
  }

  /** The secret of the account's webhooks, opened; null when none is stored. @throws UnsealError */
  webhookSecret(merchant: Merchant): Secret<string> | null {
    return merchant.webhookSecret === null
      ? null
      : this.#sealer.open(merchant.webhookSecret.ciphertext, merchant.webhookSecret.place)
  }

  /** What the account's plan allows. */
  caps(merchant: Merchant): PlanCaps {
    return planCaps(this.#plans(), merchant.tier)
  }

  #update(id: number, changes: MerchantChanges): Promise<Merchant | null> {
    return conflicting(this.#store.update(id, changes, this.#clock.now()))
  }

  #seal(id: number, column: MerchantSealedColumn, text: string): string {
    const { place } = sealedMerchantColumn(id, column, '')
    return this.#sealer.seal(text, place)
  }
}

/** A new secret that signs webhooks. */
export function newWebhookSecret(random: Random): Secret<string> {
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
