import { isUniqueViolation, type Database, type Sql, type TransactionSql } from '../../database/database.ts'
import type { SealedValue } from '../../providers/account.ts'
import type { StorePlatformKind } from '../platform.ts'
import type { Integration } from '../schema.ts'

/** Another store has this slug. */
export class SlugTaken extends Error {
  override name = 'SlugTaken'
}

/** The merchant has a store already; there is one each (decision 143). */
export class StoreExists extends Error {
  override name = 'StoreExists'
}

/** Written in the transaction that writes a store, such as the job that follows from it. */
export type Also = (tx: TransactionSql, integration: Integration) => Promise<void>

/**
 * Where stores are kept. Nothing is cached: what one process changes, the next request of any process sees. What `also` of a
 * write throws undoes the write.
 */
export interface IntegrationStore {
  /** A fresh id, never given twice, so that ciphertexts can be sealed for the row before it stands. */
  nextId (): Promise<number>
  /** @throws SlugTaken, StoreExists; of several at once with one slug or one merchant exactly one succeeds */
  insert (integration: Integration, also: Also): Promise<void>
  bySlug (slug: string): Promise<Integration | null>
  byId (id: number): Promise<Integration | null>
  ofMerchant (merchantId: number): Promise<Integration | null>
  /** Active stores that want to be listed, oldest first; at most `limit`. */
  listed (limit: number): Promise<Integration[]>
  /**
   * Changes the merchant's store under a lock on its row, so that two changes at once both hold. Answers the row as it is
   * then, null when there is none; what `change` throws leaves it as it was. Slug, merchant and platform stay whatever it says.
   */
  update (merchantId: number, change: (integration: Integration) => Integration, also: Also): Promise<Integration | null>
}

interface Row {
  id: number
  merchant_id: number
  slug: string
  platform: StorePlatformKind
  storefront_domain: string
  shop_handle: string | null
  shop_name: string | null
  shop_country: string | null
  client_id: string | null
  client_secret: string | null
  admin_api_token: string | null
  domestic_shipping_cents: bigint
  domestic_only: boolean
  free_shipping_enabled: boolean
  free_shipping_threshold_cents: bigint | null
  default_tax_location: string | null
  list_in_registry: boolean
  registry_categories: string | null
  registry_description: string | null
  claim_window_days: number
  is_active: boolean
  created_at: Date
  updated_at: Date
}

/** The sealed columns of the table. */
export type StoreSealedColumn = 'client_secret' | 'admin_api_token'

/** A ciphertext with its place in the table `storefronts`. */
export function sealedStoreColumn (id: number, column: StoreSealedColumn, ciphertext: string): SealedValue {
  return { ciphertext, place: { table: 'storefronts', column, row: String(id) } }
}

// The column is an integer: a larger number would be an error of the database in the place of "no such store".
function isRowId (id: number): boolean {
  return Number.isInteger(id) && id > 0 && id <= 0x7fff_ffff
}

const SLUG = /^[a-z0-9-]{1,63}$/

/** Stores in the database's table `storefronts`. */
export class SqlIntegrationStore implements IntegrationStore {
  readonly #database: Database

  constructor (database: Database) {
    this.#database = database
  }

  async nextId (): Promise<number> {
    const [row] = await this.#database.sql<{ id: bigint }[]>`select nextval(pg_get_serial_sequence('storefronts', 'id')) as id`
    // A select without a table answers exactly one row.
    return Number(row!.id)
  }

