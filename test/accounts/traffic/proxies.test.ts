import t from 'tap'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { Metrics } from '../../../src/platform/telemetry/metrics.ts'
import { TrafficRecorder } from '../../../src/accounts/traffic/recorder.ts'
import { TrafficStore, type TrafficBatch } from '../../../src/accounts/traffic/store.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { countingUpstream } from '../../security/shop.ts'
import { eachDatabase, openTestDatabase } from '../../support/database.ts'
import { buy, startGateway } from '../../support/gateway.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { nothingMeasured, percentileMs } from '../../../src/accounts/traffic/measured.ts'
import { Traffic } from '../../../src/accounts/traffic/traffic.ts'

const MINUTE = 60_000
const DAY = 1440 * MINUTE

function recorder(clock: ManualClock, store: Pick<TrafficStore, 'write'>) {
  const metrics = new Metrics()
  return { metrics, recorder: new TrafficRecorder({ clock, log: silentLog, metrics, store, generation: () => 1 }) }
}

await t.test('a merchant reads the traffic of its own proxies only', async t => {
  const database = await openTestDatabase(t)
  const upstream = await countingUpstream(t)
  const gateway = await startGateway(t, { database })
  const created = await gateway.merchantSend('POST', '/api/proxy', {
    name: 'mine',
    targetBaseUrl: upstream.origin,
    defaultPriceSats: 3
  })
  const { proxyId, proxyUrl } = created.json() as { proxyId: string; proxyUrl: string }
  const path = `${new URL(proxyUrl).pathname}/x`
  const authorization = await buy(gateway, path)
  for (let i = 0; i < 2; i++) t.equal((await gateway.send('GET', path, { headers: { authorization } })).text, 'sold')
  await gateway.send('GET', path, { headers: { authorization: 'L402 AAAA:00' } })
  await gateway.send('GET', '/l402/proxy/nobody-000001/x')
  const now = Date.now()
  const store = new TrafficStore(database)
  const before = { ...nothingMeasured(), requests: 7, serverErrors: 2, latencies: new Map([[8, 7]]) }
  await store.write({
    process: { id: 'p', pid: 1, host: 'h', generation: 1, startedAt: now, seenAt: now, written: 1, lostMinutes: 0 },
    rows: [],
    proxies: [
      { at: Math.floor(now / (60 * MINUTE) - 2) * 60 * MINUTE, route: proxyId, ...before },
      { at: Math.floor(now / (60 * MINUTE) - 2) * 60 * MINUTE, route: 'other-000001', ...before }
    ],
    faults: []
  })
  const get = async (query: string) => (await gateway.merchantSend('GET', `/api/merchant/traffic${query}`)).json()
  const written = { requests: 7, serverErrors: 2, p99: /./ }
  t.match(await get(''), { step: '1h', total: written, points: [written], proxies: [{ proxyId, ...written }] })
  t.match(await get('?proxyId=other-000001'), { total: { requests: 0, p50: null }, proxies: [] }, 'without an account')
  for (const query of [
    `from=${new Date(now - 9 * DAY).toISOString()}&step=1h`,
    `from=${new Date(now - 40 * DAY).toISOString()}`,
    `from=${new Date(now).toISOString()}&to=${new Date(now - DAY).toISOString()}`,
    'step=1m'
  ])
    t.equal((await gateway.merchantSend('GET', `/api/merchant/traffic?${query}`)).status, 400, query)

  await gateway.close()
  const traffic = new Traffic(store, systemClock)
  const hour = { from: now - 60 * MINUTE, to: now + 60 * MINUTE }
  t.match((await traffic.ofProxies(gateway.merchant.id, proxyId, hour, '1h')).total, {
    requests: 4,
    asked: 1,
    paidRequests: 2,
    clientErrors: 1,
    serverErrors: 0
  })
  t.match(
    (await traffic.ofProxies(gateway.merchant.id + 1, proxyId, hour, '1h')).total,
    { requests: 0 },
    'not of another'
  )
})

await eachDatabase(
  t,
  'hours and days of proxies are those of all processes, and go with their age',
  async (t, database) => {
    const clock = new ManualClock('2026-11-20T22:59:10.000Z')
    const store = new TrafficStore(database)
    const [one, other] = [recorder(clock, store), recorder(clock, store)]
    const tallies = [one.metrics.tallies.of('a-000001'), other.metrics.tallies.of('a-000001')]
    const minute = async () => {
      clock.advance(MINUTE - (clock.now() % MINUTE))
      await Promise.all([one.recorder.tell(), other.recorder.tell()])
    }
    for (const tally of tallies) {
      for (let i = 0; i < 50; i++) tally.over(200, 0.004)
      tally.over(402, 0.001)
      tally.over(503, 0.2)
      tally.upstreamFailed()
      tally.paid()
    }
    await minute()
    tallies[0]?.over(404, 0.001)
    await minute()
    await minute()
    const rows = await database.sql<Array<{ grain: string; requests: number; serverErrors: number }>>`
    select grain, requests::int, server_errors::int as "serverErrors" from proxy_traffic order by grain, at`
    t.same(
      rows.map(({ grain, requests, serverErrors }) => [grain, requests, serverErrors]),
      [
        ['day', 105, 2],
        ['hour', 104, 2],
        ['hour', 1, 0]
      ]
    )
    const count = async () =>
      (await database.sql<Array<{ rows: number }>>`select count(*)::int as rows from proxy_traffic`)[0]?.rows ?? -1
    await store.purge(clock.now() + 7 * DAY - 5 * MINUTE)
    t.equal(await count(), 3)
    await store.purge(clock.now() + 7 * DAY + 180 * MINUTE)
    t.equal(await count(), 1, 'hours after seven days')
    await store.purge(clock.now() + 32 * DAY)
    t.equal(await count(), 0, 'days after thirty')
    await Promise.all([one.recorder.close(), other.recorder.close()])
  }
)

await t.test('ten thousand proxies in a minute are written in statements of five hundred, once each', async t => {
  const clock = new ManualClock()
  const batches: TrafficBatch[] = []
  let isDown = true
  const { metrics, recorder: writer } = recorder(clock, {
    write: batch => {
      if (isDown) return Promise.reject(new Error('away'))
      batches.push(batch)
      return Promise.resolve()
    }
  })
  const tallies = Array.from({ length: 10_000 }, (_, nth) => metrics.tallies.of(`p-${nth}`))
  for (let nth = 0; nth < 3; nth++) {
    for (const tally of tallies) tally.over(200, 0.01)
    await writer.tell()
    isDown = nth < 1
  }
  const rows = batches.flatMap(({ proxies }) => proxies)
  t.equal(Math.max(...batches.map(({ proxies }) => proxies.length)), 500)
  t.equal(
    rows.reduce((sum, { requests }) => sum + requests, 0),
    30_000
  )
  t.same(
    batches.map(({ process }) => process.written),
    batches.map((_, at) => at + 1)
  )
})

t.test('memory is bounded: requests of more than twenty thousand proxies are not counted', async t => {
  const { tallies } = new Metrics()
  for (let nth = 0; nth < 20_005; nth++) {
    const tally = tallies.of(`p-${nth}`)
    tally.over(200, 0.01)
    tally.paid()
  }
  t.equal(tallies.take().length, 20_000)
  t.same(tallies.take(), [])
  const late = tallies.of('late')
  late.over(200, 0.01)
  const [taken] = tallies.take()
  t.match(taken, { key: 'late', requests: 1 })
  t.ok(taken !== undefined && percentileMs(taken, 0.5) !== null)
})
