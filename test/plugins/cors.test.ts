import t from 'tap'
import cors from '../../plugins/cors.ts'
import { definePlugin, HeaderList, Type } from '../../src/index.ts'
import { harness, type HarnessOptions } from '../../src/engine/pipeline/harness.ts'

const preflight = {
  method: 'OPTIONS',
  headers: { Origin: 'https://shop.example', 'Access-Control-Request-Method': 'POST' }
}

function build(config: object = {}, options: HarnessOptions = {}) {
  return harness([{ plugin: cors, config }], options)
}

t.test('a preflight is answered with 204 and goes no further', async t => {
  let entered = 0
  const counter = definePlugin({
    name: 'counter',
    config: Type.Object({}),
    setup: () => ({
      request() {
        entered++
      }
    })
  })
  const chain = await harness([cors, counter])
  const result = await chain.run(preflight)
  t.equal(result.status, 204)
  t.equal(result.text, '')
  t.equal(result.upstream, null)
  t.equal(entered, 0, 'plugins after cors never see it')
  t.equal(result.headers.get('access-control-allow-origin'), '*')
  t.match(result.headers.get('access-control-allow-methods'), /\bPOST\b/)
  t.notOk(result.headers.has('access-control-allow-headers'), 'none was requested')
  t.equal(result.headers.get('access-control-max-age'), '3600')
  t.notOk(result.headers.has('access-control-expose-headers'))
  t.notOk(result.headers.has('content-length'))
})

t.test('preflights: the headers that a page requests are allowed unless a list is set', async t => {
  const requests = [
    'authorization,content-type,x-stainless-lang,x-stainless-retry-count',
    'anthropic-version, x-api-key, anthropic-dangerous-direct-browser-access',
    'mcp-protocol-version, mcp-session-id, last-event-id',
    'range',
    'traceparent, tracestate'
  ]
  for (const origins of [undefined, ['https://shop.example']])
    for (const names of requests) {
      const chain = await build(origins === undefined ? {} : { origins })
      const { headers } = await chain.run({
        ...preflight,
        headers: { ...preflight.headers, 'Access-Control-Request-Headers': names }
      })
      t.equal(headers.get('access-control-allow-headers'), names)
    }
  const refused = await (
    await build({ origins: 'https://other.example' })
  ).run({
    ...preflight,
    headers: { ...preflight.headers, 'Access-Control-Request-Headers': 'range' }
  })
  t.notOk(refused.headers.has('access-control-allow-headers'))
})

t.test("responses: the upstream's exposed headers are added, and its narrower origin is kept", async t => {
  const run = async (said: string[], config: object = {}) =>
    (await (await build(config, { answer: { headers: said } })).run({ headers: { Origin: 'https://shop.example' } }))
      .headers
  const exposed = await run(['Access-Control-Expose-Headers', 'X-Request-Id', 'access-control-expose-headers', 'X-B'])
  t.match(exposed.get('access-control-expose-headers'), 'X-Correlation-Id, X-API-Version, X-Request-Id, X-B')
  for (const [said, kept] of [
    ['https://own.example', ['https://own.example']],
    ['null', ['null']],
    ['*', ['*']]
  ] as const)
    t.same((await run(['Access-Control-Allow-Origin', said])).all('access-control-allow-origin'), kept)
  const two = ['https://own.example', '*'].flatMap(origin => ['Access-Control-Allow-Origin', origin])
  t.same((await run(two)).all('access-control-allow-origin'), [], 'browsers refuse two')
  t.equal((await run(two)).get('vary'), 'Origin')
  t.same(
    (await run(['Access-Control-Allow-Origin', 'https://own.example'], { origins: 'https://shop.example' })).all(
      'access-control-allow-origin'
    ),
    ['https://shop.example'],
    'a list in the settings decides'
  )
})

t.test('an OPTIONS that is no preflight is an ordinary request', async t => {
  const chain = await build()
  for (const headers of [{}, { Origin: 'https://shop.example' }, { 'Access-Control-Request-Method': 'POST' }]) {
    const result = await chain.run({ method: 'OPTIONS', headers })
    t.equal(result.status, 200)
    t.ok(result.upstream)
  }
})

