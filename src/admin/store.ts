import type { Database, Sql, TransactionSql } from '../database/database.ts'
import { resolveTier } from '../merchants/plans.ts'
import type { Merchant } from '../merchants/schema.ts'
import type { NewPendingSubscription, PendingSubscription } from './schema.ts'

/** What a row of the list of merchants shows. */
export type ListedMerchant = Pick<Merchant, 'id' | 'name' | 'email' | 'tier' | 'subscriptionStatus' | 'isActive' | 'createdAt'>

/** What becomes of a subscription that was reviewed. `at` in milliseconds. */
export type Review =
  | { readonly state: 'approved', readonly at: number, readonly merchantId: number }
  | { readonly state: 'rejected', readonly at: number, readonly reason: string | null }

/** A part of the list of accounts. */
export interface MerchantPage {
  readonly limit: number
  /** The last account of the page before; null for the first page. */
  readonly after: number | null
}

/** Where administrators read the accounts as a list, and where pending subscriptions are kept. */
export interface AdminStore {
  /** Accounts, newest first, without their sealed columns: all, or the page of at most `limit` that follows the account `after`. */
  merchants (page?: MerchantPage): Promise<ListedMerchant[]>
  /** How many there are. */
  countMerchants (): Promise<number>
  /**
   * Keeps a subscription that was bought without an account. Billing reports things twice: of several with one
   * `billingSubscriptionId` one stands, in one statement. While it waits, a later report brings its status and period end up
   * to date; once reviewed it stays as it is. Answers the one that stands. `sql` is the caller's transaction, if it has one.
   */
  insert (subscription: NewPendingSubscription, now: number, sql?: Sql): Promise<PendingSubscription>
  /** Newest first; only those that wait unless `processed` is true. */
  list (processed: boolean): Promise<PendingSubscription[]>
  byId (id: number): Promise<PendingSubscription | null>
  /** The same under a lock on its row: of many reviews at once each sees what the one before it left. */
  lock (sql: TransactionSql, id: number): Promise<PendingSubscription | null>
  /** Writes the review of a row that the transaction has locked and found pending; answers it as it is then. */
  review (sql: TransactionSql, id: number, review: Review): Promise<PendingSubscription>
}

interface MerchantRow {
  id: number
  name: string
  email: string
  plan_tier: string | null
  subscription_status: string | null
  is_active: boolean
  created_at: Date
}

interface Row {
  id: number
  email: string
  customer_name: string | null
  billing_customer_id: string | null
  billing_subscription_id: string | null
  plan_tier: string
  subscription_status: string | null
  current_period_end: Date | null
  state: PendingSubscription['state']
  created_at: Date
  reviewed_at: Date | null
  rejection_reason: string | null
  linked_merchant_id: number | null
}

/** The lists of the administrator in the SQL database. */
export class SqlAdminStore implements AdminStore {
  readonly #sql: Sql

  constructor (database: Pick<Database, 'sql'>) {
    this.#sql = database.sql
  }

  async countMerchants (): Promise<number> {
    const [row] = await this.#sql<Array<{ count: bigint }>>`select count(*) from merchants`
    return Number(row?.count ?? 0n)
  }

  async merchants (page?: MerchantPage): Promise<ListedMerchant[]> {
    const sql = this.#sql
    const following = page === undefined || page.after === null ? sql`` : sql`where (created_at, id) < (select created_at, id from merchants where id = ${page.after})`
    const rows = await sql<MerchantRow[]>`
      select id, name, email, plan_tier, subscription_status, is_active, created_at from merchants ${following}
      order by created_at desc, id desc ${page === undefined ? sql`` : sql`limit ${page.limit}`}`
    return rows.map(row => ({
      id: row.id,
      name: row.name,
      email: row.email,
      tier: resolveTier(row.plan_tier),
      subscriptionStatus: row.subscription_status,
      isActive: row.is_active,
      createdAt: row.created_at.getTime()
    }))
  }

  async insert (subscription: NewPendingSubscription, now: number, sql: Sql = this.#sql): Promise<PendingSubscription> {
    const end = subscription.currentPeriodEnd === null ? null : new Date(subscription.currentPeriodEnd)
    const [row] = await sql<Row[]>`
      insert into pending_subscriptions as held (
        email, customer_name, billing_customer_id, billing_subscription_id, plan_tier, subscription_status, current_period_end, created_at)
      values (
        ${subscription.email.trim().toLowerCase()}, ${subscription.customerName}, ${subscription.billingCustomerId},
        ${subscription.billingSubscriptionId}, ${subscription.planTier}, ${subscription.subscriptionStatus}, ${end}, ${new Date(now)})
      on conflict (billing_subscription_id) do update set
        subscription_status = case held.state when 'pending' then excluded.subscription_status else held.subscription_status end,
        current_period_end = case held.state when 'pending' then excluded.current_period_end else held.current_period_end end
      returning *`
    // An insert with an update for its conflict answers one row or throws.
    return read(row!)
  }

  async list (processed: boolean): Promise<PendingSubscription[]> {
    const rows = processed
      ? await this.#sql<Row[]>`select * from pending_subscriptions order by created_at desc, id desc`
      : await this.#sql<Row[]>`select * from pending_subscriptions where state = 'pending' order by created_at desc, id desc`
    return rows.map(read)
  }

  async byId (id: number): Promise<PendingSubscription | null> {
    const [row] = await this.#sql<Row[]>`select * from pending_subscriptions where id = ${id}`
    return row === undefined ? null : read(row)
  }

  async lock (sql: TransactionSql, id: number): Promise<PendingSubscription | null> {
    const [row] = await sql<Row[]>`select * from pending_subscriptions where id = ${id} for update`
    return row === undefined ? null : read(row)
  }

  async review (sql: TransactionSql, id: number, review: Review): Promise<PendingSubscription> {
    const [merchantId, reason] = review.state === 'approved' ? [review.merchantId, null] : [null, review.reason]
    const [row] = await sql<Row[]>`
      update pending_subscriptions set state = ${review.state}, reviewed_at = ${new Date(review.at)}, linked_merchant_id = ${merchantId}, rejection_reason = ${reason}
      where id = ${id} returning *`
    // The row is locked, so it is there.
    return read(row!)
  }
}

function read (row: Row): PendingSubscription {
  return {
    id: row.id,
    email: row.email,
    customerName: row.customer_name,
    billingCustomerId: row.billing_customer_id,
    billingSubscriptionId: row.billing_subscription_id,
    planTier: resolveTier(row.plan_tier),
    subscriptionStatus: row.subscription_status,
    currentPeriodEnd: row.current_period_end?.getTime() ?? null,
    state: row.state,
    createdAt: row.created_at.getTime(),
    reviewedAt: row.reviewed_at?.getTime() ?? null,
    rejectionReason: row.rejection_reason,
    linkedMerchantId: row.linked_merchant_id
  }
}
