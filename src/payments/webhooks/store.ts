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
  type Records,
  type Row
} from '../../platform/database/rows.ts'
import type { EndpointTimes } from './pace.ts'
import type { Delivery, DeliveryStatus, WebhookEvent } from './schema.ts'

/** An event as it is written. Times in milliseconds since the epoch. */
export interface NewDelivery {
  readonly id: string
  readonly merchantId: number
  readonly event: WebhookEvent
  /** What makes it the same event: of all rows with one key there is one. */
  readonly eventKey: string
  readonly invoiceId: string | null
  readonly paymentHash: string
  /** What every attempt sends, as UTF-8. */
  readonly body: string
  readonly createdAt: number
}

/** One delivery that was written of an event, and where it goes; `endpointId` is null for the first endpoint. */
export interface AddedDelivery {
  readonly id: string
  readonly merchantId: number
  readonly endpointId: string | null
}

/** Who may make an attempt: the job of the schedule, or one that failed and is run again by hand. */
export interface Claim {
  readonly id: string
  /** The attempt's number, from 1. */
  readonly attempt: number
  readonly job: string
  readonly now: number
  /** Until when nobody else may make one. */
  readonly until: number
}

/** An attempt that is this process's to make. */
export interface ClaimedAttempt extends EndpointTimes {
  readonly merchantId: number
  /** Null for the first one. */
  readonly endpointId: string | null
  readonly event: WebhookEvent
  readonly body: string
  /** The attempt's number, from 1. */
  readonly attempt: number
  /** Whether the schedule's next attempt follows when this one fails. */
  readonly retries: boolean
}

/** How an attempt ended. */
export interface AttemptOutcome {
  readonly status: DeliveryStatus
  readonly url: string | null
  readonly responseStatus: number | null
  readonly responseBody: string | null
  readonly error: string | null
  readonly endedAt: number
  /** Set when status is `pending`. */
  readonly nextAttemptAt: number | null
  /** The job that is to be marked as failed; null when none is. */
  readonly failedJob: string | null
}

/** Which deliveries to list, newest first. */
export interface DeliveryFilter {
  /** `first` for the account's first one; null for all. */
  readonly endpoint: string | null
  readonly status: DeliveryStatus | null
  /** Milliseconds since the epoch. */
  readonly since: number | null
  readonly limit: number
  readonly offset: number
}

/**
 * What came of asking for a resend: the delivery, and the number of the attempt to add; null while one is under way.
 */
export interface Resend extends EndpointTimes {
  readonly delivery: Delivery
  readonly attempt: number | null
}

/** A delivery with how its endpoint answered lately. */
export interface PacedDelivery extends AddedDelivery, EndpointTimes {}

/** A delivery whose attempt is long due, so that its job may be lost. */
export interface Overdue extends PacedDelivery {
  readonly attempt: number
}

/** Where deliveries are kept. */
export interface WebhookStore {
  /**
   * Writes events in the transaction that caused them, so that all stand or fall: a delivery for each endpoint that
   * wants the event. Answers those that were written, and not those that are there already.
   */
  add(sql: TransactionSql | Sql, deliveries: readonly NewDelivery[]): Promise<readonly PacedDelivery[]>
  /**
   * Takes an attempt: of any number of processes one at a time gets it, and none once an attempt of that number has
   * ended. Null for all others. A failed delivery's own job gets a further attempt.
   */
  claim(claim: Claim): Promise<ClaimedAttempt | null>
  /** Gives up a claim whose attempt was not finished, so that another may be made at once. */
  unclaim(id: string, attempt: number): Promise<void>
  /**
   * Writes how a claimed attempt ended. False, and nothing written, when an attempt of that number has ended before.
   */
  finish(sql: TransactionSql, id: string, attempt: number, outcome: AttemptOutcome): Promise<boolean>
  /**
   * Makes one attempt due now: the schedule's next one where it is pending, else a further one that is not followed by
   * others. Null for another merchant's or none. Of two at once the second sees what the first did.
   */
  resend(sql: TransactionSql, merchantId: number, id: string, now: number): Promise<Resend | null>
  /** Marks what waits for an endpoint as failed, with the reason; except what is being sent in this moment. */
  abandon(sql: TransactionSql, endpointId: string, error: string, now: number): Promise<void>
  list(
    merchantId: number,
    filter: DeliveryFilter
  ): Promise<{ readonly rows: readonly Delivery[]; readonly total: number }>
  /** A merchant's delivery with what is sent; null for another's or none. */
  sent(merchantId: number, id: string): Promise<{ readonly delivery: Delivery; readonly body: string } | null>
  /** Pending ones that were due before `due` and that nobody claims at `now`, the oldest first. */
  overdue(due: number, now: number, limit: number): Promise<Overdue[]>
  /** Deletes up to `limit` events from before `before`, except those that are pending; returns how many. */
  purge(before: number, limit: number): Promise<number>
}

/** Whether a text can be the id of a delivery or an endpoint: the database cannot even be asked for others. */
export function isWebhookId(text: string): boolean {
  return /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)
}

