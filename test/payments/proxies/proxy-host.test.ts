import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { defaultYaml, loadText, startGateway, paidFor } from '../../support/gateway.ts'

const yaml = defaultYaml({ replace: [['  publicUrl:', '  proxyUrl: "http://apis.localhost:8081"\n  publicUrl:']] })

t.test('server.proxyUrl: its host serves proxies and nothing else, and no other host serves them', async t => {
  const seen: string[] = []
  const upstream = createServer((request, response) => {
    seen.push(request.url ?? '')
    response.end('sold')
  }).listen(0, '127.0.0.1')
  await new Promise(resolve => upstream.once('listening', resolve))
  t.teardown(() => {
    upstream.closeAllConnections()
    upstream.close()
  })
  // The document describes the main host.
  const gateway = await startGateway(t, { yaml, documented: false })
  const created = await gateway.merchantSend('POST', '/api/proxy', {
    name: 'Letters',
    // A server that listens on a port has an AddressInfo.
    targetBaseUrl: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`,
    defaultPriceSats: 5
  })
  const { proxyId, proxyUrl } = created.json() as { proxyId: string; proxyUrl: string }
  t.equal(proxyUrl, `http://apis.localhost:8081/l402/proxy/${proxyId}/`)
  const path = `/l402/proxy/${proxyId}/a?b=1`

  for (const host of ['apis.localhost', 'APIS.localhost:8081', 'apis.localhost.']) {
    t.equal((await gateway.send('GET', path, { headers: { host } })).status, 402, host)
    for (const own of [
      '/',
      '/health',
      '/console',
      '/operator',
      '/sign-in',
      '/api/merchant/me',
      '/openapi.json',
      '/demo/quote'
    ]) {
      const answer = await gateway.send('GET', own, { headers: { host, 'x-api-key': gateway.merchant.apiKey } })
      t.equal(answer.status, 404, `${host}${own}`)
    }
    t.equal((await gateway.send('POST', '/sign-in/key', { headers: { host }, body: 'key=x' })).status, 404)
    t.equal((await gateway.send('OPTIONS', '/api/proxy', { headers: { host } })).status, 404)
  }

  for (const method of ['GET', 'POST', 'HEAD'])
    for (const headers of [{}, { authorization: 'Basic eDp5' }]) {
      const moved = await gateway.send(method, path, { headers })
      t.equal(moved.status, 308)
      t.equal(moved.headers['location'], `http://apis.localhost:8081${path}`)
      t.equal(moved.headers['cache-control'], 'no-store')
    }
  t.same(seen, [], 'nothing reached the upstream')

  const authorization = await paidFor(gateway, await gateway.send('GET', path, { headers: { host: 'apis.localhost' } }))
  for (const host of ['apis.localhost', 'pay.localhost'])
    t.equal((await gateway.send('GET', path, { headers: { host, authorization } })).text, 'sold', `a token at ${host}`)

  const forwarded = { host: '10.0.0.7:8080', 'x-forwarded-host': 'APIS.localhost:8081' }
  t.equal((await gateway.send('GET', path, { headers: forwarded })).status, 402, 'a proxy in front replaced Host')

  seen.length = 0
  const free = await gateway.merchantSend('POST', '/api/proxy', {
    name: 'Free letters',
    targetBaseUrl: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`,
    defaultPriceSats: 0
  })
  const freePath = `/l402/proxy/${(free.json() as { proxyId: string }).proxyId}/a`
  for (const invented of ['L402 a:b', 'Payment e30']) {
    const moved = await gateway.send('GET', freePath, { headers: { authorization: invented } })
    t.equal(moved.status, 308, 'a credential buys nothing at a free proxy')
  }
  t.same(seen, [])
})

t.test('server.proxyUrl: must have a host of its own', async t => {
  const text = (proxyUrl: string) =>
    `routes: []\nserver: { publicUrl: "https://pay.example", proxyUrl: "${proxyUrl}" }\n`
  t.equal((await loadText(text('https://apis.example/'), {})).config.server.proxyUrl, 'https://apis.example')
  await t.rejects(loadText(text('https://pay.example:8443'), {}), /found the host of publicUrl, pay.example/)
  await t.rejects(loadText(text('apis.example'), {}), /proxyUrl/)
})
