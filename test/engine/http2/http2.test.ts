import { once } from 'node:events'
import { connect, constants, type ClientHttp2Stream, type OutgoingHttpHeaders } from 'node:http2'
import { connect as connectPlainly } from 'node:net'
import { connect as connectSecurely } from 'node:tls'
import t, { type Test as T } from 'tap'
import { PREFACE } from '../../../src/engine/http2/connection.ts'
import type { RequestBody } from '../../../src/engine/message/context.ts'
import type { Wire } from '../../../src/engine/message/wire.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import {
  certificateFiles,
  openDoor,
  reply,
  replyError,
  tlsOptions,
  watchWire,
  type Door,
  type DoorOptions
} from '../listener/support.ts'
import { until } from '../../support/until.ts'

function open(t: T, options: Partial<DoorOptions> & Pick<DoorOptions, 'handle'>) {
  return openDoor(t, { tls: tlsOptions(certificateFiles(['localhost'])), http2: true, ...options })
}

async function dial(t: T, url: string) {
  const session = connect(url, { rejectUnauthorized: false })
  t.teardown(() => {
    session.destroy()
  })
  await once(session, 'remoteSettings')
  return session
}

async function answerOf(stream: ClientHttp2Stream) {
  let trailers = {}
  stream.on('trailers', given => {
    trailers = given
  })
  const [headers] = (await once(stream, 'response')) as [Record<string, unknown>]
  let body = ''
  for await (const piece of stream.setEncoding('utf8')) body += String(piece)
  return { status: Number(headers[':status']), headers, trailers, body }
}

const secure = (door: Door) => `https://127.0.0.1:${door.port}`

t.test('HTTP/2: a request arrives as over HTTP/1.1, and its response goes back', async t => {
  const door = await open(t, {
    handle: (ctx, wire) => {
      void ctx.body.bytes().then(bytes => {
        reply(
          wire,
          201,
          JSON.stringify([
            ctx.method,
            ctx.target,
            ctx.host,
            ctx.secure,
            ctx.headers.get('cookie'),
            String(Buffer.from(bytes))
          ]),
          [
            'WWW-Authenticate',
            'L402 a',
            'WWW-Authenticate',
            'Payment b',
            'Connection',
            'close',
            'Transfer-Encoding',
            'chunked'
          ]
        )
        return null
      })
    }
  })
  const session = await dial(t, secure(door))
  for (const [headers, body] of [
    [{}, 'of a length it does not say'],
    [{ 'content-length': 5 }, 'bytes'],
    [{}, '']
  ] as const) {
    const stream = session.request(
      { ':method': 'POST', ':path': '/a?b=%20', ':authority': 'API.example', cookie: ['a=1', 'b=2'], ...headers },
      { endStream: body === '' }
    )
    if (body !== '') stream.end(body)
    const answer = await answerOf(stream)
    t.equal(answer.status, 201)
    t.same(JSON.parse(answer.body), ['POST', '/a?b=%20', 'api.example', true, 'a=1; b=2', body])
    t.same(answer.headers['www-authenticate'], 'L402 a, Payment b')
    t.equal(answer.headers['connection'], undefined)
    t.equal(answer.headers['transfer-encoding'], undefined)
  }
})

t.test('HTTP/2: the front door refuses what it refuses over HTTP/1.1', async t => {
  const door = await open(t, { handle: () => t.fail('must not be handled') })
  const session = await dial(t, secure(door))
  for (const [headers, status] of [
    [{ ':path': '/a/../b' }, 400],
    [{ ':path': '*', ':method': 'OPTIONS' }, 400],
    [{ ':method': 'TRACE' }, 405],
    [{ ':authority': 'a.example', host: 'b.example' }, 400],
    [{ 'x-api-key': ['a', 'b'] }, 400],
    [Object.fromEntries(Array.from({ length: 201 }, (_, index) => [`x-${index}`, '1'])), 431]
  ] satisfies [OutgoingHttpHeaders, number][]) {
    const answer = await answerOf(
      session.request({ ':path': '/', ':authority': 'a.example', ...headers }, { endStream: true })
    )
    t.equal(answer.status, status, JSON.stringify(headers).slice(0, 80))
    t.match(JSON.parse(answer.body), { error: String, message: String })
  }
  t.equal(door.refusals.length, 6)
})

