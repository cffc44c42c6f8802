import { createServer } from 'node:http'
import t, { type Test as T } from 'tap'
import { challengeOf, credentialOf, defaultYaml, startGateway, type Answer } from '../../support/gateway.ts'
import { BROWSER_ACCEPT, invoiceOn, linesOf, Visitor } from '../challenges/paywall-browser.ts'
import { serve } from '../../support/serve.ts'

/** A site that says what reached it. */
async function startSite(t: T) {
  const seen: Array<{ readonly url: string; readonly headers: NodeJS.Dict<string | string[]> }> = []
  let status = 200
  let type = 'text/html; charset=utf-8'
  const server = createServer((request, response) => {
    seen.push({ url: request.url ?? '', headers: request.headers })
    response
      .writeHead(status, {
        'content-type': type,
        'set-cookie': ['theirs=1', 'boltgate-session=stolen', '__Host-boltgate-session=x; Path=/; Secure']
      })
      .end(`<h1>Article</h1>${request.url ?? ''}`)
  })
  const port = await serve(t, server)
  return {
    seen,
    // It listens on a port, so its address is not a path.
    url: `http://127.0.0.1:${port}`,
    answer: (next: { readonly status?: number; readonly type?: string }) => {
      status = next.status ?? status
      type = next.type ?? type
    }
  }
}

const withRoutes = (routes: string, replace: ReadonlyArray<readonly [string, string]> = []) =>
  defaultYaml({ replace: [['routes:\n', `routes:\n${routes}`], ...replace] })

/** A route in front of such a site, and a visitor of it. */
async function soldSite(t: T, path: string, terms: string, replace?: Parameters<typeof withRoutes>[1]) {
  const site = await startSite(t)
  const route = `  - match: { path: ${path} }\n    ${terms}\n    chain: paid\n    upstream: { url: "${site.url}" }\n`
  const gateway = await startGateway(t, { yaml: withRoutes(route, replace) })
  return { site, gateway, visitor: new Visitor(gateway) }
}

async function opened(t: T) {
  const gateway = await startGateway(t)
  const visitor = new Visitor(gateway)
  return { gateway, visitor, page: await visitor.open('/demo/quote') }
}

/** As it is sent, less what is another each time. */
const comparable = ({ status, headers, text }: Answer) => {
  const { date: _date, 'x-correlation-id': _id, 'www-authenticate': lines, ...others } = headers
  const json = JSON.parse(text) as Record<string, unknown>
  return {
    status,
    others,
    lines: Array.isArray(lines) ? lines.length : 1,
    members: Object.keys(json),
    error: json['error']
  }
}

