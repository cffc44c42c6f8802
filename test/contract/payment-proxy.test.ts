import { createServer } from 'node:http'
import t from 'tap'
import { buy, type Answer } from '../support/gateway.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { countingUpstream, openShop } from '../security/shop.ts'

const authorization = (value: string) => ({ headers: { authorization: value } })
const MIB = 1_048_576

t.test(
  'Proxy: request body 1 MB, "enforced with or without Content-Length": 413 {error, message, proxy_id}',
  async t => {
    const upstream = await countingUpstream(t, (req, res) => {
      req.resume().on('end', () => res.end('sold'))
    })
    const shop = await openShop(t, { upstream })
    const { id, path } = await shop.proxy({ endpoints: [{ pathPattern: '/free', priceSats: 0 }] })
    const isTooLarge = (name: string, answer: Answer) => {
      t.equal(answer.status, 413, `${name}: ${answer.text.slice(0, 100)}`)
      t.match(answer.json(), { error: String, message: String, proxy_id: id }, name)
      t.equal(answer.headers['www-authenticate'], undefined, `${name}: nothing to pay`)
    }
    const token = await buy(shop.gateway, `${path}/a`)
    for (const [name, headers] of [
      ['unpaid', {}],
      ['paid', { authorization: token }]
    ] as const) {
      isTooLarge(
        `${name}, with Content-Length`,
        await shop.gateway.send('POST', `${path}/a`, { headers, body: Buffer.alloc(MIB + 1) })
      )
      const chunked = [
        `POST ${path}/a HTTP/1.1`,
        `Host: ${new URL(shop.gateway.url).host}`,
        'Transfer-Encoding: chunked',
        'Content-Type: text/plain',
        ...Object.entries(headers).map(([key, value]) => `${key}: ${value}`)
      ]
      const body = `${(MIB + 1).toString(16)}\r\n${'x'.repeat(MIB + 1)}\r\n0\r\n\r\n`
      const raw = await shop.raw(chunked, body)
      t.equal(raw.status, 413, `${name}, without Content-Length`)
      t.match(JSON.parse(raw.body), { error: String, message: String, proxy_id: id })
    }
    t.equal(
      (await shop.gateway.send('POST', `${path}/a`, { headers: { authorization: token }, body: Buffer.alloc(MIB) }))
        .status,
      200,
      'exactly 1,048,576 bytes pass'
    )
    isTooLarge('on a free path', await shop.gateway.send('POST', `${path}/free`, { body: Buffer.alloc(MIB + 1) }))
  }
)

t.test('Proxy: 502 and 504 rows; none of them uses a single-use credential up', async t => {
  const clock = new ManualClock()
  let mood: 'good' | 'long' | 'silent' | 'exact' | 'chunked' = 'good'
  const requested = Promise.withResolvers<void>()
  const upstream = await countingUpstream(t, (_req, res) => {
    if (mood === 'silent') requested.resolve()
    else if (mood === 'long') res.writeHead(200, { 'content-length': 10_485_761 }).write('x')
    else if (mood === 'exact') res.end(Buffer.alloc(10_485_760))
    else if (mood === 'chunked') {
      res.write(Buffer.alloc(10_485_760))
      res.end('x')
    } else res.end('sold')
  })
  const shop = await openShop(t, { upstream, clock })
  const { id, path } = await shop.proxy({ timeout: 30 })
  const credential = await buy(shop.gateway, `${path}/a`, 'payment')
  const call = () => shop.gateway.send('GET', `${path}/a`, authorization(credential))

  mood = 'long'
  const long = await call()
  t.equal(long.status, 502, 'response body over limit')
  t.match(long.json(), { error: String, message: String, proxy_id: id })

  mood = 'silent'
  const silent = call()
  await requested.promise
  clock.advance(29_000)
  clock.advance(2_000)
  const late = await silent
  t.equal(late.status, 504, 'upstream timeout 30 seconds')
  t.match(late.json(), { error: String, message: String, proxy_id: id })

  mood = 'good'
  const gone = createServer()
  await new Promise<void>(resolve => {
    gone.listen(0, '127.0.0.1', resolve)
  })
  const address = gone.address()
  if (address === null || typeof address === 'string') throw new Error('a server on TCP has an address object')
  await new Promise(resolve => {
    gone.close(resolve)
  })
  const move = (target: string) => shop.gateway.merchantSend('PUT', `/api/proxy/${id}`, { targetBaseUrl: target })
  t.equal((await move(`http://127.0.0.1:${address.port}`)).status, 200)
  const unreachable = await call()
  t.equal(unreachable.status, 502, 'target unreachable')
  t.same(Object.keys(unreachable.json() as object).sort(), ['details', 'error', 'message', 'proxy_id'])
  t.notMatch(unreachable.text, /127\.0\.0\.1/, 'and no address')
  await move(upstream.origin)
  for (const refusal of [long, late, unreachable]) {
    t.equal(refusal.headers['x-l402-proxy'], undefined)
    t.equal(refusal.headers['payment-receipt'], undefined)
  }

  const sold = await call()
  t.equal(sold.status, 200, 'the credential had been given back each time')
  t.match(sold.headers, { 'x-l402-proxy': 'true', 'x-l402-proxy-id': id, 'payment-receipt': String })
  t.equal((await call()).status, 402, 'and is spent now')

  const token = await buy(shop.gateway, `${path}/a`)
  mood = 'exact'
  t.equal(
    (await shop.gateway.send('GET', `${path}/a`, authorization(token))).text.length,
    10_485_760,
    '10,485,760 bytes pass'
  )
  mood = 'chunked'
  await t.rejects(
    shop.gateway.send('GET', `${path}/a`, authorization(token)),
    'a stream is broken off at the limit (decision 96)'
  )
})

