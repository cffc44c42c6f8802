import { Batch } from '../../platform/database/batch.ts'
import type { Database, TransactionSql } from '../../platform/database/database.ts'
import { overRows } from '../../platform/database/given-rows.ts'
import { flag, moment, optional, records, text, type RecordOf } from '../../platform/database/rows.ts'
import { CONFLICT, LIMIT_REACHED, RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { generateApiKey, type NewApiKey } from '../../platform/keys/api-key.ts'
import type { Secret } from '../../platform/keys/secrets.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { systemRandom } from '../../platform/system/ids.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { endReplacedKeys, merchantsChannel } from './store.ts'

const keyColumns = {
  keyId: text(),
  name: text(),
  /** The contract's one key per account. */
  isFirst: flag(),
  isReadOnly: flag(),
  createdAt: moment(),
  /** Rounded to a minute; null: never. */
  usedAt: optional(moment()),
  endsAt: optional(moment())
}
export type ApiKeyFacts = RecordOf<typeof keyColumns>
const keyRows = records(keyColumns)

/** A key with its secret, shown only once. */
export interface IssuedKey {
  readonly key: ApiKeyFacts
  readonly apiKey: Secret<string>
}

export const MAX_KEYS = 20
/** Longest overlap after a rotation, in seconds. */
export const MAX_OVERLAP = 7 * 86_400
/** Milliseconds between two records of a key's use. */
const NOTED = 60_000

const NOTE = overRows<{ readonly keyId: string; readonly at: number }>(
  { key_id: ['text', row => row.keyId], used_at: ['timestamptz', row => row.at] },
  given => `
    insert into api_key_uses as held (key_id, used_at) select key_id, used_at from ${given}
    on conflict (key_id) do update set used_at = greatest(held.used_at, excluded.used_at)`
)

/** Records last uses, at most once a minute per key, to avoid a write per request. */
export class KeyUses {
  readonly #noted = new Map<string, number>()
  readonly #batch: Batch<{ readonly keyId: string; readonly at: number }, null>
  readonly #clock: Clock
  readonly #log: Log

  constructor({ database, clock, log }: { readonly database: Database; readonly clock: Clock; readonly log: Log }) {
    this.#clock = clock
    this.#log = log
    this.#batch = new Batch({
      key: ({ keyId }) => keyId,
      write: async rows => {
        await NOTE.run(database.sql, rows)
        return rows.map(() => null)
      }
    })
  }

  /** Does not block or throw: a lost use is recorded with the next one. */
  note(keyId: string): void {
    const at = this.#clock.now()
    const last = this.#noted.get(keyId)
    if (last !== undefined && at - last < NOTED && at >= last) return
    // Bounds memory; only existing keys are added.
    if (this.#noted.size > 10_000) this.#noted.clear()
    this.#noted.set(keyId, at)
    this.#batch.add({ keyId, at }).catch((error: unknown) => {
      this.#noted.delete(keyId)
      this.#log.debug({ keyId, err: error }, 'the use of an API key could not be noted')
    })
  }

  drained(): Promise<void> {
    return this.#batch.drained()
  }
}

interface ApiKeysDependencies {
  readonly database: Database
  readonly clock: Clock
}

/** API keys of accounts. Uncached: a removed key is refused on every node's next request. */
export class ApiKeys {
  readonly #dependencies: ApiKeysDependencies

  constructor(dependencies: ApiKeysDependencies) {
    this.#dependencies = dependencies
  }