t.test(
  'a client that does not prefer a page gets the same response as before, and a browser the same lines with a page',
  async t => {
    const gateway = await startGateway(t)
    const off = await startGateway(t, {
      yaml: defaultYaml({
        replace: [['credential, challenge, meter', 'credential, { challenge: { html: false } }, meter']]
      })
    })
    for (const accept of [
      undefined,
      '*/*',
      'application/json',
      'text/html, */*',
      'text/html;q=.5',
      'text/html;q=0',
      'text/event-stream'
    ]) {
      const headers = accept === undefined ? {} : { accept }
      const [here, there] = await Promise.all([gateway, off].map(each => each.send('GET', '/demo/quote', { headers })))
      if (here === undefined || there === undefined) throw new Error('unreachable')
      t.same(comparable(here), comparable(there), accept ?? 'none')
      t.equal(here.headers['set-cookie'], undefined)
      t.equal(here.headers['vary'], there.headers['vary'])
    }
    const page = await new Visitor(gateway).open('/demo/quote')
    t.equal(page.status, 402)
    t.equal(page.headers['content-type'], 'text/html; charset=utf-8')
    t.equal(page.headers['cache-control'], 'no-store')
    t.match(page.headers['vary'], /\bAccept\b/)
    t.same(
      linesOf(page, 'www-authenticate').map(line => line.split(' ')[0]),
      ['L402', 'Payment']
    )
    t.equal(challengeOf(page, 'l402').parameters.get('invoice'), invoiceOn(page), 'the invoice of the lines')
    t.match(
      page.headers['content-security-policy'],
      /^default-src 'none'; script-src 'sha256-[^ ]+'; style-src 'sha256-/
    )
    t.ok(Buffer.byteLength(page.text) < 60_000, `${Buffer.byteLength(page.text)} bytes`)
    t.notMatch(page.text, /(?:src|href)="(?:https?:)?\/\//, 'nothing of another host')
    const head = await new Visitor(gateway).open('/demo/quote', {}, 'HEAD')
    t.match(head, { status: 402, text: '', headers: { 'content-type': 'text/html; charset=utf-8' } })
    t.equal(linesOf(head, 'www-authenticate').length, 2)
    const answered = await new Visitor(off).open('/demo/quote')
    t.match(answered.headers['content-type'], /json/, 'html: false')
    // What says how it pays, sends a body or has shown a credential reads challenges.
    for (const more of [{ 'accept-payment': 'lightning/charge' }, { authorization: 'L402 x:y' }]) {
      const other = await new Visitor(gateway).open('/demo/quote', more as Record<string, string>)
      t.match(other.headers['content-type'], /json/)
    }
    const post = await gateway.send('POST', '/demo/echo', { headers: { accept: BROWSER_ACCEPT }, body: {} })
    t.match(post.headers['content-type'], /json/, 'a POST')
  }
)

t.test('only the client that paid on the page gets what was bought', async t => {
  const { gateway, visitor, page } = await opened(t)
  const [cookie = ''] = linesOf(page, 'set-cookie')
  t.match(
    cookie,
    /^boltgate-pass-[\w-]{12}=[\w-]{43}\.[\w-]{22}; Path=\/demo\/quote; Max-Age=(?:3600|3599); HttpOnly; SameSite=Strict$/
  )
  const invoice = invoiceOn(page)
  const again = await visitor.open('/demo/quote')
  t.equal(again.status, 402, 'not before it is paid')
  t.equal(invoiceOn(again), invoice, 'the same invoice, however often it is opened')
  t.match(again.text, 'Payment not received yet')
  await gateway.pay(invoice)
  for (const accept of [BROWSER_ACCEPT, '*/*', 'image/*']) {
    const bought = await visitor.open('/demo/quote', { accept })
    t.equal(bought.status, 200, accept)
    t.equal((bought.json() as { paidSats: number }).paidSats, 10)
    t.match(bought.headers['cache-control'], /private/)
    t.match(bought.headers['vary'], /Cookie/)
  }
  t.equal((await new Visitor(gateway).open('/demo/quote')).status, 402, 'another browser')
  t.equal((await visitor.open('/demo/charge')).status, 402, 'another address')
  t.equal((await visitor.open('/demo/quote?x=1')).status, 402, 'another query')
  t.equal(
    (await gateway.send('POST', '/demo/echo', { headers: { cookie: cookie.split(';')[0] ?? '' }, body: {} })).status,
    402
  )
})

t.test('a pass cannot be made, changed or taken to another payment', async t => {
  const gateway = await startGateway(t)
  const [own, other] = [new Visitor(gateway), new Visitor(gateway)]
  await own.open('/demo/quote')
  await gateway.pay(invoiceOn(await other.open('/demo/quote')))
  const [name = '', mine = ''] = [...own.cookies][0] ?? []
  const theirs = other.cookies.get(name) ?? ''
  const [hash = '', code = ''] = theirs.split('.')
  const flipped = code.startsWith('A') ? `B${code.slice(1)}` : `A${code.slice(1)}`
  for (const value of [
    `${hash}.${mine.split('.')[1]}`,
    `${hash}.${flipped}`,
    `${hash}.${code.slice(1)}`,
    hash,
    `${hash}.`,
    `${'A'.repeat(43)}.${code}`,
    '',
    '~',
    `${['A', 'B', 'C', 'D'].map(guess => `${hash}.${guess.repeat(22)}`).join('~')}~${theirs}`
  ]) {
    const answer = await gateway.send('GET', '/demo/quote', { headers: { cookie: `${name}=${value}` } })
    t.equal(answer.status, 402, value.slice(0, 60))
  }
  t.equal((await gateway.send('GET', '/demo/quote', { headers: { cookie: `a=b; ${name}=${theirs}` } })).status, 200)
})

t.test('the invoice of a page is not shared, though one address holds as many as it may', async t => {
  const gateway = await startGateway(t, {
    yaml: defaultYaml({
      replace: [['mode: development', 'payment: { maxOutstanding: { address: 1 } }\nmode: development']]
    })
  })
  const program = async () =>
    challengeOf(await gateway.send('GET', '/demo/quote'), 'l402').parameters.get('invoice') ?? ''
  const seen = [
    await program(),
    invoiceOn(await new Visitor(gateway).open('/demo/quote')),
    invoiceOn(await new Visitor(gateway).open('/demo/quote'))
  ]
  t.equal(new Set(seen).size, 3)
  t.equal(await program(), seen[0], 'a program is given its own again')
  await new Visitor(gateway).open('/demo/quote')
  t.equal((await new Visitor(gateway).open('/demo/quote')).status, 429, 'pages count like all requests')
})

t.test('the payment is one sale: a token and a pass are valid together, another scheme comes too late', async t => {
  const { gateway, visitor, page } = await opened(t)
  const preimage = await gateway.pay(invoiceOn(page))
  const payment = credentialOf(challengeOf(page, 'payment'), preimage)
  const token = credentialOf(challengeOf(page, 'l402'), preimage)
  t.equal((await visitor.open('/demo/quote')).status, 200)
  t.equal((await gateway.send('GET', '/demo/quote', { headers: { authorization: token } })).status, 200)
  t.equal((await gateway.send('GET', '/demo/quote', { headers: { authorization: payment } })).status, 402)

  const other = new Visitor(gateway)
  const second = await other.open('/demo/quote')
  const spent = credentialOf(challengeOf(second, 'payment'), await gateway.pay(invoiceOn(second)))
  t.equal((await gateway.send('GET', '/demo/quote', { headers: { authorization: spent } })).status, 200)
  const late = await other.open('/demo/quote')
  t.equal(late.status, 402, 'it was used up with the Payment scheme')
  t.not(invoiceOn(late), invoiceOn(second))
  t.match(late.text, 'Your access has expired')
})

t.test(
  'with the Payment scheme alone, a page buys one use: spent with the response, given back where nothing was sold',
  async t => {
    const { site, gateway, visitor } = await soldSite(t, '/once/*', 'price: 7 sats', [
      ['mode: development', 'payment: { schemes: [payment] }\nmode: development']
    ])
    await gateway.pay(invoiceOn(await visitor.open('/once/file')))
    site.answer({ status: 503 })
    t.equal((await visitor.open('/once/file')).status, 503)
    site.answer({ status: 200 })
    t.equal((await visitor.open('/once/file', {}, 'HEAD')).status, 402, 'HEAD does not use it up')
    const bought = await visitor.open('/once/file')
    t.equal(bought.status, 200)
    t.type(bought.headers['payment-receipt'], 'string')
    t.equal((await visitor.open('/once/file')).status, 402)
  }
)

t.test('cookies of the gateway reach no upstream, and none sets them', async t => {
  const { site, gateway, visitor } = await soldSite(t, '/site/*', 'price: 7 sats')
  await gateway.pay(invoiceOn(await visitor.open('/site/page')))
  visitor.cookies.set('__Host-boltgate-session', 'secret')
  visitor.cookies.set('theirs', '1')
  const bought = await visitor.open('/site/page')
  t.equal(bought.status, 200)
  const [request] = site.seen
  t.equal(request?.headers.cookie, 'theirs=1')
  t.type(request?.headers['x-l402-payment-hash'], 'string', 'the upstream gets the payment')
  t.same(linesOf(bought, 'set-cookie'), ['theirs=1'])
  t.equal(bought.headers['content-security-policy'], undefined, "the operator's own site is left as it is")
})

t.test('a service opens all of its routes, and what was bought at one of its prices stays open', async t => {
  const site = await startSite(t)
  const route = (path: string, price: number) =>
    `  - { match: { path: ${path} }, service: news, price: ${price} sats, chain: paid, upstream: { url: "${site.url}" } }\n`
  const gateway = await startGateway(t, {
    yaml: withRoutes(route('/news/*', 7) + route('/also', 7) + route('/report', 50) + route('/atlas', 90))
  })
  const visitor = new Visitor(gateway)
  await gateway.pay(invoiceOn(await visitor.open('/news/1')))
  t.equal((await visitor.open('/also')).status, 200, 'at the same price')
  const higher = await visitor.open('/report')
  t.equal(higher.status, 402)
  t.notMatch(higher.text, 'Your access has expired')
  await gateway.pay(invoiceOn(higher))
  t.equal((await visitor.open('/atlas')).status, 402)
  for (const path of ['/news/1', '/report', '/also']) t.equal((await visitor.open(path)).status, 200, path)
})

t.test('a revoked pass stays closed', async t => {
  const { gateway, visitor, page } = await opened(t)
  await gateway.pay(invoiceOn(page))
  t.equal((await visitor.open('/demo/quote')).status, 200)
  const [name = ''] = visitor.cookies.keys()
  const hash = Buffer.from((visitor.cookies.get(name) ?? '').slice(0, 43), 'base64url').toString('hex')
  const revoked = await gateway.send('DELETE', `/api/admin/tokens/${hash}`, {
    headers: { 'x-admin-key': gateway.adminKey, 'x-api-key': gateway.adminKey }
  })
  t.equal(revoked.status, 204, revoked.text)
  t.equal((await visitor.open('/demo/quote')).status, 402)
})

t.test('a balance is bought on the page, used, and bought again when it is used up', async t => {
  const { gateway, visitor } = await soldSite(
    t,
    '/metered/*',
    'meter: { bundle: 3 sats, unit: request, prices: 1500 msat, estimate: { else: 1 } }'
  )
  const page = await visitor.open('/metered/a')
  t.match(page.text, 'You buy a balance, from which each request takes 1500 msat')
  await gateway.pay(invoiceOn(page))
  t.equal((await visitor.open('/metered/a')).status, 200)
  t.equal((await visitor.open('/metered/a?other')).status, 200, 'a balance is valid for all requests of its address')
  const empty = await visitor.open('/metered/a')
  t.equal(empty.status, 402)
  t.match(empty.text, 'Your balance is used up')
  t.not(invoiceOn(empty), invoiceOn(page))
  await gateway.pay(invoiceOn(empty))
  t.equal((await visitor.open('/metered/a')).status, 200)
})

t.test('free calls come before the page', async t => {
  const gateway = await startGateway(t, {
    yaml: defaultYaml({
      replace: [
        [
          'price: 10 sats\n    description: A quote about money  #',
          'price: 10 sats\n    free: { calls: 1, per: 1h }\n    description: A quote about money  #'
        ]
      ]
    })
  })
  const visitor = new Visitor(gateway)
  t.equal((await visitor.open('/demo/quote')).status, 200)
  const page = await visitor.open('/demo/quote')
  t.equal(page.status, 402)
  t.equal(page.headers['x-free-calls-remaining'], '0')
  await gateway.pay(invoiceOn(page))
  t.equal((await visitor.open('/demo/quote')).status, 200)
})

t.test(
  "a merchant's page has its name and colour, and what it sells runs apart from the gateway's own pages",
  async t => {
    const site = await startSite(t)
    const gateway = await startGateway(t)
    const created = await gateway.merchantSend('POST', '/api/proxy', {
      name: 'Weekly',
      description: 'The weekly letter',
      targetBaseUrl: site.url,
      defaultPriceSats: 12
    })
    t.equal(created.status, 201, created.text)
    const { proxyId } = created.json() as { proxyId: string }
    const visitor = new Visitor(gateway)
    const path = `/l402/proxy/${proxyId}/letter`
    const plain = await visitor.open(path)
    t.match(plain.text, 'First merchant')
    t.match(plain.text, 'The weekly letter')
    t.equal((await gateway.merchantSend('PUT', '/api/merchant/colour', { colour: '#1d4ed8' })).status, 200)
    t.equal((await gateway.merchantSend('PUT', '/api/merchant/colour', { colour: 'red;}' })).status, 400)
    const coloured = await visitor.open(path)
    t.match(coloured.text, '--accent:#1d4ed8')
    t.not(
      coloured.headers['content-security-policy'],
      plain.headers['content-security-policy'],
      'its style is the one that may apply'
    )
    await gateway.pay(invoiceOn(coloured))
    const bought = await visitor.open(path)
    t.equal(bought.status, 200, bought.text)
    t.match(bought.headers['content-security-policy'], /^sandbox (?!.*allow-same-origin)/)
    site.answer({ type: 'foo' })
    t.match((await visitor.open(path)).headers['content-security-policy'], /^sandbox /, 'whatever its type')
  }
)

t.test("fiat is charged in fiat, and satoshis are shown in the reader's currency", async t => {
  const { gateway } = await soldSite(t, '/demo/dollars', 'price: $0.25')
  const visit = (path: string, language: string) => new Visitor(gateway, { 'accept-language': language }).open(path)
  t.match((await visit('/demo/dollars', 'de')).text, /0,25\s\$<\/h1><p class="satoshis">250\u00a0sats</)
  t.match((await visit('/demo/quote', 'en-US,en;q=0.5')).text, '≈ $0.01')
  t.match((await visit('/demo/quote', 'de-AT')).text, /≈ 0,01\s€/)
  t.notMatch((await visit('/demo/quote', 'ja-JP')).text, '≈')
})

t.test(
  'the page’s program is notified immediately when it is paid, and nothing of it reaches the upstream',
  async t => {
    const { gateway, visitor, page } = await opened(t)
    const followed = visitor.wish('/demo/quote', 'follow')
    await gateway.pay(invoiceOn(page))
    const events = await followed
    t.equal(events.headers.get('content-type'), 'text/event-stream')
    t.match(await events.text(), /data: paid\n\n$/)
    const outsider = await new Visitor(gateway).wish('/demo/quote', 'follow')
    t.equal(outsider.status, 402, 'without a pass there is nothing to follow')
    const second = new Visitor(gateway)
    const other = await second.open('/demo/quote')
    t.equal(
      (await second.wish('/demo/quote', 'pay', { 'x-forwarded-for': '192.0.2.1' })).status,
      402,
      'not from another machine'
    )
    t.equal((await second.wish('/demo/quote', 'pay')).status, 204)
    t.equal((await second.open('/demo/quote')).status, 200)
    t.not(invoiceOn(other), invoiceOn(page))
  }
)