t.test(
  '"Authorization, Proxy-Authorization, Connection and other hop-by-hop headers are stripped from forwarded requests"',
  async t => {
    const shop = await openShop(t)
    const { path } = await shop.proxy({ authHeader: 'Authorization', authValue: 'Bearer of-the-merchant' })
    const free = await shop.proxy({ defaultPriceSats: 0 })
    const token = await buy(shop.gateway, `${path}/a`)
    const hop = {
      'Proxy-Authorization': 'Basic x',
      Connection: 'X-Listed',
      'X-Listed': '1',
      'Keep-Alive': 'timeout=5',
      TE: 'gzip',
      'X-L402-Proxy': 'forged',
      'X-L402-Proxy-Id': 'forged',
      'Accept-Payment': 'lightning/charge',
      'X-API-Key': 'of-somebody'
    }
    const paid = await shop.alone('GET', `${path}/a`, { ...hop, Authorization: token })
    t.equal(paid.status, 200)
    const unpaid = await shop.alone('GET', `${free.path}/a`, { ...hop, Authorization: 'Bearer of-the-client' })
    t.equal(unpaid.status, 200)
    t.equal(shop.upstream.requests.length, 2)
    for (const [index, authorized] of [
      [0, 'Bearer of-the-merchant'],
      [1, undefined]
    ] as const) {
      const headers = shop.upstream.requests[index]?.headers
      t.equal(headers?.authorization, authorized, "never the client's (decision 100)")
      for (const name of [
        'proxy-authorization',
        'x-listed',
        'te',
        'x-l402-proxy',
        'x-l402-proxy-id',
        'accept-payment',
        'x-api-key'
      ])
        t.equal(headers?.[name], undefined, name)
    }
  }
)

t.test(
  '"any" method passes a proxy, each with its own challenge, and a credential is valid for the method it was bought for',
  async t => {
    const shop = await openShop(t)
    const { path } = await shop.proxy()
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND', 'REPORT']) {
      const credential = await buy(shop.gateway, `${path}/a`, 'payment', { method })
      const other = await shop.gateway.send(method === 'GET' ? 'DELETE' : 'GET', `${path}/a`, authorization(credential))
      t.equal(other.status, 402, `${method}: not for another method`)
      t.match(other.json(), { type: /verification-failed$/, detail: `The challenge was made for ${method} requests` })
      t.equal((await shop.gateway.send(method, `${path}/a`, authorization(credential))).status, 200, method)
    }
    t.equal(shop.upstream.hits.length, 8)
  }
)

