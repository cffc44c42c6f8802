import { once } from 'node:events'
import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { UrlUpstreamConfig } from '../../../src/engine/sections/upstream.ts'
import { systemClock, type Clock } from '../../../src/platform/system/clock.ts'
import type { CallController } from '../../../src/engine/upstream/connection.ts'
import { ConnectionPool } from '../../../src/engine/upstream/connection-pool.ts'
import { Dialer } from '../../../src/engine/upstream/connector.ts'
import { Forwarder } from '../../../src/engine/upstream/forwarder.ts'
import type { RouteUpstream } from '../../../src/engine/upstream/route-upstream.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { RawUpstream, type RawConnection } from '../../support/raw-upstream.ts'
import { bodyOf, contextOf, forwarderTo, RecordingResponder, sent, upstreamConfig } from './harness.ts'
import { until } from '../../support/until.ts'

const ANSWER = 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na'

/** Lets what the kernel holds for this process come in. */
async function turns(count = 20) {
  for (let turn = 0; turn < count; turn++) await setImmediate()
}

interface Setup {
  readonly upstream: RawUpstream
  readonly forwarder: Forwarder
  readonly route: RouteUpstream
  readonly send: (path?: string, facts?: Parameters<typeof contextOf>[0]) => RecordingResponder
}

async function setup(
  t: Test,
  script: (connection: RawConnection, upstream: RawUpstream) => Promise<void> | void,
  more: Partial<Omit<UrlUpstreamConfig, 'url' | 'kind'>> = {},
  clock: Clock = systemClock
) {
  const upstream = await new RawUpstream(script).listen()
  const forwarder = forwarderTo(t, upstream, clock)
  const route = await forwarder.open(upstreamConfig(upstream.origin, more))
  const send: Setup['send'] = (path = '/', facts = {}) => {
    const responder = sent(forwarder, route, { target: path, ...facts })
    return responder
  }
  return { upstream, forwarder, route, send }
}

/** Answers every request of a connection; after the answer `then` is called with how many there were. */
function answering(
  answer: string,
  then: (connection: RawConnection, count: number) => void = () => {
    /* stays open */
  }
): (connection: RawConnection, upstream: RawUpstream) => Promise<void> {
  return async (connection, upstream) => {
    for (let count = 1; ; count++) {
      const request = await connection.request()
      if (request === null) return
      upstream.requests.push(request)
      connection.send(answer)
      then(connection, count)
    }
  }
}

t.test('an idle connection that the upstream has closed, reset or spoken on is not used again', async t => {
  for (const [name, then] of [
    [
      'closed',
      connection => {
        connection.end()
      }
    ],
    [
      'reset',
      connection => {
        connection.reset()
      }
    ],
    [
      'spoken on',
      connection => {
        connection.send('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil')
      }
    ]
  ] as ReadonlyArray<readonly [string, (connection: RawConnection) => void]>) {
    let idle: RawConnection | undefined
    const { upstream, send } = await setup(
      t,
      answering(ANSWER, connection => {
        idle = connection
      })
    )
    await send().done
    await turns()
    if (idle !== undefined) then(idle)
    // The kernel has it; the gateway's loop has not looked yet when the request comes.
    const next = send('/next')
    await next.done
    t.equal(next.status, 200, name)
    t.equal(next.body, 'a', name)
    t.same(
      upstream.requests.map(request => request.head.split(' ')[1]),
      ['/', '/next'],
      `${name}: each was sent once`
    )
    t.equal(upstream.connections.length, 2, name)
  }
})