t.test('HTTP/2: interim responses, streams and trailers pass; HEAD and 204 have no body', async t => {
  const door = await open(t, {
    handle: ({ path, method }, wire) => {
      watchWire(wire)
      if (path === '/204') {
        wire.head(204, [])
        wire.end(null, null)
        return
      }
      if (method === 'HEAD') {
        wire.head(200, ['Content-Length', '5'])
        wire.end(null, null)
        return
      }
      wire.interim(103, ['Link', '</a>'])
      wire.head(200, ['Trailer', 'x-sum'])
      wire.write(Buffer.from('one '))
      setImmediate(() => {
        wire.end('two', ['x-sum', '7'])
      })
    }
  })
  const session = await dial(t, secure(door))
  const stream = session.request({ ':path': '/' })
  const [hints] = (await once(stream, 'headers')) as [Record<string, unknown>]
  t.match(hints, { ':status': 103, link: '</a>' })
  t.match(await answerOf(stream), { status: 200, body: 'one two', trailers: { 'x-sum': '7' } })
  t.match(await answerOf(session.request({ ':path': '/204' })), { status: 204, body: '' })
  const head = await answerOf(session.request({ ':path': '/', ':method': 'HEAD' }))
  t.match(head, { status: 200, body: '', headers: { 'content-length': '5' } })
})

t.test('HTTP/2: an aborted response is a reset, and one that the client resets is not complete', async t => {
  const closes: Promise<boolean>[] = []
  const door = await open(t, {
    handle: ({ path }, wire) => {
      const watched = watchWire(wire)
      closes.push(watched.closed)
      wire.head(200, [])
      wire.write(Buffer.from('half'))
      if (path === '/abort') setImmediate(() => wire.destroy())
    }
  })
  const session = await dial(t, secure(door))
  const aborted = session.request({ ':path': '/abort' })
  await t.rejects(answerOf(aborted), { code: 'ERR_HTTP2_STREAM_ERROR' })
  t.equal(await closes[0], false)
  const left = session.request({ ':path': '/' })
  await once(left, 'response')
  left.close(constants.NGHTTP2_CANCEL)
  t.equal(await closes[1], false)
  t.equal((session as { destroyed: boolean }).destroyed, false, 'the connection stays usable')
})

t.test('HTTP/2: a response before the end of the upload resets the rest of it', async t => {
  const door = await open(t, {
    handle: (_ctx, wire) => {
      reply(wire, 402, 'pay')
    }
  })
  const session = await dial(t, secure(door))
  for (const [headers, status] of [
    [{}, 402],
    [{ 'content-length': '0' }, 402],
    [{ 'x-api-key': ['a', 'b'] }, 400]
  ] satisfies [OutgoingHttpHeaders, number][]) {
    const stream = session.request({ ':method': 'POST', ':path': '/', ...headers })
    const closed = once(stream, 'close')
    if (headers['content-length'] === undefined) stream.write('begin')
    t.match(await answerOf(stream), { status })
    await closed
    t.equal(stream.rstCode, constants.NGHTTP2_NO_ERROR)
  }
})

/** Node's client ends a stream before it resets it, others do not. */
function frame(type: number, flags: number, stream: number, body: Uint8Array = Buffer.alloc(0)) {
  const head = Buffer.alloc(9)
  head.writeUIntBE(body.length, 0, 3)
  head.writeUInt8(type, 3)
  head.writeUInt8(flags, 4)
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, body])
}

const [DATA, HEADERS, RST_STREAM, SETTINGS] = [0, 1, 3, 4]

/** POST of http at / and host a: of the static table, but the host. */
const POST_HEAD = Buffer.from([0x83, 0x86, 0x84, 0x41, 1, 0x61])

for (const how of ['whole', 'as a stream', 'late'] as const)
  t.test(`HTTP/2: an upload that breaks off is not complete when it is read ${how}`, async t => {
    for (const [why, last] of [
      ['NO_ERROR', frame(RST_STREAM, 0, 1, Buffer.from([0, 0, 0, 0]))],
      ['CANCEL', frame(RST_STREAM, 0, 1, Buffer.from([0, 0, 0, 8]))],
      ['the connection', null]
    ] as const) {
      const read = Promise.withResolvers<unknown>()
      const arrived = Promise.withResolvers<null>()
      const door = await openDoor(t, {
        tls: null,
        http2: true,
        trustedProxies: ['127.0.0.1'],
        handle: ({ body }, wire) => {
          const { closed } = watchWire(wire)
          const begin = (): Promise<unknown> => (how === 'as a stream' ? body.stream().toArray() : body.bytes())
          read.resolve(
            (how === 'late' ? closed.then(begin) : begin()).then(
              () => 'complete',
              (error: Error) => error.message
            )
          )
          arrived.resolve(null)
        }
      })
      const client = await door.connect()
      client.socket.write(
        Buffer.concat([
          PREFACE,
          frame(SETTINGS, 0, 0),
          frame(HEADERS, 4, 1, POST_HEAD),
          frame(DATA, 0, 1, Buffer.from('begin'))
        ])
      )
      await arrived.promise
      if (last === null) client.socket.destroy()
      else client.socket.write(last)
      t.equal(await read.promise, 'The client closed the connection.', why)
    }
  })

