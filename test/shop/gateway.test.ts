/**
 * What a gateway adds to the shop's operations: routes, headers, CORS, limits, the shapes of errors, and what is
 * logged.
 */
import t from 'tap'
import { silentLog } from '../../src/platform/telemetry/log.ts'
import { challengeOf, credentialOf, startGateway } from '../support/gateway.ts'

const SHOP = '/api/storefront/demo'
const LOCATION = { 'x-buyer-location': 'US-CA-94103' }
const CART = { items: [{ variantId: 10101, quantity: 1 }], email: 'ada@example.com' }
const ADDRESS = {
  firstName: 'Ada',
  lastName: 'Lovelace',
  address1: '12 Analytical Way',
  city: 'San Francisco',
  zip: '94103',
  country: 'US'
}

const lines: string[] = []
function noting() {
  const note = (...parts: unknown[]) => {
    lines.push(JSON.stringify(parts))
  }
  return { ...silentLog, debug: note, info: note, warn: note, error: note }
}

const gateway = await startGateway(t, { log: noting() })

t.test('No API key; L402 proof or the claim token authorizes', async t => {
  const unpaid = await gateway.send('POST', `${SHOP}/checkout`, {
    headers: { ...LOCATION, 'x-api-key': 'nothing' },
    body: CART
  })
  t.equal(unpaid.status, 402, 'a key is not looked at')
  t.equal(unpaid.headers['cache-control'], 'no-store')
  t.equal(
    challengeOf(unpaid, 'l402').parameters.get('invoice'),
    challengeOf(unpaid, 'payment').parameters.get('invoice'),
    'one invoice for both'
  )
  const credential = credentialOf(
    challengeOf(unpaid, 'payment'),
    await gateway.pay(challengeOf(unpaid, 'payment').parameters.get('invoice') ?? '')
  )
  const paid = await gateway.send('POST', `${SHOP}/checkout`, {
    headers: { ...LOCATION, authorization: credential },
    body: CART
  })
  t.equal(paid.status, 200)
  t.ok(paid.headers['payment-receipt'])
  t.equal(paid.headers['cache-control'], 'private, no-store')
  const { orderId, claimPageUrl } = paid.json() as { orderId: string; claimPageUrl: string }
  const claimToken = new URL(claimPageUrl).searchParams.get('claimToken') ?? ''
  t.equal((await gateway.send('GET', `${SHOP}/orders/${orderId}?claimToken=${claimToken}`)).status, 200)
  t.equal(
    (await gateway.send('GET', `${SHOP}/orders/${orderId}`, { headers: { authorization: credential } })).status,
    404,
    'the token alone reads'
  )
  const claimed = await gateway.send('POST', `${SHOP}/claim`, {
    body: { claimToken, email: 'ada@example.com', shippingAddress: ADDRESS }
  })
  t.equal(claimed.status, 200)
  const logged = lines.join('\n')
  t.match(logged, `${SHOP}/checkout`, 'requests are logged')
  for (const secret of [claimToken, credential, 'Lovelace', 'ada@example.com'])
    t.notOk(logged.includes(secret), 'and nothing that opens an order or says whose it is')
})

t.test('llms.txt: GET and HEAD, 404 as text/plain', async t => {
  const text = await gateway.send('GET', `${SHOP}/llms.txt`)
  t.equal(text.headers['content-type'], 'text/plain; charset=utf-8')
  t.match(text.text, `${gateway.url}${SHOP}/checkout`)
  const head = await gateway.send('HEAD', `${SHOP}/llms.txt`)
  t.equal(head.status, 200)
  t.equal(head.text, '')
  t.equal(head.headers['content-length'], String(Buffer.byteLength(text.text)))
  for (const method of ['GET', 'HEAD']) {
    const missing = await gateway.send(method, '/api/storefront/nobody/llms.txt')
    t.equal(missing.status, 404)
    t.equal(missing.headers['content-type'], 'text/plain; charset=utf-8')
  }
})

t.test('pages of other origins may buy: the location header and the challenge get through CORS', async t => {
  const preflight = await gateway.send('OPTIONS', `${SHOP}/checkout`, {
    headers: {
      origin: 'https://agent.example',
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization,content-type,x-buyer-location'
    }
  })
  t.equal(preflight.status, 204)
  const allowed = String(preflight.headers['access-control-allow-headers']).split(',')
  for (const name of ['authorization', 'content-type', 'x-buyer-location']) t.ok(allowed.includes(name), name)
  const unpaid = await gateway.send('POST', `${SHOP}/checkout`, {
    headers: { ...LOCATION, origin: 'https://agent.example' },
    body: CART
  })
  t.match(unpaid.headers['access-control-expose-headers'], 'WWW-Authenticate')
})
