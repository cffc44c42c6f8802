import { Readable } from 'node:stream'
import t, { type Test as T } from 'tap'
import { PayloadTooLarge } from '../../../src/engine/operations/errors.ts'
import { Forwarder } from '../../../src/engine/upstream/forwarder.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { RawUpstream, type RawConnection } from '../../support/raw-upstream.ts'
import { ANSWERS, type AnswerVector } from './answers.ts'
import { bodyOf, contextOf, forwarderTo, RecordingResponder, sent, targetOf, upstreamConfig } from './harness.ts'
import { until } from '../../support/until.ts'

/** Plays a vector on every connection; a connection that is used again answers in a way that shows it. */
function player(vector: AnswerVector): (connection: RawConnection) => Promise<void> {
  return async connection => {
    if ((await connection.request()) === null) return
    for (const piece of vector.answer) await connection.flush(piece)
    if (vector.after === 'end') connection.end()
    if (vector.after === 'reset') connection.reset()
    if ((await connection.request()) !== null) connection.send('HTTP/1.1 299 Again\r\nContent-Length: 0\r\n\r\n')
  }
}

t.test('responses of upstreams reach the client as the rules say', async t => {
  const forwarder = new Forwarder({ clock: systemClock, production: false })
  t.teardown(async () => {
    await forwarder.close()
  })
  t.ok(ANSWERS.length >= 50, 'there are enough vectors')
  for (const vector of ANSWERS) {
    await t.test(`${vector.id} (${vector.clause})`, async t => {
      const upstream = await new RawUpstream(player(vector)).listen()
      t.teardown(async () => {
        await upstream.close()
      })
      const target = targetOf(upstream.origin, vector.target)
      const send = async () => {
        const responder = new RecordingResponder()
        void forwarder.forward(
          contextOf({ method: vector.method ?? 'GET', httpVersion: vector.httpVersion ?? '1.1' }),
          responder,
          target
        )
        await responder.done
        return responder
      }
      const responder = await send()
      const { expect = {} } = vector
      const end = expect.end ?? 'whole'
      t.equal(responder.error === null ? 'whole' : responder.status === 0 ? 'error' : 'break', end, 'how it ended')
      const wanted = expect.status ?? (end === 'error' ? 502 : 200)
      t.equal(responder.status === 0 ? responder.failure?.status : responder.status, wanted, 'status')
      const body = expect.body ?? (end === 'whole' ? 'a' : undefined)
      if (body !== undefined) t.equal(responder.body, body, 'body')
      for (const [name, values] of Object.entries(expect.has ?? {})) t.same(responder.headers.all(name), values, name)
      for (const name of expect.lacks ?? []) t.notOk(responder.headers.has(name), `no ${name}`)
      if (expect.trailers !== undefined) t.same(responder.trailers, expect.trailers, 'trailers')
      if (expect.interims !== undefined)
        t.same(
          responder.interims.map(interim => interim.status),
          expect.interims,
          'interim answers'
        )
      if (end === 'error') {
        const members = responder.failure?.members ?? {}
        t.same(Object.keys(members), ['error', 'message', 'proxy_id', 'details'], 'members')
        t.equal(members['error'], 'Bad gateway')
        if (expect.details !== undefined) t.match(members['details'], expect.details)
      }
      if (expect.retired === true || end !== 'whole') {
        await upstream.connections[0]?.closed
        const next = await send()
        t.not(next.status, 299, 'the connection was not used again')
        t.equal(upstream.connections.length, 2)
      }
    })
  }
})

t.test('a sound connection is used again, one of another tenant is not', async t => {
  const upstream = await RawUpstream.serve('HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na').listen()
  const forwarder = forwarderTo(t, upstream)
  for (const tenant of ['a', 'a', 'b', 'a']) {
    const responder = sent(forwarder, targetOf(upstream.origin, { tenant }))
    await responder.done
    // undici takes a connection back one turn after the answer.
    await new Promise<void>(resolve => {
      setImmediate(() => {
        setImmediate(resolve)
      })
    })
    t.equal(responder.status, 200)
  }
  t.equal(upstream.connections.length, 2)
})

