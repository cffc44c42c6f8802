import { tmpdir } from 'node:os'
import { openDatabase } from '../src/platform/database/database.ts'
import { migrate } from '../src/platform/database/migrations.ts'
import { migrations } from '../src/platform/database/migrations/list.ts'
import { fillMerchants } from './growth/rows.ts'
import { systemClock } from '../src/platform/system/clock.ts'
import { silentLog } from '../src/platform/telemetry/log.ts'
import { nothingMeasured, type MeasuredStep } from '../src/accounts/traffic/measured.ts'
import { GRAINS, TrafficStore } from '../src/accounts/traffic/store.ts'
import { Traffic } from '../src/accounts/traffic/traffic.ts'

// node benchmarks/traffic.ts URL [DAYS]: what 20 routes of 4 processes that are busy in every minute take in an empty
// database traffic_DAYS of the PostgreSQL at URL, how long a process takes to write its minute, and the operator's
// questions about a day and 30 days; then the same of 10,000 merchants' proxies. It is used again.

const [url = '', count = '30'] = process.argv.slice(2)
const days = Number(count)
const options = { clock: systemClock, log: silentLog, dataDir: tmpdir() }
const ROUTES = 20
const PROCESSES = 4
const MINUTE = 60_000

/** The minute of a process: a median of some milliseconds, in eight buckets. */
function minute(at: number, name: string): MeasuredStep[] {
  return ['', ...Array.from({ length: ROUTES }, (_, route) => `GET /v1/things/${route}`)].map((route, nth) => ({
    at,
    route,
    ...nothingMeasured(),
    requests: 240,
    asked: 20,
    sales: nth === 0 ? 20 : 0,
    sats: nth === 0 ? 200 : 0,
    latencies: new Map(Array.from({ length: 8 }, (_, i) => [6 + i + ((at / MINUTE + nth + name.length) % 5), 30]))
  }))
}

async function timed(label: string, times: number, run: (nth: number) => Promise<unknown>): Promise<void> {
  const taken: number[] = []
  for (let nth = 0; nth < times; nth++) {
    const begun = performance.now()
    await run(nth)
    taken.push(performance.now() - begun)
  }
  taken.sort((a, b) => a - b)
  const at = (part: number): string => (taken[Math.floor(part * (taken.length - 1))] ?? 0).toFixed(1)
  process.stdout.write(`${label.padEnd(64)} p50 ${at(0.5)} ms, largest ${at(1)} ms\n`)
}

const own = new URL(url)
own.pathname = `/traffic_${days}`
const maintenance = await openDatabase({ url, ...options })
const [found] = await maintenance.sql`select from pg_database where datname = ${own.pathname.slice(1)}`
if (found === undefined) await maintenance.sql.unsafe(`create database ${own.pathname.slice(1)}`)
await maintenance.close()
const database = await openDatabase({ url: own.href, ...options, silence: 7_200_000 })
if (found === undefined) await migrate(database, migrations, options)
const store = new TrafficStore(database)
const { sql } = database
const now = Math.floor(Date.now() / MINUTE) * MINUTE
const write = (
  nth: number,
  writer: number,
  rows: readonly MeasuredStep[],
  proxies: readonly MeasuredStep[] = []
): Promise<void> =>
  store.write({
    process: {
      id: `bench-${now}-${writer}`,
      pid: writer,
      host: 'bench',
      generation: 1,
      startedAt: now,
      seenAt: now,
      written: nth + 1,
      lostMinutes: 0
    },
    rows,
    proxies,
    faults: []
  })

if (found === undefined) {
  // A day by the gateway's own statement, and the others as its copies.
  for (let at = 0; at < 1440; at += 30)
    for (let writer = 0; writer < PROCESSES; writer++)
      await write(
        at / 30,
        writer,
        Array.from({ length: 30 }, (_, of) => minute(now - GRAINS.day + (at + of) * MINUTE, `${writer}`)).flat()
      )
  const columns =
    'sats, requests, asked, paid_requests, sales, client_errors, server_errors, upstream_failures, unfinished, route, buckets, counts'
  for (let day = 1; day < days; day++)
    await sql.unsafe(
      `insert into traffic_minutes (at, ${columns}) select at - interval '${day} days', ${columns} from traffic_minutes where at >= $1 order by at, route`,
      [new Date(now - GRAINS.day)]
    )
  await sql.unsafe(`delete from traffic_sums`)
  const each = `select at, ${columns} from traffic_minutes`
  for (const grain of ['quarter', 'hour', 'day'])
    await sql.unsafe(`
      insert into traffic_sums (grain, at, ${columns})
      select '${grain}', ${grain === 'quarter' ? "date_bin('15 minutes', at, 'epoch')" : `date_trunc('${grain}', at, 'UTC')`}, sum(sats), sum(requests), sum(asked), sum(paid_requests), sum(sales), sum(client_errors),
        sum(server_errors), sum(upstream_failures), sum(unfinished), route, max(buckets), max(counts)::bigint[]
      from (${each}) as minutes group by 2, route`)
  await sql.unsafe('analyze traffic_minutes; analyze traffic_sums')
}
const [size] = await sql<Array<{ rows: number; table: string; all: string }>>`
  select count(*)::int as rows, pg_size_pretty(pg_relation_size('traffic_minutes')) as table,
    pg_size_pretty(pg_total_relation_size('traffic_minutes') + pg_total_relation_size('traffic_sums')) as all
  from traffic_minutes`
