import { createServer, type Socket } from 'node:net'
import t, { type Test as T } from 'tap'
import { buy, type TestGateway } from '../support/gateway.ts'
import { eventually } from '../support/gateway-process.ts'
import { RawClient } from '../support/raw-client.ts'
import { openShop, shopYaml } from '../security/shop.ts'

const path = '/paid/item'
const WHOLE = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nsold'

/** An upstream that answers each request with the pieces of `say`, one packet each. */
async function bareUpstream(t: T): Promise<{ readonly origin: string; say: readonly string[] }> {
  const sockets = new Set<Socket>()
  const upstream = { origin: '', say: [WHOLE] as readonly string[] }
  const server = createServer(socket => {
    sockets.add(socket.setNoDelay())
    socket.on('error', () => {})
    socket.on('data', async bytes => {
      if (!bytes.includes(' HTTP/1.1')) return
      for (const piece of upstream.say) {
        socket.write(piece)
        await new Promise(setImmediate)
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
async function receive(gateway: TestGateway, credential: string, more: string): Promise<string> {
  const client = await RawClient.connect(Number(new URL(gateway.url).port))
  client.send(`GET ${path} HTTP/1.1\r\nHost: shop\r\nAuthorization: ${credential}\r\n${more}\r\n`)
  await client.ending()
  return client.received
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
    t.test(`head and ${what} in one packet, ${where}: the client gets nothing, and its payment back`, async t => {
      const upstream = await bareUpstream(t)
      const { gateway } = await openShop(t, { yaml: shopYaml(upstream.origin) })
      const credential = await buy(gateway, path, 'payment')
      upstream.say = [head + broken]
      t.equal(await receive(gateway, credential, more), '')
      upstream.say = [WHOLE]
      await eventually('it is good again', async () =>
        (await gateway.send('GET', path, { headers: { authorization: credential } })).status === 200 ? true : null
      )
      t.equal((await gateway.send('GET', path, { headers: { authorization: credential } })).status, 402, 'once')
    })
  }
}

t.test('a head that went out before its upstream failed is spent', async t => {
  const upstream = await bareUpstream(t)
  const { gateway } = await openShop(t, { yaml: shopYaml(upstream.origin) })
  const credential = await buy(gateway, path, 'payment')
  upstream.say = ['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', '3\r\nsol\r\n', 'zz\r\n']
  t.match(await receive(gateway, credential, ''), /^HTTP\/1.1 200 /)
  upstream.say = [WHOLE]
  const answer = await gateway.send('GET', path, { headers: { authorization: credential } })
  t.equal(answer.status, 402)
  t.match(answer.json(), { detail: /already redeemed|another request/ })
})
