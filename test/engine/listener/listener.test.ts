import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { localAddress } from '../../../src/engine/config/listen-address.ts'
import type { Context } from '../../../src/engine/message/context.ts'
import type { Wire } from '../../../src/engine/message/wire.ts'
import { admit } from '../../../src/engine/listener/front-door.ts'
import { createListener } from '../../../src/engine/listener/listener.ts'
import { defaultLimits, enforce, Watch, type Watched } from '../../../src/engine/listener/deadlines.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { arrival, doors, openDoor, reply, replyError, watchWire } from './support.ts'
import { until } from '../../support/until.ts'

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const answer = (_ctx: Context, wire: Wire) => {
  reply(wire, 200, 'ok')
}

t.test('a raw 400 has exactly these headers and this body', async t => {
  const door = await openDoor(t, { handle: answer, clock: new ManualClock('2026-11-21T00:54:00Z') })
  const parser = await door.connect()
  parser.send('GET / HTTP/1.1\r\nHost: a\r\nX Y: z\r\n\r\n')
  await parser.ending()
  const body = '{"error":"Bad Request","message":"A header line is malformed."}'
  t.equal(
    parser.received,
    `HTTP/1.1 400 Bad Request\r\nDate: Sat, 21 Nov 2026 00:54:00 GMT\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${body.length}\r\nX-API-Version: 1.0.0\r\nX-Correlation-Id: fresh-id\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n${body}`
  )
  const rules = await door.connect()
  rules.send('GET /../x HTTP/1.1\r\nHost: a\r\nX-Correlation-Id: mine\r\n\r\n')
  const response = await rules.response()
  t.equal(
    response.body,
    '{"error":"Bad Request","message":"The path contains a dot segment; resolve it before sending."}'
  )
  t.equal(response.header('x-correlation-id'), 'mine', "the client's own id is echoed")
  t.equal(response.header('x-api-version'), '1.0.0')
  t.strictSame(
    door.refusals,
    [
      { status: 400, message: 'A header line is malformed.', peerAddress: '127.0.0.1', correlationId: 'fresh-id' },
      {
        status: 400,
        message: 'The path contains a dot segment; resolve it before sending.',
        peerAddress: '127.0.0.1',
        correlationId: 'mine'
      }
    ],
    'refusals are reported for the log'
  )
})

t.test('uploads: what is left of one after its response has the time of a head', async t => {
  const clock = new ManualClock()
  const door = await openDoor(t, { handle: answer, clock })
  const upload = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab'
  const stops = await door.connect()
  stops.send(upload)
  await stops.response()
  clock.advance(9000)
  const other = await door.connect()
  other.send(`${upload}cdefghi${get}`)
  t.same([(await other.response()).status, (await other.response()).status], [200, 200])
  t.equal(stops.socket.readableEnded, false)
  clock.advance(1000)
  await stops.ending()
  t.equal(stops.unparsed, '')
})

t.test('front door: two ways of framing a body contradict each other', async t => {
  const head = (...lines: string[]) =>
    admit(
      { method: 'POST', url: '/', httpVersion: '1.1', rawHeaders: ['Host', 'a', ...lines] },
      { headerCount: 100, upgrading: false, takesAnySegment: () => false }
    )
  const both = ['Content-Length', '3', 'Transfer-Encoding', 'chunked']
  for (const lines of [both, [...both.slice(2), ...both.slice(0, 2)]])
    t.match(head(...lines), { status: 400, message: /contradict each other/ })
  t.match(head('Transfer-Encoding', 'chunked'), { length: null })
})

