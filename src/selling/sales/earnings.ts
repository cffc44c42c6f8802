import type postgres from 'postgres'
import type { Database, Sql, TransactionSql } from '../../platform/database/database.ts'
import { json, optional, records, text } from '../../platform/database/rows.ts'
import { OWN_TESTS } from '../holding/challenge.ts'
import type { SalesOwner } from './store.ts'

/** Grouping of earnings; `merchant` for all of them only. */
export type Dimension = 'proxy' | 'endpoint' | 'scheme' | 'source' | 'merchant'
export type Step = 'hour' | 'day' | 'month'

export interface Earned {
  /** Start of the step in UTC. */
  readonly at: number
  /** Id of the proxy or merchant, resource, scheme or source; empty for none, null for the rest. */
  readonly key: string | null
  readonly name: string | null
  readonly sales: number
  readonly sats: number
}

export interface EarningsQuery {
  readonly owner: SalesOwner
  readonly by: Step
  readonly of: Dimension
  readonly key?: string
  /** Both start a step; `to` is exclusive. */
  readonly from: number
  readonly to: number
}

/**
 * Milliseconds until a sale is summed, so that no sale is written later with an earlier time. Until then it is read
 * directly, so sums are never late.
 */
const LAG = 120_000
/** Milliseconds that hourly sums are kept; daily and monthly ones stay. */
export const HOURS_KEPT = 90 * 86_400_000
/** Milliseconds of sales per statement. */
const AT_ONCE = 6 * 3_600_000
/** Maximum characters of a summed resource: the index limit. */
const KEY_CHARS = 300
/** Maximum keys per answer; the others are summed. */
const KEYS = 20

type Fragment = postgres.PendingQuery<postgres.Row[]>

/** Test accounts have negative ids. */
const LIVE = (sql: Sql): Fragment => sql`merchant not like '-%'`

/** A key's earnings: start of a step in seconds since the epoch, sales and satoshis, unordered. */
type Points = ReadonlyArray<readonly [at: number, sales: number, sats: number]>

const earnedRows = records({
  key: optional(text()),
  name: optional(text()),
  points: json((stored: Points) => stored)
})

/**
 * Sales since a moment, of all or one owner, by the indexes of migration 0068. `at` dates the sum, `since` the index
 * entry. Payments count at the invoiced price, demos at 0, and the operator's own tests
 * not at all.
 */
function sold(sql: Sql, owner: SalesOwner, since: Fragment, until: Fragment | null): Fragment {
  const window = (at: Fragment): Fragment =>
    until === null ? sql`${at} >= ${since}` : sql`${at} >= ${since} and ${at} < ${until}`
  const challengeOf =
    owner === 'all'
      ? sql``
      : owner === 'gateway'
        ? sql`and merchant_id is null`
        : sql`and merchant_id = ${String(owner.merchantId)}`
  const paymentOf =
    owner === 'all' ? sql`` : owner === 'gateway' ? sql`and false` : sql`and merchant_id = ${owner.merchantId}`
  return sql`
    select coalesce(merchant_id, '') as merchant, least(paid_at, settled_at) as at, source,
      coalesce(proxy_id, '') as proxy, left(resource, ${KEY_CHARS}) as endpoint, coalesce(scheme, 'none') as scheme, amount_sats as sats
    from challenges where ${window(sql`least(paid_at, settled_at)`)} ${challengeOf} and client_key <> ${OWN_TESTS}
    union all
    select merchant_id::text, paid_at, 'payment', '', '', 'invoice', amount_sats
    from payments where ${window(sql`coalesce(sold_at, paid_at)`)} ${paymentOf} and amount_sats is not null`
}

/**
 * Sums of sales by hour, day and month, which bound the rows read for a year. Exact at any moment: the same statement
 * adds what is not summed yet. They survive the purge of sales.
 */
