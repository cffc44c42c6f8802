import { readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import t, { type Test as T } from 'tap'
import { PROXY_CHANNEL } from '../../../src/payments/proxies/store.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { buy, startGateway } from '../../support/gateway.ts'
import { openAnyDatabase, temporaryFolder } from '../../support/database.ts'
import { spawnGateway } from '../../support/gateway-process.ts'
import { countingUpstream } from '../../security/shop.ts'

const SUITE = ['shop', 'plans', 'web', 'payments']

/** Starts a gateway that writes down the modules it loads, each by its room. */
async function listedGateway(t: T, yaml: string) {
  const file = join(temporaryFolder(t), 'modules')
  const hook = `
    import { appendFileSync } from 'node:fs'
    import { registerHooks } from 'node:module'
    registerHooks({ load(url, context, next) { appendFileSync(${JSON.stringify(file)}, url + '\\n'); return next(url, context) } })`
  const gateway = await spawnGateway(t, {
    yaml: `data: \${BOLTGATE_DATA}\nserver: { listen: "127.0.0.1:0" }\n${yaml}`,
    nodeArgs: ['--import', `data:text/javascript,${encodeURIComponent(hook)}`],
    documented: false
  })
  return {
    gateway,
    rooms: () =>
      new Set(
        readFileSync(file, 'utf8')
          .split('\n')
          .flatMap(url => /\/src\/([a-z]+)\//.exec(url)?.[1] ?? [])
      )
  }
}

const routesOf = (origin: string) =>
  `lightning: { primary: { kind: sandbox } }\nroutes:\n  - { match: { path: /paid/* }, price: 10 sats, chain: paid, upstream: { url: "${origin}" } }\n`

t.test(
  'use: [service, sandbox] and a priced route: sells both schemes without a module of the merchant suite',
  async t => {
    const upstream = await countingUpstream(t)
    const { gateway, rooms } = await listedGateway(t, `use: [service, sandbox]\n${routesOf(upstream.origin)}`)
    const loaded = () => SUITE.filter(room => rooms().has(room))

    const first = await gateway.send('GET', '/paid/x')
    t.equal(first.status, 402)
    t.equal(first.headers['cache-control'], 'no-store')
    for (const scheme of ['l402', 'payment'] as const) {
      const authorization = await buy(gateway, '/paid/x', scheme)
      const paid = await gateway.send('GET', '/paid/x', { headers: { authorization } })
      t.equal(paid.status, 200, scheme)
      const again = await gateway.send('GET', '/paid/x', { headers: { authorization } })
      t.equal(
        again.status,
        scheme === 'l402' ? 200 : 402,
        `${scheme}: a classic token is reusable, a modern one is spent`
      )
    }
    t.equal((await gateway.send('GET', '/health')).status, 200)
    t.match((await gateway.send('GET', '/llms.txt')).text, '/paid/')
    t.equal((await gateway.send('GET', '/api/merchant/me')).status, 404)
    t.same(loaded(), [])
    for (const room of ['engine', 'platform', 'lightning', 'selling']) t.ok(rooms().has(room), room)

    const page = await gateway.send('GET', '/paid/x', { headers: { accept: 'text/html' } })
    t.equal(page.status, 402)
    t.match(page.headers['content-type'], 'text/html')
    t.same(loaded(), ['web'], 'the page loads when a browser asks for it')
  }
)

t.test('a route to an operation of the suite loads it', async t => {
  const { gateway, rooms } = await listedGateway(
    t,
    'use: [service]\nlightning: { primary: { kind: sandbox } }\nroutes:\n  - { match: { path: /api/payments }, chain: own, upstream: { internal: api } }\nchains:\n  own: [ correlation, { throttle: { policy: read } }, { auth: { as: merchant } } ]\n'
  )
  t.equal((await gateway.send('GET', '/api/payments')).status, 401)
  t.same(SUITE.filter(room => rooms().has(room)).sort(), [...SUITE].sort())
})

t.test('a plugin of a file that uses a service of the suite loads it, and is given that service', async t => {
  const folder = temporaryFolder(t)
  const given = { proxies: 'typeof services.proxies', sessions: "services.sessions.goneCookie.split('=')[0]" }
  for (const [uses, body] of Object.entries(given)) {
    writeFileSync(
      join(folder, `${uses}.mjs`),
      `import { definePlugin, Type } from 'boltgate'
      export default definePlugin({
        name: 'own', description: 'Of the test', config: Type.Object({}), uses: ['${uses}'],
        setup: (_config, { services }) => ({ request: () => ({ status: 200, headers: [], body: ${body} }) })
      })`
    )
    const { gateway } = await listedGateway(
      t,
      `use: [service]\nchains: { own: [ correlation, { ../${basename(folder)}/${uses}.mjs: {} } ] }\nroutes:\n  - { match: { path: /own }, chain: own, upstream: { url: "http://127.0.0.1:9" } }\n`
    )
    t.equal((await gateway.send('GET', '/own')).text, uses === 'proxies' ? 'object' : 'boltgate-session', uses)
  }
})

t.test('a reload that needs the suite opens it, and its operations, services and jobs work', async t => {
  const { gateway, rooms } = await listedGateway(t, routesOf('http://127.0.0.1:9'))
  t.equal((await gateway.send('GET', '/api/payments')).status, 404)
  t.same(
    SUITE.filter(room => rooms().has(room)),
    []
  )
  writeFileSync(
    gateway.file,
    `data: ${gateway.data}\nserver: { listen: "127.0.0.1:0" }\nuse: [service, sandbox, merchant-api]\n${routesOf('http://127.0.0.1:9')}`
  )
  await gateway.line(line => line['msg'] === 'the configuration was reloaded')
  t.equal((await gateway.merchantSend('GET', '/api/payments')).status, 200)
  const created = await gateway.merchantSend('POST', '/api/payments', { orderId: 'a', amount: 5, currency: 'USD' })
  t.equal(created.status, 201, created.text)
})

t.test('a reload that opens the suite without the database is repeated by the next one', async t => {
  const database = await openAnyDatabase(t)
  const listened: string[] = []
  let isAway = false
  const listen = database.listen.bind(database)
  t.intercept(database, 'listen', {
    value: async (...[channel, heard]: Parameters<Database['listen']>) => {
      if (isAway) throw new Error('the database is down')
      listened.push(channel)
      return await listen(channel, heard)
    }
  })
  const gateway = await startGateway(t, { yaml: 'use: [service]\n', database, documented: false })
  t.notOk(listened.includes(PROXY_CHANNEL))
  isAway = true
  await t.rejects(gateway.reload('use: [service, merchant-api]\n'), /the database is down/)
  isAway = false
  await gateway.reload('use: [service, merchant-api]\n')
  t.ok(listened.includes(PROXY_CHANNEL))
  t.equal((await gateway.send('GET', '/api/payments')).status, 401)
})

t.test('reloads that open the suite together open it once', async t => {
  const gateway = await startGateway(t, { yaml: 'use: [service]\n', documented: false })
  await Promise.all([1, 2].map(() => gateway.reload('use: [service, merchant-api]\n')))
  t.equal((await gateway.send('GET', '/api/payments')).status, 401)
})
