/** Examples of the how-to guides, as written there except for the address of the upstream. */
import { createServer } from 'node:http'
import t, { type Test as T } from 'tap'
import { providerKinds } from '../../src/lightning/kinds/kinds.ts'
import { offerOf, returnInvoice, token } from '../selling/sessions/fixture.ts'
import { documented } from '../support/documents.ts'
import { loadText, startGateway, type Answer, type TestGateway } from '../support/gateway.ts'
import { RawUpstream } from '../support/raw-upstream.ts'
import { serve } from '../support/serve.ts'

async function stand(t: T, yaml: string, replace: ReadonlyArray<readonly [string, string]> = []) {
  const upstream = await RawUpstream.serve('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok').listen()
  t.teardown(() => upstream.close())
  let text = yaml
  for (const [from, to] of [['http://127.0.0.1:9000', upstream.origin] as const, ...replace]) {
    if (!text.includes(from)) throw new Error(`the example has no longer: ${from}`)
    text = text.replace(from, to)
  }
  return { upstream, gateway: await startGateway(t, { yaml: text, documented: false }) }
}

/** What a 402 asks for, and the credential that paying it gives. */
async function bought(gateway: TestGateway, answer: Answer) {
  if (answer.status !== 402) throw new Error(`no 402 but ${answer.status} ${answer.text}`)
  const { l402 } = answer.json() as { l402: { macaroon: string; invoice: string; amount_sats: number } }
  return { sats: l402.amount_sats, authorization: `L402 ${l402.macaroon}:${await gateway.pay(l402.invoice)}` }
}

t.test('a fixed price', async t => {
  const { gateway, upstream } = await stand(t, documented('fixed.yaml'))
  const { sats, authorization } = await bought(gateway, await gateway.send('GET', '/v1/oslo'))
  t.equal(sats, 10)
  t.equal((await gateway.send('GET', '/v1/oslo', { headers: { authorization } })).text, 'ok')
  t.equal(upstream.requests.length, 1)
})

t.test('a price in dollars, and how it is shown', async t => {
  const { gateway } = await stand(t, documented('dollars.yaml'), [['sandbox ]', 'sandbox, merchant-api ]']])
  const { sats, authorization } = await bought(gateway, await gateway.send('GET', '/v1/oslo'))
  t.equal(sats, 2)
  t.equal((await gateway.send('GET', '/v1/oslo', { headers: { authorization } })).text, 'ok')
  t.match((await gateway.send('GET', '/llms.txt')).text, /\/v1\/\{path\} \(any method\): USD 0\.002\. Weather/)
  t.match((await gateway.send('GET', '/api/l402/pricing')).json(), {
    endpoints: [{ pathPattern: '/v1/*', priceSats: 'varies', price: 'USD 0.002', description: 'Weather' }]
  })
  const document = (await gateway.send('GET', '/openapi.json')).json() as { paths: Record<string, unknown> }
  t.match(document.paths['/v1/{path}'], {
    get: {
      'x-payment-info': {
        offers: [{ amount: null, currency: 'sat' }],
        terms: [{ price: { mode: 'fixed', amount: '0.002', currency: 'USD' } }]
      }
    }
  })
  t.match((await gateway.send('GET', '/.well-known/l402.json')).text, /"model":"varies","price":"USD 0\.002"/)
})

