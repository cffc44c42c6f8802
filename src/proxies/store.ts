import type { Database, Sql } from '../database/database.ts'
import type { Renewal } from '../challenges/offer.ts'
import type { ProxyEndpoint, FormerPrices } from './schema.ts'

/** A proxy as it is stored. Times are milliseconds since the epoch. */
export interface ProxyRow {
  readonly proxyId: string
  readonly merchantId: number
  readonly name: string
  readonly description: string | null
  readonly targetBaseUrl: string
  readonly defaultPriceSats: number
  readonly endpoints: readonly ProxyEndpoint[]
  readonly tokenValiditySeconds: number
  readonly timeoutSeconds: number
  readonly renewal: 'default' | Renewal
  readonly priceGraceSeconds: number
  /** Latest first. */
  readonly formerPrices: readonly FormerPrices[]
  readonly allowedMethods: readonly string[]
  readonly allowedPaths: readonly string[]
  readonly blockedPaths: readonly string[]
  readonly authHeader: string | null
  /** Ciphertext; AAD is table proxies, column auth_value, row proxyId. */
  readonly authValue: string | null
  readonly isActive: boolean
  readonly createdAt: number
  readonly updatedAt: number
}

/** Whether a text can be the id of a proxy: the database is not asked for others, some of which it could not even read. */
export function isProxyId (text: string): boolean {
  return /^[a-z0-9-]{1,64}$/.test(text)
}

/** Where proxies are kept. */
export interface ProxyStore {
  /**
   * Adds a proxy when the merchant holds fewer than `limit` endpoints, counted under a lock on the merchant's row, so that
   * two creations at once cannot both take the last place. Answers the count that stood in the way, or null when added.
   */
  insert (row: ProxyRow, limit: number | null, countOthers: (sql: Sql, merchantId: number) => Promise<number>): Promise<number | null>
  /**
   * Changes the merchant's own proxy under a lock on its row, so that two changes at once both hold. Answers the row as it is
   * then, null when there is none; what `change` throws leaves it as it was.
   */
  update (merchantId: number, proxyId: string, change: (row: ProxyRow) => ProxyRow): Promise<ProxyRow | null>
  /** Marks the proxy as deleted; false when it was not there. The id is never used again. */
  delete (merchantId: number, proxyId: string, now: number): Promise<boolean>
  /** One merchant's proxies, newest first. */
  list (merchantId: number): Promise<ProxyRow[]>
  /** The merchant's own proxy, or null. */
  get (merchantId: number, proxyId: string): Promise<ProxyRow | null>
  /** Proxies by id, whoever they belong to; deleted ones are left out. */
  byIds (proxyIds: readonly string[]): Promise<ProxyRow[]>
  /** Proxies that are not deleted. */
  count (sql: Sql, merchantId: number): Promise<number>
  /** The same, with how many of them are active. */
  counts (merchantId: number): Promise<{ readonly count: number, readonly active: number }>
}

interface DatabaseRow {
  proxy_id: string
  merchant_id: number
  name: string
  description: string | null
  target_base_url: string
  default_price_sats: bigint
  /** Rows of older versions lack members. */
  endpoints: Array<Omit<ProxyEndpoint, 'tokenValiditySeconds'> & Partial<Pick<ProxyEndpoint, 'tokenValiditySeconds'>>>
  token_validity_seconds: number
  timeout_seconds: number
  renewal: 'default' | 'contract' | '402'
  price_grace_seconds: number
  former_prices: FormerPrices[]
  allowed_methods: string[]
  allowed_paths: string[]
  blocked_paths: string[]
  auth_header: string | null
  auth_value: string | null
  is_active: boolean
  created_at: Date
  updated_at: Date
}

/** Channel on which the id of a changed proxy is told to every process. */
export const PROXY_CHANNEL = 'boltgate_proxies'

/** Proxies in the SQL database. */
export class SqlProxyStore implements ProxyStore {
  readonly #database: Database

  constructor (database: Database) {
    this.#database = database
  }

