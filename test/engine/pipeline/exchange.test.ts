import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { Chain } from '../../../src/engine/pipeline/chain.ts'
import { Context, NO_ROUTE } from '../../../src/engine/message/context.ts'
import { ClientGone, LongError, ShortError } from '../../../src/engine/operations/errors.ts'
import { Exchange } from '../../../src/engine/pipeline/exchange.ts'
import { type Responder, type TunnelPolicy, definePlugin, type Hooks } from '../../../src/engine/pipeline/plugin.ts'
import { harness, type HarnessAnswer, type HarnessOptions } from '../../../src/engine/pipeline/harness.ts'
import { WholeBody } from '../../../src/engine/message/request-body.ts'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import type { Outcome } from '../../../src/engine/message/reply.ts'
import type {
  Stopping,
  TunnelResponse,
  TunnelResult,
  TunnelTarget,
  Wire,
  WireListener
} from '../../../src/engine/message/wire.ts'
import { Type } from 'typebox'

/** A chain of bare hooks with an answer at its end. */
function chainOf(hooks: readonly Hooks[], answer: HarnessAnswer = {}, options: HarnessOptions = {}) {
  return harness(
    hooks.map((hook, i) => definePlugin({ name: `p${i}`, config: Type.Object({}), setup: () => hook })),
    { ...options, answer }
  )
}

const ok = (body: string | null = 'ok') => ({ status: 200, headers: ['X-Own', '1'], body })

const plainPolicy: TunnelPolicy = { headers: (_status, raw) => new HeaderList([...raw]), failure: error => error }

t.test('replies: carry their length, no-store and the two headers of every response', async t => {
  const result = await (await chainOf([], () => ok('héllo'))).run({ correlationId: 'c-9' })
  t.same(result.headers.pairs, [
    'X-Own',
    '1',
    'Content-Length',
    '6',
    'Cache-Control',
    'no-store',
    'X-Correlation-Id',
    'c-9',
    'X-API-Version',
    '1.0.0'
  ])
  t.equal(result.text, 'héllo')
  const cachingOf = async (...given: Parameters<typeof chainOf>) =>
    (await (await chainOf(...given)).run()).headers.all('cache-control')
  t.same(await cachingOf([], () => ({ ...ok(''), headers: ['Cache-Control', 'public'] })), ['public'])
  t.same(await cachingOf([], {}), [], "an upstream's response stays as it is")
  const failing = (): never => {
    throw new ShortError(404, 'No.')
  }
  t.same(await cachingOf([], failing), ['no-store'], 'errors')
  t.match(result.outcome, { status: 200, source: 'reply', headSent: true, delivered: true, bytesOut: 6, error: null })
})

t.test("an operator's upstream keeps its X-API-Version, an own route does not", async t => {
  const answer = { headers: { 'x-api-version': '7' } }
  t.same((await (await chainOf([], answer)).run()).headers.all('x-api-version'), ['7'])
  t.same((await (await chainOf([], answer, { route: { own: true } })).run()).headers.all('x-api-version'), ['1.0.0'])
  t.same((await (await chainOf([], {})).run()).headers.all('x-api-version'), ['1.0.0'])
  t.same(
    (
      await (
        await chainOf([], () => {
          throw new ShortError(400, 'No.')
        })
      ).run()
    ).headers.all('x-api-version'),
    ['1.0.0']
  )
})

t.test('an upstream cannot choose the correlation id of the answer', async t => {
  t.same(
    (
      await (await chainOf([], { headers: { 'X-Correlation-Id': 'theirs' } })).run({ correlationId: 'ours' })
    ).headers.all('x-correlation-id'),
    ['ours']
  )
})

t.test('a constant reply is not changed by hooks, so that requests can share it', async t => {
  const constant = Object.freeze({ status: 200, headers: Object.freeze(['A', '1']), body: 'x' })
  const chain = await chainOf(
    [
      {
        response(_ctx, head) {
          head.headers.set('A', '2')
          head.headers.set('B', '3')
          head.status = 418
        }
      }
    ],
    () => constant
  )
  for (let i = 0; i < 2; i++) {
    const result = await chain.run()
    t.same([result.status, result.headers.get('a'), result.headers.get('b')], [418, '2', '3'])
  }
  t.same(constant.headers, ['A', '1'])
})

