import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import idempotency from '../../../plugins/idempotency.ts'
import { Chain } from '../../../src/engine/pipeline/chain.ts'
import { LongError } from '../../../src/engine/operations/errors.ts'
import { Exchange } from '../../../src/engine/pipeline/exchange.ts'
import { harness } from '../../../src/engine/pipeline/harness.ts'
import { InternalUpstream } from '../../../src/engine/pipeline/internal.ts'
import { openApiDocument } from '../../../src/engine/openapi/openapi.ts'
import { defineOperation } from '../../../src/engine/operations/operation.ts'
import { definePlugin, type Hooks } from '../../../src/engine/pipeline/plugin.ts'
import type { Outcome, Reply, StreamBody, StreamSink } from '../../../src/engine/message/reply.ts'
import { type Clock, systemClock } from '../../../src/platform/system/clock.ts'
import { Type } from 'typebox'
import { type Door, openDoor } from '../listener/support.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { testServices } from '../../support/plugin-harness.ts'
import { until } from '../../support/until.ts'

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
/** A stream that a test plays by hand. */
class Played implements StreamBody {
  opened = 0
  stopped = 0
  readonly #open = Promise.withResolvers<StreamSink>()
  readonly #stop = Promise.withResolvers<void>()
  readonly #begin: (sink: StreamSink) => void

  constructor(begin: (sink: StreamSink) => void = () => {}) {
    this.#begin = begin
  }

  /** Resolves once the stream is open. */
  get sink(): Promise<StreamSink> {
    return this.#open.promise
  }

  /** Resolves once the stream was notified of its end. */
  get over(): Promise<void> {
    return this.#stop.promise
  }

  open(sink: StreamSink): () => void {
    this.opened++
    this.#begin(sink)
    this.#open.resolve(sink)
    return () => {
      this.stopped++
      this.#stop.resolve()
    }
  }
}

interface Site extends Door {
  readonly outcomes: Outcome[]
  readonly faults: Error[]
  /** Resolves with the next outcome. */
  done(): Promise<Outcome>
}

/** A listener whose requests get what `answer` gives, through the real engine. */
async function site(
  t: Test,
  answer: () => Reply,
  { hooks = [], clock = systemClock }: { readonly hooks?: readonly Hooks[]; readonly clock?: Clock } = {}
): Promise<Site> {
  const outcomes: Outcome[] = []
  const faults: Error[] = []
  let waiting: (() => void)[] = []
  const probe: Hooks = {
    done(_ctx, outcome) {
      outcomes.push(outcome)
      for (const wake of waiting.splice(0)) wake()
    }
  }
  const chain = new Chain([probe, ...hooks, { handle: answer }], 0)
  const events = {
    mode: 'production',
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    fault: (_ctx: unknown, error: Error) => {
      faults.push(error)
    },
    finished: () => {}
  } as const
  const door = await openDoor(t, {
    clock,
    handle: (ctx, wire) => {
      new Exchange(ctx, wire, chain, events).start()
    }
  })
  let notified = 0
  const done = async () => {
    while (outcomes.length <= notified)
      await new Promise<void>(resolve => {
        waiting = [...waiting, resolve]
      })
    const outcome = outcomes[notified++]
    if (outcome === undefined) throw new Error('an outcome was expected')
    return outcome
  }
  return { ...door, outcomes, faults, done }
}

const streaming =
  (body: StreamBody, more: Partial<Reply> = {}) =>
  () => ({ status: 200, headers: ['Content-Type', 'text/plain'], body, ...more })