t.test('retries: an idempotent request on a kept connection that is lost is retried once, on a new one', async t => {
  const fates: Record<string, (connection: RawConnection) => void> = {
    reset: connection => {
      connection.reset()
    },
    closed: connection => {
      connection.end()
    }
  }
  for (const [fate, lose] of Object.entries(fates))
    for (const [method, body, sends] of [
      ['GET', null, 2],
      ['HEAD', null, 2],
      ['OPTIONS', null, 2],
      ['DELETE', null, 2],
      ['PUT', 'abc', 2],
      ['POST', 'abc', 1],
      ['PATCH', 'abc', 1],
      ['POST', null, 1]
    ] as const) {
      // Two connections are kept; each is lost with its second request, and a new one is good.
      const { upstream, send } = await setup(t, async (connection, from) => {
        for (let count = 1; ; count++) {
          const request = await connection.request()
          if (request === null) return
          from.requests.push(request)
          if (count === 1 || connection.number > 2) connection.send(ANSWER)
          else lose(connection)
        }
      })
      await Promise.all([send().done, send().done])
      await turns()
      const next = send('/next', { method, ...(body === null ? {} : { body: bodyOf(body) }) })
      await next.done
      const name = `${method} ${body} ${fate}`
      const sent = upstream.requests.filter(request => request.head.includes(' /next '))
      t.equal(sent.length, sends, name)
      if (sends === 2) t.equal(next.status, 200, name)
      else t.match(next.failure, { status: 502 }, name)
      t.equal(upstream.connections.length, 1 + sends, `${name}: and no other kept one is tried`)
      if (body !== null)
        t.same(
          sent.map(request => String(request.body)),
          Array(sends).fill(body),
          name
        )
    }
})

t.test(
  'retries: no request is repeated on a new connection, twice, or once a byte of its response has come',
  async t => {
    const starts = {
      nothing: '',
      'an interim response': 'HTTP/1.1 103 Early Hints\r\n\r\n',
      'half a head': 'HTTP/1.1 200'
    }
    for (const [what, start] of Object.entries(starts)) {
      const { upstream, send } = await setup(t, async (connection, from) => {
        for (let count = 1; ; count++) {
          const request = await connection.request()
          if (request === null) return
          from.requests.push(request)
          if (count === 1 && connection.number === 1) connection.send(ANSWER)
          else {
            if (start !== '') await connection.flush(start)
            connection.reset()
          }
        }
      })
      await send().done
      await turns()
      const kept = send('/kept')
      await kept.done
      t.match(kept.failure, { status: 502 }, what)
      t.equal(upstream.requests.length, start === '' ? 3 : 2, what)
      const before = upstream.requests.length
      await send('/fresh').done
      t.equal(upstream.requests.length, before + 1, 'a new connection that fails reports it once')
    }
  }
)

t.test('never more connections than allowed, in first-come order', async t => {
  const waiting: RawConnection[] = []
  let most = 0
  const { upstream, send } = await setup(
    t,
    async (connection, upstream) => {
      for (let request = await connection.request(); request !== null; request = await connection.request()) {
        upstream.requests.push(request)
        waiting.push(connection)
        most = Math.max(most, waiting.length)
      }
    },
    { connections: 3 }
  )
  const responders = Array.from({ length: 20 }, (_, at) => send(`/${at}`, { clientAddress: `203.0.113.${at}` }))
  let answered = 0
  while (answered < 20) {
    const connection = waiting.shift()
    if (connection !== undefined) {
      answered++
      connection.send(ANSWER)
    }
    await turns(1)
  }
  await Promise.all(
    responders.map(async responder => {
      await responder.done
    })
  )
  t.ok(responders.every(responder => responder.status === 200 && responder.ended))
  t.equal(upstream.connections.length, 3)
  t.ok(most <= 3)
  const order = upstream.requests.map(request => Number(/^GET \/(\d+)/.exec(request.head)?.[1]))
  // Three are in flight and may arrive in another order than they were sent.
  t.ok(
    order.every((number, at) => Math.abs(number - at) < 3),
    order.join(' ')
  )
})

t.test('requests that left while they waited cost nothing, and those behind them are served', async t => {
  const first = Promise.withResolvers<RawConnection>()
  const { upstream, forwarder, send } = await setup(
    t,
    async (connection, upstream) => {
      for (let request = await connection.request(); request !== null; request = await connection.request()) {
        if (upstream.requests.push(request) === 1) first.resolve(connection)
        else connection.send(ANSWER)
      }
    },
    { connections: 1 }
  )
  const running = send('/running')
  const connection = await first.promise
  const left = Array.from({ length: 1000 }, (_, at) => send(`/left${at}`))
  const last = send('/last')
  for (const responder of left) responder.leave()
  t.equal(forwarder.load.requests, 2)
  connection.send(ANSWER)
  await running.done
  await last.done
  t.equal(last.status, 200)
  t.same(
    upstream.requests.map(request => request.head.split(' ')[1]),
    ['/running', '/last']
  )
})