t.test('204, 205 and 304 have neither body nor length', async t => {
  for (const status of [204, 205, 304]) {
    const seen: Uint8Array[] = []
    const result = await (
      await chainOf(
        [
          {
            chunk(_ctx, bytes) {
              seen.push(bytes)
            }
          }
        ],
        () => ({ status, headers: [], body: 'ignored' })
      )
    ).run()
    t.same([result.status, result.text, result.headers.has('content-length'), seen.length], [status, '', false, 0])
  }
})

t.test('a refusal that reached the client was delivered, and says why it was one', async t => {
  const error = new LongError(404, 'Not found', 'No.')
  const result = await (
    await chainOf([
      {
        request() {
          throw error
        }
      }
    ])
  ).run()
  t.match(result.outcome, { status: 404, source: 'error', delivered: true, headSent: true })
  t.equal(result.outcome.error, error)
  t.same(result.faults, [], 'a refusal is no fault')
})

t.test('a hook that throws anywhere is answered once with 500 and reported once', async t => {
  const boom = (): never => {
    throw new Error('boom')
  }
  const later = async (): Promise<never> => {
    await Promise.resolve()
    throw new Error('boom')
  }
  const places: [string, Hooks[], HarnessAnswer][] = [
    ['request', [{ request: boom }], {}],
    ['asynchronous request', [{ request: later }], {}],
    ['handle', [], boom],
    ['asynchronous handle', [], later],
    ['upstream', [{ upstream: boom }], {}],
    ['response to a reply', [{ response: boom }], () => ok()],
    ['response to an asynchronous reply', [{ response: boom }], async () => ok()],
    ['response to a reply after an asynchronous request', [{ request: async () => {}, response: boom }], () => ok()],
    ['response to an asynchronous reply of a request', [{ response: boom }, { request: async () => ok() }], {}],
    ['asynchronous response', [{ response: later }], () => ok()],
    ['response to the upstream', [{ response: boom }], { body: ['a', 'b'] }],
    ['asynchronous response to the upstream', [{ response: later }], { body: ['a', 'b'] }],
    ['second of two', [{ response: boom }, { response: later }], {}]
  ]
  for (const [name, hooks, answer] of places) {
    const outcomes: Outcome[] = []
    const chain = await chainOf(
      [
        {
          done(_ctx, outcome) {
            outcomes.push(outcome)
          }
        },
        ...hooks
      ],
      answer
    )
    const result = await chain.run()
    t.equal(result.status, 500, name)
    t.match(result.json(), { error: 'An unexpected error occurred', detail: 'boom' }, name)
    t.equal(result.faults.length, 1, name)
    t.equal(outcomes.length, 1, name)
    t.equal(result.outcome.source, 'error', name)
  }
})

t.test("a hook that fails on an error's way up does not hide the answer", async t => {
  const chain = await chainOf([
    {
      response() {
        throw new Error('second')
      }
    },
    {
      request() {
        throw new ShortError(400, 'first')
      }
    }
  ])
  const result = await chain.run()
  t.equal(result.status, 500)
  t.match(result.outcome.error, { message: 'first' })
})

t.test('a watcher that throws breaks the answer off', async t => {
  const watcher: Hooks = {
    chunk() {
      throw new Error('boom')
    }
  }
  for (const answer of [() => ok(), async () => ok(), { body: ['a', 'b'] }] as HarnessAnswer[]) {
    const result = await (await chainOf([watcher], answer)).run()
    t.equal(result.destroyed, true)
    t.equal(result.outcome.delivered, false)
    t.equal(result.faults.length, 1)
  }
})

t.test('a watcher lets the upstream wait until it is done', async t => {
  const gate = Promise.withResolvers<void>()
  const notified: unknown[] = []
  const chain = await chainOf([{ chunk: () => gate.promise }], (_ctx, responder) => {
    void responder.head(200, new HeaderList())
    responder.onDrain = () => {
      notified.push('drain')
      responder.end(null)
    }
    notified.push(responder.write(Buffer.from('a')), responder.write(Buffer.from('b')))
  })
  const running = chain.run()
  t.same(notified, [false, false])
  gate.resolve()
  const result = await running
  t.same([notified.length, notified[2], result.text, result.outcome.delivered], [3, 'drain', 'ab', true])
})

