import { createServer } from 'node:http'
import t, { type Test as T } from 'tap'
import { buy, loadText, startGateway } from '../../support/gateway.ts'
import { serve } from '../../support/serve.ts'

async function shop(t: T, more = '') {
  const upstream = await serve(
    t,
    createServer((_request, response) => response.end('served'))
  )
  return startGateway(t, {
    yaml: `use: [ service, sandbox ]
upstreams:
  served: { url: "http://127.0.0.1:${upstream}" }
routes:
  - { match: { path: /one/* }, service: service1, price: 5 sats, chain: paid, upstream: served }
  - { match: { path: /also }, service: service1, price: 5 sats, chain: paid, upstream: served }
  - { match: { path: /quiet }, service: service1, price: 5 sats, invoices: false, chain: paid, upstream: served }
  - { match: { path: /dear }, service: service1, price: 7 sats, chain: paid, upstream: served }
  - { match: { path: /other }, service: service2, price: 5 sats, chain: paid, upstream: served }
${more}`
  })
}

t.test('service: one token is valid on all of its routes with the same price, and on no other', async t => {
  const gateway = await shop(t)
  const authorization = await buy(gateway, '/one/a')
  const status = async (path: string) => (await gateway.send('GET', path, { headers: { authorization } })).status
  t.equal(await status('/one/b/c'), 200)
  t.equal(await status('/also'), 200)
  t.equal(await status('/quiet'), 200)
  t.equal(await status('/dear'), 401)
  t.equal(await status('/other'), 401)
})

t.test('invoices: false answers 401 without an invoice', async t => {
  const gateway = await shop(t)
  const answer = await gateway.send('GET', '/quiet')
  t.equal(answer.status, 401)
  t.match(answer.json(), { error: 'Unauthorized', message: /buy it on another path/ })
  const [{ count } = { count: -1 }] = await gateway.database.sql<{ count: number }[]>`
    select count(*)::int as count from challenges`
  t.equal(count, 0)
})

t.test('invoices: false says what is wrong with a credential, and sells keys at their own address', async t => {
  const gateway = await shop(
    t,
    `  - match: { path: /v1/* }
    invoices: false
    renewal: 402
    keys: true
    meter: { bundle: 1 sat, prices: 600 msat, usage: requests }
    chain: paid
    upstream: served
`
  )
  t.equal((await gateway.send('GET', '/v1/a')).status, 401)
  const authorization = await buy(gateway, '/l402/keys', 'l402', { method: 'POST' })
  const status = async (path: string) => await gateway.send('GET', path, { headers: { authorization } })
  t.equal((await status('/v1/a')).status, 200)
  const over = await status('/v1/a')
  t.equal(over.status, 401)
  t.match(over.json(), { error: 'Unauthorized', detail: /used up: 400 millisatoshis are left/ })
  t.equal(over.headers['x-balance-msat'], '400')
  const other = await gateway.send('GET', '/v1/a', { headers: { authorization: await buy(gateway, '/one/a') } })
  t.equal(other.status, 401)
  t.match(other.headers['x-l402-error'], /not valid for this service/)
})

t.test('service: all routes with keys are of one service, as a key pays on all of them', async t => {
  const route = (path: string, service: string): string =>
    `  - { match: { path: ${path} }, ${service}keys: true, meter: { bundle: 1 sat, prices: 1 msat, usage: requests }, chain: paid, upstream: { url: "http://127.0.0.1:1" } }\n`
  const yaml = (one: string, other: string): string =>
    `use: [ service, sandbox ]\nroutes:\n${route('/a', one)}${route('/b', other)}`
  await t.resolves(loadText(yaml('service: x, ', 'service: x, '), {}))
  await t.resolves(loadText(yaml('', ''), {}))
  await t.rejects(loadText(yaml('service: x, ', ''), {}), /routes\[1\]\.keys: found keys beside another service/)
  await t.rejects(loadText(yaml('', 'service: x, '), {}), /routes\[1\]\.keys: found keys beside another service/)
})
