/** draft-httpauth-payment-01: the credential in a field of its own, beside the client's Authorization. */
import t, { type Test as T } from 'tap'
import { challengeOf, defaultYaml, startGateway, type Answer, type TestGateway } from '../support/gateway.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { RawUpstream, type RawRequest } from '../support/raw-upstream.ts'

const OWN = 'Bearer of-the-client'

function sent(request: RawRequest | undefined, name: string) {
  return (request?.head ?? '')
    .split('\r\n')
    .flatMap(line => (line.toLowerCase().startsWith(`${name}: `) ? [line.slice(name.length + 2)] : []))
}

const selected = (answer: Answer) => challengeOf(answer, 'payment').parameters.get('header')
const problem = (answer: Answer) => (answer.json() as { type: string }).type.split('/').at(-1) ?? ''
const tokenOf = (challenge: object, payload: object) =>
  `Payment ${Buffer.from(JSON.stringify({ challenge, payload })).toString('base64url')}`

/** Pays the Payment challenge of a request as a client does that echoes every parameter. */
async function buy(gateway: TestGateway, path: string, headers: Record<string, string>) {
  const { parameters } = challengeOf(await gateway.send('GET', path, { headers }), 'payment')
  const preimage = await gateway.pay(parameters.get('invoice') ?? '')
  const challenge = Object.fromEntries(parameters)
  return { challenge, preimage, credential: tokenOf(challenge, { preimage }) }
}

async function open(t: T, clock = new ManualClock()) {
  const upstream = await RawUpstream.serve(
    'HTTP/1.1 200 OK\r\nCache-Control: public, max-age=60\r\nContent-Length: 2\r\n\r\nok'
  ).listen()
  t.teardown(() => upstream.close())
  const gateway = await startGateway(t, {
    clock,
    yaml: defaultYaml({
      replace: [
        [
          'routes:\n',
          `routes:
  - { match: { path: /own/* }, price: 21 sats, chain: paid, keepAuthorization: true, upstream: { url: "${upstream.origin}" } }
  - { match: { path: /sold/* }, price: 21 sats, chain: paid, upstream: { url: "${upstream.origin}" } }
  - { match: { path: /balance/* }, chain: paid, keepAuthorization: true, meter: { unit: call, bundle: 100 sats, prices: 1000 msat }, upstream: { url: "${upstream.origin}" } }
`
        ]
      ]
    })
  })
  return { gateway, upstream }
}

t.test('a client with its own Authorization pays in Payment-Authorization', async t => {
  const { gateway, upstream } = await open(t)
  const { challenge, credential } = await buy(gateway, '/own/a', { authorization: OWN })
  t.equal(challenge['header'], 'Payment-Authorization')
  const served = await gateway.send('GET', '/own/a', {
    headers: { authorization: OWN, 'payment-authorization': credential }
  })
  t.equal(served.status, 200)
  t.match(served.headers['cache-control'], /private/)
  t.notMatch(served.headers['cache-control'], /public/)
  t.ok(served.headers['payment-receipt'])
  const request = upstream.requests.at(-1)
  t.same(sent(request, 'authorization'), [OWN], 'the upstream is sent what the client sent')
  t.same(sent(request, 'payment-authorization'), [])

  const again = await gateway.send('GET', '/own/a', {
    headers: { authorization: OWN, 'payment-authorization': credential }
  })
  t.equal(again.status, 402)
  t.equal(problem(again), 'invalid-challenge', 'a challenge that was used')
  t.equal(again.headers['cache-control'], 'no-store')
  t.equal(selected(again), 'Payment-Authorization')
})