process.stdout.write(`${size?.rows} rows, ${size?.table}, with indexes and sums ${size?.all}\n`)
const traffic = new Traffic(store, systemClock)
const day = { from: now - GRAINS.day, to: now }
const month = { from: now - days * GRAINS.day, to: now }
await timed('a process writes its minute', 50, nth => write(2_000 + nth, 9, minute(now, '9')))
await timed('a day by 15 minutes', 30, () => traffic.sums(day, '15m'))
await timed('a day by minute', 30, () => traffic.sums(day, '1m'))
await timed('a day by minute of one route', 30, () => traffic.sums(day, '1m', 'GET /v1/things/3'))
await timed('a day by route', 30, () => traffic.byRoute(day, '1h'))
await timed('30 days by hour', 30, () => traffic.sums(month, '1h'))
await timed('30 days by day', 30, () => traffic.sums(month, '1d'))
await timed('30 days by route', 30, () => traffic.byRoute(month, '1d'))
await timed('the last five minutes by route', 30, () => traffic.latelyByRoute(5))
// Ten thousand proxies that were asked in every hour of a week and every day of a month, by rows of one of them.
const PROXIES = 10_000
const minuteOfProxies = (): MeasuredStep[] =>
  minute(now, 'p')
    .slice(1, 2)
    .flatMap(row => Array.from({ length: PROXIES }, (_, nth) => ({ ...row, route: `proxy-${nth}` })))
await sql`delete from proxy_traffic`
await write(3_000, 8, [], minuteOfProxies())
for (const [grain, length] of [
  ['hour', 7 * 24],
  ['day', 31]
] as const)
  await sql.unsafe(`
    insert into proxy_traffic select at - n * interval '1 ${grain}', requests, asked, paid_requests, client_errors, server_errors,
      upstream_failures, unfinished, grain, proxy_id, buckets, counts
    from proxy_traffic cross join generate_series(1, ${length}) as n where grain = '${grain}' order by 1, proxy_id`)
await sql.unsafe('analyze proxy_traffic')
const [ofProxies] = await sql<Array<{ rows: number; table: string; all: string }>>`
  select count(*)::int as rows, pg_size_pretty(pg_relation_size('proxy_traffic')) as table,
    pg_size_pretty(pg_total_relation_size('proxy_traffic')) as all from proxy_traffic`
process.stdout.write(`${ofProxies?.rows} rows of proxies, ${ofProxies?.table}, with indexes ${ofProxies?.all}\n`)
const [held] = await sql`select id from merchants limit 1`
if (held === undefined) await fillMerchants(sql, new Date())
await sql`
  insert into proxies (proxy_id, merchant_id, name, target_base_url, default_price_sats, endpoints, token_validity_seconds, timeout_seconds,
    allowed_methods, allowed_paths, blocked_paths, is_active, created_at, updated_at)
  select 'proxy-' || n, 1, 'p', 'https://api.example.com', 1, '[]', 3600, 30, '{}', '{}', '{}', true, now(), now()
  from generate_series(1, 20) as n
  on conflict do nothing`
const mine = 1
await timed('a process writes 500 proxies of its minute', 40, nth =>
  write(4_000 + nth, 7, [], minuteOfProxies().slice(0, 500))
)
await timed('a day by hour of an account with 20 proxies', 30, () => traffic.ofProxies(mine, null, day, '1h'))
await timed('30 days by day of an account with 20 proxies', 30, () =>
  traffic.ofProxies(mine, null, { from: now - 30 * GRAINS.day, to: now }, '1d')
)
await timed('30 days by day of one proxy', 30, () =>
  traffic.ofProxies(mine, 'proxy-3', { from: now - 30 * GRAINS.day, to: now }, '1d')
)
await timed('purge, nothing to do', 3, () => store.purge(now))
await database.close()
