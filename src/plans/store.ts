import type { PlanTier } from '../accounts/merchants/plans.ts'
import type { Database, Sql, TransactionSql } from '../platform/database/database.ts'
import { dateOrNull, integer, optional, records, text, moment, type RecordOf } from '../platform/database/rows.ts'
import type { BilledSubscription } from './provider.ts'
import type { Merchant } from '../accounts/merchants/schema.ts'

const cardColumns = {
  subscriptionId: text(),
  customerId: optional(text()),
  plan: optional(text<PlanTier>('plan_tier')),
  /** The provider's spelling. */
  status: text(),
  currentPeriodEnd: optional(moment()),
  startedAt: moment()
}
export type CardSubscription = RecordOf<typeof cardColumns>
const cardRows = records(cardColumns)

/** `plan` null: never written. */
const beforeColumns = { plan: optional(text<PlanTier>('plan_tier')), merchantId: optional(integer()) }
export type BeforeLookup = RecordOf<typeof beforeColumns>
const beforeRows = records(beforeColumns)
const pendingRows = records({ merchantId: optional(integer('linked_merchant_id')) })

/**
 * Stores card subscriptions. Each lookup at the provider takes a ticket first, and writes only if no later ticket was
 * taken. So every write is newer than the one before it, regardless of latency and process.
 */
export class CardSubscriptionStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /** A ticket for a lookup; invalidates earlier ones. One statement. */
  async ticket(subscriptionId: string): Promise<bigint> {
    const [row] = await this.#database.sql<{ ticket: bigint }[]>`
      insert into card_subscriptions as held (subscription_id, ticket) values (${subscriptionId}, 1)
      on conflict (subscription_id) do update set ticket = held.ticket + 1
      returning ticket`
    // An insert with an update for its conflict answers one row or throws.
    return row!.ticket
  }

  async lock(tx: TransactionSql, subscriptionId: string, ticket: bigint): Promise<BeforeLookup | null> {
    return await beforeRows.one(tx`
      select plan_tier, merchant_id from card_subscriptions where subscription_id = ${subscriptionId} and ticket = ${ticket} for update`)
  }

  /** Writes the result of a lookup; the transaction holds the lock. */
  async write(tx: TransactionSql, seen: BilledSubscription, merchantId: number | null): Promise<void> {
    await tx`
      update card_subscriptions set
        merchant_id = ${merchantId}, customer_id = ${seen.customerId}, plan_tier = ${seen.plan}, status = ${seen.status},
        current_period_end = ${dateOrNull(seen.currentPeriodEnd)}, started_at = ${new Date(seen.startedAt)}
      where subscription_id = ${seen.subscriptionId}`
  }

  async merchantWith(tx: TransactionSql, subscriptionId: string): Promise<number | null> {
    const [row] = await tx<
      { id: number }[]
    >`select id from merchants where billing_subscription_id = ${subscriptionId} order by id limit 1`
    return row?.id ?? null
  }

  /** Null when it never waited for approval. */
  async pendingPlan(
    tx: TransactionSql,
    subscriptionId: string
  ): Promise<{ readonly merchantId: number | null } | null> {
    return await pendingRows.one(
      tx`select linked_merchant_id from pending_subscriptions where billing_subscription_id = ${subscriptionId}`
    )
  }

  /**
   * Locks an account for the transaction, so that its subscriptions are judged one by one. False for an unknown one.
   */
  async lockMerchant(tx: TransactionSql, merchantId: number): Promise<boolean> {
    return (await tx`select id from merchants where id = ${merchantId} for update`).length === 1
  }

  async ofMerchant(merchantId: number, sql: Sql = this.#database.sql): Promise<CardSubscription[]> {
    return await cardRows.all(sql`
      select subscription_id, customer_id, plan_tier, status, current_period_end, started_at from card_subscriptions
      where merchant_id = ${merchantId} and status is not null order by started_at desc, subscription_id desc`)
  }
}

/** Whether a status gives full access (contract, Subscription: treated as active). */
export function isLive(status: string | null): boolean {
  return status === 'active' || status === 'trialing'
}

/**
 * Which card subscription an account shows; null for none of them. Independent of the order of reports:
 * - the newest live one: a late report about an ended one must not close the account;
 * - unless the account is paid for longer in another way, such as a month in bitcoin;
 * - without a live one, the one already shown. One that is over when first reported changes nothing.
 */
export function currentSubscription(
  merchant: Merchant,
  subscriptions: readonly CardSubscription[]
): CardSubscription | null {
  const shown = subscriptions.find(({ subscriptionId }) => subscriptionId === merchant.billingSubscriptionId) ?? null
  const newest = subscriptions
    .filter(({ status }) => isLive(status))
    .reduce<CardSubscription | null>(
      (best, one) => (best === null || one.startedAt > best.startedAt ? one : best),
      null
    )
  if (newest === null) return shown
  return shown === null && isPaidBeyond(merchant, newest) ? null : newest
}

function isPaidBeyond(
  { billingSubscriptionId, subscriptionStatus, currentPeriodEnd }: Merchant,
  card: CardSubscription
): boolean {
  return (
    billingSubscriptionId !== null &&
    isLive(subscriptionStatus) &&
    currentPeriodEnd !== null &&
    card.currentPeriodEnd !== null &&
    currentPeriodEnd > card.currentPeriodEnd
  )
}
