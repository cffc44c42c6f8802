import type { Database, Sql } from '../../platform/database/database.ts'
import type { ChallengeStatus } from './schema.ts'
import type { Challenge } from '../holding/challenge.ts'
import { optional, records, text, moment, type Records } from '../../platform/database/rows.ts'
import { challengeRows } from '../holding/sql/rows.ts'

interface RowPage {
  readonly limit: number
  readonly offset: number
}

interface ChallengeFilter extends RowPage {
  readonly status: ChallengeStatus | null
  readonly since: number | null
  /** Separates unpaid from expired. */
  readonly now: number
}

interface ProducerEndpoint {
  readonly resource: string
  readonly createdAt: number
  readonly retiredAt: number | null
}

export interface Counted<T> {
  readonly rows: readonly T[]
  readonly total: number
}

const endpointRows: Records<ProducerEndpoint> = records({
  resource: text(),
  createdAt: moment(),
  retiredAt: optional(moment())
})

/**
 * Rows of the producer API besides the challenges. Methods that take `sql` are steps of one transaction that begins
 * with `lock`.
 */
export class ProducerStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /** Locks the merchant's row for the transaction, to serialize counts and their consequences. */
  async lock(sql: Sql, merchantId: number): Promise<void> {
    const [row] = await sql`select id from merchants where id = ${merchantId} for update`
    // Without a row nothing is locked, and the caps would not hold.
    if (row === undefined) throw new Error(`there is no merchant ${merchantId} to lock`)
  }

  async byKey(sql: Sql, merchantId: number, key: string): Promise<Challenge | null> {
    return await challengeRows.one(sql`
      select challenges.* from producer_keys join challenges using (payment_hash)
      where producer_keys.merchant_id = ${String(merchantId)} and producer_keys.idempotency_key = ${key}`)
  }

  async bindKey(sql: Sql, merchantId: number, key: string, paymentHash: string): Promise<void> {
    await sql`
      insert into producer_keys (merchant_id, idempotency_key, payment_hash) values (${String(merchantId)}, ${key}, ${paymentHash})
      on conflict (merchant_id, idempotency_key) do update set payment_hash = excluded.payment_hash`
  }

  async endpoint(sql: Sql, merchantId: number, resource: string): Promise<ProducerEndpoint | null> {
    return await endpointRows.one(sql`
      select resource, created_at, retired_at from producer_endpoints where merchant_id = ${String(merchantId)} and resource = ${resource}`)
  }

  async addEndpoint(sql: Sql, merchantId: number, resource: string, now: number): Promise<void> {
    await sql`
      insert into producer_endpoints (merchant_id, resource, created_at) values (${String(merchantId)}, ${resource}, ${new Date(now)})
      on conflict do nothing`
  }

  async countSince(sql: Sql, merchantId: number, since: number): Promise<number> {
    const [row] = await sql<{ made: number }[]>`
      select count(*)::int as made from challenges
      where merchant_id = ${String(merchantId)} and source = 'producer' and created_at >= ${new Date(since)}`
    return row?.made ?? 0
  }

  /** Retires a resource; false if the merchant never sold it. Repeating keeps the first time. */
  async retire(merchantId: number, resource: string, now: number): Promise<boolean> {
    return await this.#database.transaction(async tx => {
      // A create that has read this resource finishes first.
      await this.lock(tx, merchantId)
      const retired = await tx`
        update producer_endpoints set retired_at = coalesce(retired_at, ${new Date(now)}::timestamptz)
        where merchant_id = ${String(merchantId)} and resource = ${resource}`
      return retired.count > 0
    })
  }

  async endpoints(merchantId: number, page: RowPage): Promise<Counted<ProducerEndpoint>> {
    const { sql } = this.#database
    const merchant = String(merchantId)
    const [count] = await sql<
      { total: number }[]
    >`select count(*)::int as total from producer_endpoints where merchant_id = ${merchant}`
    const rows = await endpointRows.all(sql`
      select resource, created_at, retired_at from producer_endpoints where merchant_id = ${merchant}
      order by created_at desc, resource desc limit ${page.limit} offset ${page.offset}`)
    return { rows, total: count?.total ?? 0 }
  }

  async get(merchantId: number, paymentHash: string): Promise<Challenge | null> {
    return await challengeRows.one(this.#database.sql`
      select * from challenges where payment_hash = ${paymentHash} and merchant_id = ${String(merchantId)} and source = 'producer'`)
  }

  /** Newest first, ties by payment hash descending (decision 11). */
  async list(merchantId: number, filter: ChallengeFilter): Promise<Counted<Challenge>> {
    const { sql } = this.#database
    const where = sql`
      source = 'producer' and merchant_id = ${String(merchantId)}
      ${filter.since === null ? sql`` : sql`and created_at >= ${new Date(filter.since)}`}
      ${this.#standing(filter)}`
    const [count] = await sql<{ total: number }[]>`select count(*)::int as total from challenges where ${where}`
    const rows = await challengeRows.all(sql`
      select * from challenges where ${where}
      order by created_at desc, payment_hash desc limit ${filter.limit} offset ${filter.offset}`)
    return { rows, total: count?.total ?? 0 }
  }

  #standing(filter: ChallengeFilter) {
    const { sql } = this.#database
    const now = new Date(filter.now)
    switch (filter.status) {
      case null:
        return sql``
      case 'paid':
        return sql`and paid_at is not null`
      case 'unpaid':
        return sql`and paid_at is null and expires_at > ${now}`
      case 'expired':
        return sql`and paid_at is null and expires_at <= ${now}`
    }
  }
}
