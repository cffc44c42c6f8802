import { randomBytes } from 'node:crypto'
import { gunzipSync, gzipSync } from 'node:zlib'
import t from 'tap'
import { request as fetched } from 'undici'
import { passing } from '../balances/fixture.ts'
import { buyKey } from '../shop.ts'
import { eventually } from '../../support/gateway-process.ts'
import { createLog } from '../../../src/platform/telemetry/log.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import {
  type Echo,
  countedOf,
  openShop,
  offerOf,
  paymentLines,
  receiptOf,
  returnInvoice,
  token,
  type Shop
} from './fixture.ts'

const JSON_BODY = { 'content-type': 'application/json; charset=utf-8' }

/** What is left of a session as its rows say, once what was settled is written. */
async function left({ gateway }: Shop, authorization: string, msat: number) {
  return await eventually(`${msat} millisatoshis are left`, async () => {
    const told = (await gateway.send('GET', '/l402/balance', { headers: { authorization } })).json()
    const { balanceMsat } = told as { balanceMsat: number }
    return balanceMsat === msat ? msat : null
  })
}

t.test('a 402 offers a session behind the charge, with a deposit of its own', async t => {
  const shop = await openShop(t)
  const answer = await shop.get()
  t.equal(answer.status, 402)
  t.same(
    paymentLines(answer).map(({ intent }) => intent),
    ['charge', 'session']
  )
  const { challenge, request } = offerOf(answer)
  t.match(challenge, { method: 'lightning', intent: 'session', realm: /./, expires: /Z$/ })
  t.match(request, {
    amount: '2',
    currency: 'sat',
    unitType: 'chunk',
    depositAmount: '100',
    depositInvoice: /^lnbcrt1u1/,
    paymentHash: /^[0-9a-f]{64}$/,
    idleTimeout: '300'
  })
  t.match(answer.json(), {
    l402: { amount_sats: 2 },
    session: { deposit_sats: 100, unit_sats: 2, unit: 'chunk', payment_hash: request['paymentHash'] }
  })
  const answers = async (value: string) =>
    paymentLines(await shop.get(undefined, '/v1/a', { 'accept-payment': value })).map(({ intent }) => intent)
  t.same(await answers('lightning/session, lightning/charge;q=0.5'), ['session', 'charge'])
  t.same(await answers('lightning/charge, lightning/session;q=0'), ['charge'])
  t.same(await answers('lightning/session, lightning/charge;q=0'), ['session'])
})

t.test('a response that failed has no receipt', async t => {
  const shop = await openShop(t)
  const { bearer } = await shop.open()
  for (const status of [302, 404, 500]) {
    shop.upstream.answer = (_request, response) => {
      response.writeHead(status).end()
    }
    const answer = await shop.get(bearer)
    t.same([answer.status, answer.headers['payment-receipt']], [status, undefined])
  }
})

t.test('a session beside a paid key is two credentials', async t => {
  const shop = await openShop(t, 'price: 2 sats\n    sessions: { deposit: 100 sats }\n    keys: true')
  const { bearer } = await shop.open()
  const { key } = await buyKey(shop.gateway)
  t.equal((await shop.get(bearer, '/v1/a', { 'x-api-key': key })).status, 400)
  t.equal((await shop.get(`Bearer ${key}`)).status, 200)
  t.equal((await shop.get(bearer)).status, 200)
  t.equal(await left(shop, bearer, 96_000), 96_000, 'the opening and one request')
})

