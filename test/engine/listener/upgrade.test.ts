import { text } from 'node:stream/consumers'
import { createServer, type Server, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { WebSocket, WebSocketServer } from 'ws'
import { LongError } from '../../../src/engine/operations/errors.ts'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import type { Tunnel, TunnelResponse, TunnelResult, TunnelTarget, Wire } from '../../../src/engine/message/wire.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { arrival, openDoor, reply, watchWire } from './support.ts'

const ask = (...lines: string[]) =>
  `GET /chat?x=%2F HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${lines.map(line => `${line}\r\n`).join('')}\r\n`
const switching =
  'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Up: 1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\n'

/** A raw upstream: each connection is given to `serve`, with a promise for the head of its request. */
async function upstream(t: Test, serve: (socket: Socket, head: string) => void) {
  const sockets = new Set<Socket>()
  const server: Server = createServer({ allowHalfOpen: true }, socket => {
    sockets.add(socket)
    let text = ''
    socket.on('error', () => undefined)
    const read = (chunk: Buffer) => {
      text += chunk.toString('latin1')
      if (!text.includes('\r\n\r\n')) return
      socket.off('data', read)
      serve(socket, text)
    }
    socket.on('data', read)
  })
  await new Promise<void>(resolve => {
    server.listen(0, '127.0.0.1', resolve)
  })
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  if (typeof address !== 'object' || address === null) throw new Error('the upstream has no port')
  return `http://127.0.0.1:${address.port}`
}

function target(origin: string, more: Partial<TunnelTarget> = {}) {
  return {
    origin,
    path: '/up//a%2Fb/./?y',
    headers: ['Host', 'up.example', 'X-Kept', '1', 'X-Kept', '2', 'Sec-WebSocket-Protocol', 'p'],
    address: null,
    tls: null,
    timeout: 5000,
    responseLimit: Infinity,
    ...more
  }
}

async function open(
  { tunnel }: Wire,
  origin: string,
  more: Partial<TunnelTarget> = {},
  accepted: Parameters<Tunnel>[1] = () => undefined
) {
  if (tunnel === null) throw new Error('no tunnel')
  return await tunnel(target(origin, more), accepted)
}

/** The body of a refusal. */
async function textOf(result: TunnelResult) {
  if (result.kind !== 'refused') throw new Error('a tunnel was opened')
  return await text(result.body)
}

t.test(
  'an upgrade goes to the upstream with exactly the given path and headers, and its bytes are counted',
  async t => {
    const heads: string[] = []
    const origin = await upstream(t, (socket, head) => {
      heads.push(head)
      socket.write(`${switching}early`, 'latin1')
      socket.on('data', chunk => {
        socket.write(`<${chunk.toString()}>`)
      })
      socket.on('end', () => {
        socket.end()
      })
    })
    const { ctx, wire, watch, client } = await arrival(t, `${ask('Sec-WebSocket-Protocol: p', 'X-Not-Passed: 1')}first`)
    t.equal(ctx.upgrade, 'websocket')
    const answers: TunnelResponse[] = []
    const result = open(wire, origin, {}, answer => {
      answers.push({ status: answer.status, headers: [...answer.headers] })
      new HeaderList(answer.headers).set('X-Api-Version', '9')
    })
    await client.until('early<first>')
    const lines = (heads[0] ?? '').split('\r\n')
    t.equal(lines[0], 'GET /up//a%2Fb/./?y HTTP/1.1', 'byte for byte')
    t.strictSame(
      lines
        .slice(1)
        .filter(line => line !== '')
        .map(line => line.toLowerCase())
        .sort(),
      [
        'connection: upgrade',
        'host: up.example',
        'sec-websocket-protocol: p',
        'upgrade: websocket',
        'x-kept: 1',
        'x-kept: 2'
      ],
      "nothing of the client's own"
    )
    t.strictSame(answers, [{ status: 101, headers: ['X-Up', '1', 'Set-Cookie', 'a', 'Set-Cookie', 'b'] }])
    t.match(
      client.received,
      'HTTP/1.1 101 Switching Protocols\r\nX-Up: 1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nX-Api-Version: 9\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
    )
    client.send('second')
    await client.until('<second>')
    t.equal(wire.gone, false)
    client.socket.end()
    t.equal((await client.ending()).how, 'end')
    t.strictSame(await result, { kind: 'closed', bytesIn: 11, bytesOut: 20 })
    t.equal(await watch.closed, true)
    t.strictSame(watch.closes, [true])
  }
)

t.test('an upgrade to another protocol, with another method, arrives as such', async t => {
  const origin = await upstream(t, (socket, head) => {
    t.match(head, /^PATCH /)
    t.match(head, /\r\nUpgrade: Foo\/1\r\n/i)
    socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: Foo/1\r\n\r\nhello')
  })
  const { wire, client } = await arrival(
    t,
    'PATCH / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: Foo/1\r\n\r\n'
  )
  const result = open(wire, origin)
  await client.until('hello')
  t.match(client.received, '\r\nUpgrade: Foo/1\r\n')
  client.socket.end()
  t.equal((await result).kind, 'closed')
})

t.test('an answer other than 101 is left to the caller', async t => {
  const origin = await upstream(t, socket => {
    socket.write(
      'HTTP/1.1 403 Forbidden\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-Kept: 2\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n'
    )
  })
  const { wire, watch, client } = await arrival(t, ask())
  const result = await open(wire, origin, {}, () => {
    t.fail('accepted must not be called')
  })
  t.match(result, { kind: 'refused', response: { status: 403, headers: ['X-Kept', '2'] } })
  t.equal(await textOf(result), 'abc')
  wire.head(403, ['Content-Length', '3'])
  wire.end(Buffer.from('abc'), null)
  const response = await client.response()
  t.equal(response.status, 403)
  t.equal(response.header('connection'), 'close')
  t.equal((await client.ending()).how, 'end')
  client.close()
  t.equal(await watch.closed, true)
})

t.test('the body of a refusal is handed on as it comes, and its pauses end as those of any response', async t => {
  const more = Promise.withResolvers<Socket>()
  const origin = await upstream(t, socket => {
    socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n')
    more.resolve(socket)
  })
  const clock = new ManualClock()
  const { wire } = await arrival(t, ask(), { clock })
  const result = await open(wire, origin)
  if (result.kind !== 'refused') throw new Error('a tunnel was opened')
  const pieces = result.body.iterator({ destroyOnReturn: false })
  t.equal(String((await pieces.next()).value), 'abc', 'before its end')
  clock.advance(4000)
  const socket = await more.promise
  socket.write('2\r\nde\r\n')
  t.equal(String((await pieces.next()).value), 'de')
  clock.advance(4000)
  t.notOk(result.body.destroyed, 'the pause began with the last piece')
  const over = t.rejects(pieces.next(), { name: 'LongError', status: 504 })
  clock.advance(1000)
  await over
})

t.test('the body of a refusal has the limit of its upstream, announced or not', async t => {
  const announced = await upstream(t, socket => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde')
  })
  const chunked = await upstream(t, socket => {
    socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n')
  })
  const first = await arrival(t, ask())
  await t.rejects(open(first.wire, announced, { responseLimit: 4 }), { name: 'LongError', status: 502 })
  const second = await arrival(t, ask())
  const result = await open(second.wire, chunked, { responseLimit: 4 })
  await t.rejects(textOf(result), { name: 'LongError', status: 502 })
  const third = await arrival(t, ask())
  t.equal(await textOf(await open(third.wire, announced, { responseLimit: 5 })), 'abcde')
})

