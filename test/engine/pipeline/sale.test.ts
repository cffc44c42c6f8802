import t from 'tap'
import { defaultYaml, startGateway } from '../../support/gateway.ts'
import { testServices } from '../../support/plugin-harness.ts'
import { RawUpstream } from '../../support/raw-upstream.ts'

t.test('nothing priced reaches an upstream without payment, whatever the chain before it did', async t => {
  const upstream = await RawUpstream.serve('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok').listen()
  t.teardown(() => upstream.close())
  const { log, lines } = testServices()
  const url = `upstream: { url: "${upstream.origin}" }`
  const gateway = await startGateway(t, {
    log,
    documented: false,
    yaml: defaultYaml({
      replace: [
        [
          'chains:\n',
          `chains:
  forgets: [ correlation, { throttle: { policy: global } }, ./test/engine/pipeline/forgetful-plugin.ts ]
  forgets-proxies: [ { throttle: { policy: global } }, proxy, ./test/engine/pipeline/forgetful-plugin.ts ]
  watches: [ { throttle: { policy: global } }, credential, { challenge: {}, mode: observe } ]
`
        ],
        ['chain: paid\n    upstream: { internal: demo }', 'chain: forgets\n    upstream: { internal: demo }'],
        [
          'routes:\n',
          `routes:
  - { match: { path: /priced/* }, price: 21 sats, chain: forgets, ${url} }
  - { match: { path: /plain/* }, chain: forgets, ${url} }
  - { match: { path: [ /l402/proxy/:proxyId, /l402/proxy/:proxyId/* ] }, chain: forgets-proxies, upstream: { proxy: ":proxyId" } }
  - { match: { path: /watched/* }, price: 21 sats, chain: watches, ${url} }
`
        ]
      ]
    })
  })
  const status = async (path: string) => (await gateway.send('GET', path)).status

  t.equal(await status('/priced/a'), 500)
  t.equal(upstream.requests.length, 0)
  const { fields } = lines.find(line => line.message === 'request failed') ?? {}
  t.match(
    String((fields?.['err'] as Error | undefined)?.cause),
    /the chain "forgets" of the route "\* \/priced\/\*" let a request through that costs 21 sats and was not paid for; nothing was sent on/
  )
  t.equal(await status('/priced/a?do=price'), 500)
  t.equal(await status('/plain/a?do=price'), 500, 'a price that a plugin named counts as one of the route')
  t.equal(await status('/demo/quote'), 500, 'operations of the gateway itself are held back too')
  t.equal(upstream.requests.length, 0)

  t.equal(await status('/priced/a?do=paid'), 200)
  t.equal(await status('/priced/a?do=free'), 200, 'a plugin may make a request free')
  t.equal(await status('/plain/a'), 200)
  t.equal(await status('/watched/a'), 200, 'a chain that only observes serves on purpose')
  t.equal(upstream.requests.length, 4)

  const key = { primaryApiKey: 'sandbox-key' }
  await gateway.merchantSend('PUT', '/api/merchant/primary-key', key)
  const created = await gateway.merchantSend('POST', '/api/proxy', {
    name: 'mine',
    targetBaseUrl: upstream.origin,
    defaultPriceSats: 10,
    endpoints: [{ pathPattern: '/free', priceSats: 0 }]
  })
  t.equal(created.status, 201, created.text)
  const { proxyId } = created.json() as { proxyId: string }
  t.equal(await status(`/l402/proxy/${proxyId}/dear`), 500)
  t.equal(upstream.requests.length, 4)
  t.equal(await status(`/l402/proxy/${proxyId}/free`), 200, 'a free path of a proxy costs nothing')
})