t.test('a deposit opens a session, which serves until it is closed and what is left is paid back', async t => {
  const shop = await openShop(t)
  const session = await shop.open()
  t.match(session.answer, { status: 200, text: '{"served":1}' })
  t.match(receiptOf(session.answer), { method: 'lightning', reference: session.id, status: 'success' })
  t.match(session.answer.headers, { 'x-charged-msat': '2000', 'cache-control': 'private' })
  for (let time = 0; time < 3; time++) {
    const answer = await shop.get(session.bearer, `/v1/other/${time}`)
    t.equal(answer.status, 200, 'any route of the operator that offers sessions')
    t.match(receiptOf(answer), { reference: session.id })
  }
  t.equal(await left(shop, session.bearer, 92_000), 92_000, 'bearer takes nothing but what is served')

  const closed = await shop.get(session.close)
  t.match(closed, { status: 200, headers: JSON_BODY })
  t.same(closed.json(), { status: 'closed', refundSats: 92, refundStatus: 'succeeded' })
  t.match(receiptOf(closed), { reference: session.id, refundSats: 92, refundStatus: 'succeeded' })
  t.same((await shop.get(session.close)).json(), closed.json(), 'a repetition is answered alike')
  t.equal((await shop.get(session.close)).status, 200)
  t.match(await shop.store.find(session.id), {
    refundStatus: 'confirmed',
    refundSats: 92,
    spentMsat: 8_000,
    refundedMsat: 92_000,
    heldMsat: 0
  })
  const [{ count } = { count: 0 }] = await shop.gateway.database.sql<{ count: number }[]>`
    select count(*)::int as count from sandbox_payouts`
  t.equal(count, 1, 'paid back once')

  const refused = await shop.get(session.bearer)
  t.match(refused, { status: 402, headers: { 'content-type': /^application\/problem\+json/ } })
  t.match(refused.json(), { type: 'https://paymentauth.org/problems/lightning/session-closed', status: 402 })
  t.ok(offerOf(refused), 'with a fresh challenge')
  t.equal(shop.upstream.requests.length, 4)
  t.same(await countedOf(shop), [
    'boltgate_payments_total{source="route",scheme="payment"} 1',
    'boltgate_satoshis_earned_total{source="route",scheme="payment"} 100',
    'boltgate_sessions_opened_total 1',
    'boltgate_session_deposits_satoshis_total{action="open"} 100',
    'boltgate_sessions_closed_total{by="client"} 1',
    'boltgate_session_refunds_total{result="confirmed"} 1',
    'boltgate_session_refunded_satoshis_total 92'
  ])
})

t.test('a repeated open gets the first response, and another request by it is served as bearer', async t => {
  const shop = await openShop(t)
  const session = await shop.open()
  const again = await shop.get(session.open)
  t.match(again, { status: 200, text: session.answer.text })
  t.same(receiptOf(again), receiptOf(session.answer))
  t.equal(shop.upstream.requests.length, 1, 'nothing is served twice')
  t.equal((await shop.get(session.open, '/v1/else')).text, '{"served":2}')
  t.equal(await left(shop, session.bearer, 96_000), 96_000)
})

t.test(
  'a repeated open gets the headers by which the first response is read, and what pages may see of it',
  async t => {
    const shop = await openShop(
      t,
      'meter: { unit: page, bundle: 100 sats, prices: 2 sats, usage: requests }\n    sessions: { deposit: 100 sats }'
    )
    // More than one read of the connection, whose memory is reused.
    const text = randomBytes(100_000).toString('hex')
    shop.upstream.answer = (_request, response) => {
      response.setHeader('content-type', 'text/plain')
      response.setHeader('content-encoding', 'gzip')
      response.setHeader('content-language', 'de')
      response.end(gzipSync(text))
    }
    const session = await shop.deposit()
    const opened = async () => {
      const { headers, body } = await fetched(`${shop.gateway.url}/v1/a`, {
        headers: { authorization: session.open, 'accept-encoding': 'gzip', origin: 'https://shop.example' }
      })
      return { headers, body: Buffer.from(await body.arrayBuffer()) }
    }
    const [first, again] = [await opened(), await opened()]
    for (const { headers, body } of [first, again]) {
      t.match(headers, { 'content-encoding': 'gzip', 'content-language': 'de', 'x-charged-msat': '2000' })
      t.match(headers['access-control-expose-headers'], /\bX-Balance-Msat, X-Charged-Msat\b/)
      t.ok(gunzipSync(body).toString() === text)
    }
    t.not(again.headers['x-correlation-id'], first.headers['x-correlation-id'], 'each has its own correlation id')
    t.equal(shop.upstream.requests.length, 1)
  }
)