t.test('a response that is cut ends with the last bytes, and is broken off where they have no place', async t => {
  const error = new LongError(402, 'Payment Required', 'No more.')
  for (const [length, last, text] of [
    [null, 'end', 'aend'],
    [null, null, null],
    ['5', 'end', null]
  ] as const) {
    let closed = 0
    const hooks: Hooks = { last: () => null }
    const chain = await chainOf([hooks], (ctx, responder) => {
      responder.onClose = () => closed++
      void responder.head(200, new HeaderList(length === null ? [] : ['Content-Length', length]))
      responder.write(Buffer.from('a'))
      for (let time = 0; time < 2; time++) ctx.response?.cut(error, last === null ? null : Buffer.from(last))
      t.equal(responder.write(Buffer.from('b')), true, 'later events are dropped')
      responder.end(null)
    })
    const result = await chain.run()
    t.same([result.destroyed, closed, result.faults.length], [text === null, 1, 0])
    if (text !== null) t.equal(result.text, text)
    t.equal(result.outcome.error, error)
  }
})

t.test('watchers see the bytes of replies and of upstreams', async t => {
  for (const answer of [() => ok('abc'), { body: ['a', 'bc'] }] as HarnessAnswer[]) {
    const seen: string[] = []
    await (
      await chainOf(
        [
          {
            chunk(_ctx, bytes) {
              seen.push(Buffer.from(bytes).toString())
            }
          }
        ],
        answer
      )
    ).run()
    t.equal(seen.join(''), 'abc')
  }
})

t.test('an upstream that fails before its head becomes an answer, after it a broken connection', async t => {
  const fails =
    (after: boolean): HarnessAnswer =>
    (_ctx, responder) => {
      if (after) {
        void responder.head(200, new HeaderList())
        responder.write(Buffer.from('part'))
      }
      responder.fail(new LongError(502, 'Bad gateway', 'The upstream died.'))
      responder.fail(new Error('a second time'))
      responder.end(null)
    }
  const before = await (await chainOf([], fails(false))).run()
  t.match(before.outcome, { status: 502, source: 'error', delivered: true })
  t.equal(before.faults.length, 1)
  const after = await (await chainOf([], fails(true))).run()
  t.equal(after.destroyed, true)
  t.match(after.outcome, {
    status: 200,
    source: 'upstream',
    headSent: true,
    delivered: false,
    error: { message: 'The upstream died.' }
  })
  t.equal(after.faults.length, 1)
})

t.test('an upstream that fails while hooks work on its head gets one answer', async t => {
  const gate = Promise.withResolvers<void>()
  const chain = await chainOf([{ response: () => gate.promise }], (_ctx, responder) => {
    void responder.head(200, new HeaderList())
    responder.fail(new LongError(502, 'Bad gateway', 'The upstream died.'))
  })
  const running = chain.begin()
  await setImmediate()
  gate.resolve()
  const result = await running.result
  t.equal(result.status, 502)
  t.equal(result.outcome.source, 'error')
})

t.test('events after the end are ignored', async t => {
  const chain = await chainOf([], (_ctx, responder) => {
    void responder.head(200, new HeaderList())
    void responder.head(500, new HeaderList())
    responder.end(null)
    t.equal(responder.write(Buffer.from('late')), true)
    responder.fail(new Error('late'))
    responder.end(null)
  })
  const result = await chain.run()
  t.match(result, { status: 200, text: '', destroyed: false, outcome: { delivered: true, error: null } })
  t.same(result.faults, [])
})

t.test('a terminal plugin that rejects after its answer is whole does not break it off', async t => {
  const chain = await chainOf([], async (_ctx, responder) => {
    void responder.head(200, new HeaderList())
    responder.end(null)
    await Promise.reject(new Error('late'))
  })
  const result = await chain.run()
  t.equal(result.destroyed, false)
  t.equal(result.outcome.delivered, true)
})

t.test('an error of a done hook is reported and does not stop the end', async t => {
  const result = await (
    await chainOf([
      {
        done() {
          throw new Error('broken')
        }
      }
    ])
  ).run()
  t.match(result.faults, [{ message: 'broken' }])
})

