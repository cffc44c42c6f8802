import type { Idempotency, Kept } from '../gateway/idempotency.ts'
import type { Database, TransactionSql } from '../database/database.ts'
import type { ProviderSlot } from '../providers/account.ts'
import type { KindName } from '../providers/provider.ts'
import type { SettledRefund, RefundSettlement, SettlementOutcome, RefundViewName } from './settlement.ts'
import type { RefundPage, Refund, RefundStatus, RefundType } from './schema.ts'

/** What the refunds of one payment come to, in satoshis. */
export interface RefundedSums {
  /** Pending, processing and confirmed: what can no longer be given out. */
  readonly held: number
  /** Confirmed only. */
  readonly confirmed: number
}

/** Name of the index that lets no two refunds that may have paid share a Lightning invoice. */
export const LIGHTNING_INVOICE_INDEX = 'refunds_of_lightning_invoice'

/** Name of the index that lets no two refunds of a merchant share an idempotency key. */
export const IDEMPOTENCY_KEY_INDEX = 'refunds_of_idempotency_key'

/** Where refunds are kept. */
export interface RefundStore {
  /**
   * Sums of one payment's refunds. They hold until the transaction ends only if the caller locked the payment's row before:
   * whoever adds or changes a refund does that first.
   */
  sums (sql: TransactionSql, invoiceId: string): Promise<RefundedSums>
  /** Adds a refund. @throws a unique violation of `LIGHTNING_INVOICE_INDEX` or `IDEMPOTENCY_KEY_INDEX` */
  insert (sql: TransactionSql, refund: Refund, nextCheckAt: number, idempotency?: Idempotency | null): Promise<void>
  /** The refund that an idempotency key has made; null for none. */
  byKey (merchantId: number, key: string): Promise<Kept<Refund> | null>
  /** Frees the idempotency key of a refund that its client was never told of. */
  forgetKey (sql: TransactionSql, refundId: string): Promise<void>
  /** The refund with its row locked until the transaction ends; null when there is none. */
  lock (sql: TransactionSql, refundId: string): Promise<Refund | null>
  /** Writes what changes in the life of a refund: status, fee, the provider's id, transaction hash, times. */
  write (sql: TransactionSql, refund: Refund, now: number): Promise<void>
  /** The merchant's own refund, or null. */
  get (merchantId: number, refundId: string): Promise<Refund | null>
  /** One page of a merchant's refunds, newest first, ties by id descending. */
  list (merchantId: number, status: RefundStatus | null, page: RefundPage): Promise<Refund[]>
  /** All refunds of one of the merchant's payments, newest first. */
  ofInvoice (merchantId: number, invoiceId: string): Promise<Refund[]>
  /**
   * Takes at most `limit` open refunds that are due for a look-up, longest due first, and puts them off by `pause`
   * milliseconds in one statement, so that of several processes one has each. None that is older than `oldest` milliseconds.
   */
  takeDue (now: number, pause: number, oldest: number, limit: number): Promise<Refund[]>
  /** Refunds of one payment of which it is not known whether the provider took them. */
  lost (sql: TransactionSql, invoiceId: string): Promise<Refund[]>
  /** A refund of any merchant, with how it was settled by hand. */
  forAdmin (refundId: string): Promise<SettledRefund | null>
  /** One page of them: oldest first, `settled` newest first; of `lost` only those made at `madeBefore` or earlier. */
  listForAdmin (view: RefundViewName, madeBefore: number, page: RefundPage): Promise<SettledRefund[]>
  /**
   * Settles an open refund in one statement and keeps who did it. One that was not sent must not have been acknowledged, and
   * must have been made at `madeBefore` or earlier. Null when it is not like that, and nothing is written.
   */
  settle (sql: TransactionSql, refundId: string, settlement: RefundSettlement, madeBefore: number): Promise<Refund | null>
  /** Sets when an open refund is looked up next. */
  checkAt (refundId: string, nextCheckAt: number): Promise<void>
}

interface DatabaseRow {
  refund_id: string
  merchant_id: number
  invoice_id: string
  status: RefundStatus
  refund_type: RefundType
  refund_address: string
  payment_hash: string | null
  amount_sats: bigint
  fee_sats: bigint
  provider_slot: ProviderSlot
  provider_kind: KindName
  provider_refund_id: string | null
  transaction_hash: string | null
  email: string | null
  reason: string | null
  created_at: Date
  processed_at: Date | null
}

interface SettledRow extends DatabaseRow {
  outcome: SettlementOutcome | null
  settled_by: string
  settlement_reason: string
  correlation_id: string
  settled_at: Date
}

