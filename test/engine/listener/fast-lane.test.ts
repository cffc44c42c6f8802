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

/** A listener that reports each connection, one after the other. */
class Side {
  readonly #door: Door
  readonly #clock: ManualClock
  #contexts: unknown[] = []

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

t.test('a header beyond ASCII keeps its bytes, alone and beside a body', async t => {
  const body = Buffer.from('gr\u00fc\u00dfe')
  for (const end of [
    (wire: Wire) => {
      wire.end('gr\u00fc\u00dfe', null)
    },
    (wire: Wire) => {
      wire.end(body, null)
    },
    async (wire: Wire) => {
      await setImmediate()
      wire.write(body)
      wire.end(null, null)
    }
  ]) {
    const door = await openDoor(t, {
      handle(_ctx, wire) {
        watchWire(wire)
        wire.head(200, [
          'X-Latin',
          '\u00e9',
          'Content-Length',
          '7',
          'Content-Disposition',
          'attachment; filename="\u00e9"'
        ])
        void end(wire)
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