t.test('when the client leaves, the terminal plugin is notified immediately, and nothing more is written', async t => {
  let responder: Responder | null = null
  let closed = 0
  const chain = await chainOf([], (_ctx, given) => {
    responder = given
    given.onClose = () => {
      closed++
    }
  })
  const running = chain.begin()
  running.leave()
  t.equal(closed, 1)
  const result = await running.result
  t.match(result.outcome, { status: 499, headSent: false, delivered: false })
  t.type(result.outcome.error, ClientGone)
  const late = responder as unknown as Responder
  t.equal(late.gone, true)
  t.equal(late.head(200, new HeaderList()), undefined)
  late.fail(new Error('late'))
  t.same([result.status, result.faults], [0, []])
})

t.test('an onClose that throws is reported, and the request still ends', async t => {
  const running = (
    await chainOf([], (_ctx, responder) => {
      responder.onClose = () => {
        throw new Error('abort failed')
      }
    })
  ).begin()
  running.leave()
  t.match((await running.result).faults, [{ message: 'abort failed' }])
})

t.test('no plugin gets the end while its own request hook still runs, and none after it is entered', async t => {
  const gate = Promise.withResolvers<void>()
  const calls: string[] = []
  const chain = await chainOf(
    [
      {
        async request() {
          await gate.promise
          calls.push('leased')
        },
        done() {
          calls.push('released')
        }
      },
      {
        request() {
          calls.push('second request')
        },
        done() {
          calls.push('second done')
        }
      }
    ],
    () => {
      calls.push('handle')
      return ok()
    }
  )
  const running = chain.begin()
  running.leave()
  await setImmediate()
  t.same(calls, [])
  gate.resolve()
  t.equal((await running.result).outcome.status, 499)
  t.same(calls, ['leased', 'released'])
})

t.test('the answer of an operation whose client has left still goes up the chain', async t => {
  const gate = Promise.withResolvers<void>()
  const calls: string[] = []
  const chain = await chainOf(
    [
      {
        response(_ctx, head) {
          calls.push(`head ${head.status}`)
        },
        chunk(_ctx, bytes) {
          calls.push(`body ${Buffer.from(bytes).toString()}`)
        },
        done(_ctx, outcome) {
          calls.push(`done ${outcome.status}`)
        }
      }
    ],
    async () => {
      await gate.promise
      return ok('made')
    }
  )
  const running = chain.begin()
  running.leave()
  gate.resolve()
  const result = await running.result
  t.same(calls, ['head 200', 'body made', 'done 499'])
  t.equal(result.status, 0)
})

t.test('an error of an operation whose client has left is reported', async t => {
  const gate = Promise.withResolvers<void>()
  const running = (
    await chainOf([], async () => {
      await gate.promise
      throw new Error('boom')
    })
  ).begin()
  running.leave()
  gate.resolve()
  const result = await running.result
  t.equal(result.faults.length, 1)
  t.equal(result.outcome.status, 499)
})

t.test('a client that leaves while hooks work on the head gets none, and done comes after them', async t => {
  const gate = Promise.withResolvers<void>()
  const calls: string[] = []
  const chain = await chainOf([
    {
      async response() {
        await gate.promise
        calls.push('response')
      },
      done(_ctx, outcome) {
        calls.push(`done ${outcome.status}`)
      }
    }
  ])
  const running = chain.begin()
  await setImmediate()
  running.leave()
  await setImmediate()
  t.same(calls, [])
  gate.resolve()
  t.equal((await running.result).status, 0)
  t.same(calls, ['response', 'done 499'])
})

t.test('a client that leaves in the middle of a stream ends it undelivered', async t => {
  const chain = await chainOf([], (_ctx, responder) => {
    void responder.head(200, new HeaderList())
    responder.write(Buffer.from('part'))
  })
  const running = chain.begin()
  running.leave()
  t.match((await running.result).outcome, { status: 200, headSent: true, delivered: false, bytesOut: 4 })
})

