import { createServer, type IncomingMessage } from 'node:http'
import t, { type Test as T } from 'tap'
import { ManualClock } from '../../support/manual-clock.ts'
import { eachDatabase } from '../../support/database.ts'
import { buy, challengeOf, defaultYaml, startGateway, type TestGateway } from '../../support/gateway.ts'
import { serve } from '../../support/serve.ts'

async function startUpstream(t: T) {
  const seen: IncomingMessage[] = []
  const server = createServer((req, res) => {
    seen.push(req)
    res.end(`${req.method} ${req.url}`)
  })
  return { url: `http://127.0.0.1:${await serve(t, server)}`, seen }
}

async function createProxy(gateway: TestGateway, members: object) {
  const answer = await gateway.merchantSend('POST', '/api/proxy', { name: 'Test', defaultPriceSats: 10, ...members })
  if (answer.status !== 201) throw new Error(answer.text)
  return (answer.json() as { proxyId: string }).proxyId
}

const gateway = await startGateway(t)
const upstream = await startUpstream(t)

await eachDatabase(t, 'proxies: an id that is taken is replaced by another', async (t, database) => {
  const gateway = await startGateway(t, { database })
  // The first two ids of each proxy are taken.
  await database.sql`create sequence inserts`
  await database.sql`
    create function take_ids() returns trigger language plpgsql as $$ begin
      if nextval('inserts') % 3 <> 0 then raise unique_violation using constraint = 'proxies_pkey'; end if;
      return new;
    end $$`
  await database.sql`create trigger taken before insert on proxies for each row execute function take_ids()`
  const secret = { targetBaseUrl: 'https://api.example.com', authHeader: 'X-Key', authValue: 'secret' }
  const proxyId = await createProxy(gateway, secret)
  t.equal((await gateway.merchantSend('GET', `/api/proxy/${proxyId}`)).status, 200)
  await database.sql`alter sequence inserts restart with 1 increment by 3`
  const full = await gateway.merchantSend('POST', '/api/proxy', { name: 'x', defaultPriceSats: 1, ...secret })
  t.equal(full.status, 500, 'at some point it gives up')
})

t.test('create, list, get, update and delete answer as decision 89 says', async t => {
  await eachDatabase(t, 'the life of a proxy', async (t, database) => {
    const gateway = await startGateway(t, { database })
    const created = await gateway.merchantSend('POST', '/api/proxy', {
      name: 'Wetter & Mehr',
      targetBaseUrl: 'https://api.example.com/v1/',
      defaultPriceSats: 3,
      description: 'd',
      unknownMember: 1,
      endpoints: [{ method: 'POST', pathPattern: '/a/*', priceSats: 7, description: 'x' }],
      authHeader: 'X-Key',
      authValue: 'secret'
    })
    t.equal(created.status, 201)
    const proxy = created.json() as Record<string, unknown>
    t.match(proxy, {
      proxyId: /^wetter-mehr-[0-9a-f]{8}$/,
      name: 'Wetter & Mehr',
      description: 'd',
      targetBaseUrl: 'https://api.example.com/v1',
      defaultPriceSats: 3,
      endpoints: [
        {
          method: 'POST',
          pathPattern: '/a/*',
          priceSats: 7,
          description: 'x',
          tokenPath: 'exact',
          tokenValiditySeconds: null
        }
      ],
      tokenValiditySeconds: 3600,
      timeout: 30,
      renewal: 'default',
      priceGrace: 0,
      allowedMethods: [],
      allowedPaths: [],
      blockedPaths: [],
      authHeader: 'X-Key',
      hasAuthValue: true,
      isActive: true,
      isListed: false,
      examples: [],
      createdAt: /Z$/,
      updatedAt: /Z$/
    })
    t.equal(proxy['proxyUrl'], `${gateway.url}/l402/proxy/${String(proxy['proxyId'])}/`)
    t.equal(created.headers['location'], `/api/proxy/${String(proxy['proxyId'])}`)
    t.notOk('authValue' in proxy, 'authValue is write-only')
    const path = `/api/proxy/${String(proxy['proxyId'])}`
    t.same((await gateway.merchantSend('GET', path)).json(), proxy)
    t.same((await gateway.merchantSend('GET', '/api/proxy')).json(), [proxy])
    const elsewhere = { targetBaseUrl: 'https://elsewhere.example.org/v1' }
    const moved = await gateway.merchantSend('PUT', path, elsewhere)
    t.equal(moved.status, 400, 'a saved secret goes to no other host')
    t.match(moved.text, /authValue: The address has another host/)
    t.equal((await gateway.merchantSend('PUT', path, { ...elsewhere, authValue: 'new' })).status, 200)
    const changed = await gateway.merchantSend('PUT', path, { defaultPriceSats: 4, authValue: '' })
    t.equal(changed.status, 200)
    t.match(changed.json(), { defaultPriceSats: 4, hasAuthValue: false, name: 'Wetter & Mehr' })
    t.equal((await gateway.merchantSend('DELETE', path)).status, 204)
    for (const [method, body] of [
      ['GET', undefined],
      ['PUT', {}],
      ['DELETE', undefined]
    ] as const) {
      t.equal((await gateway.merchantSend(method, path, body)).status, 404, `${method} after the deletion`)
    }
    t.same((await gateway.merchantSend('GET', '/api/proxy')).json(), [])
  })
})