t.test('no head in time is 504, and the upstream is let go', async t => {
  const upstream = await new RawUpstream(async connection => {
    await connection.request()
  }).listen()
  const clock = new ManualClock()
  const forwarder = forwarderTo(t, upstream, clock)
  const responder = sent(forwarder, targetOf(upstream.origin, { timeout: 5000 }))
  await until(() => upstream.connections.length > 0)
  clock.advance(4900)
  t.equal(responder.error, null, 'not before its time')
  clock.advance(400)
  await responder.done
  t.same(responder.failure, {
    status: 504,
    members: {
      error: 'Gateway timeout',
      message: 'The upstream did not answer in time.',
      proxy_id: 'p-1',
      details: 'no answer came in time'
    }
  })
  await upstream.connections[0]?.closed
  t.equal(forwarder.load.requests, 0)
})

t.test('silence in the middle of the answer breaks it off; a piece in time keeps it', async t => {
  let connection: RawConnection | undefined
  const upstream = await new RawUpstream(async it => {
    connection = it
    await it.request()
    await it.flush('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n')
  }).listen()
  const clock = new ManualClock()
  const forwarder = forwarderTo(t, upstream, clock)
  const responder = sent(forwarder, targetOf(upstream.origin, { timeout: 5000 }))
  await responder.headed
  clock.advance(4000)
  connection?.send('2\r\na\n\r\n')
  await responder.wrote
  t.equal(responder.body, 'a\n', 'the event was forwarded immediately')
  clock.advance(4000)
  t.equal(responder.error, null)
  clock.advance(1500)
  await responder.done
  t.ok(responder.error)
  t.notOk(responder.ended)
  await connection?.closed
})

t.test(
  'a client that leaves aborts the upstream immediately: before the head, in the body, and while it waits for a connection',
  async t => {
    for (const stage of ['head', 'body'] as const) {
      const upstream = await new RawUpstream(async connection => {
        await connection.request()
        if (stage === 'body') await connection.flush('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello')
      }).listen()
      // Its clock is paused: what ends the upstream's request is the leaving, and no timer.
      const forwarder = new Forwarder({ clock: new ManualClock(), production: false })
      const responder = sent(forwarder, targetOf(upstream.origin))
      if (stage === 'body') await responder.wrote
      else await until(() => upstream.connections.length > 0)
      responder.leave()
      await upstream.connections[0]?.closed
      t.equal(forwarder.load.requests, 0)
      await forwarder.close()
      await upstream.close()
    }
    const upstream = await RawUpstream.serve('HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na').listen()
    const forwarder = forwarderTo(t, upstream)
    const gone = sent(forwarder, targetOf(upstream.origin, { path: '/gone' }), { target: '/gone' })
    gone.leave()
    const next = sent(forwarder, targetOf(upstream.origin, { path: '/next' }))
    await next.done
    t.equal(next.status, 200)
    t.same(
      upstream.requests.map(request => request.head.split(' ')[1]),
      ['/next'],
      'the request of the client that left was never sent'
    )
  }
)

t.test('a client that does not read holds the upstream back', async t => {
  const piece = Buffer.alloc(64 * 1024, 0x61)
  const size = 200 * 1024 * 1024
  let written = 0
  const upstream = await new RawUpstream(async connection => {
    await connection.request()
    connection.send(`HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`)
    while (written < size) {
      written += piece.byteLength
      if (!connection.send(piece))
        await new Promise<void>(resolve => {
          connection.socket.once('drain', resolve)
        })
    }
  }).listen()
  const forwarder = forwarderTo(t, upstream)
  const responder = new RecordingResponder()
  responder.flowing = false
  responder.discard = true
  void forwarder.forward(contextOf(), responder, targetOf(upstream.origin, { responseLimit: Infinity }))
  await responder.wrote
  // Waits until the upstream stalls: nothing written in many turns of the loop.
  let before = -1
  while (before !== written) {
    before = written
    for (let turn = 0; turn < 200; turn++)
      await new Promise<void>(resolve => {
        setImmediate(resolve)
      })
  }
  t.ok(responder.bytes <= 256 * 1024, `only ${responder.bytes} bytes were taken`)
  t.ok(written < size / 4, `the upstream stopped at ${written} bytes`)
  t.notOk(responder.ended)
  responder.flowing = true
  responder.onDrain?.()
  await responder.done
  t.equal(responder.bytes, size, 'all of it came once the client read')
  t.ok(responder.ended)
})

