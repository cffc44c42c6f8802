import t, { type Test as T } from 'tap'
import { startGateway, type Answer, type TestGateway } from '../support/gateway.ts'

/** What every answer has and none may have (contract, Versioning and Conventions; decisions 13 to 15). */
function carriesTheCommonHeaders(t: T, answer: Answer, row: string) {
  t.equal(answer.headers['x-api-version'], '1.0.0', `${row}: X-API-Version`)
  t.match(answer.headers['x-correlation-id'], /^[A-Za-z0-9._:-]{1,128}$/, `${row}: X-Correlation-Id`)
  t.notOk(
    Object.keys(answer.headers).some(name => /^(x-)?ratelimit/i.test(name)),
    `${row}: no rate-limit headers`
  )
  if (answer.status === 429 || answer.status === 503)
    t.match(answer.headers['retry-after'], /^[1-9]\d*$/, `${row}: Retry-After`)
}

type Send = NonNullable<Parameters<TestGateway['send']>[2]>
interface Row {
  readonly row: string
  readonly method: string
  readonly path: string
  readonly headers?: Record<string, string>
  readonly body?: Send['body']
  /** With the merchant's key. */
  readonly keyed?: boolean
  readonly status: number
  readonly type?: RegExp
  readonly body200?: object
  readonly allow?: string
}

const JSON_TYPE = /^application\/json; charset=utf-8$/
const PROBLEM = /^application\/problem\+json; charset=utf-8$/
const json = { 'content-type': 'application/json' }
const proxy = (members: object) => ({
  name: 'a',
  targetBaseUrl: 'https://api.example.com',
  defaultPriceSats: 1,
  ...members
})
const invalid = (errors: object) => ({
  type: 'https://tools.ietf.org/html/rfc9110#section-15.5.1',
  title: 'One or more validation errors occurred.',
  status: 400,
  errors,
  traceId: 'trace-1'
})
const create = { method: 'POST', path: '/api/proxy', keyed: true, status: 400, type: PROBLEM } as const
const required = ['This field is required.']

