import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { inspect } from 'node:util'
import t, { type Test as T } from 'tap'
import { buildConnector } from 'undici'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { noBudget } from '../../../src/lightning/provider-calls/budgets.ts'
import { ProviderRefused, ProviderUnavailable } from '../../../src/lightning/provider-calls/errors.ts'
import {
  ProviderHttp,
  type ProviderCall,
  type ProviderHttpOptions
} from '../../../src/lightning/provider-calls/provider-call.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const CANARY = 'canary-8f2d61c0b7'
const key = new Secret(CANARY)
const get: ProviderCall = { method: 'GET', path: '/thing?$top=1' }
const post: ProviderCall = { method: 'POST', path: '/things', body: { a: 1 } }

type Handler = (request: IncomingMessage, response: ServerResponse) => void

interface Rig {
  readonly url: string
  readonly clock: ManualClock
  readonly http: ProviderHttp
  readonly seen: Array<{
    readonly method: string | undefined
    readonly url: string | undefined
    readonly headers: IncomingMessage['headers']
    readonly body: string
  }>
  answer: Handler
  /** One call with the canary as its key. */
  call(call?: ProviderCall): Promise<unknown>
}

async function rig(t: T, path = '', more: Partial<ProviderHttpOptions> = {}): Promise<Rig> {
  const server = createServer((request, response) => {
    let body = ''
    request.on('error', () => {})
    request.on('data', (piece: Buffer) => {
      body += piece.toString()
    })
    request.on('end', () => {
      made.seen.push({ method: request.method, url: request.url, headers: request.headers, body })
      made.answer(request, response)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const clock = new ManualClock()
  // A server that listens on TCP has an address object.
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`
  const http = new ProviderHttp({
    url,
    timeout: 10_000,
    clock,
    budget: noBudget('strike', clock),
    authorize: text => ({ authorization: `Bearer ${text}` }),
    messageOf,
    ...more
  })
  t.teardown(async () => {
    await http.close()
    server.closeAllConnections()
    server.close()
  })
  const made: Rig = {
    url,
    clock,
    http,
    seen: [],
    answer: (_request, response) => {
      response.end('{}')
    },
    call: (call = get) => http.within(key, send => send(call))
  }
  return made
}

function messageOf(body: unknown) {
  return typeof body === 'object' && body !== null && 'message' in body && typeof body.message === 'string'
    ? body.message
    : null
}

function answer(status: number, body = '', headers: Record<string, string> = {}): Handler {
  return (_request, response) => {
    response.writeHead(status, headers).end(body)
  }
}

t.test("a call carries the key, JSON and a path under the address's own; the answer is parsed", async t => {
  const { seen, call } = await rig(t, '/base/')
  t.same(await call(post), { status: 200, body: {}, said: null, location: null })
  t.match(seen[0], {
    method: 'POST',
    url: '/base/things',
    body: '{"a":1}',
    headers: { authorization: `Bearer ${CANARY}`, 'content-type': 'application/json', accept: 'application/json' }
  })
  await call()
  t.match(seen[1], { method: 'GET', url: '/base/thing?$top=1', body: '' })
  t.notOk('content-type' in (seen[1]?.headers ?? {}))
})

const judged: ReadonlyArray<[name: string, answer: Handler, call: ProviderCall, error: Record<string, unknown>]> = [
  ['401: the key', answer(401, '{"message":"no"}'), get, { name: 'ProviderRefused', reason: 'key' }],
  [
    '403: the scope that the call needs',
    answer(403, '{}'),
    { ...get, scope: 'read.things' },
    {
      name: 'ProviderRefused',
      reason: 'scope',
      scope: 'read.things',
      message: 'The provider key lacks the scope read.things.'
    }
  ],
  [
    '403 as a page: something in front of the provider',
    answer(403, '<html>'),
    { ...get, scope: 'read.things' },
    {
      name: 'ProviderUnavailable',
      fault: 'server',
      message: 'Something in front of the payment provider turns calls away at the moment.'
    }
  ],
  ['403 without a known scope', answer(403), get, { reason: 'scope', scope: null }],
  [
    '404 that the caller does not read',
    answer(404),
    get,
    { reason: 'request', message: 'The payment provider refused the request (404).' }
  ],
  [
    "400: the provider's own words, cleaned",
    answer(400, JSON.stringify({ message: ` the\r\n key ${CANARY}\u0000 is\u2028odd ` })),
    post,
    { reason: 'request', message: 'The payment provider refused the request: the key [redacted] is odd' }
  ],
  [
    '409 with words that are too long',
    answer(409, JSON.stringify({ message: 'x'.repeat(300) })),
    post,
    { reason: 'request', message: `The payment provider refused the request: ${'x'.repeat(200)}…` }
  ],
  [
    '422 as a page',
    answer(422, '<html>'),
    post,
    { reason: 'request', message: 'The payment provider refused the request (422).' }
  ],
  [
    '429: its Retry-After in seconds',
    answer(429, '', { 'retry-after': '33' }),
    get,
    { name: 'ProviderUnavailable', fault: 'rate', retryAfter: 33, status: 503, headers: ['Retry-After', '33'] }
  ],
  [
    '429: its Retry-After as a date',
    answer(429, '', { 'retry-after': 'Sat, 21 Nov 2026 00:01:30 GMT' }),
    get,
    { fault: 'rate', retryAfter: 90 }
  ],
  [
    '429 with a Retry-After that is over, and with none, and with nonsense',
    answer(429, '', { 'retry-after': 'Sat, 21 Nov 2020 00:01:30 GMT' }),
    get,
    { retryAfter: 1 }
  ],
  ['429 without a Retry-After', answer(429), get, { retryAfter: 5 }],
  ['429 with an invalid Retry-After', answer(429, '', { 'retry-after': 'soon' }), get, { retryAfter: 5 }],
  ['500', answer(500, '{"message":"oops"}'), get, { name: 'ProviderUnavailable', fault: 'server' }],
  [
    '503 with an empty body and a Retry-After',
    answer(503, '', { 'retry-after': '17' }),
    get,
    { fault: 'server', retryAfter: 17 }
  ],
  ['a redirect, which is not followed', answer(302, '', { location: '/elsewhere' }), get, { fault: 'server' }],
  [
    'a page where JSON was due',
    answer(200, '<!DOCTYPE html><html>'),
    get,
    { fault: 'server', message: 'The payment provider gave an answer that cannot be used.' }
  ],
  ['nothing where JSON was due', answer(200), get, { fault: 'server' }],
  [
    'more than a mebibyte',
    answer(200, `"${'x'.repeat(1024 * 1024)}"`),
    get,
    { name: 'OversizedResponse', fault: 'size' }
  ],
  [
    'what is no HTTP',
    request => {
      request.socket.end('SSH-2.0-dropbear\r\n')
    },
    post,
    { fault: 'network' }
  ]
]

for (const [name, how, call, error] of judged) {
  t.test(name, async t => {
    const made = await rig(t)
    made.answer = how
    const caught: unknown = await made.call(call).catch((thrown: unknown) => thrown)
    t.match(caught, error)
    t.ok(caught instanceof ProviderRefused || caught instanceof ProviderUnavailable)
    t.notMatch(inspect(caught, { depth: 10, showHidden: true }), CANARY, 'no key in the error, however deep one looks')
    t.notMatch(JSON.stringify(caught), CANARY)
    t.equal(made.seen.length, 1, 'no call was repeated')
  })
}

t.test("statuses that the caller reads are answers, with the provider's words", async t => {
  const made = await rig(t)
  made.answer = answer(404, `{"message":"no ${CANARY}"}`)
  t.same(await made.call({ ...get, accepts: [404] }), {
    status: 404,
    body: { message: `no ${CANARY}` },
    said: 'no [redacted]',
    location: null
  })
  made.answer = answer(404, '<html>')
  t.same(await made.call({ ...get, accepts: [404] }), { status: 404, body: null, said: null, location: null })
  made.answer = answer(204)
  t.same(await made.call({ method: 'DELETE', path: '/thing' }), { status: 204, body: null, said: null, location: null })
})

t.test('a read is retried once on a connection that broke; a second break is the end', async t => {
  const made = await rig(t)
  let breaks = 1
  made.answer = (request, response) => {
    if (breaks-- > 0) request.socket.destroy()
    else response.end('{"n":1}')
  }
  t.match(await made.call(), { body: { n: 1 } })
  t.equal(made.seen.length, 2)
  breaks = 5
  await t.rejects(made.call(), { name: 'ProviderUnavailable', fault: 'network' })
  t.equal(made.seen.length, 4)
})

t.test('only reads are retried', async t => {
  const made = await rig(t)
  made.answer = request => {
    request.socket.destroy()
  }
  for (const method of ['POST', 'PATCH', 'DELETE'] as const)
    await t.rejects(made.call({ method, path: '/x' }), { fault: 'network' })
  t.same(
    made.seen.map(({ method }) => method),
    ['POST', 'PATCH', 'DELETE']
  )
})

t.test('a call that was given up before its connection was open is not sent once it opens', async t => {
  const made = await rig(t)
  const requested = Promise.withResolvers<void>()
  const waiting: Array<() => void> = []
  let isOpen = false
  const connect = buildConnector({})
  const http = new ProviderHttp({
    url: made.url,
    timeout: 10_000,
    clock: made.clock,
    budget: noBudget('strike', made.clock),
    authorize: () => ({}),
    messageOf,
    connect: (wanted, callback) => {
      requested.resolve()
      if (isOpen) connect(wanted, callback)
      else
        waiting.push(() => {
          connect(wanted, callback)
        })
    }
  })
  t.teardown(() => http.close())
  const caught = t.rejects(
    http.within(key, send => send(post)),
    { fault: 'timeout' }
  )
  await requested.promise
  made.clock.advance(10_000)
  await caught
  isOpen = true
  for (const open of waiting) open()
  t.match(await http.within(key, send => send(get)), { status: 200 })
  t.same(
    made.seen.map(({ method }) => method),
    ['GET']
  )
})

t.test('an answer that does not come ends with the time limit, which all calls of one run share', async t => {
  const made = await rig(t)
  let hung = 0
  made.answer = (_request, response) => {
    if (hung++ === 0) {
      made.clock.advance(9_999)
      response.end('{}')
    } else made.clock.advance(1)
  }
  const caught = made.http.within(key, async send => {
    await send(get)
    await send(post)
  })
  await t.rejects(caught, {
    name: 'ProviderUnavailable',
    fault: 'timeout',
    message: 'The payment provider did not answer in time.'
  })
  t.equal(made.seen.length, 2)
  const late = made.http.within(key, async send => {
    made.clock.advance(10_000)
    return await send(post)
  })
  await t.rejects(late, { name: 'NothingSent', fault: 'timeout' })
  t.equal(made.seen.length, 2, 'nothing is begun after it')
})

t.test('a response that never ends is cut by the time limit too', async t => {
  const made = await rig(t)
  made.answer = (_request, response) => {
    response.write('{"a":')
    made.clock.advance(10_000)
  }
  await t.rejects(made.call(), { fault: 'timeout' })
})

t.test('a key that no header can carry is refused without a call', async t => {
  const made = await rig(t)
  for (const bad of ['two words', 'line\nbreak', 'schlüssel', '']) {
    await t.rejects(
      made.http.within(new Secret(bad), send => send(get)),
      { name: 'ProviderRefused', reason: 'key' }
    )
  }
  t.equal(made.seen.length, 0)
})

t.test(
  'a limit on our address is respected until its Retry-After is over; another limit and calls without one continue',
  async t => {
    const made = await rig(t)
    const shared = { ...get, sharedLimit: 'reads' }
    made.answer = answer(429, '', { 'retry-after': '30' })
    await t.rejects(made.call(shared), { fault: 'rate', retryAfter: 30 })
    made.answer = answer(200, '{}')
    made.clock.advance(12_500)
    await t.rejects(made.call(shared), { name: 'NothingSent', fault: 'rate', retryAfter: 18 })
    t.equal(made.seen.length, 1)
    t.match(await made.call(), { status: 200 })
    t.match(await made.call({ ...get, sharedLimit: 'writes' }), { status: 200 })
    made.clock.advance(17_500)
    t.match(await made.call(shared), { status: 200 })
  }
)

t.test('a form is sent as one, and a text is an answer for a kind that has texts', async t => {
  const form = { amountSat: '21', description: 'a & b = c' }
  const texts = await rig(t, '', {
    hasTexts: true,
    messageOf: body => (typeof body === 'string' ? body : null)
  })
  texts.answer = answer(200, 'a text', { 'content-type': 'text/plain; charset=UTF-8' })
  t.same(await texts.call({ method: 'POST', path: '/things', form }), {
    status: 200,
    body: 'a text',
    said: null,
    location: null
  })
  t.match(texts.seen[0], {
    body: 'amountSat=21&description=a+%26+b+%3D+c',
    headers: { 'content-type': 'application/x-www-form-urlencoded' }
  })
  texts.answer = answer(400, `no amount with ${CANARY}`, { 'content-type': 'text/plain' })
  await t.rejects(texts.call(), {
    name: 'ProviderRefused',
    message: 'The payment provider refused the request: no amount with [redacted]'
  })
  texts.answer = answer(200, '{"a":1}', { 'content-type': 'application/json' })
  t.match(await texts.call(), { body: { a: 1 } })
  const others = await rig(t)
  others.answer = answer(200, 'a text', { 'content-type': 'text/plain' })
  await t.rejects(others.call(), { fault: 'server' }, 'for all others JSON alone is')
})

t.test('a status above 499 is a refusal where the kind says so and speaks itself, else a fault', async t => {
  const made = await rig(t, '', { refusals: [500, 520] })
  for (const status of [500, 520]) {
    made.answer = answer(status, '{"message":"amount too small"}')
    await t.rejects(made.call(), {
      name: 'ProviderRefused',
      reason: 'request',
      message: 'The payment provider refused the request: amount too small'
    })
    made.answer = answer(status, '<html>Bad gateway')
    await t.rejects(made.call(), { fault: 'server' }, 'a page is something in front of it')
    made.answer = answer(status, '{}')
    await t.rejects(made.call(), { fault: 'server' }, 'as is an answer that says nothing')
  }
  made.answer = answer(502, '{"message":"no"}')
  await t.rejects(made.call(), { fault: 'server' })
})

t.test('a kind may say what an error answer of its own means, before the status is judged', async t => {
  const made = await rig(t, '', {
    meaningOf: ({ status, said }, scope) =>
      status === 404 && said === 'no such wallet'
        ? new ProviderRefused('key', 'No such key.')
        : status === 401 && scope !== null
          ? new ProviderRefused('scope', `Not ${scope}.`, scope)
          : null
  })
  made.answer = answer(404, '{"message":"no such wallet"}')
  await t.rejects(made.call({ ...get, accepts: [404] }), { reason: 'key' }, 'even of a status that is read')
  made.answer = answer(404, '{"message":"no such thing"}')
  t.match(await made.call({ ...get, accepts: [404] }), { status: 404, said: 'no such thing' })
  made.answer = answer(401, '{}')
  await t.rejects(made.call({ ...get, scope: 'pay' }), { reason: 'scope', scope: 'pay' })
  await t.rejects(made.call(), { reason: 'key' })
})
