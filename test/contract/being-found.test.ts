import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { check } from '../../src/app/commands/check.ts'
import { startGateway } from '../support/gateway.ts'

const yaml = (discovery = '') => `
use: [service, sandbox]
${discovery}
routes:
  - match: { path: /v1/*, method: [GET, POST] }
    price: 10 sats
    chain: paid
    description: Weather
    upstream: { url: "http://127.0.0.1:9" }
    examples:
      - { request: POST /v1/now, body: { city: Berlin }, response: { celsius: 7 } }
  - match: { path: /v2/*, method: GET }
    price: $0.01
    chain: paid
    upstream: { url: "http://127.0.0.1:9" }
    sessions: { deposit: 100 sats }
`

t.test('directories find name, contact and icon, what is sold, and proofs of the domain', async t => {
  const gateway = await startGateway(t, {
    yaml: yaml(`discovery:
  name: Weather of the world
  description: Forecasts for any city.
  contact: ops@example.com
  icon: https://example.com/icon.png
  verify: { 402index-verify.txt: abc-123, satring-verify: def }`)
  })
  const get = async (path: string) => await gateway.send('GET', path)
  t.match((await get('/openapi.json')).json(), {
    info: {
      title: 'Weather of the world',
      description: /^Forecasts for any city\. /,
      contact: { email: 'ops@example.com' }
    },
    'x-service-info': { name: 'Weather of the world', icon: 'https://example.com/icon.png' }
  })
  t.match((await get('/.well-known/l402.json')).json(), { service: { name: 'Weather of the world' } })
  t.match((await get('/llms.txt')).text, /^# Weather of the world\n\n> Forecasts for any city\./)
  const services = (await get('/.well-known/l402-services')).json() as { services: unknown[] }
  t.match(services, {
    version: '1',
    services: [
      {
        endpoint: `${gateway.url}/v1/now`,
        method: 'POST',
        content_type: 'application/json',
        description: 'Weather',
        pricing: { base_cost_sats: 10 },
        request_schema: { type: 'object', properties: { city: { type: 'string' } } }
      },
      { endpoint: `${gateway.url}/v2/{path}`, method: 'GET', pricing: {} }
    ]
  })
  for (const [path, text] of [
    ['/.well-known/402index-verify.txt', 'abc-123'],
    ['/.well-known/satring-verify', 'def']
  ] as const) {
    t.equal((await get(path)).text, text)
    t.equal((await gateway.send('HEAD', path)).status, 200)
  }
})

t.test('without settings nothing is proven, and the service has its name alone', async t => {
  const gateway = await startGateway(t, { yaml: yaml() })
  t.equal((await gateway.send('GET', '/.well-known/402index-verify.txt')).status, 404)
  const document = (await gateway.send('GET', '/openapi.json')).json()
  t.match(document, { info: { title: 'boltgate' } })
  t.notOk('contact' in (document as { info: object }).info)
})

t.test('offers have only the members of draft -01; extensions are beside them', async t => {
  const gateway = await startGateway(t, { yaml: yaml() })
  const { paths } = (await gateway.send('GET', '/openapi.json')).json() as {
    paths: Record<string, Record<string, { 'x-payment-info'?: { offers: object[]; terms?: object[] } }>>
  }
  const allowed = new Set(['intent', 'method', 'amount', 'currency', 'description'])
  let seen = 0
  for (const item of Object.values(paths))
    for (const operation of Object.values(item)) {
      const info = operation['x-payment-info']
      if (info === undefined) continue
      seen++
      t.ok(info.offers.every(offer => Object.keys(offer).every(name => allowed.has(name))))
      t.ok(info.terms === undefined || info.terms.length === info.offers.length)
    }
  t.ok(seen > 0)
})

const THEIRS = `
openapi: 3.0.3
servers: [{ url: "https://api.example.com/v3" }]
paths:
  /cities/{city}:
    parameters: [{ name: city, in: path, required: true, schema: { type: string } }]
    get:
      summary: One city
      responses: { "200": { description: It., content: { application/json: { schema: { $ref: "#/components/schemas/City" } } } } }
  /cities:
    post:
      summary: Add a city
      requestBody: { content: { application/json: { schema: { $ref: "#/components/schemas/City" } } } }
      responses: { "402": { description: Theirs. }, "201": { description: Made., content: { application/json: { schema: { $ref: "https://evil.example/x" } } } } }
    delete: { responses: {} }
components:
  schemas:
    City: { type: object, properties: { name: { type: string }, near: { $ref: "#/components/schemas/City" } } }
    Error: { type: object, description: Unused here. }
`

t.test("a route's OpenAPI file is published with the price: operations, parameters and schemas", async t => {
  const folder = t.testdir({})
  const file = join(folder, 'their-api.yaml')
  writeFileSync(file, THEIRS)
  const gateway = await startGateway(t, {
    yaml: `
use: [service, sandbox]
routes:
  - match: { path: /geo/*, method: [GET, POST] }
    price: 3 sats
    chain: paid
    openapi: ${file}
    upstream: { url: "http://127.0.0.1:9" }
`
  })
  const document = (await gateway.send('GET', '/openapi.json')).json() as {
    paths: Record<string, Record<string, object>>
    components: { schemas: Record<string, object> }
  }
  const info = { offers: [{ amount: '3' }] }
  t.match(document.paths['/geo/cities/{city}'], {
    get: {
      summary: /^One city\. /,
      'x-payment-info': info,
      parameters: [{ name: 'city', in: 'path' }],
      responses: {
        200: { content: { 'application/json': { schema: { $ref: /^#\/components\/schemas\/api\d+_City$/ } } } },
        402: { $ref: '#/components/responses/PaymentRequired' }
      }
    }
  })
  t.match(document.paths['/geo/cities'], {
    post: {
      'x-payment-info': info,
      requestBody: { content: { 'application/json': { schema: { $ref: /_City$/ } } } },
      responses: { 201: { content: { 'application/json': { schema: {} } } }, 402: { $ref: /PaymentRequired$/ } }
    }
  })
  t.notOk('delete' in (document.paths['/geo/cities'] ?? {}), 'the route does not take it')
  const names = Object.keys(document.components.schemas).filter(name => name.startsWith('api'))
  t.equal(names.length, 1, 'what is not used is left out')
  t.match((await gateway.send('GET', '/llms.txt')).text, '- /geo/cities/{city} (GET): 3 sats. One city. ')
  t.match((await gateway.send('GET', '/.well-known/l402-services')).text, `${gateway.url}/geo/cities/{city}`)
})

t.test('agents learn of x402 where it is on, and only there', async t => {
  for (const [payment, isOn] of [
    ['payment: { schemes: [l402, payment, x402] }', true],
    ['', false]
  ] as const) {
    const gateway = await startGateway(t, { yaml: yaml(payment) })
    const { text } = await gateway.send('GET', '/llms.txt')
    t.equal(text.includes('PAYMENT-SIGNATURE: '), isOn)
    t.equal(text.includes('PAYMENT-REQUIRED'), isOn)
    for (const path of ['/openapi.json', '/api/openapi.json']) {
      const answer = await gateway.send('GET', path)
      const { info, components, paths } = answer.json() as {
        info: { description: string }
        components: { responses: { PaymentRequired: { headers: object } } }
        paths: Readonly<Record<string, { get?: { responses: { 200: { headers: object } } } }>>
      }
      t.equal(info.description.includes('x402 version 2'), isOn, path)
      const { headers } = components.responses.PaymentRequired
      t.same(['PAYMENT-REQUIRED' in headers, 'PAYMENT-RESPONSE' in headers], [isOn, isOn], `402 of ${path}`)
      const isSold = Object.values(paths).some(({ get }) => 'PAYMENT-RESPONSE' in (get?.responses[200].headers ?? {}))
      t.equal(isSold, isOn, `200 of ${path}`)
    }
  }
})

/** An OpenAPI file of so many operations, each with a schema of so many members. */
function largeApi(operations: number, members: number) {
  const properties = Object.fromEntries(
    Array.from({ length: members }, (_, nth) => [`member${nth}`, { type: 'string', description: 'What it is for.' }])
  )
  const schema = { type: 'object', properties }
  const operation = {
    summary: 'An operation',
    parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }],
    requestBody: { content: { 'application/json': { schema } } },
    responses: { 200: { description: 'Done.' } }
  }
  const paths = Object.fromEntries(
    Array.from({ length: operations }, (_, nth) => [`/v1/things${nth}/{id}`, { post: operation }])
  )
  return JSON.stringify({ openapi: '3.0.3', info: { title: 'Large', version: '1' }, paths })
}

t.test('a large openapi file leaves /openapi.json where registries read it, and check says so', async t => {
  for (const [operations, members, shown, words] of [
    [3, 10, 'all', null],
    [20, 60, 'without schemas', /^warning: \/openapi\.json would have [0-9]+ KB.*without the schemas/m],
    [400, 1, 'the route', /^warning: .*without the operations of the file large\.json/m]
  ] as const) {
    const folder = t.testdir({ 'large.json': largeApi(operations, members) })
    const text = `use: [service, sandbox]
routes:
  - match: { path: /v1/* }
    price: 10 sats
    chain: paid
    openapi: ${join(folder, 'large.json')}
    upstream: { url: "http://127.0.0.1:9" }
`
    writeFileSync(join(folder, 'gateway.yaml'), text)
    const err: string[] = []
    const output = { print: () => {}, complain: (line: string) => err.push(line) }
    t.equal(await check.run(['--config', join(folder, 'gateway.yaml')], output), 0)
    if (words === null) t.same(err, [])
    else t.match(err.join('\n').replaceAll(folder, '').replaceAll('/large.json', 'large.json'), words, shown)
    const gateway = await startGateway(t, { yaml: text })
    const read = async (path: string) => {
      const answer = await gateway.send('GET', path)
      t.ok(path !== '/openapi.json' || Buffer.byteLength(answer.text) <= 65_536, `${shown}: ${answer.text.length}`)
      const { paths } = answer.json() as { paths: Record<string, { post?: object; parameters?: object }> }
      const { post, parameters } = paths['/v1/things1/{id}'] ?? {}
      if (post !== undefined) t.match(parameters, [{ name: 'id', in: 'path' }])
      return post ?? null
    }
    const [sold, whole] = [await read('/openapi.json'), await read('/api/openapi.json')]
    t.ok(whole !== null && 'requestBody' in whole, 'the whole document has all')
    t.equal(sold !== null, shown !== 'the route')
    if (sold !== null) {
      t.equal(JSON.stringify(sold).includes('member9'), shown === 'all')
      t.match(sold, { summary: /^An operation/, 'x-payment-info': { offers: [{}] } })
    }
  }
})