for (const how of ['reset', 'end', 'end over TLS'] as const)
  t.test(`HTTP/2: a client that leaves is noticed before its upload is read: ${how}`, async t => {
    const closed = Promise.withResolvers<boolean>()
    const door = await openDoor(t, {
      tls: how === 'end over TLS' ? tlsOptions(certificateFiles(['localhost'])) : null,
      http2: true,
      trustedProxies: ['127.0.0.1'],
      handle: (_ctx, wire) => {
        void watchWire(wire).closed.then(closed.resolve)
        if (how === 'reset') socket.write(frame(RST_STREAM, 0, 1, Buffer.from([0, 0, 0, 0])))
        else socket.end()
      }
    })
    const { port } = door
    const options = { port, host: '127.0.0.1', allowHalfOpen: true, rejectUnauthorized: false, ALPNProtocols: ['h2'] }
    const socket = how === 'end over TLS' ? connectSecurely(options) : connectPlainly(options)
    t.teardown(() => socket.destroy())
    socket.resume()
    const head = frame(HEADERS, 4, 1, POST_HEAD)
    socket.write(Buffer.concat([PREFACE, frame(SETTINGS, 0, 0), head, frame(DATA, 0, 1, Buffer.from('begin'))]))
    t.equal(await closed.promise, false)
  })

t.test(
  'HTTP/2: of uploads that are not read, those that wait longest are reset when memory for all is used up',
  async t => {
    const bodies: RequestBody[] = []
    const door = await openDoor(t, {
      tls: null,
      http2: true,
      trustedProxies: ['127.0.0.1'],
      limits: { buffers: 100_000 },
      handle: ({ body }, wire) => {
        watchWire(wire)
        bodies.push(body)
      }
    })
    const client = await door.connect()
    const begin = (stream: number): Buffer => frame(HEADERS, 4, stream, POST_HEAD)
    client.socket.write(
      Buffer.concat([PREFACE, frame(SETTINGS, 0, 0), begin(1), begin(3), frame(DATA, 0, 1, Buffer.alloc(1000))])
    )
    await until(() => bodies.length >= 2)
    const read = bodies[0]?.each(() => undefined)
    const unread = (stream: number): Buffer =>
      Buffer.concat(Array.from({ length: 4 }, () => frame(DATA, 0, stream, Buffer.alloc(15_000))))
    client.socket.write(Buffer.concat([unread(3), begin(5), frame(DATA, 0, 1, Buffer.alloc(1000))]))
    await until(() => bodies.length >= 3)
    const { used } = door.listener.unread
    t.ok(used >= 60_000 && used < 65_000, `bytes already read are not counted: ${used}`)
    client.socket.write(Buffer.concat([unread(5), frame(DATA, 1, 1, Buffer.alloc(1000))]))
    await read
    t.ok(door.listener.unread.used <= 100_000)
    const reset = (stream: number): boolean =>
      client.received.includes(frame(RST_STREAM, 0, stream, Buffer.from([0, 0, 0, 11])).toString('latin1'))
    await until(() => reset(3))
    await t.rejects(async () => bodies[1]?.bytes(), { message: 'The client closed the connection.' })
    t.notOk(reset(5), 'a later upload stays')
    client.close()
    await until(() => door.listener.unread.used === 0)
  }
)

t.test(
  'HTTP/2: an upload in pieces of one byte takes little more memory than its bytes, and keeps their order',
  async t => {
    const bodies: RequestBody[] = []
    const door = await openDoor(t, {
      tls: null,
      http2: true,
      trustedProxies: ['127.0.0.1'],
      handle: ({ body }, wire) => {
        watchWire(wire)
        bodies.push(body)
      }
    })
    const client = await door.connect()
    const begin = (stream: number): Buffer => frame(HEADERS, 4, stream, POST_HEAD)
    const digits = Array.from({ length: 20_000 }, (_, at) => at % 10).join('')
    const tiny = Buffer.concat(Array.from(digits, digit => frame(DATA, 0, 1, Buffer.from(digit))))
    client.socket.write(Buffer.concat([PREFACE, frame(SETTINGS, 0, 0), begin(1), tiny, begin(3)]))
    await until(() => bodies.length >= 2)
    const { used } = door.listener.unread
    t.ok(used >= 20_000 && used < 22_000, `${used} bytes for 20,000`)
    client.socket.write(frame(DATA, 1, 1, Buffer.from('end')))
    t.equal(Buffer.from((await bodies[0]?.bytes()) ?? []).toString(), `${digits}end`)
    t.equal(door.listener.unread.used, 0)
  }
)