const rows: readonly Row[] = [
  {
    row: 'an unknown path is 404 (decision 6)',
    method: 'GET',
    path: '/nothing',
    status: 404,
    type: JSON_TYPE,
    body200: { error: 'Not found', message: String }
  },
  {
    row: 'there is no exchange-rate endpoint',
    method: 'GET',
    path: '/api/rates',
    status: 404,
    body200: { error: 'Not found' }
  },
  {
    row: 'another method is 405 with Allow (decision 6)',
    method: 'POST',
    path: '/health',
    status: 405,
    allow: 'GET, HEAD, OPTIONS',
    body200: { error: 'Method not allowed', message: String }
  },
  {
    row: 'Allow is whole where routes split the methods of a path',
    method: 'PATCH',
    path: '/api/proxy/x-000000',
    status: 405,
    allow: 'DELETE, GET, HEAD, OPTIONS, PUT'
  },
  {
    row: 'Allow is whole on the collection as well',
    method: 'PATCH',
    path: '/api/proxy',
    status: 405,
    allow: 'GET, HEAD, OPTIONS, POST'
  },
  {
    row: 'Allow of a path that is only read',
    method: 'POST',
    path: '/ready',
    status: 405,
    allow: 'GET, HEAD, OPTIONS'
  },
  {
    row: 'Allow of a path that is only written',
    method: 'GET',
    path: '/sandbox/pay',
    status: 405,
    allow: 'OPTIONS, POST'
  },
  { row: 'HEAD works for every GET (decision 6)', method: 'HEAD', path: '/health', status: 200 },
  { row: 'HEAD works for every GET, also where a key is required', method: 'HEAD', path: '/api/proxy', status: 401 },
  {
    row: 'plain OPTIONS on own operations is 204 with Allow (decision 6)',
    method: 'OPTIONS',
    path: '/health',
    status: 204,
    allow: 'GET, HEAD, OPTIONS'
  },
  {
    row: 'plain OPTIONS needs no key',
    method: 'OPTIONS',
    path: '/api/proxy',
    status: 204,
    allow: 'GET, HEAD, OPTIONS, POST'
  },
  {
    row: 'plain OPTIONS needs no key at the administration either',
    method: 'OPTIONS',
    path: '/api/admin/merchants',
    status: 204,
    allow: 'GET, HEAD, OPTIONS, POST'
  },
  {
    row: 'another method is 405 at the administration too, key or no key',
    method: 'PATCH',
    path: '/api/admin/merchants/1',
    status: 405,
    allow: 'GET, HEAD, OPTIONS, PUT'
  },
  { row: 'OPTIONS of an unknown path is 404', method: 'OPTIONS', path: '/nothing', status: 404 },
  {
    row: 'on priced routes OPTIONS is an ordinary method (decision 6)',
    method: 'OPTIONS',
    path: '/demo/quote',
    status: 402
  },
  {
    row: 'a preflight is never charged (decision 6)',
    method: 'OPTIONS',
    path: '/demo/quote',
    headers: { origin: 'https://a.example', 'access-control-request-method': 'GET' },
    status: 204
  },
  {
    row: 'a 404 that is known beforehand is not charged (decision 94)',
    method: 'GET',
    path: '/demo/nothing',
    status: 404,
    body200: { error: 'Not found' }
  },
  { row: 'nor for a 405', method: 'DELETE', path: '/demo/quote', status: 405, allow: 'GET, HEAD, OPTIONS' },
  {
    row: 'a body that does not say what it is is 415 (decision 5)',
    method: 'POST',
    path: '/api/proxy',
    keyed: true,
    body: '{}',
    status: 415,
    type: JSON_TYPE,
    body200: { error: 'Unsupported media type', message: String }
  },
  {
    row: 'a form is 415 (decision 5)',
    method: 'POST',
    path: '/api/proxy',
    keyed: true,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: 'a=1',
    status: 415
  },
  {
    row: 'a compressed body is 415',
    method: 'POST',
    path: '/api/proxy',
    keyed: true,
    headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
    body: '{}',
    status: 415,
    type: JSON_TYPE,
    body200: { error: 'Unsupported media type', message: String }
  },
  {
    row: 'an empty body where one is required is a problem (decision 5)',
    ...create,
    body200: invalid({ $: ['A JSON body is required.'] })
  },
  {
    row: 'an empty body with a type as well',
    ...create,
    headers: json,
    body: '',
    body200: invalid({ $: ['A JSON body is required.'] })
  },
  {
    row: 'unreadable JSON is reported under $ (decision 2)',
    ...create,
    headers: json,
    body: '{',
    body200: invalid({ $: [/not valid JSON/] })
  },
  {
    row: 'bytes that are not UTF-8 are reported under $',
    ...create,
    headers: json,
    body: Buffer.from([0x22, 0xff, 0x22]),
    body200: invalid({ $: [/not valid UTF-8/] })
  },
  {
    row: 'a body nested too deep is refused',
    ...create,
    headers: json,
    body: `${'['.repeat(200000)}${']'.repeat(200000)}`,
    body200: invalid({ $: [/nested deeper/] })
  },
  {
    row: 'an array is not an object',
    ...create,
    headers: json,
    body: '[]',
    body200: invalid({ $: ['Must be an object.'] })
  },
  {
    row: 'null is not an object',
    ...create,
    headers: json,
    body: 'null',
    body200: invalid({ $: ['Must be an object.'] })
  },
  {
    row: 'missing members have keys in PascalCase (decision 2)',
    ...create,
    body: {},
    body200: invalid({ Name: required, TargetBaseUrl: required, DefaultPriceSats: required })
  },
  {
    row: 'null is the same as absent (decision 4)',
    ...create,
    body: proxy({ name: null }),
    body200: invalid({ Name: required })
  },
  {
    row: 'a string is never read as a number (decision 4)',
    ...create,
    body: proxy({ defaultPriceSats: '10' }),
    body200: invalid({ DefaultPriceSats: ['Must be a whole number.'] })
  },
  {
    row: 'a fraction is no whole number',
    ...create,
    body: proxy({ defaultPriceSats: 1.5 }),
    body200: invalid({ DefaultPriceSats: ['Must be a whole number.'] })
  },
  {
    row: 'a number beyond all numbers is none',
    ...create,
    headers: json,
    body: '{"name":"a","targetBaseUrl":"https://api.example.com","defaultPriceSats":1e999}',
    body200: invalid({ DefaultPriceSats: ['Must be a whole number.'] })
  },
  {
    row: 'elements have their index (decision 2)',
    ...create,
    body: proxy({
      endpoints: [
        { pathPattern: '/a', priceSats: 1 },
        { method: 'get', pathPattern: '/a', priceSats: -1, tokenPath: 'all' }
      ]
    }),
    body200: invalid({
      'Endpoints[1].Method': ['Must be one of: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS.'],
      'Endpoints[1].PriceSats': ['Must be at least 0.'],
      'Endpoints[1].TokenPath': ['Must be one of: exact, pattern.']
    })
  },
  {
    row: 'null in a list is no element',
    ...create,
    body: proxy({ endpoints: [null] }),
    body200: invalid({ 'Endpoints[0]': ['Must be an object.'] })
  },
  {
    row: 'a text with NUL, which no database holds, is refused by name',
    ...create,
    headers: json,
    body: '{"name":"a","targetBaseUrl":"https://api.example.com\\u0000","defaultPriceSats":1}',
    body200: invalid({ TargetBaseUrl: ['Must not hold the character U+0000 or half of a surrogate pair.'] })
  },
  {
    row: 'half a surrogate pair is no text',
    ...create,
    headers: json,
    body: '{"name":"a","targetBaseUrl":"https://api.example.com","defaultPriceSats":1,"endpoints":[{"pathPattern":"/a","priceSats":1,"description":"\\ud800"}]}',
    body200: invalid({
      'Endpoints[0].Description': ['Must not hold the character U+0000 or half of a surrogate pair.']
    })
  },
  {
    row: '__proto__ is never a member',
    ...create,
    headers: json,
    body: '{"__proto__":{"name":"a","targetBaseUrl":"https://a.example","defaultPriceSats":1}}',
    body200: invalid({ Name: required, TargetBaseUrl: required, DefaultPriceSats: required })
  },
  {
    row: 'an unknown proxy is 404, for its owner as for others',
    method: 'GET',
    path: '/api/proxy/12',
    keyed: true,
    status: 404,
    type: JSON_TYPE,
    body200: { error: String }
  },
  {
    row: 'an id that cannot be one is 404 and not 400 (decision 10)',
    method: 'GET',
    path: `/api/proxy/${'x'.repeat(200)}`,
    keyed: true,
    status: 404
  },
  {
    row: 'an unknown proxy to pay for is 404 (decision 93)',
    method: 'GET',
    path: '/l402/proxy/none-000000/a',
    status: 404,
    body200: { error: 'Proxy not found', message: String }
  },
  {
    row: 'the same without a slash (decision 95)',
    method: 'GET',
    path: '/l402/proxy/none-000000',
    status: 404,
    body200: { error: 'Proxy not found' }
  },
  {
    row: 'a key is asked for (contract, Authentication 5)',
    method: 'GET',
    path: '/api/proxy',
    status: 401,
    type: JSON_TYPE,
    body200: { error: 'API key required', message: String }
  },
  {
    row: 'a wrong key is refused',
    method: 'GET',
    path: '/api/proxy',
    headers: { 'x-api-key': 'nonsense' },
    status: 401,
    body200: { error: 'Invalid API key', message: String }
  },
  {
    row: 'a blank key is a missing one',
    method: 'GET',
    path: '/api/proxy',
    headers: { 'x-api-key': ' ' },
    status: 401,
    body200: { error: 'API key required' }
  },
  {
    row: 'two keys are refused at the door',
    method: 'GET',
    path: '/api/proxy',
    headers: { 'X-API-Key': 'a', 'x-api-key': 'b' },
    status: 400,
    body200: { error: 'Bad Request', message: String }
  },
  {
    row: 'percent-encoding does not get round authentication',
    method: 'GET',
    path: '/%61pi/prox%79',
    status: 401,
    body200: { error: 'API key required' }
  },
  {
    row: 'a broken escape does not get round authentication',
    method: 'GET',
    path: '/%61pi/proxy/%ff',
    status: 401,
    body200: { error: 'API key required' }
  },
  {
    row: 'health is public',
    method: 'GET',
    path: '/health',
    status: 200,
    type: JSON_TYPE,
    body200: {
      status: 'Healthy',
      totalDuration: Number,
      checks: [
        {
          name: 'database',
          status: 'Healthy',
          duration: Number,
          description: null,
          exception: null,
          tags: ['db', 'sql']
        }
      ]
    }
  },
  { row: 'the price list is public (decision 23)', method: 'GET', path: '/api/l402/pricing', status: 200 },
  {
    row: 'the status of a token is public (decision 23)',
    method: 'GET',
    path: '/api/l402/status',
    status: 200,
    body200: { authenticated: false, message: String }
  },
  { row: 'OpenAPI is public (decision 23)', method: 'GET', path: '/openapi.json', status: 200 },
  {
    row: 'llms.txt is public (decision 23)',
    method: 'GET',
    path: '/llms.txt',
    status: 200,
    type: /^text\/plain; charset=utf-8$/
  },
  { row: 'readiness is public (decision 23)', method: 'GET', path: '/ready', status: 200 },
  { row: "metrics are given on the gateway's own machine (decision 23)", method: 'GET', path: '/metrics', status: 200 },
  {
    row: 'metrics are not given to who came through a proxy (decision 23)',
    method: 'GET',
    path: '/metrics',
    headers: { 'x-forwarded-for': '203.0.113.9' },
    status: 403,
    body200: { error: 'Forbidden', message: String }
  },
  {
    row: 'the ping asks for one satoshi',
    method: 'GET',
    path: '/l402/test/ping',
    status: 402,
    body200: { l402: { amount_sats: 1 } }
  },
  {
    row: 'a bad status is a problem (decision 12)',
    method: 'GET',
    path: '/api/l402/challenges?status=open',
    keyed: true,
    status: 400,
    type: PROBLEM
  },
  {
    row: 'paging out of range is clamped (decision 12)',
    method: 'GET',
    path: '/api/l402/challenges?limit=99999999999999999999&offset=-99999999999999999999',
    keyed: true,
    status: 200,
    body200: { limit: 200, offset: 0 }
  },
  {
    row: 'paging that is no number is refused (decision 12)',
    method: 'GET',
    path: '/api/l402/challenges?limit=ten',
    keyed: true,
    status: 400,
    type: PROBLEM
  },
  {
    row: 'a body is ignored where none is expected (decision 5)',
    method: 'DELETE',
    path: '/api/proxy/none-000000',
    keyed: true,
    headers: { 'content-type': 'text/plain' },
    body: 'what?',
    status: 404
  }
]