const deliveryRows: Records<Delivery> = records({
  id: text(),
  merchantId: integer(),
  endpointId: optional(text()),
  event: text<WebhookEvent>(),
  invoiceId: optional(text()),
  paymentHash: optional(text()),
  status: text<DeliveryStatus>(),
  url: optional(text()),
  attempts: integer(),
  responseStatus: optional(integer()),
  responseBody: optional(text()),
  error: optional(text()),
  createdAt: moment(),
  lastAttemptAt: optional(moment()),
  nextAttemptAt: optional(moment()),
  deliveredAt: optional(moment())
})

const paceColumns = { quickAt: optional(moment()), slowAt: optional(moment()) }
const claimRows = records({
  ...paceColumns,
  merchantId: integer(),
  endpointId: optional(text()),
  event: text<WebhookEvent>(),
  body: text(),
  attempts: integer(),
  retries: flag(),
  status: text<DeliveryStatus>()
})
const addedColumns = { id: text(), merchantId: integer(), endpointId: optional(text()), ...paceColumns }
const addedRows: Records<PacedDelivery> = records(addedColumns)
const overdueRows: Records<Overdue> = records({ ...addedColumns, attempt: integer() })

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
  // A further endpoint's key has its id behind it: versions that know of no such endpoint go on writing the first one's.
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

/** Deliveries in the SQL database. */
export class SqlWebhookStore implements WebhookStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async add(sql: TransactionSql | Sql, deliveries: readonly NewDelivery[]): Promise<readonly PacedDelivery[]> {
    return await addedRows.all(ADD.run(sql, deliveries))
  }

  async claim({ id, attempt, job, now, until }: Claim): Promise<ClaimedAttempt | null> {
    const claimed = await claimRows.one(this.#database.sql`
      update webhook_deliveries set claimed_until = ${new Date(until)}
      where id = ${id} and (claimed_until is null or claimed_until <= ${new Date(now)})
        and ((status = 'pending' and attempts = ${attempt - 1}) or (status = 'failed' and failed_job = ${job}))
      returning *, ${pace(this.#database.sql, 'quick_at')}, ${pace(this.#database.sql, 'slow_at')}`)
    if (claimed === null) return null
    const { attempts, retries, status, ...rest } = claimed
    return { ...rest, attempt: attempts + 1, retries: retries && status === 'pending' }
  }

  async unclaim(id: string, attempt: number): Promise<void> {
    await this.#database
      .sql`update webhook_deliveries set claimed_until = null where id = ${id} and attempts = ${attempt - 1}`
  }

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

  async resend(sql: TransactionSql, merchantId: number, id: string, now: number): Promise<Resend | null> {
    const [row] = await sql<
      Array<
        Row & { readonly claimed_until: Date | null; readonly quick_at: Date | null; readonly slow_at: Date | null }
      >
    >`select *, ${pace(sql, 'quick_at')}, ${pace(sql, 'slow_at')} from webhook_deliveries where id = ${id} and merchant_id = ${merchantId} for update`
    if (row === undefined) return null
    const times = { quickAt: row.quick_at?.getTime() ?? null, slowAt: row.slow_at?.getTime() ?? null }
    if (row.claimed_until !== null && row.claimed_until.getTime() > now)
      return { ...times, delivery: deliveryRows.read(row), attempt: null }
    const [changed = row] = await sql`
      update webhook_deliveries set status = 'pending', retries = retries and status = 'pending', next_attempt_at = ${new Date(now)}, failed_job = null
      where id = ${id} returning *`
    const delivery = deliveryRows.read(changed)
    return { ...times, delivery, attempt: delivery.attempts + 1 }
  }

  async abandon(sql: TransactionSql, endpointId: string, error: string, now: number): Promise<void> {
    await sql`
      update webhook_deliveries set status = 'failed', error = ${error}, next_attempt_at = null, failed_job = null
      where endpoint_id = ${endpointId} and status = 'pending' and (claimed_until is null or claimed_until <= ${new Date(now)})`
  }

  async list(
    merchantId: number,
    { endpoint, status, since, limit, offset }: DeliveryFilter
  ): Promise<{ readonly rows: readonly Delivery[]; readonly total: number }> {
    const { sql } = this.#database
    const where = sql`
      merchant_id = ${merchantId}
      ${endpoint === null ? sql`` : endpoint === 'first' ? sql`and endpoint_id is null` : sql`and endpoint_id = ${endpoint}`}
      ${status === null ? sql`` : sql`and status = ${status}`}
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

  async overdue(due: number, now: number, limit: number): Promise<Overdue[]> {
    return await overdueRows.all(this.#database.sql`
      select id, merchant_id, endpoint_id, attempts + 1 as attempt,
        ${pace(this.#database.sql, 'quick_at')}, ${pace(this.#database.sql, 'slow_at')}
      from webhook_deliveries
      where status = 'pending' and next_attempt_at < ${new Date(due)} and (claimed_until is null or claimed_until <= ${new Date(now)})
      order by next_attempt_at limit ${limit}`)
  }

  async purge(before: number, limit: number): Promise<number> {
    const gone = await this.#database.sql`
      delete from webhook_deliveries where id in (
        select id from webhook_deliveries where created_at < ${new Date(before)} and status <> 'pending' order by created_at limit ${limit})`
    return gone.count
  }
}

/** A time of the endpoint of a delivery's row. */
function pace(sql: Sql, column: 'quick_at' | 'slow_at') {
  return sql`(select ${sql(column)} from webhook_paces where endpoint = coalesce(endpoint_id::text, merchant_id::text)) as ${sql(column)}`
}
