import { createHash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import idempotency from '../../plugins/idempotency.ts'
import {
  definePlugin,
  HeaderList,
  ShortError,
  StateUnavailable,
  Type,
  type Reply,
  type State
} from '../../src/index.ts'
import { harness, type HarnessRequest } from '../../src/engine/pipeline/harness.ts'
import { merchant, testServices, type TestServices } from '../support/plugin-harness.ts'

interface Bench {
  readonly chain: Awaited<ReturnType<typeof harness>>
  readonly services: TestServices
  /** How often the operation ran. */
  ran(): number
}

const created = (n: number) => ({
  status: 201,
  headers: ['Content-Type', 'application/json', 'X-Run', String(n)],
  body: `{"run":${n}}`
})

async function build(
  answer: (n: number) => Reply | Promise<Reply> = created,
  config: object = {},
  over: Partial<TestServices> = {}
): Promise<Bench> {
  const services = { ...testServices(), ...over }
  let runs = 0
  const chain = await harness([{ plugin: idempotency, config }], { services, answer: () => answer(++runs) })
  return { chain, services, ran: () => runs }
}

function post(key: string | null, more: HarnessRequest = {}) {
  const headers: Record<string, string> = key === null ? {} : { 'X-Idempotency-Key': key }
  return { method: 'POST', target: '/api/payments', headers, body: '{"amount":1}', principal: merchant('7'), ...more }
}

t.test('a repetition gets the first answer byte for byte, and the operation ran once', async t => {
  const { chain, ran } = await build()
  const first = await chain.run(post('k', { correlationId: 'first' }))
  const second = await chain.run(post('k', { correlationId: 'second' }))
  t.equal(ran(), 1)
  t.notOk(first.headers.has('x-idempotency-replayed'))
  t.equal(second.status, 201)
  t.same(second.body, first.body)
  t.equal(second.headers.get('x-idempotency-replayed'), 'true')
  t.equal(second.headers.get('content-type'), 'application/json')
  t.equal(second.headers.get('x-run'), '1')
  t.same(second.headers.all('content-length'), ['9'])
  t.same(second.headers.all('x-correlation-id'), ['second'], 'the replay is a request of its own')
  t.same(second.headers.all('x-api-version'), ['1.0.0'])
})

t.test('any body is replayed as it was, and none as none', async t => {
  const bytes = Uint8Array.from({ length: 256 }, (_, i) => i)
  for (const [status, body] of [
    [200, bytes],
    [204, null]
  ] as const) {
    const { chain, ran } = await build(() => ({ status, headers: [], body }))
    await chain.run(post('k'))
    const again = await chain.run(post('k'))
    t.same([again.status, [...again.body], ran()], [status, [...(body ?? [])], 1])
  }
})

t.test('merchant, method, path and key each make another record', async t => {
  const { chain, ran } = await build(created, { methods: ['POST', 'PUT'] })
  await chain.run(post('k'))
  await chain.run(post('k', { principal: merchant('8') }))
  await chain.run(post('k', { method: 'PUT' }))
  await chain.run(post('k', { target: '/api/refunds' }))
  await chain.run(post('k2'))
  t.equal(ran(), 5)
  await chain.run(post('k', { target: '/api/payments?x=1' }))
  t.equal(ran(), 5, 'the query does not count')
})

t.test("the same key with another body is refused with the contract's shape", async t => {
  const { chain, ran } = await build()
  await chain.run(post('k'))
  const other = await chain.run(post('k', { body: '{"amount":1} ' }))
  t.equal(other.status, 400)
  t.strictSame(other.json(), { error: 'Idempotency key was already used with a different request.' })
  t.equal(ran(), 1)
})

t.test('requests without a key that counts, a principal or a counted method run each time', async t => {
  const { chain, ran } = await build()
  const { principal: _none, ...anonymous } = post('k')
  for (const request of [post(null), post('   '), anonymous, post('k', { method: 'GET' })])
    for (let time = 0; time < 2; time++) await chain.run(request)
  t.equal(ran(), 8)
  const both = { headers: { 'X-Idempotency-Key': 'x', 'Idempotency-Key': 'standard' } }
  for (const request of [post(null, both), post('standard')]) await chain.run(request)
  t.equal(ran(), 9, 'Idempotency-Key wins over X-Idempotency-Key')
  await chain.run(post('x'))
  t.equal(ran(), 10)
})

t.test('a key of 256 characters counts, one of 257 is refused with the exact text', async t => {
  const { chain, ran } = await build()
  for (let i = 0; i < 2; i++) t.equal((await chain.run(post('k'.repeat(256)))).status, 201)
  t.equal(ran(), 1)
  for (const name of ['Idempotency-Key', 'X-Idempotency-Key']) {
    const long = await chain.run(post(null, { headers: { [name]: 'k'.repeat(257) } }))
    t.equal(long.status, 400)
    t.equal(long.text, '{"error":"Idempotency key must not exceed 256 characters."}')
  }
  t.equal(ran(), 1)
})

t.test('only 2xx answers are kept', async t => {
  const answers: (() => Reply)[] = [
    () => {
      throw new ShortError(400, 'No.')
    },
    () => ({ status: 422, headers: [], body: 'no' }),
    () => {
      throw new Error('boom')
    },
    () => ({ status: 302, headers: ['Location', '/'], body: null }),
    () => created(5)
  ]
  const { chain, ran } = await build(n => (answers[n - 1] ?? created.bind(null, n))())
  const statuses: number[] = []
  for (let i = 0; i < 6; i++) statuses.push((await chain.run(post('k'))).status)
  t.same(statuses, [400, 422, 500, 302, 201, 201])
  t.equal(ran(), 5)
})

t.test('an answer that a plugin further out turned into an error is not kept in its place', async t => {
  let broken = true
  const breaking = definePlugin({
    name: 'breaking',
    config: Type.Object({}),
    setup: () => ({
      response: () => {
        if (broken) throw new Error('a third-party plugin')
      }
    })
  })
  const services = testServices()
  let runs = 0
  const chain = await harness(
    [
      { plugin: breaking, config: {} },
      { plugin: idempotency, config: {} }
    ],
    { services, answer: () => created(++runs) }
  )
  t.equal((await chain.run(post('k'))).status, 500)
  broken = false
  const second = await chain.run(post('k'))
  t.same([second.status, second.text, second.headers.has('x-idempotency-replayed')], [201, '{"run":2}', false])
})

t.test('an answer is forgotten after a day', async t => {
  const { chain, services, ran } = await build()
  await chain.run(post('k'))
  services.clock.advance(86_399_999)
  await chain.run(post('k'))
  t.equal(ran(), 1)
  services.clock.advance(1)
  await chain.run(post('k'))
  t.equal(ran(), 2)
})

/** A chain whose operation waits for `open`. */
async function held(answer: (n: number) => Reply = created) {
  const gate = Promise.withResolvers<void>()
  const bench = await build(async n => {
    await gate.promise
    return answer(n)
  })
  return { ...bench, open: gate.resolve }
}

t.test('requests wait for the first and get its answer', async t => {
  const { chain, ran, open } = await held()
  const all = [chain.run(post('k')), chain.run(post('k')), chain.run(post('k'))]
  t.equal((await chain.run(post('k', { body: 'other' }))).status, 400, 'one with another body does not wait')
  await setImmediate()
  open()
  const results = await Promise.all(all)
  t.equal(ran(), 1)
  t.same(new Set(results.map(result => result.text)), new Set(['{"run":1}']))
  t.equal(results.filter(result => result.headers.get('x-idempotency-replayed') === 'true').length, 2)
})

t.test('when the first fails, one of those that waited runs', async t => {
  const { chain, ran, open } = await held(n => {
    if (n === 1) throw new ShortError(400, 'No.')
    return created(n)
  })
  const both = [chain.run(post('k')), chain.run(post('k'))]
  await setImmediate()
  open()
  t.same(
    (await Promise.all(both)).map(result => result.status),
    [400, 201]
  )
  t.equal(ran(), 2)
})

t.test('after 30 seconds of waiting the answer is 503 with Retry-After', async t => {
  const { chain, services, ran, open } = await held()
  const first = chain.run(post('k'))
  const second = chain.run(post('k'))
  await setImmediate()
  services.clock.advance(30_000)
  const late = await second
  t.equal(late.status, 503)
  t.equal(late.headers.get('retry-after'), '5')
  open()
  t.equal((await first).status, 201)
  t.equal(ran(), 1)
})

t.test('a request keeps its key however long it runs, also when its client leaves', async t => {
  const { chain, services, ran, open } = await held()
  const first = chain.begin(post('k'))
  await setImmediate()
  for (let second = 0; second < 600; second++) services.clock.advance(1_000)
  first.leave()
  const retry = chain.run(post('k'))
  await setImmediate()
  open()
  t.equal((await first.result).outcome.status, 499)
  const second = await retry
  t.same([second.status, second.text, second.headers.get('x-idempotency-replayed')], [201, '{"run":1}', 'true'])
  t.equal(ran(), 1)
  services.state.extend = () => t.fail('a claim is renewed after its request has ended')
  services.clock.advance(3_600_000)
})

t.test('a key is free ten seconds after its worker died', async t => {
  const { chain, services, ran } = await build()
  const body = createHash('sha256').update('{"amount":1}').digest('hex')
  const dead = await services.state.begin(`merchant 7 POST /api/payments k`, body, 10_000)
  t.equal(dead.kind, 'run')
  services.clock.advance(10_000)
  t.equal((await chain.run(post('k'))).status, 201)
  t.equal(ran(), 1)
})

t.test('a response that was replayed from its row is not kept for another day', async t => {
  const { chain, ran } = await build(n => ({ ...created(n), headers: ['X-Idempotency-Replayed', 'true'] }))
  await chain.run(post('k'))
  t.equal((await chain.run(post('k'))).headers.all('x-idempotency-replayed').length, 1)
  t.equal(ran(), 2, 'the row is read again')
})

t.test("an upstream's answer is kept when all of it was delivered, and not when it broke off", async t => {
  const services = testServices()
  let runs = 0
  const chain = await harness(idempotency, {
    services,
    answer: (_ctx, responder) => {
      runs++
      void responder.head(200, new HeaderList(['Content-Type', 'text/plain', 'Date', 'then']))
      responder.write(Buffer.from('one '))
      if (runs === 1) {
        responder.fail(new Error('upstream died'))
        return
      }
      responder.write(Buffer.from('two'))
      responder.end(null)
    }
  })
  t.ok((await chain.run(post('k'))).destroyed)
  t.equal((await chain.run(post('k'))).text, 'one two')
  const third = await chain.run(post('k'))
  t.same([third.text, runs], ['one two', 2])
  t.notOk(third.headers.has('date'), "the date is not the replay's")
})

t.test('an answer that is too large is delivered and forgotten', async t => {
  const { chain, ran } = await build(() => ({ status: 200, headers: [], body: 'x'.repeat(1_048_577) }))
  for (let i = 0; i < 2; i++) t.equal((await chain.run(post('k'))).text.length, 1_048_577)
  t.equal(ran(), 2)
})

t.test('without the shared state nothing runs', async t => {
  const state = { begin: () => Promise.reject(new StateUnavailable('connection refused')) } as unknown as State
  const { chain, ran } = await build(created, {}, { state })
  const result = await chain.run(post('k'))
  t.equal(result.status, 503)
  t.equal(result.headers.get('retry-after'), '5')
  t.notMatch(result.text, 'connection refused')
  t.equal(ran(), 0)
  t.equal((await chain.run(post(null))).status, 201, 'requests without a key do not need it')
})

t.test('a state that fails while the operation runs is logged, and the response still goes out', async t => {
  const services = testServices()
  const state = {
    begin: () => ({ kind: 'run', token: '1' }),
    finish: () => Promise.reject(new StateUnavailable('gone'))
  } as unknown as State
  const chain = await harness(idempotency, { services: { ...services, state }, answer: () => created(1) })
  t.equal((await chain.run(post('k'))).status, 201)
  await setImmediate()
  t.match(services.lines, [{ level: 'warn', message: /could not be kept/ }])
})
