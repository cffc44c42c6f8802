import t from 'tap'
import { Type } from 'typebox'
import { loadConfigText } from '../../src/engine/config/load.ts'
import { conditional, conditionOf, observing } from '../../src/engine/pipeline/entry.ts'
import { ValidationError } from '../../src/engine/operations/errors.ts'
import { harness, type HarnessAnswer } from '../../src/engine/pipeline/harness.ts'
import { InternalUpstream } from '../../src/engine/pipeline/internal.ts'
import { defineOperation } from '../../src/engine/operations/operation.ts'
import { definePlugin, type Hooks } from '../../src/engine/pipeline/plugin.ts'
import { Router } from '../../src/engine/pipeline/router.ts'
import { bodyReader, queryReader } from '../../src/engine/operations/validation.ts'
import { silentLog, type Log } from '../../src/platform/telemetry/log.ts'
import { builtInPlugins } from '../../src/app/plugins.ts'
import { startGateway } from '../support/gateway.ts'

const shape = Type.Object({
  side: Type.Optional(Type.Union([Type.Literal('left'), Type.Literal('right')])),
  kind: Type.Optional(Type.Literal('one')),
  unit: Type.Optional(Type.Enum(['sat', 'btc'])),
  amount: Type.Optional(Type.Union([Type.String(), Type.Number()])),
  address: Type.Optional(Type.Union([Type.Object({ city: Type.String({ minLength: 1 }) }), Type.Null()])),
  note: Type.Optional(Type.Unsafe<string | null>({ type: ['string', 'null'], maxLength: 3 })),
  level: Type.Optional(Type.Union(Array.from({ length: 12 }, (_, i) => Type.Literal(`l${i}`)))),
  map: Type.Optional(Type.Record(Type.String(), Type.String())),
  mail: Type.Optional(Type.String({ pattern: '^.+@.+$', 'x-rule': 'Must be an email address.' })),
  lines: Type.Optional(
    Type.Array(Type.Object({ text: Type.String({ pattern: '^[a-z]*$', 'x-rule': 'Must be in small letters.' }) }))
  ),
  code: Type.Optional(Type.String({ pattern: '^[A-Z]{3}$' }))
})

function faults(value: unknown) {
  try {
    bodyReader(shape)(Buffer.from(JSON.stringify(value)))
    return {}
  } catch (error) {
    if (error instanceof ValidationError) return error.errors
    throw error
  }
}

const messages: ReadonlyArray<readonly [row: string, given: object, expected: object]> = [
  ['a union of values names them once', { side: 'up' }, { Side: ['Must be one of: left, right.'] }],
  ['also where the type is wrong', { side: 5 }, { Side: ['Must be one of: left, right.'] }],
  ['a single value is named', { kind: 'two' }, { Kind: ['Must be one.'] }],
  ['an enumeration names its values', { unit: 'eur' }, { Unit: ['Must be one of: sat, btc.'] }],
  ['a union of types names the types', { amount: true }, { Amount: ['Must be a string or a number.'] }],
  [
    'a member inside a union keeps its own fault',
    { address: { city: '' } },
    { 'Address.City': ['Must not be empty.'] }
  ],
  ['a missing member inside a union as well', { address: {} }, { 'Address.City': ['This field is required.'] }],
  ['null is not named as a choice', { address: 5 }, { Address: ['Must be an object.'] }],
  ['nor where it is one of two types', { note: 5 }, { Note: ['Must be a string.'] }],
  [
    'a long union does not use up the report',
    { level: 'x', unit: 'eur', note: 'long' },
    {
      Level: ['Must be one of: l0, l1, l2, l3, l4, l5, l6, l7, l8, l9, l10, l11.'],
      Unit: ['Must be one of: sat, btc.'],
      Note: ['Must have at most 3 characters.']
    }
  ],
  [
    'a pattern is put in words where its schema has them',
    { mail: 'me', lines: [{ text: 'a' }, { text: 'A' }] },
    { Mail: ['Must be an email address.'], 'Lines[1].Text': ['Must be in small letters.'] }
  ],
  ['and else shown', { code: 'eur' }, { Code: ['Must match the pattern ^[A-Z]{3}$.'] }],
  [
    'names of Object.prototype are ordinary names',
    { map: { constructor: 1, toString: 'x' } },
    { 'Map.Constructor': ['Must be a string.'] }
  ],
  ['null members are absent', { side: null, unit: null, address: null }, {}],
  ['unknown members are ignored', { whatever: { deep: [1] } }, {}]
]

