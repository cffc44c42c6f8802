import { createServer, request as plainRequest } from 'node:http'
import t from 'tap'
import { challengeBytes, MAX_CHALLENGE_BYTES } from '../../src/lightning/codecs/challenge-size.ts'
import { buy, challengeOf, credentialOf, type Answer } from '../support/gateway.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { openShop, shopYaml, countingUpstream } from '../security/shop.ts'
import { serve } from '../support/serve.ts'

const authorization = (value: string) => ({ headers: { authorization: value } })
const priceIn = (answer: Answer) => (answer.json() as { l402: { amount_sats: number } }).l402.amount_sats

t.test(
  '"Classic tokens are reusable until expiry, only for the same path": a token opens the path it was bought for',
  async t => {
    const upstream = await countingUpstream(t)
    const shop = await openShop(t, {
      upstream,
      yaml: shopYaml(upstream.origin, {
        route: `  - match: { path: /whole/* }\n    price: 7 sats\n    tokenPath: pattern\n    chain: paid\n    upstream: { url: "${upstream.origin}" }\n`
      })
    })
    const whole = await shop.proxy({ endpoints: [{ pathPattern: '/*', priceSats: 5, tokenPath: 'pattern' }] })
    const plain = await shop.proxy({})
    const named = await shop.proxy({ endpoints: [{ pathPattern: '/abc/*', priceSats: 6, tokenPath: 'pattern' }] })
    const rows: Array<[name: string, asked: string, alsoGood: string]> = [
      ['a proxy without a slash, its whole pattern sold', whole.path, `${whole.path}/`],
      ['a proxy without a slash is the same as with one (decision 95)', plain.path, `${plain.path}/`],
      ['a proxy with a slash is the same as without one (decision 95)', `${plain.path}/`, plain.path],
      ['a pattern of a proxy, asked for with an encoded letter', `${named.path}/%61bc/1`, `${named.path}/abc/2`],
      [
        'a proxy whose own name has an encoded letter',
        `${named.path.replace('proxy', '%70roxy')}/abc/1`,
        `${named.path}/abc/2`
      ],
      ["a route's pattern, asked for with an encoded letter", '/w%68ole/1', '/whole/2'],
      ['an exact path with an encoded letter', '/paid/%61', '/paid/%61']
    ]
    for (const [name, asked, alsoGood] of rows) {
      await t.test(name, async t => {
        const first = await shop.gateway.send('GET', asked)
        t.equal(first.status, 402, first.text)
        const challenge = challengeOf(first, 'l402')
        const preimage = await shop.gateway.pay(challenge.parameters.get('invoice') ?? '')
        const token = credentialOf(challenge, preimage)
        const before = upstream.hits.length
        for (const path of [asked, alsoGood]) {
          const answer = await shop.gateway.send('GET', path, authorization(token))
          t.equal(answer.status, 200, `${path}: ${answer.text}`)
        }
        t.equal(upstream.hits.length, before + 2)
      })
    }
  }
)

