import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { Context } from '../../../src/engine/message/context.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { arrival, arrivals, doors, reply, replyError, watchWire } from './support.ts'

const get = (target = '/', ...lines: string[]) =>
  `GET ${target} HTTP/1.1\r\nHost: a\r\n${lines.map(line => `${line}\r\n`).join('')}\r\n`

t.test('a response is sent as given, with a date', async t => {
  const { client, ctx, wire, watch, next } = await arrival(t, get('/x', 'X-Correlation-Id: mine'))
  t.ok(ctx instanceof Context)
  t.equal(ctx.correlationId, 'mine')
  t.equal(ctx.peerAddress, '127.0.0.1')
  t.equal(ctx.clientAddress, '127.0.0.1')
  t.equal(ctx.secure, doors.tls)
  wire.head(200, ['X-One', '1', 'x-one', '2', 'Set-Cookie', 'a', 'Set-Cookie', 'b', 'Content-Length', '2'])
  wire.end('hi', null)
  const response = await client.response()
  t.strictSame(response.headers.slice(0, 10), [
    'X-One',
    '1',
    'x-one',
    '2',
    'Set-Cookie',
    'a',
    'Set-Cookie',
    'b',
    'Content-Length',
    '2'
  ])
  t.ok(response.header('date'))
  t.equal(response.body, 'hi')
  t.equal(await watch.closed, true)
  t.equal(wire.bytesOut, 2)
  wire.end('again', null)
  wire.destroy()
  client.send(get())
  reply((await next()).wire, 200, 'b')
  t.equal((await client.response()).body, 'b', 'calls after the end are ignored')
  t.strictSame(watch.closes, [true], 'close is reported once')
})

t.test('a client behind a trusted proxy is seen past it', async t => {
  const { ctx, wire } = await arrival(t, get('/', 'X-Forwarded-For: 203.0.113.9', 'X-Forwarded-Proto: https'), {
    trustedProxies: ['127.0.0.0/8']
  })
  t.equal(ctx.peerAddress, '127.0.0.1')
  t.equal(ctx.clientAddress, '203.0.113.9')
  t.equal(ctx.secure, true)
  reply(wire, 200, '')
})

t.test('forwarding headers of an untrusted client are ignored', async t => {
  const { ctx, wire } = await arrival(t, get('/', 'X-Forwarded-For: 203.0.113.9', 'X-Forwarded-Proto: https'))
  t.equal(ctx.clientAddress, '127.0.0.1')
  t.equal(ctx.secure, doors.tls)
  reply(wire, 200, '')
})

t.test('an answer of unknown length is chunked to HTTP/1.1, with its trailers', async t => {
  const { client, wire, next } = await arrival(t, get())
  wire.head(200, ['Trailer', 'X-Sum', 'Transfer-Encoding', 'gzip', 'Connection', 'X-A'])
  wire.write(Buffer.from('ab'))
  wire.end(Buffer.from('c'), ['X-Sum', '3'])
  const response = await client.response()
  t.equal(response.header('transfer-encoding'), 'chunked')
  t.equal(response.header('connection'), 'keep-alive')
  t.equal(response.body, 'abc')
  t.strictSame(response.trailers, ['X-Sum', '3'])
  t.equal(wire.bytesOut, 3)
  client.send(get())
  const last = (await next()).wire
  watchWire(last)
  last.head(200, ['Connection', 'X-A, Close', 'Content-Length', '0'])
  last.end(null, null)
  t.equal((await client.response()).header('connection'), 'close')
})

