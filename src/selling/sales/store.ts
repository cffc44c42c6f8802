import { isRevoked } from '../verifying/revocations.ts'
import { depositService } from '../../lightning/l402/caveats.ts'
import { OWN_TESTS, type ChallengeSource, type ClaimScheme } from '../holding/challenge.ts'
import { sumOf, withOwnPlan } from '../../platform/database/own-plan.ts'
import type { Database, Sql } from '../../platform/database/database.ts'
import {
  amount,
  containing,
  flag,
  moment,
  optional,
  records,
  text,
  type RecordOf
} from '../../platform/database/rows.ts'
import type { KeysetPage, ListTotal, TimeSpan } from '../../engine/operations/keyset.ts'

/**
 * State of a sale: paid at the provider but never shown; shown and still valid; held by a request in flight; used up.
 */
export const SALE_STATES = ['settled', 'paid', 'leased', 'spent'] as const
type SaleState = (typeof SALE_STATES)[number]

/** Source of a sale: its challenge's, the purchase of a balance, or the operator's own test, which no sum includes. */
export const SALE_SOURCES = [
  'route',
  'proxy',
  'ping',
  'producer',
  'storefront',
  'subscription',
  'bundle',
  'session',
  'test'
] as const satisfies ReadonlyArray<ChallengeSource | 'bundle' | 'session' | 'test'>
type SoldSource = (typeof SALE_SOURCES)[number]

const saleColumns = {
  paymentHash: text(),
  /** First known payment. */
  soldAt: moment(),
  /** Null for the gateway's own routes. */
  merchantId: optional(text()),
  source: text<SoldSource>(),
  proxyId: optional(text()),
  resource: text(),
  description: text(),
  /** Null until a credential was shown. */
  scheme: optional(text<ClaimScheme>()),
  sats: amount(),
  /** Fiat price, such as `USD 0.002`; null for bitcoin. */
  price: optional(text()),
  state: text<SaleState>(),
  isRevoked: flag(),
  /** Number and status of a store's order, as the shop gives them; null before, and for all else. */
  orderNumber: optional(text()),
  orderStatus: optional(text())
}
export type SoldChallenge = RecordOf<typeof saleColumns>
const saleRows = records(saleColumns)

export type SalesOwner = { readonly merchantId: number } | 'gateway' | 'all'

export interface SaleFilter {
  readonly owner: SalesOwner
  readonly period: TimeSpan
  readonly source: SoldSource | null
  readonly scheme: ClaimScheme | null
  readonly state: SaleState | null
  readonly proxyId: string | null
  /** Case-insensitive part of the resource or description, or the payment hash. */
  readonly text: string | null
}

/** Sales by challenges. Those of routes and proxies are kept for a month after their token expired. */
export class SaleStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /** Newest first. */
  async list(filter: SaleFilter, page: KeysetPage): Promise<SoldChallenge[]> {
    return await withOwnPlan(this.#database, sql => saleRows.all(listed(sql, filter, page)))
  }

  async sum(filter: SaleFilter): Promise<ListTotal> {
    return await sumOf(
      this.#database,
      sql => sql`
        select amount_sats as sats from challenges where ${matches(sql, filter)}
          ${filter.source === 'test' ? sql`` : sql`and client_key <> ${OWN_TESTS}`} order by ${soldAtOf(sql)} desc`
    )
  }
}

// Spelled as in its index.
const soldAtOf = (sql: Sql) => sql`least(paid_at, settled_at)`
const sourceOf = (sql: Sql) => sql`case when client_key = ${OWN_TESTS} then 'test' else coalesce(
    (select kind from balance_deposits join balances on id = balance_id where balance_deposits.payment_hash = challenges.payment_hash),
    case when service like ${depositService('%')} then 'session' else source end) end`
const stateOf = (sql: Sql) =>
  sql`case when scheme is null then 'settled' when challenges.state = 'unspent' then 'paid' else challenges.state end`

function listed(sql: Sql, filter: SaleFilter, { after, limit }: KeysetPage) {
  const soldAt = soldAtOf(sql)
  // One table in index order; everything else is looked up for the page's rows only.
  return sql`
    select payment_hash, ${soldAt} as sold_at, merchant_id, ${sourceOf(sql)} as source, proxy_id, resource, description, scheme,
      amount_sats as sats, price, ${stateOf(sql)} as state,
      ${isRevoked(sql, { payment: sql`challenges.payment_hash`, proxy: sql`challenges.proxy_id`, merchant: sql`challenges.merchant_id`, since: sql`created_at` })} as is_revoked,
      (select order_number from storefront_orders where storefront_orders.payment_hash = challenges.payment_hash) as order_number,
      (select status from storefront_orders where storefront_orders.payment_hash = challenges.payment_hash) as order_status
    from challenges where ${matches(sql, filter)}
      ${after === null ? sql`` : sql`and (${soldAt}, payment_hash) < (${new Date(after.at)}, ${after.id})`}
    order by ${soldAt} desc, payment_hash desc
    limit ${limit}`
}

function matches(sql: Sql, { owner, period, ...which }: SaleFilter) {
  const soldAt = soldAtOf(sql)
  const like = which.text === null ? null : containing(which.text)
  const whose =
    owner === 'all'
      ? sql`and coalesce(challenges.merchant_id, '') not like '-%'`
      : owner === 'gateway'
        ? sql`and challenges.merchant_id is null`
        : sql`and challenges.merchant_id = ${String(owner.merchantId)}`
  return sql`${soldAt} is not null ${whose}
      ${period.from === null ? sql`` : sql`and ${soldAt} >= ${new Date(period.from)}`}
      ${period.to === null ? sql`` : sql`and ${soldAt} < ${new Date(period.to)}`}
      ${which.scheme === null ? sql`` : sql`and scheme = ${which.scheme}`}
      ${which.proxyId === null ? sql`` : sql`and proxy_id = ${which.proxyId}`}
      ${which.source === null ? sql`` : sql`and ${sourceOf(sql)} = ${which.source}`}
      ${which.state === null ? sql`` : sql`and ${stateOf(sql)} = ${which.state}`}
      ${
        like === null
          ? sql``
          : sql`and (resource ilike ${like} or description ilike ${like} or payment_hash = ${which.text})`
      }`
}