t.test('a stream is sent as written, without a length, and the connection stays', async t => {
  const seen: string[] = []
  const body = new Played()
  const bodies = [body, 'whole']
  const place = await site(t, () => ({ status: 200, headers: [], body: bodies.shift() ?? null }), {
    hooks: [
      {
        chunk(_ctx, bytes) {
          seen.push(Buffer.from(bytes).toString())
        }
      }
    ]
  })
  const client = await place.connect()
  client.send(get)
  const sink = await body.sink
  await client.until('\r\n\r\n')
  t.notMatch(client.received, /content-length/i, 'the head does not wait for a piece')
  t.equal(sink.write('héllo '), true)
  await client.until('h\u00c3\u00a9llo')
  t.equal(sink.write(new Uint8Array([0x79, 0x6f, 0x75])), true)
  await client.until('you')
  t.same(place.outcomes, [], 'nothing is over yet')
  sink.end()
  const response = await client.response()
  t.equal(Buffer.from(response.body, 'latin1').toString(), 'héllo you')
  t.equal(response.header('transfer-encoding'), 'chunked')
  t.equal(response.header('x-correlation-id'), 'fresh-id')
  t.match(await place.done(), {
    status: 200,
    source: 'stream',
    headSent: true,
    delivered: true,
    bytesOut: 10,
    error: null
  })
  t.equal(body.stopped, 1)
  t.equal(sink.write('late'), false, 'nothing is taken after the end')
  sink.end()
  sink.fail(new Error('late'))
  client.send(get)
  t.equal((await client.response()).body, 'whole', 'the next request of the connection is answered')
  t.same(seen.join(''), 'héllo youwhole')
  t.equal(body.stopped, 1)
  t.same(place.faults, [])
})

t.test('HEAD opens nothing, and neither does a status without a body', async t => {
  const body = new Played()
  const place = await site(t, streaming(body))
  const client = await place.connect()
  client.send('HEAD / HTTP/1.1\r\nHost: a\r\n\r\n')
  const response = await client.response('HEAD')
  t.equal(response.status, 200)
  t.equal(response.header('content-type'), 'text/plain')
  t.equal(response.header('content-length'), undefined)
  t.match(await place.done(), { delivered: true, bytesOut: 0 })
  const bare = await site(t, streaming(body), {
    hooks: [
      {
        response(_ctx, head) {
          head.status = 204
        }
      }
    ]
  })
  const other = await bare.connect()
  other.send(get)
  t.equal((await other.response()).status, 204)
  t.equal(body.opened, 0)
})

t.test('a client that leaves ends the stream, once', async t => {
  const body = new Played(sink => {
    sink.write('a')
  })
  const place = await site(t, streaming(body))
  const client = await place.connect()
  client.send(get)
  const sink = await body.sink
  await client.until('a\r\n')
  client.close()
  await body.over
  t.match(await place.done(), { headSent: true, delivered: false, bytesOut: 1 })
  t.equal(sink.write('b'), false)
  sink.end()
  t.same([body.stopped, place.outcomes.length, place.faults.length], [1, 1, 0])
})

t.test('a stream that ends while it opens still gets the end', async t => {
  const body = new Played(sink => {
    sink.write('all')
    sink.end()
  })
  const place = await site(t, streaming(body))
  const client = await place.connect()
  client.send(get)
  t.equal((await client.response()).body, 'all')
  t.match(await place.done(), { delivered: true, bytesOut: 3 })
  t.equal(body.stopped, 1)
  const empty = await site(
    t,
    streaming(
      new Played(sink => {
        sink.end()
      })
    )
  )
  const other = await empty.connect()
  other.send(get)
  t.equal((await other.response()).body, '', 'also without a piece')
})

t.test('an error of open is answered before the first piece, and breaks the connection off after it', async t => {
  for (const fails of [
    (): never => {
      throw new LongError(503, 'Away', 'Later.')
    },
    (sink: StreamSink) => {
      sink.fail(new LongError(503, 'Away', 'Later.'))
    }
  ]) {
    const before = await site(t, streaming(new Played(fails)))
    const told = await before.connect()
    told.send(get)
    const response = await told.response()
    t.same([response.status, response.body], [503, '{"error":"Away","message":"Later."}'])
    t.match(await before.done(), { status: 503, source: 'error', delivered: true })
    const after = await site(
      t,
      streaming(
        new Played(sink => {
          sink.write('part')
          fails(sink)
        })
      )
    )
    const cut = await after.connect()
    cut.send(get)
    t.equal((await cut.ending()).how, 'ECONNRESET', 'never a clean end')
    // Head and piece were still in our hands: nothing of the reply has reached the client.
    t.match(await after.done(), { status: 499, headSent: false, delivered: false, error: { message: 'Later.' } })
    t.same([before.outcomes.length, after.outcomes.length], [1, 1])
  }
})

