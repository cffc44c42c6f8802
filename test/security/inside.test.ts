import t from 'tap'
import { defaultYaml, startGateway } from '../support/gateway.ts'
import { RawClient } from '../support/raw-client.ts'
import { countingUpstream, openShop, shopYaml } from './shop.ts'

t.test("no spelling of an inner address becomes a proxy's target, nor is called from an existing row", async t => {
  const shop = await openShop(t)
  const { gateway, upstream } = shop
  const proxy = await shop.proxy({ defaultPriceSats: 0 })
  const hosts = [
    '10.0.0.1',
    '167772161',
    '012.0.0.1',
    '0x0a.0.0.1',
    '0xa000001',
    '10.1',
    '192.168.0.1',
    '172.16.0.1',
    '169.254.169.254',
    '2852039166',
    '0xa9fea9fe',
    '0251.0376.0251.0376',
    '100.64.0.1',
    '0.0.0.0',
    '0',
    '224.0.0.1',
    '255.255.255.255',
    '8.8.8.8',
    '134744072',
    '[::ffff:10.0.0.1]',
    '[::ffff:a00:1]',
    '[::10.0.0.1]',
    '[64:ff9b::a00:1]',
    '[fe80::1]',
    '[fc00::1]',
    '[::]',
    '[2002:a00:1::]',
    'localhost.',
    '127.0.0.1.nip.local',
    'metadata.google.internal',
    'metadata.google.internal.',
    'api.example.com.',
    'intranet',
    'a.localhost',
    '\u{ff11}\u{ff10}.0.0.1',
    '10\u{3002}0\u{3002}0\u{3002}1',
    '169.254.169.254:443',
    'user@10.0.0.1',
    'api.example.com@10.0.0.1',
    '10.0.0.1\\@api.example.com',
    '10.0.0.1%2f@api.example.com'
  ]
  for (const host of hosts) {
    const targetBaseUrl = `https://${host}/v1`
    for (const [name, answer] of [
      ['create', await gateway.merchantSend('POST', '/api/proxy', { name: 'X', targetBaseUrl, defaultPriceSats: 0 })],
      ['update', await gateway.merchantSend('PUT', `/api/proxy/${proxy.id}`, { targetBaseUrl })]
    ] as const)
      t.equal(answer.status, 400, `${name} ${host}: ${answer.text.slice(0, 100)}`)
  }
  for (const scheme of [
    'file:///etc/passwd',
    'gopher://127.0.0.1:70/',
    'ftp://example.com/',
    'http://example.com/',
    'https:example.com',
    '//example.com',
    'http://127.0.0.1:22',
    'http://127.0.0.1:6379',
    'https://example.com:22',
    'https://example.com/?a=b',
    'https://example.com/#a',
    'https://example.com/\r\nX: y',
    ' https://example.com',
    'javascript:1'
  ]) {
    t.equal(
      (await gateway.merchantSend('POST', '/api/proxy', { name: 'X', targetBaseUrl: scheme, defaultPriceSats: 0 }))
        .status,
      400,
      scheme
    )
  }
  t.equal((await gateway.send('GET', `${proxy.path}/ok`)).status, 200, 'the proxy is unchanged')
  const before = upstream.hits.length
  for (const host of ['10.0.0.1', '[::ffff:10.0.0.1]', '169.254.169.254', '[fe80::1]', '0.0.0.0', 'x.internal']) {
    const fresh = await shop.proxy({ defaultPriceSats: 0 })
    await gateway.database.sql`update proxies set target_base_url = ${`https://${host}`} where proxy_id = ${fresh.id}`
    const answer = await gateway.send('GET', `${fresh.path}/x`)
    t.equal(answer.status, 502, `${host}: ${answer.text}`)
    t.notMatch(answer.text, /10\.0\.0\.1|169\.254|fe80|0\.0\.0\.0/, 'the response reveals no address')
    t.equal((await gateway.merchantSend('DELETE', `/api/proxy/${fresh.id}`)).status, 204)
  }
  t.equal(upstream.hits.length, before)
})