t.test("a refusal that breaks off in its body fails the body's reader", async t => {
  const origin = await upstream(t, socket => {
    socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 9\r\n\r\nabc')
  })
  const { wire } = await arrival(t, ask())
  const result = await open(wire, origin)
  await t.rejects(textOf(result))
})

t.test('an upstream that switches protocols without a request is 502', async t => {
  const origin = await upstream(t, socket => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n')
  })
  const { wire } = await arrival(t, ask())
  await t.rejects(open(wire, origin), { name: 'LongError', status: 502, message: /was not asked for/ })
})

t.test('two long lists of protocols are compared in linear time', async t => {
  const last = 'l,'.repeat(6_000)
  const origin = await upstream(t, socket => {
    socket.end(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${last}l\r\n\r\nhello`)
  })
  const cpu = async (asked: string) => {
    const head = `GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: ${asked}\r\n\r\n`
    const { wire, client } = await arrival(t, head)
    const before = process.cpuUsage().user
    const result = open(wire, origin)
    await client.until('hello')
    const spent = process.cpuUsage().user - before
    client.socket.end()
    await result
    return spent
  }
  // The least of several: this process may be collecting garbage.
  let [short, long] = [Infinity, Infinity]
  for (let time = 0; time < 4; time++) {
    short = Math.min(short, await cpu('l'))
    long = Math.min(long, await cpu(`${'x,'.repeat(30_000)}l`))
  }
  t.ok(long < 10 * short + 20_000, `${long} µs, and ${short} µs for one protocol`)
})

t.test('a 402 before the 101 is an ordinary answer, and the last', async t => {
  const { wire, client } = await arrival(t, ask())
  reply(wire, 402, 'pay', ['WWW-Authenticate', 'L402 x'])
  const response = await client.response()
  t.equal(response.status, 402)
  t.equal(response.body, 'pay')
  t.equal((await client.ending()).how, 'end')
})

t.test(
  'an upstream that cannot be reached, breaks off or is silent is 502 or 504, and the wire can still answer',
  async t => {
    const broken = await upstream(t, socket => {
      socket.destroy()
    })
    const nameless = await upstream(t, socket => {
      socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n')
    })
    const garbage = await upstream(t, socket => {
      socket.end('garbage\r\n\r\n')
    })
    for (const origin of ['http://127.0.0.1:1', broken, nameless, garbage]) {
      const { wire, client } = await arrival(t, ask())
      const error = await open(wire, origin).then(
        () => null,
        (cause: unknown) => cause
      )
      t.ok(error instanceof LongError && error.status === 502, `${origin}: ${String(error)}`)
      reply(wire, 502, 'no')
      t.equal((await client.response()).status, 502)
    }
    const clock = new ManualClock()
    const reached = Promise.withResolvers<void>()
    const silent = await upstream(t, () => {
      reached.resolve()
    })
    const { wire, client } = await arrival(t, ask(), { clock })
    const result = open(wire, silent)
    await reached.promise
    clock.advance(5000)
    await t.rejects(result, { name: 'LongError', status: 504 })
    reply(wire, 504, 'late')
    t.equal((await client.response()).status, 504)
  }
)

t.test('when the hook over the 101 fails nothing is written, and the upstream is let go', async t => {
  const ended = Promise.withResolvers<void>()
  const origin = await upstream(t, socket => {
    socket.on('close', () => {
      ended.resolve()
    })
    socket.on('end', () => {
      socket.end()
    })
    socket.resume()
    socket.write(switching)
  })
  const { wire, client } = await arrival(t, ask())
  await t.rejects(
    open(wire, origin, {}, async () => {
      throw new LongError(500, 'x', 'hook')
    }),
    { message: 'hook' }
  )
  await ended.promise
  reply(wire, 500, 'hook')
  t.equal((await client.response()).status, 500)
})

t.test("a client that leaves before the 101 ends the upstream's request", async t => {
  const reached = Promise.withResolvers<void>()
  const ended = Promise.withResolvers<void>()
  const origin = await upstream(t, socket => {
    socket.on('end', () => {
      ended.resolve()
    })
    socket.on('close', () => {
      ended.resolve()
    })
    socket.resume()
    reached.resolve()
  })
  for (const waits of ['for the upstream', 'for a plugin'] as const) {
    const { wire, watch, client } = await arrival(t, ask())
    if (waits === 'for the upstream') {
      const result = open(wire, origin)
      await reached.promise
      client.socket.end()
      await t.rejects(result, { name: 'ClientGone' })
      await ended.promise
    } else {
      client.socket.end()
    }
    t.equal(await watch.closed, false, waits)
    t.equal(wire.gone, true)
  }
})

t.test('an upstream that resets the tunnel is an error for the client', async t => {
  const origin = await upstream(t, socket => {
    socket.write(switching)
    socket.on('data', () => {
      socket.resetAndDestroy()
    })
  })
  const { wire, watch, client } = await arrival(t, ask())
  const result = open(wire, origin)
  await client.response()
  client.send('x')
  t.equal((await client.ending()).how, 'ECONNRESET')
  t.equal((await result).kind, 'closed')
  t.equal(await watch.closed, false)
})

t.test('the checked address is used instead of the name', async t => {
  const origin = await upstream(t, (socket, head) => {
    t.match(head, /\r\nHost: up\.example\r\n/i)
    socket.end(`${switching}here`)
  })
  const { wire, client } = await arrival(t, ask())
  const result = open(wire, origin.replace('127.0.0.1', 'name.invalid'), { address: '127.0.0.1' })
  await client.until('here')
  client.socket.end()
  t.equal((await result).kind, 'closed')
})

t.test('a real WebSocket client and server talk through the tunnel, held back by a slow reader', async t => {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  t.teardown(() => {
    server.close()
  })
  await new Promise(resolve => {
    server.once('listening', resolve)
  })
  server.on('connection', socket => {
    socket.on('message', data => {
      socket.send(data)
    })
  })
  const address = server.address()
  if (typeof address !== 'object' || address === null) throw new Error('the server has no port')
  const door = await openDoor(t, {
    handle(ctx, wire) {
      watchWire(wire)
      const headers = ctx.headers.pairs.filter((_, at, all) => /^sec-websocket/i.test(all[at - (at % 2)] ?? ''))
      open(wire, `http://127.0.0.1:${address.port}`, {
        path: ctx.target,
        headers: ['Host', ctx.host, ...headers]
      }).catch((error: unknown) => {
        t.fail(String(error))
      })
    }
  })
  const socket = new WebSocket(`ws://127.0.0.1:${door.port}/chat`)
  await new Promise(resolve => {
    socket.once('open', resolve)
  })
  const large = Buffer.alloc(8 * 1024 * 1024, 'x')
  socket.pause()
  socket.send('hello')
  socket.send(large)
  const messages: Buffer[] = []
  const both = new Promise<void>(resolve => {
    socket.on('message', (data: Buffer) => {
      if (messages.push(data) === 2) resolve()
    })
  })
  setImmediate(() => {
    socket.resume()
  })
  await both
  t.equal(messages[0]?.toString(), 'hello')
  t.ok(messages[1]?.equals(large))
  const closed = new Promise<number>(resolve => {
    socket.once('close', resolve)
  })
  socket.close(1000)
  t.equal(await closed, 1000)
})

t.test('a tunnel that only one side has ended is cut after a while', async t => {
  const ended = Promise.withResolvers<void>()
  const clock = new ManualClock()
  const origin = await upstream(t, socket => {
    socket.write(switching)
    socket.on('end', () => {
      ended.resolve()
    })
    socket.resume()
  })
  const { wire, watch, client } = await arrival(t, ask(), { clock })
  const result = open(wire, origin)
  await client.response()
  client.socket.end()
  await ended.promise
  clock.advance(29_999)
  t.strictSame(watch.closes, [])
  clock.advance(1)
  t.equal((await result).kind, 'closed')
})

t.test('draining cuts tunnels that are still open at its end', async t => {
  const origin = await upstream(t, socket => {
    socket.write(switching)
    socket.on('end', () => {
      socket.end()
    })
    socket.resume()
  })
  const clock = new ManualClock()
  const { door, client, wire, watch } = await arrival(t, ask(), { clock })
  const result = open(wire, origin)
  await client.response()
  const drained = door.listener.drain(1000)
  clock.advance(999)
  t.strictSame(watch.closes, [])
  clock.advance(1)
  t.equal((await result).kind, 'closed')
  await drained
})
