import { deepStrictEqual } from 'node:assert/strict'
import { channel } from 'node:diagnostics_channel'
import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import type { Context } from '../../../src/engine/message/context.ts'
import type { Wire } from '../../../src/engine/message/wire.ts'
import type { RefusalEvent } from '../../../src/engine/listener/refusals.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { type Door, openDoor, reply, replyError, watchWire } from './support.ts'
import { framing, pipelines, upgrades } from './vectors/framing.ts'
import { authorizations, expectations, headerLines, hosts } from './vectors/headers.ts'
import { requestLines, targets } from './vectors/request-line.ts'

const get = (target = '/', ...lines: string[]) =>
  `GET ${target} HTTP/1.1\r\nHost: a\r\n${lines.map(line => `${line}\r\n`).join('')}\r\n`
const post = (target: string, body: string, ...lines: string[]) =>
  `POST ${target} HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n${lines.map(line => `${line}\r\n`).join('')}\r\n${body}`
const chunked = (target: string, body: string) =>
  `POST ${target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
/** Everything that both sides of one connection observe. */
interface Told {
  readonly received: string
  readonly contexts: unknown[]
  readonly refusals: readonly RefusalEvent[]
}

/** A step of an answer, as `Wire` takes it; `wait` lets other things happen first. */
type Step =
  | { readonly kind: 'head'; readonly status: number; readonly headers: readonly string[] }
  | { readonly kind: 'interim'; readonly status: number; readonly headers: readonly string[] }
  | { readonly kind: 'write'; readonly bytes: Buffer }
  | { readonly kind: 'end'; readonly last: string | Buffer | null; readonly trailers: readonly string[] | null }
  | { readonly kind: 'wait' | 'destroy' }

async function play(wire: Wire, steps: readonly Step[]) {
  for (const step of steps) {
    switch (step.kind) {
      case 'head':
        wire.head(step.status, [...step.headers])
        break
      case 'interim':
        wire.interim(step.status, step.headers)
        break
      case 'write':
        wire.write(step.bytes)
        break
      case 'end':
        wire.end(step.last, step.trailers)
        break
      case 'destroy':
        wire.destroy()
        break
      case 'wait':
        await setImmediate()
    }
  }
}

/** A listener that reports each connection, one after the other. */
class Side {
  readonly #door: Door
  readonly #clock: ManualClock
  #contexts: unknown[] = []
  steps: readonly Step[] = []

  constructor(door: Door, clock: ManualClock) {
    this.#door = door
    this.#clock = clock
  }

  static async open(t: Test, fastLane: boolean): Promise<Side> {
    let side: Side | null = null
    const clock = new ManualClock()
    const door = await openDoor(t, {
      fastLane,
      trustedProxies: ['127.0.0.1'],
      clock,
      handle: (ctx, wire) => {
        void side?.handle(ctx, wire)
      }
    })
    side = new Side(door, clock)
    return side
  }

  async handle(ctx: Context, wire: Wire): Promise<void> {
    const { body, headers } = ctx
    // The clock goes on when a deadline is waited for.
    const seen: Record<string, unknown> = {
      ...ctx,
      now: 0,
      startedAt: 0,
      body: null,
      headers: headers.pairs,
      length: body.length
    }
    this.#contexts.push(seen)
    wire.listener = {
      drained() {
        return undefined
      },
      stopping() {
        return undefined
      },
      closed(complete) {
        Object.assign(seen, { complete, bytesOut: wire.bytesOut })
      }
    }
    try {
      if (ctx.path === '/played') {
        await play(wire, this.steps)
        return
      }
      if (ctx.path === '/unread') body.limit = 1
      else if (ctx.path === '/limited') body.limit = 4
      if (ctx.path === '/streamed') seen['body'] = Buffer.concat(await body.stream().toArray()).toString('latin1')
      else if (ctx.path !== '/unread') seen['body'] = Buffer.from(await body.bytes()).toString('latin1')
      seen['received'] = body.received
      reply(wire, 200, `${ctx.method} ${ctx.target} `)
    } catch (error) {
      seen['error'] = String(error)
      replyError(ctx, wire, error)
    }
  }

  /**
   * Sends `pieces`, each once those before it have been read, then one more request unless the server has ended before
   * or it is to `leave`, and ends.
   */
  async tell(pieces: readonly string[], leave: boolean): Promise<Told> {
    this.#contexts = []
    this.#door.refusals.length = 0
    const client = await this.#door.connect()
    const state = { ended: false }
    client.socket.on('end', () => {
      state.ended = true
    })
    client.socket.on('close', () => {
      state.ended = true
    })
    for (const piece of pieces) {
      if (state.ended) break
      client.send(piece)
      for (let turns = 0; turns < 4; turns++) await setImmediate()
    }
    if (!leave && !state.ended) {
      client.send(get('/sentinel', 'Connection: close'))
      for (let turns = 0; turns < 100 && !state.ended; turns++) await setImmediate()
    }
    client.socket.end()
    for (let turns = 0; turns < 100 && !state.ended; turns++) await setImmediate()
    client.close()
    // What the server no longer reads is ended by its deadlines.
    for (let turns = 0; this.#door.listener.connections > 0; turns++) {
      if (turns > 20) this.#clock.advance(1000)
      await setImmediate()
    }
    await setImmediate()
    return {
      received: client.received.replaceAll(/\r\nDate: [^\r\n]*/g, '\r\nDate: now'),
      contexts: this.#contexts,
      refusals: [...this.#door.refusals]
    }
  }
}

/** Text cut at places given as shares of its length. */
function cut(text: string, shares: readonly number[]) {
  const places = [0, ...shares.map(share => Math.floor(share * text.length)).toSorted((a, b) => a - b), text.length]
  return places
    .slice(1)
    .map((place, at) => text.slice(places[at], place))
    .filter(piece => piece !== '')
}

const vectors = [
  ...requestLines,
  ...targets,
  ...hosts,
  ...headerLines,
  ...authorizations,
  ...expectations,
  ...framing,
  ...pipelines
]
const behindOthers = vectors.filter(({ bytes }) => bytes.length < 4000).map(vector => vector.bytes)
const plain = [
  get(),
  get('/a?b=%20c', 'X-Correlation-Id: mine', 'Accept: */*', 'X-A: 1', 'x-a: 2'),
  get('/x', 'Connection: keep-alive'),
  'HEAD /h HTTP/1.1\r\nHost: A:80\r\n\r\n',
  get('/f', 'X-Forwarded-For: 203.0.113.9', 'X-Forwarded-Proto: https'),
  post('/in', 'abc'),
  post('/in', ''),
  post('/streamed', 'x'.repeat(3000)),
  post('/unread', 'y'.repeat(2000)),
  post('/limited', 'abcde'),
  post('/unread', get('/smuggled')),
  chunked('/in', 'abc'),
  chunked('/streamed', 'q'.repeat(500)),
  get('/last', 'Connection: close'),
  get('/b', 'Authorization: L402 a:b', 'Authorization: Bearer c'),
  post('/in', 'z'.repeat(200_000)),
  post('/unread', 'z'.repeat(100_000))
]

t.test('the fast lane and node:http answer the vectors alike', async t => {
  const lane = await Side.open(t, true)
  const node = await Side.open(t, false)
  for (const bytes of [...vectors, ...upgrades]
    .filter(vector => vector.closesWithoutLane !== true)
    .map(vector => vector.bytes)
    .concat(plain)) {
    for (const leave of [false, true]) {
      const seen = await lane.tell([bytes], leave)
      t.strictSame(
        seen,
        await node.tell([bytes], leave),
        `${JSON.stringify(bytes.slice(0, 70))}${leave ? ', and leave' : ''}`
      )
    }
  }
})

t.test('the fast lane and node:http answer whatever is behind, and split at any place, alike', async t => {
  const lane = await Side.open(t, true)
  const node = await Side.open(t, false)
  const one = fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...plain) },
    { weight: 1, arbitrary: fc.constantFrom(...behindOthers) }
  )
  const shares = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 4 })
  await fc.assert(
    fc.asyncProperty(
      fc.array(one, { minLength: 1, maxLength: 5 }),
      shares,
      fc.boolean(),
      async (requests, places, leave) => {
        const pieces = cut(requests.join(''), places)
        const seen = await lane.tell(pieces, leave)
        deepStrictEqual(seen, await node.tell(pieces, leave))
      }
    ),
    { numRuns: 250 }
  )
  t.pass('they were alike')
})

const headers = fc.array(
  fc.oneof(
    fc.tuple(
      fc.constantFrom('X-A', 'x-a', 'Set-Cookie', 'Content-Type', 'Cache-Control'),
      fc.constantFrom('a', 'b c', '', '\t"x"', 'max-age=1')
    ),
    fc.constantFrom(
      ['Connection', 'close'],
      ['Connection', 'X-A'],
      ['connection', 'keep-alive'],
      ['Date', 'then'],
      ['Trailer', 'X-Sum'],
      ['Transfer-Encoding', 'gzip'],
      ['Keep-Alive', 'timeout=5']
    )
  ),
  { maxLength: 5 }
)
const pieces = fc.array(fc.oneof(fc.nat({ max: 50 }), fc.constantFrom(0, 16 * 1024, 16 * 1024 + 1, 100_000)), {
  maxLength: 4
})
const answers = fc.record({
  method: fc.constantFrom('GET', 'HEAD', 'POST'),
  asks: fc.constantFrom('', 'Connection: close\r\n'),
  status: fc.constantFrom(200, 200, 201, 204, 205, 304, 404, 299, 599),
  headers,
  length: fc.boolean(),
  pieces,
  last: fc.constantFrom<(string | Buffer | null)[]>(null, '', 'last', Buffer.from('last'), Buffer.alloc(20_000, 'l')),
  waits: fc.array(fc.boolean(), { minLength: 7, maxLength: 7 }),
  hints: fc.boolean(),
  trailers: fc.constantFrom(null, [], ['X-Sum', '1', 'X-Other', '2']),
  broken: fc.constantFrom(false, false, false, true)
})

t.test('the fast lane and node:http write the same bytes for the same answer', async t => {
  const lane = await Side.open(t, true)
  const node = await Side.open(t, false)
  await fc.assert(
    fc.asyncProperty(answers, async answer => {
      const bodies = answer.pieces.map(size => Buffer.alloc(size, 0xe9))
      const size = bodies.reduce((sum, bytes) => sum + bytes.length, 0) + (answer.last?.length ?? 0)
      const framed =
        answer.status === 205 ? ['Content-Length', '0'] : answer.length ? ['Content-Length', String(size)] : []
      const empty = answer.status === 205
      const steps: Step[] = []
      const wait = (at: number) => {
        if (answer.waits[at] === true) steps.push({ kind: 'wait' }, { kind: 'wait' })
      }
      wait(0)
      const hints: Step = { kind: 'interim', status: 103, headers: ['Link', '</a>'] }
      // Of the interim answers, only 102 and 103 are for clients.
      if (answer.hints) steps.push({ ...hints, status: 100 }, hints)
      wait(1)
      steps.push({ kind: 'head', status: answer.status, headers: [...answer.headers.flat(), ...framed] })
      if (answer.hints) steps.push(hints)
      wait(2)
      for (const [at, bytes] of bodies.entries()) {
        if (!empty) steps.push({ kind: 'write', bytes })
        wait(3 + at)
      }
      if (answer.broken) steps.push({ kind: 'wait' }, { kind: 'wait' }, { kind: 'destroy' })
      else steps.push({ kind: 'end', last: empty ? null : answer.last, trailers: answer.trailers })
      lane.steps = node.steps = steps
      const request = `${answer.method} /played HTTP/1.1\r\nHost: a\r\n${answer.asks}\r\n`
      const seen = await lane.tell([request, get('/after')], false)
      const expected = await node.tell([request, get('/after')], false)
      if (answer.broken) {
        // How much of it was read before the reset is left to the system.
        deepStrictEqual(seen.contexts, expected.contexts)
        return
      }
      deepStrictEqual(seen, expected)
    }),
    { numRuns: 400 }
  )
  t.pass('they were alike')
})

t.test('plain requests do not pass through node:http, others do', async t => {
  let byNode = 0
  const count = () => {
    byNode++
  }
  const requests = channel('http.server.request.start')
  requests.subscribe(count)
  t.teardown(() => {
    requests.unsubscribe(count)
  })
  const door = await openDoor(t, {
    fastLane: true,
    async handle(ctx, wire) {
      reply(wire, 200, String(await ctx.body.bytes()))
    }
  })
  const client = await door.connect()
  for (const request of [get(), get('/b', 'Connection: keep-alive'), post('/c', 'abc'), `${get('/1')}${get('/2')}`]) {
    client.send(request)
    t.equal((await client.response()).status, 200)
  }
  t.equal((await client.response()).status, 200)
  t.equal(byNode, 0)
  client.send(chunked('/d', 'abc'))
  t.equal((await client.response()).body, 'abc')
  t.equal(byNode, 1)
  client.send(get())
  t.equal((await client.response()).status, 200)
  t.equal(byNode, 2, 'from then on the connection stays there')
})

// node:http writes such a header as UTF-8 when it leaves alone or with a body of text.
t.test('a header beyond ASCII keeps its bytes, alone and beside a body', async t => {
  const named = ['X-Latin', '\u00e9', 'Content-Length', '7', 'Content-Disposition', 'attachment; filename="\u00e9"']
  const ways: readonly (readonly Step[])[] = [
    [
      { kind: 'head', status: 200, headers: named },
      { kind: 'end', last: 'gr\u00fc\u00dfe', trailers: null }
    ],
    [
      { kind: 'head', status: 200, headers: named },
      { kind: 'end', last: Buffer.from('gr\u00fc\u00dfe'), trailers: null }
    ],
    [
      { kind: 'head', status: 200, headers: named },
      { kind: 'wait' },
      { kind: 'write', bytes: Buffer.from('gr\u00fc\u00dfe') },
      { kind: 'end', last: null, trailers: null }
    ]
  ]
  for (const steps of ways) {
    const door = await openDoor(t, {
      fastLane: true,
      handle(_ctx, wire) {
        watchWire(wire)
        void play(wire, steps)
      }
    })
    const client = await door.connect()
    client.send(get())
    const response = await client.response()
    t.equal(response.header('x-latin'), '\u00e9')
    t.equal(response.header('content-disposition'), 'attachment; filename="\u00e9"')
    t.equal(Buffer.from(response.body, 'latin1').toString(), 'gr\u00fc\u00dfe')
  }
})

t.test('a head that would break a line is not written, and another one may follow', async t => {
  const door = await openDoor(t, {
    fastLane: true,
    handle(_ctx, wire) {
      watchWire(wire)
      for (const [name, value] of [
        ['X', 'a\r\nb: c'],
        ['X Y', 'a'],
        ['X', 'a\u0100'],
        ['', 'a'],
        ['X', '\x00']
      ])
        t.throws(
          () => {
            wire.head(200, [name ?? '', value ?? ''])
          },
          { name: 'TypeError' }
        )
      t.throws(
        () => {
          wire.head(99, [])
        },
        { name: 'RangeError' }
      )
      t.throws(
        () => {
          wire.end(null, null)
        },
        { name: 'TypeError' }
      )
      reply(wire, 200, 'good')
    }
  })
  const client = await door.connect()
  client.send(get())
  t.equal((await client.response()).body, 'good')
})

t.test('a client that pipelines many requests is throttled, and gets every response in order', async t => {
  const door = await openDoor(t, {
    fastLane: true,
    async handle(ctx, wire) {
      watchWire(wire)
      await setImmediate()
      reply(wire, 200, ctx.target)
    }
  })
  const client = await door.connect()
  const filler = `X-Filler: ${'x'.repeat(4000)}`
  const count = 200
  for (let at = 0; at < count; at++) client.send(get(`/${at}`, filler))
  for (let at = 0; at < count; at++) t.equal((await client.response()).body, `/${at}`)
})

t.test('bytes that the lane has held back are parsed before later ones', async t => {
  const seen: string[] = []
  const answers: (() => void)[] = []
  const door = await openDoor(t, {
    fastLane: true,
    handle(ctx, wire) {
      seen.push(ctx.target)
      watchWire(wire)
      answers.push(() => {
        reply(wire, 200, ctx.target)
      })
    }
  })
  const client = await door.connect()
  const quiet = async () => {
    for (let turns = 0; turns < 50; turns++) await setImmediate()
  }
  const filler = `X-Filler: ${'x'.repeat(5000)}`
  client.send(get('/first'))
  await quiet()
  client.send(chunked('/chunked', 'a'))
  let count = 0
  // More than the lane keeps, and more requests than may wait behind one another: it is read no further at either
  // place.
  while (count < 14) client.send(get(`/${count++}`, filler))
  await quiet()
  answers.shift()?.()
  await quiet()
  while (count < 1000) client.send(get(`/${count++}`))
  while (seen.length < count + 2) {
    answers.shift()?.()
    await setImmediate()
  }
  t.same(seen, ['/first', '/chunked', ...Array.from({ length: count }, (_, at) => `/${at}`)])
})
