import type { Database, Sql } from '../../platform/database/database.ts'
import {
  amount,
  column,
  integer,
  moment,
  records,
  text,
  type Column,
  type RecordOf
} from '../../platform/database/rows.ts'
import type { FaultSum } from '../../platform/telemetry/tallies.ts'
import { eachNumber, MEASURED_NUMBERS, REQUEST_NUMBERS, summed, type MeasuredStep } from './measured.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
export const KEPT = 30 * DAY

export const GRAINS = { minute: MINUTE, quarter: 15 * MINUTE, hour: HOUR, day: DAY } as const
export type Grain = keyof typeof GRAINS

const processColumns = {
  id: text(),
  pid: integer(),
  host: text(),
  /** Of its configuration; incremented by each reload. */
  generation: integer(),
  startedAt: moment(),
  seenAt: moment(),
  /** Sequence number that deduplicates its writes. */
  written: amount(),
  lostMinutes: integer()
}
export type TrafficProcess = RecordOf<typeof processColumns>

export interface TrafficBatch {
  readonly process: TrafficProcess
  readonly rows: readonly MeasuredStep[]
  readonly proxies: readonly MeasuredStep[]
  readonly faults: readonly FaultSum[]
}

/** Retention of hourly proxy sums; daily ones as all others. */
export const PROXY_HOURS_KEPT = 7 * DAY

interface ProxyTrafficQuery {
  readonly merchantId: number
  /** Null: all of the account's. */
  readonly proxyId: string | null
  readonly grain: 'hour' | 'day'
  /** `to` exclusive. */
  readonly from: number
  readonly to: number
}

export interface TrafficQuery {
  readonly grain: Grain
  /** `to` exclusive. */
  readonly from: number
  readonly to: number
  /** Empty: all together; `each`: every route separately. */
  readonly route: string | { readonly each: true }
}

const processRows = records(processColumns)

const faultRows = records({
  route: text(),
  status: integer(),
  message: text(),
  times: amount(),
  firstAt: moment(),
  lastAt: moment(),
  correlationId: text()
})

/** `integer` or `bigint`; 0 where the table has no such column. */
const counted = (): Column<number> =>
  column(
    null,
    (stored: number | bigint | undefined) => Number(stored ?? 0),
    value => value
  )

/** Read as text: the client would allocate an object per array element. */
const latencies: Column<Map<number, number>> = {
  name: null,
  read: row => {
    const buckets = String(row['buckets']).split(',')
    const counts = String(row['counts']).split(',')
    return new Map(row['buckets'] === '' ? [] : buckets.map((bucket, at) => [Number(bucket), Number(counts[at])]))
  },
  write: (_sql, value, _name, sent) => {
    const sorted = [...value].sort(([one], [other]) => one - other)
    sent['buckets'] = sorted.map(([bucket]) => bucket)
    sent['counts'] = sorted.map(([, count]) => count)
  }
}

const stepRows = records({ at: moment(), route: text(), ...eachNumber(MEASURED_NUMBERS, counted), latencies })

const OF_REQUESTS = records(eachNumber(REQUEST_NUMBERS, counted)).names
const OF_ROUTES = records(eachNumber(MEASURED_NUMBERS, counted)).names

interface SumsTable {
  readonly table: string
  readonly of: 'route' | 'proxy_id'
  readonly numbers: readonly string[]
  readonly count: 'integer' | 'bigint'
  readonly grain: '' | 'grain,'
}

const addTo = ({ table, of, numbers, count, grain }: SumsTable): string => `
  insert into ${table} as held (${grain} at, ${of}, ${numbers.join(', ')}, buckets, counts)
  select ${grain} at, route, ${numbers.join(', ')}, buckets, counts
  from jsonb_to_recordset(\0::jsonb) as given (
    ${grain === '' ? '' : 'grain text,'} at timestamptz, route text, ${numbers.map(name => `${name} bigint`).join(', ')},
    buckets smallint[], counts bigint[])
  where exists (select from mine)
  order by ${grain} route, at
  on conflict (${grain} ${of}, at) do update set
    ${numbers.map(name => `${name} = held.${name} + excluded.${name}`).join(', ')},
    (buckets, counts) = (
      select coalesce(array_agg(bucket order by bucket), '{}'), coalesce(array_agg(more order by bucket), '{}')
      from (
        select bucket, sum(count)::${count} as more
        from (
          select unnest(held.buckets) as bucket, unnest(held.counts) as count
          union all
          select unnest(excluded.buckets), unnest(excluded.counts)) as both_of_them
        group by bucket) as added)`

/**
 * One statement for a process's whole batch. Repeated batches add nothing. Rows are locked in key order, to avoid
 * deadlocks.
 */