t.test('time does not run against the upstream while the client does not read', async t => {
  const upstream = await RawUpstream.serve(
    `HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n${'a'.repeat(200_000)}`
  ).listen()
  const clock = new ManualClock()
  const forwarder = forwarderTo(t, upstream, clock)
  const responder = new RecordingResponder()
  responder.flowing = false
  void forwarder.forward(contextOf(), responder, targetOf(upstream.origin, { timeout: 1000 }))
  await responder.wrote
  clock.advance(60_000)
  t.equal(responder.error, null)
  responder.flowing = true
  responder.onDrain?.()
  await responder.done
  t.equal(responder.body.length, 200_000)
})

t.test('pieces that come while a hook still holds the head are kept in order', async t => {
  for (const then of ['whole', 'cut', 'reset'] as const) {
    let sent: () => void = () => {
      /* set below */
    }
    const all = new Promise<void>(resolve => {
      sent = resolve
    })
    const upstream = await new RawUpstream(async connection => {
      await connection.request()
      await connection.flush(
        `HTTP/1.1 200 OK\r\nConnection: close\r\n${then === 'reset' ? '' : 'Content-Length: 10\r\n'}\r\nhello`
      )
      await connection.flush(then === 'whole' ? ' worl' : ' w')
      // Lets the gateway's side take the bytes in before the reset drops them.
      for (let turn = 0; turn < 10; turn++)
        await new Promise<void>(resolve => {
          setImmediate(resolve)
        })
      if (then === 'reset') connection.reset()
      else connection.end()
      sent()
    }).listen()
    const forwarder = new Forwarder({ clock: systemClock, production: false })
    const responder = new RecordingResponder()
    let release: () => void = () => {
      /* set below */
    }
    responder.headDelay = new Promise(resolve => {
      release = resolve
    })
    void forwarder.forward(contextOf(), responder, targetOf(upstream.origin))
    await responder.headed
    // The upstream closes while the head is held.
    await all
    for (let turn = 0; turn < 20; turn++)
      await new Promise<void>(resolve => {
        setImmediate(resolve)
      })
    t.equal(responder.bytes, 0, 'nothing was written before the head')
    release()
    await responder.done
    // A reset may drop what was not read yet; what arrived is still in order.
    if (then === 'reset') t.ok('hello w'.startsWith(responder.body), responder.body)
    else t.equal(responder.body, then === 'whole' ? 'hello worl' : 'hello w')
    t.equal(responder.ended, then === 'whole')
    t.equal(responder.error === null, then === 'whole', then)
    await forwarder.close()
    await upstream.close()
  }
})

t.test('a refused connection is retried once for idempotent requests, and never for others', async t => {
  const closed = await RawUpstream.serve('').listen()
  await closed.close()
  for (const [method, body, attempts] of [
    ['GET', null, 2],
    ['DELETE', 'x', 2],
    ['POST', 'x', 1],
    ['PUT', Readable.from([Buffer.from('x')]), 1]
  ] as const) {
    const forwarder = new Forwarder({ clock: systemClock, production: false })
    const responder = new RecordingResponder()
    let requests = 0
    const addresses = forwarder.guard.addresses.bind(forwarder.guard)
    forwarder.guard.addresses = async host => {
      requests++
      return addresses(host)
    }
    void forwarder.forward(contextOf({ method, body: bodyOf(body) }), responder, targetOf(closed.origin))
    await responder.done
    t.equal(requests, attempts, `${method}: attempts`)
    t.equal(responder.failure?.status, 502)
    t.equal(responder.failure?.members?.['details'], 'connection refused')
    await forwarder.close()
  }
})

