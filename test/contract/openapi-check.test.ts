import t from 'tap'
import { Type } from 'typebox'
import { openApiDocument } from '../../src/engine/openapi/openapi.ts'
import { defineOperation } from '../../src/engine/operations/operation.ts'
import { OpenApiCheck, type Answered } from '../support/openapi-check.ts'
import { startGateway } from '../support/gateway.ts'

const Thing = Type.Object({
  id: Type.String(),
  parts: Type.Array(Type.Object({ size: Type.Integer() })),
  note: Type.Optional(Type.String())
})
const operation = defineOperation({
  id: 'makeThing',
  method: 'POST',
  path: '/things/:name',
  summary: 'Makes one',
  tag: 'things',
  access: 'merchant',
  body: Type.Object({ size: Type.Integer() }),
  responses: {
    201: { description: 'Made.', schema: Thing },
    204: { description: 'Was there.' },
    402: { description: 'Too many.' },
    409: { description: 'Taken.' }
  },
  handle: () => ({ status: 204, body: null })
})
const list = defineOperation({
  id: 'listThings',
  method: 'GET',
  path: '/things/all',
  summary: 'All',
  tag: 'things',
  access: 'public',
  responses: { 200: { description: 'All.', schema: Type.Array(Thing) } },
  handle: () => ({ status: 200, body: [] })
})
const page = defineOperation({
  id: 'pageThings',
  method: 'GET',
  path: '/things/page',
  summary: 'A page',
  tag: 'things',
  access: 'public',
  responses: {
    200: {
      description: 'A page.',
      schema: Type.Object({ things: Type.Array(Thing), total: Type.Integer(), offset: Type.Integer() })
    }
  },
  handle: () => ({ status: 200, body: {} })
})
const once = defineOperation({
  id: 'onceThing',
  method: 'POST',
  path: '/things/once',
  summary: 'Once',
  tag: 'things',
  access: 'merchant',
  headers: { 'Idempotency-Key': 'a' },
  responses: { 201: { description: 'Made.', schema: Thing } },
  handle: () => ({ status: 201, body: {} })
})
const document = openApiDocument([operation, list, page, once], {
  title: 'a',
  description: 'a',
  publicUrl: 'http://localhost',
  pricedRoutes: [{ path: '/paid/{path}', methods: [], examples: [], price: 1, description: 'Paid' }]
})
const check = new OpenApiCheck(document)
const common = { 'x-api-version': '1.0.0', 'x-correlation-id': 'a', 'cache-control': 'no-store' }
const answer = (status: number, body: unknown, headers: Answered['headers'] = {}, asked: Partial<Answered> = {}) => ({
  method: 'POST',
  path: '/things/one?a=1',
  status,
  headers: {
    ...common,
    ...(body === undefined ? {} : { 'content-type': 'application/json; charset=utf-8' }),
    ...headers
  },
  text: body === undefined ? '' : JSON.stringify(body),
  ...asked
})
const thing = { id: 'a', parts: [{ size: 1 }] }
const problem = { 'content-type': 'application/problem+json; charset=utf-8' }
const validation = {
  type: 'https://example.com/a',
  title: 'a',
  status: 400,
  errors: { Size: ['Must be.'] },
  traceId: 'a'
}

t.test('the document lets the API behind a price answer as it likes, with whatever status', async t => {
  const { paths, components } = document as {
    paths: Record<string, Record<string, { responses: Record<string, { content?: object }> }>>
    components: {
      schemas: Record<string, object>
      responses: { Upstream: { content: Record<string, { schema: { anyOf: Array<{ $ref?: string }> } }> } }
    }
  } // By OpenAPI's own schema.
  t.same(paths['/paid/{path}']?.['get']?.responses['200']?.content, { '*/*': {} })
  const { schema } = components.responses.Upstream.content['application/json'] ?? {}
  const isAny = schema?.anyOf.some(({ $ref }) => $ref === undefined)
  t.ok(isAny, JSON.stringify(schema))
  t.ok(schema?.anyOf.some(({ $ref }) => $ref === '#/components/schemas/ProxyError'))
})