t.test('upgrades: what follows an ignored one is answered as itself or the connection ends', async t => {
  const door = await openDoor(t, {
    async handle(ctx, wire) {
      await ctx.body.bytes()
      reply(wire, 200, ctx.target)
    }
  })
  const h2c = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk'
  const asks = [
    h2c,
    'Upgrade: h2c\r\nConnection: upgrade, http2-settings',
    'Connection: Upgrade\r\nUpgrade: h2c',
    'Connection: Upgrade, close\r\nUpgrade: h2c',
    'Connection: Upgrade\r\nUpgrade: websocket, h2c',
    'Connection: Upgrade\r\nUpgrade: TLS/1.0'
  ]
  const forms = asks.flatMap(ask => [
    `GET /1 HTTP/1.1\r\nHost: a\r\n${ask}\r\n\r\n`,
    `POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n${ask}\r\n\r\nab`,
    `POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n${ask}\r\n\r\n2\r\nab\r\n0\r\n\r\n`,
    `GET /0 HTTP/1.1\r\nHost: a\r\n\r\nGET /1 HTTP/1.1\r\nHost: a\r\n${ask}\r\n\r\n`
  ])
  forms.push(
    'GET /1 HTTP/1.0\r\nConnection: upgrade, keep-alive\r\nUpgrade: websocket\r\n\r\n',
    `POST /1 HTTP/1.0\r\nConnection: keep-alive, upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nab`
  )
  for (const form of forms) {
    const client = await door.connect()
    client.send(`${form}GET /2 HTTP/1.1\r\nHost: a\r\n\r\n`)
    const expected = form.startsWith('GET /0') ? ['/0', '/1', '/2'] : ['/1', '/2']
    for (const target of expected) {
      const response = await client.response()
      t.equal(response.body, target, form)
      if (response.header('connection') !== 'close') continue
      t.equal((await client.ending()).how, 'end')
      break
    }
    t.equal(client.unparsed, '')
    client.close()
  }
  if (!doors.fastLane) return
  const client = await door.connect()
  client.send(`GET /1 HTTP/1.1\r\nHost: a\r\n${h2c}\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n`)
  t.same([(await client.response()).body, (await client.response()).body], ['/1', '/2'], 'clients offer h2c by default')
})

t.test('a head that does not arrive in time is answered with 408', async t => {
  const clock = new ManualClock()
  const door = await openDoor(t, { handle: answer, clock })
  const client = await door.connect()
  client.send(get)
  await client.response()
  clock.advance(30_000)
  client.send('GET / HTTP/1.1\r\n')
  // The bytes are here once the server has answered another connection.
  const other = await door.connect()
  other.send(get)
  await other.response()
  clock.advance(1000)
  client.send('Host: a\r\n')
  clock.advance(9500)
  clock.advance(1500)
  const response = await client.response()
  t.equal(response.status, 408)
  t.equal(response.body, '{"error":"Request Timeout","message":"The request head did not arrive in time."}')
  t.equal((await client.ending()).how, 'end')
})

t.test('a connection that sends nothing is closed, one that was used only after the keep-alive time', async t => {
  const clock = new ManualClock()
  const door = await openDoor(t, { handle: answer, clock })
  const used = await door.connect()
  used.send(get)
  await used.response()
  const silent = await door.connect()
  silent.send('\r\n')
  const fresh = await door.connect()
  used.send(get)
  await used.response()
  clock.advance(12_000)
  t.equal((await fresh.ending()).how, 'end')
  t.equal((await silent.response()).status, 408, 'empty lines do not keep a connection')
  used.send(get)
  t.equal((await used.response()).status, 200)
  clock.advance(74_000)
  used.send(get)
  t.equal((await used.response()).status, 200, 'the timeout restarts with each response')
  clock.advance(77_000)
  t.equal((await used.ending()).how, 'end')
  t.equal(used.unparsed, '', 'an idle connection is closed without an answer')
})

t.test('an idle connection of a trusted proxy outlives the 600 seconds of a cloud load balancer', async t => {
  const clock = new ManualClock()
  const door = await openDoor(t, { handle: answer, clock, trustedProxies: ['127.0.0.1'] })
  const proxy = await door.connect()
  proxy.send(get)
  await proxy.response()
  clock.advance(601_000)
  proxy.send(get)
  t.equal((await proxy.response()).status, 200)
  clock.advance(652_000)
  t.equal((await proxy.ending()).how, 'end')
})

