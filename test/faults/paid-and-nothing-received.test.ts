import { createServer, type Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import t, { type Test as T } from 'tap'
import { buy, type TestGateway, use } from '../support/gateway.ts'
import { eventually } from '../support/gateway-process.ts'
import { RawClient } from '../support/raw-client.ts'
import { countingUpstream, openShop, shopYaml } from '../security/shop.ts'

const path = '/paid/item'
const WHOLE = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nsold'

/** The upstream closes its connection. */
const CLOSE = ''

/** An upstream that answers each request with the pieces of `say`, one packet each. */
async function bareUpstream(t: T) {
  const sockets = new Set<Socket>()
  const upstream = { origin: '', say: [WHOLE] as readonly string[] }
  const server = createServer(socket => {
    sockets.add(socket.setNoDelay())
    socket.on('error', () => {})
    socket.on('data', async bytes => {
      if (!bytes.includes(' HTTP/1.1')) return
      for (const piece of upstream.say) {
        if (piece === CLOSE) socket.end()
        else socket.write(piece)
        await setImmediate()
      }
    })
  })
  await new Promise<void>(resolve => {
    server.listen(0, '127.0.0.1', resolve)
  })
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  upstream.origin = `http://127.0.0.1:${(server.address() as { port: number }).port}` // a server on TCP has an address object
  return upstream
}

/** Sends the request and reads until the connection is over; answers every byte that came. */
async function receive(gateway: TestGateway, credential: string, more: string, target = path) {
  const client = await RawClient.connect(Number(new URL(gateway.url).port))
  client.send(`GET ${target} HTTP/1.1\r\nHost: shop\r\nAuthorization: ${credential}\r\n${more}\r\n`)
  await client.ending()
  return client.received
}

/** Waits until no lease is held. */
async function settled(gateway: TestGateway) {
  await eventually(
    'no lease is held',
    async () => (await gateway.database.sql`select 1 from challenges where state = 'leased'`).length === 0
  )
}

const faults: Record<string, readonly [string, string]> = {
  'a chunk without a size': ['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', 'zz\r\n'],
  'a first chunk that is longer than its size': [
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n',
    '1\r\nabc\r\n'
  ]
}
// The second has a form that only node:http reads, so that both writers of answers are tried.
const lanes = { 'on the fast lane': '', 'over node:http': 'Transfer-Encoding: chunked\r\n\r\n0\r\n' }

for (const [what, [head, broken]] of Object.entries(faults)) {
  for (const [where, more] of Object.entries(lanes)) {
    t.test(`head and ${what} in one packet, ${where}: 502, and the payment comes back`, async t => {
      const upstream = await bareUpstream(t)
      const { gateway } = await openShop(t, { yaml: shopYaml(upstream.origin) })
      const credential = await buy(gateway, path, 'payment')
      upstream.say = [head + broken]
      t.match(await receive(gateway, credential, `Connection: close\r\n${more}`), /^HTTP\/1.1 502 /)
      upstream.say = [WHOLE]
      await eventually('it is good again', async () => (await use(gateway, path, credential)).status === 200)
      t.equal((await use(gateway, path, credential)).status, 402, 'once')
    })
  }
}

const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
const breaks: Record<string, { readonly say: readonly string[]; readonly status: number; readonly text?: RegExp }> = {
  'a small announced body that ends early': {
    say: ['HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n', 'sold', CLOSE],
    status: 502,
    text: /"details":"(the upstream closed|its answer is shorter)/
  },
  'a small announced body that never ends': {
    say: ['HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n', 'sold'],
    status: 504
  },
  'a large announced body that ends early': {
    say: [`HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n${'x'.repeat(50_000)}`, CLOSE],
    status: 200
  },
  'a chunked body that ends early': { say: [CHUNKED, '3\r\nsol\r\n', CLOSE], status: 200 },
  'a chunk without a size': { say: [CHUNKED, '3\r\nsol\r\n', 'zz\r\n'], status: 200 },
  'a body that falls silent': { say: [CHUNKED, '3\r\nsol\r\n'], status: 200 },
  'a body over the limit': {
    say: [CHUNKED, `800\r\n${'x'.repeat(2048)}\r\n`, `800\r\n${'x'.repeat(2048)}\r\n`],
    status: 200
  },
  'a body over the limit in one write': { say: [`${CHUNKED}1000\r\n${'x'.repeat(4096)}\r\n`], status: 502 }
}

t.test('a response that breaks gives the payment back each time, and is spent once it is whole', async t => {
  const upstream = await bareUpstream(t)
  const { origin } = upstream
  const limited = `  - match: { path: /limited/* }
    price: 7 sats
    chain: paid
    upstream: { url: "${origin}", timeout: 500ms, responseLimit: 4000 }\n`
  const { gateway } = await openShop(t, { yaml: shopYaml(origin, { route: limited }) })
  for (const [what, { say, status, text }] of Object.entries(breaks))
    for (const [where, more] of Object.entries(lanes)) {
      const isLimited = what.includes('over the limit') || !say.some(piece => piece === CLOSE || piece === 'zz\r\n')
      const target = isLimited ? '/limited/item' : path
      const credential = await buy(gateway, target, 'payment')
      const headers = { authorization: credential }
      for (let time = 0; time < 3; time++) {
        upstream.say = say
        const close = status === 200 ? '' : 'Connection: close\r\n'
        const received = await receive(gateway, credential, close + more, target)
        t.match(received, new RegExp(`^HTTP/1.1 ${status} `), `${what}, ${where}`)
        if (text !== undefined) t.match(received, text)
        await settled(gateway)
      }
      upstream.say = [WHOLE]
      const sold = await gateway.send('GET', target, { headers })
      t.equal(sold.status, 200, `${what}, ${where}: good`)
      t.ok(sold.headers['payment-receipt'])
      const again = await gateway.send('GET', target, { headers })
      t.equal(again.status, 402, 'once')
      t.match(again.json(), { detail: /already redeemed/ })
    }
})

t.test(
  'a response that is too large gives the payment back three times: a client can ask for one each time',
  async t => {
    const upstream = await bareUpstream(t)
    upstream.say = breaks['a body over the limit']?.say ?? []
    const limited = `  - match: { path: /limited/* }
    price: 7 sats
    chain: paid
    upstream: { url: "${upstream.origin}", responseLimit: 4000 }\n`
    const { gateway } = await openShop(t, { yaml: shopYaml(upstream.origin, { route: limited }) })
    const credential = await buy(gateway, '/limited/item', 'payment')
    for (const status of [200, 200, 200, 200, 402, 402]) {
      const more = status === 402 ? 'Connection: close\r\n' : ''
      t.match(await receive(gateway, credential, more, '/limited/item'), new RegExp(`^HTTP/1.1 ${status} `))
      await settled(gateway)
    }
  }
)

t.test("a merchant's proxy: a body over 10 MiB without a length gives the payment back", async t => {
  let size = 11 * 1024 * 1024
  const upstream = await countingUpstream(t, (_req, res) => {
    res.flushHeaders()
    res.end(Buffer.alloc(size))
  })
  const shop = await openShop(t, { upstream })
  const { path: proxy } = await shop.proxy()
  const credential = await buy(shop.gateway, `${proxy}/big`, 'payment')
  const authorization = { authorization: credential }
  await t.rejects(shop.gateway.send('GET', `${proxy}/big`, { headers: authorization }))
  await settled(shop.gateway)
  size = 10
  t.equal((await shop.gateway.send('GET', `${proxy}/big`, { headers: authorization })).status, 200)
  t.equal((await shop.gateway.send('GET', `${proxy}/big`, { headers: authorization })).status, 402)
})

t.test('a client that leaves in the middle of a body has had it', async t => {
  const upstream = await bareUpstream(t)
  const { gateway } = await openShop(t, { yaml: shopYaml(upstream.origin) })
  const credential = await buy(gateway, path, 'payment')
  upstream.say = [CHUNKED, '3\r\nsol\r\n']
  const client = await RawClient.connect(Number(new URL(gateway.url).port))
  client.send(`GET ${path} HTTP/1.1\r\nHost: shop\r\nAuthorization: ${credential}\r\n\r\n`)
  await client.until('sol')
  client.close()
  await settled(gateway)
  const again = await use(gateway, path, credential)
  t.match(again.json(), { detail: /already redeemed/ })
})