t.test('a body of one piece keeps its bytes, whether its length is known, it is chunked, or more follows', async t => {
  const { door, next } = await arrivals(t)
  const client = await door.connect()
  const every = Buffer.from(Array.from({ length: 256 }, (_, at) => at))
  const cases: readonly (readonly [readonly string[], readonly Buffer[], Buffer | null])[] = [
    [['Content-Length', '256'], [every], null],
    [[], [every], null],
    [['Content-Length', '512'], [every], every],
    [['Content-Length', '768'], [every, every, every], null],
    [['Content-Length', '20000'], [Buffer.alloc(20_000, 0xe9)], null]
  ]
  for (const [headers, pieces, last] of cases) {
    client.send(get())
    const { wire } = await next()
    const watch = watchWire(wire)
    const all = Buffer.concat(last === null ? pieces : [...pieces, last])
    wire.head(200, ['X-Latin', '\u00e9', ...headers])
    for (const piece of pieces) wire.write(piece)
    wire.end(last, null)
    const response = await client.response()
    t.equal(response.header('x-latin'), '\u00e9')
    t.equal(response.body, all.toString('latin1'))
    t.equal(wire.bytesOut, all.byteLength)
    t.equal(await watch.closed, true)
  }
})

t.test('a first piece does not wait for the second', async t => {
  const { client, wire } = await arrival(t, get())
  wire.head(200, ['Content-Length', '4'])
  wire.write(Buffer.from('ab'))
  await client.until('\r\n\r\nab')
  wire.write(Buffer.from('cd'))
  wire.end(null, null)
  t.equal((await client.response()).body, 'abcd')
})

t.test('an answer of unknown length to HTTP/1.0 ends with the connection', async t => {
  const { client, wire } = await arrival(
    t,
    'GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTE: chunked\r\n\r\n'
  )
  wire.head(200, ['Trailer', 'X-Sum'])
  wire.write(Buffer.from('ab'))
  wire.end(null, ['X-Sum', '3'])
  t.equal((await client.ending()).how, 'end')
  const response = await client.response()
  t.equal(response.header('transfer-encoding'), undefined)
  t.equal(response.header('trailer'), undefined)
  t.equal(response.header('connection'), 'close')
  t.equal(response.body, 'ab')
})

t.test('a head that is refused does not close the connection', async t => {
  const { client, wire } = await arrival(t, 'GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n')
  t.throws(() => {
    wire.head(200, ['Connection', 'close', 'X', 'a\r\nb: c'])
  })
  reply(wire, 500, 'x')
  t.equal((await client.response()).header('connection'), 'keep-alive')
})

t.test('HEAD, 204, 304 and 205 have no body', async t => {
  const { door, next } = await arrivals(t)
  const client = await door.connect()
  const cases: readonly (readonly [string, number, readonly string[], string | undefined])[] = [
    ['HEAD', 200, ['Content-Length', '7', 'Trailer', 'X-A'], '7'],
    ['HEAD', 200, ['Trailer', 'X-A'], undefined],
    ['GET', 204, ['Content-Length', '0'], undefined],
    ['GET', 304, ['Content-Length', '7'], '7'],
    ['GET', 205, [], '0']
  ]
  for (const [method, status, headers, length] of cases) {
    client.send(`${method} / HTTP/1.1\r\nHost: a\r\n\r\n`)
    const { wire } = await next()
    watchWire(wire)
    wire.head(status, [...headers])
    if (status !== 205) {
      t.equal(wire.write(Buffer.from('ignored')), true)
      wire.end('ignored', ['X-A', 'b'])
    } else {
      wire.end(null, null)
    }
    const response = await client.response(method)
    t.equal(response.status, status)
    t.equal(response.header('content-length'), length, `${method} ${status}`)
    t.equal(response.header('transfer-encoding'), undefined)
    t.equal(wire.bytesOut, 0)
    t.equal(client.unparsed, '')
  }
})

t.test('a head is sent before its body, and chunks as they arrive', async t => {
  const { client, wire } = await arrival(t, get())
  wire.head(200, ['Content-Type', 'text/event-stream'])
  await client.until('\r\n\r\n')
  t.match(client.received, /^HTTP\/1\.1 200 OK\r\n/)
  wire.write(Buffer.from('data: 1\n\n'))
  await client.until('data: 1')
  wire.write(Buffer.from('data: 2\n\n'))
  await client.until('data: 2')
  wire.end(null, null)
  t.equal((await client.response()).body, 'data: 1\n\ndata: 2\n\n')
})