t.test('an invalid proxy is refused, and the response names the fault', async t => {
  const good = { name: 'x', targetBaseUrl: 'https://api.example.com', defaultPriceSats: 1 }
  const fields: Array<[body: object, field: string]> = [
    [{ ...good, defaultPriceSats: 1_000_000_001 }, 'DefaultPriceSats'],
    [{ ...good, timeout: 31 }, 'Timeout'],
    [{ ...good, endpoints: [{ pathPattern: 'a', priceSats: 1 }] }, 'Endpoints[0].PathPattern'],
    [{ ...good, authHeader: 'Bad Header' }, 'AuthHeader'],
    [{ ...good, authHeader: 'Host', authValue: 'x' }, 'AuthHeader'],
    [{ ...good, authHeader: 'X-A', authValue: 'a\r\nb' }, 'AuthValue']
  ]
  for (const [body, field] of fields) {
    const answer = await gateway.merchantSend('POST', '/api/proxy', body)
    t.equal(answer.status, 400, JSON.stringify(body))
    t.ok((answer.json() as { errors?: object }).errors?.hasOwnProperty(field), `${field}: ${answer.text}`)
  }
  for (const targetBaseUrl of [
    'http://api.example.com',
    'https://10.0.0.1',
    'https://metadata.google.internal',
    'https://api.example.com:22',
    'https://api.example.com/?x=1',
    'not an address'
  ]) {
    const answer = await gateway.merchantSend('POST', '/api/proxy', { ...good, targetBaseUrl })
    t.equal(answer.status, 400, targetBaseUrl)
    t.match(answer.json(), { error: /^targetBaseUrl: / }, targetBaseUrl)
  }
  const twice = [1, 2].map(priceSats => ({ pathPattern: '/a', priceSats }))
  for (const [members, what] of [
    [{ authValue: 'x' }, 'a value without its header'],
    [{ endpoints: twice }, 'two prices for one thing']
  ] as const)
    t.equal((await gateway.merchantSend('POST', '/api/proxy', { ...good, ...members })).status, 400, what)
})

t.test('a request costs what the proxy says now: a changed price applies immediately in this process', async t => {
  const proxyId = await createProxy(gateway, { targetBaseUrl: upstream.url })
  const path = `/l402/proxy/${proxyId}/x`
  const credential = await buy(gateway, path)
  t.equal((await gateway.send('GET', path, { headers: { authorization: credential } })).status, 200)
  t.equal((await gateway.merchantSend('PUT', `/api/proxy/${proxyId}`, { defaultPriceSats: 20 })).status, 200)
  let unpaid = await gateway.send('GET', path)
  for (let tries = 0; tries < 50 && challengeOf(unpaid, 'payment').parameters.get('amount') !== '20'; tries++)
    unpaid = await gateway.send('GET', path)
  t.equal(challengeOf(unpaid, 'payment').parameters.get('amount'), '20')
  t.equal(
    (await gateway.send('GET', path, { headers: { authorization: credential } })).status,
    401,
    'a token for the old price is 401 (decision 111)'
  )
})

t.test('paths and methods that a proxy does not serve are refused before any charge (decision 94)', async t => {
  const upstream = await startUpstream(t)
  const proxyId = await createProxy(gateway, {
    targetBaseUrl: upstream.url,
    allowedMethods: ['GET', 'POST'],
    allowedPaths: ['/v1/*'],
    blockedPaths: ['/v1/admin/*']
  })
  for (const path of ['/v2/x', '/v1/admin/x', '/v1/%61dmin/x', '/v1']) {
    const answer = await gateway.send('GET', `/l402/proxy/${proxyId}${path}`)
    t.equal(answer.status, 403, path)
    t.match(answer.json(), { error: 'Path not allowed', message: String, proxy_id: proxyId })
  }
  const method = await gateway.send('DELETE', `/l402/proxy/${proxyId}/v1/x`)
  t.equal(method.status, 405)
  t.equal(method.headers['allow'], 'GET, HEAD, POST', 'HEAD goes with GET')
  t.match(method.json(), { error: 'Method not allowed', proxy_id: proxyId })
  t.equal((await gateway.send('HEAD', `/l402/proxy/${proxyId}/v1/x`)).status, 402, 'HEAD works for every GET')
  t.equal(upstream.seen.length, 0)
})