t.test('prices of a proxy cannot be walked round (contract, Pay-per-request gating; decisions 91 and 94)', async t => {
  const shop = await openShop(t)
  const proxy = await shop.proxy({
    defaultPriceSats: 1,
    endpoints: [
      { pathPattern: '/premium/*', priceSats: 100 },
      { method: 'HEAD', pathPattern: '/head', priceSats: 3 },
      { method: 'GET', pathPattern: '/get', priceSats: 9 },
      { pathPattern: '/%66ree/*', priceSats: 50 },
      { pathPattern: '/café/*', priceSats: 60 },
      { pathPattern: '/%c3%bc', priceSats: 70 }
    ],
    blockedPaths: ['/secret/*', '/%61dmin', '/höhle']
  })
  const prices: Array<[name: string, method: string, path: string, sats: number]> = [
    ['the plain path', 'GET', '/premium/a', 100],
    ['an encoded letter', 'GET', '/%70remium/a', 100],
    ['a doubled slash, which many upstreams read as one', 'GET', '//premium/a', 100],
    ['a doubled slash inside', 'GET', '/premium//a', 100],
    ['an encoded slash, which many upstreams decode', 'GET', '/premium%2Fa', 100],
    ['an encoded slash in lower case', 'GET', '/%2fpremium/a', 100],
    ['any method, where the price names none', 'PROPFIND', '/premium/a', 100],
    ['a doubled slash where it is cheaper than the default costs the higher of the two prices', 'GET', '//cheap', 1],
    ['HEAD costs what GET costs', 'HEAD', '/get', 9],
    ['HEAD has a price of its own where one is set', 'HEAD', '/head', 3],
    ['GET does not have the price of HEAD', 'GET', '/head', 1],
    ['a pattern that was written with an encoded letter', 'GET', '/free/a', 50],
    ['a pattern with a letter outside ASCII', 'GET', '/caf%C3%A9/a', 60],
    ['the same in lower-case hex, which is the same (RFC 3986, 6.2.2.1)', 'GET', '/caf%c3%a9/a', 60],
    ['a pattern in lower-case hex', 'GET', '/%C3%BC', 70]
  ]
  for (const [name, method, path, sats] of prices) {
    const answer = await shop.gateway.send(method, `${proxy.path}${path}`)
    t.equal(answer.status, 402, `${name}: ${answer.text}`)
    t.equal(Number(challengeOf(answer, 'payment').parameters.get('amount')), sats, `${name}: ${method} ${path}`)
    if (method === 'HEAD') t.equal(answer.text, '', 'HEAD has no body')
    else t.equal(priceIn(answer), sats, name)
  }
  for (const path of [
    '/secret/a',
    '//secret/a',
    '/secret%2Fa',
    '/%73ecret/a',
    '/admin',
    '/%61dmin',
    '//admin',
    '/h%C3%B6hle',
    '/h%c3%b6hle'
  ]) {
    const answer = await shop.gateway.send('GET', `${proxy.path}${path}`)
    t.equal(answer.status, 403, `${path} is blocked: ${answer.text}`)
    t.match(answer.json(), { error: 'Path not allowed', proxy_id: proxy.id })
  }
  t.same(shop.upstream.hits, [])
})

t.test('two concurrent changes of a proxy both hold: a raised price is not lost to a new name', async t => {
  const shop = await openShop(t)
  const proxy = await shop.proxy({ defaultPriceSats: 1 })
  const changes: object[] = [{ defaultPriceSats: 50 }, { name: 'Renamed' }, { description: 'Changed' }, { timeout: 7 }]
  const answers = await Promise.all(
    changes.map(change => shop.gateway.merchantSend('PUT', `/api/proxy/${proxy.id}`, change))
  )
  t.same(
    answers.map(answer => answer.status),
    [200, 200, 200, 200]
  )
  t.match((await shop.gateway.merchantSend('GET', `/api/proxy/${proxy.id}`)).json(), Object.assign({}, ...changes))
  t.equal(priceIn(await shop.gateway.send('GET', `${proxy.path}/a`)), 50)
})

t.test('"L402 token validity": an invoice cannot be paid when its token has ended already', async t => {
  const clock = new ManualClock()
  const shop = await openShop(t, { clock })
  const proxy = await shop.proxy({ tokenValiditySeconds: 60 })
  const answer = await shop.gateway.send('GET', `${proxy.path}/a`)
  const { expires_at: expires } = (answer.json() as { l402: { expires_at: string } }).l402
  t.ok(Date.parse(expires) <= Math.floor(clock.now() / 1000) * 1000 + 60_000, `payable until ${expires}`)
  const usual = await shop.proxy({})
  const longer = await shop.gateway.send('GET', `${usual.path}/a`)
  t.equal(
    Date.parse((longer.json() as { l402: { expires_at: string } }).l402.expires_at),
    Math.floor(clock.now() / 1000) * 1000 + 600_000,
    '600 seconds where the token lives longer'
  )
  await t.test('such invoices are handed out again too (decision 122)', async t => {
    const hashes = new Set<string>()
    for (let at = 0; at < 15; at++)
      hashes.add(
        ((await shop.gateway.send('GET', `${proxy.path}/again`)).json() as { l402: { payment_hash: string } }).l402
          .payment_hash
      )
    t.equal(hashes.size, 10)
  })
})