t.test('a credential counts in the field alone that its challenge selects', async t => {
  const { gateway, upstream } = await open(t)
  const own = await buy(gateway, '/own/a', { authorization: OWN })
  const wrong = await gateway.send('GET', '/own/a', { headers: { authorization: own.credential } })
  t.equal(wrong.status, 402)
  t.equal(problem(wrong), 'invalid-challenge')
  const { header: _header, ...without } = own.challenge
  for (const [field, challenge] of [
    ['authorization', without],
    ['payment-authorization', without],
    ['payment-authorization', { ...own.challenge, header: 'Authorization' }]
  ] as const) {
    const credential = tokenOf(challenge, { preimage: own.preimage })
    t.equal((await gateway.send('GET', '/own/a', { headers: { [field]: credential } })).status, 402, field)
  }
  const legacy = `Payment method="lightning", preimage="${own.preimage}"`
  for (const field of ['authorization', 'payment-authorization'])
    t.equal((await gateway.send('GET', '/own/a', { headers: { [field]: legacy } })).status, 402, `legacy, ${field}`)
  const plain = await buy(gateway, '/own/a', {})
  t.equal(plain.challenge['header'], undefined, 'a client without its own Authorization has the former challenge')
  for (const credential of [plain.credential, tokenOf({ ...plain.challenge, header: 'Payment-Authorization' }, plain)])
    t.equal((await gateway.send('GET', '/own/a', { headers: { 'payment-authorization': credential } })).status, 402)
  t.equal(upstream.requests.length, 0)
  t.equal((await gateway.send('GET', '/own/a', { headers: { authorization: plain.credential } })).status, 200)
  t.equal(
    (await gateway.send('GET', '/own/a', { headers: { 'payment-authorization': own.credential } })).status,
    200,
    'none of it has spent the payment'
  )
})

t.test('refusals in the field have the names of the draft', async t => {
  const clock = new ManualClock()
  const { gateway } = await open(t, clock)
  const own = await buy(gateway, '/own/a', { authorization: OWN })
  const refusals: ReadonlyArray<readonly [string, string]> = [
    ['Payment !', 'malformed-credential'],
    ['Payment e30', 'malformed-credential'],
    ['Bearer x', 'malformed-credential'],
    ['L402 a:b', 'malformed-credential'],
    [tokenOf(own.challenge, { preimage: 'x' }), 'invalid-payload'],
    [tokenOf(own.challenge, { preimage: '0'.repeat(64) }), 'verification-failed'],
    [tokenOf({ ...own.challenge, id: 'x' }, own), 'invalid-challenge']
  ]
  for (const [value, slug] of refusals) {
    const answer = await gateway.send('GET', '/own/a', {
      headers: { authorization: OWN, 'payment-authorization': value }
    })
    t.equal(answer.status, 402, value)
    t.equal(problem(answer), slug, value)
    t.equal(selected(answer), 'Payment-Authorization', 'with a fresh challenge')
  }
  clock.advance(601_000)
  const send = () => gateway.send('GET', '/own/a', { headers: { 'payment-authorization': own.credential } })
  // The clock closed idle connections, one of which may be taken first.
  const late = await send().catch(send)
  t.equal(late.status, 402)
  t.equal(problem(late), 'payment-expired')
})

t.test('two credentials are 400, in whatever fields', async t => {
  const { gateway, upstream } = await open(t)
  const own = await buy(gateway, '/own/a', { authorization: OWN })
  const plain = await buy(gateway, '/own/a', {})
  for (const authorization of [plain.credential, 'L402 a:b', `Payment method="lightning", preimage="${own.preimage}"`])
    t.equal(
      (await gateway.send('GET', '/own/a', { headers: { authorization, 'payment-authorization': own.credential } }))
        .status,
      400
    )
  t.equal(upstream.requests.length, 0)
})

t.test('a key to a balance is valid repeatedly in its field', async t => {
  const { gateway, upstream } = await open(t)
  const { credential, challenge } = await buy(gateway, '/balance/a', { authorization: OWN })
  t.equal(challenge['header'], 'Payment-Authorization')
  for (let turn = 1; turn <= 3; turn++) {
    const headers = { authorization: OWN, 'payment-authorization': credential }
    t.equal((await gateway.send('GET', '/balance/a', { headers })).status, 200)
    t.equal(upstream.requests.length, turn)
  }
  t.equal((await gateway.send('GET', '/balance/a', { headers: { authorization: credential } })).status, 402)
})

t.test('other routes challenge as before, and keep the field from upstreams too', async t => {
  const { gateway, upstream } = await open(t)
  const { challenge, credential } = await buy(gateway, '/sold/a', { authorization: OWN })
  t.equal(challenge['header'], undefined)
  t.equal((await gateway.send('GET', '/sold/a', { headers: { authorization: credential } })).status, 200)
  t.same(sent(upstream.requests.at(-1), 'payment-authorization'), [])
})