t.test('an answer before the end of the upload is passed on, and the connection is not used again', async t => {
  const { upstream, send } = await setup(t, async (connection, upstream) => {
    const head = await connection.head()
    if (head?.startsWith('POST') === true) connection.send('HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno')
    else connection.send(ANSWER)
    upstream.requests.push({ head: head ?? '', body: Buffer.alloc(0), framed: Buffer.alloc(0) })
  })
  for (const [length, headers] of [
    [1000, ['Content-Length', '1000']],
    [null, ['Transfer-Encoding', 'chunked']]
  ] as const) {
    const before = upstream.connections.length
    const body = new Readable({
      read() {
        /* never ends */
      }
    })
    body.push('hello')
    const responder = send('/', { method: 'POST', headers: ['Host', 'x', ...headers], body: bodyOf(body, length) })
    await responder.done
    t.equal(responder.status, 413)
    t.equal(responder.body, 'no')
    t.ok(responder.ended)
    await upstream.connections[before]?.closed
    t.ok(body.destroyed, 'the body is no longer read')
    const next = send('/next')
    await next.done
    t.equal(next.status, 200)
    t.equal(upstream.connections.length, before + 2)
    upstream.connections[before + 1]?.end()
    await turns()
  }
})

t.test('the head of an upload does not wait for the first piece', async t => {
  const { upstream, send } = await setup(t, async (connection, upstream) => {
    const head = await connection.head()
    upstream.requests.push({ head: head ?? '', body: Buffer.alloc(0), framed: Buffer.alloc(0) })
    connection.send(ANSWER)
  })
  const body = new Readable({
    read() {
      /* nothing yet */
    }
  })
  const responder = send('/', { method: 'POST', headers: ['Host', 'x', 'Content-Length', '5'], body: bodyOf(body, 5) })
  await responder.done
  t.equal(responder.status, 200)
  t.match(upstream.requests[0]?.head, /content-length: 5/)
})

t.test('a body that is longer or shorter than it said, or breaks off, goes no further', async t => {
  for (const [name, chunks, more] of [
    ['longer', ['hello', 'GET /smuggled HTTP/1.1\r\n\r\n'], false],
    ['shorter', ['hell'], false],
    ['broken off', ['he'], true]
  ] as ReadonlyArray<readonly [string, readonly string[], boolean]>) {
    let received = ''
    const { upstream, send } = await setup(t, connection => {
      connection.socket.on('data', piece => {
        received += piece.toString('latin1')
      })
    })
    const body = new Readable({
      read() {
        /* pushed below */
      }
    })
    const responder = send('/', {
      method: 'POST',
      headers: ['Host', 'x', 'Content-Length', '5'],
      body: bodyOf(body, 5)
    })
    for (const chunk of chunks) {
      body.push(chunk)
      await turns()
    }
    if (more) body.destroy()
    else body.push(null)
    await responder.done
    t.equal(responder.failure?.status, 502, name)
    await upstream.connections[0]?.closed
    t.notMatch(received, /smuggled/, name)
    t.equal(received.slice(received.indexOf('\r\n\r\n') + 4), chunks[0], name)
  }
})

t.test('an empty stream without a length is an empty body', async t => {
  const { upstream, send } = await setup(t, answering(ANSWER))
  const responder = send('/', {
    method: 'POST',
    headers: ['Host', 'x', 'Transfer-Encoding', 'chunked'],
    body: bodyOf(Readable.from([], { objectMode: false }))
  })
  await responder.done
  t.equal(responder.status, 200)
  t.equal(upstream.requests[0]?.body.byteLength, 0)
})