t.test('an answer that the document does not describe is refused, and the error says why', async t => {
  const bad: ReadonlyArray<readonly [name: string, answer: Answered, message: RegExp]> = [
    ['an undeclared status', answer(200, thing), /makeThing.*answered 200, but only 201, 204, /],
    ['an undeclared member', answer(201, { ...thing, secret: 'a' }), /must NOT have additional properties/],
    [
      'an undeclared member further down',
      answer(201, { ...thing, parts: [{ size: 1, secret: 'a' }] }),
      /must NOT have additional properties/
    ],
    ['a missing member', answer(201, { id: 'a' }), /must have required property 'parts'/],
    ['a wrong type', answer(201, { ...thing, id: 1 }), /\/id must be string/],
    ['a body where none is declared', answer(204, {}), /no body is declared/],
    ['an undeclared media type', answer(201, thing, problem), /application\/problem\+json is not declared/],
    ['no media type', answer(201, undefined), /no Content-Type/],
    ['an error that says too much', answer(401, { error: 'a', message: 'b', key: 'c' }), /does not fit/],
    ['an error of no shape', answer(409, { message: 'b' }), /does not fit/],
    ['a problem without its fields', answer(400, { ...validation, errors: undefined }, problem), /errors/],
    [
      'a gate that does not say what to do',
      answer(403, { error: 'Feature not available', message: 'a' }),
      /action_required/
    ],
    ['a plan cap as an ordinary error', answer(402, { error: 'a', message: 'b' }), /application\/json is not declared/],
    [
      'an invalid timestamp',
      answer(500, { error: 'An unexpected error occurred', correlationId: 'a', timestamp: 'now' }),
      /date-time/
    ],
    [
      '429 without Retry-After',
      answer(429, { error: 'Too many requests', message: 'a', retryAfter: 5 }),
      /no Retry-After/
    ],
    ['503 without Retry-After', answer(503, { error: 'a', message: 'b' }), /no Retry-After/],
    ['rate-limit headers', answer(201, thing, { 'x-ratelimit-limit': '1' }), /rate-limit headers/],
    [
      'a page without its total',
      answer(200, { things: [], total: 3, offset: 0 }, {}, { method: 'GET', path: '/things/page' }),
      /no X-Total-Count/
    ],
    [
      'a total that is no number',
      answer(
        200,
        { things: [], total: 3, offset: 0 },
        { 'x-total-count': 'three' },
        { method: 'GET', path: '/things/page' }
      ),
      /X-Total-Count is three/
    ],
    ['a total that is not declared', answer(201, thing, { 'x-total-count': '3' }), /x-total-count is not declared/],
    [
      'a replay that is not declared',
      answer(201, thing, { 'x-idempotency-replayed': 'true' }),
      /x-idempotency-replayed is not declared/
    ],
    [
      'a replay of another value',
      answer(201, thing, { 'x-idempotency-replayed': 'yes' }, { path: '/things/once' }),
      /X-Idempotency-Replayed is yes/
    ],
    ['no version', answer(201, thing, { 'x-api-version': undefined }), /X-API-Version/],
    ['no correlation id', answer(201, thing, { 'x-correlation-id': undefined }), /X-Correlation-Id/],
    ['a response that caches may keep', answer(201, thing, { 'cache-control': undefined }), /Cache-Control/],
    [
      'neither on an unknown path',
      answer(404, {}, { 'x-correlation-id': undefined }, { path: '/elsewhere' }),
      /no operation.*X-Correlation-Id/
    ],
    [
      'a 402 that is no challenge',
      answer(402, { error: 'pay' }, { 'www-authenticate': 'L402 a' }, { method: 'GET', path: '/paid/a' }),
      /does not fit/
    ]
  ]
  for (const [name, answered, message] of bad)
    t.throws(
      () => {
        check.check(answered)
      },
      { message },
      name
    )
})

