import type { Database, Sql } from '../../platform/database/database.ts'
import type { ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import type { KindName } from '../../lightning/provider-calls/provider.ts'
import type { PaymentStatus } from './schema.ts'

interface PaymentOfCharge {
  readonly chargeId: string
  readonly invoiceId: string
  readonly merchantId: number
  readonly status: PaymentStatus
}

interface OpenPayments {
  readonly merchantId: number
  readonly count: number
  readonly fresh: number
  readonly ending: number
  readonly young: number
  /** Creation of the oldest. */
  readonly since: number
}

type OpenKind = 'all' | 'fresh' | 'ending' | 'young'

/** Milliseconds for which an expired or underpaid invoice is polled after its end. */
const LATE = 24 * 3_600_000
/** The same while a payment is confirming on the chain or its provider has not answered. */
const LATEST = 14 * 24 * 3_600_000
/** Milliseconds after its end for which an invoice counts as payable, since news of its payment lag. */
const GRACE = 120_000
/** Milliseconds before its end in which a payment is polled even during a backoff (decision 179). */
const ENDING = 120_000

/** Milliseconds after creation for which the buyer may be waiting. */
const RECENT = 600_000

interface PaymentRow {
  charge_id: string
  invoice_id: string
  merchant_id: number
  status: PaymentStatus
}

export class PaymentCharges {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async byCharge(slot: ProviderSlot, kind: KindName, chargeIds: readonly string[]): Promise<PaymentOfCharge[]> {
    const rows = await this.#database.sql<PaymentRow[]>`
      select charge_id, invoice_id, merchant_id, status from payments
      where charge_id = any(${chargeIds.slice()}::text[]) and provider_slot = ${slot} and provider_kind = ${kind}`
    return rows.map(read)
  }

  async open(slot: ProviderSlot, kind: KindName, now: number): Promise<OpenPayments[]> {
    const { sql } = this.#database
    const rows = await sql<
      Array<{ merchant_id: number; count: number; fresh: number; ending: number; young: number; since: Date }>
    >`
      select merchant_id, count(*)::int as count, (count(*) filter (where ${isFresh(sql, now)}))::int as fresh,
        (count(*) filter (where ${isEnding(sql, now)}))::int as ending,
        (count(*) filter (where ${isRecent(sql, now)}))::int as young, min(created_at) as since
      from payments
      where ${isOpen(sql, now)} and provider_slot = ${slot} and provider_kind = ${kind}
      group by merchant_id`
    return rows.map(row => ({
      merchantId: row.merchant_id,
      count: row.count,
      fresh: row.fresh,
      ending: row.ending,
      young: row.young,
      since: row.since.getTime()
    }))
  }

  /** Open payments of one account by charge id, after `after`. */
  async openOf(
    slot: ProviderSlot,
    kind: KindName,
    merchantId: number,
    which: OpenKind,
    now: number,
    after: string,
    limit: number
  ): Promise<PaymentOfCharge[]> {
    const { sql } = this.#database
    const rows = await sql<PaymentRow[]>`
      select charge_id, invoice_id, merchant_id, status from payments
      where ${isOpen(sql, now)} and provider_slot = ${slot} and provider_kind = ${kind} and merchant_id = ${merchantId} and charge_id > ${after}
        and ${OF_KIND[which](sql, now)}
      order by charge_id limit ${limit}`
    return rows.map(read)
  }
}

/** The statuses match the index `payments_open`. */
function isOpen(sql: Sql, now: number) {
  return sql`
    status in ('unpaid', 'processing', 'underpaid', 'expired') and provider_kind <> 'demo'
    and expires_at > ${new Date(now - LATEST)} and (status in ('processing', 'unpaid') or expires_at > ${new Date(now - LATE)})`
}

/** Unpaid after its end: the provider has not answered. */
function isFresh(sql: Sql, now: number) {
  return sql`(status in ('processing', 'unpaid') or expires_at > ${new Date(now - GRACE)})`
}

function isEnding(sql: Sql, now: number) {
  return sql`(status = 'unpaid' and expires_at <= ${new Date(now + ENDING)})`
}

function isRecent(sql: Sql, now: number) {
  return sql`(status in ('processing', 'unpaid') and created_at > ${new Date(now - RECENT)})`
}

const OF_KIND = { all: (sql: Sql) => sql`true`, fresh: isFresh, ending: isEnding, young: isRecent }

function read(row: PaymentRow): PaymentOfCharge {
  return { chargeId: row.charge_id, invoiceId: row.invoice_id, merchantId: row.merchant_id, status: row.status }
}