t.test('a topUp adds to the balance once, whatever is repeated', async t => {
  const shop = await openShop(t)
  const session = await shop.open()
  const { challenge, preimage: topUpPreimage } = await shop.pay()
  const topUp = token(challenge, { action: 'topUp', sessionId: session.id, topUpPreimage })
  for (let time = 0; time < 3; time++) {
    const answer = await shop.get(topUp)
    t.match(answer, { status: 200, text: '{"status":"ok"}' })
    t.match(receiptOf(answer), { reference: session.id })
  }
  t.equal(shop.upstream.requests.length, 1, 'it starts nothing')
  t.equal(await left(shop, session.bearer, 198_000), 198_000)
  t.same(
    await countedOf(shop),
    [
      'boltgate_payments_total{source="route",scheme="payment"} 2',
      'boltgate_satoshis_earned_total{source="route",scheme="payment"} 200',
      'boltgate_sessions_opened_total 1',
      'boltgate_session_deposits_satoshis_total{action="open"} 100',
      'boltgate_session_deposits_satoshis_total{action="topUp"} 100',
      'boltgate_sessions_open 1'
    ],
    'once'
  )
  const opening = token(challenge, { action: 'open', preimage: topUpPreimage, returnInvoice: returnInvoice() })
  t.equal(await shop.problem(opening), 'unknown-challenge', 'it opens no other session')
  t.same(await shop.refund(session.close), [198, 'succeeded'])
  t.equal((await shop.get(topUp)).status, 200, 'what was counted stays reported forever')
})

t.test('every fault of a credential has its problem, and uses nothing up', async t => {
  const shop = await openShop(t)
  const session = await shop.open()
  const { challenge, preimage } = await shop.pay()
  const other = '0'.repeat(64)
  const open = { action: 'open', preimage, returnInvoice: returnInvoice() }
  const bearer = { action: 'bearer', sessionId: session.id, preimage: session.preimage }
  const cases: Array<[slug: string, challenge: object, payload: object]> = [
    ['malformed-credential', challenge, { ...open, action: 'Open' }],
    ['malformed-credential', challenge, { ...open, preimage: 'x' }],
    ['unknown-challenge', { ...challenge, id: 'A'.repeat(43) }, open],
    ['unknown-challenge', { ...challenge, realm: 'elsewhere' }, open],
    ['unknown-challenge', { ...challenge, expires: '2099-01-01T00:00:00Z' }, open],
    ['invalid-preimage', challenge, { ...open, preimage: other }],
    ['invalid-preimage', challenge, { action: 'topUp', sessionId: session.id, topUpPreimage: other }],
    ['invalid-preimage', challenge, { ...bearer, preimage: other }],
    ['invalid-preimage', challenge, { ...bearer, action: 'close', preimage: other }],
    ['session-not-found', challenge, { ...bearer, sessionId: other }],
    ['session-not-found', challenge, { ...bearer, action: 'close', sessionId: other }],
    ['session-not-found', challenge, { action: 'topUp', sessionId: other, topUpPreimage: preimage }],
    ['invalid-return-invoice', challenge, { ...open, returnInvoice: 'lnbcrt1p5abc' }],
    ['invalid-return-invoice', challenge, { ...open, returnInvoice: returnInvoice({ amountMsat: 1000n }) }],
    ['invalid-return-invoice', challenge, { ...open, returnInvoice: returnInvoice({ network: 'mainnet' }) }],
    ['invalid-return-invoice', challenge, { ...open, returnInvoice: returnInvoice({ at: 0, expirySeconds: 60 }) }]
  ]
  for (const [slug, echoed, payload] of cases) {
    const answer = await shop.get(token(echoed, payload))
    t.match(answer, {
      status: 402,
      headers: { 'content-type': /^application\/problem\+json/, 'cache-control': 'no-store' }
    })
    t.match(answer.json(), { type: `https://paymentauth.org/problems/lightning/${slug}`, status: 402, detail: /./ })
    t.equal((answer.json() as { challengeId: string }).challengeId, offerOf(answer).challenge['id'], 'of the session')
  }
  t.equal(shop.upstream.requests.length, 1)
  t.equal((await shop.get(token(challenge, open))).status, 200, 'the deposit is still valid')
  const own = await shop.store.find(session.id)
  const twice = (await shop.deposit({ invoice: own?.returnInvoice ?? '' })).open
  t.match((await shop.get(twice)).json(), { type: /invalid-return-invoice$/, detail: /Another session/ })
})