t.test('a body over the limit is answered as such, and the upstream is cut off', async t => {
  const upstream = await new RawUpstream(async connection => {
    await connection.request()
  }).listen()
  const forwarder = forwarderTo(t, upstream)
  const body = new Readable({
    read() {
      /* pushed below */
    }
  })
  const responder = sent(forwarder, targetOf(upstream.origin), { method: 'POST', body: bodyOf(body) })
  body.push('hello')
  await until(() => upstream.connections.length > 0)
  body.destroy(new PayloadTooLarge(4))
  await responder.done
  t.equal(responder.failure?.status, 413)
  await upstream.connections[0]?.closed
})

t.test('a body that fails while the request waits in line is answered and affects no other request', async t => {
  const upstream = await new RawUpstream(async connection => {
    await connection.request()
  }).listen()
  const forwarder = forwarderTo(t, upstream)
  const route = await forwarder.open(upstreamConfig(upstream.origin, { connections: 1 }))
  const first = sent(forwarder, route)
  const body = new Readable({
    read() {
      /* never comes */
    }
  })
  const responder = sent(forwarder, route, { method: 'POST', body: bodyOf(body) })
  body.destroy(new PayloadTooLarge(4))
  await responder.done
  t.equal(responder.failure?.status, 413)
  first.leave()
  t.equal(forwarder.load.requests, 0)
})

/** How a response ends whose client does not read for `pause` milliseconds, and whose upstream breaks off then. */
async function breakAfter(t: T, pause: number, responseLimit = Infinity) {
  let connection: RawConnection | undefined
  const upstream = await new RawUpstream(async it => {
    connection = it
    await it.request()
    await it.flush('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n')
  }).listen()
  const clock = new ManualClock()
  const forwarder = forwarderTo(t, upstream, clock)
  const responder = new RecordingResponder()
  responder.flowing = false
  void forwarder.forward(contextOf(), responder, targetOf(upstream.origin, { responseLimit }))
  await responder.wrote
  clock.advance(pause)
  responder.flowing = true
  responder.onDrain?.()
  if (responseLimit === Infinity) connection?.reset()
  else connection?.send(`64\r\n${'a'.repeat(100)}\r\n`)
  await responder.done
  return responder.error
}

t.test('an upstream that breaks off is to blame, unless it had to wait for its client', async t => {
  t.match(await breakAfter(t, 0), { status: 502 })
  t.match(await breakAfter(t, 800), { status: 502 }, 'a short pause')
  t.match(await breakAfter(t, 1100), { status: 499, cause: { code: 'ECONNRESET' } }, 'servers give up on slow clients')
  t.match(await breakAfter(t, 3000, 50), { status: 502 }, 'a body that is too large')
})

t.test('an upstream that breaks off in front of half a request is not to blame', async t => {
  const upstream = await new RawUpstream(async connection => {
    await connection.flush('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n')
  }).listen()
  const clock = new ManualClock()
  const forwarder = forwarderTo(t, upstream, clock)
  const body = new Readable({ read() {} })
  body.push('half')
  const responder = new RecordingResponder()
  const context = contextOf({ method: 'POST', body: bodyOf(body, 8) })
  void forwarder.forward(context, responder, targetOf(upstream.origin, { timeout: 5000 }))
  await responder.wrote
  clock.advance(6000)
  await responder.done
  t.match(responder.error, { status: 499 }, 'the upstream is silent because it waits for the rest')
})

t.test('a small paid body is sent whole or not at all', async t => {
  const upstream = await new RawUpstream(async connection => {
    await connection.request()
    await connection.flush('HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf')
    if ((await connection.request()) !== null) connection.end()
  }).listen()
  const clock = new ManualClock()
  const forwarder = forwarderTo(t, upstream, clock)
  const paid = contextOf()
  paid.payment = { scheme: 'payment', paymentHash: '00'.repeat(32), amountSats: 1 }
  const responder = new RecordingResponder()
  void forwarder.forward(paid, responder, targetOf(upstream.origin, { timeout: 5000 }))
  await until(() => upstream.connections.length > 0)
  clock.advance(4000)
  t.equal(responder.status, 0)
  clock.advance(2000)
  await responder.done
  t.equal(responder.status, 0, 'no head')
  t.match(responder.error, { status: 504 })
})