t.test('unknown, inactive and deleted proxies and those of an inactive merchant are 404 (decision 93)', async t => {
  const proxyId = await createProxy(gateway, { targetBaseUrl: upstream.url })
  const path = `/l402/proxy/${proxyId}/x`
  const credential = await buy(gateway, path)
  await gateway.merchantSend('PUT', `/api/proxy/${proxyId}`, { isActive: false })
  const until = async (status: number) => {
    let answer = await gateway.send('GET', path, { headers: { authorization: credential } })
    for (let tries = 0; tries < 100 && answer.status !== status; tries++)
      answer = await gateway.send('GET', path, { headers: { authorization: credential } })
    t.equal(answer.status, status)
    if (status === 404) t.match(answer.json(), { error: 'Proxy not found', message: String })
  }
  await until(404)
  await gateway.merchantSend('PUT', `/api/proxy/${proxyId}`, { isActive: true })
  await until(200)
  await gateway.merchantSend('DELETE', `/api/proxy/${proxyId}`)
  await until(404)
})

t.test(
  'a merchant that may not sell makes no new challenge, and what was paid is still served (decision 93)',
  async t => {
    const clock = new ManualClock(Date.now())
    const upstream = await startUpstream(t)
    const gateway = await startGateway(t, { clock })
    const proxyId = await createProxy(gateway, {
      targetBaseUrl: upstream.url,
      endpoints: [{ pathPattern: '/free', priceSats: 0 }]
    })
    const path = `/l402/proxy/${proxyId}/x`
    const credential = await buy(gateway, path)
    await gateway.database.sql`update merchants set l402_enabled = false where id = ${gateway.merchant.id}`
    clock.advance(4_500)
    let unpaid = await gateway.send('GET', path)
    for (let tries = 0; tries < 100 && unpaid.status === 402; tries++) unpaid = await gateway.send('GET', path)
    t.equal(unpaid.status, 503)
    t.match(unpaid.json(), { error: 'Proxy unavailable', message: String, proxy_id: proxyId })
    t.ok(unpaid.headers['retry-after'])
    t.equal((await gateway.send('GET', path, { headers: { authorization: credential } })).status, 200)
    t.equal((await gateway.send('GET', `/l402/proxy/${proxyId}/free`)).status, 503)
  }
)

t.test(
  'plan caps: endpoints and price of the free plan are 402 problems without a challenge (decisions 87 and 102)',
  async t => {
    const gateway = await startGateway(t)
    await gateway.database.sql`update merchants set plan_tier = 'free' where id = ${gateway.merchant.id}`
    const make = (defaultPriceSats: number) =>
      gateway.merchantSend('POST', '/api/proxy', {
        name: 'n',
        targetBaseUrl: 'https://api.example.com',
        defaultPriceSats
      })
    const dear = await make(1001)
    t.equal(dear.status, 402)
    t.match(dear.json(), {
      type: `${gateway.url}/problems/plan-price-limit`,
      limit: 1000,
      requested: 1001,
      current_plan: 'free',
      required_plan: 'individual',
      action_required: 'upgrade_plan',
      error: String
    })
    t.equal(dear.headers['www-authenticate'], undefined)
    const created = await Promise.all(Array.from({ length: 8 }, () => make(1)))
    t.equal(created.filter(answer => answer.status === 201).length, 3, 'eight concurrent ones: three get a place')
    const over = created.find(answer => answer.status === 402)
    t.match(over?.json(), { type: /plan-endpoint-limit$/, limit: 3, current: 3, requested: 1 })
  }
)

t.test('the test operation says whether the target answers, 200 either way (decision 90)', async t => {
  const upstream = await startUpstream(t)
  const good = await createProxy(gateway, { targetBaseUrl: upstream.url, authHeader: 'X-Key', authValue: 'v4lue' })
  const reached = await gateway.merchantSend('POST', `/api/proxy/${good}/test`)
  t.equal(reached.status, 200)
  t.match(reached.json(), { success: true, statusCode: 200, latencyMs: Number, message: String })
  t.equal(upstream.seen[0]?.headers['x-key'], 'v4lue')
  // A closed port of this machine.
  const bad = await createProxy(gateway, { targetBaseUrl: 'http://127.0.0.1:9999' })
  const unreached = await gateway.merchantSend('POST', `/api/proxy/${bad}/test`)
  t.equal(unreached.status, 200)
  t.match(unreached.json(), { success: false, statusCode: null, latencyMs: Number, message: /could not be reached/ })
})

t.test(
  'a reload gives new proxies the new default validity, and the documents the new name of the service',
  async t => {
    const gateway = await startGateway(t)
    const validity = async () => {
      const answer = await gateway.merchantSend('POST', '/api/proxy', {
        name: 'x',
        targetBaseUrl: 'https://api.example.com',
        defaultPriceSats: 1
      })
      return (answer.json() as { tokenValiditySeconds: number }).tokenValiditySeconds
    }
    t.equal(await validity(), 3600)
    await gateway.reload(`${defaultYaml()}\npayment: { tokenValidity: 2h, serviceName: renamed }\n`)
    t.equal(await validity(), 7200)
    t.match((await gateway.send('GET', '/llms.txt')).text, /^# renamed\n/)
    t.match((await gateway.send('GET', '/openapi.json')).json(), { info: { title: 'renamed' } })
  }
)
