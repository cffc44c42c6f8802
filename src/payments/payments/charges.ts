import type { Database, Sql } from '../../platform/database/database.ts'
import type { ProviderSlot } from '../../lightning/providers/account.ts'
import type { KindName } from '../../lightning/providers/provider.ts'
import type { PaymentStatus } from './schema.ts'

/** The payment that a provider's charge belongs to. */
export interface PaymentOfCharge {
  readonly chargeId: string
  readonly invoiceId: string
  readonly merchantId: number
  /** As it is written. */
  readonly status: PaymentStatus
}

/** An account for whose payments money may still come. */
export interface OpenPayments {
  readonly merchantId: number
  readonly count: number
  /** How many of them can still be paid, or are being paid. */
  readonly fresh: number
  /** How many of them end within two minutes, or have ended and await their provider's answer. */
  readonly ending: number
  /** How many of them were made a moment ago, so that their buyers may be waiting. */
  readonly young: number
  /** When the oldest was made, in milliseconds since the epoch. */
  readonly since: number
}

/** Which of an account's open payments: all, those that can still be paid, are about to end, or were made a moment ago. */
type OpenKind = 'all' | 'fresh' | 'ending' | 'young'

/** Milliseconds after its end for which an expired or underpaid invoice is still polled. */
const LATE = 24 * 3_600_000
/** The same for one that is being paid, which the chain may hold up, and one whose provider has not answered yet. */
const LATEST = 14 * 24 * 3_600_000
/** Milliseconds for which an invoice counts as payable after its end, since the news of a payment come after it. */
const GRACE = 120_000
/** Milliseconds before its end from which a payment is asked for even of an account that rests (decision 179). */
const ENDING = 120_000

/** Milliseconds after a payment was made for which its buyer may be waiting. */
const YOUNG = 600_000

interface PaymentRow {
  charge_id: string
  invoice_id: string
  merchant_id: number
  status: PaymentStatus
}

/** Payments by the charges of their providers; demo payments have none. Reads only. */
export class PaymentCharges {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /** The payments of these charges, as far as a provider of this kind in this slot made them. */
  async byCharge(slot: ProviderSlot, kind: KindName, chargeIds: readonly string[]): Promise<PaymentOfCharge[]> {
    const rows = await this.#database.sql<PaymentRow[]>`
      select charge_id, invoice_id, merchant_id, status from payments
      where charge_id = any(${chargeIds.slice()}::text[]) and provider_slot = ${slot} and provider_kind = ${kind}`
    return rows.map(read)
  }

  /** Accounts with payments for which money may still come. `now` in milliseconds. */
  async open(slot: ProviderSlot, kind: KindName, now: number): Promise<OpenPayments[]> {
    const { sql } = this.#database
    const rows = await sql<
      Array<{ merchant_id: number; count: number; fresh: number; ending: number; young: number; since: Date }>
    >`
      select merchant_id, count(*)::int as count, (count(*) filter (where ${isFresh(sql, now)}))::int as fresh,
        (count(*) filter (where ${isEnding(sql, now)}))::int as ending,
        (count(*) filter (where ${isYoung(sql, now)}))::int as young, min(created_at) as since
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

  /**
   * The open payments of one account, or only some, in the order of their charges' ids, those behind `after`.
   */
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

/** The statuses are those of the index `payments_open`. */
function isOpen(sql: Sql, now: number) {
  return sql`
    status in ('unpaid', 'processing', 'underpaid', 'expired') and provider_kind <> 'demo'
    and expires_at > ${new Date(now - LATEST)} and (status in ('processing', 'unpaid') or expires_at > ${new Date(now - LATE)})`
}

/** What is written as unpaid after its end awaits the answer of its provider. */
function isFresh(sql: Sql, now: number) {
  return sql`(status in ('processing', 'unpaid') or expires_at > ${new Date(now - GRACE)})`
}

function isEnding(sql: Sql, now: number) {
  return sql`(status = 'unpaid' and expires_at <= ${new Date(now + ENDING)})`
}

function isYoung(sql: Sql, now: number) {
  return sql`(status in ('processing', 'unpaid') and created_at > ${new Date(now - YOUNG)})`
}

const OF_KIND = { all: (sql: Sql) => sql`true`, fresh: isFresh, ending: isEnding, young: isYoung }

function read(row: PaymentRow): PaymentOfCharge {
  return { chargeId: row.charge_id, invoiceId: row.invoice_id, merchantId: row.merchant_id, status: row.status }
}
