import { setTimeout } from 'node:timers/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import t, { type Test as T } from 'tap'
import { defaultYaml, startGateway } from '../../support/gateway.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { unshed } from '../../support/gateway-process.ts'
import { inTimeOf } from '../../support/passing-time.ts'
import { until } from '../../support/until.ts'

const CONNECTIONS = 16
const SHARE = 4

interface Setting {
  readonly clock: ManualClock
  /** Requests that the upstream has begun to read, by path. */
  readonly begun: string[]
  /** Requests that the upstream is busy with now. */
  readonly running: () => number
  /** Sends a request that is never taken further, from an address. */
  slow(from: string, bytes: string): void
  /** Sends a request as another client; answers the status. */
  honest(): Promise<number>
  /** Lets time pass while something is waited for. */
  passes<R>(doing: Promise<R>): Promise<R>
}

/** An upstream with few connections behind a gateway, which takes addresses from X-Forwarded-For. */
async function setting(t: T): Promise<Setting> {
  const clock = new ManualClock()
  const begun: string[] = []
  let running = 0
  const upstream = createServer((req: IncomingMessage, res: ServerResponse) => {
    begun.push(req.url ?? '')
    running++
    res.on('close', () => {
      running--
    })
    req.resume()
    if (req.url === '/up/large') res.end(Buffer.alloc(16 * 1024 * 1024))
    else
      req.on('end', () => {
        res.end(req.url === '/up/small' ? Buffer.alloc(100 * 1024) : 'honest')
      })
  })
  upstream.listen(0, '127.0.0.1')
  await new Promise(resolve => {
    upstream.once('listening', resolve)
  })
  const { port } = upstream.address() as AddressInfo /* it listens on a port */
  const gateway = await startGateway(t, {
    clock,
    yaml: defaultYaml({
      replace: [
        ['  publicUrl:', '  trustedProxies: [ 127.0.0.1/32 ]\n  publicUrl:'],
        ['chains:\n', 'chains:\n  bare: [ correlation ]\n'],
        [
          'routes:\n',
          `routes:\n  - match: { path: /up/* }\n    chain: bare\n    upstream: { url: "http://127.0.0.1:${port}", connections: ${CONNECTIONS}, timeout: 1h }\n`
        ]
      ]
    })
  })
  const sockets: Socket[] = []
  const at = Number(new URL(gateway.url).port)
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    upstream.close()
    upstream.closeAllConnections()
  })
  return {
    clock,
    begun,
    running: () => running,
    slow(from, bytes) {
      const socket = connect({ port: at, host: '127.0.0.1' })
      sockets.push(socket)
      socket.on('error', () => {
        /* it is cut sooner or later */
      })
      // Not a byte of the answer is read.
      socket.pause()
      socket.write(bytes.replace('\r\n', `\r\nHost: a\r\nX-Forwarded-For: ${from}\r\n`))
    },
    honest: async () =>
      (await unshed(gateway).send('GET', '/up/honest', { headers: { 'x-forwarded-for': '198.51.100.7' } })).status,
    passes: doing => inTimeOf(gateway, clock, doing)
  }
}

const address = (number: number) => `203.0.113.${number}`
const LARGE = 'GET /up/large HTTP/1.1\r\n\r\n'
const SMALL = 'GET /up/small HTTP/1.1\r\n\r\n'
const ANNOUNCED = 'POST /up/announced HTTP/1.1\r\nContent-Length: 100000\r\n\r\na'
const CHUNKED = 'POST /up/chunked HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n'

t.test(
  "one address that reads nothing has a quarter of an upstream's connections, and everybody else the rest",
  async t => {
    const { slow, honest, begun } = await setting(t)
    for (let count = 0; count < 200; count++) slow(address(1), LARGE)
    await until(() => begun.filter(path => path === '/up/large').length === SHARE)
    for (let count = 0; count < 20; count++) t.equal(await honest(), 200)
    t.equal(begun.filter(path => path === '/up/large').length, SHARE)
  }
)

t.test(
  "a small response that is not read frees the upstream's connection immediately: 300 of them from 50 addresses hold none",
  async t => {
    const { slow, honest, begun, running } = await setting(t)
    for (let count = 0; count < 300; count++) slow(address(count % 50), SMALL)
    await until(() => begun.length === 300 && running() === 0)
    t.equal(await honest(), 200)
  }
)

t.test('a body that trickles takes no connection before it has come: 300 of them from 50 addresses', async t => {
  const { slow, honest, begun } = await setting(t)
  for (let count = 0; count < 300; count++) slow(address(count % 50), ANNOUNCED)
  for (let count = 0; count < 10; count++) t.equal(await honest(), 200)
  t.notOk(begun.includes('/up/announced'))
})

t.test('connections that clients hold while they read or send almost nothing are reclaimed for others', async t => {
  for (const [name, bytes] of [
    ['large answers', LARGE],
    ['bodies of unknown length', CHUNKED]
  ] as const) {
    const { slow, honest, begun, clock, passes } = await setting(t)
    for (let count = 0; count < 100; count++) slow(address(count % 50), bytes)
    await until(() => begun.length === CONNECTIONS)
    const pending = honest()
    // No client is cut before five seconds.
    clock.advance(4_900)
    t.equal(begun.filter(path => path !== '/up/honest').length, CONNECTIONS, name)
    t.equal(await passes(pending), 200, name)
  }
})

t.test(
  'addresses that lost connections for that have half of them at most for a minute, and no other client waits for any, however often they come back',
  async t => {
    for (const [name, bytes] of [
      ['large answers', LARGE],
      ['bodies of unknown length', CHUNKED]
    ] as const) {
      const { slow, honest, begun, running, passes } = await setting(t)
      const attack = () => {
        for (let count = 0; count < 100; count++) slow(address(count % 8), bytes)
      }
      attack()
      await until(() => begun.length === CONNECTIONS)
      const pending = honest()
      t.equal(await passes(pending), 200, name)
      // Until each of the addresses has been found out; it is for a moment that fewer run whenever some are cut.
      const found = async () => {
        let polls = 0
        for (let turn = 0; polls < 40; turn++) {
          if (turn === 10_000) throw new Error(`${running()} requests run concurrently`)
          await setTimeout(5)
          polls = running() <= CONNECTIONS / 2 ? polls + 1 : 0
        }
      }
      await passes(found())
      attack()
      // No time passes any more, so that none of these can wait for a connection that another client holds.
      for (let count = 0; count < 50; count++) t.equal(await honest(), 200, name)
    }
  }
)