t.test('a price by model, and how it is shown', async t => {
  const { gateway, upstream } = await stand(t, documented('by-model.yaml'))
  const ask = (body: object | string, headers: Record<string, string> = {}) =>
    gateway.send('POST', '/v1/chat/completions', {
      body,
      headers: { 'content-type': 'application/json', ...headers }
    })
  const small = await bought(gateway, await ask({ model: 'small' }))
  t.equal(small.sats, 5)
  t.equal((await bought(gateway, await ask({ model: 'large' }))).sats, 40)
  t.equal((await bought(gateway, await ask({ model: 'huge' }))).sats, 100)
  t.equal((await ask({ model: 'small' }, { authorization: small.authorization })).text, 'ok')
  t.equal(String(upstream.requests[0]?.body), '{"model":"small"}', 'the upstream gets the body')
  t.equal((await ask({ model: 'large' }, { authorization: small.authorization })).status, 401)
  t.equal((await ask('{"model":"small","model":"large"}')).status, 400)
  t.match((await ask({ model: 'other' })).text, /must be one of .*small.*large.*huge/)
  const big = { prompt: 'x'.repeat(1_900_000), model: 'large' }
  t.equal((await bought(gateway, await ask(big))).sats, 40, 'of two megabytes too')
  t.equal((await ask({ ...big, more: 'x'.repeat(300_000) })).status, 413)
  t.match(
    (await gateway.send('GET', '/llms.txt')).text,
    /\(POST\): 5 sats, 40 sats, USD 0\.1, by the JSON member model\. Chat/
  )
  t.match((await gateway.send('GET', '/openapi.json')).text, /"mode":"by-field","by":\{"json":"model"\}/)
})

t.test('a price of a server, and how it is shown', async t => {
  const server = createServer((request, response) => {
    let text = ''
    request.on('data', (piece: Buffer) => (text += piece.toString()))
    request.on('end', () => {
      const { fields } = JSON.parse(text) as { fields: { size: string | null } }
      response.end(JSON.stringify({ amountSats: fields.size === 'large' ? 40 : 4, description: 'A rendering' }))
    })
  })
  const port = await serve(t, server)
  const { gateway } = await stand(t, documented('price-server.yaml'), [
    ['http://127.0.0.1:9100', `http://127.0.0.1:${port}`]
  ])
  const { sats, authorization } = await bought(gateway, await gateway.send('GET', '/v1/a?size=large'))
  t.equal(sats, 40)
  t.equal((await gateway.send('GET', '/v1/a?size=large', { headers: { authorization } })).text, 'ok')
  t.equal((await bought(gateway, await gateway.send('GET', '/v1/a'))).sats, 4)
  t.match((await gateway.send('GET', '/llms.txt')).text, /asked for each request\. Renderings/)
})

t.test('free calls', async t => {
  const { gateway } = await stand(t, documented('free.yaml'), [['sandbox ]', 'sandbox, merchant-api ]']])
  const words = /The first 20 calls of an address in 1d are free/
  t.match((await gateway.send('GET', '/llms.txt')).text, words)
  t.match((await gateway.send('GET', '/openapi.json')).json(), {
    paths: { '/v1/{path}': { get: { 'x-payment-info': { offers: [{ amount: '10', description: words }] } } } }
  })
  t.match((await gateway.send('GET', '/api/l402/pricing')).json(), {
    endpoints: [{ pathPattern: '/v1/*', priceSats: 10, price: words }]
  })
  for (let left = 19; left >= 0; left--)
    t.equal((await gateway.send('GET', '/v1/oslo')).headers['x-free-calls-remaining'], String(left))
  const response = await gateway.send('GET', '/v1/oslo')
  t.equal(response.status, 402)
  t.equal(response.headers['x-free-calls-remaining'], '0')
  t.match(response.headers['x-free-calls-reset'], /^8\d{4}$/)
  t.match((await gateway.send('GET', '/metrics')).text, /boltgate_free_calls_total\{source="route"\} 20\n/)
})

t.test('seeing first what it would earn', async t => {
  const { gateway } = await stand(t, documented('observe.yaml'))
  for (let time = 0; time < 3; time++) t.equal((await gateway.send('GET', '/v1/oslo')).text, 'ok')
  const metrics = (await gateway.send('GET', '/metrics')).text
  t.match(metrics, /boltgate_challenges_observed_total\{source="route"\} 3\n/)
  t.match(metrics, /boltgate_satoshis_observed_total\{source="route"\} 30\n/)
})

