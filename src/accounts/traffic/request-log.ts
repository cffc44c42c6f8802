import type { Database } from '../../platform/database/database.ts'
import { amount, flag, integer, moment, records, text, type Records } from '../../platform/database/rows.ts'
import type { KeysetPage, TimeSpan } from '../../engine/operations/keyset.ts'
import { inTime, type Clock, type Timer } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { LoggedRequest, RecentRequests } from '../../platform/telemetry/tallies.ts'

/** Requests kept per proxy. */
const KEPT = 1_000
const EVERY = 5_000
const LAST_WRITE = 2_000
/** Rows per statement: serializing more would block the event loop. */
const AT_ONCE = 500

export const STATUS_CLASSES = ['2xx', '3xx', '4xx', '5xx'] as const

interface RequestFilter {
  readonly merchantId: number
  readonly proxyId: string
  readonly status: (typeof STATUS_CLASSES)[number] | null
  readonly paid: boolean | null
  /** Case-insensitive part of the path, or the correlation id. */
  readonly text: string | null
  readonly period: TimeSpan
}

export type KeptRequest = Omit<LoggedRequest, 'key'> & { readonly id: number }

const rows: Records<KeptRequest> = records({
  id: amount(),
  at: moment(),
  method: text(),
  path: text(),
  status: integer(),
  isPaid: flag(),
  latencyMs: integer(),
  correlationId: text()
})

export class RequestLogStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async write(requests: readonly LoggedRequest[]): Promise<void> {
    const { sql } = this.#database
    const given = requests.map(({ key, at, ...request }) => ({
      proxy: key,
      at: new Date(at).toISOString(),
      ...request
    }))
    await sql`
      insert into proxy_requests (proxy_id, at, method, path, status, is_paid, latency_ms, correlation_id)
      select proxy, at, method, path, status, "isPaid", "latencyMs", "correlationId"
      from jsonb_to_recordset(${sql.json(given)}::jsonb) as given (
        proxy text, at timestamptz, method text, path text, status smallint, "isPaid" boolean, "latencyMs" integer,
        "correlationId" text)`
    const proxies = [...new Set(requests.map(({ key }) => key))].sort()
    await sql`
      delete from proxy_requests as old using unnest(${proxies}::text[]) as of_proxy (proxy_id)
      where old.proxy_id = of_proxy.proxy_id and old.id <= (
        select id from proxy_requests where proxy_id = of_proxy.proxy_id order by id desc offset ${KEPT} limit 1)`
  }

  /** Newest first. Empty for another account's proxy. */
  async list(
    { merchantId, proxyId, status, paid, text: part, period }: RequestFilter,
    { after, limit }: KeysetPage
  ): Promise<KeptRequest[]> {
    const { sql } = this.#database
    const from = Number(status?.[0]) * 100
    return await rows.all(sql`
      select id, at, method, path, status, is_paid, latency_ms, correlation_id
      from proxies join proxy_requests using (proxy_id)
      where merchant_id = ${merchantId} and proxy_id = ${proxyId} and deleted_at is null
        ${status === null ? sql`` : sql`and status >= ${from} and status < ${from + 100}`}
        ${paid === null ? sql`` : sql`and is_paid = ${paid}`}
        ${part === null ? sql`` : sql`and (strpos(lower(path), lower(${part})) > 0 or correlation_id = ${part})`}
        ${period.from === null ? sql`` : sql`and at >= ${new Date(period.from)}`}
        ${period.to === null ? sql`` : sql`and at < ${new Date(period.to)}`}
        ${after === null ? sql`` : sql`and (at, id) < (${new Date(after.at)}, ${/^\d{1,15}$/.test(after.id) ? Number(after.id) : 0})`}
      order by at desc, id desc limit ${limit}`)
  }

  async purge(before: number): Promise<void> {
    await this.#database.sql`delete from proxy_requests where at < ${new Date(before)}`
  }
}

interface RequestLogDependencies {
  readonly clock: Clock
  readonly log: Log
  readonly requests: RecentRequests
  readonly store: Pick<RequestLogStore, 'write'>
}

/** Writes finished requests every five seconds. Those that cannot be written are dropped: nothing waits for them. */
export class RequestLogWriter {
  readonly #dependencies: RequestLogDependencies
  #timer: Timer | null = null
  #writing: Promise<void> | null = null

  constructor(dependencies: RequestLogDependencies) {
    this.#dependencies = dependencies
  }

  /** Idempotent. */
  start(): void {
    this.#timer ??= this.#dependencies.clock.every(EVERY, () => void this.write())
  }

  /** Never throws. During a write, returns its promise. */
  write(): Promise<void> {
    this.#writing ??= this.#write().finally(() => {
      this.#writing = null
    })
    return this.#writing
  }

  /** Writes the rest; bounded, so as not to delay a shutdown. */
  async close(): Promise<void> {
    if (this.#timer === null) return
    this.#timer.cancel()
    this.#timer = null
    await inTime(this.#dependencies.clock, LAST_WRITE, this.write(), undefined)
  }

  async #write(): Promise<void> {
    const { log, requests, store } = this.#dependencies
    const taken = requests.take()
    try {
      for (let at = 0; at < taken.length; at += AT_ONCE) await store.write(taken.slice(at, at + AT_ONCE))
    } catch (error) {
      log.warn({ err: error, requests: taken.length }, 'the request log of APIs could not be written')
    }
  }
}
