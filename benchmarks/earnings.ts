import { tmpdir } from 'node:os'
import { openDatabase, type Database } from '../src/platform/database/database.ts'
import { migrate } from '../src/platform/database/migrations.ts'
import { migrations } from '../src/platform/database/migrations/list.ts'
import { Earnings, type EarningsQuery } from '../src/selling/sales/earnings.ts'
import { stepsOf } from '../src/selling/sales/steps.ts'
import { SaleStore, type SalesOwner } from '../src/selling/sales/store.ts'
import { systemClock } from '../src/platform/system/clock.ts'
import { silentLog } from '../src/platform/telemetry/log.ts'
import { fill, fillMerchants, MERCHANTS, type Filling } from './growth/rows.ts'

// node benchmarks/earnings.ts URL ROWS: how long the questions of earnings and sales take with so many sales of a year,
// half of them of one account, in a database named earnings_ROWS of the PostgreSQL at URL; it is used again.
// 10,000,000 rows take 9 GB.

const [url = '', count = '10000000'] = process.argv.slice(2)
const rows = Number(count)
const options = { clock: systemClock, log: silentLog, dataDir: tmpdir() }
const BUSY = 1

/** Sales of the year before $3, spread evenly: half of the busy account's, over 5 proxies, 40 endpoints and 3 schemes. */
const sales: Filling = {
  table: 'challenges',
  insert: `
  insert into challenges (
    payment_hash, source, service, merchant_id, proxy_id, place, resource, path, method, query, amount_sats, binding,
    macaroon, token_id, invoice, network, charge_id, provider_slot, provider_kind, client_key, description,
    created_at, expires_at, token_expires_at, state, scheme, verifications, paid_at)
  select
    h || h2, 'proxy', 's', case when i % 2 = 0 then '${BUSY}' else (2 + i % ${MERCHANTS})::text end, 'p' || i % 10, 'proxy:p',
    '/l402/proxy/p/' || i % 80, '/', 'GET', '', 1 + i % 100, 'b', '', h, 'lnbcrt1', 'regtest', 'c', 'primary', 'sandbox', 'k', 'd',
    made, made, made, case when i % 3 = 0 then 'spent' else 'unspent' end,
    case i % 3 when 0 then 'payment' when 1 then 'l402' else 'payment-legacy' end, 1, made
  from (
    select i, md5(i::text) as h, md5('b' || i) as h2, $3::timestamptz - i * (interval '365 days' / ${rows}) as made
    from generate_series($1::bigint, $2::bigint) as i offset 0) as numbered`
}

async function opened(): Promise<Database> {
  const own = new URL(url)
  own.pathname = `/earnings_${rows}`
  const maintenance = await openDatabase({ url, ...options })
  const [found] = await maintenance.sql`select from pg_database where datname = ${own.pathname.slice(1)}`
  if (found === undefined) await maintenance.sql.unsafe(`create database ${own.pathname.slice(1)}`)
  await maintenance.close()
  if (found === undefined) {
    const filling = await openDatabase({ url: own.href, ...options, connections: 1, silence: 7_200_000 })
    await migrate(filling, migrations, options)
    await fillMerchants(filling.sql, new Date())
    await fill(filling.sql, sales, rows, new Date())
    await filling.close()
  }
  return openDatabase({ url: own.href, ...options })
}

const ms = (from: number): number => performance.now() - from

async function timed(label: string, times: number, run: () => Promise<unknown>): Promise<void> {
  const taken: number[] = []
  for (let i = 0; i < times; i++) {
    const begun = performance.now()
    await run()
    taken.push(ms(begun))
  }
  const [first = 0] = taken
  taken.sort((a, b) => a - b)
  const at = (part: number): string => (taken[Math.floor(part * (taken.length - 1))] ?? 0).toFixed(1)
  process.stdout.write(`${label.padEnd(64)} p50 ${at(0.5)} ms, largest ${at(1)} ms, first ${first.toFixed(1)} ms\n`)
}

const database = await opened()
const earnings = new Earnings(database)
const store = new SaleStore(database)
const begun = performance.now()
await earnings.roll(Date.now())
process.stdout.write(`what was not in the sums yet was added in ${(ms(begun) / 1000).toFixed(1)} s\n`)
await database.sql`analyze earnings`
const [held] = await database.sql<Array<{ rows: number }>>`select count(*)::int as rows from earnings`
process.stdout.write(`${held?.rows} rows of sums\n`)

const now = Date.now()
const year = { from: now - 364 * 86_400_000, to: now }
const month = { from: now - 30 * 86_400_000, to: now }
const ask = (owner: SalesOwner, of: EarningsQuery['of'], by: EarningsQuery['by'], span: typeof year) =>
  earnings.sums({ owner, of, by, ...stepsOf(by, span, now) })
for (const dimension of ['source', 'proxy', 'endpoint', 'scheme'] as const) {
  await timed(`a year of the busy account by month of ${dimension}`, 50, () =>
    ask({ merchantId: BUSY }, dimension, 'month', year)
  )
  await timed(`a year of the busy account by day of ${dimension}`, 50, () =>
    ask({ merchantId: BUSY }, dimension, 'day', year)
  )
  await timed(`a month of the busy account by hour of ${dimension}`, 50, () =>
    ask({ merchantId: BUSY }, dimension, 'hour', month)
  )
}
await timed('a year of all merchants by month of source', 50, () => ask('all', 'source', 'month', year))
await timed('a year of all merchants by month of merchant', 20, () => ask('all', 'merchant', 'month', year))
const page = { after: null, limit: 50 }
const all = {
  owner: { merchantId: BUSY },
  period: { from: null, to: null },
  source: null,
  scheme: null,
  state: null,
  proxyId: null,
  text: null
}
await timed('a page of 50 sales', 50, () => store.list(all, page))
await timed('a page of 50 sales from half a year ago', 50, () =>
  store.list({ ...all, period: { from: null, to: now - 182 * 86_400_000 } }, page)
)
await timed('a page of 50 sales of one proxy that were spent', 50, () =>
  store.list({ ...all, proxyId: 'p4', state: 'spent' }, page)
)
await database.close()
