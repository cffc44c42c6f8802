import { isRowId, records, type Row } from '../../platform/database/rows.ts'
import { isUniqueViolation, type Database, type Sql, type TransactionSql } from '../../platform/database/database.ts'
import { integrationColumns, type Integration } from '../schema.ts'

export class SlugTaken extends Error {
  override name = 'SlugTaken'
}

/** One store per merchant (decision 143). */
export class StoreExists extends Error {
  override name = 'StoreExists'
}

/** Runs in the transaction that writes a store. */
export type Also = (tx: TransactionSql, integration: Integration) => Promise<void>

const integrationRows = records(integrationColumns)

const SLUG = /^[a-z0-9-]{1,63}$/

/** Stores integrations, uncached: each process sees changes immediately. An error of `also` undoes the write. */
export class IntegrationStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /** A fresh id, never reused, so that secrets can be sealed for the row before it exists. */
  async nextId(): Promise<number> {
    const [row] = await this.#database.sql<
      { id: bigint }[]
    >`select nextval(pg_get_serial_sequence('storefronts', 'id')) as id`
    // A select without a table answers exactly one row.
    return Number(row!.id)
  }

  /** @throws SlugTaken, StoreExists; of concurrent calls exactly one succeeds */
  async insert(integration: Integration, also: Also): Promise<void> {
    try {
      await this.#database.transaction(async tx => {
        await tx`insert into storefronts ${tx(integrationRows.write(tx, integration))}`
        await also(tx, integration)
      })
    } catch (error) {
      if (isUniqueViolation(error, 'storefronts_slug'))
        throw new SlugTaken('Another store has this slug', { cause: error })
      if (isUniqueViolation(error, 'storefronts_merchant'))
        throw new StoreExists('The merchant has a store already', { cause: error })
      throw error
    }
  }

  async bySlug(slug: string): Promise<Integration | null> {
    // No slug has this form, and the database accepts no NUL.
    if (!SLUG.test(slug)) return null
    return await integrationRows.one(this.#database.sql`select * from storefronts where slug = ${slug}`)
  }

  async byId(id: number): Promise<Integration | null> {
    return isRowId(id)
      ? await integrationRows.one(this.#database.sql`select * from storefronts where id = ${id}`)
      : null
  }

  ofMerchant(merchantId: number): Promise<Integration | null> {
    return integrationRows.one(ofMerchant(this.#database.sql, merchantId))
  }

  async listed(limit: number): Promise<Integration[]> {
    return await integrationRows.all(this.#database.sql`
      select * from storefronts where list_in_registry and is_active order by id limit ${limit}`)
  }

  /**
   * Changes the merchant's store under a lock on its row. Returns the new row, null without one; an error of `change`
   * leaves it unchanged. Slug, merchant and platform never change.
   */
  async update(
    merchantId: number,
    change: (integration: Integration) => Integration,
    also: Also
  ): Promise<Integration | null> {
    return await this.#database.transaction(async tx => {
      await tx`select 1 from storefronts where merchant_id = ${merchantId} for update`
      const held = await integrationRows.one(ofMerchant(tx, merchantId))
      if (held === null) return null
      const { id, slug, platform, createdAt } = held
      const next: Integration = { ...change(held), id, merchantId, slug, platform, createdAt }
      await tx`update storefronts set ${tx(integrationRows.write(tx, next))} where id = ${id}`
      await also(tx, next)
      return next
    })
  }
}

function ofMerchant(sql: Sql, merchantId: number): PromiseLike<readonly Row[]> {
  return sql`select * from storefronts where merchant_id = ${merchantId}`
}
