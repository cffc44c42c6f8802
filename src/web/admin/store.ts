import type { Database, Sql, TransactionSql } from '../../platform/database/database.ts'
import {
  column,
  containing,
  dateOrNull,
  integer,
  moment,
  optional,
  records,
  text,
  type Records
} from '../../platform/database/rows.ts'
import type { HeadFields } from '../../accounts/merchants/account.ts'
import { resolveTier, storedTiers } from '../../accounts/merchants/plans.ts'
import { headColumns } from '../../accounts/merchants/schema.ts'
import type { MerchantQuery, NewPendingSubscription, PendingSubscription } from './schema.ts'

export type Review =
  | { readonly state: 'approved'; readonly at: number; readonly merchantId: number }
  | { readonly state: 'rejected'; readonly at: number; readonly reason: string | null }

/** Absent members do not filter; `search` is a case-insensitive part of name or address, or the id. */
type MerchantFilter = Pick<MerchantQuery, 'search' | 'isActive' | 'planTier'>

const listedRows: Records<HeadFields> = records(headColumns)

const pendingRows: Records<PendingSubscription> = records({
  id: integer(),
  email: text(),
  customerName: optional(text()),
  billingCustomerId: optional(text()),
  billingSubscriptionId: optional(text()),
  planTier: column(null, resolveTier, tier => tier),
  subscriptionStatus: optional(text()),
  currentPeriodEnd: optional(moment()),
  state: text<PendingSubscription['state']>(),
  createdAt: moment(),
  reviewedAt: optional(moment()),
  rejectionReason: optional(text()),
  linkedMerchantId: optional(integer())
})

export class SqlAdminStore {
  readonly #sql: Sql

  constructor(database: Pick<Database, 'sql'>) {
    this.#sql = database.sql
  }

  async countMerchants(filter: MerchantFilter): Promise<number> {
    const [row] = await this.#sql<Array<{ count: bigint }>>`select count(*) from merchants where ${this.#which(filter)}`
    return Number(row?.count ?? 0n)
  }

  /** Newest first, without sealed columns: all, or at most `limit` after the account `after`. */
  async merchants(filter: MerchantFilter, page?: { limit: number; after: number | undefined }): Promise<HeadFields[]> {
    const sql = this.#sql
    const following =
      page?.after === undefined
        ? sql``
        : sql`and (created_at, id) < (select created_at, id from merchants where id = ${page.after})`
    return await listedRows.all(sql`
      select ${sql(listedRows.names)} from merchants
      where ${this.#which(filter)} ${following}
      order by created_at desc, id desc ${page === undefined ? sql`` : sql`limit ${page.limit}`}`)
  }

  #which({ search, isActive, planTier: wanted }: MerchantFilter) {
    const sql = this.#sql
    // Test accounts have negative ids.
    return sql`id > 0
      ${search === undefined ? sql`` : sql`and (name ilike ${containing(search)} or email ilike ${containing(search)} or id::text = ${search})`}
      ${isActive === undefined ? sql`` : sql`and is_active = ${isActive}`}
      ${
        wanted === undefined
          ? sql``
          : wanted === 'free'
            ? sql`and (plan_tier is null or plan_tier <> all(${[...storedTiers('individual'), ...storedTiers('l402')]}::text[]))`
            : sql`and plan_tier = any(${[...storedTiers(wanted)]}::text[])`
      }`
  }

  /**
   * Stores a subscription bought without an account, once per `billingSubscriptionId`: billing reports repeatedly. A
   * later report updates status and period end until the review. Returns the stored row. `sql`: the caller's
   * transaction.
   */
  async insert(subscription: NewPendingSubscription, now: number, sql: Sql = this.#sql): Promise<PendingSubscription> {
    const [row] = await sql`
      insert into pending_subscriptions as held (
        email, customer_name, billing_customer_id, billing_subscription_id, plan_tier, subscription_status, current_period_end, created_at)
      values (
        ${subscription.email.trim().toLowerCase()}, ${subscription.customerName}, ${subscription.billingCustomerId},
        ${subscription.billingSubscriptionId}, ${subscription.planTier}, ${subscription.subscriptionStatus}, ${dateOrNull(subscription.currentPeriodEnd)}, ${new Date(now)})
      on conflict (billing_subscription_id) do update set
        subscription_status = case held.state when 'pending' then excluded.subscription_status else held.subscription_status end,
        current_period_end = case held.state when 'pending' then excluded.current_period_end else held.current_period_end end
      returning *`
    // An upsert returns one row or throws.
    return pendingRows.read(row!)
  }

  /** Newest first; reviewed ones only with `processed`. */
  async list(processed: boolean): Promise<PendingSubscription[]> {
    const sql = this.#sql
    return await pendingRows.all(sql`
      select * from pending_subscriptions ${processed ? sql`` : sql`where state = 'pending'`} order by created_at desc, id desc`)
  }

  async byId(id: number): Promise<PendingSubscription | null> {
    return await pendingRows.one(this.#sql`select * from pending_subscriptions where id = ${id}`)
  }

  /** Locks the row, which serializes reviews. */
  async lock(sql: TransactionSql, id: number): Promise<PendingSubscription | null> {
    return await pendingRows.one(sql`select * from pending_subscriptions where id = ${id} for update`)
  }

  /** Writes the review of a row locked as pending; returns the row. */
  async review(sql: TransactionSql, id: number, review: Review): Promise<PendingSubscription> {
    const [merchantId, reason] = review.state === 'approved' ? [review.merchantId, null] : [null, review.reason]
    const [row] = await sql`
      update pending_subscriptions set state = ${review.state}, reviewed_at = ${new Date(review.at)}, linked_merchant_id = ${merchantId}, rejection_reason = ${reason}
      where id = ${id} returning *`
    // The row is locked.
    return pendingRows.read(row!)
  }
}