  /**
   * First key, then by age.
   * @throws Unavailable when the database is down
   */
  async list(merchantId: number): Promise<ApiKeyFacts[]> {
    return await keyRows.all(this.#dependencies.database.sql`
      select * from (
        select key_id, 'First key' as name, true as is_first, false as is_read_only,
          coalesce(key_rotated_at, key_created_at) as created_at, null::timestamptz as ends_at
        from merchants where id = ${merchantId}
        union all
        select key_id, name, false, is_read_only, created_at, ends_at from api_keys
        where merchant_id = ${merchantId} and (ends_at is null or ends_at > ${new Date(this.#dependencies.clock.now())})
      ) as keys left join api_key_uses using (key_id)
      order by is_first desc, created_at, key_id`)
  }

  /** @throws ShortError 409 for more than 20 */
  create(merchantId: number, { name, isReadOnly }: Pick<ApiKeyFacts, 'name' | 'isReadOnly'>): Promise<IssuedKey> {
    return this.#dependencies.database.transaction(async tx => {
      await this.#lock(tx, merchantId)
      await this.#requireRoom(tx, merchantId)
      return await this.#insert(tx, merchantId, generateApiKey(systemRandom), { name, isReadOnly })
    })
  }

  /**
   * Replaces a key with one of the same name and rights. The old key stays valid for `overlap` milliseconds. Without an
   * overlap, rotating the first key also ends earlier overlaps, as regenerating does.
   * @throws ShortError 404 for an unknown key; 409 without room for the old one
   */
  rotate(merchantId: number, keyId: string, overlap: number): Promise<IssuedKey> {
    return this.#dependencies.database.transaction(async tx => {
      const firstId = await this.#lock(tx, merchantId)
      const fresh = generateApiKey(systemRandom)
      const now = this.#dependencies.clock.now()
      const endsAt = new Date(now + overlap)
      if (keyId === firstId) {
        if (overlap === 0) await endReplacedKeys(tx, merchantId)
        else {
          await this.#requireRoom(tx, merchantId)
          await tx`
            insert into api_keys (key_id, merchant_id, key_digest, name, is_read_only, created_at, ends_at)
            select key_id, id, key_digest, 'First key, replaced', false, coalesce(key_rotated_at, key_created_at), ${endsAt}
            from merchants where id = ${merchantId}`
        }
        await tx`
          update merchants set key_id = ${fresh.id}, key_digest = ${fresh.digest}, key_rotated_at = ${new Date(now)}, updated_at = ${new Date(now)}
          where id = ${merchantId} returning pg_notify(${merchantsChannel}, id::text)`
        return {
          key: {
            keyId: fresh.id,
            name: 'First key',
            isFirst: true,
            isReadOnly: false,
            createdAt: now,
            usedAt: null,
            endsAt: null
          },
          apiKey: fresh.key
        }
      }
      const old = await keyRows.one(tx`
        select *, false as is_first, null::timestamptz as used_at from api_keys
        where merchant_id = ${merchantId} and key_id = ${keyId} and ends_at is null`)
      if (old === null) throw notFound()
      if (overlap > 0) await this.#requireRoom(tx, merchantId)
      await (overlap > 0
        ? tx`update api_keys set ends_at = ${endsAt} where key_id = ${keyId}`
        : tx`delete from api_keys where key_id = ${keyId}`)
      return await this.#insert(tx, merchantId, fresh, old)
    })
  }

  /** @throws ShortError 404 for an unknown key, 409 for the first */
  async remove(merchantId: number, keyId: string): Promise<void> {
    await this.#dependencies.database.transaction(async tx => {
      if ((await this.#lock(tx, merchantId)) === keyId)
        throw new ShortError(CONFLICT, 'The first key cannot be removed; replace it')
      const gone = await tx`delete from api_keys where merchant_id = ${merchantId} and key_id = ${keyId}`
      if (gone.count === 0) throw notFound()
      await tx`delete from api_key_uses where key_id = ${keyId}`
    })
  }

  async #lock(tx: TransactionSql, merchantId: number): Promise<string> {
    const [row] = await tx<Array<{ key_id: string }>>`select key_id from merchants where id = ${merchantId} for update`
    if (row === undefined) throw notFound()
    await tx`delete from api_keys where merchant_id = ${merchantId} and ends_at <= ${new Date(this.#dependencies.clock.now())}`
    return row.key_id
  }

  async #requireRoom(tx: TransactionSql, merchantId: number): Promise<void> {
    const [row] = await tx<
      Array<{ held: number }>
    >`select count(*)::int as held from api_keys where merchant_id = ${merchantId}`
    if ((row?.held ?? 0) >= MAX_KEYS)
      throw new ShortError(LIMIT_REACHED, `An account has at most ${MAX_KEYS} further keys`)
  }

  async #insert(
    tx: TransactionSql,
    merchantId: number,
    { id, digest, key: apiKey }: NewApiKey,
    { name, isReadOnly }: Pick<ApiKeyFacts, 'name' | 'isReadOnly'>
  ): Promise<IssuedKey> {
    const createdAt = this.#dependencies.clock.now()
    await tx`
      insert into api_keys (key_id, merchant_id, key_digest, name, is_read_only, created_at)
      values (${id}, ${merchantId}, ${digest}, ${name}, ${isReadOnly}, ${new Date(createdAt)})`
    return { key: { keyId: id, name, isFirst: false, isReadOnly, createdAt, usedAt: null, endsAt: null }, apiKey }
  }
}

function notFound(): ShortError {
  return new ShortError(RESOURCE_NOT_FOUND, 'API key not found')
}