t.test('HTTP/2: a client has as many requests at a time as connections over HTTP/1.1', async t => {
  const wires: Wire[] = []
  const handle: DoorOptions['handle'] = (_ctx, wire) => {
    watchWire(wire)
    wires.push(wire)
  }
  const door = await open(t, { handle, limits: { connectionsPerAddress: 3 } })
  const [first, second] = [await dial(t, secure(door)), await dial(t, secure(door))]
  const streams = [first, first, second, second].map(session => session.request({ ':path': '/' }))
  const answers = streams.map(answerOf)
  await until(() => wires.length >= 3)
  await Promise.any(streams.map(stream => new Promise(resolve => stream.on('close', resolve))))
  for (const wire of wires) reply(wire, 200, 'ok')
  const ends = await Promise.allSettled(answers)
  t.equal(ends.filter(({ status }) => status === 'fulfilled').length, 3)
  t.same(streams.map(({ rstCode }) => rstCode).sort(), [0, 0, 0, constants.NGHTTP2_REFUSED_STREAM])
  t.equal(wires.length, 3)
  const again = second.request({ ':path': '/' })
  await until(() => wires.length >= 4)
  for (const wire of wires.slice(3)) reply(wire, 200, 'ok')
  t.match(await answerOf(again), { status: 200 })
})

t.test('HTTP/2: an upload that stops, and a download that is not read, end after their deadlines', async t => {
  const clock = new ManualClock()
  const wires: Wire[] = []
  const door = await open(t, {
    clock,
    handle: (ctx, wire) => {
      wires.push(wire)
      if (ctx.method === 'POST')
        ctx.body.bytes().catch((error: unknown) => {
          replyError(ctx, wire, error)
        })
      else {
        watchWire(wire)
        wire.head(200, [])
        wire.write(Buffer.alloc(1024 * 1024))
      }
    }
  })
  const session = await dial(t, secure(door))
  const uploading = session.request({ ':method': 'POST', ':path': '/' })
  uploading.write('begin')
  await until(() => wires.length >= 1)
  const answered = answerOf(uploading)
  for (let at = 0; at < 70; at++) clock.advance(1000)
  t.match(await answered, { status: 408 })
  const unread = session.request({ ':path': '/' })
  await once(unread, 'response')
  const gone = new Promise(resolve => unread.on('close', resolve))
  unread.on('error', () => undefined)
  for (let at = 0; at < 70; at++) clock.advance(1000)
  unread.resume()
  await gone
  t.equal(unread.rstCode, constants.NGHTTP2_ENHANCE_YOUR_CALM)
})

t.test('HTTP/2: idle connections end, and a drain finishes requests in flight', async t => {
  const clock = new ManualClock()
  const wires: Wire[] = []
  const door = await open(t, { clock, handle: (_ctx, wire) => void wires.push(wire) })
  const idle = await dial(t, secure(door))
  const closed = once(idle, 'close')
  for (let at = 0; at < 12; at++) clock.advance(1000)
  await closed
  const session = await dial(t, secure(door))
  const answered = answerOf(session.request({ ':path': '/' }))
  await until(() => wires.length > 0)
  const drained = door.listener.drain(10_000)
  await once(session, 'goaway')
  for (const wire of wires) reply(wire, 200, 'done')
  t.match(await answered, { status: 200, body: 'done' })
  await drained
})

t.test('HTTP/2: is off by default, and in the clear it is for trusted proxies', async t => {
  const handle: DoorOptions['handle'] = ({ clientAddress }, wire) => {
    reply(wire, 200, clientAddress)
  }
  const off = await open(t, { handle, http2: false })
  await t.rejects(dial(t, secure(off)))
  const plain = { handle, http2: true, tls: null }
  const proxied = await openDoor(t, { ...plain, trustedProxies: ['127.0.0.1'] })
  const session = await dial(t, `http://127.0.0.1:${proxied.port}`)
  const request = session.request({ ':path': '/', 'x-forwarded-for': '203.0.113.9' })
  t.match(await answerOf(request), { status: 200, body: '203.0.113.9' })
  const untrusted = await openDoor(t, plain)
  await t.rejects(dial(t, `http://127.0.0.1:${untrusted.port}`))
})
