import { once } from 'node:events'
import net from 'node:net'
import t, { type Test } from 'tap'
import { localAddress, portOf } from '../../../src/engine/config/listen-address.ts'
import { Chain } from '../../../src/engine/pipeline/chain.ts'
import { Exchange } from '../../../src/engine/pipeline/exchange.ts'
import { defaultLimits } from '../../../src/engine/listener/deadlines.ts'
import { createListener } from '../../../src/engine/listener/listener.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { Forwarder } from '../../../src/engine/upstream/forwarder.ts'
import { RawUpstream, type RawConnection } from '../../support/raw-upstream.ts'
import { upstreamConfig } from '../upstream/harness.ts'

/** A whole gateway with nothing but forwarding in its chain, in front of `script`. */
async function gateway(t: Test, script: (connection: RawConnection) => Promise<void>) {
  const upstream = await new RawUpstream(script).listen()
  const forwarder = new Forwarder({ clock: systemClock, production: false })
  const route = await forwarder.open(upstreamConfig(upstream.origin))
  const chain = new Chain([{ handle: (ctx, responder) => forwarder.forwardTo(ctx, responder, route) }], 0)
  const faults: string[] = []
  const events = {
    mode: 'production',
    now: () => 0,
    monotonic: () => 0,
    fault: (_ctx: unknown, error: Error) => {
      faults.push(error.message)
    },
    finished: () => {
      /* nothing is counted */
    }
  } as const
  const listener = createListener({
    limits: { ...defaultLimits, drainTimeout: 100 },
    trustedProxies: [],
    clock: systemClock,
    freshId: () => 'id-1',
    handle: (ctx, wire) => {
      new Exchange(ctx, wire, chain, events).start()
    }
  })
  await listener.listen(localAddress())
  t.teardown(async () => {
    await listener.drain()
    await forwarder.close()
    await upstream.close()
  })
  return { port: portOf(listener.addresses), upstream, faults }
}

/** Sends bytes and answers everything that comes back until the connection closes. */
async function exchange(port: number, request: string) {
  const socket = net.connect(port, '127.0.0.1')
  const pieces: Buffer[] = []
  socket.on('data', piece => {
    pieces.push(piece)
  })
  socket.on('error', () => {
    /* a break is what some of these tests look for */
  })
  socket.write(request, 'latin1')
  await new Promise<void>(resolve => {
    socket.on('close', () => {
      resolve()
    })
  })
  return Buffer.concat(pieces).toString('latin1')
}

const GET = 'GET / HTTP/1.1\r\nHost: gateway.test\r\nConnection: close\r\n\r\n'

t.test('interim answers, chunks and trailers come out at the client as they went in', async t => {
  const { port } = await gateway(t, async connection => {
    await connection.request()
    await connection.flush('HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n')
    await connection.flush(
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Name: caf\xe9\r\n\r\n5\r\nhello\r\n'
    )
    await connection.flush('0\r\nX-Sum: 9\r\n\r\n')
  })
  const answer = await exchange(port, GET)
  t.match(answer, /^HTTP\/1\.1 103 Early Hints\r\nLink: <\/a\.css>\r\n\r\nHTTP\/1\.1 200 OK\r\n/)
  t.match(answer, /Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Name: caf\xe9\r\n/)
  t.match(answer, /\r\n5\r\nhello\r\n0\r\nX-Sum: 9\r\n\r\n$/)
  t.match(answer, /X-Correlation-Id: id-1\r\n/)
})

t.test('an upstream that dies in the middle is a break for the client, never a clean or a hanging end', async t => {
  for (const [framing, sent] of [
    ['Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n', '5\r\nhello\r\n'],
    ['Content-Length: 10\r\n\r\nhello', 'hello']
  ] as const) {
    const { port, faults } = await gateway(t, async connection => {
      await connection.request()
      await connection.flush(`HTTP/1.1 200 OK\r\n${framing}`)
      // The client must have the first piece before the break.
      await new Promise<void>(resolve => {
        setImmediate(resolve)
      })
      connection.reset()
    })
    const answer = await exchange(port, GET.replace('Connection: close\r\n', ''))
    t.ok(answer === '' || answer.endsWith(sent), 'what came is cut short')
    t.notMatch(answer, /\r\n0\r\n\r\n$/, 'no end of chunks')
    t.equal(faults.length, 1)
  }
})

t.test('faults before the head are answered with JSON', async t => {
  const { port } = await gateway(t, async connection => {
    await connection.request()
    connection.send('nonsense\r\n\r\n')
  })
  const answer = await exchange(port, GET)
  t.match(answer, /^HTTP\/1\.1 502 Bad Gateway\r\n/)
  t.match(
    answer,
    /\{"error":"Bad gateway","message":"The upstream did not give a usable answer\.","details":"its answer is not valid HTTP"\}$/
  )
})

t.test('HEAD, 204 and 304 carry no body and keep the connection in step', async t => {
  const { port } = await gateway(t, async connection => {
    for (;;) {
      const request = await connection.request()
      if (request === null) return
      connection.send(
        request.head.startsWith('HEAD')
          ? 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n'
          : request.head.includes('/204')
            ? 'HTTP/1.1 204 No Content\r\n\r\n'
            : 'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n'
      )
    }
  })
  const answer = await exchange(
    port,
    `HEAD / HTTP/1.1\r\nHost: a.test\r\n\r\nGET /204 HTTP/1.1\r\nHost: a.test\r\n\r\n${GET}`
  )
  t.match(
    answer,
    /^HTTP\/1\.1 200 OK\r\nContent-Length: 5\r\n[^]*?\r\n\r\nHTTP\/1\.1 204 No Content\r\n[^]*?\r\n\r\nHTTP\/1\.1 304 Not Modified\r\n[^]*?\r\n\r\n$/
  )
})

t.test('a chunked upload goes up whole, and Expect is answered here', async t => {
  const { port } = await gateway(t, async connection => {
    const request = await connection.request()
    connection.send(
      `HTTP/1.1 200 OK\r\nContent-Length: ${request?.body.byteLength ?? 0}\r\n\r\n${request?.body.toString('latin1') ?? ''}`
    )
    t.notMatch(request?.head ?? '', /expect/i)
  })
  const answer = await exchange(
    port,
    'POST / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n'
  )
  t.match(answer, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK\r\n[^]*\r\n\r\nabcde$/)
})

t.test('a slow client gets every byte of a fast upstream', async t => {
  const size = 8 * 1024 * 1024
  const { port } = await gateway(t, async connection => {
    await connection.request()
    connection.send(`HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`)
    connection.send(Buffer.alloc(size, 0x61))
  })
  const socket = net.connect(port, '127.0.0.1')
  socket.write(GET)
  let bytes = 0
  socket.on('data', piece => {
    bytes += piece.byteLength
    socket.pause()
    setImmediate(() => {
      socket.resume()
    })
  })
  await once(socket, 'close')
  t.ok(bytes > size && bytes < size + 1000, `${bytes} bytes with the head`)
})

t.test('a client that leaves takes the upstream with it', async t => {
  const { port, upstream } = await gateway(t, async connection => {
    await connection.request()
    await connection.flush('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n')
  })
  const socket = net.connect(port, '127.0.0.1')
  socket.write(GET)
  await once(socket, 'data')
  socket.destroy()
  await upstream.connections[0]?.closed
  t.equal(upstream.connections.length, 1)
})
