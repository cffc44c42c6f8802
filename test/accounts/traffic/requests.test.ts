import t from 'tap'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { RecentRequests, type LoggedRequest } from '../../../src/platform/telemetry/tallies.ts'
import { RequestLogStore, RequestLogWriter } from '../../../src/accounts/traffic/request-log.ts'
import { countingUpstream } from '../../security/shop.ts'
import { openTestDatabase } from '../../support/database.ts'
import { buy, startGateway } from '../../support/gateway.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { asPerson, sessionOf } from '../../web/console/session.ts'

const request = (key: string, more: Partial<LoggedRequest> = {}) => ({
  key,
  at: Date.now(),
  method: 'GET',
  path: `/l402/proxy/${key}/x`,
  status: 200,
  isPaid: true,
  latencyMs: 4,
  correlationId: 'c-1',
  ...more
})

await t.test('request log: lists the last thousand requests of a proxy to its account alone', async t => {
  const database = await openTestDatabase(t)
  const upstream = await countingUpstream(t)
  const gateway = await startGateway(t, { database })
  const created = await gateway.merchantSend('POST', '/api/proxy', {
    name: 'mine',
    targetBaseUrl: upstream.origin,
    defaultPriceSats: 3
  })
  const { proxyId, proxyUrl } = created.json() as { proxyId: string; proxyUrl: string }
  const store = new RequestLogStore(database)
  const hostile = `<script>alert(1)</script>`
  await store.write(Array.from({ length: 400 }, () => request(proxyId, { correlationId: 'old' })))
  await store.write(Array.from({ length: 400 }, () => request(proxyId)))
  await store.write([
    ...Array.from({ length: 198 }, () => request(proxyId)),
    request(proxyId, { at: Date.now() + 600_000, path: hostile, status: 503, isPaid: false, correlationId: 'c-2' }),
    request('other-000001', { correlationId: 'c-2' })
  ])
  await store.write(Array.from({ length: 300 }, () => request(proxyId)))
  const [counted] = await database.sql`select count(*)::int as rows from proxy_requests where proxy_id = ${proxyId}`
  t.equal(counted?.['rows'], 1000)

  const get = async (query: string) =>
    (await gateway.merchantSend('GET', `/api/merchant/requests?proxyId=${proxyId}${query}`)).json() as {
      requests: readonly { correlationId: string; status: number }[]
      next: string | null
    }
  const first = await get('&limit=200')
  t.equal(first.requests.length, 200)
  t.equal(first.requests[0]?.correlationId, 'c-2', 'the newest first')
  t.equal((await get(`&limit=200&after=${first.next}`)).requests.length, 200)
  for (const query of ['&status=5xx', '&paid=false', '&text=SCRIPT', '&text=c-2'])
    t.match(await get(query), { requests: [{ status: 503, path: hostile, isPaid: false, latencyMs: 4 }], next: null })
  t.equal((await get('&text=%25')).requests.length, 0, 'no pattern')
  t.equal((await get('&after=1-x')).requests.length, 0)
  const others = await gateway.merchantSend('GET', '/api/merchant/requests?proxyId=other-000001')
  t.match(others.json(), { requests: [] })
  t.equal((await gateway.merchantSend('GET', '/api/merchant/requests')).status, 400)

  const cookie = await sessionOf(gateway, gateway.merchant.apiKey)
  const page = await asPerson(gateway, cookie, `/console/apis/${proxyId}/requests?status=5xx`)
  t.match(page.text, /data-live[^]*&lt;script>alert/)
  t.notMatch(page.text, /<script>alert/)
  t.equal((await asPerson(gateway, cookie, '/console/apis/other-000001/requests')).status, 404)
  t.match((await asPerson(gateway, cookie, `/console/apis/${proxyId}`)).text, /Request log/)

  const path = `${new URL(proxyUrl).pathname}/x`
  const authorization = await buy(gateway, path)
  await gateway.send('GET', `${path}?key=secret`, { headers: { authorization } })
  await gateway.close()
  const filter = {
    merchantId: gateway.merchant.id,
    proxyId,
    status: null,
    paid: null,
    period: { from: null, to: null }
  }
  const recorded = await store.list({ ...filter, text: path }, { after: null, limit: 2 })
  t.match(recorded, [
    { path, status: 200, isPaid: true },
    { path, status: 402, isPaid: false }
  ])
  t.same(await store.list({ ...filter, merchantId: filter.merchantId + 1, text: null }, { after: null, limit: 2 }), [])
})

t.test('request log: memory is bounded, and a busy proxy costs another nothing that it has', async t => {
  const recent = new RecentRequests()
  recent.add(request('quiet', { path: `/${'x'.repeat(9_000)}` }))
  for (let proxy = 0; proxy < 6; proxy++)
    for (let nth = 0; nth < 1_001; nth++) recent.add(request(`busy-${proxy}`, { correlationId: String(nth) }))
  const taken = recent.take()
  t.equal(taken.length, 5_000)
  t.equal(taken[0]?.path.length, 500)
  const busy = taken.filter(({ key }) => key === 'busy-0').map(({ correlationId }) => correlationId)
  t.same([busy.length, busy[0], busy.at(-1)], [1_000, '1', '1000'])
  t.same(recent.take(), [])
})

await t.test('request log: what cannot be written is dropped, and the next is written', async t => {
  const clock = new ManualClock()
  const requests = new RecentRequests()
  const written: number[] = []
  let isDown = true
  const writer = new RequestLogWriter({
    clock,
    log: silentLog,
    requests,
    store: {
      write: batch => {
        if (isDown) return Promise.reject(new Error('away'))
        written.push(batch.length)
        return Promise.resolve()
      }
    }
  })
  writer.start()
  requests.add(request('a'))
  clock.advance(5_000)
  await writer.write()
  isDown = false
  for (let nth = 0; nth < 700; nth++) requests.add(request('a'))
  clock.advance(5_000)
  await writer.write()
  t.same(written, [500, 200])
  requests.add(request('a'))
  await writer.close()
  t.same(written, [500, 200, 1])
})
