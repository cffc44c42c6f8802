import type { PageRange, ListTotal } from '../../engine/operations/keyset.ts'
import { KEY_LIFETIME, type Idempotency, type Kept } from '../../engine/message/idempotency.ts'
import { sumOf } from '../../platform/database/own-plan.ts'
import type { Database, Sql, TransactionSql } from '../../platform/database/database.ts'
import { containing, dateOrNull, records, text, moment, together, type Row } from '../../platform/database/rows.ts'
import type { SettledRefund, RefundSettlement, SettlementOutcome, RefundViewName } from './settlement.ts'
import { isOpen } from '../../lightning/providers/payout-states.ts'
import { refundFields, type RefundQuery, type Refund } from './schema.ts'

type RefundFilter = Pick<RefundQuery, 'status' | 'text'>

interface RefundedSums {
  /** Pending, processing and confirmed: no longer available. */
  readonly held: number
  readonly confirmed: number
}

export const LIGHTNING_INVOICE_INDEX = 'refunds_of_lightning_invoice'

/** Unique index: refunds of a merchant share no idempotency key. */
export const IDEMPOTENCY_KEY_INDEX = 'refunds_of_idempotency_key'

const refundRows = records(refundFields)

const settlementRows = records({
  settlement: together({
    outcome: text<SettlementOutcome>(),
    settledBy: text(),
    reason: text('settlement_reason'),
    correlationId: text(),
    settledAt: moment()
  })
})

export async function isGivenBack(sql: TransactionSql, invoiceId: string): Promise<boolean> {
  return (await sums(sql, invoiceId)).held > 0
}

async function sums(sql: TransactionSql, invoiceId: string): Promise<RefundedSums> {
  const [row] = await sql<Array<{ held: bigint; confirmed: bigint }>>`
    select coalesce(sum(amount_sats), 0)::bigint as held,
      coalesce(sum(amount_sats) filter (where status = 'confirmed'), 0)::bigint as confirmed
    from refunds where invoice_id = ${invoiceId} and status <> 'failed'`
  return { held: Number(row?.held ?? 0n), confirmed: Number(row?.confirmed ?? 0n) }
}

