import t from 'tap'
import { decodeInvoice } from '../../src/lightning/codecs/bolt11.ts'
import { addCaveat, decodeMacaroonBase64, macaroonToBase64 } from '../../src/lightning/l402/macaroon.ts'
import { decodeReceipt } from '../../src/lightning/payment-scheme/payment-credential.ts'
import { buy, challengeOf, credentialOf, defaultYaml, startGateway, type Answer } from '../support/gateway.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { countingUpstream, openShop, shopYaml } from '../security/shop.ts'

const authorization = (value: string) => ({ headers: { authorization: value } })
const linesOf = (answer: Answer) => [answer.headers['www-authenticate'] ?? []].flat()
const namesOf = (answer: Answer) =>
  linesOf(answer)
    .map(line => line.split(' ')[0])
    .join(' ')
const payment = (settings: string): ReadonlyArray<readonly [string, string]> => [
  ['mode: development', `payment: { ${settings} }\nmode: development`]
]

interface Body {
  readonly error: string
  readonly message: string
  readonly l402: {
    readonly macaroon: string
    readonly invoice: string
    readonly amount_sats: number
    readonly payment_hash: string
    readonly expires_at: string
  }
}

t.test('Proxy without credential: the 402 of the contract', async t => {
  const clock = new ManualClock()
  const shop = await openShop(t, { clock })
  const proxy = await shop.proxy({ defaultPriceSats: 5 })
  const places: Array<[name: string, path: string, sats: number]> = [
    ['a proxy', `${proxy.path}/v1/a?q=1`, 5],
    ["an operator's route", '/paid/a?q=1', 7],
    ['the ping: "public 402 with a 1-sat invoice"', '/l402/test/ping', 1]
  ]
  for (const [name, path, sats] of places) {
    await t.test(name, async t => {
      const answer = await shop.gateway.send('GET', path)
      t.equal(answer.status, 402)
      t.equal(answer.headers['cache-control'], 'no-store')
      t.match(answer.headers['content-type'], /^application\/json/)
      t.equal(answer.headers['x-l402-proxy'], undefined, 'no upstream has answered')
      const body = answer.json() as Body
      t.same(Object.keys(body), ['error', 'message', 'l402'])
      t.equal(body.error, 'Payment Required')
      t.match(body.message, /costs .+\. Pay the Lightning invoice and send the request again with the credential\.$/)
      t.same(Object.keys(body.l402), ['macaroon', 'invoice', 'amount_sats', 'payment_hash', 'expires_at'])
      t.equal(body.l402.amount_sats, sats)
      const invoice = decodeInvoice(body.l402.invoice)
      t.equal(invoice.amountMsat, BigInt(sats) * 1000n)
      t.equal(invoice.paymentHash, body.l402.payment_hash)
      t.equal(invoice.expiresAt * 1000, Date.parse(body.l402.expires_at))
      t.equal(
        invoice.expiresAt,
        Math.floor(clock.now() / 1000) + 600,
        'default invoice expiry for gated resources is 600 seconds'
      )
      const [l402, mpp, ...more] = linesOf(answer)
      t.same(more, [])
      t.equal(
        l402,
        `L402 macaroon="${body.l402.macaroon}", invoice="${body.l402.invoice}", version="0", token="${body.l402.macaroon}"`
      )
      const parameters = challengeOf(answer, 'payment').parameters
      t.same(
        [...parameters.keys()],
        ['id', 'realm', 'method', 'intent', 'request', 'expires', 'invoice', 'amount', 'currency']
      )
      t.match(
        mpp,
        /, method="lightning", intent="charge", request="[A-Za-z0-9_-]+", expires="\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", invoice="/
      )
      t.ok(
        Date.parse(parameters.get('expires') ?? '') <= invoice.expiresAt * 1000,
        '"never later than the BOLT11 expiry"'
      )
      t.equal(parameters.get('invoice'), body.l402.invoice, '"One Lightning invoice backs both"')
      t.equal(
        Buffer.from(parameters.get('request') ?? '', 'base64url').toString(),
        `{"amount":"${sats}","currency":"sat","methodDetails":{"invoice":"${body.l402.invoice}","network":"regtest","paymentHash":"${body.l402.payment_hash}"}}`
      )
      const caveats: readonly string[] =
        Buffer.from(body.l402.macaroon, 'base64')
          .toString('latin1')
          .match(/(?:services|path|merchant_id|charge_id|amount_sats|expires)=[\x21-\x7e]+/g) ?? []
      t.same(
        caveats.map(caveat => caveat.split('=')[0]),
        name === 'a proxy'
          ? ['services', 'path', 'merchant_id', 'charge_id', 'amount_sats', 'expires']
          : ['services', 'path', 'charge_id', 'amount_sats', 'expires']
      )
      t.ok(caveats.includes(`path=${path.split('?')[0] ?? ''}`), 'the raw path without its query')
      t.ok(caveats.includes(`amount_sats=${sats}`))
      t.ok(caveats.includes(`expires=${Math.floor(clock.now() / 1000) + 3600}`), 'default validity 1 hour')
    })
  }
  await t.test('a HEAD has the same head and no body', async t => {
    const answer = await shop.gateway.send('HEAD', `${proxy.path}/v1/a`)
    t.equal(answer.status, 402)
    t.equal(namesOf(answer), 'L402 Payment')
    t.equal(answer.text, '')
    t.equal(answer.headers['cache-control'], 'no-store')
  })
  await t.test('a reload that changes payment.invoiceExpiry counts for proxies too', async t => {
    await shop.gateway.reload(shopYaml(shop.upstream.origin, { replace: payment('invoiceExpiry: 5m') }))
    for (const path of [`${proxy.path}/v1/reloaded`, '/paid/reloaded']) {
      const { l402 } = (await shop.gateway.send('GET', path)).json() as Body
      t.equal(Date.parse(l402.expires_at) / 1000, Math.floor(clock.now() / 1000) + 300, path)
    }
  })
})