t.test('an upload that stops, or trickles, is ended with 408', async t => {
  const clock = new ManualClock()
  const started = Promise.withResolvers<Context>()
  const contexts: Context[] = []
  const door = await openDoor(t, {
    clock,
    limits: { uploadFloor: 10, floorWindow: 60_000 },
    handle(ctx, wire) {
      ctx.body.bytes().catch((error: unknown) => {
        replyError(ctx, wire, error)
      })
      contexts.push(ctx)
      if (contexts.length === 2) started.resolve(ctx)
    }
  })
  const stopped = await door.connect()
  const trickling = await door.connect()
  for (const client of [stopped, trickling])
    client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc')
  await started.promise
  clock.advance(50_000)
  const before = contexts.map(ctx => ctx.body.received)
  trickling.send('d')
  await until(() => contexts.some((ctx, at) => ctx.body.received !== before[at]))
  clock.advance(14_000)
  const messages = [(await stopped.response()).body, (await trickling.response()).body]
  t.match(messages[0], 'stopped arriving')
  t.match(messages[1], 'more slowly than 10 bytes a second')
})

t.test('time in which the body is not read does not count against the client', async t => {
  const clock = new ManualClock()
  const head = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc'
  const { client, ctx, wire } = await arrival(t, head, { clock })
  clock.advance(600_000)
  const bytes = ctx.body.bytes()
  client.send('def')
  t.equal((await bytes).byteLength, 6)
  clock.advance(600_000)
  reply(wire, 200, 'late')
  t.equal((await client.response()).body, 'late', 'nor does the time of the answer')
})

t.test('a client that leaves its answer unread is cut off', async t => {
  const clock = new ManualClock()
  const { client, wire, watch } = await arrival(t, get, { clock })
  client.socket.pause()
  wire.head(200, [])
  for (let pieces = 0; pieces < 64; pieces++) wire.write(Buffer.alloc(1024 * 1024))
  // Until the system takes no more, the number of unsent bytes still moves.
  for (let turn = 0; turn < 50; turn++) await setImmediate()
  clock.advance(59_000)
  t.strictSame(watch.closes, [])
  clock.advance(3000)
  t.equal(await watch.closed, false)
})

t.test('pieces that are added to an unread answer do not put its end off', async t => {
  const clock = new ManualClock()
  const { client, wire, watch } = await arrival(t, get, { clock })
  client.socket.pause()
  wire.head(200, [])
  for (let pieces = 0; pieces < 16; pieces++) wire.write(Buffer.alloc(1024 * 1024))
  for (let turn = 0; turn < 50; turn++) await setImmediate()
  for (let seconds = 0; seconds < 75; seconds += 15) {
    t.strictSame(watch.closes, [], `after ${seconds} s`)
    wire.write(Buffer.from('x'))
    clock.advance(15_000)
  }
  t.equal(await watch.closed, false)
})