t.test('the document of a gateway', async t => {
  const gateway = await startGateway(t)
  const document = (await gateway.send('GET', '/api/openapi.json')).json()
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/components\/(\w+)\/(\w+)"/g)].map(
    ([, kind, name]) => [kind ?? '', name ?? ''] as const
  )
  const { components, paths } = document as {
    components: Record<string, Record<string, unknown>>
    paths: Record<
      string,
      Record<
        string,
        { operationId?: string; responses?: Record<string, { description?: string; $ref?: string; headers?: object }> }
      >
    >
  }
  t.ok(references.length > 50, 'names what is common once')
  t.same(
    references.filter(([kind, name]) => components[kind]?.[name] === undefined),
    [],
    'every reference leads somewhere'
  )
  for (const kind of ['schemas', 'responses']) {
    const used = new Set(references.filter(([of]) => of === kind).map(([, name]) => name))
    t.same(
      Object.keys(components[kind] ?? {}).filter(name => kind === 'schemas' && !used.has(name)),
      [],
      `every one of ${kind} is used`
    )
  }
  const headersOf = (id: string, status: number) => {
    const operation = Object.values(paths)
      .flatMap(item => Object.values(item))
      .find(({ operationId }) => operationId === id)
    const response = operation?.responses?.[status]
    const shared = components['responses']?.[response?.$ref?.split('/').at(-1) ?? ''] as typeof response
    return Object.keys(response?.headers ?? shared?.headers ?? {}).sort()
  }
  const common = ['X-API-Version', 'X-Correlation-Id']
  for (const id of ['createPayment', 'createRefund'])
    t.same(headersOf(id, 201), ['X-API-Version', 'X-Correlation-Id', 'X-Idempotency-Replayed'], `${id} may be a replay`)
  t.same(headersOf('createChallenge', 200), ['X-API-Version', 'X-Correlation-Id', 'X-Idempotency-Replayed'])
  for (const id of ['listChallenges', 'listEndpoints'])
    t.same(headersOf(id, 200), ['X-API-Version', 'X-Correlation-Id', 'X-Total-Count'])
  t.same(headersOf('listRefunds', 200), common, 'a bare array has no total')
  t.same(headersOf('adminDeactivateMerchant', 204), common, 'also where there is no body')
  for (const status of [400, 401, 404, 500])
    t.same(headersOf('getPayment', status), common, `errors have them too: ${status}`)
  for (const status of [429, 503])
    t.same(headersOf('getPayment', status), ['Retry-After', ...common], `${status} says when to come back`)
  for (const [path, item] of Object.entries(paths)) {
    for (const [method, { operationId, responses = {} }] of Object.entries(item)) {
      if (operationId === undefined) continue
      const bare = Object.entries(responses).filter(
        ([, response]) => response.$ref === undefined && response.description === undefined
      )
      t.same(bare, [], `${method} ${path}: every answer is described`)
      t.ok(
        Object.keys(responses).some(status => /^[23]/.test(status)),
        `${method} ${path}: a success is described`
      )
    }
  }
})

t.test('a gateway whose response violates its document fails the test that requested it', async t => {
  const yaml = `
chains:
  staged: [ { ./test/contract/stage-plugin.ts: {} } ]
  plain: [ correlation ]
routes:
  - { match: { path: /ready }, chain: staged, upstream: { internal: api } }
  - { match: { path: /* }, chain: plain, upstream: { internal: api } }
`
  const gateway = await startGateway(t, { yaml })
  t.equal((await gateway.send('GET', '/health')).status, 200)
  await t.rejects(gateway.send('GET', '/ready'), {
    message: /^getReady, GET \/ready, answered 200, but it has no Content-Type/
  })
})