t.test('which challenges a 402 carries, in which order, under which configuration', async t => {
  const upstream = await countingUpstream(t)
  const shop = await openShop(t, { upstream })
  const q0 = 'lightning/charge;q=0'
  const both = 'schemes: [ l402, payment ]'
  const rows: Array<[settings: string, acceptPayment: string | null, lines: string]> = [
    [both, null, 'L402 Payment'],
    [both, q0, 'L402'],
    [both, 'lightning/*;q=0', 'L402'],
    [both, '*/*;q=0', 'L402'],
    [both, '*/*;q=0, lightning/charge', 'Payment L402'],
    [both, 'lightning/charge', 'Payment L402'],
    [both, 'tempo/charge', 'L402 Payment'],
    [both, 'lightning/charge;q=2', 'L402 Payment'],
    [both, 'nonsense', 'L402 Payment'],
    [`${both}, order: payment-first`, null, 'Payment L402'],
    [`${both}, order: payment-first`, q0, 'L402'],
    [`${both}, order: l402-first`, 'lightning/charge', 'L402 Payment'],
    [`${both}, l402Lsat: true`, null, 'L402 LSAT Payment'],
    [`${both}, l402Lsat: true`, q0, 'L402 LSAT'],
    ['schemes: [ l402 ]', null, 'L402'],
    ['schemes: [ l402 ]', 'lightning/charge', 'L402'],
    ['schemes: [ payment ]', null, 'Payment'],
    ['schemes: [ payment ]', q0, 'Payment']
  ]
  let loaded = ''
  for (const [settings, acceptPayment, lines] of rows) {
    if (settings !== loaded) await shop.gateway.reload(shopYaml(upstream.origin, { replace: payment(settings) }))
    loaded = settings
    const answer = await shop.gateway.send('GET', '/paid/a', {
      headers: acceptPayment === null ? {} : { 'accept-payment': acceptPayment }
    })
    t.equal(answer.status, 402)
    t.equal(namesOf(answer), lines, `${settings}, Accept-Payment: ${acceptPayment ?? 'none'}`)
  }
})

t.test('Accept-Payment is one list, also on several lines (RFC 9110, section 5.3)', async t => {
  const gateway = await startGateway(t)
  const linesOf = async (...acceptPayment: string[]) =>
    namesOf(await gateway.send('GET', '/demo/quote', { headers: { 'accept-payment': acceptPayment } }))
  t.equal(await linesOf('tempo/charge', 'lightning/charge'), 'Payment L402')
  t.equal(await linesOf('lightning/*', 'lightning/charge;q=0'), 'L402', 'the most specific of both lines decides')
})

