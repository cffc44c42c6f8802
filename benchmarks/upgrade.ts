import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Agent, request } from 'undici'
import { openDatabase } from '../src/platform/database/database.ts'
import { systemClock } from '../src/platform/system/clock.ts'
import { silentLog } from '../src/platform/telemetry/log.ts'
import { fill, fillMerchants, FILLINGS } from './growth/rows.ts'
import { percentiles } from './measure/statistics.ts'
import { mintCredentials, startBoltgate, type GatewayTarget } from './peers/boltgate.ts'
import { makeFolder, removeFolder } from './rig/child.ts'
import { startServers } from './rig/servers.ts'
import { startUpstream } from './upstream/upstream.ts'

// node benchmarks/upgrade.ts CHECKOUT [--rows N] [--rate R] [--seconds S]: an upgrade of a gateway in use. The gateway of
// an older checkout (with its node_modules) serves R requests a second (100) on a PostgreSQL with N challenges and N
// payments (1,000,000), while this checkout's gateway starts on the same database and migrates it. Prints latencies and
// errors of each kind of request S seconds (10) before, during and after the upgrade, the longest waits for locks, and
// the log of the migrations.

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rows: { type: 'string', default: '1000000' },
    rate: { type: 'string', default: '100' },
    seconds: { type: 'string', default: '10' }
  }
})
const [checkout] = positionals
if (checkout === undefined) throw new Error('Usage: node benchmarks/upgrade.ts CHECKOUT [--rows N] [--rate R]')
const [rows, rate, seconds] = [Number(values.rows), Number(values.rate), Number(values.seconds)]
const PHASES = ['before', 'during', 'after'] as const
const LOOK_MS = 5

interface PageRequest {
  readonly phase: (typeof PHASES)[number]
  readonly kind: string
  readonly ms: number
  /** Why it is not what was expected; null when it is. */
  readonly fault: string | null
}
interface Ask {
  readonly path: string
  readonly status: number
  readonly headers?: Record<string, string>
  readonly body?: object
}

const pause = (ms: number): Promise<void> =>
  new Promise(resolve => {
    setTimeout(resolve, ms)
  })

const folder = makeFolder()
const servers = await startServers(folder, null)
const upstream = await startUpstream(folder, null, 1024)
const place = { folder, core: null, upstream: upstream.origin, say: () => undefined }
const before = await startBoltgate(place, { name: 'before', servers, checkout })
// Fills and looks for minutes: no limit to a statement.
const database = await openDatabase({
  url: servers.databaseUrl,
  dataDir: tmpdir(),
  log: silentLog,
  clock: systemClock,
  connections: 1,
  silence: 7_200_000
})
const { sql } = database

const asked: PageRequest[] = []
let phase: PageRequest['phase'] = 'before'
let port = before.port
const agent = new Agent({ connections: 500 })