/** A wire that a test plays by hand. */
class ManualWire implements Wire {
  listener: WireListener | null = null
  gone = false
  stopping: Stopping = false
  bytesOut = 0
  readonly log: string[] = []
  headers: string[] = []
  takes = true
  begun = true
  play: ((accepted: (response: TunnelResponse) => void | Promise<void>) => Promise<TunnelResult>) | null = null

  reads: Promise<boolean> | null = null

  stillReads(): Promise<boolean> | null {
    return this.reads
  }

  interim(status: number): void {
    this.log.push(`interim ${status}`)
  }
  head(status: number, headers: string[]): void {
    this.log.push(`head ${status}`)
    this.headers = headers
  }
  write(bytes: Uint8Array): boolean {
    this.log.push(`write ${bytes.byteLength}`)
    return this.takes
  }
  end(_last: string | Uint8Array | null, trailers: readonly string[] | null): void {
    this.log.push(`end ${trailers?.join(':') ?? ''}`)
  }
  destroy(): void {
    this.log.push('destroy')
  }
  tunnel(_target: TunnelTarget, accepted: (response: TunnelResponse) => void | Promise<void>): Promise<TunnelResult> {
    if (this.play === null) throw new Error('no tunnel here')
    return this.play(accepted)
  }
}

t.test('a head that was broken off before the connection was given any of it counts as not sent', async t => {
  const { wire, outcomes } = play((responder, wire) => {
    wire.begun = false
    void responder.head(200, new HeaderList())
    responder.write(new Uint8Array(3))
    responder.fail(new Error('The upstream died.'))
  })
  t.same(wire.log, ['head 200', 'write 3', 'destroy'])
  wire.listener?.closed(false)
  t.match(outcomes, [{ status: 499, source: 'upstream', headSent: false, delivered: false }])
})

t.test('heads: one whose client has left does not go up the chain', async t => {
  for (const reads of [true, false]) {
    const calls: string[] = []
    const { wire, outcomes } = play(
      (responder, wire) => {
        wire.reads = Promise.resolve(reads)
        void responder.head(200, new HeaderList())
      },
      [
        {
          response() {
            calls.push('response')
          }
        }
      ]
    )
    t.same(wire.log, [], 'nothing is written before the client requests it')
    await setImmediate()
    t.same(wire.log, reads ? ['head 200'] : ['destroy'])
    t.same(calls, reads ? ['response'] : [])
    wire.listener?.closed(false)
    t.match(outcomes, [{ headSent: reads, delivered: false }])
  }
})

function play(
  handle: (responder: Responder, wire: ManualWire) => ReturnType<NonNullable<Hooks['handle']>>,
  hooks: Hooks[] = []
) {
  const outcomes: Outcome[] = []
  const wire = new ManualWire()
  const ctx = new Context(
    {
      method: 'GET',
      target: '/',
      headers: new HeaderList(),
      host: 'h',
      body: new WholeBody(),
      peerAddress: '::1',
      clientAddress: '::1',
      secure: false,
      httpVersion: '1.1',
      upgrade: null,
      expectsContinue: false,
      correlationId: 'c',
      now: 0,
      startedAt: 0
    },
    NO_ROUTE
  )
  const chain = new Chain(
    [
      {
        done(_ctx, outcome) {
          outcomes.push(outcome)
        }
      },
      ...hooks,
      { handle: (_ctx, responder) => handle(responder, wire) }
    ],
    0
  )
  const exchange = new Exchange(ctx, wire, chain, {
    mode: 'production',
    now: () => 0,
    monotonic: () => 5,
    fault: () => {},
    finished: () => {}
  })
  exchange.start()
  return { wire, exchange, outcomes }
}

t.test('back-pressure goes both ways, interim heads only before the head, trailers with the end', async t => {
  let drained = 0
  const { wire, outcomes } = play((responder, wire) => {
    responder.onDrain = () => {
      drained++
    }
    responder.interim(103, [])
    void responder.head(200, new HeaderList())
    responder.interim(103, [])
    wire.takes = false
    t.equal(responder.write(new Uint8Array(3)), false)
    responder.end(['X-Sum', '1'])
  })
  wire.listener?.drained()
  t.equal(drained, 1)
  t.same(wire.log, ['interim 103', 'head 200', 'write 3', 'end X-Sum:1'])
  t.same(outcomes, [], 'it is over when the connection says so')
  wire.listener?.closed(true)
  wire.listener?.closed(false)
  t.match(outcomes, [{ delivered: true, duration: 5 }])
  t.equal(outcomes.length, 1)
})