/** Time passes until the challenges that were made have ended. */
async function ended(shop: Shop, clock: ManualClock) {
  clock.leap(7_200_000)
  // Connections at rest were closed, which the client must have seen.
  await eventually('the gateway is heard again', () => shop.ask().catch(() => null))
}

t.test('a deposit that was paid in time is valid though its challenge has ended, once', async t => {
  const begun = Math.floor(Date.now() / 1000) * 1000
  const clock = new ManualClock(begun)
  const shop = await openShop(t, undefined, { clock })
  const first = await shop.deposit()
  const { challenge, preimage: topUpPreimage } = await shop.pay()
  await ended(shop, clock)
  const opened = await shop.get(first.open)
  t.equal(opened.status, 200)
  const topUp = token(challenge, { action: 'topUp', sessionId: first.id, topUpPreimage })
  for (let time = 0; time < 2; time++) t.match(await shop.get(topUp), { status: 200, text: '{"status":"ok"}' })
  t.match(await shop.store.find(first.id), { depositedMsat: 200_000, expiresAt: begun + 30 * 86_400_000 - 600_000 })
  t.equal((await shop.get(first.bearer)).status, 200)
  // It waits for the request before, which the gateway may still be settling when its client has the response.
  t.same(await passing(t, clock, shop.gateway.database, shop.refund(first.close)), [196, 'succeeded'])
  const again = await shop.get(first.open)
  t.equal(again.text, opened.text, 'its response is kept')
  await ended(shop, clock)
  t.equal(await shop.problem(first.open), 'session-closed')
  t.equal(shop.upstream.requests.length, 2)
})

t.test('a deposit that was not paid in time is reported as such, and one that cannot be looked up is 503', async t => {
  const clock = new ManualClock(Date.now())
  const lines: string[] = []
  const log = createLog({ level: 'warn', destination: { write: line => void lines.push(line) } })
  const shop = await openShop(t, undefined, { clock, log })
  const { sql } = shop.gateway.database
  const { challenge, request } = await shop.ask()
  const [row] = await sql<Array<{ preimage: string }>>`
    select preimage from sandbox_invoices where payment_hash = ${request['paymentHash'] ?? ''}`
  const paid = await shop.deposit()
  await ended(shop, clock)
  const expired = { type: 'https://paymentauth.org/problems/lightning/challenge-expired', status: 402 }
  for (const preimage of [row?.preimage ?? '', '0'.repeat(64)]) {
    const answer = await shop.get(token(challenge, { action: 'open', preimage, returnInvoice: returnInvoice() }))
    t.match(answer.json(), expired)
    t.ok(offerOf(answer), 'with a fresh challenge')
  }
  t.match(
    lines.map(line => JSON.parse(line) as object),
    [
      {
        paymentHash: request['paymentHash'],
        provider: 'sandbox',
        status: 'expired',
        msg: /does not say that it was paid$/
      }
    ]
  )
  // Its provider has sent no notification.
  await sql`update challenges set settled_at = null where payment_hash = ${paid.id}`
  await sql`alter table sandbox_invoices rename to away`
  t.match(await shop.get(paid.open), { status: 503, headers: { 'retry-after': /./ } })
  await sql`alter table away rename to sandbox_invoices`
  t.equal((await shop.get(paid.open)).status, 200, 'nothing was used up')
})