t.test(
  'method-unsupported: "modern credentials are disabled on this server"; a legacy credential that was known is refused with them',
  async t => {
    const upstream = await countingUpstream(t)
    const shop = await openShop(t, { upstream, yaml: shopYaml(upstream.origin) })
    const first = await shop.gateway.send('GET', '/paid/a')
    const preimage = await shop.gateway.pay(challengeOf(first, 'payment').parameters.get('invoice') ?? '')
    const legacy = `Payment method="lightning", preimage="${preimage}"`
    t.equal((await shop.gateway.send('GET', '/paid/a', authorization(legacy))).status, 200)
    await shop.gateway.reload(
      shopYaml(upstream.origin, {
        replace: [['mode: development', 'payment: { schemes: [ l402 ] }\nmode: development']]
      })
    )
    const off = await shop.gateway.send('GET', '/paid/a', authorization(legacy))
    t.equal(off.status, 402, 'the scheme is off')
    t.equal(upstream.hits.length, 1)
  }
)

t.test(
  '"a challenge stays under 8 KB": the longest resource keeps both challenge lines under 8 KB together',
  async t => {
    const shop = await openShop(t)
    for (const [name, resource] of [
      ['ASCII', 'r'.repeat(500)],
      ['three bytes a character', '€'.repeat(500)],
      ['four bytes a character', '😀'.repeat(500)]
    ] as const) {
      const answer = await shop.gateway.merchantSend('POST', '/api/l402/challenges', {
        resource,
        priceSats: 1_000_000_000,
        description: 'd'.repeat(1000)
      })
      t.equal(answer.status, 200, name)
      const { macaroon, invoice, mppChallenge } = answer.json() as Record<
        'macaroon' | 'invoice' | 'mppChallenge',
        string
      >
      const bytes = challengeBytes([
        `L402 macaroon="${macaroon}", invoice="${invoice}", version="0", token="${macaroon}"`,
        mppChallenge
      ])
      t.ok(bytes < MAX_CHALLENGE_BYTES, `${name}: ${bytes} bytes`)
    }
  }
)

t.test('a 402 is never without a challenge, whatever a reload changes', async t => {
  const upstream = await countingUpstream(t)
  const only = (scheme: string) =>
    shopYaml(upstream.origin, {
      replace: [
        ['mode: development', `payment: { schemes: [ ${scheme} ], maxOutstanding: { address: 1 } }\nmode: development`]
      ]
    })
  const shop = await openShop(t, { upstream, yaml: only('l402') })
  t.match((await shop.gateway.send('GET', '/paid/a')).headers['www-authenticate'], /^L402 /)
  await shop.gateway.reload(only('payment'))
  const answer = await shop.gateway.send('GET', '/paid/a')
  t.equal(answer.status, 402)
  t.match(answer.headers['www-authenticate'], /^Payment /, 'not the open invoice that has no Payment challenge')
})

t.test(
  'an upgrade is sold with its 101 (decision 124: a head from 2xx to 4xx, and a switch of protocols, is delivered)',
  async t => {
    const server = createServer((_req, res) => {
      res.end('plain')
    })
    let upgrades = 0
    server.on('upgrade', (_req, socket) => {
      upgrades++
      socket.on('error', () => {})
      socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    })
    const port = await serve(t, server)
    const shop = await openShop(t, { yaml: shopYaml(`http://127.0.0.1:${port}`) })
    const credential = await buy(shop.gateway, '/paid/ws', 'payment')
    const upgrade = () =>
      new Promise((resolve, reject) => {
        const asked = plainRequest(`${shop.gateway.url}/paid/ws`, {
          headers: { connection: 'Upgrade', upgrade: 'websocket', authorization: credential }
        })
        asked.on('upgrade', (res, socket) => {
          socket.destroy()
          resolve({ status: 101, receipt: res.headers['payment-receipt'] })
        })
        asked.on('response', res => {
          res.resume()
          resolve({ status: res.statusCode ?? 0, receipt: res.headers['payment-receipt'] })
        })
        asked.on('error', reject)
        asked.end()
      })
    t.match(await upgrade(), { status: 101, receipt: String }, 'with its receipt')
    t.match(await upgrade(), { status: 402 }, 'and it is spent')
    t.equal(upgrades, 1)
  }
)
