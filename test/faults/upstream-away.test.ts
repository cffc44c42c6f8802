/** An upstream that keeps failing is left alone before a client pays for it. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test as T } from 'tap'
import { openShop, shopYaml } from '../security/shop.ts'
import { buy } from '../support/gateway.ts'
import { ManualClock } from '../support/manual-clock.ts'

/** An upstream that can be down, at one address. */
async function comingAndGoing(t: T) {
  let server: Server | null = null
  let port = 0
  const come = async () => {
    const next = createServer((_req, res) => {
      res.end('sold')
    })
    await new Promise<void>(resolve => {
      next.listen(port, '127.0.0.1', resolve)
    })
    port = (next.address() as AddressInfo).port // a server on TCP has an address object
    server = next
  }
  const go = async () => {
    server?.closeAllConnections()
    await new Promise(resolve => server?.close(resolve))
    server = null
  }
  await come()
  t.teardown(() => {
    server?.closeAllConnections()
    server?.close()
  })
  return { origin: `http://127.0.0.1:${port}`, come, go }
}

for (const where of ['a route', "a merchant's proxy"] as const)
  t.test(`${where} whose upstream keeps failing is 503 before the 402, and nothing is used up`, async t => {
    const clock = new ManualClock()
    const upstream = await comingAndGoing(t)
    const free = `  - match: { path: /free/* }\n    chain: paid\n    price: 0\n    upstream: { url: "${upstream.origin}" }\n`
    const { gateway, proxy } = await openShop(t, { yaml: shopYaml(upstream.origin, { route: free }), clock })
    const path = where === 'a route' ? '/paid/item' : `${(await proxy({ targetBaseUrl: upstream.origin })).path}/item`
    const modern = await buy(gateway, path, 'payment')
    const classic = await buy(gateway, path)
    const ask = (authorization?: string) =>
      gateway.send('GET', path, authorization === undefined ? {} : { headers: { authorization } })
    const invoices = async () => (await gateway.database.sql`select 1 from challenges`).length
    await upstream.go()
    for (let failure = 0; failure < 5; failure++) {
      const answer = await ask(failure % 2 === 0 ? modern : classic)
      t.equal(answer.status, 502)
      t.match(answer.json(), { error: 'Bad gateway', message: /payment is still good/ })
    }
    const made = await invoices()
    for (const authorization of [undefined, modern, classic, 'L402 AgE=:00', 'Payment abc']) {
      const answer = await ask(authorization)
      t.equal(answer.status, 503, authorization ?? 'without a credential')
      t.equal(answer.headers['retry-after'], '5')
      t.equal(answer.headers['www-authenticate'], undefined)
    }
    t.equal(await invoices(), made, 'no invoice was made')
    if (where === 'a route') t.equal((await gateway.send('GET', '/free/item')).status, 502, 'a route of its own')
    clock.advance(5_000)
    t.equal((await ask()).status, 402, 'one buyer may try')
    t.equal((await ask()).status, 503)
    t.equal((await ask(modern)).status, 502, 'a payer tries the upstream')
    t.equal((await ask(classic)).headers['retry-after'], '10')
    await upstream.come()
    clock.advance(10_000)
    t.equal((await ask(modern)).text, 'sold', 'the payment was not used up')
    t.equal((await ask(classic)).text, 'sold')
    t.equal((await ask()).status, 402)
    t.equal((await ask(modern)).status, 402)
    if (where !== 'a route') return
    t.equal((await gateway.send('GET', '/free/item')).text, 'sold')
    await upstream.go()
    for (let failure = 0; failure < 5; failure++) t.equal((await gateway.send('GET', '/free/item')).status, 502)
    t.equal((await gateway.send('GET', '/free/item')).status, 503, 'also for free requests')
  })

t.test('one of two addresses may fail without a loss; with both down nothing is sold or used up', async t => {
  const clock = new ManualClock()
  const [one, other] = [await comingAndGoing(t), await comingAndGoing(t)]
  const yaml = shopYaml(one.origin).replace(
    `{ url: "${one.origin}" }`,
    `{ url: ["${one.origin}", "${other.origin}"], balance: round-robin }`
  )
  const { gateway } = await openShop(t, { yaml, clock })
  const ask = (method: string, authorization?: string) =>
    gateway.send(method, '/paid/item', authorization === undefined ? {} : { headers: { authorization } })
  await one.go()
  for (let sale = 0; sale < 12; sale++) {
    const method = sale % 4 < 2 ? 'GET' : 'POST'
    const credential = await buy(gateway, '/paid/item', 'payment', { method })
    t.equal((await ask(method, credential)).text, 'sold')
    t.equal((await ask(method, credential)).status, 402, 'each is used up once')
  }
  const kept = await buy(gateway, '/paid/item', 'payment')
  await other.go()
  for (let failure = 0; failure < 5; failure++) t.equal((await ask('GET', kept)).status, 502)
  const answer = await ask('GET')
  t.equal(answer.status, 503, 'before the 402')
  t.ok(Number(answer.headers['retry-after']) > 0)
  t.equal((await ask('GET', kept)).status, 503)
  await one.come()
  clock.advance(30_000)
  t.equal((await ask('GET', kept)).text, 'sold', 'the payment was not used up')
  t.equal((await ask('GET', kept)).status, 402)
})