t.test('a deposit that was paid and never shown is listed among sales', async t => {
  const clock = new ManualClock(Date.now())
  const shop = await openShop(t, undefined, { clock })
  const { id, open } = await shop.deposit()
  const found = async () => {
    const sales = await shop.gateway.adminSend('GET', '/api/admin/sales?source=session&state=settled')
    return (sales.json() as { sales: unknown[] }).sales
  }
  t.match(await found(), [{ paymentHash: id, source: 'session', state: 'settled', sats: 100 }])
  await ended(shop, clock)
  t.equal((await shop.get(open)).status, 200)
  t.same(await found(), [])
})

t.test('a balance that does not cover the next unit is reported, and a smaller rest is paid back', async t => {
  const costly =
    'match: { path: /costly }\n    chain: paid\n    upstream: { url: "http://127.0.0.1:1" }\n    price: 101 sats\n    sessions: { deposit: 202 sats }'
  const shop = await openShop(t, `price: 40 sats\n    sessions: { deposit: 100 sats }\n  - ${costly}`)
  const session = await shop.deposit()
  const tooCostly = (await shop.get(session.open, '/costly')).json()
  t.match(tooCostly, { type: /lightning\/insufficient-balance$/, detail: /deposit of 100 satoshis.* 101$/ })
  t.equal(await shop.store.find(session.id), null)
  t.equal((await shop.get(session.open)).status, 200)
  t.equal((await shop.get(session.bearer)).status, 200)
  const short = await shop.get(session.bearer)
  t.match(short, { status: 402, headers: { 'x-balance-msat': '20000' } })
  t.match(short.json(), { type: /lightning\/insufficient-balance$/, detail: /20000 millisatoshis.*40000/ })
  t.equal(shop.upstream.requests.length, 2)
  t.same(await shop.refund(session.close), [20, 'succeeded'])
})

t.test('nothing is left of a session that was used up', async t => {
  const shop = await openShop(t, 'price: 50 sats\n    sessions: { deposit: 100 sats }')
  const session = await shop.open()
  await shop.get(session.bearer)
  t.same(await shop.refund(session.close), [0, 'skipped'])
})

t.test('a payment for one thing is no key to another', async t => {
  const shop = await openShop(t)
  const session = await shop.open()
  const legacy = await shop.get(`Payment method="lightning", preimage="${session.preimage}"`)
  t.equal(legacy.status, 402, 'a deposit buys no request')
  const [{ parameters } = { parameters: {} as Echo }] = paymentLines(await shop.get())
  const preimage = await shop.gateway.pay(parameters['invoice'] ?? '')
  const { challenge } = await shop.ask()
  const said = JSON.parse(Buffer.from(parameters['request'] ?? '', 'base64url').toString()) as {
    methodDetails: { paymentHash: string }
  }
  const id = said.methodDetails.paymentHash
  const charge = token(challenge, { action: 'bearer', sessionId: id, preimage })
  t.equal(await shop.problem(charge), 'session-not-found', 'a charge is no session')
  t.equal((await shop.get(token(parameters, { preimage }))).status, 200, 'and is still valid for what it bought')
  t.equal(shop.upstream.requests.length, 2)
})

t.test('discovery lists sessions', async t => {
  const shop = await openShop(t)
  const told = async (path: string) => await shop.gateway.send('GET', path)
  const words =
    /Also from a prepaid session \(Payment scheme, lightning\/session\): 100 sats as a deposit, and what is left is paid back when it is closed, at the latest after 5m at rest/
  t.match((await told('/openapi.json')).json(), {
    paths: {
      '/v1/{path}': {
        get: {
          'x-payment-info': {
            offers: [
              { intent: 'charge', amount: '2' },
              { intent: 'session', amount: '2', currency: 'sat' }
            ],
            terms: [{}, { unitType: 'chunk', depositAmount: '100', idleTimeout: '300' }]
          }
        }
      }
    }
  })
  t.match((await told('/llms.txt')).text, words)
  t.match((await told('/api/l402/pricing')).json(), {
    endpoints: [{ pathPattern: '/v1/*', priceSats: 2, price: words }]
  })
})