t.test('102 and 103 are passed on to HTTP/1.1 alone', async t => {
  const { door, client, wire, next } = await arrival(t, get())
  wire.interim(102, [])
  wire.interim(103, ['Link', '</a.css>; rel=preload', 'X-B', 'c'])
  wire.interim(101, ['Upgrade', 'x'])
  t.throws(() => {
    wire.interim(103, ['X', 'a\r\nb: c'])
  })
  reply(wire, 200, 'x')
  wire.interim(103, [])
  t.equal((await client.response()).status, 102)
  const hint = await client.response()
  t.equal(hint.status, 103)
  t.strictSame(hint.headers, ['Link', '</a.css>; rel=preload', 'X-B', 'c'])
  t.equal((await client.response()).status, 200)
  const old = await door.connect()
  old.send('GET / HTTP/1.0\r\nHost: a\r\n\r\n')
  const second = await next()
  second.wire.interim(103, [])
  reply(second.wire, 200, 'x')
  t.equal((await old.response()).status, 200)
})

t.test('a client that does not read holds the writer back until it reads', async t => {
  const { door, next } = await arrivals(t)
  const client = await door.connect()
  client.socket.pause()
  client.send(get())
  const { wire } = await next()
  const watch = watchWire(wire)
  wire.head(200, [])
  const piece = Buffer.alloc(256 * 1024, 'x')
  let pieces = 0
  do pieces++
  while (wire.write(piece) && pieces < 1000)
  t.ok(pieces < 1000, `held back after ${pieces} pieces`)
  t.equal(watch.drains, 0)
  const drained = watch.drained()
  client.socket.resume()
  await drained
  wire.end(null, null)
  t.equal((await client.response()).body.length, pieces * piece.length)
  t.equal(await watch.closed, true)
})

t.test('a client that leaves is noticed before the answer', async t => {
  for (const leave of ['end', 'reset'] as const) {
    const { client, wire, watch } = await arrival(t, get())
    if (leave === 'end') client.socket.destroy()
    else if (doors.tls) client.socket.destroy()
    else client.socket.resetAndDestroy()
    t.equal(await watch.closed, false, leave)
    t.equal(wire.gone, true)
    wire.head(200, [])
    t.equal(wire.write(Buffer.from('x')), true, 'writes to a closed connection do not wait')
    wire.end(null, null)
    t.equal(wire.bytesOut, 0)
    t.strictSame(watch.closes, [false])
  }
})

t.test('a client that leaves in the middle of the answer is noticed', async t => {
  const { client, wire, watch } = await arrival(t, get())
  wire.head(200, [])
  wire.write(Buffer.from('x'))
  await client.until('x\r\n')
  client.close()
  t.equal(await watch.closed, false)
})

t.test('an answer that is broken off is an error for the client, also without a length on HTTP/1.0', async t => {
  for (const version of ['1.0', '1.1']) {
    const { client, wire, watch } = await arrival(t, `GET / HTTP/${version}\r\nHost: a\r\n\r\n`)
    wire.head(200, [])
    wire.write(Buffer.from('half'))
    await client.until('half')
    wire.destroy()
    // TLS shows it by the missing close_notify, which Node's client does not report.
    t.equal((await client.ending()).how, doors.tls ? 'end' : 'ECONNRESET')
    t.equal(await watch.closed, false)
    wire.destroy()
    t.strictSame(watch.closes, [false])
  }
})

