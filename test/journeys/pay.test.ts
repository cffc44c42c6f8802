import t from 'tap'
import { buy, challengeOf, startGateway } from '../support/gateway.ts'
import { serve } from '../support/serve.ts'

t.test('the default deployment sells its demo for each scheme', async t => {
  const gateway = await startGateway(t)
  const unpaid = await gateway.send('GET', '/demo/quote')
  t.equal(unpaid.status, 402)
  t.equal(unpaid.headers['cache-control'], 'no-store')
  t.equal(
    challengeOf(unpaid, 'l402').parameters.get('invoice'),
    challengeOf(unpaid, 'payment').parameters.get('invoice'),
    'one invoice for both'
  )

  const classic = await buy(gateway, '/demo/quote', 'l402')
  for (const use of ['first', 'second']) {
    const answer = await gateway.send('GET', '/demo/quote', { headers: { authorization: classic } })
    t.equal(answer.status, 200, `${use} use of a classic token`)
    t.match(answer.json(), { paidSats: 10 })
    t.equal(answer.headers['cache-control'], 'private')
  }

  const modern = await buy(gateway, '/demo/quote', 'payment')
  const first = await gateway.send('GET', '/demo/quote', { headers: { authorization: modern } })
  t.equal(first.status, 200)
  t.ok(first.headers['payment-receipt'])
  const second = await gateway.send('GET', '/demo/quote', { headers: { authorization: modern } })
  t.equal(second.status, 402, 'a modern credential is valid once')
  t.match(second.json(), { type: 'https://paymentauth.org/problems/verification-failed' })
})

t.test('the ping costs one satoshi and says pong', async t => {
  const gateway = await startGateway(t)
  const credential = await buy(gateway, '/l402/test/ping')
  const answer = await gateway.send('GET', '/l402/test/ping', { headers: { authorization: credential } })
  t.equal(answer.status, 200)
  t.match(answer.json(), { message: 'pong', paymentHash: /^[0-9a-f]{64}$/ })
})

t.test('a merchant sells a plain HTTP server over a proxy', async t => {
  const { createServer } = await import('node:http')
  const seen: string[] = []
  const upstream = createServer((req, res) => {
    seen.push(`${req.method} ${req.url} ${req.headers.authorization ?? '-'} ${req.headers['x-secret'] ?? '-'}`)
    res.end('from upstream')
  })
  const port = await serve(t, upstream)
  const gateway = await startGateway(t)
  const created = await gateway.merchantSend('POST', '/api/proxy', {
    name: 'My API',
    targetBaseUrl: `http://127.0.0.1:${port}/base`,
    defaultPriceSats: 5,
    authHeader: 'X-Secret',
    authValue: 's3cret',
    endpoints: [{ pathPattern: '/free/*', priceSats: 0 }]
  })
  t.equal(created.status, 201, created.text)
  const { proxyId } = created.json() as { proxyId: string }
  t.match(proxyId, /^my-api-[0-9a-f]{8}$/)
  t.notMatch(created.text, 's3cret')
  const path = `/l402/proxy/${proxyId}/a%2Fb?x=1`
  const credential = await buy(gateway, path)
  const answer = await gateway.send('GET', path, { headers: { authorization: credential } })
  t.equal(answer.status, 200)
  t.equal(answer.text, 'from upstream')
  t.equal(answer.headers['x-l402-proxy-id'], proxyId)
  t.equal(answer.headers['x-l402-proxy'], 'true')
  t.equal((await gateway.send('GET', `/l402/proxy/${proxyId}/free/x`)).status, 200)
  t.same(
    seen,
    ['GET /base/a%2Fb?x=1 - s3cret', 'GET /base/free/x - s3cret'],
    'the credential stays here, the upstream header is added'
  )
  t.equal((await gateway.send('GET', `/l402/proxy/${proxyId}`)).status, 402, 'without a slash it is the same as /')
  t.equal((await gateway.send('GET', '/l402/proxy/nobody-000000/')).status, 404)
})

t.test(
  'a refused Payment credential is answered with the Payment line first, whose clients may read no further',
  async t => {
    const gateway = await startGateway(t)
    const modern = await buy(gateway, '/demo/quote', 'payment')
    await gateway.send('GET', '/demo/quote', { headers: { authorization: modern } })
    const first = async (headers: Record<string, string>) => {
      const lines = (await gateway.send('GET', '/demo/quote', { headers })).headers['www-authenticate']
      return (Array.isArray(lines) ? lines[0] : lines)?.split(' ', 1)[0] ?? ''
    }
    t.equal(await first({ authorization: modern }), 'Payment')
    t.equal(await first({}), 'L402', 'without a credential L402 comes first')
  }
)