/** Refunds in the SQL database. */
export class SqlRefundStore implements RefundStore {
  readonly #database: Database

  constructor (database: Database) {
    this.#database = database
  }

  async sums (sql: TransactionSql, invoiceId: string): Promise<RefundedSums> {
    const [row] = await sql<Array<{ held: bigint, confirmed: bigint }>>`
      select coalesce(sum(amount_sats), 0)::bigint as held,
        coalesce(sum(amount_sats) filter (where status = 'confirmed'), 0)::bigint as confirmed
      from refunds where invoice_id = ${invoiceId} and status <> 'failed'`
    return { held: Number(row?.held ?? 0n), confirmed: Number(row?.confirmed ?? 0n) }
  }

  async insert (sql: TransactionSql, refund: Refund, nextCheckAt: number, idempotency: Idempotency | null = null): Promise<void> {
    await sql`insert into refunds ${sql(columns(refund, nextCheckAt, idempotency))}`
  }

  async byKey (merchantId: number, key: string): Promise<Kept<Refund> | null> {
    const [row] = await this.#database.sql<Array<DatabaseRow & { readonly idempotency_fingerprint: string }>>`
      select * from refunds where merchant_id = ${merchantId} and idempotency_key = ${key}`
    return row === undefined ? null : { made: fromDatabase(row), fingerprint: row.idempotency_fingerprint }
  }

  async forgetKey (sql: TransactionSql, refundId: string): Promise<void> {
    await sql`update refunds set idempotency_key = null, idempotency_fingerprint = null where refund_id = ${refundId}`
  }

  async lock (sql: TransactionSql, refundId: string): Promise<Refund | null> {
    const [row] = await sql<DatabaseRow[]>`select * from refunds where refund_id = ${refundId} for update`
    return row === undefined ? null : fromDatabase(row)
  }

  async write (sql: TransactionSql, refund: Refund, now: number): Promise<void> {
    await sql`
      update refunds set status = ${refund.status}, fee_sats = ${refund.feeSats}, provider_refund_id = ${refund.providerRefundId},
        transaction_hash = ${refund.transactionHash}, processed_at = ${dateOrNull(refund.processedAt)}, updated_at = ${new Date(now)}
      where refund_id = ${refund.refundId}`
  }

  async get (merchantId: number, refundId: string): Promise<Refund | null> {
    const [row] = await this.#database.sql<DatabaseRow[]>`select * from refunds where refund_id = ${refundId} and merchant_id = ${merchantId}`
    return row === undefined ? null : fromDatabase(row)
  }

  async list (merchantId: number, status: RefundStatus | null, page: RefundPage): Promise<Refund[]> {
    const sql = this.#database.sql
    const rows = await sql<DatabaseRow[]>`
      select * from refunds where merchant_id = ${merchantId} ${status === null ? sql`` : sql`and status = ${status}`}
      order by created_at desc, refund_id desc limit ${page.take} offset ${page.skip}`
    return rows.map(fromDatabase)
  }

  async ofInvoice (merchantId: number, invoiceId: string): Promise<Refund[]> {
    const rows = await this.#database.sql<DatabaseRow[]>`
      select * from refunds where merchant_id = ${merchantId} and invoice_id = ${invoiceId} order by created_at desc, refund_id desc`
    return rows.map(fromDatabase)
  }

  async takeDue (now: number, pause: number, oldest: number, limit: number): Promise<Refund[]> {
    const rows = await this.#database.sql<DatabaseRow[]>`
      update refunds set next_check_at = ${new Date(now + pause)} where refund_id in (
        select refund_id from refunds where status in ('pending', 'processing') and next_check_at <= ${new Date(now)} and created_at > ${new Date(now - oldest)}
        order by next_check_at limit ${limit} for update skip locked)
      returning *`
    return rows.map(fromDatabase)
  }

  async lost (sql: TransactionSql, invoiceId: string): Promise<Refund[]> {
    const rows = await sql<DatabaseRow[]>`
      select * from refunds where invoice_id = ${invoiceId} and status = 'pending' and provider_refund_id is null order by created_at`
    return rows.map(fromDatabase)
  }

  async forAdmin (refundId: string): Promise<SettledRefund | null> {
    const { sql } = this.#database
    const [row] = await sql<SettledRow[]>`
      select refunds.*, outcome, settled_by, refund_settlements.reason as settlement_reason, correlation_id, settled_at
      from refunds left join refund_settlements using (refund_id) where refund_id = ${refundId}`
    return row === undefined ? null : settledFromDatabase(row)
  }

  async listForAdmin (view: RefundViewName, madeBefore: number, page: RefundPage): Promise<SettledRefund[]> {
    const { sql } = this.#database
    const which = view === 'lost'
      ? sql`status = 'pending' and provider_refund_id is null and created_at <= ${new Date(madeBefore)}`
      : view === 'open' ? sql`status in ('pending', 'processing')` : sql`outcome is not null`
    const order = view === 'settled' ? sql`settled_at desc, refund_id desc` : sql`created_at, refund_id`
    const rows = await sql<SettledRow[]>`
      select refunds.*, outcome, settled_by, refund_settlements.reason as settlement_reason, correlation_id, settled_at
      from refunds left join refund_settlements using (refund_id) where ${which} order by ${order} limit ${page.take} offset ${page.skip}`
    return rows.map(settledFromDatabase)
  }

  async settle (sql: TransactionSql, refundId: string, settlement: RefundSettlement, madeBefore: number): Promise<Refund | null> {
    const { outcome, providerRefundId, transactionHash, feeSats, settledBy, reason, correlationId } = settlement
    const at = new Date(settlement.settledAt)
    const isSent = outcome === 'sent'
    const may = isSent
      ? sql`status in ('pending', 'processing')`
      : sql`status = 'pending' and provider_refund_id is null and created_at <= ${new Date(madeBefore)}`
    const [row] = await sql<DatabaseRow[]>`
      update refunds set status = ${isSent ? 'confirmed' : 'failed'}, provider_refund_id = coalesce(provider_refund_id, ${providerRefundId}),
        transaction_hash = case when refund_type = 'chain' then coalesce(transaction_hash, ${transactionHash}) end, fee_sats = coalesce(${feeSats}, fee_sats),
        processed_at = ${at}, updated_at = ${at}
      where refund_id = ${refundId} and ${may} returning *`
    if (row === undefined) return null
    await sql`insert into refund_settlements ${sql({ refund_id: refundId, outcome, settled_by: settledBy, reason, correlation_id: correlationId, settled_at: at })}`
    return fromDatabase(row)
  }

  async checkAt (refundId: string, nextCheckAt: number): Promise<void> {
    await this.#database.sql`update refunds set next_check_at = ${new Date(nextCheckAt)} where refund_id = ${refundId}`
  }
}

function dateOrNull (time: number | null): Date | null {
  return time === null ? null : new Date(time)
}

function settledFromDatabase (row: SettledRow): SettledRefund {
  const refund = fromDatabase(row)
  return {
    refund,
    settlement: row.outcome === null ? null : {
      outcome: row.outcome,
      providerRefundId: refund.providerRefundId,
      transactionHash: refund.transactionHash,
      feeSats: refund.feeSats,
      settledBy: row.settled_by,
      reason: row.settlement_reason,
      correlationId: row.correlation_id,
      settledAt: row.settled_at.getTime()
    }
  }
}

function columns (refund: Refund, nextCheckAt: number, idempotency: Idempotency | null) {
  return {
    refund_id: refund.refundId,
    merchant_id: refund.merchantId,
    invoice_id: refund.invoiceId,
    status: refund.status,
    refund_type: refund.type,
    refund_address: refund.address,
    payment_hash: refund.paymentHash,
    amount_sats: refund.amountSats,
    fee_sats: refund.feeSats,
    provider_slot: refund.slot,
    provider_kind: refund.kind,
    provider_refund_id: refund.providerRefundId,
    transaction_hash: refund.transactionHash,
    email: refund.email,
    reason: refund.reason,
    created_at: new Date(refund.createdAt),
    processed_at: dateOrNull(refund.processedAt),
    updated_at: new Date(refund.createdAt),
    next_check_at: new Date(nextCheckAt),
    idempotency_key: idempotency?.key ?? null,
    idempotency_fingerprint: idempotency?.fingerprint ?? null
  }
}

function fromDatabase (row: DatabaseRow): Refund {
  return {
    refundId: row.refund_id,
    merchantId: row.merchant_id,
    invoiceId: row.invoice_id,
    status: row.status,
    type: row.refund_type,
    address: row.refund_address,
    paymentHash: row.payment_hash,
    amountSats: Number(row.amount_sats),
    feeSats: Number(row.fee_sats),
    slot: row.provider_slot,
    kind: row.provider_kind,
    providerRefundId: row.provider_refund_id,
    transactionHash: row.transaction_hash,
    email: row.email,
    reason: row.reason,
    createdAt: row.created_at.getTime(),
    processedAt: row.processed_at === null ? null : row.processed_at.getTime()
  }
}
