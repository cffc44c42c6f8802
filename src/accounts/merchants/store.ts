import {
  isRowId,
  sharedLookup,
  bytes,
  flag,
  optional,
  records,
  text,
  moment,
  type RecordOf,
  type Row
} from '../../platform/database/rows.ts'
import { isUniqueViolation, type Database, type Sql, type TransactionSql } from '../../platform/database/database.ts'
import { overRows } from '../../platform/database/given-rows.ts'
import type { ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import { changingColumns, merchantColumns, type Merchant } from './schema.ts'

export class EmailTaken extends Error {
  override name = 'EmailTaken'
}

/** Independent columns; omitted ones stay. `null` clears nullable ones. */
export type MerchantChanges = Partial<RecordOf<typeof changingColumns & typeof changeColumns>>

/** Ciphertexts are sealed for its id. */
interface NewMerchant extends MerchantChanges {
  readonly id: number
  readonly keyId: string
  /** SHA-256 of the key, 32 bytes. */
  readonly keyDigest: Uint8Array
  readonly primaryKey?: string | null
  readonly alternateKey?: string | null
  readonly webhookUrl?: string | null
  readonly webhookSecret?: string | null
}

interface WebhookColumns {
  readonly url: string | null | undefined
  readonly secret: string | null | undefined
  /** Used when a URL would lack a secret. */
  readonly spare: string
}

/** An account with the data that verifies a key. */
export interface StoredMerchant {
  readonly merchant: Merchant
  /** 32 bytes. */
  readonly keyDigest: Uint8Array
  readonly isReadOnly: boolean
  /** Expiry; null: none. */
  readonly endsAt: number | null
}

export async function endReplacedKeys(tx: TransactionSql, merchantId: number): Promise<void> {
  await tx`delete from api_keys where merchant_id = ${merchantId} and ends_at is not null`
}

/** Channel that carries the ids of written accounts. */
export const merchantsChannel = 'boltgate_merchants'

const merchantRows = records(merchantColumns)

const changeColumns = {
  planTier: text(),
  isActive: flag(),
  refundsEnabled: flag(),
  multiCurrencyEnabled: flag(),
  l402Enabled: flag(),
  providerChoice: optional(text<ProviderSlot>())
}
const changeRows = records({ ...changingColumns, ...changeColumns })

const usedKeyRows = records({
  keyDigest: bytes('used_digest'),
  isReadOnly: flag('used_read_only'),
  endsAt: optional(moment('used_until'))
})

const BY_KEY_ID = overRows<string>(
  { wanted: ['text', keyId => keyId] },
  given => `
    with asked as (select * from ${given})
    select asked.nth, merchants.*, merchants.key_digest as used_digest, false as used_read_only, null::timestamptz as used_until
    from asked join merchants on merchants.key_id = asked.wanted
    union all
    select asked.nth, merchants.*, api_keys.key_digest, api_keys.is_read_only, api_keys.ends_at
    from asked join api_keys on api_keys.key_id = asked.wanted join merchants on merchants.id = api_keys.merchant_id`
)

/**
 * Stores accounts. Methods are atomic and uncached: every node's next request sees the result. Writes notify
 * `merchantsChannel`. Mutations return null for an unknown id.
 */
export class MerchantStore {
  readonly #sql: Sql
  readonly #byKeyId: (keyId: string) => Promise<StoredMerchant | null>

  readonly #transaction: Database['transaction']

  constructor(database: Pick<Database, 'sql' | 'transaction'>) {
    const { sql } = database
    this.#sql = sql
    this.#transaction = (run, options) => database.transaction(run, options)
    this.#byKeyId = sharedLookup({
      key: keyId => keyId,
      find: async keyIds => (await BY_KEY_ID.one(sql, keyIds)).map(row => (row === null ? null : storedMerchant(row)))
    })
  }

  /** The same on a caller's transaction. */
  within(sql: TransactionSql): MerchantStore {
    return new MerchantStore({ sql, transaction: run => run(sql) })
  }

  /** A fresh id, so that ciphertexts can be sealed before the insert. */
  async nextId(): Promise<number> {
    const [row] = await this.#sql<{ id: bigint }[]>`select nextval(pg_get_serial_sequence('merchants', 'id')) as id`
    // A select without a table returns one row.
    return Number(row!.id)
  }

  /** @throws EmailTaken; of concurrent inserts of an address exactly one succeeds */
  async insert(
    {
      id,
      keyId,
      keyDigest,
      primaryKey = null,
      alternateKey = null,
      webhookUrl = null,
      webhookSecret = null,
      providerChoice = null,
      ...merchant
    }: NewMerchant,
    now: number
  ): Promise<Merchant> {
    const at = new Date(now)
    const row = await this.#write(this.#sql`
      insert into merchants ${this.#sql({
        ...changeRows.write(this.#sql, { ...merchant, providerChoice }),
        id,
        key_id: keyId,
        key_digest: keyDigest,
        key_created_at: at,
        choice_by_key: providerChoice !== null,
        primary_key: primaryKey,
        alternate_key: alternateKey,
        webhook_url: webhookUrl,
        webhook_secret: webhookSecret,
        created_at: at,
        updated_at: at
      })} returning *, pg_notify(${merchantsChannel}, id::text)`)
    // An insert returns its row or throws.
    return row!
  }

  async byId(id: number): Promise<Merchant | null> {
    if (!isRowId(Math.abs(id))) return null
    return await merchantRows.one(this.#sql`select * from merchants where id = ${id}`)
  }

  async byIds(ids: readonly number[]): Promise<Merchant[]> {
    if (ids.length === 0) return []
    return await merchantRows.all(this.#sql`select * from merchants where id in ${this.#sql(ids)}`)
  }

  async byEmail(email: string): Promise<Merchant | null> {
    return await merchantRows.one(this.#sql`select * from merchants where email = ${email}`)
  }

  /** Account of a key id; the caller verifies the key. */
  byKeyId(keyId: string): Promise<StoredMerchant | null> {
    return this.#byKeyId(keyId)
  }

  /**
   * Replaces the first key and ends all overlaps (contract, Authentication 1). Old keys are invalid once this resolves;
   * the later of two concurrent calls wins.
   */
  async replaceKey(id: number, keyId: string, keyDigest: Uint8Array, now: number): Promise<Merchant | null> {
    if (!isRowId(Math.abs(id))) return null
    return this.#transaction(async tx => {
      const merchant = await merchantRows.one(tx`
        update merchants set key_id = ${keyId}, key_digest = ${keyDigest}, key_rotated_at = ${new Date(now)}, updated_at = ${new Date(now)}
        where id = ${id} returning *, pg_notify(${merchantsChannel}, id::text)`)
      // After the update, which waited for any rotation: its replaced key is visible now.
      await endReplacedKeys(tx, id)
      return merchant
    })
  }

  /** Saves a sealed key. `choose` makes the slot the explicit choice if unset, atomically. */
  async setKey(
    id: number,
    slot: ProviderSlot,
    ciphertext: string,
    choose: boolean,
    now: number
  ): Promise<Merchant | null> {
    if (!isRowId(Math.abs(id))) return null
    const column = this.#sql(`${slot}_key`)
    return this.#write(this.#sql`
      update merchants set ${column} = ${ciphertext}, updated_at = ${new Date(now)},
        choice_by_key = choice_by_key or (provider_choice is null and ${choose}),
        provider_choice = coalesce(provider_choice, ${choose ? slot : null})
      where id = ${id} returning *, pg_notify(${merchantsChannel}, id::text)`)
  }

  async clearKey(id: number, slot: ProviderSlot, now: number): Promise<Merchant | null> {
    if (!isRowId(Math.abs(id))) return null
    return this.#write(this.#sql`
      update merchants set ${this.#sql(`${slot}_key`)} = null, updated_at = ${new Date(now)},
        provider_choice = case when choice_by_key and provider_choice = ${slot} then null else provider_choice end,
        choice_by_key = choice_by_key and provider_choice <> ${slot}
      where id = ${id} returning *, pg_notify(${merchantsChannel}, id::text)`)
  }

  /**
   * Writes URL and secret, or the spare secret when a URL lacks one; atomic, so that concurrent calls see one secret.
   */
  async setWebhook(id: number, webhook: WebhookColumns, now: number): Promise<Merchant | null> {
    if (!isRowId(Math.abs(id))) return null
    const sql = this.#sql
    const url = webhook.url === undefined ? sql`webhook_url` : sql`${webhook.url}::text`
    const secret = webhook.secret === undefined ? sql`webhook_secret` : sql`${webhook.secret}::text`
    return this.#write(sql`
      update merchants set
        webhook_url = ${url},
        webhook_secret = case when ${url} is null then ${secret} else coalesce(${secret}, ${webhook.spare}) end,
        updated_at = ${new Date(now)}
      where id = ${id} returning *, pg_notify(${merchantsChannel}, id::text)`)
  }

  /** @throws EmailTaken */
  async update(id: number, changes: MerchantChanges, now: number): Promise<Merchant | null> {
    if (!isRowId(Math.abs(id))) return null
    const columns = {
      ...changeRows.write(this.#sql, changes),
      ...(changes.providerChoice === undefined ? {} : { choice_by_key: false }),
      updated_at: new Date(now)
    }
    return this.#write(this.#sql`
      update merchants set ${this.#sql(columns)} where id = ${id} returning *, pg_notify(${merchantsChannel}, id::text)`)
  }

  async #write(statement: PromiseLike<readonly Row[]>): Promise<Merchant | null> {
    try {
      return await merchantRows.one(statement)
    } catch (error) {
      if (isUniqueViolation(error, 'merchants_email'))
        throw new EmailTaken('Another account has this email address', { cause: error })
      throw error
    }
  }
}

function storedMerchant(row: Row): StoredMerchant {
  return { merchant: merchantRows.read(row), ...usedKeyRows.read(row) }
}