t.test('an ordinary request of any origin may read the headers of payment that are present', async t => {
  const names = [
    'WWW-Authenticate',
    'Payment-Receipt',
    'PAYMENT-REQUIRED',
    'PAYMENT-RESPONSE',
    'X-L402-Error',
    'X-Balance-Msat',
    'X-Charged-Msat',
    'X-Last-Charged-Msat',
    'X-Free-Calls-Remaining',
    'X-Free-Calls-Reset',
    'X-Idempotency-Replayed',
    'X-Total-Count',
    'Retry-After'
  ]
  for (const present of [names, names.slice(0, 3), []]) {
    const answer = { headers: present.flatMap(name => [name.toLowerCase(), '1']) }
    const { headers } = await (await build({}, { answer })).run({ headers: { Origin: 'https://shop.example' } })
    t.same(
      headers.get('access-control-expose-headers')?.split(', ').toSorted(),
      [...present, 'X-Correlation-Id', 'X-API-Version'].toSorted()
    )
  }
  const { headers } = await (await build()).run({ headers: { Origin: 'https://shop.example' } })
  t.equal(headers.get('access-control-allow-origin'), '*')
  t.notOk(headers.has('vary'), 'the answer is the same for every origin')
  t.notOk(headers.has('access-control-allow-credentials'))
  const none = await (await build()).run()
  t.notOk(
    none.headers.pairs.some(name => name.startsWith('Access-Control')),
    'nor is it of a request without Origin'
  )
})

t.test('with a list only its origins are allowed, and responses vary by origin', async t => {
  const chain = await build({ origins: ['https://shop.example', 'https://admin.example'], credentials: true })
  const listed = await chain.run({ headers: { Origin: 'https://shop.example' } })
  t.equal(listed.headers.get('access-control-allow-origin'), 'https://shop.example')
  t.equal(listed.headers.get('access-control-allow-credentials'), 'true')
  t.equal(listed.headers.get('vary'), 'Origin')
  for (const headers of [
    { Origin: 'https://evil.example' },
    { Origin: 'https://shop.example.evil.example' },
    { Origin: 'null' },
    {}
  ]) {
    const other = await chain.run({ headers })
    t.equal(other.status, 200, 'it is served; the browser keeps it from the page')
    t.notOk(other.headers.has('access-control-allow-origin'))
    t.notOk(other.headers.has('access-control-expose-headers'))
    t.equal(other.headers.get('vary'), 'Origin')
  }
  const refused = await chain.run({ ...preflight, headers: { ...preflight.headers, Origin: 'https://evil.example' } })
  t.equal(refused.status, 204, 'a preflight is answered without any permission')
  t.notOk(refused.headers.pairs.some(name => name.startsWith('Access-Control')))
})

t.test('Vary keeps what the upstream put there, on one line or several', async t => {
  const chain = await build(
    { origins: 'https://shop.example' },
    { answer: { headers: ['Vary', 'Accept', 'Vary', 'Accept-Encoding'] } }
  )
  const { headers } = await chain.run({ headers: { Origin: 'https://shop.example' } })
  t.equal(headers.all('vary').join(', '), 'Accept, Accept-Encoding, Origin')
})

t.test('methods, headers and exposed headers come from the settings', async t => {
  const answer = { headers: ['X-Three', '3', 'X-L402-Error', 'expired'] }
  const chain = await build(
    { methods: ['GET'], headers: ['X-One', 'X-Two'], exposed: ['X-Three', 'X-Four'] },
    { answer }
  )
  const { headers } = await chain.run(preflight)
  t.equal(headers.get('access-control-allow-methods'), 'GET')
  t.equal(headers.get('access-control-allow-headers'), 'X-One, X-Two')
  t.equal(headers.get('access-control-max-age'), '3600')
  t.equal(
    (await chain.run({ headers: { Origin: 'https://a.example' } })).headers.get('access-control-expose-headers'),
    'X-Three'
  )
})

t.test('credentials for any origin are refused when the chain is built', async t => {
  await t.rejects(build({ credentials: true }), /list of origins/)
  await t.rejects(build({ origins: ['https://shop.example/path'] }), /settings of cors/)
})

t.test(
  'every CORS header of the upstream is removed, however often and however it is written, and no other',
  async t => {
    const names = [
      'allow-origin',
      'allow-credentials',
      'expose-headers',
      'allow-methods',
      'allow-headers',
      'max-age'
    ].map(name => `Access-Control-${name}`)
    const pairs = [
      ...names,
      ...names.map(name => name.toUpperCase()),
      ...names.map(name => name.toLowerCase())
    ].flatMap(name => [name, 'theirs'])
    const kept = ['X-Access-Control-Max-Age', 'kept', 'Access-Control-Max-Ages', 'kept', 'A', 'access-control-max-age']
    const chain = await harness(cors, {
      answer: (_ctx, responder) => {
        void responder.head(200, new HeaderList([...kept, ...pairs, ...kept]))
        responder.end(null)
      }
    })
    const { headers } = await chain.run()
    t.same(
      headers.pairs.filter((_text, at) => at % 2 === 1 && headers.pairs[at] === 'theirs'),
      []
    )
    t.equal(headers.all('x-access-control-max-age').length, 2)
    t.equal(headers.all('access-control-max-ages').length, 2)
    t.same(headers.all('a'), ['access-control-max-age', 'access-control-max-age'])
  }
)