  async insert (integration: Integration, also: Also): Promise<void> {
    try {
      await this.#database.transaction(async tx => {
        const { id, merchantId, slug, platform } = integration
        await tx`insert into storefronts ${tx({ id, merchant_id: merchantId, slug, platform, created_at: new Date(integration.createdAt), ...changing(integration) })}`
        await also(tx, integration)
      })
    } catch (error) {
      if (isUniqueViolation(error, 'storefronts_slug')) throw new SlugTaken('Another store has this slug', { cause: error })
      if (isUniqueViolation(error, 'storefronts_merchant')) throw new StoreExists('The merchant has a store already', { cause: error })
      throw error
    }
  }

  async bySlug (slug: string): Promise<Integration | null> {
    // No store has such a name, and the database takes no NUL in a text.
    if (!SLUG.test(slug)) return null
    return await this.#one(this.#database.sql<Row[]>`select * from storefronts where slug = ${slug}`)
  }

  async byId (id: number): Promise<Integration | null> {
    return isRowId(id) ? await this.#one(this.#database.sql<Row[]>`select * from storefronts where id = ${id}`) : null
  }

  ofMerchant (merchantId: number): Promise<Integration | null> {
    return this.#one(ofMerchant(this.#database.sql, merchantId))
  }

  async listed (limit: number): Promise<Integration[]> {
    const rows = await this.#database.sql<Row[]>`
      select * from storefronts where list_in_registry and is_active order by id limit ${limit}`
    return rows.map(read)
  }

  async update (merchantId: number, change: (integration: Integration) => Integration, also: Also): Promise<Integration | null> {
    return await this.#database.transaction(async tx => {
      await tx`select 1 from storefronts where merchant_id = ${merchantId} for update`
      const held = await this.#one(ofMerchant(tx, merchantId))
      if (held === null) return null
      const { id, slug, platform, createdAt } = held
      const next: Integration = { ...change(held), id, merchantId, slug, platform, createdAt }
      await tx`update storefronts set ${tx(changing(next))} where id = ${id}`
      await also(tx, next)
      return next
    })
  }

  async #one (statement: PromiseLike<readonly Row[]>): Promise<Integration | null> {
    const [row] = await statement
    return row === undefined ? null : read(row)
  }
}

function ofMerchant (sql: Sql, merchantId: number): PromiseLike<readonly Row[]> {
  return sql<Row[]>`select * from storefronts where merchant_id = ${merchantId}`
}

/** The columns that a change may write. */
function changing (integration: Integration): Omit<Row, 'id' | 'merchant_id' | 'slug' | 'platform' | 'created_at' | 'domestic_shipping_cents' | 'free_shipping_threshold_cents'> & { domestic_shipping_cents: number, free_shipping_threshold_cents: number | null } {
  const { shipping } = integration
  return {
    storefront_domain: integration.storefrontDomain,
    shop_handle: integration.shopHandle,
    shop_name: integration.shopName,
    shop_country: integration.shopCountry,
    client_id: integration.clientId,
    client_secret: integration.clientSecret?.ciphertext ?? null,
    admin_api_token: integration.adminApiToken?.ciphertext ?? null,
    domestic_shipping_cents: shipping.domesticCents,
    domestic_only: shipping.domesticOnly,
    free_shipping_enabled: shipping.freeEnabled,
    free_shipping_threshold_cents: shipping.freeThresholdCents,
    default_tax_location: integration.defaultTaxLocation,
    list_in_registry: integration.listInRegistry,
    registry_categories: integration.registryCategories,
    registry_description: integration.registryDescription,
    claim_window_days: integration.claimWindowDays,
    is_active: integration.isActive,
    updated_at: new Date(integration.updatedAt)
  }
}

function read (row: Row): Integration {
  const sealed = (column: StoreSealedColumn): SealedValue | null => row[column] === null ? null : sealedStoreColumn(row.id, column, row[column])
  return {
    id: row.id,
    merchantId: row.merchant_id,
    slug: row.slug,
    platform: row.platform,
    storefrontDomain: row.storefront_domain,
    shopHandle: row.shop_handle,
    shopName: row.shop_name,
    shopCountry: row.shop_country,
    clientId: row.client_id,
    clientSecret: sealed('client_secret'),
    adminApiToken: sealed('admin_api_token'),
    shipping: {
      domesticCents: Number(row.domestic_shipping_cents),
      domesticOnly: row.domestic_only,
      freeEnabled: row.free_shipping_enabled,
      freeThresholdCents: row.free_shipping_threshold_cents === null ? null : Number(row.free_shipping_threshold_cents)
    },
    defaultTaxLocation: row.default_tax_location,
    listInRegistry: row.list_in_registry,
    registryCategories: row.registry_categories,
    registryDescription: row.registry_description,
    claimWindowDays: row.claim_window_days,
    isActive: row.is_active,
    createdAt: row.created_at.getTime(),
    updatedAt: row.updated_at.getTime()
  }
}