t.test('every row of the general rules', async t => {
  const gateway = await startGateway(t)
  for (const { row, method, path, headers = {}, body = null, keyed = false, status, type, body200, allow } of rows) {
    const answer = await gateway.send(method, path, {
      headers: {
        'x-correlation-id': 'trace-1',
        ...(keyed ? { 'x-api-key': gateway.merchant.apiKey } : {}),
        ...headers
      },
      body
    })
    t.equal(answer.status, status, `${row}${answer.status === status ? '' : ` ${answer.text}`}`)
    carriesTheCommonHeaders(t, answer, row)
    if (row !== 'two keys are refused at the door')
      t.equal(answer.headers['x-correlation-id'], 'trace-1', `${row}: the client's correlation id`)
    if (type !== undefined) t.match(answer.headers['content-type'], type, `${row}: media type`)
    if (allow !== undefined) t.equal(answer.headers['allow'], allow, `${row}: Allow`)
    if (method === 'HEAD') t.equal(answer.text, '', `${row}: no body`)
    if (body200 !== undefined) t.match(answer.json(), body200, `${row}: body`)
    const errors = type === PROBLEM && body200 !== undefined ? (answer.json() as { errors?: object }).errors : undefined
    if (errors !== undefined && body200 !== undefined)
      t.same(
        Object.keys(errors).sort(),
        Object.keys((body200 as { errors: object }).errors).sort(),
        `${row}: these fields and no others`
      )
  }
})

t.test('a correlation id that could spoil a log is replaced (decision 14)', async t => {
  const gateway = await startGateway(t)
  for (const id of ['a b', 'x'.repeat(129), '"', '']) {
    const answer = await gateway.send('GET', '/health', { headers: { 'x-correlation-id': id } })
    t.match(answer.headers['x-correlation-id'], /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/)
  }
})
