import { createServer } from 'node:http'
import t from 'tap'
import { BROWSER_ACCEPT } from '../../selling/challenges/paywall-browser.ts'
import { defaultYaml, startGateway } from '../../support/gateway.ts'
import { serve } from '../../support/serve.ts'

const browser = { headers: { accept: BROWSER_ACCEPT } }

t.test('the front page shows people what is sold, and returns the manifest to programs that ask for JSON', async t => {
  const gateway = await startGateway(t, {
    yaml: defaultYaml({
      replace: [
        ['mode: development', 'pages: { colour: "#1d4ed8" }\ndiscovery: { name: "Ada & <Co>" }\nmode: development']
      ]
    })
  })
  const page = await gateway.send('GET', '/', browser)
  t.equal(page.status, 200)
  t.equal(page.headers['content-type'], 'text/html; charset=utf-8')
  t.match(page.headers['vary'], /Accept/)
  t.equal(page.headers['x-robots-tag'], undefined, 'it may be found')
  t.match(page.text, 'Ada &amp; &lt;Co>')
  t.match(page.text, '--accent:#1d4ed8')
  for (const text of [
    'A quote about money',
    '10 sats',
    '<a href="demo/charge">/demo/charge</a>',
    'llms.txt',
    'openapi.json',
    'storefront/demo',
    '<a href="sign-in">Sign in</a>'
  ])
    t.match(page.text, text)
  t.ok(Buffer.byteLength(page.text) < 60_000)
  t.notMatch(page.text, /(?:src|href)="(?:https?:)?\/\//)
  const anything = await gateway.send('GET', '/')
  t.match(anything.headers['content-type'], /html/)
  const json = await gateway.send('GET', '/', { headers: { accept: 'application/json' } })
  t.equal(json.status, 200)
  t.same(json.json(), (await gateway.send('GET', '/.well-known/l402.json')).json())
})

t.test('pages.home turns it off or leads elsewhere', async t => {
  const yaml = (home: string) =>
    defaultYaml({ replace: [['mode: development', `pages: { home: ${home} }\nmode: development`]] })
  const gateway = await startGateway(t, { yaml: yaml('false') })
  t.equal((await gateway.send('GET', '/', browser)).status, 404)
  await gateway.reload(yaml('"https://example.com/shop"'))
  const unavailable = await gateway.send('GET', '/', browser)
  t.equal(unavailable.status, 302)
  t.equal(unavailable.headers['location'], 'https://example.com/shop')
  await t.rejects(gateway.reload(yaml('"javascript:alert(1)"')), /home/)
})

t.test('a route of the file for everything keeps its own front page, at any host or at one', async t => {
  const site = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end('their own')
  })
  const port = await serve(t, site)
  // It listens on a port, so its address is not a path.
  const url = `http://127.0.0.1:${port}`
  const catchAll = '  - match: { path: /* }\n    chain: public\n    upstream: { internal: api }\n'
  const everywhere = await startGateway(t, {
    yaml: defaultYaml({
      replace: [[catchAll, `  - match: { path: /* }\n    chain: public\n    upstream: { url: "${url}" }\n`]]
    })
  })
  t.equal((await everywhere.send('GET', '/', browser)).text, 'their own')
  t.equal((await everywhere.send('GET', '/health')).status, 200)
  const atOne = await startGateway(t, {
    yaml: defaultYaml({
      replace: [
        [
          catchAll,
          `  - match: { host: site.example, path: /* }\n    chain: public\n    upstream: { url: "${url}" }\n${catchAll}`
        ]
      ]
    })
  })
  t.equal((await atOne.send('GET', '/', { headers: { ...browser.headers, host: 'site.example' } })).text, 'their own')
  t.match((await atOne.send('GET', '/', browser)).headers['content-type'], /html/)
})
