import t from 'tap'
import { buy } from '../support/gateway.ts'
import { countingUpstream, openShop, shopYaml } from '../security/shop.ts'

t.test('octets that a database cannot hold never cause a 500', async t => {
  const upstream = await countingUpstream(t)
  const route = `  - match: { path: /whole/* }\n    price: 7 sats\n    tokenPath: pattern\n    chain: paid\n    upstream: { url: "${upstream.origin}" }\n`
  const shop = await openShop(t, { upstream, yaml: shopYaml(upstream.origin, { route }) })
  const proxy = await shop.proxy()
  const sold: Array<[name: string, path: string]> = [
    ['an encoded NUL in a route', '/paid/%00?%00'],
    ['in a route whose pattern is sold', '/whole/%00'],
    ['with an encoded letter before it', '/w%68ole/%00'],
    ['in a proxy', `${proxy.path}/%00`],
    ['octets that are not UTF-8', `${proxy.path}/%ff%fe`],
    ['a path of nothing but escapes', '/paid/%F0%9F%98%80']
  ]
  for (const [name, path] of sold) {
    t.equal((await shop.gateway.send('GET', path)).status, 402, name)
    const token = await buy(shop.gateway, path)
    t.equal((await shop.gateway.send('GET', path, { headers: { authorization: token } })).status, 200, `${name}: sold`)
    t.equal(
      shop.upstream.hits.at(-1),
      `GET ${path.startsWith('/l402') ? path.slice(proxy.path.length) : path}`,
      `${name}: the very bytes go upstream`
    )
  }
  for (const path of [
    '/l402/proxy/%00/a',
    '/l402/proxy/a%00b/a',
    '/l402/proxy/%FF/a',
    `/l402/proxy/${'x'.repeat(3000)}/a`,
    '/l402/proxy/constructor/a',
    '/l402/proxy/__proto__/a'
  ]) {
    t.equal((await shop.gateway.send('GET', path)).status, 404, path.slice(0, 60))
  }
  for (const [method, path] of [
    ['GET', '/api/proxy/%00'],
    ['DELETE', '/api/proxy/%00'],
    ['POST', '/api/proxy/a%00b/test'],
    ['GET', '/api/proxy/' + 'x'.repeat(65)],
    ['GET', '/api/l402/challenges/%00']
  ] as const) {
    t.equal((await shop.gateway.merchantSend(method, path)).status, 404, `${method} ${path}`)
  }
  const good = { name: 'n', targetBaseUrl: upstream.origin, defaultPriceSats: 1 }
  const bodies: object[] = [
    { ...good, name: 'a\0b' },
    { ...good, description: 'a\0b' },
    { ...good, endpoints: [{ pathPattern: '/a', priceSats: 1, description: 'a\0b' }] },
    { ...good, endpoints: [{ pathPattern: '/a\0', priceSats: 1 }] },
    { ...good, allowedPaths: ['/a\0'] }
  ]
  for (const body of bodies)
    t.equal((await shop.gateway.merchantSend('POST', '/api/proxy', body)).status, 400, JSON.stringify(body))
  for (const body of [{ name: 'a\0b' }, { description: 'a\0b' }])
    t.equal((await shop.gateway.merchantSend('PUT', `/api/proxy/${proxy.id}`, body)).status, 400, JSON.stringify(body))
  t.equal(
    (
      await shop.gateway.merchantSend('POST', '/api/l402/challenges', {
        resource: '/a',
        priceSats: 1,
        description: 'a\0b'
      })
    ).status,
    400,
    'a body that cannot be stored verbatim is refused'
  )
  t.equal((await shop.gateway.merchantSend('GET', '/api/l402/challenges?since=%00')).status, 400)
  t.match(
    (
      await shop.gateway.merchantSend('POST', '/api/l402/challenges/verify-credential', {
        credential: '\0',
        resource: '\0'
      })
    ).json(),
    { valid: false }
  )
})
