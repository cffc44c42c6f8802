import t, { type Test as T } from 'tap'
import { InternalUpstream } from '../../src/engine/pipeline/internal.ts'
import { harness } from '../../src/engine/pipeline/harness.ts'
import { healthOperations } from '../../src/app/discovery/health.ts'
import type { Database, Health } from '../../src/platform/database/database.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { defaultYaml, startGateway, type Answer } from '../support/gateway.ts'

/** Policies by name; those not named are out of the way. */
function policies(limits: Readonly<Record<string, number>>) {
  return ['global', 'read', 'write', 'l402-proxy']
    .map(
      name =>
        `  ${name}: { limit: ${limits[name] ?? 100000}, window: 1m${name === 'l402-proxy' ? ', by: address' : ''} }`
    )
    .join('\n')
}

const behindProxy = ['  publicUrl:', '  trustedProxies: [ 127.0.0.1 ]\n  publicUrl:'] as const

async function setting(t: T, limits: Readonly<Record<string, number>> = {}) {
  const clock = new ManualClock()
  return {
    clock,
    gateway: await startGateway(t, { clock, yaml: defaultYaml({ policies: policies(limits), replace: [behindProxy] }) })
  }
}

function from(address: string, key?: string) {
  return { headers: { 'x-forwarded-for': address, ...(key === undefined ? {} : { 'x-api-key': key }) } }
}

function retryAfter(answer: Answer) {
  return Number(answer.headers['retry-after'])
}

t.test(
  'more than 20 failures from one address block its authenticated requests (contract, Authentication 6; decisions 27 and 28)',
  async t => {
    const { gateway, clock } = await setting(t)
    const { apiKey } = gateway.merchant
    for (let failure = 1; failure <= 21; failure++) {
      const missing = failure % 2 === 0
      const answer = await gateway.send('GET', '/api/proxy', from('192.0.2.1', missing ? undefined : 'nonsense'))
      t.equal(answer.status, 401, `failure ${failure}`)
      t.match(answer.json(), { error: missing ? 'API key required' : 'Invalid API key', message: String })
      clock.advance(1000)
    }
    const blocked = await gateway.send('GET', '/api/proxy', from('192.0.2.1', apiKey))
    t.equal(blocked.status, 429, 'even with a right key')
    t.same(Object.keys(blocked.json() as object), ['error', 'message'])
    t.match(blocked.json(), {
      error: 'Too many failed authentication attempts',
      message: /came from this address\. Try again in 39 seconds\.$/
    })
    t.equal(retryAfter(blocked), 39, 'until 60 s after the first failure')
    for (const [method, path] of [
      ['POST', '/api/l402/challenges/verify'],
      ['GET', '/api/l402/challenges'],
      ['DELETE', '/api/proxy/x']
    ] as const) {
      t.equal((await gateway.send(method, path, from('192.0.2.1', apiKey))).status, 429, `every key route: ${path}`)
    }
    t.equal(
      (await gateway.send('GET', '/metrics', from('192.0.2.1', gateway.adminKey))).status,
      429,
      'admin routes as well'
    )
    for (const path of ['/health', '/api/l402/pricing', '/ready'])
      t.equal((await gateway.send('GET', path, from('192.0.2.1'))).status, 200, `public routes continue: ${path}`)
    t.equal(
      (await gateway.send('GET', '/api/proxy', from('192.0.2.2', apiKey))).status,
      200,
      'another address is another'
    )
    clock.advance(38_999)
    t.equal((await gateway.send('GET', '/api/proxy', from('192.0.2.1', apiKey))).status, 429)
    clock.advance(1)
    t.equal((await gateway.send('GET', '/api/proxy', from('192.0.2.1', apiKey))).status, 200, 'the window has ended')
  }
)

