import t from 'tap'
import { defaultYaml, startGateway } from '../support/gateway.ts'
import { testServices } from '../support/plugin-harness.ts'
import { RawUpstream } from '../support/raw-upstream.ts'

t.test('payment that is only observed decides, logs and counts, and makes no invoice', async t => {
  const upstream = await RawUpstream.serve('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok').listen()
  t.teardown(() => upstream.close())
  const { log, lines } = testServices()
  const gateway = await startGateway(t, {
    log,
    documented: false,
    yaml: defaultYaml({
      replace: [
        [
          'chains:\n',
          'chains:\n  watches: [ { throttle: { policy: global } }, { credential: {}, mode: observe }, { challenge: {}, mode: observe } ]\n'
        ],
        [
          'routes:\n',
          `routes:\n  - { match: { path: /watched/* }, price: 21 sats, chain: watches, upstream: { url: "${upstream.origin}" } }\n`
        ]
      ]
    })
  })
  const payment = Buffer.from(
    JSON.stringify({
      challenge: { id: 'x', realm: 'r', method: 'lightning', intent: 'charge', request: 'e30' },
      payload: { preimage: '0'.repeat(64) }
    })
  )
  for (let time = 0; time < 5; time++) t.equal((await gateway.send('GET', `/watched/a?n=${time}`)).status, 200)
  t.equal(
    (
      await gateway.send('GET', '/watched/a', {
        headers: { authorization: `Payment ${payment.toString('base64url')}` }
      })
    ).status,
    200
  )
  t.equal(
    (await gateway.send('GET', '/watched/a', { headers: { authorization: `L402 AAAA:${'0'.repeat(63)}x` } })).status,
    200
  )
  t.equal(upstream.requests.length, 7)
  const would = lines
    .map(line => /would have answered (\d+)/.exec(line.message)?.[1])
    .filter(status => status !== undefined)
  t.same(would, ['402', '402', '402', '402', '402', '402', '402', '400', '402'])
  const metrics = (await gateway.send('GET', '/metrics')).text
  t.match(metrics, /boltgate_challenges_observed_total\{source="route"\} 8\n/)
  t.notMatch(metrics, /boltgate_challenges_total\{/, 'no challenge was made')
})

t.test('free calls that are only observed are left out of what it would earn, and change no response', async t => {
  const upstream = await RawUpstream.serve(
    'HTTP/1.1 200 OK\r\nCache-Control: public\r\nContent-Length: 2\r\n\r\nok'
  ).listen()
  t.teardown(() => upstream.close())
  const gateway = await startGateway(t, {
    yaml: defaultYaml({
      replace: [
        [
          'chains:\n',
          'chains:\n  watches: [ { throttle: { policy: global } }, { credential: {}, mode: observe }, { challenge: {}, mode: observe } ]\n'
        ],
        [
          'routes:\n',
          `routes:\n  - { match: { path: /watched/* }, price: 21 sats, free: { calls: 2, per: 1d }, chain: watches, upstream: { url: "${upstream.origin}" } }\n`
        ]
      ]
    })
  })
  for (let time = 0; time < 3; time++) {
    const { headers } = await gateway.send('GET', '/watched/a')
    t.equal(headers['cache-control'], 'public')
    t.notOk('x-free-calls-remaining' in headers)
  }
  t.match((await gateway.send('GET', '/metrics')).text, /boltgate_challenges_observed_total\{source="route"\} 1\n/)
})