t.test('a stream that fails later is cut and notified once', async t => {
  const body = new Played()
  const place = await site(t, streaming(body))
  const client = await place.connect()
  client.send(get)
  const sink = await body.sink
  sink.write('part')
  await client.until('part')
  sink.fail(new LongError(503, 'Away', 'Later.'))
  t.equal((await client.ending()).how, 'ECONNRESET')
  t.match(await place.done(), { delivered: false, error: { message: 'Later.' } })
  t.equal(body.stopped, 1)
})

t.test('a head that cannot be written is answered as an error, and the stream is over', async t => {
  const body = new Played()
  const place = await site(t, streaming(body, { headers: ['X-Bad', 'a\r\nb'] }))
  const client = await place.connect()
  client.send(get)
  t.equal((await client.response()).status, 500)
  t.match(await place.done(), { status: 500, source: 'error' })
  t.same([body.opened, body.stopped], [1, 1])
})

t.test("what a stream's own functions throw is reported and affects no other stream", async t => {
  const place = await site(
    t,
    streaming({
      open: sink => {
        sink.end()
        return () => {
          throw new Error('stop')
        }
      }
    })
  )
  const client = await place.connect()
  client.send(get)
  t.equal((await client.response()).body, '')
  t.match(await place.done(), { delivered: true })
  t.match(place.faults, [{ message: 'stop' }])
})

t.test('a watcher that throws breaks the stream off, and a pump that writes until it must wait ends', async t => {
  const body = new Played(sink => {
    while (sink.write('x'));
  })
  const place = await site(t, streaming(body), {
    hooks: [
      {
        chunk() {
          throw new Error('boom')
        }
      }
    ]
  })
  const client = await place.connect()
  client.send(get)
  t.equal((await client.ending()).how, 'ECONNRESET')
  t.match(await place.done(), { delivered: false, error: { cause: { message: 'boom' } } })
  t.equal(body.stopped, 1)
})

t.test('a client that does not read makes the stream wait, and reading resumes it', async t => {
  const size = 64 * 1024
  const body = new Played()
  const place = await site(t, streaming(body))
  const client = await place.connect()
  client.socket.pause()
  client.send(get)
  const sink = await body.sink
  const drained = Promise.withResolvers<void>()
  sink.onDrain = () => {
    drained.resolve()
  }
  let written = 1
  while (sink.write(Buffer.alloc(size, 120))) {
    written++
    await setImmediate()
  }
  t.ok(written * size < 32 * 1024 * 1024, 'it gets backpressure before much is buffered')
  client.socket.resume()
  await drained.promise
  sink.end()
  t.equal((await client.response()).body.length, written * size)
  t.match(await place.done(), { delivered: true, bytesOut: written * size })
})

t.test('a client that has left before the head is ready opens nothing', async t => {
  const gate = Promise.withResolvers<void>()
  const requested = Promise.withResolvers<void>()
  const body = new Played()
  const place = await site(t, streaming(body), {
    hooks: [
      {
        response() {
          requested.resolve()
          return gate.promise
        }
      }
    ]
  })
  const client = await place.connect()
  client.send(get)
  await requested.promise
  client.close()
  await until(() => place.listener.connections === 0)
  gate.resolve()
  t.match(await place.done(), { status: 499, headSent: false, delivered: false })
  t.equal(body.opened, 0)
})

t.test('streams are notified when draining begins, so that idle ones do not delay it', async t => {
  const clock = new ManualClock()
  const idle = new Played(sink => {
    sink.onStopping = () => {
      sink.write('bye')
      sink.end()
    }
  })
  const gate = Promise.withResolvers<void>()
  const requested = Promise.withResolvers<void>()
  const late = new Played(sink => {
    sink.onStopping = () => {
      sink.end()
    }
  })
  const bodies = [idle, late]
  const place = await site(
    t,
    () => {
      const body = bodies.shift()
      if (body === undefined) throw new Error('two requests were expected')
      return { status: 200, headers: [], body }
    },
    {
      clock,
      hooks: [
        {
          request: ctx => {
            if (ctx.path !== '/late') return
            requested.resolve()
            return gate.promise
          }
        }
      ]
    }
  )
  const first = await place.connect()
  first.send(get)
  await first.until('\r\n\r\n')
  const second = await place.connect()
  second.send('GET /late HTTP/1.1\r\nHost: a\r\n\r\n')
  await requested.promise
  const drained = place.listener.drain(30_000)
  t.equal((await first.response()).body, 'bye')
  t.equal((await first.ending()).how, 'end')
  gate.resolve()
  const response = await second.response()
  t.same(
    [response.status, response.body, response.header('connection')],
    [200, '', 'close'],
    'also one that opens only now'
  )
  for (const client of [first, second]) client.socket.end()
  await drained
  t.same([idle.stopped, late.stopped], [1, 1])
  t.equal(clock.monotonic(), 0, 'without waiting')
})

