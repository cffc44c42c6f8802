import t from 'tap'
import type { Database } from '../../../src/platform/database/database.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { Metrics } from '../../../src/platform/telemetry/metrics.ts'
import { TrafficRecorder } from '../../../src/accounts/traffic/recorder.ts'
import { TrafficStore, type TrafficBatch } from '../../../src/accounts/traffic/store.ts'
import { Traffic } from '../../../src/accounts/traffic/traffic.ts'
import { eachDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { percentileMs } from '../../../src/accounts/traffic/measured.ts'

const START = '2026-11-20T23:58:10.000Z'
const MINUTE = 60_000

/** A process that measures. */
function gateway(clock: ManualClock, store: Pick<TrafficStore, 'write'>) {
  const metrics = new Metrics()
  const requests = metrics.counterCells('boltgate_requests_total', 'R', ['route', 'method', 'status'])
  const asked = metrics.counterCells('boltgate_payment_required_total', 'A', ['route'])
  const probes = metrics.counterCells('boltgate_probes_total', 'P', ['route'])
  const duration = metrics.latencyCells('boltgate_request_duration_seconds', 'D', ['route'])
  const sales = metrics.counter('boltgate_payments_total', 'S', ['source', 'scheme'])
  const sats = metrics.counter('boltgate_satoshis_earned_total', 'E', ['source', 'scheme'])
  const recorder = new TrafficRecorder({ clock, log: silentLog, metrics, store, generation: () => 3 })
  return {
    metrics,
    recorder,
    request(route: string, status: string, seconds: number) {
      requests.cell({ route, method: 'GET', status }).add(1)
      duration.cell({ route }).observe(seconds)
    },
    probe(route: string) {
      this.ask(route)
      probes.cell({ route }).add(1)
    },
    ask(route: string) {
      requests.cell({ route, method: 'GET', status: '4xx' }).add(1)
      asked.cell({ route }).add(1)
    },
    sell(amount: number) {
      sales.inc({ source: 'route', scheme: 'l402' })
      sats.inc({ source: 'route', scheme: 'l402' }, amount)
    }
  }
}

/** Moves the time to the end of the minute, and waits for what is written then. */
async function minute(clock: ManualClock, ...gateways: ReadonlyArray<ReturnType<typeof gateway>>) {
  clock.advance(MINUTE - (clock.now() % MINUTE))
  await Promise.all(gateways.map(({ recorder }) => recorder.tell()))
}

await eachDatabase(t, 'probes are requests, and neither 402s of buyers nor errors', async (t, database) => {
  const clock = new ManualClock(START)
  const store = new TrafficStore(database)
  const one = gateway(clock, store)
  one.recorder.start()
  one.ask('weather')
  for (let i = 0; i < 5; i++) one.probe('weather')
  one.request('weather', '4xx', 0.001)
  await minute(clock, one)
  one.probe('news')
  await minute(clock, one)
  const { total } = await new Traffic(store, clock).sums({ from: Date.parse(START), to: clock.now() }, '1m')
  t.match(total, { requests: 8, asked: 1, probes: 6, clientErrors: 1 })
})

await eachDatabase(t, 'two processes write their minutes, and each reads the sum of both', async (t, database) => {
  const clock = new ManualClock(START)
  const store = new TrafficStore(database)
  const traffic = new Traffic(store, clock)
  const [one, other] = [gateway(clock, store), gateway(clock, store)]
  one.recorder.start()
  other.recorder.start()
  for (let i = 0; i < 60; i++) one.request('weather', '2xx', 0.004)
  for (let i = 0; i < 40; i++) other.request('weather', '2xx', 0.2)
  other.ask('weather')
  other.request('news', '4xx', 0.001)
  one.request('news', '5xx', 0.001)
  one.sell(21)
  one.metrics.faults.add({ route: 'news', status: 502, message: 'refused', at: clock.now(), correlationId: 'c1' })
  other.metrics.faults.add({ route: 'news', status: 502, message: 'refused', at: clock.now() - 5, correlationId: 'c0' })
  await minute(clock, one, other)
  one.request('weather', '2xx', 0.004)
  await minute(clock, one, other)
  other.request('weather', '2xx', 0.004)
  await minute(clock, one, other)

  const { total, points } = await traffic.sums({ from: Date.parse('2026-11-20T23:00:00Z'), to: clock.now() }, '1m')
  t.same(
    points.map(({ at, requests }) => [new Date(at).toISOString().slice(11, 16), requests]),
    [
      ['23:58', 103],
      ['23:59', 1],
      ['00:00', 1]
    ]
  )
  t.match(total, { requests: 105, asked: 1, sales: 1, sats: 21, clientErrors: 1, serverErrors: 1 })
  t.match(
    (await traffic.sums({ from: Date.parse('2026-11-20T00:00:00Z'), to: clock.now() }, '1d')).points,
    [{ requests: 104 }, { requests: 1 }],
    'days have the same'
  )
  const hours = await traffic.sums({ from: null, to: null }, '1h', 'weather')
  t.match(hours.points, [{ requests: 102 }, { requests: 1 }])
  const ms = percentileMs(hours.total, 0.5) ?? 0
  t.ok(ms > 3.3 && ms < 5, `half of both processes’ requests took 4 ms: ${ms}`)
  const late = percentileMs(hours.total, 0.99) ?? 0
  t.ok(late > 150 && late < 250, `a hundredth 200 ms: ${late}`)
  const { routes } = await traffic.byRoute({ from: null, to: null }, '1h')
  t.same(
    routes.map(({ route, requests }) => [route, requests]),
    [
      ['weather', 103],
      ['news', 2]
    ]
  )
  t.match(await traffic.faults(5), [{ route: 'news', status: 502, message: 'refused', times: 2, correlationId: 'c1' }])
  t.match(await traffic.processes(), [{ pid: process.pid, generation: 3, lostMinutes: 0 }, { generation: 3 }])
  t.match(await traffic.recent(5), { requests: 105 })
})

await eachDatabase(t, 'a write whose answer was lost is sent again and counted once', async (t, database) => {
  const clock = new ManualClock(START)
  const store = new TrafficStore(database)
  let lose = true
  const process = gateway(clock, {
    write: async (batch: TrafficBatch) => {
      await store.write(batch)
      if (lose) throw new Error('the answer was lost')
    }
  })
  process.recorder.start()
  process.request('weather', '2xx', 0.01)
  await minute(clock, process)
  process.request('weather', '2xx', 0.01)
  lose = false
  await minute(clock, process)
  process.request('weather', '2xx', 0.01)
  await process.recorder.close()
  clock.advance(1)
  const { total } = await new Traffic(store, clock).sums({ from: null, to: null }, '1h')
  t.equal(total.requests, 3, 'and what was measured since, also at the end')
})

await t.test('while the database is down an hour is kept, and what was dropped is logged', async t => {
  const clock = new ManualClock(START)
  const batches: TrafficBatch[] = []
  let isDown = true
  const process = gateway(clock, {
    write: async batch => {
      if (isDown) throw new Error('away')
      batches.push(batch)
    }
  })
  process.recorder.start()
  for (let i = 0; i < 70; i++) {
    process.request('weather', '2xx', 0.01)
    await minute(clock, process)
  }
  isDown = false
  await minute(clock, process)
  const rows = batches.flatMap(({ rows }) => rows).filter(({ route }) => route === '')
  t.equal(rows.length, 61, 'the first, which was sent and may have been written, and the last sixty')
  t.equal(batches.at(-1)?.process.lostMinutes, 9)
  t.same(
    rows.map(({ requests }) => requests),
    rows.map(() => 1)
  )
  await process.recorder.close()
})

await t.test('a file with thousands of routes is reported by its busiest', async t => {
  const clock = new ManualClock(START)
  const batches: TrafficBatch[] = []
  const process = gateway(clock, { write: async batch => void batches.push(batch) })
  process.recorder.start()
  for (let i = 0; i < 1000; i++) process.request(`r${i}`, '2xx', 0.01)
  process.request('r999', '2xx', 0.01)
  await minute(clock, process)
  const rows = batches[0]?.rows ?? []
  t.equal(rows.length, 201)
  t.ok(rows.some(({ route, requests }) => route === 'r999' && requests === 2))
  t.equal(rows.find(({ route }) => route === '…')?.requests, 801)
  t.equal(rows.find(({ route }) => route === '')?.requests, 1001)
  await process.recorder.close()
})

async function rowsOf(database: Database) {
  const [found] = await database.sql<Array<{ all: number[] }>>`
    select array[(select count(*) from traffic_minutes), (select count(*) from traffic_sums), (select count(*) from route_faults),
      (select count(*) from traffic_processes)]::int[] as all`
  return found?.all ?? []
}

await eachDatabase(t, 'rows older than thirty days are deleted, and others stay', async (t, database) => {
  const clock = new ManualClock(START)
  const store = new TrafficStore(database)
  const process = gateway(clock, store)
  process.recorder.start()
  process.request('weather', '2xx', 0.01)
  for (let i = 0; i < 150; i++)
    process.metrics.faults.add({ route: 'weather', status: 500, message: `${i}`, at: clock.now(), correlationId: 'c' })
  await minute(clock, process)
  for (let i = 100; i < 150; i++)
    process.metrics.faults.add({ route: 'weather', status: 500, message: `${i}`, at: clock.now(), correlationId: 'c' })
  await minute(clock, process)
  t.same(await rowsOf(database), [2, 6, 150, 1])
  await store.purge(clock.now())
  t.same(await rowsOf(database), [2, 6, 100, 1], 'a hundred ways to fail of each route')
  await store.purge(clock.now() + 30 * 24 * 60 * MINUTE + 2 * MINUTE)
  t.same(await rowsOf(database), [0, 4, 0, 0], 'sums go a day later, a day itself with its last minute')
  await store.purge(clock.now() + 32 * 24 * 60 * MINUTE)
  t.same(await rowsOf(database), [0, 0, 0, 0])
  await process.recorder.close()
})

await t.test(
  'a process that ends waits two seconds for a hanging database, and not at all for one that just failed',
  async t => {
    const clock = new ManualClock(START)
    let requests = 0
    const process = gateway(clock, {
      write: () => {
        requests++
        return requests === 1 ? Promise.reject(new Error('away')) : new Promise(() => {})
      }
    })
    process.recorder.start()
    process.request('weather', '2xx', 0.01)
    await minute(clock, process)
    await process.recorder.close()
    t.equal(requests, 1, 'down: it is not called again')
    const hanging = gateway(clock, { write: () => new Promise(() => {}) })
    hanging.recorder.start()
    hanging.request('weather', '2xx', 0.01)
    const closed = hanging.recorder.close()
    clock.advance(2_000)
    await closed
    t.pass('it ended')
  }
)