t.test('a response that a stopping process cuts was not broken off by its client, unless that was behind', async t => {
  for (const [takes, stopping, status] of [
    [true, 'cut', 503],
    [false, 'cut', 499],
    [true, true, 499]
  ] as const) {
    const { wire, outcomes } = play((responder, wire) => {
      void responder.head(200, new HeaderList())
      wire.takes = takes
      responder.write(new Uint8Array(3))
    })
    wire.stopping = stopping
    wire.listener?.closed(false)
    t.match(outcomes, [{ headSent: true, delivered: false, error: { status } }])
  }
})

const target: TunnelTarget = {
  origin: 'http://u',
  path: '/',
  headers: [],
  address: null,
  tls: null,
  timeout: 1,
  responseLimit: Infinity
}

t.test("an upgrade's head goes up the chain, and its bytes are in the outcome", async t => {
  const handed: TunnelResponse = { status: 101, headers: ['Upgrade', 'websocket'] }
  const done = Promise.withResolvers<void>()
  const { wire, outcomes } = play(
    (responder, wire) => {
      wire.play = async accepted => {
        await accepted(handed)
        await done.promise
        return { kind: 'closed', bytesIn: 10, bytesOut: 20 }
      }
      return responder.tunnel(target, plainPolicy)
    },
    [
      {
        response(_ctx, head) {
          head.headers.set('X-Gate', 'paid')
        }
      }
    ]
  )
  await setImmediate()
  wire.listener?.closed(true)
  done.resolve()
  await setImmediate()
  t.match(outcomes, [{ status: 101, source: 'upstream', headSent: true, delivered: true, bytesIn: 10, bytesOut: 20 }])
  t.same(handed.headers, ['Upgrade', 'websocket', 'X-Gate', 'paid', 'X-Correlation-Id', 'c', 'X-API-Version', '1.0.0'])
})

t.test('an upgrade that the upstream refuses is an ordinary answer', async t => {
  const { wire } = play((responder, wire) => {
    wire.play = () =>
      Promise.resolve({
        kind: 'refused',
        response: { status: 403, headers: ['A', 'b'] },
        body: Readable.from([new Uint8Array(4), new Uint8Array(2)])
      })
    return responder.tunnel(target, plainPolicy)
  })
  await setImmediate()
  await setImmediate()
  t.same(wire.log, ['head 403', 'write 4', 'write 2', 'end '])
})

t.test('a client that leaves in the answer to a refused upgrade lets the upstream go', async t => {
  const body = new Readable({ read: () => undefined })
  const { wire, outcomes } = play((responder, wire) => {
    wire.play = () => Promise.resolve({ kind: 'refused', response: { status: 200, headers: [] }, body })
    return responder.tunnel(target, plainPolicy)
  })
  await setImmediate()
  body.push(new Uint8Array(3))
  await setImmediate()
  t.same(wire.log, ['head 200', 'write 3'], 'it is passed on as it comes')
  wire.listener?.closed(false)
  await setImmediate()
  t.ok(body.destroyed)
  t.match(outcomes, [{ status: 200, delivered: false }])
})

t.test('an upgrade that fails is answered like any failure', async t => {
  const { wire } = play((responder, wire) => {
    wire.play = () => Promise.reject(new LongError(504, 'Gateway timeout', 'Too slow.'))
    return responder.tunnel(target, plainPolicy)
  })
  await setImmediate()
  t.same(wire.log, ['head 504', 'end '])
})

t.test('a hook that refuses the 101 is answered with its error', async t => {
  const { wire } = play(
    (responder, wire) => {
      wire.play = async accepted => {
        await accepted({ status: 101, headers: [] })
        return { kind: 'closed', bytesIn: 0, bytesOut: 0 }
      }
      return responder.tunnel(target, plainPolicy)
    },
    [
      {
        response() {
          throw new LongError(503, 'Unavailable', 'No.')
        }
      }
    ]
  )
  await setImmediate()
  t.same(wire.log, ['head 503', 'end '])
})
