import t from 'tap'
import { TrafficStore } from '../../../src/accounts/traffic/store.ts'
import { eachDatabase, openTestDatabase } from '../../support/database.ts'
import { startGateway } from '../../support/gateway.ts'
import { nothingMeasured } from '../../../src/accounts/traffic/measured.ts'

const MINUTE = 60_000

await eachDatabase(t, 'only the operator reads the traffic', async (t, database) => {
  const gateway = await startGateway(t, { database })
  const get = async (path: string) => {
    const answer = await gateway.adminSend('GET', path)
    return { status: answer.status, body: answer.json() }
  }
  const now = Math.floor(Date.now() / MINUTE) * MINUTE
  const process = { id: 'p', pid: 1, host: 'h', generation: 1, startedAt: now, seenAt: now, written: 1, lostMinutes: 0 }
  const measured = { ...nothingMeasured(), requests: 4, asked: 3, sales: 1, sats: 9, latencies: new Map([[8, 4]]) }
  await new TrafficStore(database).write({
    process,
    rows: [
      { at: now - 2 * MINUTE, route: '', ...measured },
      { at: now - 2 * MINUTE, route: 'weather', ...measured }
    ],
    proxies: [],
    faults: []
  })
  t.match(await get('/api/admin/metrics'), {
    status: 200,
    body: { step: '15m', total: { requests: 4, asked: 3, sats: 9 } }
  })
  t.match(await get('/api/admin/metrics?step=1m'), {
    body: { points: [{ at: new Date(now - 2 * MINUTE).toISOString(), requests: 4, p50: /./ }] }
  })
  t.match(await get('/api/admin/metrics?of=route'), { body: { routes: [{ route: 'weather', requests: 4 }] } })
  t.match(await get('/api/admin/metrics?route=other'), { body: { total: { requests: 0, p50: null }, points: [] } })
  t.match(await get('/api/admin/overview'), {
    body: { traffic: { now: { requests: 4 }, day: { requests: 4, sales: 1 } } }
  })
  for (const query of [
    'from=2026-11-22T00:00:00Z&to=2026-11-21T00:00:00Z',
    'from=2026-11-01T00:00:00Z&to=2026-11-20T00:00:00Z&step=1m',
    'from=2025-11-01T00:00:00Z&to=2026-11-20T00:00:00Z',
    'from=yesterday',
    'step=2m',
    'of=route&step=5m'
  ])
    t.equal((await get(`/api/admin/metrics?${query}`)).status, 400, query)
  const outsider = await gateway.merchantSend('GET', '/api/admin/metrics')
  t.equal(outsider.status, 401)
})

await t.test('a running gateway writes its request counts within a minute, and when it stops', async t => {
  const database = await openTestDatabase(t)
  const gateway = await startGateway(t, { database })
  for (let i = 0; i < 3; i++) await gateway.send('GET', '/health')
  await gateway.close()
  const rows = await new TrafficStore(database).steps({
    grain: 'hour',
    from: Date.now() - 2 * 60 * MINUTE,
    to: Date.now() + MINUTE,
    route: { each: true }
  })
  t.match(
    rows.filter(({ requests }) => requests === 3),
    [{ route: /health/, latencies: Map }]
  )
})