const WRITE = `
  with mine as (
    insert into traffic_processes as held (id, pid, host, generation, started_at, seen_at, written, lost_minutes)
    select id, pid, host, generation, started_at, seen_at, written, lost_minutes
    from jsonb_to_record(\0::jsonb) as given (
      id text, pid integer, host text, generation integer, started_at timestamptz, seen_at timestamptz, written bigint,
      lost_minutes integer)
    on conflict (id) do update set generation = excluded.generation, seen_at = excluded.seen_at,
      written = excluded.written, lost_minutes = excluded.lost_minutes
      where held.written < excluded.written
    returning id),
  minutes as (${addTo({ table: 'traffic_minutes', of: 'route', numbers: OF_ROUTES, count: 'integer', grain: '' })}),
  sums as (${addTo({ table: 'traffic_sums', of: 'route', numbers: OF_ROUTES, count: 'bigint', grain: 'grain,' })}),
  proxies as (${addTo({ table: 'proxy_traffic', of: 'proxy_id', numbers: OF_REQUESTS, count: 'bigint', grain: 'grain,' })}),
  faults as (
    insert into route_faults as held (route, status, message, times, first_at, last_at, correlation_id)
    select route, status, message, times, first_at, last_at, correlation_id
    from jsonb_to_recordset(\0::jsonb) as given (
      route text, status smallint, message text, times bigint, first_at timestamptz, last_at timestamptz, correlation_id text)
    where exists (select from mine)
    order by route, status, message
    on conflict (route, status, message) do update set times = held.times + excluded.times,
      first_at = least(held.first_at, excluded.first_at), last_at = greatest(held.last_at, excluded.last_at),
      correlation_id = case when excluded.last_at >= held.last_at then excluded.correlation_id else held.correlation_id end)
  select 1`

const WRITE_PARTS = WRITE.split('\0')
const WRITE_TEMPLATE: TemplateStringsArray = Object.assign(WRITE_PARTS, { raw: WRITE_PARTS })

export class TrafficStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /**
   * Adds a batch exactly once.
   * @throws Unavailable when the database is down
   */
  async write({ process, rows, proxies, faults }: TrafficBatch): Promise<void> {
    const { sql } = this.#database
    const sent = (row: MeasuredStep) => stepRows.write(sql, row)
    const sums = (of: readonly MeasuredStep[], ...grains: ReadonlyArray<Exclude<Grain, 'minute'>>) =>
      grains.flatMap(grain =>
        summed(of, at => Math.floor(at / GRAINS[grain]) * GRAINS[grain]).map(row => ({ grain, ...sent(row) }))
      )
    const given = [
      processRows.write(sql, process),
      summed(rows, at => at).map(sent),
      sums(rows, 'quarter', 'hour', 'day'),
      sums(proxies, 'hour', 'day'),
      faults.map(fault => faultRows.write(sql, fault))
    ]
    // Plain numbers, texts and dates, which the client's type cannot see.
    await sql(WRITE_TEMPLATE, ...given.map(each => sql.json(each as never)))
  }

  /**
   * Ordered by time, without empty rows.
   * @throws Unavailable when the database is down
   */
  async steps({ grain, from, to, route }: TrafficQuery): Promise<MeasuredStep[]> {
    const { sql } = this.#database
    const held = grain === 'minute' ? sql`traffic_minutes where true` : sql`traffic_sums where grain = ${grain}`
    const whose = typeof route === 'string' ? sql`route = ${route}` : sql`route <> ''`
    return await stepRows.all(sql`
      select at, route, ${sql(OF_ROUTES)}, ${listed(sql)}
      from ${held} and at >= ${new Date(from)} and at < ${new Date(to)} and ${whose}
      order by at, route`)
  }

  /** Like `steps`, for an account's proxies that are not removed; `route` is the proxy. */
  async proxySteps({ merchantId, proxyId, grain, from, to }: ProxyTrafficQuery): Promise<MeasuredStep[]> {
    const { sql } = this.#database
    return await stepRows.all(sql`
      select at, proxy_id as route, ${sql(OF_REQUESTS)}, ${listed(sql)}
      from proxies join proxy_traffic using (proxy_id)
      where merchant_id = ${merchantId} and deleted_at is null and grain = ${grain}
        and at >= ${new Date(from)} and at < ${new Date(to)} and ${proxyId === null ? sql`true` : sql`proxy_id = ${proxyId}`}
      order by at, proxy_id`)
  }

  /** Failures, newest first: at most `most` per route. */
  async faults(since: number, most: number): Promise<FaultSum[]> {
    const { sql } = this.#database
    return await faultRows.all(sql`
      select * from (
        select *, row_number() over (partition by route order by last_at desc, status, message) as nth from route_faults
        where last_at >= ${new Date(since)}) as newest
      where nth <= ${most}
      order by last_at desc, route, status, message`)
  }

  /** Processes that have written since, longest running first. */
  async processes(since: number): Promise<TrafficProcess[]> {
    const { sql } = this.#database
    return await processRows.all(
      sql`select * from traffic_processes where seen_at >= ${new Date(since)} order by started_at, id`
    )
  }

  /** Deletes expired rows, and all but a hundred failures per route. */
  async purge(now: number): Promise<void> {
    const { sql } = this.#database
    const before = new Date(now - KEPT)
    await sql`delete from traffic_minutes where at < ${before}`
    // A partly expired day keeps its sums.
    await sql`delete from traffic_sums where at < ${new Date(now - KEPT - DAY)}`
    await sql`delete from proxy_traffic where at < ${new Date(now - KEPT - DAY)}`
    await sql`delete from proxy_traffic where at < ${new Date(now - PROXY_HOURS_KEPT - HOUR)} and grain = 'hour'`
    await sql`delete from traffic_processes where seen_at < ${before}`
    await sql`
      delete from route_faults where last_at < ${before} or (route, status, message) in (
        select route, status, message from (
          select route, status, message, row_number() over (partition by route order by last_at desc) as nth
          from route_faults) as ranked
        where nth > 100)`
  }
}

function listed(sql: Sql) {
  return sql`array_to_string(buckets, ',') as buckets, array_to_string(counts, ',') as counts`
}