t.test('an HTTP/1.0 client gets no chunked encoding; the end of the connection is the end of the stream', async t => {
  const body = new Played(sink => {
    sink.write('one ')
  })
  const place = await site(t, streaming(body))
  const client = await place.connect()
  client.send('GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n')
  const sink = await body.sink
  await client.until('one ')
  sink.write('two')
  sink.end()
  t.equal((await client.ending()).how, 'end')
  const response = await client.response()
  t.equal(response.body, 'one two')
  t.same(
    [response.header('transfer-encoding'), response.header('content-length'), response.header('connection')],
    [undefined, undefined, 'close']
  )
})

t.test('a stream that ignores the drain is cut at the drain timeout', async t => {
  const clock = new ManualClock()
  const body = new Played()
  const place = await site(t, streaming(body), { clock })
  const client = await place.connect()
  client.send(get)
  await client.until('\r\n\r\n')
  const drained = place.listener.drain(30_000)
  clock.advance(30_000)
  await drained
  t.match(await place.done(), { delivered: false })
  t.equal(body.stopped, 1)
})

t.test('idempotency keeps nothing of a stream: a repetition runs again', async t => {
  const services = testServices()
  let runs = 0
  const chain = await harness(
    [
      definePlugin({
        name: 'who',
        config: Type.Object({}),
        provides: ['principal'],
        setup: () => ({
          request(ctx) {
            ctx.principal = { kind: 'admin', id: 'a' } as never /* any will do */
          }
        })
      }),
      { plugin: idempotency }
    ],
    {
      services,
      answer: () => ({
        status: 200,
        headers: [],
        body: new Played(sink => {
          sink.write(`run ${++runs}`)
          sink.end()
        })
      })
    }
  )
  for (const text of ['run 1', 'run 2']) {
    const result = await chain.run({ method: 'POST', headers: { 'Idempotency-Key': 'k' }, body: '{}' })
    t.equal(result.text, text)
    t.notOk(result.headers.has('x-idempotency-replayed'))
  }
})

t.test('an operation answers with a stream or with bytes, and OpenAPI shows their media types', async t => {
  const events = defineOperation({
    id: 'events',
    method: 'GET',
    path: '/events',
    summary: 'Events',
    tag: 'x',
    access: 'public',
    responses: { 200: { description: 'Events as they happen.', mediaType: 'text/event-stream' } },
    handle: () => ({
      status: 200,
      headers: ['Cache-Control', 'no-store'],
      body: new Played(sink => {
        sink.write('data: 1\n\n')
        sink.end()
      })
    })
  })
  const picture = defineOperation({
    id: 'picture',
    method: 'GET',
    path: '/picture',
    summary: 'Picture',
    tag: 'x',
    access: 'public',
    responses: { 200: { description: 'A picture.', mediaType: 'image/png' } },
    handle: () => ({ status: 200, body: new Uint8Array([1, 255]) })
  })
  const upstream = new InternalUpstream([events, picture])
  const chain = await harness([], { answer: ctx => upstream.handle(ctx) })
  const stream = await chain.run({ target: '/events' })
  t.same([stream.status, stream.text, stream.source], [200, 'data: 1\n\n', 'stream'])
  t.same(stream.headers.pairs.slice(0, 4), ['Content-Type', 'text/event-stream', 'Cache-Control', 'no-store'])
  t.notOk(stream.headers.has('content-length'))
  t.same([...(await chain.run({ target: '/picture' })).body], [1, 255])
  const document = openApiDocument([events], { title: 't', description: 'd', publicUrl: 'http://a', pricedRoutes: [] })
  t.match(document, {
    paths: {
      '/events': {
        get: {
          responses: {
            200: {
              description: 'Events as they happen.',
              content: { 'text/event-stream': { schema: { type: 'string' } } }
            }
          }
        }
      }
    }
  })
})