t.test('a body is read once, collected or streamed, and only on demand', async t => {
  const { client, ctx, wire, next } = await arrival(t, 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc')
  t.equal(ctx.body.length, 6)
  t.equal(ctx.body.received, 0)
  t.equal(ctx.body.collected, null)
  const bytes = ctx.body.bytes()
  t.equal(ctx.body.bytes(), bytes, 'the same promise')
  t.throws(() => ctx.body.stream(), { message: 'the request body is already being read' })
  client.send('def')
  t.equal(Buffer.from(await bytes).toString(), 'abcdef')
  t.equal(ctx.body.received, 6)
  for (let time = 0; time < 2; time++) {
    const again = await ctx.body.stream().toArray()
    t.equal(Buffer.concat(again).toString(), 'abcdef', 'a collected body can be streamed repeatedly')
  }
  reply(wire, 200, '')
  await client.response()
  client.send('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n')
  const second = await next()
  t.equal(second.ctx.body.length, null)
  t.equal(Buffer.concat(await second.ctx.body.stream().toArray()).toString(), 'abc')
  await t.rejects(second.ctx.body.bytes(), { message: 'the request body is already being read' })
  reply(second.wire, 200, '')
  client.send(get())
  const third = await next()
  t.equal(third.ctx.body.length, 0)
  t.equal((await third.ctx.body.bytes()).byteLength, 0)
  t.strictSame(await third.ctx.body.stream().toArray(), [])
  reply(third.wire, 200, '')
})

t.test('a body over the limit is refused, announced or not, collected or streamed', async t => {
  const { door, next } = await arrivals(t)
  const bodies: readonly (readonly [string, string])[] = [
    ['Content-Length: 5', 'abcde'],
    ['Transfer-Encoding: chunked', '5\r\nabcde\r\n0\r\n\r\n']
  ]
  for (const [framing, bytes] of bodies) {
    for (const way of ['bytes', 'stream'] as const) {
      const client = await door.connect()
      client.send(`POST / HTTP/1.1\r\nHost: a\r\n${framing}\r\n\r\n${bytes}`)
      const { ctx, wire } = await next()
      ctx.body.limit = 4
      const reading: Promise<unknown> = way === 'bytes' ? ctx.body.bytes() : ctx.body.stream().toArray()
      await t.rejects(reading, { name: 'PayloadTooLarge', status: 413 }, `${framing}, ${way}`)
      await reading.catch((error: unknown) => {
        replyError(ctx, wire, error)
      })
      t.equal((await client.response()).status, 413)
      const exact = await door.connect()
      exact.send(`POST / HTTP/1.1\r\nHost: a\r\n${framing}\r\n\r\n${bytes}`)
      const good = await next()
      good.ctx.body.limit = 5
      if (way === 'bytes') t.equal((await good.ctx.body.bytes()).byteLength, 5)
      else t.equal(Buffer.concat(await good.ctx.body.stream().toArray()).byteLength, 5)
      reply(good.wire, 200, '')
    }
  }
})

t.test('no 100 is sent before the body is wanted, nor for one that is too large', async t => {
  const { door, next } = await arrivals(t)
  const expecting = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n'
  const refused = await door.connect()
  refused.send(expecting)
  const first = await next()
  t.equal(first.ctx.expectsContinue, true)
  reply(first.wire, 402, 'pay')
  const answer = await refused.response()
  t.equal(answer.status, 402, '402 before any 100')
  t.equal(answer.header('connection'), 'close', 'whether the body comes is not known')
  t.equal((await refused.ending()).how, 'end')
  const large = await door.connect()
  large.send(expecting)
  const second = await next()
  second.ctx.body.limit = 4
  await second.ctx.body.bytes().catch((error: unknown) => {
    replyError(second.ctx, second.wire, error)
  })
  t.equal((await large.response()).status, 413, '413 before any 100')
  const streamed = await door.connect()
  streamed.send(expecting)
  const third = await next()
  const pieces = third.ctx.body.stream().toArray()
  t.equal((await streamed.response()).status, 100)
  streamed.send('abcde')
  t.equal(Buffer.concat(await pieces).toString(), 'abcde')
  reply(third.wire, 200, '')
  t.equal((await streamed.response()).status, 200)
})

t.test('a client that leaves during its upload ends the reading', async t => {
  const { door, next } = await arrivals(t)
  for (const way of ['bytes', 'stream'] as const) {
    const client = await door.connect()
    client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc')
    const { ctx, wire } = await next()
    const watch = watchWire(wire)
    const reading: Promise<unknown> = way === 'bytes' ? ctx.body.bytes() : ctx.body.stream().toArray()
    client.close()
    await t.rejects(reading, { name: 'ClientGone' }, way)
    t.equal(await watch.closed, false)
    await t.rejects(
      ctx.body.bytes(),
      way === 'bytes' ? { name: 'ClientGone' } : { message: 'the request body is already being read' }
    )
  }
})

t.test('a stream without listeners survives the client that leaves', async t => {
  const { client, ctx, watch } = await arrival(t, 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc')
  const stream = ctx.body.stream()
  client.close()
  t.equal(await watch.closed, false)
  t.match(stream.errored, { name: 'ClientGone' })
})

t.test('a slow reader of the body holds the client back', async t => {
  const { door, next } = await arrivals(t)
  const client = await door.connect()
  const size = 32 * 1024 * 1024
  client.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${size}\r\n\r\n`)
  client.send(Buffer.alloc(size, 'x'))
  const { ctx, wire } = await next()
  const stream = ctx.body.stream()
  await new Promise(resolve => {
    stream.once('readable', resolve)
  })
  const early = ctx.body.received
  t.ok(early < size / 4, `${early} bytes were taken before the first read`)
  let read = 0
  for await (const piece of stream) read += (piece as Buffer).byteLength // a byte stream gives buffers
  t.equal(read, size)
  reply(wire, 200, 'done')
  t.equal((await client.response()).body, 'done')
})

t.test('an early answer reaches a client that is still uploading, and the rest is not taken', async t => {
  const clock = new ManualClock()
  const { door, next } = await arrivals(t, { clock })
  const client = await door.connect()
  client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1073741824\r\n\r\n')
  client.send(Buffer.alloc(1024 * 1024, 'x'))
  const { ctx, wire } = await next()
  const watch = watchWire(wire)
  reply(wire, 402, 'pay first')
  const response = await client.response()
  t.equal(response.status, 402)
  t.equal(response.body, 'pay first')
  t.equal(response.header('connection'), 'close')
  t.equal((await client.ending()).how, 'end', 'no reset drops the response')
  t.equal(await watch.closed, true)
  const failed = new Promise(resolve => {
    client.socket.once('error', resolve)
  })
  client.send(Buffer.alloc(16 * 1024 * 1024, 'x'))
  clock.advance(4000)
  await failed
  t.ok(ctx.body.received < 1024 * 1024, `${ctx.body.received} bytes were taken`)
})

t.test('a small rest of an upload is drained and the connection used again', async t => {
  const { client, wire, next } = await arrival(t, 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n')
  reply(wire, 402, 'pay first')
  const response = await client.response()
  t.equal(response.header('connection'), 'keep-alive')
  client.send(`${'x'.repeat(1000)}${get('/2')}`)
  const second = await next()
  t.equal(second.ctx.target, '/2')
  reply(second.wire, 200, 'b')
  t.equal((await client.response()).body, 'b')
})

t.test('a malformed body ends its reader, and is answered with 400', async t => {
  const { client, ctx, wire } = await arrival(
    t,
    'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n'
  )
  const stream = ctx.body.stream()
  const reading = stream.toArray()
  client.send('zz\r\n')
  await t.rejects(reading, { name: 'MalformedBody', status: 400 })
  await reading.catch((error: unknown) => {
    replyError(ctx, wire, error)
  })
  const response = await client.response()
  t.equal(response.status, 400)
  t.equal(response.header('connection'), 'close')
})

t.test('bytes that an upstream sends after a 205 without a length are not read as the next response', async t => {
  const { door, next } = await arrivals(t)
  const client = await door.connect()
  const evil = Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil')
  for (const size of [evil.length, 40_000]) {
    client.send(get('/first'))
    const { wire } = await next()
    const watch = watchWire(wire)
    wire.head(205, ['Trailer', 'X-Sum'])
    wire.write(evil)
    await setImmediate()
    wire.write(Buffer.alloc(size, evil))
    wire.end(Buffer.from('last'), ['X-Sum', '1'])
    const first = await client.response()
    t.equal(first.status, 205)
    t.equal(first.header('content-length'), '0')
    t.equal(first.header('trailer'), undefined)
    t.equal(await watch.closed, true)
    t.equal(wire.bytesOut, 0)
    client.send(get('/second'))
    reply((await next()).wire, 200, 'good')
    t.equal((await client.response()).body, 'good')
  }
})
