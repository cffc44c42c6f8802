import t from 'tap'
import metrics from '../../plugins/metrics.ts'
import { HeaderList } from '../../src/index.ts'
import {
  harness,
  type HarnessAnswer,
  type HarnessOptions,
  type HarnessRequest
} from '../../src/engine/pipeline/harness.ts'
import { metricsOperation } from '../../src/app/discovery/open.ts'
import { InternalUpstream } from '../../src/engine/pipeline/internal.ts'
import { merchant, testServices, type TestServices } from '../support/plugin-harness.ts'

async function build(options: HarnessOptions = {}) {
  const services = testServices()
  return { services, chain: await harness(metrics, { services, route: { name: 'quotes' }, ...options }) }
}

/** The value of one sample; undefined when it is not there. */
async function sample(services: TestServices, name: string) {
  const line = (await services.metrics.render()).split('\n').find(text => text.startsWith(`${name} `))
  return line === undefined ? undefined : Number(line.slice(name.length + 1))
}

t.test('requests are counted by route, method and class of status', async t => {
  const { chain, services } = await build({ answer: ctx => ({ status: Number(ctx.query), headers: [], body: null }) })
  for (const status of [200, 201, 404, 402, 503]) await chain.run({ target: `/a/${status}?${status}` })
  await chain.run({ method: 'POST', target: '/?200' })
  t.equal(await sample(services, 'boltgate_requests_total{route="quotes",method="GET",status="2xx"}'), 2)
  t.equal(await sample(services, 'boltgate_requests_total{route="quotes",method="GET",status="4xx"}'), 2)
  t.equal(await sample(services, 'boltgate_requests_total{route="quotes",method="GET",status="5xx"}'), 1)
  t.equal(await sample(services, 'boltgate_requests_total{route="quotes",method="POST",status="2xx"}'), 1)
  t.equal(await sample(services, 'boltgate_request_duration_seconds_count{route="quotes"}'), 6)
})

t.test('nothing that a client sends becomes a label', async t => {
  const { chain, services } = await build()
  for (let i = 0; i < 50; i++)
    await chain.run({ method: `M${i}`, target: `/path-${i}?q=${i}`, headers: { 'X-Name': `h${i}` }, host: `host-${i}` })
  const text = await services.metrics.render()
  t.equal(text.split('\n').filter(line => line.startsWith('boltgate_requests_total{')).length, 1)
  t.equal(await sample(services, 'boltgate_requests_total{route="quotes",method="other",status="2xx"}'), 50)
  t.notMatch(text, /path-|host-|M1/)
})

t.test('requests in flight are counted up and down in every ending', async t => {
  const name = 'boltgate_requests_in_flight{route="quotes"}'
  const { chain, services } = await build({
    answer: ctx => {
      if (ctx.path === '/fault') throw new Error('boom')
    }
  })
  const first = chain.begin()
  const second = chain.begin()
  t.equal(await sample(services, name), 2)
  first.leave()
  await first.result
  t.equal(await sample(services, name), 1)
  second.leave()
  await second.result
  await chain.run({ target: '/fault' })
  t.equal(await sample(services, name), 0)
  t.equal(await sample(services, 'boltgate_requests_unfinished_total{route="quotes"}'), 2)
})

t.test("the upstream's latency is that from forwarding to its head, and only upstream answers have one", async t => {
  const services = testServices()
  const answer: HarnessAnswer = (ctx, responder) => {
    if (ctx.path === '/own') return { status: 200, headers: [], body: null }
    services.clock.advance(100)
    responder.forwarding({ method: 'GET', path: '/', headers: new HeaderList() })
    services.clock.advance(1500)
    void responder.head(200, new HeaderList())
    responder.end(null)
  }
  const chain = await harness(metrics, { services, route: { name: 'quotes' }, answer })
  await chain.run()
  await chain.run({ target: '/own' })
  t.equal(await sample(services, 'boltgate_upstream_duration_seconds_count{route="quotes"}'), 1)
  t.equal(await sample(services, 'boltgate_upstream_duration_seconds_sum{route="quotes"}'), 1.5)
  t.equal(await sample(services, 'boltgate_request_duration_seconds_sum{route="quotes"}'), 1.6)
})

t.test('bytes are counted in both directions', async t => {
  const { chain, services } = await build({ answer: { body: ['12345', '678'], readsBody: true } })
  await chain.run({ method: 'POST', body: '1234' })
  t.equal(await sample(services, 'boltgate_request_bytes_total{route="quotes"}'), 4)
  t.equal(await sample(services, 'boltgate_response_bytes_total{route="quotes"}'), 8)
})

t.test('a second generation of the configuration keeps counting', async t => {
  const services = testServices()
  for (let generation = 0; generation < 2; generation++)
    await (await harness(metrics, { services, route: { name: 'quotes' } })).run()
  t.equal(await sample(services, 'boltgate_requests_total{route="quotes",method="GET",status="2xx"}'), 2)
})

t.test('/metrics: answers the admin key, and outside production callers on the same machine', async t => {
  const services = testServices()
  services.metrics.counter('boltgate_probe_total', 'For this test.').inc(7)
  const serving = async (isProduction: boolean) => {
    const internal = new InternalUpstream([metricsOperation(services.metrics, isProduction)])
    const chain = await harness([], { services, answer: ctx => internal.handle(ctx) })
    return (request: HarnessRequest) => chain.run({ target: '/metrics', ...request })
  }
  const [here, there] = [{ peerAddress: '127.0.0.1' }, { peerAddress: '198.51.100.1' }]
  const principal = { kind: 'admin', id: 'admin' } as const
  const rows: ReadonlyArray<readonly [status: number, request: HarnessRequest, why?: string]> = [
    [200, here],
    [200, { peerAddress: '::1' }],
    [200, { peerAddress: '::ffff:127.0.0.1' }],
    [200, { ...there, principal }],
    [403, there],
    [403, { ...there, clientAddress: '127.0.0.1' }, "a header's claim does not count"],
    [403, { ...here, headers: { 'X-Forwarded-For': '198.51.100.1' } }, 'a proxy on the machine is not its user'],
    [403, { ...there, principal: merchant('1') }]
  ]
  const ask = await serving(false)
  for (const [status, request, why = ''] of rows) {
    const result = await ask(request)
    t.equal(result.status, status, why)
    t.equal(/^boltgate_probe_total 7$/m.test(result.text), status === 200)
  }
  const served = await serving(true)
  t.equal((await served(here)).status, 403, 'in production it may be a proxy')
  const rendered = t.capture(services.metrics, 'render', services.metrics.render.bind(services.metrics))
  for (const { status, headers } of await Promise.all([1, 2, 3].map(() => served({ principal })))) {
    t.equal(status, 200)
    t.match(headers.get('content-type'), /^text\/plain; version=/)
  }
  t.equal(rendered().length, 1, 'scrapes at the same time share one rendering')
})