t.test('an IPv6 client is its /64 (decision 32), and verdicts on payment do not count (decision 28)', async t => {
  const { gateway } = await setting(t)
  for (let failure = 1; failure <= 21; failure++)
    await gateway.send('GET', '/api/proxy', from(`2001:db8::${failure}`, 'nonsense'))
  t.equal((await gateway.send('GET', '/api/proxy', from('2001:db8::ffff', gateway.merchant.apiKey))).status, 429)
  t.equal((await gateway.send('GET', '/api/proxy', from('2001:db8:0:1::1', gateway.merchant.apiKey))).status, 200)
  for (let i = 0; i < 25; i++)
    await gateway.send('GET', '/l402/test/ping', {
      headers: { 'x-forwarded-for': '192.0.2.9', authorization: `L402 AAAA:${'0'.repeat(64)}` }
    })
  t.equal((await gateway.send('GET', '/api/proxy', from('192.0.2.9'))).status, 401)
})

t.test(
  "keys of one role are nothing on the other's routes (decision 29), and a deactivated account's key is an invalid one",
  async t => {
    const { gateway } = await setting(t)
    const wrong = await gateway.send('GET', '/api/proxy', from('192.0.2.1', 'nonsense'))
    const same = (answer: Answer, row: string) => {
      t.equal(answer.status, 401, row)
      t.equal(answer.text, wrong.text, row)
    }
    same(
      await gateway.send('GET', '/api/proxy', from('192.0.2.1', gateway.adminKey)),
      "the admin key at a merchant's route"
    )
    same(
      await gateway.send('GET', '/metrics', from('192.0.2.1', gateway.merchant.apiKey)),
      "a merchant's key at the admin's"
    )
    await gateway.database.sql`update merchants set is_active = false where id = ${gateway.merchant.id}`
    same(await gateway.send('GET', '/api/proxy', from('192.0.2.1', gateway.merchant.apiKey)), 'deactivated')
  }
)

t.test('refusals come in the order of decision 35', async t => {
  const { gateway, clock } = await setting(t, { write: 3 })
  const { apiKey } = gateway.merchant
  const invalid = { 'content-type': 'application/json' }
  const post = (headers: Record<string, string>, body: string) =>
    gateway.send('POST', '/api/proxy', { headers: { ...invalid, ...headers }, body })
  const large = ' '.repeat(1_048_577)
  t.equal((await post({}, large)).status, 413, '413 before 401')
  t.same(Object.keys((await post({}, large)).json() as object), ['error', 'message'])
  const plain = (status: string, flag: boolean) =>
    gateway.database
      .sql`update merchants set subscription_status = ${status}, l402_enabled = ${flag} where id = ${gateway.merchant.id}`
  await plain('past_due', false)
  const lapsed = await post({ 'x-api-key': apiKey }, '{')
  t.equal(lapsed.status, 403, 'subscription 403 before validation 400')
  t.match(lapsed.json(), {
    error: 'Subscription not active',
    action_required: 'update_payment_method',
    subscription_status: 'past_due',
    current_plan: 'individual'
  })
  await plain('active', false)
  const feature = await post({ 'x-api-key': apiKey }, '{')
  t.equal(feature.status, 403, 'then the feature')
  t.match(feature.json(), {
    error: 'Feature not available',
    feature: 'l402',
    required_plan: 'individual',
    current_plan: 'individual',
    action_required: 'upgrade_plan'
  })
  await plain('active', true)
  t.equal((await post({ 'x-api-key': apiKey }, '{')).status, 400, 'then validation')
  await plain('past_due', false)
  const throttled = await post({ 'x-api-key': apiKey }, '{')
  t.equal(throttled.status, 429, 'policy 429 before 403')
  const body = throttled.json() as Record<string, unknown>
  t.same(Object.keys(body), ['error', 'message', 'retryAfter'])
  t.equal(body['error'], 'Too many requests')
  t.equal(body['retryAfter'], retryAfter(throttled))
  t.equal((await post({ 'x-api-key': 'nonsense' }, '{')).status, 401, "401 before the policy's 429")
  t.equal((await post({}, '{')).status, 401)
  for (let i = 0; i < 19; i++) await post({}, '{')
  t.match(
    (await post({}, '{')).json(),
    { error: 'Too many failed authentication attempts' },
    "the failures' 429 before 401"
  )
  t.equal((await post({}, large)).status, 413, '413 before everything')
  clock.advance(60_000)
  t.equal((await post({ 'x-api-key': apiKey }, '{')).status, 403)
})

