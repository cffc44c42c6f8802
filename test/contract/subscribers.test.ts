/** The plugin api-key in a whole gateway: subscribers pass, others pay. */
import { createHash } from 'node:crypto'
import t from 'tap'
import { buy, defaultYaml, startGateway } from '../support/gateway.ts'
import { RawUpstream } from '../support/raw-upstream.ts'

const KEY = 'sk_0123456789abcdef0123456789abcdef'
const SHA256 = createHash('sha256').update(KEY).digest('hex')

t.test('subscribers pass without a payment, everybody else gets a 402, and no key reaches the upstream', async t => {
  const upstream = await RawUpstream.serve('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok').listen()
  t.teardown(() => upstream.close())
  const gateway = await startGateway(t, {
    yaml: defaultYaml({
      replace: [
        [
          'chains:\n',
          `chains:
  subscribed: [ { api-key: { keys: [ { name: alice, sha256: "${SHA256}" } ] } }, { throttle: { policy: few } }, body-limit, session, credential, challenge, meter ]
`
        ],
        ['policies:\n', 'policies:\n  few: { limit: 5, window: 60s }\n'],
        [
          'routes:\n',
          `routes:
  - { match: { path: /sold/* }, price: 21 sats, chain: subscribed, upstream: { url: "${upstream.origin}" } }
  - { match: { path: /balance/* }, chain: subscribed, keys: true, meter: { unit: call, bundle: 100 sats, prices: 1000 msat }, upstream: { url: "${upstream.origin}" } }
`
        ]
      ]
    })
  })
  const subscriber = { authorization: `Bearer ${KEY}` }
  for (const path of ['/sold/a', '/balance/a']) {
    t.equal((await gateway.send('GET', path, { headers: subscriber })).status, 200, path)
    t.notMatch(upstream.requests.at(-1)?.head, /authorization/i)
    const served = upstream.requests.length
    t.equal((await gateway.send('GET', path, { headers: { authorization: `Bearer ${KEY}x` } })).status, 401)
    t.equal((await gateway.send('GET', path)).status, 402)
    t.equal(upstream.requests.length, served)
  }
  const authorization = await buy(gateway, '/sold/b')
  t.equal((await gateway.send('GET', '/sold/b', { headers: { authorization } })).status, 200)
  for (let turn = 0; turn < 3; turn++)
    t.equal((await gateway.send('GET', '/sold/a', { headers: subscriber })).status, 200)
  t.equal((await gateway.send('GET', '/sold/a', { headers: subscriber })).status, 429, 'counted by the subscriber')
})

t.test('a chain in which the key comes too late does not load', async t => {
  const yaml = defaultYaml({
    replace: [
      [
        'chains:\n',
        `chains:\n  late: [ { throttle: {} }, body-limit, credential, challenge, { api-key: { keys: [ { name: a, sha256: "${SHA256}" } ] } } ]\n`
      ],
      [
        'routes:\n',
        'routes:\n  - { match: { path: /late }, price: 1 sat, chain: late, upstream: { url: "http://127.0.0.1:9" } }\n'
      ]
    ]
  })
  await t.rejects(startGateway(t, { yaml }), /api-key/)
})