t.test('messages about fields are plain (decisions 1 to 4)', async t => {
  for (const [row, given, expected] of messages) t.same(faults(given), expected, row)
})

t.test('an integer of a query is read however long it is (decision 12)', async t => {
  const read = queryReader(Type.Object({ take: Type.Optional(Type.Integer()) }))
  t.same(read('take=007'), { take: 7 })
  t.same(read(`take=${'9'.repeat(400)}`), { take: Number.MAX_SAFE_INTEGER })
  t.same(read(`take=-${'9'.repeat(20)}`), { take: Number.MIN_SAFE_INTEGER })
  for (const text of ['1.0', '1e3', '0x1', '%201', '+1', '--1'])
    t.throws(() => read(`take=${text}`), ValidationError, text)
})

t.test('a boolean of a query is true or false in any case, as other languages write it', async t => {
  const read = queryReader(Type.Object({ all: Type.Optional(Type.Boolean()) }))
  for (const [text, all] of [
    ['true', true],
    ['True', true],
    ['FALSE', false],
    ['false', false]
  ] as const)
    t.same(read(`all=${text}`), { all }, text)
  t.same(read('all='), {}, 'nothing is absent')
  for (const text of ['1', '0', 'yes', 'on', 'null', 'true ', 'untrue'])
    t.throws(() => read(`all=${text}`), ValidationError, text)
})

t.test('routes are found by what an upstream would take the path for', async t => {
  const router = new Router<string>()
  router.add({ host: null, methods: [], path: '/v1/*' }, 'free')
  router.add({ host: null, methods: [], path: '/v1/paid/*' }, 'paid')
  router.add({ host: 'api.example', methods: ['GET'], path: '/x' }, 'own')
  const at = (path: string, host = 'any') => router.find(host, 'GET', path)?.value
  t.equal(at('/v1/paid/a'), 'paid')
  t.equal(at('/v1/%70aid/a'), 'paid', 'encoded')
  t.equal(at('/v1/%70aid/%ff'), 'paid', 'encoded, with an octet that is not UTF-8 behind it')
  t.equal(at('/v1/%70aid/%zz'), 'paid', 'encoded, with a broken escape behind it')
  t.equal(at('/v1/fr%ffee'), 'free')
  t.equal(at('/x', 'api.example:8080'), 'own')
  t.equal(at('/x', 'api.example.'), 'own', 'the fully qualified name is the same host')
  t.equal(at('/x', 'API.example.:80'), 'own')
  t.same([...router.methodsAt('api.example', '/x').keys()].sort(), ['GET', 'HEAD'])
})

/** Runs hooks in front of an answer. */
async function run(
  hooks: Hooks,
  request: { method?: string; target?: string; headers?: string[] },
  answer: HarnessAnswer = {}
) {
  const plugin = definePlugin({ name: 'p', config: Type.Object({}), setup: () => hooks })
  return (await harness([{ plugin }], { answer })).run(request)
}

t.test('a condition cannot be got round by another spelling of path or method', async t => {
  const refusing: Hooks = { request: () => ({ status: 403, headers: [], body: null }) }
  const rows = [
    [{ path: ['/private/*'] }, 'GET', '/private/a', 403],
    [{ path: ['/private/*'] }, 'GET', '/%70rivate/a', 403],
    [{ path: ['/private/*'] }, 'GET', '/%70rivate/%ff', 403],
    [{ path: ['/private/*'] }, 'GET', '/private', 200],
    [{ path: ['/caf%C3%A9'] }, 'GET', '/caf%c3%a9', 403],
    [{ path: ['/a'] }, 'GET', '/%61?q=1', 403],
    [{ method: ['GET'] }, 'HEAD', '/', 403],
    [{ method: ['GET'] }, 'POST', '/', 200],
    [{ method: ['HEAD'] }, 'GET', '/', 200]
  ] as const
  for (const [when, method, target, status] of rows) {
    const condition = conditionOf({ ...when } as never /* lists of the file are mutable */)
    if (condition === null) throw new Error('no condition')
    const result = await run(conditional(refusing, condition, { index: 0, name: 'taken' }), { method, target })
    t.equal(result.status, status, `${JSON.stringify(when)} at ${method} ${target}`)
  }
})