t.test("public and priced routes: the policy's 429, then 413, then the credential (decision 35)", async t => {
  const { gateway, clock } = await setting(t, { 'l402-proxy': 2 })
  const created = await gateway.merchantSend('POST', '/api/proxy', {
    name: 'a',
    targetBaseUrl: 'https://api.example.com',
    defaultPriceSats: 1
  })
  const { proxyId } = created.json() as { proxyId: string }
  const large = () =>
    gateway.send('POST', `/l402/proxy/${proxyId}/a`, {
      body: Buffer.alloc(1_048_577),
      headers: { authorization: 'L402 a:b' }
    })
  const first = await large()
  t.equal(first.status, 413, "413 before the credential's 400")
  t.match(first.json(), { error: String, message: String, proxy_id: proxyId })
  t.equal((await large()).status, 413)
  const throttled = await large()
  t.equal(throttled.status, 429, '429 before 413')
  t.match(throttled.json(), { error: 'Too many requests', retryAfter: Number })
  // What was left of the uploads is not read; the deadline ends their connections.
  clock.advance(60_000)
})

t.test('Global counts anonymous requests by address and keyed ones by account, and preflights not at all', async t => {
  const { gateway } = await setting(t, { global: 3 })
  const verify = (address: string) =>
    gateway.send('POST', '/api/l402/challenges/verify', { ...from(address, gateway.merchant.apiKey), body: '{}' })
  for (let i = 0; i < 3; i++) t.equal((await gateway.send('GET', '/health', from('192.0.2.1'))).status, 200)
  t.equal(
    (await gateway.send('GET', '/nothing', from('192.0.2.1'))).status,
    429,
    'all requests, also to what is not there'
  )
  t.equal((await gateway.send('GET', '/health', from('192.0.2.2'))).status, 200)
  t.equal(
    (
      await gateway.send('OPTIONS', '/health', {
        headers: { ...from('192.0.2.1').headers, origin: 'https://a.example', 'access-control-request-method': 'GET' }
      })
    ).status,
    204
  )
  for (let i = 0; i < 3; i++) t.not((await verify(`192.0.2.${10 + i}`)).status, 429)
  t.equal((await verify('192.0.2.20')).status, 429, 'one account from anywhere')
  for (let i = 0; i < 5; i++)
    t.equal(
      (await gateway.send('GET', '/ready', from('192.0.2.1'))).status,
      200,
      'probes are not throttled (decision 22)'
    )
})

t.test('the health report says how the database is (contract, Health; decision 22)', async t => {
  const clock = new ManualClock()
  const rows: ReadonlyArray<readonly [Health, number, object]> = [
    [
      { status: 'healthy', ms: 3.14159, error: null },
      200,
      { status: 'Healthy', duration: 3.142, description: null, exception: null }
    ],
    [
      { status: 'degraded', ms: 1500, error: null },
      200,
      { status: 'Degraded', duration: 1500, description: String, exception: null }
    ],
    [
      { status: 'unhealthy', ms: 3000, error: 'no answer' },
      503,
      { status: 'Unhealthy', duration: 3000, description: String, exception: 'no answer' }
    ]
  ]
  for (const [health, status, check] of rows) {
    const database = { health: () => Promise.resolve(health) } as unknown as Database // nothing else of it is asked
    const upstream = new InternalUpstream(healthOperations(database, clock, { ready: () => true }))
    const chain = await harness([], { answer: ctx => upstream.handle(ctx) })
    const report = await chain.run({ target: '/health' })
    t.equal(report.status, status, health.status)
    const body = JSON.parse(report.text) as { status: string; totalDuration: number; checks: object[] }
    t.same(Object.keys(body), ['status', 'totalDuration', 'checks'])
    t.equal(body.status, (check as { status: string }).status)
    t.match(body.checks, [{ name: 'database', tags: ['db', 'sql'], ...check }])
    t.ok(
      body.totalDuration >= (body.checks[0] as { duration: number }).duration,
      'the whole is no shorter than its check'
    )
    t.equal(report.headers.has('retry-after'), status === 503)
    const ready = await chain.run({ target: '/ready' })
    t.equal(ready.status, status, `ready while ${health.status}`)
    t.equal(ready.headers.has('retry-after'), status === 503)
  }
})