t.test('HEAD, and bodies of methods that have none, close their connection', async t => {
  const { upstream, send } = await setup(t, answering('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'))
  for (const [method, body] of [
    ['HEAD', null],
    ['GET', 'x'],
    ['DELETE', 'x'],
    ['POST', 'x'],
    ['GET', null]
  ] as const) {
    const responder = send('/', { method, body: bodyOf(body) })
    await responder.done
    t.equal(responder.status, 200)
    await turns()
  }
  t.same(
    upstream.requests.map(request => /connection: (\S+)/.exec(request.head)?.[1]),
    ['close', 'close', 'close', 'keep-alive', 'keep-alive']
  )
  t.equal(upstream.connections.length, 4)
})

t.test('an idle connection is let go when its time is over, or before the upstream would', async t => {
  for (const [hint, allowed] of [
    ['', 4000],
    ['Keep-Alive: timeout=3\r\n', 1000],
    ['Keep-Alive: timeout=60\r\n', 4000],
    ['Keep-Alive: timeout=2\r\n', 0]
  ] as const) {
    const clock = new ManualClock()
    const { upstream, send } = await setup(
      t,
      answering(`HTTP/1.1 200 OK\r\n${hint}Content-Length: 1\r\n\r\na`),
      {},
      clock
    )
    await send().done
    await turns()
    if (allowed > 0) {
      clock.advance(allowed - 300)
      await turns()
      t.equal(upstream.connections[0]?.socket.closed, false, `${hint} after ${allowed - 300} ms`)
      clock.advance(300)
    }
    await upstream.connections[0]?.closed
    t.pass(`${hint} after ${allowed} ms`)
  }
})

t.test('a connection to a name is used for a minute, so that its later addresses are found', async t => {
  for (const [host, connections] of [
    ['localhost', 2],
    ['127.0.0.1', 1]
  ] as const) {
    const upstream = await RawUpstream.serve(ANSWER).listen()
    const clock = new ManualClock()
    const forwarder = forwarderTo(t, upstream, clock)
    const route = await forwarder.open(upstreamConfig(upstream.origin.replace('127.0.0.1', host)))
    for (let second = 0; second < 64; second++) {
      const responder = sent(forwarder, route)
      await responder.done
      t.equal(responder.status, 200)
      clock.advance(1000)
    }
    t.equal(upstream.connections.length, connections, host)
  }
})

t.test('a retired pool finishes what runs and what waits, then closes its connections', async t => {
  const first = Promise.withResolvers<RawConnection>()
  const { upstream, route, send } = await setup(
    t,
    async (connection, upstream) => {
      for (let request = await connection.request(); request !== null; request = await connection.request()) {
        if (upstream.requests.push(request) === 1) first.resolve(connection)
        else connection.send(ANSWER)
      }
    },
    { connections: 1 }
  )
  const running = send('/running')
  const waiting = send('/waiting')
  const connection = await first.promise
  let closed = false
  route.upstream.pool.close(() => {
    closed = true
  })
  const late = send('/late')
  await late.done
  t.equal(late.failure?.status, 502, 'nothing new is taken')
  await turns()
  t.equal(closed, false)
  connection.send(ANSWER)
  await running.done
  await waiting.done
  t.equal(running.status, 200)
  t.equal(waiting.status, 200)
  await upstream.connections[0]?.closed
  t.equal(closed, true)
})

t.test('the end of the gateway ends what runs, what waits and what is being opened', async t => {
  const { upstream, forwarder, send } = await setup(
    t,
    async connection => {
      await connection.request()
    },
    { connections: 1 }
  )
  const running = send()
  await until(() => upstream.connections.length > 0)
  await turns()
  const waiting = send()
  await forwarder.close()
  for (const responder of [running, waiting]) {
    await responder.done
    t.equal(responder.failure?.status, 502)
  }
  await upstream.connections[0]?.closed
  const other = await setup(t, async connection => {
    await connection.request()
  })
  const opening = other.send()
  await turns(1)
  await other.forwarder.close()
  await opening.done
  t.equal(opening.failure?.status, 502)
  await turns()
  await other.upstream.connections[0]?.closed
  t.pass('a connection that opens after the end is closed')
})