  async insert (row: ProxyRow, limit: number | null, countOthers: (sql: Sql, merchantId: number) => Promise<number>): Promise<number | null> {
    return await this.#database.transaction(async tx => {
      await tx`select 1 from merchants where id = ${row.merchantId} for update`
      if (limit !== null) {
        const held = await this.count(tx, row.merchantId) + await countOthers(tx, row.merchantId)
        if (held >= limit) return held
      }
      await tx`insert into proxies ${tx(columns(tx, row))}`
      return null
    })
  }

  async update (merchantId: number, proxyId: string, change: (row: ProxyRow) => ProxyRow): Promise<ProxyRow | null> {
    return await this.#database.transaction(async tx => {
      const [held] = await tx<DatabaseRow[]>`
        select * from proxies where proxy_id = ${proxyId} and merchant_id = ${merchantId} and deleted_at is null for update`
      if (held === undefined) return null
      const row = change(fromDatabase(held))
      await tx`update proxies set ${tx(columns(tx, row))} where proxy_id = ${proxyId}`
      await this.#database.notify(PROXY_CHANNEL, proxyId, tx)
      return row
    })
  }

  async delete (merchantId: number, proxyId: string, now: number): Promise<boolean> {
    return await this.#database.transaction(async tx => {
      const changed = await tx`
        update proxies set deleted_at = ${new Date(now)}, is_active = false, auth_value = null
        where proxy_id = ${proxyId} and merchant_id = ${merchantId} and deleted_at is null`
      if (changed.count === 0) return false
      await this.#database.notify(PROXY_CHANNEL, proxyId, tx)
      return true
    })
  }

  async list (merchantId: number): Promise<ProxyRow[]> {
    const rows = await this.#database.sql<DatabaseRow[]>`
      select * from proxies where merchant_id = ${merchantId} and deleted_at is null order by created_at desc, proxy_id desc`
    return rows.map(fromDatabase)
  }

  async get (merchantId: number, proxyId: string): Promise<ProxyRow | null> {
    const [row] = await this.#database.sql<DatabaseRow[]>`
      select * from proxies where proxy_id = ${proxyId} and merchant_id = ${merchantId} and deleted_at is null`
    return row === undefined ? null : fromDatabase(row)
  }

  async byIds (proxyIds: readonly string[]): Promise<ProxyRow[]> {
    const rows = await this.#database.sql<DatabaseRow[]>`select * from proxies where proxy_id = any(${[...proxyIds]}) and deleted_at is null`
    return rows.map(fromDatabase)
  }

  async count (sql: Sql, merchantId: number): Promise<number> {
    const [row] = await sql<Array<{ held: number }>>`select count(*)::int as held from proxies where merchant_id = ${merchantId} and deleted_at is null`
    return row?.held ?? 0
  }

  async counts (merchantId: number): Promise<{ count: number, active: number }> {
    const [row] = await this.#database.sql<Array<{ count: number, active: number }>>`
      select count(*)::int as count, (count(*) filter (where is_active))::int as active
      from proxies where merchant_id = ${merchantId} and deleted_at is null`
    return row ?? { count: 0, active: 0 }
  }
}

function columns (sql: Sql, row: ProxyRow) {
  return {
    proxy_id: row.proxyId,
    merchant_id: row.merchantId,
    name: row.name,
    description: row.description,
    target_base_url: row.targetBaseUrl,
    default_price_sats: row.defaultPriceSats,
    // The driver's JSON type wants index signatures, which interfaces do not have.
    endpoints: sql.json(row.endpoints as never),
    token_validity_seconds: row.tokenValiditySeconds,
    timeout_seconds: row.timeoutSeconds,
    renewal: String(row.renewal),
    price_grace_seconds: row.priceGraceSeconds,
    former_prices: sql.json(row.formerPrices as never),
    allowed_methods: [...row.allowedMethods],
    allowed_paths: [...row.allowedPaths],
    blocked_paths: [...row.blockedPaths],
    auth_header: row.authHeader,
    auth_value: row.authValue,
    is_active: row.isActive,
    created_at: new Date(row.createdAt),
    updated_at: new Date(row.updatedAt)
  }
}

function fromDatabase (row: DatabaseRow): ProxyRow {
  return {
    proxyId: row.proxy_id,
    merchantId: row.merchant_id,
    name: row.name,
    description: row.description,
    targetBaseUrl: row.target_base_url,
    defaultPriceSats: Number(row.default_price_sats),
    endpoints: row.endpoints.map(endpoint => ({ ...endpoint, tokenValiditySeconds: endpoint.tokenValiditySeconds ?? null })),
    tokenValiditySeconds: row.token_validity_seconds,
    timeoutSeconds: row.timeout_seconds,
    renewal: row.renewal === '402' ? 402 : row.renewal,
    priceGraceSeconds: row.price_grace_seconds,
    formerPrices: row.former_prices,
    allowedMethods: row.allowed_methods,
    allowedPaths: row.allowed_paths,
    blockedPaths: row.blocked_paths,
    authHeader: row.auth_header,
    authValue: row.auth_value,
    isActive: row.is_active,
    createdAt: row.created_at.getTime(),
    updatedAt: row.updated_at.getTime()
  }
}