async function send(kind: string, { path, status, headers = {}, body }: Ask): Promise<void> {
  const [of, at] = [phase, performance.now()]
  let fault: string | null = null
  try {
    const answer = await request(`http://127.0.0.1:${port}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      dispatcher: agent,
      headers: {
        accept: 'application/json',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers
      },
      body: body === undefined ? null : JSON.stringify(body)
    })
    const text = await answer.body.text()
    if (answer.statusCode !== status) fault = `${answer.statusCode}: ${text.slice(0, 200)}`
  } catch (error) {
    fault = String(error)
  }
  asked.push({ phase: of, kind, ms: performance.now() - at, fault })
}

/** Requests whose statements read and write the large tables, each with its own number. */
async function kindsOf(count: number): Promise<ReadonlyArray<readonly [kind: string, ask: (number: number) => Ask]>> {
  const credentials = async (path: string, scheme: 'l402' | 'payment', many: number): Promise<string[]> =>
    await mintCredentials(before.port, many, { path, scheme })
  const once = (await credentials('/paid/once', 'payment', count)).values()
  const first = (await credentials('/paid/first', 'l402', count)).values()
  const [again = ''] = await credentials('/paid/again', 'l402', 1)
  const [bundle = ''] = await credentials('/metered/x', 'l402', 1)
  const key = { 'x-api-key': before.apiKey }
  return [
    [
      '402',
      number => ({
        path: '/paid/x',
        status: 402,
        headers: { 'x-forwarded-for': `10.0.${(number >> 8) & 255}.${number & 255}` }
      })
    ],
    [
      'Payment credential',
      () => ({ path: '/paid/once', status: 200, headers: { authorization: once.next().value ?? '' } })
    ],
    [
      'new L402 token',
      () => ({ path: '/paid/first', status: 200, headers: { authorization: first.next().value ?? '' } })
    ],
    ['L402 token, again', () => ({ path: '/paid/again', status: 200, headers: { authorization: again } })],
    ['metered', () => ({ path: '/metered/x', status: 200, headers: { authorization: bundle } })],
    [
      'payment created',
      number => ({
        path: '/api/payments',
        status: 201,
        headers: key,
        body: { orderId: `order-${number}-${Date.now()}`, amount: 0.0001, currency: 'BTC' }
      })
    ],
    ['payments listed', () => ({ path: '/api/payments?limit=20', status: 200, headers: key })],
    ['account', () => ({ path: '/api/merchant/me', status: 200, headers: key })]
  ]
}

/** Waits for locks, by who waits: the longest, with the statement and the one that blocks it. */
const waits = new Map<string, { ms: number; by: string }>()
async function lookAtLocks(until: AbortSignal): Promise<void> {
  while (!until.aborted) {
    const found = await sql<Array<{ name: string; ms: number; query: string; by: string | null }>>`
      select a.application_name as name, extract(epoch from clock_timestamp() - l.waitstart) * 1000 as ms, left(a.query, 90) as query,
        (select left(b.query, 90) from pg_stat_activity b where b.pid = any(pg_blocking_pids(l.pid)) limit 1) as by
      from pg_locks l join pg_stat_activity a using (pid) where not l.granted and l.waitstart is not null`
    for (const { ms, query, by } of found) {
      const name = query.replaceAll(/\s+/g, ' ')
      if (Number(ms) > (waits.get(name)?.ms ?? 0))
        waits.set(name, { ms: Number(ms), by: (by ?? '').replaceAll(/\s+/g, ' ') })
    }
    await pause(LOOK_MS)
  }
}

async function main(): Promise<void> {
  const now = new Date()
  await fillMerchants(sql, now)
  for (const one of FILLINGS) await fill(sql, one, rows, now)
  process.stderr.write(`filled: ${rows} rows in each table\n`)
  const budget = rate * (3 * seconds + 60)
  const kinds = await kindsOf(Math.ceil(budget / 8))
  process.stderr.write('credentials are made\n')
  const over = new AbortController()
  const underWay = new Set<Promise<void>>()
  const traffic = (async () => {
    const begun = performance.now()
    for (let number = 0; !over.signal.aborted; number++) {
      const due = begun + (number * 1000) / rate
      if (due > performance.now()) await pause(due - performance.now())
      const [kind, ask] = kinds[number % kinds.length]!
      const one = send(kind, ask(number)).finally(() => underWay.delete(one))
      underWay.add(one)
    }
    await Promise.all(underWay)
  })()
  await pause(seconds * 1000)
  // What was compiled and connected for the first time is not the upgrade's.
  asked.length = 0
  await pause(seconds * 1000)
  const locks = lookAtLocks(over.signal)
  phase = 'during'
  const begun = performance.now()
  let after: GatewayTarget | null = null
  try {
    after = await startBoltgate(place, { name: 'after', servers, shares: join(folder, 'before-data') })
    const took = performance.now() - begun
    phase = 'after'
    // The older one still serves for a while, as in a rolling upgrade; then the newer one does.
    await pause(seconds * 500)
    port = after.port
    await pause(seconds * 500)
    process.stdout.write(`Ready after ${took.toFixed(0)} ms\n\n`)
    process.stdout.write(
      after
        .output()
        .split('\n')
        .filter(line => /migrat|database|"level":"(warn|error)"/i.test(line))
        .join('\n')
    )
  } finally {
    over.abort()
    await Promise.all([traffic, locks])
    await after?.stop()
  }
  const cell = (kind: string, of: PageRequest['phase']): string => {
    const ms = asked.filter(one => one.kind === kind && one.phase === of).map(one => one.ms)
    const { p50, p99 } = percentiles(ms)
    return `${p50.toFixed(0)} / ${p99.toFixed(0)} / ${Math.max(0, ...ms).toFixed(0)}`
  }
  process.stdout.write(`\n\n| p50 / p99 / longest, ms | ${PHASES.join(' | ')} | errors |\n|---|---|---|---|---|\n`)
  for (const [kind] of kinds)
    process.stdout.write(
      `| ${kind} | ${PHASES.map(of => cell(kind, of)).join(' | ')} | ${asked.filter(one => one.kind === kind && one.fault !== null).length} |\n`
    )
  for (const fault of new Set(
    asked.flatMap(one => (one.fault === null ? [] : [`${one.phase}, ${one.kind}: ${one.fault}`]))
  ))
    process.stdout.write(`${fault}\n`)
  process.stdout.write(`\n${asked.length} requests. Waits for locks:\n`)
  for (const [query, { ms, by }] of [...waits].toSorted(([, a], [, b]) => b.ms - a.ms).slice(0, 12))
    process.stdout.write(`${ms.toFixed(0)} ms: ${query} — behind: ${by}\n`)
}

try {
  await main()
} finally {
  await database.close()
  await before.stop()
  await Promise.all([servers.stop(), upstream.stop()])
  removeFolder(folder)
}