t.test('prepaid sessions', async t => {
  const { gateway, upstream } = await stand(t, documented('sessions.yaml'))
  const { challenge, request } = offerOf(await gateway.send('GET', '/v1/oslo'))
  t.match(request, { amount: '2', depositAmount: '500', unitType: 'word', idleTimeout: '300' })
  const preimage = await gateway.pay(request['depositInvoice'] ?? '')
  const act = async (payload: object) =>
    await gateway.send('GET', '/v1/oslo', { headers: { authorization: token(challenge, payload) } })
  const proof = { sessionId: request['paymentHash'], preimage }
  t.equal((await act({ action: 'open', preimage, returnInvoice: returnInvoice() })).text, 'ok')
  t.equal((await act({ action: 'bearer', ...proof })).text, 'ok')
  t.same((await act({ action: 'close', ...proof })).json(), {
    status: 'closed',
    refundSats: 496,
    refundStatus: 'succeeded'
  })
  t.equal(upstream.requests.length, 2)
  const receives = documented('sessions.yaml').replace('routes:', 'lightning: { primary: { kind: KIND } }\nroutes:')
  for (const { name, onlyReceives, wantsAmounts } of providerKinds) {
    const loaded = loadText(receives.replace('KIND', name), {})
    if (onlyReceives === true)
      await t.rejects(loaded, { message: /only receives, and what is left of a session is paid back/ }, name)
    else if (wantsAmounts === true)
      await t.rejects(loaded, { message: /pays no invoice without an amount, and what is left of a session/ }, name)
    else await t.resolves(loaded, name)
  }
})

t.test('an agent that knows nothing but /llms.txt buys what is sold', async t => {
  const { gateway, upstream } = await stand(t, documented('agents.yaml'))
  const { text } = await gateway.send('GET', '/llms.txt')
  const wallet = /`POST (\S+\/sandbox\/pay)`/.exec(text)?.[1] ?? ''
  const examples = [...text.matchAll(/Example: ([A-Z]+) (\S+)(?: with the body (.+))?/g)]
  t.equal(examples.length, 2)
  for (const [, method = '', address = '', body] of examples) {
    const ask = async (authorization?: string) =>
      await gateway.send(method, address, {
        headers: {
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(authorization === undefined ? {} : { authorization })
        },
        ...(body === undefined ? {} : { body })
      })
    const challenge = await ask()
    t.equal(challenge.status, 402)
    const [, macaroon = '', invoice = ''] =
      /L402 [^\n]*macaroon="([^"]+)"[^\n]*invoice="([^"]+)"/.exec(
        [challenge.headers['www-authenticate']].flat().join('\n')
      ) ?? []
    const paid = await gateway.send('POST', wallet, { body: { invoice } })
    const { preimage } = paid.json() as { preimage: string }
    t.match(await ask(`L402 ${macaroon}:${preimage}`), { status: 200, text: 'ok' })
  }
  t.same(
    upstream.requests.map(({ head }) => head.split(' ', 2)[1]),
    ['/v1/weather?city=Oslo', '/v1/batch']
  )
})

t.test("a price of a plugin's own, as the plugin guide names it", async t => {
  const yaml = `use: [ service, sandbox ]
chains:
  by-length: [ correlation, { throttle: { policy: global } }, body-limit, ./docs/examples/price-by-length.ts, credential, challenge ]
routes:
  - { match: { method: POST, path: /translate }, price: 1 sat, chain: by-length, upstream: { url: "http://127.0.0.1:9000" } }
`
  const { gateway } = await stand(t, yaml)
  const send = (length: number, headers: Record<string, string> = {}) =>
    gateway.send('POST', '/translate', { body: 'x'.repeat(length), headers })
  const short = await bought(gateway, await send(100))
  t.equal(short.sats, 1)
  t.equal((await bought(gateway, await send(5000))).sats, 5)
  t.equal((await send(100, { authorization: short.authorization })).text, 'ok')
  t.equal((await send(5000, { authorization: short.authorization })).status, 401)
})