t.test('connections of one address are capped, and counted down when they close', async t => {
  const door = await openDoor(t, { handle: answer, limits: { connectionsPerAddress: 2 } })
  const first = await door.connect()
  const second = await door.connect()
  for (const client of [first, second]) {
    client.send(get)
    await client.response()
  }
  // The reset may come before the client knows that it was connected.
  const third = await door.connect().then(
    async client => (await client.ending()).how,
    (error: NodeJS.ErrnoException) => error.code
  )
  t.equal(third, 'ECONNRESET')
  first.send('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  await first.ending()
  first.close()
  await until(() => door.listener.connections <= 1)
  const fourth = await door.connect()
  fourth.send(get)
  t.equal((await fourth.response()).status, 200)
})

t.test('a trusted proxy may have as many connections as it wants', async t => {
  const door = await openDoor(t, {
    handle: answer,
    limits: { connectionsPerAddress: 1 },
    trustedProxies: ['127.0.0.1']
  })
  for (let opened = 0; opened < 3; opened++) {
    const client = await door.connect()
    client.send(get)
    t.equal((await client.response()).status, 200)
  }
})

t.test('draining finishes what runs, closes what idles, and takes nothing new', async t => {
  const arrived: Wire[] = []
  const two = Promise.withResolvers<void>()
  const door = await openDoor(t, {
    clock: new ManualClock(),
    handle(ctx, wire) {
      if (ctx.path === '/idle') reply(wire, 200, '')
      else if (arrived.push(wire) === 2) two.resolve()
    }
  })
  const idle = await door.connect()
  idle.send('GET /idle HTTP/1.1\r\nHost: a\r\n\r\n')
  await idle.response()
  const silent = await door.connect()
  const waiting = await door.connect()
  waiting.send(get)
  const streaming = await door.connect()
  streaming.send(get)
  await two.promise
  const [first, second] = arrived
  if (first === undefined || second === undefined) throw new Error('two requests were expected')
  second.head(200, [])
  second.write(Buffer.from('a'))
  await streaming.until('a\r\n')
  const drained = door.listener.drain(10_000)
  t.equal(door.listener.drain(1), drained, 'a second call joins the first')
  t.equal((await idle.ending()).how, 'end')
  t.equal((await silent.ending()).how, 'end')
  await t.rejects(door.connect(), { code: 'ECONNREFUSED' })
  reply(first, 200, 'done')
  const response = await waiting.response()
  t.equal(response.body, 'done')
  t.equal(response.header('connection'), 'close')
  t.equal((await waiting.ending()).how, 'end')
  second.end(null, null)
  t.equal((await streaming.response()).body, 'a')
  t.equal((await streaming.ending()).how, 'end', 'also where the head was already out')
  for (const client of [idle, silent, waiting, streaming]) client.socket.end()
  await drained
  t.equal(door.listener.connections, 0)
  t.same(door.listener.addresses, [])
})

t.test('draining cuts what has not finished in time', async t => {
  const clock = new ManualClock()
  const { door, client, wire, watch } = await arrival(t, get, { clock })
  const drained = door.listener.drain(5000)
  clock.advance(4999)
  t.strictSame(watch.closes, [])
  t.equal(wire.stopping, true)
  clock.advance(1)
  t.equal(await watch.closed, false)
  t.equal(wire.stopping, 'cut', 'the client did not leave')
  await drained
  await client.ending()
})

t.test('a listener opens nothing before `listen`, and says why it cannot', async t => {
  const door = await openDoor(t, { handle: answer })
  const options = {
    limits: defaultLimits,
    trustedProxies: [],
    clock: new ManualClock(),
    freshId: () => 'x',
    handle: answer,
    failed: () => {
      t.fail('only the caller that opens the port gets its error')
    }
  }
  const second = createListener(options)
  t.same(second.addresses, [])
  await t.rejects(second.listen(localAddress(door.port)), {
    code: 'BG_LISTEN_FAILED',
    message: new RegExp(`^server\\.listen: another program listens at 127\\.0\\.0\\.1:${door.port}; .*EADDRINUSE`)
  })
  await t.rejects(
    createListener(options).listen({ kind: 'tcp', host: 'no.such.host.invalid', port: 0, isPlain: false }),
    {
      code: 'BG_LISTEN_FAILED',
      message: /^server\.listen: the name no\.such\.host\.invalid has no address here; use /
    }
  )
  await t.rejects(createListener(options).listen({ kind: 'tcp', host: '192.0.2.1', port: 0, isPlain: false }), {
    code: 'BG_LISTEN_FAILED',
    message: /^server\.listen: 192\.0\.2\.1 is no address of this machine; use /
  })
  t.throws(() => createListener({ ...options, trustedProxies: ['nonsense'] }), { name: 'TypeError' })
})

t.test(
  'deadlines: a client is cut for a pause or a low rate, and a half-closed one is probed at each silence',
  async t => {
    let cuts = 0
    let probes = 0
    const connection = (more: object) =>
      ({
        socket: { writableLength: 1, bytesWritten: 0, readableEnded: false, resetAndDestroy: () => cuts++ },
        watch: new Watch(0),
        current: { body: { waiting: false }, probe: () => ++probes > 0 },
        taken: 0,
        ...more
      }) as unknown as Watched & { taken: number } // All that `enforce` uses of one.
    const limits = { ...defaultLimits, floorWindow: 20_000, downloadFloor: 64, idleWriteDeadline: 15_000 }
    const reading = connection({})
    for (let now = 0; now <= 60_000; now += 10_000, reading.taken += 640) enforce(reading, now, limits)
    t.equal(cuts, 0, 'as fast as it has to be')
    reading.taken -= 640
    for (const now of [65_000, 74_000]) enforce(reading, now, { ...limits, downloadFloor: 0 })
    t.equal(cuts, 0)
    enforce(reading, 75_000, { ...limits, downloadFloor: 0 })
    t.equal(cuts, 1, 'a pause alone ends it')

    const socket = { writableLength: 0, bytesWritten: 0, readableEnded: true }
    const half = connection({ socket })
    for (const [now, expected] of [
      [0, 1],
      [399, 1],
      [400, 2]
    ] as const) {
      enforce(half, now, limits)
      t.equal(probes, expected, `${now} ms`)
    }
  }
)

t.test('what a client pipelines stays in the kernel once some requests wait, whichever way it is read', async t => {
  const accepted = Promise.withResolvers<Socket>()
  const onSocket = (message: unknown) => {
    accepted.resolve((message as { socket: Socket }).socket /* the channel's own shape */)
  }
  subscribe('net.server.socket', onSocket)
  t.teardown(() => {
    unsubscribe('net.server.socket', onSocket)
  })
  const answers: (() => void)[] = []
  const door = await openDoor(t, {
    handle(ctx, wire) {
      watchWire(wire)
      answers.push(() => {
        reply(wire, 200, ctx.target)
      })
    }
  })
  const client = await door.connect()
  const socket = await accepted.promise
  const count = 3000
  const filler = 'x'.repeat(7000)
  // A chunked body is not for the fast lane: all that follows it is read by node:http.
  client.send('POST /first HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n')
  for (let at = 0; at < count; at++) client.send(`GET /${at} HTTP/1.1\r\nHost: a\r\nX-Filler: ${filler}\r\n\r\n`)
  const rest = async () => {
    for (let quiet = 0, read = -1; quiet < 100; quiet = socket.bytesRead === read ? quiet + 1 : 0) {
      read = socket.bytesRead
      await setImmediate()
    }
  }
  await rest()
  t.ok(socket.bytesRead < 512 * 1024, `${socket.bytesRead} bytes were read while the first request was not answered`)
  const answerNext = async () => {
    await until(() => answers.length > 0)
    answers.shift()?.()
  }
  for (let answered = 0; answered < 20; answered++) {
    await answerNext()
    await client.response()
  }
  await rest()
  t.ok(socket.bytesRead < 1024 * 1024, `${socket.bytesRead} bytes were read for twenty answers`)
  for (let answered = 20; answered <= count; answered++) await answerNext()
  await client.until(`/${count - 1}`)
  const order = client.unparsed.match(/\r\n\r\n\/\d+/g)?.map(body => Number(body.slice(5)))
  t.same(
    order,
    Array.from({ length: count - 19 }, (_, at) => at + 19),
    'every request was answered, in order'
  )
})

t.test('a malformed body behind an unanswered request fails its reader immediately, not at a deadline', async t => {
  const answers: (() => void)[] = []
  const door = await openDoor(t, {
    clock: new ManualClock(),
    async handle(ctx, wire) {
      watchWire(wire)
      if (ctx.target === '/first')
        await new Promise<void>(resolve => {
          answers.push(resolve)
        })
      try {
        await ctx.body.bytes()
        reply(wire, 200, ctx.target)
      } catch (error) {
        replyError(ctx, wire, error)
      }
    }
  })
  const client = await door.connect()
  client.send(
    'GET /first HTTP/1.1\r\nHost: a\r\n\r\nPOST /second HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n'
  )
  for (let turns = 0; turns < 20 || answers.length === 0; turns++) await setImmediate()
  answers[0]?.()
  t.equal((await client.response()).body, '/first')
  const second = await client.response()
  t.equal(second.status, 400)
  t.match(second.body, /The chunked request body is malformed\./)
  t.equal((await client.ending()).how, 'end')
  t.equal(client.unparsed, '', 'answered once')
})