t.test("a route's own order comes before the configuration's, and a client's preference before both", async t => {
  const gateway = await startGateway(t)
  const linesOf = async (path: string, acceptPayment: string | null): Promise<string> =>
    namesOf(
      await gateway.send('GET', path, { headers: acceptPayment === null ? {} : { 'accept-payment': acceptPayment } })
    )
  t.equal(await linesOf('/demo/charge', null), 'Payment L402')
  t.equal(await linesOf('/demo/charge', 'lightning/charge;q=0'), 'L402')
  t.equal(await linesOf('/demo/charge', 'tempo/charge'), 'Payment L402')
  t.equal(await linesOf('/demo/quote', null), 'L402 Payment', 'everything else stays as the contract says')
  await gateway.reload(defaultYaml({ replace: [['order: payment-first', 'order: l402-first']] }))
  t.equal(await linesOf('/demo/charge', null), 'L402 Payment')
  t.equal(await linesOf('/demo/charge', 'lightning/charge'), 'Payment L402')
})

t.test('the form of a first 402: application/problem+json on request, or where L402 is off (decision 126)', async t => {
  const upstream = await countingUpstream(t)
  const shop = await openShop(t, { upstream })
  const rows: Array<[accept: string | null, problem: boolean]> = [
    [null, false],
    ['*/*', false],
    ['application/json', false],
    ['application/problem+json', true],
    ['application/json, application/problem+json', false],
    ['application/problem+json, application/json;q=0.5', true],
    ['application/problem+json;q=0', false],
    ['text/html;q=0.1, application/problem+json', true]
  ]
  for (const [accept, problem] of rows) {
    const answer = await shop.gateway.send('GET', '/paid/a', { headers: accept === null ? {} : { accept } })
    t.equal(answer.status, 402)
    t.match(
      answer.headers['content-type'],
      problem ? /^application\/problem\+json/ : /^application\/json/,
      `Accept: ${accept ?? 'none'}`
    )
    if (problem)
      t.match(answer.json(), {
        type: 'https://paymentauth.org/problems/payment-required',
        title: 'Payment Required',
        status: 402,
        detail: String,
        challengeId: challengeOf(answer, 'payment').parameters.get('id')
      })
  }
  await shop.gateway.reload(shopYaml(upstream.origin, { replace: payment('schemes: [ payment ]') }))
  const only = await shop.gateway.send('GET', '/paid/a')
  t.match(only.json(), { type: 'https://paymentauth.org/problems/payment-required', status: 402 })
})

t.test('L402 off and Payment off, end to end', async t => {
  const upstream = await countingUpstream(t)
  const shop = await openShop(t, { upstream })
  const bought = {
    l402: await buy(shop.gateway, '/paid/a', 'l402'),
    payment: await buy(shop.gateway, '/paid/a', 'payment')
  }
  await shop.gateway.reload(shopYaml(upstream.origin, { replace: payment('schemes: [ payment ]') }))
  const noL402 = await shop.gateway.send('GET', '/paid/a', authorization(bought.l402))
  t.equal(noL402.status, 401)
  t.equal(noL402.headers['x-l402-error'], 'L402 is not enabled on this server')
  t.match((await shop.gateway.send('GET', '/api/l402/status', authorization(bought.l402))).json(), {
    authenticated: false
  })
  t.match(
    (await shop.gateway.send('GET', '/paid/a', authorization(await buy(shop.gateway, '/paid/a', 'payment')))).status,
    200,
    'Payment alone sells'
  )
  const before = upstream.hits.length
  await shop.gateway.reload(shopYaml(upstream.origin, { replace: payment('schemes: [ l402 ]') }))
  const unsupported = await shop.gateway.send('GET', '/paid/a', authorization(bought.payment))
  t.equal(unsupported.status, 402)
  t.match(unsupported.json(), { type: 'https://paymentauth.org/problems/method-unsupported', detail: /use L402/ })
  t.equal(namesOf(unsupported), 'L402', 'fall back to L402')
  t.equal(
    (await shop.gateway.send('GET', '/paid/a', authorization('Payment !!!'))).headers['content-type'],
    unsupported.headers['content-type'],
    'a malformed one too'
  )
  t.equal(upstream.hits.length, before)
  t.equal((await shop.gateway.send('GET', '/paid/a', authorization(bought.l402))).status, 200)
  await shop.gateway.reload(shopYaml(upstream.origin))
  t.equal(
    (await shop.gateway.send('GET', '/paid/a', authorization(bought.payment))).status,
    200,
    'the refused credential was not used up'
  )
})

