import { countProxies } from '../../accounts/merchants/holdings.ts'
import type { Database, Sql } from '../../platform/database/database.ts'
import {
  amount,
  column,
  flag,
  integer,
  json,
  optional,
  records,
  text,
  texts,
  moment,
  type RecordOf,
  type Row
} from '../../platform/database/rows.ts'
import type { ApiFile } from '../../engine/checks/api-file.ts'
import type { Renewal } from '../../selling/offers/offer.ts'
import type { ProxyPriceText } from './price.ts'
import type { ProxyEndpoint, ProxyExample, PreviousPrices } from './schema.ts'
import type { Random } from '../../platform/system/ids.ts'

const proxyColumns = {
  proxyId: text(),
  merchantId: integer(),
  name: text(),
  description: optional(text()),
  targetBaseUrl: text(),
  defaultPriceSats: amount(),
  /** Null where satoshis are the price. */
  defaultPrice: optional(json((stored: ProxyPriceText) => stored)),
  // Rows of older versions lack members.
  endpoints: json(
    (
      stored: ReadonlyArray<
        Omit<ProxyEndpoint, 'tokenValiditySeconds'> & Partial<Pick<ProxyEndpoint, 'tokenValiditySeconds'>>
      >
    ): readonly ProxyEndpoint[] =>
      stored.map(endpoint => ({ ...endpoint, tokenValiditySeconds: endpoint.tokenValiditySeconds ?? null }))
  ),
  tokenValiditySeconds: integer(),
  /** In seconds, like the next. */
  timeout: integer('timeout_seconds'),
  renewal: column(
    null,
    (stored: 'default' | 'contract' | '402'): 'default' | Renewal => (stored === '402' ? 402 : stored),
    String
  ),
  priceGrace: integer('price_grace_seconds'),
  /** Latest first. */
  formerPrices: json((stored: readonly PreviousPrices[]) => stored),
  allowedMethods: texts(),
  allowedPaths: texts(),
  blockedPaths: texts(),
  authHeader: optional(text()),
  /** Ciphertext; AAD is table proxies, column auth_value, row proxyId. */
  authValue: optional(text()),
  isActive: flag(),
  /** Published in the gateway's documents for buyers. */
  isListed: flag(),
  examples: json((stored: readonly ProxyExample[]) => stored),
  createdAt: moment(),
  updatedAt: moment()
}
export type ProxyRow = RecordOf<typeof proxyColumns>
const proxyRows = records(proxyColumns)

export const PROXY_CHANNEL = 'boltgate_proxies'

export class ProxyStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /**
   * Adds a proxy when the merchant has fewer than `limit` endpoints. Locks the merchant's row, so that concurrent
   * creates respect the limit. Returns the count on refusal, null when added.
   */
  async insert(
    row: ProxyRow,
    limit: number | null,
    countOthers: (sql: Sql, merchantId: number) => Promise<number>
  ): Promise<number | null> {
    return await this.#database.transaction(async tx => {
      await tx`select 1 from merchants where id = ${row.merchantId} for update`
      if (limit !== null) {
        const held = (await countProxies(tx, row.merchantId)).count + (await countOthers(tx, row.merchantId))
        if (held >= limit) return held
      }
      await tx`insert into proxies ${tx(proxyRows.write(tx, row))}`
      return null
    })
  }

  /**
   * Changes the merchant's proxy under a row lock. Returns the row, or null when it is missing; throwing in `change`
   * rolls back. `api`: its OpenAPI document from now on; undefined leaves it.
   */
  async update(
    merchantId: number,
    proxyId: string,
    change: (row: ProxyRow) => ProxyRow,
    api?: ApiFile | null
  ): Promise<ProxyRow | null> {
    return await this.#database.transaction(async tx => {
      const held = await proxyRows.one(tx`
        select * from proxies where proxy_id = ${proxyId} and merchant_id = ${merchantId} and deleted_at is null for update`)
      if (held === null) return null
      const row = change(held)
      await tx`update proxies set ${tx(proxyRows.write(tx, row))} where proxy_id = ${proxyId}`
      if (api !== undefined)
        await tx`update proxies set openapi = ${api === null ? null : JSON.stringify(api)} where proxy_id = ${proxyId}`
      await this.#database.notify(PROXY_CHANNEL, proxyId, tx)
      return row
    })
  }

  /** Marks the proxy as deleted; false when missing. The id is never reused. */
  async delete(merchantId: number, proxyId: string, now: number): Promise<boolean> {
    return await this.#database.transaction(async tx => {
      const changed = await tx`
        update proxies set deleted_at = ${new Date(now)}, is_active = false, auth_value = null, openapi = null
        where proxy_id = ${proxyId} and merchant_id = ${merchantId} and deleted_at is null`
      if (changed.count === 0) return false
      await this.#database.notify(PROXY_CHANNEL, proxyId, tx)
      return true
    })
  }

  async list(merchantId: number): Promise<ProxyRow[]> {
    return await proxyRows.all(this.#database.sql`
      select * from proxies where merchant_id = ${merchantId} and deleted_at is null order by created_at desc, proxy_id desc`)
  }

  async get(merchantId: number, proxyId: string): Promise<ProxyRow | null> {
    return await proxyRows.one(this.#database.sql`
      select * from proxies where proxy_id = ${proxyId} and merchant_id = ${merchantId} and deleted_at is null`)
  }

  async byIds(proxyIds: readonly string[]): Promise<ProxyRow[]> {
    return await proxyRows.all(
      this.#database.sql`select * from proxies where proxy_id = any(${[...proxyIds]}) and deleted_at is null`
    )
  }

  async listed(limit: number): Promise<ProxyRow[]> {
    return await proxyRows.all(this.#database.sql`
      select * from proxies where merchant_id > 0 and is_listed and is_active and deleted_at is null order by created_at, proxy_id limit ${limit}`)
  }

  /** A listed proxy with its OpenAPI document, which others are read without. */
  async listedApi(proxyId: string): Promise<{ readonly row: ProxyRow; readonly api: ApiFile | null } | null> {
    const [found] = await this.#database.sql<Array<Row & { openapi: string | null }>>`
      select * from proxies where proxy_id = ${proxyId} and merchant_id > 0 and is_listed and is_active and deleted_at is null`
    if (found === undefined) return null
    // As `update` wrote it.
    return { row: proxyRows.read(found), api: found.openapi === null ? null : (JSON.parse(found.openapi) as ApiFile) }
  }
}

/** `<slug of name>-<8 hex>` (decision 10). */
export function newProxyId(name: string, random: Random): string {
  const slug = name
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '')
    .slice(0, 40)
    .replace(/-$/, '')
  return `${slug === '' ? 'proxy' : slug}-${Buffer.from(random(4)).toString('hex')}`
}