export class Earnings {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /**
   * Adds sales up to two minutes before `now`, exactly once across processes. Resumes after the last run, some hours
   * per statement. `signal` ends it early.
   */
  async roll(now: number, signal?: AbortSignal): Promise<void> {
    const end = now - LAG
    for (;;) {
      if (signal?.aborted === true) return
      if (!(await this.#database.transaction(tx => this.#rollOnce(tx, end), { slow: true }))) return
    }
  }

  async #rollOnce(tx: TransactionSql, end: number): Promise<boolean> {
    // An upgrade may have years to add.
    if (this.#database.kind === 'postgres') await tx`set local statement_timeout = 0`
    await tx`insert into earnings_until (at) values (${new Date(0)}) on conflict do nothing`
    const [held] = await tx<Array<{ at: Date }>>`select at from earnings_until for update`
    const [found] = await tx<Array<{ at: Date | null }>>`
      select least(
        (select min(least(paid_at, settled_at)) from challenges where least(paid_at, settled_at) >= (select at from earnings_until)),
        (select min(coalesce(sold_at, paid_at)) from payments where coalesce(sold_at, paid_at) >= (select at from earnings_until))
      ) as at`
    if (held === undefined) return false
    const first = found?.at?.getTime() ?? Number.POSITIVE_INFINITY
    if (end <= held.at.getTime()) return false
    const until = Math.min(end, first + AT_ONCE)
    if (first < until) await this.#add(tx, new Date(first), new Date(until), end)
    await tx`update earnings_until set at = ${new Date(until)}`
    return until < end
  }

  async #add(tx: TransactionSql, from: Date, until: Date, end: number): Promise<void> {
    await tx`
      with sold as (${sold(tx, 'all', tx`${from}::timestamptz`, tx`${until}::timestamptz`)}),
      summed as (
        select merchant, date_trunc('hour', at, 'UTC') as at, source, proxy, endpoint, scheme, count(*) as sales, sum(sats)::bigint as sats
        from sold group by 1, 2, 3, 4, 5, 6)
      insert into earnings as held (owner, dimension, grain, at, key, sales, sats)
      select owner, dimension, grain, date_trunc(grain, at, 'UTC'), key, sum(sales)::bigint, sum(sats)::bigint
      from summed
        cross join (values ('hour'), ('day'), ('month')) as grains (grain)
        cross join lateral (values
          (merchant, 'proxy', proxy), (merchant, 'endpoint', endpoint), (merchant, 'scheme', scheme), (merchant, 'source', source),
          ('*', 'merchant', merchant), ('*', 'proxy', proxy), ('*', 'scheme', scheme), ('*', 'source', source)) as told (owner, dimension, key)
      where (grain <> 'hour' or at >= ${new Date(end - HOURS_KEPT)}) and (owner <> '*' or ${LIVE(tx)})
      group by 1, 2, 3, 4, 5
      order by 1, 2, 3, 4, 5
      on conflict (owner, dimension, grain, at, key) do update set sales = held.sales + excluded.sales, sats = held.sats + excluded.sats`
  }

  /**
   * All owners' earnings since the start of a day.
   * @throws Unavailable without the database
   */
  async since(from: number, now: number): Promise<{ readonly sales: number; readonly sats: number }> {
    const points = await this.sums({ owner: 'all', by: 'day', of: 'source', from, to: now + 1 })
    return points.reduce((sum, { sales, sats }) => ({ sales: sum.sales + sales, sats: sum.sats + sats }), {
      sales: 0,
      sats: 0
    })
  }

  /**
   * Sums by step, highest earnings first.
   * @throws Unavailable without the database
   */
  async sums({ owner, by, of, key: only, from, to }: EarningsQuery): Promise<Earned[]> {
    const { sql } = this.#database
    const key = {
      proxy: sql`proxy`,
      endpoint: sql`endpoint`,
      scheme: sql`scheme`,
      source: sql`source`,
      merchant: sql`merchant`
    }[of]
    const onlyOf = (column: Fragment): Fragment => (only === undefined ? sql`` : sql`and ${column} = ${only}`)
    const held = owner === 'all' ? '*' : owner === 'gateway' ? '' : String(owner.merchantId)
    const until = sql`(select coalesce(max(at), 'epoch') from earnings_until)`
    const name =
      of === 'proxy'
        ? sql`(select name from proxies where proxy_id = ranked.key)`
        : of === 'merchant'
          ? sql`(select name from merchants where id::text = ranked.key)`
          : sql`null::text`
    // A year by day has thousands of points. Sorting them in the database costs several times more than here; sending
    // rows costs the client twice as much as one text per key.
    const rows = await earnedRows.all(sql`
      with parts as materialized (
        select at, key, sales, sats from earnings
        where owner = ${held} and dimension = ${of} and grain = ${by}
          and at >= ${new Date(from)} and at < ${new Date(to)} ${onlyOf(sql`key`)}
        union all
        select date_trunc(${by}, at, 'UTC'), ${key}, count(*), sum(sats)::bigint from (${sold(sql, owner, until, null)}) as fresh
        where at >= ${new Date(from)} and at < ${new Date(to)} ${onlyOf(key)} ${owner === 'all' ? sql`and ${LIVE(sql)}` : sql``}
        group by 1, 2),
      ranked as (select key from parts group by key order by sum(sats) desc, key limit ${KEYS}),
      most as materialized (select key, ${name} as name from ranked),
      told as (
        select at, key, name, sales, sats from parts join most using (key)
        union all
        select at, null, null, sum(sales)::bigint, sum(sats)::bigint from parts where key not in (select key from most) group by at)
      select key, name, json_agg(json_build_array(extract(epoch from at)::bigint, sales, sats)) as points from told group by key, name`)
    return together(
      rows.flatMap(({ key, name, points }) =>
        points.map(([at, sales, sats]) => ({ at: at * 1000, key, name, sales, sats }))
      )
    )
  }

  /** Deletes hourly sums older than 90 days. */
  async purge(now: number): Promise<void> {
    await this.#database.transaction(
      async tx => {
        if (this.#database.kind === 'postgres') await tx`set local statement_timeout = 0`
        await tx`delete from earnings where grain = 'hour' and at < ${new Date(now - HOURS_KEPT)}`
      },
      { slow: true }
    )
  }
}

/** Merges points of a step and key: the last step has two parts. In the order of `sums`. */
function together(parts: readonly Earned[]): Earned[] {
  const points = new Map<string, Earned>()
  for (const part of parts) {
    const id = `${part.at} ${part.key === null ? '' : `=${part.key}`}`
    const held = points.get(id)
    points.set(id, held === undefined ? part : { ...part, sales: held.sales + part.sales, sats: held.sats + part.sats })
  }
  return [...points.values()].sort(
    (one, other) => one.at - other.at || other.sats - one.sats || byKey(one.key, other.key)
  )
}

/** By code units, the rest last. */
function byKey(one: string | null, other: string | null): number {
  if (one === other) return 0
  if (one === null || other === null) return one === null ? 1 : -1
  return one < other ? -1 : 1
}