t.test('a redirect of an upstream is passed on, never followed', async t => {
  const secret = await countingUpstream(t, (_req, res) => {
    res.end('inner')
  })
  const upstream = await countingUpstream(t, (_req, res) => {
    res.writeHead(302, { location: `${secret.origin}/latest/meta-data` }).end()
  })
  const shop = await openShop(t, { upstream })
  const proxy = await shop.proxy({ defaultPriceSats: 0 })
  const answer = await shop.gateway.send('GET', `${proxy.path}/a`)
  t.equal(answer.status, 302)
  t.notMatch(answer.text, 'inner')
  t.same(secret.hits, [])
})

t.test("a merchant's text cannot become a header line of its own, or one of the gateway's", async t => {
  const shop = await openShop(t)
  const { gateway, upstream } = shop
  const make = (more: object) =>
    gateway.merchantSend('POST', '/api/proxy', {
      name: 'X',
      targetBaseUrl: upstream.origin,
      defaultPriceSats: 0,
      ...more
    })
  for (const authValue of [
    'a\r\nX-Evil: 1',
    'a\nX-Evil: 1',
    'a\rb',
    'a\0b',
    'a\u0085b',
    'a\u{10a}b',
    '\u{560a}b',
    'a\tb'
  ]) {
    t.equal((await make({ authHeader: 'X-Key', authValue })).status, 400, JSON.stringify(authValue))
  }
  for (const authHeader of [
    'X-Key: a\r\nX-Evil',
    'X Key',
    'X-Key:',
    '',
    'X-K\u00e9y',
    'Host',
    'Content-Length',
    'Transfer-Encoding',
    'Connection',
    'Upgrade',
    'TE',
    'Expect',
    'Keep-Alive',
    'Trailer',
    'Proxy-Connection'
  ]) {
    const answer = await make({ authHeader, authValue: 'a' })
    t.equal(answer.status, 400, `${authHeader}: ${answer.text.slice(0, 120)}`)
    if (answer.status === 201)
      await gateway.merchantSend('DELETE', `/api/proxy/${(answer.json() as { proxyId: string }).proxyId}`)
  }
  for (const name of ['a\r\nX-Evil: 1', 'a\0']) t.equal((await make({ name })).status, 400, JSON.stringify(name))
  t.same(upstream.hits, [])
})

t.test("no spelling of a path is served for another one's price or past a refusal", async t => {
  const shop = await openShop(t)
  const { gateway, upstream } = shop
  const proxy = await shop.proxy({
    endpoints: [{ pathPattern: '/free/*', priceSats: 0 }],
    blockedPaths: ['/admin/*', '/admin']
  })
  t.equal((await gateway.send('GET', `${proxy.path}/free/a`)).status, 200)
  t.equal((await gateway.send('GET', `${proxy.path}/admin/a`)).status, 403)
  const before = upstream.hits.length
  const rests = [
    '/free/../paid',
    '/free/..',
    '/free/../../../../api/proxy',
    '/free/..%2fpaid',
    '/free/..%2Fpaid',
    '/free%2f..%2fpaid',
    '/free/%2e%2e/paid',
    '/free/%2e%2e%2fpaid',
    '/free/.%2e/paid',
    '/free/%2E./paid',
    '/free/..%5cpaid',
    '/free/..\\paid',
    '/free\\..\\paid',
    '/free/%2e%2e%5cpaid',
    '/free/./../paid',
    '/free//../paid',
    '/free/..;/paid',
    '/free/..;a=b/paid',
    '/free/%2e%2e;/paid',
    '/free/..%00/paid',
    '/free/..%3bx/paid',
    '/free/%252e%252e/paid',
    '/free/..%252fpaid',
    '/x/..%2fadmin/a',
    '/./admin/a',
    '//admin/a',
    '/%61dmin/a',
    '/admin%2fa',
    '/admin/%2e/a',
    '/x/../admin/a',
    '/x/%2e%2e/admin/a',
    '/admin;x/a',
    '/\\admin/a',
    '/free/..#/paid'
  ]
  const served: string[] = []
  for (const rest of rests) {
    const was = upstream.hits.length
    const answer = await shop.alone('GET', `${proxy.path}${rest}`)
    t.ok([400, 402, 403, 404].includes(answer.status) || rest.includes('%25'), `${rest}: ${answer.status}`)
    if (upstream.hits.length > was) served.push(rest)
  }
  // Escaped twice is plain text to a server that decodes once; no server may decode twice (RFC 3986 2.4).
  t.same(
    served.filter(rest => !rest.includes('%25')),
    [],
    'no request reached the upstream'
  )
  t.equal(upstream.hits.length - before, served.length)
  for (const target of [
    `${upstream.origin}/x`,
    `http://127.0.0.1:${upstream.port}${proxy.path}/admin/a`,
    `${proxy.path}/../../../api/proxy`,
    '*',
    'x',
    `/l402/proxy/..%2f${proxy.id}/free/a`,
    `/l402/proxy/./${proxy.id}/admin/a`,
    `/l402//proxy/${proxy.id}/free/a`
  ]) {
    const was = upstream.hits.length
    const answer = await shop.alone('GET', target)
    t.ok(answer.status >= 400, `${target}: ${answer.status}`)
    t.equal(upstream.hits.length, was, target)
  }
})

