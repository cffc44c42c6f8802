import { createServer, type IncomingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { encodePaidKey } from '../../src/lightning/l402/root-key.ts'
import { rootFolder, paidFor } from '../support/gateway.ts'
import { eventually, spawnGateway } from '../support/gateway-process.ts'
import { serve } from '../support/serve.ts'

interface WrittenSpan {
  readonly name: string
  /** 1 is of a server, 2 of a client. */
  readonly kind: number
  readonly attributes: Readonly<Record<string, unknown>>
  readonly traceId: string
  readonly spanId: string
  readonly parent?: string
}

t.test('an OpenTelemetry SDK by --import: a paid request is one trace, from the client to the upstream', async t => {
  const seen: IncomingHttpHeaders[] = []
  const upstream = createServer((request, response) => {
    seen.push(request.headers)
    request.resume().on('end', () => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end('{"usage":{"prompt_tokens":3,"completion_tokens":4}}')
    })
  })
  const port = await serve(t, upstream)
  const gateway = await spawnGateway(t, {
    nodeArgs: ['--import', join(rootFolder, 'test/support/spans.mjs')],
    yaml: `server: { listen: "127.0.0.1:\${PORT}" }
data: "\${BOLTGATE_DATA}"
routes:
  - match: { path: /v1/* }
    chain: paid
    upstream: { url: "http://127.0.0.1:${port}" }
    keys: true
    meter: { bundle: 100 sats, prices: 1 sat, usage: openai, estimate: { else: 9 } }
`
  })
  const traceId = '0af7651916cd43dd8448eb211c80319c'
  const traced = { traceparent: `00-${traceId}-b7ad6b7169203331-01` }
  const authorization = await paidFor(gateway, await gateway.send('POST', '/v1/a?secret=1', { headers: traced }))
  const answer = await gateway.send('POST', '/v1/a?secret=1', {
    headers: { ...traced, authorization, 'content-type': 'application/json' },
    body: { messages: [] }
  })
  t.equal(answer.status, 200)

  const spansOf = (): WrittenSpan[] =>
    gateway.errors
      .join('')
      .split('\n')
      .flatMap(line =>
        line.startsWith('{"span"') && line.endsWith('}') ? (JSON.parse(line) as { span: WrittenSpan }).span : []
      )
  const spans = await eventually('both requests have ended', async () => {
    const found = spansOf().filter(span => span.traceId === traceId)
    return found.filter(({ kind }) => kind === 1).length === 2 ? found : null
  })
  const [first, second] = spans.filter(({ kind }) => kind === 1)
  t.match(first, {
    name: '* /v1/*',
    parent: 'b7ad6b7169203331',
    attributes: { 'http.request.method': 'POST', 'http.route': '* /v1/*', 'http.response.status_code': 402 }
  })
  t.match(second?.attributes, {
    'http.response.status_code': 200,
    'gen_ai.provider.name': 'openai',
    'gen_ai.usage.input_tokens': 3,
    'gen_ai.usage.output_tokens': 4
  })
  const statements = spans.filter(({ attributes }) => attributes['db.system.name'] === 'postgresql')
  t.ok(statements.length > 0, 'statements of the paying path')
  t.ok(statements.every(({ parent }) => parent !== undefined))
  const call = spans.find(
    span => span.parent === second?.spanId && span.attributes['server.address'] === `127.0.0.1:${port}`
  )
  t.match(call, { kind: 2, attributes: { 'http.response.status_code': 200 } })
  t.same(seen[0]?.['traceparent'], `00-${traceId}-${call?.spanId}-01`)
  const [macaroon = '', preimage = ''] = authorization.replace(/^L402 /, '').split(':')
  const key = encodePaidKey(Buffer.from(preimage, 'hex'), Buffer.from(macaroon, 'base64'))
  const forms = {
    'x-api-key': key,
    'api-key': `${key}A`,
    authorization: `Bearer ${key}B`,
    'payment-authorization': `Payment ${Buffer.from('{"challenge":{}}').toString('base64url')}`,
    'payment-signature': Buffer.from('{"x402Version":2}').toString('base64'),
    'grpc-metadata-macaroon': Buffer.from(macaroon, 'base64').toString('hex'),
    cookie: 'boltgate_pass=a-secret-of-a-browser',
    'proxy-authorization': 'Basic dXNlcjphLXNlY3JldA==',
    'x-goog-api-key': 'AIza-a-secret-of-an-upstream'
  }
  const late = 'f'.repeat(32)
  const sent = Object.entries(forms)
  for (const [name, value] of sent)
    await gateway.send('POST', `/v1/${name}?key=${encodeURIComponent(value)}`, {
      headers: { traceparent: `00-${late}-b7ad6b7169203331-01`, [name]: value, 'content-type': 'application/json' },
      body: { api_key: value, messages: [] }
    })
  await eventually('all have ended', async () => {
    const ended = spansOf().filter(({ kind, traceId: of }) => of === late && kind === 1)
    return ended.length === sent.length ? ended : null
  })
  const all = JSON.stringify(spansOf())
  for (const secret of [
    'secret=1',
    '?key',
    macaroon,
    preimage,
    ...sent.map(([, value]) => value.split(' ').at(-1) ?? '')
  ])
    t.notOk(all.includes(secret) || all.includes(encodeURIComponent(secret)), 'no credential and no query')
})
