import t from 'tap'
import { buy, startGateway } from '../support/gateway.ts'

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