t.test('a condition on query and headers cannot be got round by what an upstream reads alike', async t => {
  const refusing: Hooks = { request: () => ({ status: 403, headers: [], body: null }) }
  const pdf = { query: ['format=pdf'] }
  const gold = { header: ['x-plan=gold'] }
  const rows: ReadonlyArray<readonly [when: object, target: string, headers: string[], status: number]> = [
    [pdf, '/?format=pdf', [], 403],
    [pdf, '/?format=%70df', [], 403],
    [pdf, '/?form%61t=pdf', [], 403],
    [pdf, '/?a=1&format=html', [], 200],
    [pdf, '/', [], 200],
    [pdf, '/?Format=pdf', [], 400],
    [pdf, '/?FORMAT=html&a', [], 400],
    [pdf, '/?format=html&format=pdf', [], 400],
    [pdf, '/?format=pdf&format=x', [], 400],
    [pdf, '/?format[]=pdf', [], 400],
    [pdf, '/?format%00=pdf', [], 400],
    [pdf, '/?a=1;format=pdf', [], 400],
    [pdf, '/?format=%ff', [], 400],
    [{ query: ['format'] }, '/?format', [], 403],
    [{ query: ['format'] }, '/?format=a&format=b', [], 403],
    [{ query: ['format'] }, '/?Format=a', [], 400],
    [gold, '/', ['X-PLAN', ' gold '], 403],
    [gold, '/', ['x-plan', 'free'], 200],
    [gold, '/', [], 200],
    [gold, '/', ['x-plan', 'free', 'x-plan', 'gold'], 400],
    [gold, '/', ['x_plan', 'gold'], 400],
    [gold, '/', ['x-plan', 'gold', 'Connection', 'x-plan'], 400],
    [{ header: ['x-plan'] }, '/', ['x-plan', 'a', 'x-plan', 'b'], 403],
    [{ header: ['x-plan'] }, '/', ['x_plan', 'a'], 400]
  ]
  for (const [when, target, headers, status] of rows) {
    const condition = conditionOf(when)
    if (condition === null) throw new Error('no condition')
    const result = await run(conditional(refusing, condition, { index: 0, name: 'taken' }), { target, headers })
    t.equal(result.status, status, `${JSON.stringify(when)} at ${target} with ${headers.join(': ')}`)
  }
  const said: string[] = []
  const entry = {
    plugin: 'p',
    config: {},
    disabled: false,
    mode: 'observe',
    at: { file: 'f', line: 1, column: 1 }
  } as const
  const log: Log = { ...silentLog, warn: (_fields: unknown, text?: string) => void said.push(text ?? '') }
  const condition = conditionOf(pdf)
  if (condition === null) throw new Error('no condition')
  for (const target of ['/?Format=pdf', '/?format=pdf', '/'])
    t.equal(
      (await run(observing(conditional(refusing, condition, { index: 0, name: 'taken' }), entry, log), { target }))
        .status,
      200,
      'an entry that observes refuses nothing'
    )
  t.match(said, [/^observe: would have answered 400: the query has "Format"/, /^observe: would have answered 403/])
  t.equal(said.length, 2)
})

t.test('an entry that observes decides and logs, and changes nothing', async t => {
  const said: unknown[] = []
  const log: Log = {
    ...silentLog,
    warn: (...args: unknown[]) => {
      said.push(args)
    }
  }
  const notified: string[] = []
  const entry = {
    plugin: 'p',
    config: {},
    disabled: false,
    mode: 'observe',
    at: { file: 'f', line: 1, column: 1 }
  } as const
  const result = await run(
    observing(
      {
        request() {
          throw new ValidationError({ A: ['No.'] })
        },
        upstream() {
          notified.push('upstream')
        },
        response(_ctx, head) {
          notified.push(`response ${head.status}`)
          head.status = 500
          head.headers.set('X-Changed', '1')
          throw new Error('refused on the way up')
        },
        chunk() {
          throw new Error('a watcher')
        },
        done(_ctx, outcome) {
          notified.push(`done ${outcome.status}`)
        }
      },
      entry,
      log
    ),
    {},
    { status: 200, body: 'ok' }
  )
  t.equal(result.status, 200)
  t.equal(result.text, 'ok')
  t.notOk(result.headers.has('x-changed'))
  t.same(notified, ['response 200', 'done 200'], 'what it began is ended, and nothing is changed for the upstream')
  t.equal(said.length, 3)
})

