import { randomUUID } from 'node:crypto'
import { ChallengeStore } from '../src/selling/holding/store.ts'
import { challengeOf, filledDatabase } from './growth/filled.ts'
import { spreadOf } from './measure/statistics.ts'
import { runTimeOfTree } from './rig/cpu.ts'

// node benchmarks/purge.ts URL PID ROWS [--goes=N] [--rate=N] [--offers=N] [--seconds=N]: deletes the N oldest challenges
// (half of them) of the database growth_ROWS (see growth.ts), as the purge does, beside `rate` buyers a second (200), a
// 402, a lease, a spend, and `offers` 402s a second that stay unpaid (0). Prints how many go in a second and what each costs, as the purge goes on; what the buyers' statements wait, with
// and without it; and how many of the sessions stood behind a lock, looked at each 20 ms. The rows are gone then.

const [url = '', pid = '', size = '', ...rest] = process.argv.slice(2)
const option = (name: string, otherwise: number): number =>
  Number(rest.find(each => each.startsWith(`--${name}=`))?.slice(name.length + 3) ?? otherwise)
const goes = option('goes', Number(size) / 2)
const rate = option('rate', 200)
const offers = option('offers', 0)
const alone = option('seconds', 10) * 1000
const PURGE_BATCH = 1_000
const PARTS = 5

const database = await filledDatabase(url, Number(size))
const store = new ChallengeStore(database)
const { sql } = database
const pause = (ms: number): Promise<void> =>
  new Promise(resolve => {
    setTimeout(resolve, ms)
  })

/** 402s that stay unpaid, evenly until `until`. Resolves with how many. */
async function offersUntil(until: AbortSignal): Promise<number> {
  const open = new Set<Promise<void>>()
  const begun = performance.now()
  let made = 0
  if (offers === 0) return made
  while (!until.aborted) {
    await pause(5)
    for (const due = ((performance.now() - begun) / 1000) * offers; made < due; made++) {
      const one = store.insert(sql, challengeOf(`client ${randomUUID()}`)).finally(() => open.delete(one))
      open.add(one)
    }
  }
  await Promise.all(open)
  return made
}

/** What came until `until`: what each buyer waited for its three statements, in milliseconds, and 402s a second. */
async function demandUntil(until: AbortSignal): Promise<{ readonly waits: number[]; readonly offered: number }> {
  const begun = performance.now()
  const [waits, made] = await Promise.all([buyersUntil(until), offersUntil(until)])
  return { waits, offered: (made * 1000) / (performance.now() - begun) }
}

/** Buyers that come evenly until `until`. Resolves with what each waited for its three statements, in milliseconds. */
async function buyersUntil(until: AbortSignal): Promise<number[]> {
  const [waits, open]: [number[], Set<Promise<void>>] = [[], new Set()]
  const buy = async (): Promise<void> => {
    const row = challengeOf(`client ${randomUUID()}`)
    const begun = performance.now()
    await store.insert(sql, row)
    const key = { paymentHash: row.paymentHash, leaseId: randomUUID() }
    const now = Date.now()
    const lease = { ...key, gateway: 'g', until: now + 20_000, now }
    if ((await store.lease(sql, lease)) === null) throw new Error('no lease was had')
    if ((await store.spend([key], now)).length === 0) throw new Error('nothing was spent')
    waits.push(performance.now() - begun)
  }
  const begun = performance.now()
  for (let sent = 0; !until.aborted; sent++) {
    await pause(Math.max(0, begun + (sent * 1000) / rate - performance.now()))
    const one = buy().finally(() => open.delete(one))
    open.add(one)
  }
  await Promise.all(open)
  return waits
}

/** Sessions that wait for a lock, summed over looks until `until`. */
async function locksUntil(until: AbortSignal): Promise<{ readonly looks: number; readonly waiting: number }> {
  let [looks, waiting] = [0, 0]
  while (!until.aborted) {
    const [row] = await sql`select count(*)::int as waiting from pg_locks where not granted`
    looks++
    waiting += Number(row?.['waiting'])
    await pause(20)
  }
  return { looks, waiting }
}

const cpu = (): number => runTimeOfTree(Number(pid)) ?? Number.NaN
const percentile = (values: readonly number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? Number.NaN
const tell = (
  label: string,
  { waits, offered }: { readonly waits: readonly number[]; readonly offered: number }
): void => {
  process.stdout.write(
    `${label}: ${offered.toFixed(0)} offers a second and ${waits.length} buyers, median ${(spreadOf(waits)?.median ?? Number.NaN).toFixed(1)} ms, 99 % ${percentile(waits, 0.99).toFixed(1)}, worst ${Math.max(...waits).toFixed(1)}\n`
  )
}

await demandUntil(AbortSignal.timeout(3_000))
tell('without the purge', await demandUntil(AbortSignal.timeout(alone)))

const [bound] = await sql<Array<{ at: Date }>>`
  select greatest(expires_at, token_expires_at) as at from challenges
  where source in ('route', 'proxy', 'ping') and scheme is null
  order by greatest(expires_at, token_expires_at) limit 1 offset ${goes}`
const before = bound?.at.getTime() ?? 0

async function purge(): Promise<void> {
  const purged = { rows: 0, since: 0, at: performance.now(), cpu: cpu() }
  for (;;) {
    const gone = await store.purge(before, 0, PURGE_BATCH)
    purged.rows += gone
    const part = purged.rows - purged.since
    if (part < goes / PARTS && gone === PURGE_BATCH) continue
    if (part > 0) {
      const [at, used] = [performance.now(), cpu()]
      process.stdout.write(
        `${purged.rows} gone: ${((part / (at - purged.at)) * 1000).toFixed(0)} a second, PostgreSQL's CPU ${((used - purged.cpu) / part).toFixed(1)} µs each, buyers' included\n`
      )
      Object.assign(purged, { since: purged.rows, at, cpu: used })
    }
    if (gone < PURGE_BATCH) return
  }
}
const gone = new AbortController()
const purging = purge().finally(() => {
  gone.abort()
})
const [demand, locks] = await Promise.all([demandUntil(gone.signal), locksUntil(gone.signal), purging])
tell('beside the purge', demand)
process.stdout.write(`sessions that stood behind a lock: ${locks.waiting} in ${locks.looks} looks\n`)
await store.close()
await database.close()