t.test('nothing is smuggled past the gateway to an upstream that keeps its connections', async t => {
  const upstream = await countingUpstream(t)
  const shop = await openShop(t, {
    upstream,
    yaml: shopYaml(upstream.origin, {
      route: `  - { match: { path: /free/* }, chain: public, upstream: { url: "${upstream.origin}" } }\n`
    })
  })
  const port = Number(new URL(shop.gateway.url).port)
  const inner = 'GET /paid/smuggled HTTP/1.1\r\nHost: x\r\n\r\n'
  const shapes: ReadonlyArray<readonly [name: string, head: readonly string[], body: string]> = [
    ['both lengths', [`Content-Length: ${inner.length + 5}`, 'Transfer-Encoding: chunked'], `0\r\n\r\n${inner}`],
    ['two lengths', ['Content-Length: 0', `Content-Length: ${inner.length}`], inner],
    ['a list of lengths', [`Content-Length: 0, ${inner.length}`], inner],
    ['a signed length', ['Content-Length: +0'], inner],
    ['a hexadecimal length', ['Content-Length: 0x0'], inner],
    ['a coding in disguise', ['Transfer-Encoding: xchunked', 'Content-Length: 0'], inner],
    ['a coding twice', ['Transfer-Encoding: chunked', 'Transfer-Encoding: identity'], `0\r\n\r\n${inner}`],
    ['a coding with a tab', ['Transfer-Encoding:\tchunked', 'Content-Length: 5'], `0\r\n\r\n${inner}`],
    ['a name with a space', ['Transfer-Encoding : chunked', `Content-Length: ${inner.length}`], inner],
    ['a folded line', ['X: y', ' Transfer-Encoding: chunked', `Content-Length: ${inner.length}`], inner],
    ['a bare line feed', ['X: y\nTransfer-Encoding: chunked', `Content-Length: ${inner.length}`], inner],
    ['a bare carriage return', ['X: y\rTransfer-Encoding: chunked', `Content-Length: ${inner.length}`], inner],
    ['a chunk size with an extension that hides a line', ['Transfer-Encoding: chunked'], `0;\n${inner}\r\n\r\n`],
    ['a negative chunk', ['Transfer-Encoding: chunked'], `-1\r\n${inner}`],
    ['a length that Connection removes', ['Connection: content-length', `Content-Length: ${inner.length}`], inner]
  ]
  for (const [name, head, body] of shapes) {
    await t.test(name, async t => {
      const client = await RawClient.connect(port)
      client.send(`POST /free/a HTTP/1.1\r\nHost: x\r\n${head.join('\r\n')}\r\n\r\n${body}`)
      const first = await client.response('POST').catch(() => null)
      t.ok(first === null || first.status >= 200)
      client.socket.end()
      await client.ending()
      client.close()
      // On the kept connection anything left over would come before this.
      t.equal((await shop.gateway.send('GET', '/free/after')).text, 'sold')
      t.notOk(
        upstream.hits.some(hit => hit.includes('smuggled')),
        'the inner request did not arrive'
      )
      t.equal(upstream.hits.at(-1), 'GET /free/after')
    })
  }
})

t.test('catch-all routes: operations that need a caller are 404 where no chain authenticates', async t => {
  const use = 'use: [ service, sandbox, merchant-api, operator-api, storefront, pages ]'
  const gateway = await startGateway(t, {
    yaml: defaultYaml({ replace: [[use, 'use: [ service ]']] }),
    documented: false
  })
  for (const path of ['/console', '/operator', '/api/payments', '/api/merchant/me', '/api/admin/merchants'])
    t.equal((await gateway.send('GET', path)).status, 404, path)
})