t.test('an upstream whose answer ends while the client does not read is still handed over whole', async t => {
  for (const framing of ['Content-Length: 300000\r\n', '']) {
    const { upstream, send } = await setup(t, async connection => {
      await connection.request()
      connection.send(`HTTP/1.1 200 OK\r\n${framing}\r\n${'a'.repeat(300_000)}`)
      connection.end()
    })
    const responder = send()
    responder.flowing = false
    await responder.wrote
    await turns()
    // One piece at a time.
    while (!responder.ended) {
      responder.onDrain?.()
      await turns(1)
    }
    t.equal(responder.bytes, 300_000)
    t.equal(responder.error, null)
    await upstream.connections[0]?.closed
  }
})

t.test('many concurrent requests over few connections get each its own response', async t => {
  const { upstream, send } = await setup(
    t,
    connection => {
      let text = ''
      connection.socket.on('data', piece => {
        text += piece.toString('latin1')
        for (let end = text.indexOf('\r\n\r\n'); end >= 0; end = text.indexOf('\r\n\r\n')) {
          const path = text.split(' ')[1] ?? ''
          text = text.slice(end + 4)
          const body = path.repeat((Number(path.slice(1)) % 7) * 1000 + 1)
          connection.send(
            Number(path.slice(1)) % 2 === 0
              ? `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`
              : `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
          )
        }
      })
    },
    { connections: 5 }
  )
  const responders = Array.from({ length: 300 }, (_, at) => send(`/${at}`))
  await Promise.all(
    responders.map(async responder => {
      await responder.done
    })
  )
  for (const [at, responder] of responders.entries()) {
    if (responder.body !== `/${at}`.repeat((at % 7) * 1000 + 1)) t.fail(`request ${at} got another answer`)
  }
  t.ok(upstream.connections.length <= 5)
})

t.test('an upstream that resets during the upload is a fault, and the body is let go', async t => {
  const { send } = await setup(t, async connection => {
    await connection.head()
    connection.reset()
  })
  const body = new Readable({
    read() {
      this.push(Buffer.alloc(1000))
    }
  })
  const responder = send('/', {
    method: 'POST',
    headers: ['Host', 'x', 'Transfer-Encoding', 'chunked'],
    body: bodyOf(body)
  })
  await responder.done
  t.equal(responder.failure?.status, 502)
  t.equal(responder.failure?.members?.['details'], 'the upstream closed the connection')
  if (!body.closed) await once(body, 'close')
  t.ok(body.destroyed)
})

t.test(
  'a handler that pauses and resumes while it is handed something gets its own answer, and so does the next',
  async t => {
    const upstream = await new RawUpstream(answering(ANSWER)).listen()
    const url = new URL(upstream.origin)
    const pool = new ConnectionPool(new Dialer(url, null, { tls: null, timeout: 5000 }), url.host, 1)
    t.teardown(async () => {
      pool.destroy()
      await upstream.close()
    })
    const ignore = () => undefined
    const turnOver = (controller: CallController) => {
      controller.pause()
      controller.resume()
    }
    const answers = await Promise.all(
      Array.from(
        { length: 6 },
        (_, at) =>
          new Promise<string>((resolve, reject) => {
            let body = ''
            pool.dispatch(
              { method: 'GET', path: `/${at}`, headers: [], body: null },
              {
                over: false,
                client: '',
                stalledTicks: 0,
                giveUp: ignore,
                onRequestStart: ignore,
                onBodySent: ignore,
                onRequestSent: ignore,
                onResponseStart: turnOver,
                onResponseData(controller, piece) {
                  body += String.fromCharCode(...piece)
                  turnOver(controller)
                },
                onResponseEnd() {
                  resolve(body)
                },
                onResponseError(_, error) {
                  reject(error)
                }
              }
            )
          })
      )
    )
    t.same(answers, ['a', 'a', 'a', 'a', 'a', 'a'])
    t.equal(upstream.connections.length, 1)
  }
)
