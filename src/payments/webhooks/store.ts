import type { Database, Sql, TransactionSql } from '../../platform/database/database.ts'
import { overRows } from '../../platform/database/given-rows.ts'
import {
  dateOrNull,
  flag,
  integer,
  optional,
  records,
  text,
  moment,
  type RecordOf,
  type Row
} from '../../platform/database/rows.ts'
import { timeColumns, type EndpointTimes } from './delivery.ts'
import { deliveryFields, type Delivery, type DeliveryStatus, type WebhookEvent } from './schema.ts'

export interface NewDelivery {
  readonly id: string
  readonly merchantId: number
  readonly event: WebhookEvent
  /** Deduplication key: one row per key. */
  readonly eventKey: string
  readonly invoiceId: string | null
  readonly paymentHash: string
  /** UTF-8, sent by every attempt. */
  readonly body: string
  readonly createdAt: number
}

/** A written delivery; `endpointId` is null for the first endpoint. */
export interface AddedDelivery {
  readonly id: string
  readonly merchantId: number
  readonly endpointId: string | null
}

interface AttemptOutcome {
  readonly status: DeliveryStatus
  readonly url: string | null
  readonly responseStatus: number | null
  readonly responseBody: string | null
  readonly error: string | null
  readonly endedAt: number
  /** Set for status `pending`. */
  readonly nextAttemptAt: number | null
  readonly failedJob: string | null
}

interface DeliveryFilter {
  /** `first` for the account's first endpoint; null: all. */
  readonly endpoint: string | null
  readonly status: DeliveryStatus | null
  readonly invoiceId: string | null
  readonly since: number | null
  readonly limit: number
  readonly offset: number
}

/** Result of a resend with the attempt to add; null while one is running. */
interface Resend extends EndpointTimes {
  readonly delivery: Delivery
  readonly attempt: number | null
}

/** Whether a text can be a delivery or endpoint id; the database rejects queries with others. */
export function isWebhookId(text: string): boolean {
  return /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)
}

const deliveryRows = records(deliveryFields)

const heldRows = records({ ...timeColumns, claimedUntil: optional(moment()) })
const pacedColumns = { ...timeColumns, merchantId: integer(), endpointId: optional(text()) }
const claimColumns = {
  ...pacedColumns,
  event: text<WebhookEvent>(),
  body: text(),
  /** The number of the one that is claimed. */
  attempt: integer(),
  /** Whether a failure schedules a retry. */
  retries: flag()
}
export type ClaimedAttempt = RecordOf<typeof claimColumns>
const claimRows = records(claimColumns)
const addedColumns = { ...pacedColumns, id: text() }
export type PacedDelivery = RecordOf<typeof addedColumns>
const addedRows = records(addedColumns)
const claimedRows = records({ ...addedColumns, claimedUntil: moment() })
const overdueRows = records({ ...addedColumns, attempt: integer() })

const ADD = overRows<NewDelivery>(
  {
    id: ['uuid', row => row.id],
    merchant: ['integer', row => row.merchantId],
    event: ['text', row => row.event],
    event_key: ['text', row => row.eventKey],
    invoice: ['text', row => row.invoiceId],
    payment: ['text', row => row.paymentHash],
    body: ['text', row => row.body],
    at: ['timestamptz', row => row.createdAt]
  },
  // Further endpoints append their id: older versions keep writing the first one's key.
  given => `
    with added as (
    insert into webhook_deliveries (id, merchant_id, endpoint_id, event, event_key, invoice_id, payment_hash, body, status, url, created_at, next_attempt_at)
    select case when told.id is null then given.id else gen_random_uuid() end, given.merchant, told.id, given.event,
      given.event_key || coalesce(':' || told.id::text, ''), given.invoice, given.payment, given.body, 'pending', told.url, given.at, given.at
    from ${given} cross join lateral (
      select null::uuid as id, webhook_url as url from merchants where merchants.id = given.merchant and webhook_url is not null
      union all
      select endpoint.id, endpoint.url from webhook_endpoints endpoint
      where endpoint.merchant_id = given.merchant and is_active and (events is null or given.event = any(events))
    ) told
    on conflict (event_key) do nothing
    returning id, merchant_id, endpoint_id)
    select added.*, quick_at, slow_at from added
    left join webhook_paces on endpoint = coalesce(endpoint_id::text, merchant_id::text)`
)

