import type { Database, Sql, TransactionSql } from '../../platform/database/database.ts'
import { dateOrNull, flag, integer, records, text, moment, type RecordOf } from '../../platform/database/rows.ts'
import { isUniqueViolation } from '../../platform/database/database.ts'
import { FIRST_NOTICE, type Period, type RenewalStep } from './period.ts'
import { InvoiceIdTaken } from '../../payments/payments/store.ts'
import { invoiceColumns, subscriptionColumns, type BitcoinInvoice, type BitcoinSubscription } from './schema.ts'
import type { SoldPlan } from '../plans.ts'

const endingMerchantColumns = {
  id: integer('merchant_id'),
  name: text('merchant_name'),
  email: text('merchant_email'),
  isActive: flag('merchant_active')
}

/** A subscription whose period is ending or has ended, with its account. */
export interface EndingSubscription {
  readonly subscription: BitcoinSubscription
  readonly merchant: RecordOf<typeof endingMerchantColumns>
}

const subscriptionRows = records(subscriptionColumns)
const invoiceRows = records(invoiceColumns)
const periodRows = records({ end: moment(), anchorDay: integer() })
const merchantRows = records(endingMerchantColumns)

/** Key of the advisory lock, unique in boltgate. */
const LOCK = 7_301_325_013

/** Stores plans paid in bitcoin. Methods that take a transaction belong to it. */
export class BitcoinStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async insertSubscription(sql: TransactionSql, subscription: BitcoinSubscription): Promise<void> {
    await sql`insert into bitcoin_subscriptions ${sql(subscriptionRows.write(sql, subscription))}`
  }

  /** @throws InvoiceIdTaken, which aborts the transaction */
  async insertInvoice(sql: TransactionSql, invoice: BitcoinInvoice): Promise<void> {
    try {
      await sql`insert into bitcoin_invoices ${sql(invoiceRows.write(sql, invoice))}`
    } catch (error) {
      if (isUniqueViolation(error, 'bitcoin_invoices_pkey'))
        throw new InvoiceIdTaken('the invoice id is taken', { cause: error })
      throw error
    }
  }

  /**
   * Serializes changes of paid periods across processes until the transaction ends: concurrent payments for one account
   * each add a month. Payments of plans are rare, so one lock is enough.
   */
  async serialize(sql: TransactionSql): Promise<void> {
    await sql`select pg_advisory_xact_lock(${LOCK})`
  }

  async byPayToken(payToken: string): Promise<BitcoinInvoice | null> {
    const { sql } = this.#database
    return await invoiceRows.one(sql`select * from bitcoin_invoices where pay_token = ${payToken}`)
  }

  async byPaymentHash(
    sql: Sql,
    paymentHash: string
  ): Promise<{ readonly invoice: BitcoinInvoice; readonly subscription: BitcoinSubscription } | null> {
    const invoice = await invoiceRows.one(sql`select * from bitcoin_invoices where payment_hash = ${paymentHash}`)
    if (invoice === null) return null
    const subscription = await subscriptionRows.one(
      sql`select * from bitcoin_subscriptions where id = ${invoice.subscriptionId}`
    )
    // The invoice refers to it.
    return { invoice, subscription: subscription! }
  }

  async openInvoice(subscriptionId: string): Promise<BitcoinInvoice | null> {
    const { sql } = this.#database
    return await invoiceRows.one(sql`
      select * from bitcoin_invoices where subscription_id = ${subscriptionId} and paid_at is null order by expires_at desc limit 1`)
  }

  /** An account's invoices, newest first, without those that expired unpaid long ago. */
  async ofMerchant(merchantId: number, limit: number): Promise<readonly BitcoinInvoice[]> {
    const { sql } = this.#database
    return await invoiceRows.all(sql`
      select i.* from bitcoin_invoices i join bitcoin_subscriptions s on s.id = i.subscription_id
      where s.merchant_id = ${merchantId} order by i.created_at desc, i.invoice_id desc limit ${limit}`)
  }

  async waiting(sql: TransactionSql, email: string, plan: SoldPlan): Promise<BitcoinSubscription | null> {
    return await subscriptionRows.one(sql`
      select s.* from bitcoin_subscriptions s join pending_subscriptions p on p.billing_subscription_id = s.id and p.state = 'pending'
      where s.email = ${email} and s.plan_tier = ${plan} and s.merchant_id is null and s.state in ('active', 'past_due', 'canceled')
      order by s.created_at limit 1`)
  }

  async lockMerchant(sql: TransactionSql, merchantId: number): Promise<void> {
    await sql`select 1 from merchants where id = ${merchantId} for update`
  }

  /** Marks it active until the period's end and resets its mails. */
  async activate(
    sql: TransactionSql,
    id: string,
    { end, anchorDay }: Period,
    merchantId: number | null
  ): Promise<void> {
    await sql`
      update bitcoin_subscriptions
      set state = 'active', current_period_end = ${new Date(end)}, anchor_day = ${anchorDay}, reminded = null, merchant_id = ${merchantId}
      where id = ${id}`
  }

  async paid(sql: TransactionSql, invoiceId: string, now: number): Promise<void> {
    await sql`update bitcoin_invoices set paid_at = ${new Date(now)} where invoice_id = ${invoiceId}`
  }

  async replace(sql: TransactionSql, id: string): Promise<void> {
    await sql`update bitcoin_subscriptions set state = 'replaced' where id = ${id}`
  }

  async replaceOthers(sql: TransactionSql, merchantId: number, id: string): Promise<void> {
    await sql`update bitcoin_subscriptions set state = 'replaced' where merchant_id = ${merchantId} and id <> ${id} and state <> 'incomplete'`
  }

  async byId(sql: TransactionSql, id: string): Promise<BitcoinSubscription | null> {
    return await subscriptionRows.one(sql`select * from bitcoin_subscriptions where id = ${id}`)
  }

  /** The account's paid period that ends last, without this subscription; null for none. */
  async paidPeriod(sql: TransactionSql, merchantId: number, id: string): Promise<Period | null> {
    return await periodRows.one(sql`
      select current_period_end as end, anchor_day from bitcoin_subscriptions
      where merchant_id = ${merchantId} and id <> ${id} and state = 'active' order by current_period_end desc limit 1`)
  }

  /**
   * Subscriptions that end soon or have ended, whose account is still on their plan and billed by them; by id, after
   * `after`.
   */
  async ending(now: number, after: string, limit: number): Promise<EndingSubscription[]> {
    const { sql } = this.#database
    const rows = await sql`
      select s.*, m.name as merchant_name, m.email as merchant_email, m.is_active as merchant_active
      from bitcoin_subscriptions s join merchants m on m.id = s.merchant_id and m.billing_subscription_id = s.id and m.plan_tier = s.plan_tier
      where s.state in ('active', 'past_due', 'canceled') and s.reminded is distinct from 'canceled'
        and s.current_period_end <= ${new Date(now + FIRST_NOTICE)} and s.id > ${after}
      order by s.id limit ${limit}`
    return rows.map(row => ({ subscription: subscriptionRows.read(row), merchant: merchantRows.read(row) }))
  }

  /**
   * Records a mail as sent. False when the subscription was extended, reminded or replaced meanwhile: then nothing may
   * be sent.
   */
  async remind(
    sql: TransactionSql,
    { id, currentPeriodEnd, reminded }: BitcoinSubscription,
    step: RenewalStep
  ): Promise<boolean> {
    const noted = await sql`
      update bitcoin_subscriptions set reminded = ${step}
      where id = ${id} and current_period_end = ${dateOrNull(currentPeriodEnd)} and reminded is not distinct from ${reminded} and state <> 'replaced'`
    return noted.count === 1
  }

  /** Changes the state, unless state or end changed meanwhile; false then. */
  async move(
    sql: TransactionSql,
    { id, currentPeriodEnd, state }: BitcoinSubscription,
    to: 'past_due' | 'canceled'
  ): Promise<boolean> {
    const moved = await sql`
      update bitcoin_subscriptions set state = ${to} where id = ${id} and current_period_end = ${dateOrNull(currentPeriodEnd)} and state = ${state}`
    return moved.count === 1
  }

  /**
   * Deletes unpaid invoices that expired before this time with their challenges, and subscriptions that were never
   * paid, in one transaction. Returns how many invoices it deleted, at most `limit`.
   */
  async purge(before: number, limit: number): Promise<number> {
    return await this.#database.transaction(async sql => {
      const gone = await sql<{ payment_hash: string }[]>`
        delete from bitcoin_invoices where invoice_id in (
          select invoice_id from bitcoin_invoices where paid_at is null and expires_at < ${new Date(before)} limit ${limit})
        returning payment_hash`
      if (gone.length > 0)
        await sql`delete from challenges where payment_hash = any(${gone.map(row => row.payment_hash)}::text[]) and source = 'subscription'`
      await sql`
        delete from bitcoin_subscriptions s
        where s.state = 'incomplete' and s.created_at < ${new Date(before)} and not exists (select 1 from bitcoin_invoices i where i.subscription_id = s.id)`
      return gone.length
    })
  }
}