t.test(
  "renewal: 402 answers every classic credential but a forged one with 402, fresh lines and the contract's text; without it none (decision 177)",
  async t => {
    const upstream = await countingUpstream(t)
    const clock = new ManualClock()
    const route = `  - match: { path: /again/* }\n    price: 7 sats\n    renewal: 402\n    chain: paid\n    upstream: { url: "${upstream.origin}" }\n`
    const shop = await openShop(t, { upstream, clock, yaml: shopYaml(upstream.origin, { route }) })
    const { gateway } = shop
    const proxy = await shop.proxy({ renewal: 402 })
    const plain = await shop.proxy()
    const edited = (token: string, caveat: string) => {
      const [macaroon = '', preimage = ''] = token.slice('L402 '.length).split(':')
      return `L402 ${macaroonToBase64(addCaveat(decodeMacaroonBase64(macaroon), caveat))}:${preimage}`
    }
    for (const [name, renews, stays] of [
      ['a route', '/again/a', '/paid/a'],
      ['a proxy', `${proxy.path}/a`, `${plain.path}/a`]
    ] as const) {
      await t.test(name, async t => {
        const [first, second] = [await buy(gateway, renews), await buy(gateway, stays)]
        const rows: Array<
          [what: string, make: (token: string) => string, status: number, message: string | RegExp, more?: object]
        > = [
          ['a preimage that is too long', token => `${token}0`, 400, /64 lower-case hex/],
          [
            'a macaroon that cannot be read',
            token => token.replace(/^L402 [^:]*/, 'L402 AAAA'),
            401,
            'Invalid L402 credential',
            { detail: /macaroon cannot be read/ }
          ],
          [
            'an unknown caveat',
            token => edited(token, 'colour=red'),
            401,
            'Invalid L402 credential',
            { detail: 'Unknown caveat: colour' }
          ],
          ['another path', token => token, 403, 'Token not valid for this path', { allowed: String, requested: String }]
        ]
        const check = async (
          what: string,
          credential: string,
          path: string,
          status: number,
          renewed: boolean,
          message: string | RegExp,
          more: object = {}
        ) => {
          // On a connection of its own: the clock is moved past every idle limit.
          const answer = await shop.alone('GET', path, { Authorization: credential })
          t.equal(answer.status, renewed ? 402 : status, `${what}: ${answer.text}`)
          t.equal(namesOf(answer), renewed ? 'L402 Payment' : '', what)
          t.match(answer.headers['x-l402-error'], /^[\x20-\x7e]+$/, what)
          t.equal(answer.headers['cache-control'], 'no-store')
          t.match(
            answer.json(),
            {
              message,
              ...more,
              ...(renewed ? { error: 'Payment Required', l402: { macaroon: String, invoice: /^lnbcrt/ } } : {})
            },
            what
          )
          if (!renewed) t.notMatch(answer.json(), { l402: {} })
        }
        const below = (path: string) => path.replace(/a$/, 'b')
        for (const [what, make, status, message, more] of rows) {
          for (const [token, path, renewed] of [
            [first, renews, true],
            [second, stays, false]
          ] as const)
            await check(
              what,
              make(token),
              what === 'another path' ? below(path) : path,
              status,
              renewed && status !== 400,
              message,
              more
            )
        }
        for (const [what, make] of [
          ['a wrong preimage', (token: string) => token.replace(/[0-9a-f]{64}$/, '0'.repeat(64))],
          [
            'a wrong signature',
            (token: string) => {
              const [macaroon = '', preimage = ''] = token.slice(5).split(':')
              const bytes = Buffer.from(macaroon, 'base64')
              bytes[bytes.length - 1] = (bytes[bytes.length - 1] ?? 0) ^ 1
              return `L402 ${bytes.toString('base64')}:${preimage}`
            }
          ]
        ] as const) {
          for (const [token, path] of [
            [first, renews],
            [second, stays]
          ] as const)
            await check(what, make(token), path, 401, false, 'Invalid L402 credential')
        }
        clock.advance(3_601_000)
        for (const [token, path, renewed] of [
          [first, renews, true],
          [second, stays, false]
        ] as const)
          await check('expired', token, path, 403, renewed, 'Token expired', { details: /^The token was valid until / })
        const fresh = await shop.alone('GET', renews, { Authorization: first })
        const preimage = await gateway.pay((fresh.json() as { l402: { invoice: string } }).l402.invoice)
        t.equal(
          (await gateway.send('GET', renews, authorization(credentialOf(challengeOf(fresh, 'l402'), preimage)))).status,
          200,
          "the refusal's challenge can be paid"
        )
      })
    }
    await t.test('an operator says so for all proxies, and a merchant says otherwise', async t => {
      const yaml = shopYaml(upstream.origin, {
        route:
          '  - { match: { path: [ /l402/proxy/:proxyId, /l402/proxy/:proxyId/* ] }, renewal: 402, chain: proxied, upstream: { proxy: ":proxyId" } }\n'
      })
      await gateway.reload(yaml)
      const [token, other] = [await buy(gateway, `${plain.path}/a`), await buy(gateway, `${proxy.path}/a`)]
      t.equal((await gateway.send('GET', `${plain.path}/b`, authorization(token))).status, 402)
      const changed = await gateway.merchantSend('PUT', `/api/proxy/${proxy.id}`, { renewal: 'contract' })
      t.match(changed.json(), { renewal: 'contract' })
      t.equal((await gateway.send('GET', `${proxy.path}/b`, authorization(other))).status, 403)
      t.match((await gateway.merchantSend('PUT', `/api/proxy/${proxy.id}`, { renewal: 401 })).status, 400)
    })
  }
)