export class RefundStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /** Sums of one payment's refunds, stable while the caller holds the payment's row lock. */
  sums(sql: TransactionSql, invoiceId: string): Promise<RefundedSums> {
    return sums(sql, invoiceId)
  }

  /**
   * Adds a refund. Takes over the idempotency key of a final refund with another body after a day.
   * @throws a unique violation of `LIGHTNING_INVOICE_INDEX` or `IDEMPOTENCY_KEY_INDEX`
   */
  async insert(
    sql: TransactionSql,
    refund: Refund,
    nextCheckAt: number,
    idempotency: Idempotency | null = null
  ): Promise<void> {
    if (idempotency !== null)
      await sql`
        update refunds set idempotency_key = null, idempotency_fingerprint = null
        where merchant_id = ${refund.merchantId} and idempotency_key = ${idempotency.key}
          and idempotency_fingerprint <> ${idempotency.fingerprint} and status in ('confirmed', 'failed')
          and created_at <= ${new Date(refund.createdAt - KEY_LIFETIME)}`
    await sql`
      insert into refunds ${sql({
        ...refundRows.write(sql, refund),
        updated_at: new Date(refund.createdAt),
        next_check_at: new Date(nextCheckAt),
        idempotency_key: idempotency?.key ?? null,
        idempotency_fingerprint: idempotency?.fingerprint ?? null
      })}`
  }

  async byKey(merchantId: number, key: string): Promise<Kept<Refund> | null> {
    const [row] = await this.#database.sql<Array<Row & { readonly idempotency_fingerprint: string }>>`
      select * from refunds where merchant_id = ${merchantId} and idempotency_key = ${key}`
    if (row === undefined) return null
    const created = refundRows.read(row)
    const freeAt = isOpen(created) ? null : created.createdAt + KEY_LIFETIME
    return { made: created, fingerprint: row.idempotency_fingerprint, freeAt }
  }

  /** Frees the idempotency key of a refund that its client never learned of. */
  async forgetKey(sql: TransactionSql, refundId: string): Promise<void> {
    await sql`update refunds set idempotency_key = null, idempotency_fingerprint = null where refund_id = ${refundId}`
  }

  async lock(sql: TransactionSql, refundId: string): Promise<Refund | null> {
    return await refundRows.one(sql`select * from refunds where refund_id = ${refundId} for update`)
  }

  async write(sql: TransactionSql, refund: Refund, now: number): Promise<void> {
    await sql`
      update refunds set status = ${refund.status}, fee_sats = ${refund.feeSats}, provider_refund_id = ${refund.providerRefundId},
        transaction_hash = ${refund.transactionHash}, processed_at = ${dateOrNull(refund.processedAt)}, updated_at = ${new Date(now)}
      where refund_id = ${refund.refundId}`
  }

  async get(merchantId: number, refundId: string): Promise<Refund | null> {
    return await refundRows.one(
      this.#database.sql`select * from refunds where refund_id = ${refundId} and merchant_id = ${merchantId}`
    )
  }

  /** Newest first, ties by id descending. */
  async list(merchantId: number, filter: RefundFilter, page: PageRange): Promise<Refund[]> {
    const sql = this.#database.sql
    return await refundRows.all(sql`
      select * from refunds where ${matches(sql, merchantId, filter)}
      order by created_at desc, refund_id desc limit ${page.take} offset ${page.skip}`)
  }

  async sum(merchantId: number, filter: RefundFilter): Promise<ListTotal> {
    return await sumOf(
      this.#database,
      sql => sql`
        select amount_sats as sats from refunds where ${matches(sql, merchantId, filter)} order by created_at desc`
    )
  }

  /** Newest first. */
  async ofInvoice(merchantId: number, invoiceId: string): Promise<Refund[]> {
    return await refundRows.all(this.#database.sql`
      select * from refunds where merchant_id = ${merchantId} and invoice_id = ${invoiceId} order by created_at desc, refund_id desc`)
  }

  /**
   * Takes at most `limit` due open refunds, longest due first, and postpones them by `pause` milliseconds in one
   * statement: only one process gets each. Skips those older than `oldest` milliseconds.
   */
  async takeDue(now: number, pause: number, oldest: number, limit: number): Promise<Refund[]> {
    return await refundRows.all(this.#database.sql`
      update refunds set next_check_at = ${new Date(now + pause)} where refund_id in (
        select refund_id from refunds where status in ('pending', 'processing') and next_check_at <= ${new Date(now)} and created_at > ${new Date(now - oldest)}
        order by next_check_at limit ${limit} for update skip locked)
      returning *`)
  }

  /** Refunds of one payment whose acceptance by the provider is unknown. */
  async lost(sql: TransactionSql, invoiceId: string): Promise<Refund[]> {
    return await refundRows.all(sql`
      select * from refunds where invoice_id = ${invoiceId} and status = 'pending' and provider_refund_id is null order by created_at`)
  }

  async forAdmin(refundId: string): Promise<SettledRefund | null> {
    const { sql } = this.#database
    const [row] = await sql`
      select refunds.*, outcome, settled_by, refund_settlements.reason as settlement_reason, correlation_id, settled_at
      from refunds left join refund_settlements using (refund_id) where refund_id = ${refundId}`
    return row === undefined ? null : readSettled(row)
  }

  /** Oldest first, `settled` newest first; of `lost` only those made by `madeBefore`. */
  async listForAdmin(view: RefundViewName, madeBefore: number, page: PageRange): Promise<SettledRefund[]> {
    const { sql } = this.#database
    const which =
      view === 'lost'
        ? sql`status = 'pending' and provider_refund_id is null and created_at <= ${new Date(madeBefore)}`
        : view === 'open'
          ? sql`status in ('pending', 'processing')`
          : sql`outcome is not null`
    const order = view === 'settled' ? sql`settled_at desc, refund_id desc` : sql`created_at, refund_id`
    const rows = await sql`
      select refunds.*, outcome, settled_by, refund_settlements.reason as settlement_reason, correlation_id, settled_at
      from refunds left join refund_settlements using (refund_id) where merchant_id > 0 and ${which} order by ${order} limit ${page.take} offset ${page.skip}`
    return rows.map(readSettled)
  }

  /**
   * Settles an open refund atomically with its audit data. `not-sent` requires no acknowledgment and a creation by
   * `madeBefore`. Null, and nothing written, otherwise.
   */
  async settle(
    sql: TransactionSql,
    refundId: string,
    settlement: RefundSettlement,
    madeBefore: number
  ): Promise<Refund | null> {
    const { outcome, providerRefundId, transactionHash, feeSats, settledBy, reason, correlationId } = settlement
    const at = new Date(settlement.settledAt)
    const isSent = outcome === 'sent'
    const may = isSent
      ? sql`status in ('pending', 'processing')`
      : sql`status = 'pending' and provider_refund_id is null and created_at <= ${new Date(madeBefore)}`
    const [row] = await sql`
      update refunds set status = ${isSent ? 'confirmed' : 'failed'}, provider_refund_id = coalesce(provider_refund_id, ${providerRefundId}),
        transaction_hash = case when refund_type = 'chain' then coalesce(transaction_hash, ${transactionHash}) end, fee_sats = coalesce(${feeSats}, fee_sats),
        processed_at = ${at}, updated_at = ${at}
      where refund_id = ${refundId} and ${may} returning *`
    if (row === undefined) return null
    await sql`insert into refund_settlements ${sql({ refund_id: refundId, outcome, settled_by: settledBy, reason, correlation_id: correlationId, settled_at: at })}`
    return refundRows.read(row)
  }

  async checkAt(refundId: string, nextCheckAt: number): Promise<void> {
    await this.#database.sql`update refunds set next_check_at = ${new Date(nextCheckAt)} where refund_id = ${refundId}`
  }
}

function readSettled(row: Row): SettledRefund {
  const refund = refundRows.read(row)
  const { settlement } = settlementRows.read(row)
  const { providerRefundId, transactionHash, feeSats } = refund
  return {
    refund,
    settlement: settlement === null ? null : { ...settlement, providerRefundId, transactionHash, feeSats }
  }
}

function matches(sql: Sql | TransactionSql, merchantId: number, { status, text: part }: RefundFilter) {
  return sql`merchant_id = ${merchantId} ${status === undefined ? sql`` : sql`and status = ${status}`}
    ${
      part === undefined
        ? sql``
        : sql`and (reason ilike ${containing(part)} or lightning_address ilike ${containing(part)}
            or ${part} in (refund_id, invoice_id, refund_address))`
    }`
}
