import { spawn } from 'node:child_process'
import type { lookup } from 'node:dns'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type OnReadOpts, type Socket } from 'node:net'
import t from 'tap'
import { Dialer } from '../../../src/engine/upstream/connector.ts'
import { serve } from '../../support/serve.ts'

const onread: OnReadOpts = { buffer: Buffer.alloc(16), callback: () => true }

function dial(origin: string, timeout: number): Promise<Socket | Error> {
  return new Promise(resolve => {
    new Dialer(new URL(origin), null, { tls: null, timeout }).dial(onread, resolve)
  })
}

t.test(
  'an open connection has nothing left of its opening: no timer, and no listener but those of the socket itself',
  async t => {
    const server = createServer(socket => {
      socket.on('error', () => {
        socket.destroy()
      })
    })
    const port = await serve(t, server)
    const socket = await dial(`http://127.0.0.1:${port}`, 60_000)
    if (socket instanceof Error) throw socket
    t.teardown(() => {
      socket.destroy()
    })
    t.equal(socket.readyState, 'open')
    t.ok(!socket.timeout, 'no timer')
    t.same(socket.eventNames(), ['end'])
  }
)

t.test('a refused connection is reported as such', async t => {
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo /* as above */
  server.close()
  await once(server, 'close')
  t.match(await dial(`http://127.0.0.1:${port}`, 60_000), { code: /^ECONNREFUSED$/ })
})

t.test('an upstream that does not take the connection in time is given up', async t => {
  // It listens, and never accepts: its loop never runs. With its queue full the system answers no connection.
  const child = spawn(
    process.execPath,
    [
      '-e',
      `
    const server = require('node:net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
      require('node:fs').writeSync(1, String(server.address().port))
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
    })
  `
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] }
  )
  t.teardown(() => {
    child.kill('SIGKILL')
  })
  const [port] = (await once(child.stdout, 'data')) as [Buffer]
  const crowd = Array.from({ length: 8 }, () =>
    connect(Number(port), '127.0.0.1').on('error', () => {
      /* ends with the child */
    })
  )
  t.teardown(() => {
    for (const one of crowd) one.destroy()
  })
  await once(crowd[0] as Socket /* there are eight */, 'connect')
  const result = await dial(`http://127.0.0.1:${port}`, 200)
  t.match(result, { code: /^(?:ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT)$/ })
})

t.test("connections rotate over a name's addresses, past one that refuses them", async t => {
  const addresses = ['127.0.0.1', '127.0.0.2', '127.0.0.3'].map(address => ({ address, family: 4 }))
  const port = await serve(t, createServer())
  const other = createServer().listen(port, '127.0.0.3')
  await once(other, 'listening')
  t.teardown(() => other.close())
  const resolve = ((_name: string, _options: object, callback: (error: null, found: object[]) => void) => {
    callback(null, addresses)
  }) as unknown as typeof lookup // Only this form is called.
  const dialer = new Dialer(new URL(`http://several.test:${port}`), null, { tls: null, timeout: 5_000 }, resolve)
  t.ok(dialer.hasName)
  const reached: Array<string | undefined> = []
  for (let connection = 0; connection < 6; connection++) {
    const socket = await new Promise<Socket | Error>(opened => {
      dialer.dial(onread, opened)
    })
    if (socket instanceof Error) throw socket
    reached.push(socket.remoteAddress)
    socket.destroy()
  }
  const [first, , third] = addresses.map(({ address }) => address)
  t.same(reached, [first, third, third, first, third, third])
})