t.test('the end of a chain has no condition, and is not only observed', async t => {
  const yaml = (entry: string) =>
    `chains:\n  c: [ correlation, ${entry} ]\nroutes:\n  - match: { path: /* }\n    chain: c\n    upstream: { url: "http://127.0.0.1:1" }\n`
  const load = (entry: string) =>
    loadConfigText(
      'gateway.yaml',
      yaml(entry),
      {},
      { plugins: builtInPlugins, internals: [], folder: '.', importPlugin: () => Promise.reject(new Error('none')) }
    )
  await t.resolves(load('forward'))
  await t.rejects(load('{ forward: {}, when: { method: GET } }'), { message: /a condition at "forward"/ })
  await t.rejects(load('{ forward: {}, mode: observe }'), { message: /mode: observe at "forward"/ })
})

t.test('a body limit that nothing enforces is a mistake', async t => {
  const yaml = (chain: string) =>
    `chains:\n  c: [ ${chain} ]\nroutes:\n  - match: { path: /* }\n    chain: c\n    bodyLimit: 1MiB\n    upstream: { url: "http://127.0.0.1:1" }\n`
  const load = (chain: string) =>
    loadConfigText(
      'gateway.yaml',
      yaml(chain),
      {},
      { plugins: builtInPlugins, internals: [], folder: '.', importPlugin: () => Promise.reject(new Error('none')) }
    )
  await t.resolves(load('body-limit'))
  await t.rejects(load('correlation'), { message: /:6:5: routes\[0\]\.bodyLimit: found a body limit/ })
  await t.rejects(load('{ body-limit: {}, disabled: true }'), { message: /found a body limit/ })
})

const secret = defineOperation({
  id: 'getSecret',
  method: 'GET',
  path: '/secret',
  summary: '',
  tag: 't',
  access: 'admin',
  responses: { 200: { description: '', schema: Type.Object({ secret: Type.String() }) } },
  handle: () => ({ status: 200, body: { secret: 'x' } })
})
const echo = defineOperation({
  id: 'echo',
  method: 'POST',
  path: '/echo',
  summary: '',
  tag: 't',
  access: 'public',
  body: Type.Unknown(),
  responses: { 200: { description: '', schema: Type.Unknown() } },
  handle: ({ body }) => ({ status: 200, body })
})

t.test('an operation is not open because a route forgot to authenticate', async t => {
  const upstream = new InternalUpstream([secret])
  const chain = await harness([], { answer: ctx => upstream.handle(ctx), mode: 'production' })
  t.equal((await chain.run({ target: '/secret' })).status, 404)
  t.equal(
    (await chain.run({ target: '/secret', principal: { kind: 'merchant', id: '1' } as never /* of another kind */ }))
      .status,
    404
  )
  const admin = await chain.run({ target: '/secret', principal: { kind: 'admin', id: 'admin' } })
  t.equal(admin.status, 200)
  t.same(JSON.parse(admin.text), { secret: 'x' })
})

t.test(
  'an operation takes 1 MiB (decision 172), and 64 KiB from anonymous clients, where its chain sets no smaller limit',
  async t => {
    for (const [access, limit] of [
      ['merchant', 1_048_576],
      ['public', 65_536],
      ['credential', 65_536]
    ] as const) {
      const upstream = new InternalUpstream([{ ...echo, access }])
      const chain = await harness([], { answer: ctx => upstream.handle(ctx) })
      const principal = { kind: 'merchant', id: '1', role: 'owner' } as never /* of another kind */
      const send = (size: number, chunked: boolean) =>
        chain.run({
          method: 'POST',
          target: '/echo',
          headers: { 'content-type': 'application/json' },
          body: `"${'x'.repeat(size - 2)}"`,
          chunked,
          principal
        })
      for (const chunked of [false, true]) {
        t.equal((await send(limit, chunked)).status, 200, `${access}, chunked: ${chunked}`)
        t.equal((await send(limit + 1, chunked)).status, 413, `${access}, chunked: ${chunked}`)
      }
    }
  }
)

t.test('a chunked body that turns out to be empty is missing, not of a wrong type (decision 5)', async t => {
  const upstream = new InternalUpstream([echo])
  const chain = await harness([], { answer: ctx => upstream.handle(ctx) })
  const empty = await chain.run({ method: 'POST', target: '/echo', body: '', chunked: true })
  t.equal(empty.status, 400)
  t.equal((await chain.run({ method: 'POST', target: '/echo', body: '{}', chunked: true })).status, 415)
})

const operatorOnly = `
policies: { global: { limit: 100000, window: 1m } }
chains:
  open: [ { throttle: { policy: global } } ]
routes:
  - match: { path: /demo/quote, method: GET }
    chain: open
    upstream: { internal: demo }
  - match: { path: /up, method: [ PUT, DELETE ] }
    chain: open
    upstream: { url: "http://127.0.0.1:9" }
`