export class WebhookStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /** Writes events in the causing transaction, a delivery per subscribed endpoint. Returns only new ones. */
  async add(sql: TransactionSql | Sql, deliveries: readonly NewDelivery[]): Promise<readonly PacedDelivery[]> {
    return await addedRows.all(ADD.run(sql, deliveries))
  }

  /**
   * Claims an attempt: one process at a time, and none after that number has ended. Null otherwise. A failed delivery's
   * own job gets a further attempt.
   */
  async claim(id: string, attempt: number, job: string, now: number, until: number): Promise<ClaimedAttempt | null> {
    const { sql } = this.#database
    return await claimRows.one(sql`
      update webhook_deliveries set claimed_until = ${new Date(until)}
      where id = ${id} and (claimed_until is null or claimed_until <= ${new Date(now)})
        and ((status = 'pending' and attempts = ${attempt - 1}) or (status = 'failed' and failed_job = ${job}))
      returning merchant_id, endpoint_id, event, body, attempts + 1 as attempt, retries and status = 'pending' as retries, ${paces(sql)}`)
  }

  /** A pending attempt that another process has claimed, and may never finish. */
  async claimedByOther(
    id: string,
    attempt: number
  ): Promise<(PacedDelivery & { readonly claimedUntil: number }) | null> {
    return await claimedRows.one(this.#database.sql`
      select id, merchant_id, endpoint_id, claimed_until,
        ${paces(this.#database.sql)}
      from webhook_deliveries
      where id = ${id} and status = 'pending' and attempts = ${attempt - 1} and claimed_until is not null`)
  }

  async unclaim(id: string, attempt: number): Promise<void> {
    await this.#database
      .sql`update webhook_deliveries set claimed_until = null where id = ${id} and attempts = ${attempt - 1}`
  }

  /** Writes the outcome of a claimed attempt. False, and nothing written, when that number had ended. */
  async finish(sql: TransactionSql, id: string, attempt: number, outcome: AttemptOutcome): Promise<boolean> {
    const ended = new Date(outcome.endedAt)
    const rows = await sql`
      update webhook_deliveries set
        status = ${outcome.status}, attempts = ${attempt}, url = ${outcome.url}, response_status = ${outcome.responseStatus},
        response_body = ${outcome.responseBody}, error = ${outcome.error}, last_attempt_at = ${ended},
        next_attempt_at = ${dateOrNull(outcome.nextAttemptAt)},
        delivered_at = ${outcome.status === 'delivered' ? sql`coalesce(delivered_at, ${ended}::timestamptz)` : sql`delivered_at`},
        failed_job = ${outcome.failedJob}, claimed_until = null
      where id = ${id} and attempts = ${attempt - 1}
      returning 1`
    return rows.length === 1
  }

  /**
   * Makes one attempt due now: the scheduled one if pending, else a single further one. Null for an unknown delivery
   * and another merchant's. Concurrent calls are serialized.
   */
  async resend(sql: TransactionSql, merchantId: number, id: string, now: number): Promise<Resend | null> {
    const [row] = await sql`
      select *, ${paces(sql)} from webhook_deliveries where id = ${id} and merchant_id = ${merchantId} for update`
    if (row === undefined) return null
    const { claimedUntil, ...times } = heldRows.read(row)
    if (claimedUntil !== null && claimedUntil > now)
      return { ...times, delivery: deliveryRows.read(row), attempt: null }
    const [changed = row] = await sql`
      update webhook_deliveries set status = 'pending', retries = retries and status = 'pending', next_attempt_at = ${new Date(now)}, failed_job = null
      where id = ${id} returning *`
    const delivery = deliveryRows.read(changed)
    return { ...times, delivery, attempt: delivery.attempts + 1 }
  }

  /** Fails an endpoint's waiting deliveries with the reason, except those being sent. */
  async abandon(sql: TransactionSql, endpointId: string, error: string, now: number): Promise<void> {
    await sql`
      update webhook_deliveries set status = 'failed', error = ${error}, next_attempt_at = null, failed_job = null
      where endpoint_id = ${endpointId} and status = 'pending' and (claimed_until is null or claimed_until <= ${new Date(now)})`
  }

  async list(
    merchantId: number,
    { endpoint, invoiceId, status, since, limit, offset }: DeliveryFilter
  ): Promise<{ readonly rows: readonly Delivery[]; readonly total: number }> {
    const { sql } = this.#database
    const where = sql`
      merchant_id = ${merchantId}
      ${endpoint === null ? sql`` : endpoint === 'first' ? sql`and endpoint_id is null` : sql`and endpoint_id = ${endpoint}`}
      ${status === null ? sql`` : sql`and status = ${status}`}
      ${invoiceId === null ? sql`` : sql`and invoice_id = ${invoiceId}`}
      ${since === null ? sql`` : sql`and created_at >= ${new Date(since)}`}`
    const [count] = await sql<
      Array<{ total: number }>
    >`select count(*)::int as total from webhook_deliveries where ${where}`
    const rows = await deliveryRows.all(sql`
      select * from webhook_deliveries where ${where} order by created_at desc, id desc limit ${limit} offset ${offset}`)
    return { rows, total: count?.total ?? 0 }
  }

  async sent(merchantId: number, id: string): Promise<{ readonly delivery: Delivery; readonly body: string } | null> {
    const [row] = await this.#database.sql<Array<Row & { readonly body: string }>>`
      select * from webhook_deliveries where id = ${id} and merchant_id = ${merchantId}`
    return row === undefined ? null : { delivery: deliveryRows.read(row), body: row.body }
  }

  /** Unclaimed only, oldest first. */
  async overdue(due: number, now: number, limit: number): Promise<Array<PacedDelivery & { readonly attempt: number }>> {
    return await overdueRows.all(this.#database.sql`
      select id, merchant_id, endpoint_id, attempts + 1 as attempt,
        ${paces(this.#database.sql)}
      from webhook_deliveries
      where status = 'pending' and next_attempt_at < ${new Date(due)} and (claimed_until is null or claimed_until <= ${new Date(now)})
      order by next_attempt_at limit ${limit}`)
  }

  /** Returns the number of deleted events; pending ones stay. */
  async purge(before: number, limit: number): Promise<number> {
    const gone = await this.#database.sql`
      delete from webhook_deliveries where id in (
        select id from webhook_deliveries where created_at < ${new Date(before)} and status <> 'pending' order by created_at limit ${limit})`
    return gone.count
  }
}

function paces(sql: Sql | TransactionSql) {
  return sql`
    (select quick_at from webhook_paces where endpoint = coalesce(endpoint_id::text, merchant_id::text)),
    (select slow_at from webhook_paces where endpoint = coalesce(endpoint_id::text, merchant_id::text))`
}
