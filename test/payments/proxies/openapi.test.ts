/** The OpenAPI document of a merchant's API: published with prices while the API is listed. */
import t from 'tap'
import { startGateway } from '../../support/gateway.ts'

const DOCUMENT = {
  openapi: '3.0.3',
  info: { title: 'Weather', version: '1' },
  servers: [{ url: 'https://api.example.com/v1' }],
  paths: {
    '/now/{city}': {
      parameters: [{ name: 'city', in: 'path', required: true, schema: { type: 'string' } }],
      get: {
        summary: 'The weather now',
        security: [{ stolen: [] }],
        'x-payment-info': { offers: [{ amount: '0' }] },
        responses: { 200: { content: { 'application/json': { schema: { $ref: '#/components/schemas/Now' } } } } }
      }
    },
    '/alerts': { post: { requestBody: { $ref: 'https://evil.example/x.json' }, responses: {} } },
    '/private/x': { get: { responses: {} } }
  },
  components: { schemas: { Now: { type: 'object', properties: { celsius: { type: 'number' } } } } }
}

interface Document {
  readonly info: { readonly title: string }
  readonly paths: Record<string, Record<string, Record<string, unknown>>>
  readonly components: { readonly schemas: Record<string, unknown> }
}

t.test('openapi of a proxy: operations with their prices, while it is listed', async t => {
  const gateway = await startGateway(t)
  const created = await gateway.merchantSend('POST', '/api/proxy', {
    name: 'Weather',
    targetBaseUrl: 'https://api.example.com/v1',
    defaultPriceSats: 5,
    endpoints: [{ method: 'POST', pathPattern: '/alerts', priceSats: 9 }],
    blockedPaths: ['/private/*']
  })
  const { proxyId } = created.json() as { proxyId: string }
  const change = async (body: object) => await gateway.merchantSend('PUT', `/api/proxy/${proxyId}`, body)
  const read = async () => await gateway.send('GET', `/api/openapi/${proxyId}.json`)
  t.equal((await change({ openapi: DOCUMENT })).status, 200)
  t.equal((await read()).status, 404, 'not while it is not listed')
  t.equal((await change({ isListed: true })).status, 200)

  const answer = await read()
  t.equal(answer.status, 200)
  const { info, paths, components } = answer.json() as Document
  t.equal(info.title, 'Weather')
  const base = `/l402/proxy/${proxyId}`
  const now = paths[`${base}/now/{city}`]?.['get']
  t.match(now, {
    summary: /^The weather now/,
    'x-payment-info': { offers: [{ amount: '5' }] },
    parameters: [{ name: 'city' }],
    responses: { 200: { content: { 'application/json': { schema: { $ref: '#/components/schemas/api_Now' } } } } }
  })
  t.notMatch(JSON.stringify(now?.['security']), 'stolen', 'it is paid as all is here')
  t.match(components.schemas['api_Now'], { properties: { celsius: { type: 'number' } } })
  t.match(paths[`${base}/alerts`]?.['post'], { 'x-payment-info': { offers: [{ amount: '9' }] } })
  t.notMatch(answer.text, 'evil.example')
  t.notOk(`${base}/private/x` in paths, 'a blocked proxy is not sold')
  t.equal((await gateway.merchantSend('GET', `/api/proxy/${proxyId}`)).status, 200)

  t.equal((await change({ defaultPriceSats: 6 })).status, 200)
  t.match((await read()).text, '"amount":"6"', 'a change of the price leaves the document')
  t.equal((await change({ openapi: null })).status, 200)
  t.notMatch((await read()).text, 'celsius')
  t.equal((await change({ isActive: false })).status, 200)
  t.equal((await read()).status, 404)
})

t.test('openapi of a proxy: other documents are refused, and deep ones are cut', async t => {
  const gateway = await startGateway(t)
  const body = { name: 'Weather', targetBaseUrl: 'https://api.example.com', defaultPriceSats: 5, isListed: true }
  const { proxyId } = (await gateway.merchantSend('POST', '/api/proxy', body)).json() as { proxyId: string }
  const change = async (openapi: unknown) => await gateway.merchantSend('PUT', `/api/proxy/${proxyId}`, { openapi })
  for (const other of [{}, { openapi: '2.0', paths: {} }, { openapi: '3.0.0', paths: [] }])
    t.match((await change(other)).json(), { error: /^openapi: / })
  t.equal((await change('3.0.0')).status, 400)
  for (const odd of ['%00', '..%2fa', 'x'.repeat(500)])
    t.equal((await gateway.send('GET', `/api/openapi/${odd}.json`)).status, 404, odd.slice(0, 9))
  const methods = Object.fromEntries(['get', 'post', 'put', 'patch'].map(method => [method, {}]))
  const shared = {
    openapi: '3.0.0',
    paths: { '/a': { parameters: [{ description: 'x'.repeat(70_000) }], ...methods } }
  }
  t.match((await change(shared)).json(), { error: /^openapi: Must not exceed / }, 'each of four operations has them')
  const deep = `${'{"a":'.repeat(5_000)}{}${'}'.repeat(5_000)}`
  const { status } = await gateway.send('PUT', `/api/proxy/${proxyId}`, {
    headers: { 'x-api-key': gateway.merchant.apiKey, 'content-type': 'application/json' },
    body: `{"openapi":{"openapi":"3.0.0","paths":{"/a":{"get":{"responses":{"200":${deep}}}}}}}`
  })
  t.ok(status === 200 || status === 400, String(status))
  const answer = await gateway.send('GET', `/api/openapi/${proxyId}.json`)
  t.equal(answer.status, 200)
  t.ok(answer.text.length < 64_000)
})