t.test('without a route for everything, methods are still refused and listed (decision 6)', async t => {
  const gateway = await startGateway(t, { yaml: operatorOnly })
  const rows = [
    ['POST', '/demo/quote', 405, 'GET, HEAD, OPTIONS'],
    ['OPTIONS', '/demo/quote', 204, 'GET, HEAD, OPTIONS'],
    ['GET', '/up', 405, 'DELETE, PUT'],
    ['OPTIONS', '/up', 405, 'DELETE, PUT'],
    ['GET', '/elsewhere', 404, undefined],
    ['OPTIONS', '/elsewhere', 404, undefined]
  ] as const
  for (const [method, path, status, allow] of rows) {
    const answer = await gateway.send(method, path)
    t.equal(answer.status, status, `${method} ${path}`)
    t.equal(answer.headers['allow'], allow, `${method} ${path}: Allow`)
    t.equal(answer.headers['x-api-version'], '1.0.0')
  }
})

const pages = `
chains:
  everybody: [ cors ]
  shop: [ { cors: { origins: [ "https://shop.example" ] } } ]
  private: [ correlation ]
  whole: [ { cors: {}, when: { header: X-Never } } ]
routes:
  - match: { path: /orders, method: POST }
    chain: shop
    upstream: { internal: demo }
  - match: { path: /orders, method: GET }
    chain: everybody
    upstream: { internal: demo }
  - match: { path: /accounts, method: PUT }
    chain: private
    upstream: { internal: demo }
  - match: { path: /sometimes, method: PUT }
    chain: whole
    upstream: { internal: demo }
  - match: { path: "/*" }
    chain: everybody
    upstream: { internal: demo }
`

t.test('a preflight is granted what the route of the request that it announces grants, and nothing else', async t => {
  const gateway = await startGateway(t, { yaml: pages })
  const rows = [
    ['POST', '/orders', 'https://shop.example', 'https://shop.example'],
    ['POST', '/orders', 'https://other.example', undefined],
    ['GET', '/orders', 'https://other.example', '*'],
    ['DELETE', '/orders', 'https://other.example', '*'],
    ['PUT', '/accounts', 'https://other.example', undefined],
    ['PUT', '/sometimes', 'https://other.example', undefined],
    ['PUT', '/elsewhere', 'https://other.example', '*']
  ] as const
  for (const [method, path, origin, granted] of rows) {
    const headers = { origin, 'access-control-request-method': method }
    const preflight = await gateway.send('OPTIONS', path, { headers })
    const isGranted = preflight.headers['access-control-allow-methods'] !== undefined
    t.equal(
      isGranted ? preflight.headers['access-control-allow-origin'] : undefined,
      granted,
      `${method} ${path} from ${origin}`
    )
    const response = await gateway.send(method, path, { headers: { origin } })
    t.equal(response.headers['access-control-allow-origin'], granted, `${method} ${path} itself`)
  }
})

const charged = `
chains:
  paid: [ cors, credential, challenge ]
  private: [ correlation ]
  some: [ { cors: {}, when: { path: /some/* } }, credential, challenge ]
  preflights: [ cors ]
routes:
  - match: { path: /accounts, method: PUT }
    chain: private
    upstream: { internal: demo }
  - match: { path: "/some/*" }
    chain: some
    price: 1 sat
    upstream: { internal: demo }
  - match: { path: /own, method: POST }
    chain: private
    upstream: { internal: demo }
  - match: { path: /own, method: OPTIONS }
    chain: preflights
    upstream: { internal: demo }
  - match: { path: "/*" }
    chain: paid
    price: 1 sat
    upstream: { internal: demo }
`

t.test('a preflight is never charged, whatever it announces and whichever path it names (decision 6)', async t => {
  const gateway = await startGateway(t, { yaml: charged })
  const rows = [
    ['GET', '/demo/quote', '*'],
    ['PUT', '/accounts', undefined],
    ['patch', '/demo/quote', undefined],
    ['constructor', '/demo/quote', undefined],
    ['PUT', '/some/thing', '*'],
    ['POST', '/own', '*']
  ] as const
  for (const [method, path, granted] of rows) {
    const { status, headers } = await gateway.send('OPTIONS', path, {
      headers: { origin: 'https://shop.example', 'access-control-request-method': method }
    })
    t.equal(status, 204, `${method} ${path}`)
    t.equal(headers['access-control-allow-origin'], granted, `${method} ${path}: granted`)
  }
})
