import t from 'tap'
import { buy, defaultYaml, startGateway } from '../support/gateway.ts'
import { RawUpstream, type RawRequest } from '../support/raw-upstream.ts'

/** Values of a header in a request as it came to the upstream. */
function sent(request: RawRequest | undefined, name: string) {
  return (request?.head ?? '')
    .split('\r\n')
    .flatMap(line => (line.toLowerCase().startsWith(`${name}: `) ? [line.slice(name.length + 2)] : []))
}

t.test("an operator's upstream learns what was paid and never the caller's key", async t => {
  const upstream = await RawUpstream.serve('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok').listen()
  t.teardown(() => upstream.close())
  const gateway = await startGateway(t, {
    yaml: defaultYaml({
      replace: [
        ['chains:\n', 'chains:\n  keyed: [ { auth: { as: merchant } }, { throttle: { policy: global } } ]\n'],
        [
          'routes:\n',
          `routes:
  - { match: { path: /sold/* }, price: 21 sats, chain: paid, upstream: { url: "${upstream.origin}" } }
  - { match: { path: /keyed/* }, chain: keyed, upstream: { url: "${upstream.origin}" } }
  - { match: { path: /open/* }, chain: public, upstream: { url: "${upstream.origin}" } }
`
        ]
      ]
    })
  })
  const forged = { 'x-l402-payment-hash': 'forged', 'x-l402-amount-sats': '1000', 'x-l402-scheme': 'forged' }
  for (const scheme of ['l402', 'payment'] as const) {
    const authorization = await buy(gateway, '/sold/a', scheme)
    t.equal((await gateway.send('GET', '/sold/a', { headers: { authorization, ...forged } })).status, 200)
    const request = upstream.requests.at(-1)
    t.match(sent(request, 'x-l402-payment-hash').join(), /^[0-9a-f]{64}$/)
    t.same(sent(request, 'x-l402-amount-sats'), ['21'])
    t.same(sent(request, 'x-l402-scheme'), [scheme])
    t.same(sent(request, 'authorization'), [], 'the credential itself stays here')
  }
  await gateway.send('GET', '/open/a', { headers: { ...forged, 'x-api-key': 'a key of the upstream itself' } })
  for (const name of Object.keys(forged)) t.same(sent(upstream.requests.at(-1), name), [], name)
  t.same(
    sent(upstream.requests.at(-1), 'x-api-key'),
    ['a key of the upstream itself'],
    'a key outside the scheme is passed to the upstream'
  )
  t.equal((await gateway.merchantSend('GET', '/keyed/a')).status, 200)
  t.same(sent(upstream.requests.at(-1), 'x-api-key'), [])
})