t.test('one payment is one purchase, whichever client redeems it and when', async t => {
  const shop = await openShop(t)
  const { path } = await shop.proxy()
  const answer = await shop.gateway.merchantSend('POST', '/api/l402/challenges', {
    resource: `${path}/a`,
    priceSats: 5
  })
  const made = answer.json() as Record<'invoice' | 'macaroon' | 'mppChallenge', string>
  const preimage = await shop.gateway.pay(made.invoice)
  const parameters = Object.fromEntries(
    [...made.mppChallenge.matchAll(/([a-z]+)="([^"]*)"/g)].map(match => [match[1] ?? '', match[2] ?? ''])
  )
  const { id, realm, method, intent, request, expires } = parameters
  const modern = `Payment ${Buffer.from(JSON.stringify({ challenge: { id, realm, method, intent, request, expires }, payload: { preimage } })).toString('base64url')}`
  const rows: Array<[name: string, value: string, status: number]> = [
    ["a producer's token for a resource that is spelt like a proxy's path", `L402 ${made.macaroon}:${preimage}`, 401],
    ['its Payment credential', modern, 402],
    ['its preimage as a legacy credential', `Payment method="lightning", preimage="${preimage}"`, 402]
  ]
  for (const [name, value, status] of rows)
    t.equal((await shop.gateway.send('GET', `${path}/a`, authorization(value))).status, status, name)
  t.same(shop.upstream.hits, [], 'nothing was sold')
  const ofProxy = await buy(shop.gateway, `${path}/a`, 'payment')
  t.match(
    (await shop.gateway.merchantSend('POST', '/api/l402/challenges/verify-credential', { credential: ofProxy })).json(),
    { valid: false, consumed: false }
  )
  t.equal(
    (await shop.gateway.send('GET', '/l402/test/ping', authorization(await buy(shop.gateway, `${path}/a`)))).status,
    403,
    "a proxy's token at the ping"
  )

  const races = await Promise.all(
    Array.from({ length: 12 }, () =>
      shop.gateway.merchantSend('POST', '/api/l402/challenges/verify-credential', {
        credential: modern,
        resource: `${path}/a`,
        amountSats: 5
      })
    )
  )
  t.equal(
    races.filter(race => (race.json() as { valid: boolean }).valid).length,
    1,
    'of twelve concurrent calls one consumes'
  )
  t.match(
    (
      await shop.gateway.merchantSend('POST', '/api/l402/challenges/verify', { macaroon: made.macaroon, preimage })
    ).json(),
    { valid: false, error: String },
    'and its macaroon buys nothing more'
  )
})

t.test('/l402/test/ping: 402, then pong; the Payment credential once', async t => {
  const shop = await openShop(t)
  const token = await buy(shop.gateway, '/l402/test/ping')
  for (let use = 0; use < 2; use++)
    t.match((await shop.gateway.send('GET', '/l402/test/ping', authorization(token))).json(), {
      message: 'pong',
      paymentHash: /^[0-9a-f]{64}$/
    })
  const modern = await buy(shop.gateway, '/l402/test/ping', 'payment')
  t.equal((await shop.gateway.send('GET', '/l402/test/ping', authorization(modern))).status, 200)
  t.equal((await shop.gateway.send('GET', '/l402/test/ping', authorization(modern))).status, 402)
  t.equal((await shop.gateway.send('POST', '/l402/test/ping')).status, 405)
})

t.test(
  'Caveats ExpiresAt: "configurable per endpoint", of a proxy too; what the proxy says is for the others',
  async t => {
    const clock = new ManualClock()
    const shop = await openShop(t, { clock })
    const { gateway } = shop
    const { id, path } = await shop.proxy({
      tokenValiditySeconds: 600,
      endpoints: [{ pathPattern: '/short/*', priceSats: 5, tokenValiditySeconds: 60 }]
    })
    t.match((await gateway.merchantSend('GET', `/api/proxy/${id}`)).json(), {
      tokenValiditySeconds: 600,
      endpoints: [{ tokenValiditySeconds: 60 }]
    })
    for (const tokenValiditySeconds of [59, 31_536_001, 60.5, '60']) {
      t.equal(
        (
          await gateway.merchantSend('PUT', `/api/proxy/${id}`, {
            endpoints: [{ pathPattern: '/short/*', priceSats: 5, tokenValiditySeconds }]
          })
        ).status,
        400,
        String(tokenValiditySeconds)
      )
    }
    const [short, long] = [await buy(gateway, `${path}/short/a`), await buy(gateway, `${path}/long`)]
    clock.advance(59_000)
    t.equal((await gateway.send('GET', `${path}/short/a`, authorization(short))).status, 200)
    t.equal((await gateway.send('GET', `${path}/long`, authorization(long))).status, 200)
    clock.advance(2_000)
    const expired = await gateway.send('GET', `${path}/short/a`, authorization(short))
    t.equal(expired.status, 403)
    t.match(expired.text, /expired/i)
    t.equal((await gateway.send('GET', `${path}/long`, authorization(long))).status, 200)
  }
)
