import { integer, moment, records, text } from '../../platform/database/rows.ts'
import type { Database, Sql } from '../../platform/database/database.ts'
import type { ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import type { KindName } from '../../lightning/provider-calls/provider.ts'
import type { PaymentStatus } from './schema.ts'

const chargeRows = records({
  chargeId: text(),
  invoiceId: text(),
  merchantId: integer(),
  status: text<PaymentStatus>()
})
type PaymentOfCharge = ReturnType<typeof chargeRows.read>

const openRows = records({
  merchantId: integer(),
  count: integer(),
  fresh: integer(),
  ending: integer(),
  young: integer(),
  /** Creation of the oldest. */
  since: moment()
})

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

export class PaymentCharges {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async byCharge(slot: ProviderSlot, kind: KindName, chargeIds: readonly string[]): Promise<PaymentOfCharge[]> {
    return await chargeRows.all(this.#database.sql`
      select charge_id, invoice_id, merchant_id, status from payments
      where charge_id = any(${chargeIds.slice()}::text[]) and provider_slot = ${slot} and provider_kind = ${kind}`)
  }

  async open(
    slot: ProviderSlot,
    kind: KindName,
    now: number
  ): Promise<ReadonlyArray<ReturnType<typeof openRows.read>>> {
    const { sql } = this.#database
    return await openRows.all(sql`
      select merchant_id, count(*)::int as count, (count(*) filter (where ${isFresh(sql, now)}))::int as fresh,
        (count(*) filter (where ${isEnding(sql, now)}))::int as ending,
        (count(*) filter (where ${isRecent(sql, now)}))::int as young, min(created_at) as since
      from payments
      where ${isOpen(sql, now)} and provider_slot = ${slot} and provider_kind = ${kind}
      group by merchant_id`)
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
    return await chargeRows.all(sql`
      select charge_id, invoice_id, merchant_id, status from payments
      where ${isOpen(sql, now)} and provider_slot = ${slot} and provider_kind = ${kind} and merchant_id = ${merchantId} and charge_id > ${after}
        and ${OF_KIND[which](sql, now)}
      order by charge_id limit ${limit}`)
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