t.test(
  '"On success with a modern credential the response carries Payment-Receipt and Cache-Control: private"',
  async t => {
    const upstream = await countingUpstream(t, (req, res) => {
      const status = Number(/\d+/.exec(req.url ?? '')?.[0] ?? 200)
      res
        .writeHead(status, {
          'cache-control': 'public, s-maxage=60, max-age=60',
          'payment-receipt': 'forged',
          'x-l402-error': 'forged'
        })
        .end(status === 204 || status === 304 ? undefined : 'x')
    })
    const clock = new ManualClock()
    const shop = await openShop(t, { upstream, clock })
    const rows: Array<[status: number, receipt: boolean, retry: number]> = [
      [200, true, 402],
      [201, true, 402],
      [204, true, 402],
      [301, false, 402],
      [304, false, 402],
      [404, false, 402],
      [500, false, 500]
    ]
    for (const [status, receipt, retry] of rows) {
      const path = `/paid/${status}`
      const challenge = challengeOf(await shop.gateway.send('GET', path), 'payment')
      const preimage = await shop.gateway.pay(challenge.parameters.get('invoice') ?? '')
      const credential = credentialOf(challenge, preimage)
      const answer = await shop.gateway.send('GET', path, authorization(credential))
      t.equal(answer.status, status)
      t.equal(answer.headers['x-l402-error'], undefined, 'only the gateway says that')
      t.equal(answer.headers['cache-control'], 'private, max-age=60')
      const text = answer.headers['payment-receipt']
      if (receipt) {
        t.notMatch(Buffer.from(String(text), 'base64url').toString(), preimage, 'never the preimage')
        const read = decodeReceipt(String(text))
        t.match(read, {
          challengeId: challenge.parameters.get('id'),
          method: 'lightning',
          status: 'success',
          timestamp: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/
        })
        t.equal(read?.reference, decodeInvoice(challenge.parameters.get('invoice') ?? '').paymentHash)
      } else t.equal(text, undefined, `${status} has no receipt, and the upstream's own does not pass for one`)
      t.equal(
        (await shop.gateway.send('GET', path, authorization(credential))).status,
        retry,
        `after a ${status} the second use`
      )
    }
    for (const scheme of ['l402', 'legacy'] as const) {
      const challenge = challengeOf(await shop.gateway.send('GET', '/paid/200'), 'l402')
      const preimage = await shop.gateway.pay(challenge.parameters.get('invoice') ?? '')
      const value =
        scheme === 'l402' ? credentialOf(challenge, preimage) : `Payment method="lightning", preimage="${preimage}"`
      for (let use = 0; use < 2; use++) {
        const answer = await shop.gateway.send('GET', '/paid/200', authorization(value))
        t.equal(answer.status, 200, `${scheme}, use ${use + 1}`)
        t.equal(answer.headers['payment-receipt'], undefined, 'a receipt is for modern credentials')
        t.equal(answer.headers['cache-control'], 'private, max-age=60', 'private too (decision 130)')
      }
    }
  }
)
