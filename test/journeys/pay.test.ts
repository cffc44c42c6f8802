import t from 'tap'
import { buy, challengeOf, startGateway } from '../support/gateway.ts'

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
