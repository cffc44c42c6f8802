import t, { type Test as T } from 'tap'
import { decodeMacaroonBase64, macaroonToBase64 } from '../../../src/lightning/l402/macaroon.ts'
import { encodePaymentToken, decodeReceipt } from '../../../src/lightning/payment-scheme/payment-credential.ts'
import type { Merchant } from '../../../src/accounts/merchants/schema.ts'
import { eachDatabase } from '../../support/database.ts'
import { freshAddress, minted, modern, narrowed, offer } from './fixture.ts'
import { paymentLine } from '../../../src/selling/minting/replies.ts'
import {
  CHALLENGES,
  merchantApi,
  producer,
  PROBLEMS,
  text,
  type Json,
  type ProducerFixture
} from './producer-fixture.ts'

const VERIFY = `${CHALLENGES}/verify`
const CONSUME = `${CHALLENGES}/verify-credential`
const PAYMENT = 'https://paymentauth.org/problems'

interface Bought {
  readonly data: Json
  readonly macaroon: string
  readonly preimage: string
  readonly hash: string
  /** A modern credential, with the word Payment. */
  readonly credential: string
}

async function buy(f: ProducerFixture, merchant: Merchant, resource = '/v1/quote', priceSats = 10): Promise<Bought> {
  const { data } = await f.call(merchant, 'POST', CHALLENGES, { resource, priceSats })
  const preimage = f.payee.pay(text(data, 'invoice'))
  const line = data['mppChallenge']
  return {
    data,
    macaroon: text(data, 'macaroon'),
    preimage,
    hash: text(data, 'paymentHash'),
    credential: typeof line === 'string' ? modern([line], preimage) : ''
  }
}

const SOLD = { valid: true, consumed: true }
const refusal = (slug: string, error: string | RegExp = /./) => ({
  valid: false,
  consumed: false,
  error,
  type: `${PAYMENT}/${slug}`
})

/** What a merchant asks about credentials, and what was bought of it. */
async function setting(t: T, ...more: Parameters<typeof producer> extends [T, ...infer Rest] ? Rest : never) {
  const { f, merchant, call } = await merchantApi(t, undefined, ...more)
  const verify = (body: unknown) => call('POST', VERIFY, body)
  const consume = (body: unknown) => call('POST', CONSUME, body)
  return { f, merchant, verify, consume, purchase: (resource?: string) => buy(f, merchant, resource) }
}

async function status(f: ProducerFixture, merchant: Merchant, hash: string) {
  return (await f.call(merchant, 'GET', `${CHALLENGES}/${hash}`)).data
}

t.test('verify: a valid token returns its scope, as often as it is sent (contract; decision 106)', async t => {
  const { f, merchant, verify, purchase } = await setting(t)
  const { macaroon, preimage, hash } = await purchase()
  const expected = { valid: true, resource: '/v1/quote', merchantId: merchant.id, amountSats: 10, paymentHash: hash }
  const first = await verify({ macaroon, preimage })
  t.equal(first.status, 200)
  t.same(first.data, expected)
  t.same((await verify({ macaroon, preimage: preimage.toUpperCase() })).data, expected, 'upper-case hex too')
  t.equal((await f.call(merchant, 'POST', '/api/l402/endpoints/retire', { resource: '/v1/quote' })).status, 204)
  t.same(
    (await (await f.elsewhere())(merchant, 'POST', VERIFY, { macaroon, preimage })).data,
    expected,
    'a retired one'
  )
  t.match(f.counted.lines, [
    'challenge producer new',
    'payment producer l402 10',
    'verified l402 ok',
    'verified l402 ok',
    'verified l402 ok'
  ])
})

t.test(
  'verify: the first verification marks it paid and notifies once; its time is kept (contract; decision 109)',
  async t => {
    const notified: string[] = []
    const { f, merchant, verify, purchase } = await setting(t, {}, undefined, async (_tx, paid) => {
      notified.push(...paid.map(({ paymentHash }) => paymentHash))
    })
    const { macaroon, preimage, hash } = await purchase()
    t.match(await status(f, merchant, hash), { status: 'unpaid', paidAt: null })
    f.clock.advance(5000)
    const paidAt = new Date(f.clock.now()).toISOString()
    await Promise.all(Array.from({ length: 5 }, () => verify({ macaroon, preimage })))
    f.clock.advance(5000)
    await verify({ macaroon, preimage })
    t.same(notified, [hash])
    t.match(await status(f, merchant, hash), { status: /^paid$/, paidAt })
    t.equal((await f.call(merchant, 'GET', `${CHALLENGES}?status=paid`)).data['total'], 1)
  }
)

t.test('verify: a late valid token turns expired into paid (decision 109)', async t => {
  const { f, merchant, verify, purchase } = await setting(t)
  const { macaroon, preimage, hash } = await purchase()
  f.clock.advance(1_800_000)
  t.match(await status(f, merchant, hash), { status: 'expired' })
  t.match((await verify({ macaroon, preimage })).data, { valid: true })
  t.match(await status(f, merchant, hash), { status: /^paid$/ })
  f.clock.advance(1_800_001)
  t.match((await verify({ macaroon, preimage })).data, {
    valid: false,
    error: 'Token expired'
  })
})

t.test(
  'verify: a missing or empty member is 400, everything else that is wrong 200 with valid: false (decision 106)',
  async t => {
    const { f, merchant, verify, purchase } = await setting(t)
    const one = await purchase()
    const two = await purchase()
    for (const body of [
      {},
      { macaroon: one.macaroon },
      { preimage: one.preimage },
      { macaroon: '', preimage: one.preimage },
      { macaroon: one.macaroon, preimage: '' },
      { macaroon: null, preimage: one.preimage }
    ]) {
      const reply = await verify(body)
      t.equal(reply.status, 400)
      t.match(reply.data, { type: `${PROBLEMS}/invalid-request`, error: 'Invalid request' })
    }
    const forged = decodeMacaroonBase64(one.macaroon)
    const edited = macaroonToBase64({
      ...forged,
      caveats: forged.caveats.map(caveat =>
        Buffer.from(caveat).toString() === 'amount_sats=10' ? Buffer.from('amount_sats=11') : caveat
      )
    })
    const wrong: [string, string, RegExp | string][] = [
      ['not base64!', one.preimage, /macaroon cannot be read/],
      ['AAAA', one.preimage, /macaroon cannot be read/],
      [one.macaroon, 'xyz', 'The preimage must be exactly 64 hex characters'],
      [one.macaroon, `0x${one.preimage}`, 'The preimage must be exactly 64 hex characters'],
      [one.macaroon, two.preimage, 'Preimage does not match payment hash'],
      [two.macaroon, one.preimage, 'Preimage does not match payment hash'],
      [edited, one.preimage, 'Invalid macaroon signature'],
      [narrowed(one.macaroon, 'colour=red'), one.preimage, 'Unknown caveat: colour'],
      [narrowed(one.macaroon, 'path=/v1/other'), one.preimage, /Repeated caveat path/]
    ]
    for (const [macaroon, preimage, error] of wrong) {
      const reply = await verify({ macaroon, preimage })
      t.equal(reply.status, 200)
      t.match(reply.data, { valid: false, error })
      t.same(Object.keys(reply.data), ['valid', 'error'])
    }
    t.match(await status(f, merchant, one.hash), { status: 'unpaid' }, 'no call was a first verification')
  }
)

t.test("verify: another merchant's token, an operator's and one of a proxy are refused and stay unpaid", async t => {
  const { f, merchant, verify } = await setting(t)
  const other = await f.merchant()
  const bought = await buy(f, other)
  t.match((await verify(bought)).data, {
    valid: false,
    error: 'Token not valid for this merchant'
  })
  t.match(await status(f, other, bought.hash), { status: 'unpaid' })
  const operators = await minted(f)
  t.match((await verify({ macaroon: operators.macaroon, preimage: f.payee.pay(operators.invoice) })).data, {
    valid: false,
    error: 'Token missing required merchant_id caveat'
  })
  const merchantId = String(merchant.id)
  const proxied = await minted(f, { source: 'proxy', service: 'api-123456:0', merchantId })
  t.match((await verify({ macaroon: proxied.macaroon, preimage: f.payee.pay(proxied.invoice) })).data, {
    valid: false,
    error: 'Token not valid for this service'
  })
  // A store of that name has the same service caveat.
  const stored = await minted(f, { source: 'storefront', service: 'producer:0', merchantId })
  t.match((await verify({ macaroon: stored.macaroon, preimage: f.payee.pay(stored.invoice) })).data, {
    valid: false,
    error: 'The payment of this token is not known'
  })
  t.match(await f.selling.claims.find(stored.paymentHash), { paidAt: null })
})

t.test('verify: a wildcard resource stays one, and a narrowed token says only what is left of it', async t => {
  const { verify, purchase } = await setting(t)
  const { macaroon, preimage } = await purchase('/docs/*')
  t.match((await verify({ macaroon, preimage })).data, { valid: true, resource: '/docs/*' })
  t.match((await verify({ macaroon: narrowed(macaroon, 'path=/docs/a'), preimage })).data, {
    valid: true,
    resource: '/docs/a'
  })
  t.match((await verify({ macaroon: narrowed(macaroon, 'path=/other'), preimage })).data, { valid: false })
})

t.test('verify: an unavailable database is 503 and no verdict', async t => {
  const { f, merchant, purchase } = await setting(t)
  const bought = await purchase()
  f.watched.broken.add('claim').add('consume')
  for (const [path, body] of [
    [VERIFY, { macaroon: bought.macaroon, preimage: bought.preimage }],
    [CONSUME, { credential: bought.credential }]
  ] as const) {
    const reply = await f.call(merchant, 'POST', path, body)
    t.equal(reply.status, 503)
    t.match(reply.data, { type: `${PROBLEMS}/service-unavailable` })
    t.ok(reply.headers.has('retry-after'))
  }
})

t.test('verify-credential: consumes once and gives the receipt for the payer (contract; decision 107)', async t => {
  const notified: string[] = []
  const { f, merchant, consume, purchase } = await setting(t, {}, undefined, async (_tx, paid) => {
    notified.push(...paid.map(({ paymentHash }) => paymentHash))
  })
  const bought = await purchase()
  const reply = await consume({
    credential: bought.credential,
    resource: '/v1/quote',
    amountSats: 10
  })
  t.equal(reply.status, 200)
  t.match(reply.data, {
    valid: true,
    consumed: true,
    resource: '/v1/quote',
    merchantId: merchant.id,
    amountSats: 10,
    paymentHash: bought.hash
  })
  t.same(Object.keys(reply.data), [
    'valid',
    'consumed',
    'resource',
    'merchantId',
    'amountSats',
    'paymentHash',
    'receipt'
  ])
  const id = /id="([^"]+)"/.exec(text(bought.data, 'mppChallenge'))?.[1]
  t.same(decodeReceipt(text(reply.data, 'receipt')), {
    challengeId: id,
    method: 'lightning',
    reference: bought.hash,
    status: 'success',
    timestamp: '2026-11-21T00:00:00Z'
  })
  const again = await consume({ credential: bought.credential })
  t.equal(again.status, 200)
  t.same(again.data, {
    valid: false,
    consumed: false,
    error: 'The credential was already redeemed',
    type: `${PAYMENT}/verification-failed`
  })
  t.same(notified, [bought.hash])
  t.match(await status(f, merchant, bought.hash), { status: /^paid$/ })
  t.match(await f.selling.claims.find(bought.hash), { state: 'spent', scheme: 'payment' })
  t.equal(f.challenges.leases.open, 0)
})

t.test('verify-credential: with or without the word Payment, in any case (contract)', async t => {
  const { consume, purchase } = await setting(t)
  for (const form of [
    (token: string) => token,
    (token: string) => `Payment ${token}`,
    (token: string) => ` payment  ${token} `
  ]) {
    const { credential } = await purchase()
    t.match((await consume({ credential: form(credential.slice('Payment '.length)) })).data, SOLD)
  }
})

t.test('verify-credential: another resource or amount refuses and does not consume (contract)', async t => {
  const { consume, purchase } = await setting(t)
  const { credential } = await purchase()
  t.match((await consume({ credential, resource: '/v1/other' })).data, refusal('verification-failed'))
  t.match((await consume({ credential, amountSats: 9 })).data, refusal('payment-insufficient'))
  t.match((await consume({ credential })).data, SOLD)
})

t.test("verify-credential: another merchant's and a proxy's credential refuse and are not consumed", async t => {
  const { f, merchant, consume } = await setting(t)
  const other = await f.merchant()
  const { credential } = await buy(f, other)
  t.match((await consume({ credential })).data, refusal('verification-failed', /another merchant/))
  t.match((await f.call(other, 'POST', CONSUME, { credential })).data, SOLD)
  const proxied = await minted(f, { source: 'proxy', service: 'api-123456:0', merchantId: String(merchant.id) })
  const ofProxy = modern([paymentLine(proxied) ?? ''], f.payee.pay(proxied.invoice))
  t.match((await consume({ credential: ofProxy })).data, refusal('verification-failed', /producer API/))
  t.match(await f.selling.claims.find(proxied.paymentHash), { state: 'unspent' })
})

t.test(
  'verify-credential: what is no genuine modern credential refuses with its type; a missing one is 400',
  async t => {
    const { f, consume, purchase } = await setting(t)
    const bought = await purchase()
    const { preimage, credential } = bought
    const line = text(bought.data, 'mppChallenge')
    const wrong: [string, string][] = [
      [`Payment method="lightning", preimage="${preimage}"`, 'invalid-challenge'],
      [`L402 ${bought.macaroon}:${preimage}`, 'invalid-challenge'],
      ['Payment %%%', 'invalid-challenge'],
      [credential.slice(0, -20), 'invalid-challenge'],
      [modern([line], preimage, { realm: 'other.example' }), 'invalid-challenge'],
      [modern([line], preimage, { expires: '2030-01-01T00:00:00Z' }), 'invalid-challenge'],
      [modern([line], '0'.repeat(64)), 'verification-failed'],
      [`Payment ${encodePaymentToken({}, preimage)}`, 'invalid-challenge']
    ]
    for (const [given, slug] of wrong) {
      const reply = await consume({ credential: given })
      t.equal(reply.status, 200)
      t.match(reply.data, refusal(slug))
    }
    for (const body of [{}, { credential: '' }, { credential, amountSats: '10' }])
      t.equal((await consume(body)).status, 400)
    f.clock.advance(600_001)
    t.match((await consume({ credential })).data, refusal('verification-failed', 'The challenge has expired'))
  }
)

t.test('one payment is one purchase: what one scheme has claimed the other refuses', async t => {
  const { verify, consume, purchase } = await setting(t)
  const [one, two] = [await purchase(), await purchase()]
  t.match((await verify(one)).data, { valid: true })
  t.match((await consume({ credential: one.credential })).data, {
    valid: false,
    error: /another scheme/
  })
  t.match((await consume({ credential: two.credential })).data, { valid: true })
  t.match((await verify(two)).data, { valid: false, error: /Payment scheme/ })
})

t.test('a scheme that is off verifies nothing', async t => {
  const on = await producer(t)
  const merchant = await on.merchant()
  const bought = await buy(on, merchant)
  on.selling.configure({ settings: { ...on.challenges.settings, schemes: ['payment'] }, keys: on.keys })
  t.match((await on.call(merchant, 'POST', VERIFY, bought)).data, { valid: false, error: /not enabled/ })
  on.selling.configure({ settings: { ...on.challenges.settings, schemes: ['l402'] }, keys: on.keys })
  t.match((await on.call(merchant, 'POST', CONSUME, { credential: bought.credential })).data, {
    valid: false,
    consumed: false,
    type: `${PAYMENT}/method-unsupported`
  })
})

t.test(
  "verify-credential: when only the database's answer was lost, the payment is given back for the next try",
  async t => {
    const { f, consume, purchase } = await setting(t)
    const { credential, hash } = await purchase()
    f.watched.deaf.add('consume')
    t.equal((await consume({ credential })).status, 503)
    f.watched.deaf.clear()
    await f.challenges.leases.close()
    t.match(await f.selling.claims.find(hash), { state: 'unspent' })
    t.match((await consume({ credential })).data, { valid: true, consumed: true })
  }
)

void eachDatabase(t, 'concurrent credentials', async (t: T, database) => {
  await t.test(
    'of 40 concurrent verify-credential calls on two gateways exactly one consumes (contract, Pay-per-request challenge: atomic)',
    async t => {
      const { f, merchant, purchase } = await setting(t, {}, database)
      const elsewhere = await f.elsewhere()
      const { credential } = await purchase()
      const replies = await Promise.all(
        Array.from({ length: 40 }, (_, index) =>
          (index % 2 === 0 ? f.call : elsewhere)(merchant, 'POST', CONSUME, { credential })
        )
      )
      t.ok(replies.every(reply => reply.status === 200))
      t.equal(replies.filter(reply => reply.data['valid'] === true && reply.data['consumed'] === true).length, 1)
      t.equal(replies.filter(reply => reply.data['valid'] === false && reply.data['consumed'] === false).length, 39)
    }
  )
})

t.test('status: a valid token is authenticated, without being used (contract; decision 128)', async t => {
  const { f, merchant, purchase } = await setting(t)
  const { macaroon, preimage, hash } = await purchase()
  const ask = (authorization?: string) =>
    f.call(
      null,
      'GET',
      '/api/l402/status',
      undefined,
      authorization === undefined ? {} : { headers: { Authorization: authorization } }
    )
  const reply = await ask(`L402 ${macaroon}:${preimage}`)
  t.equal(reply.status, 200)
  t.same(reply.data, {
    authenticated: true,
    paymentHash: hash,
    expiresAt: new Date(f.clock.now() + 3_600_000).toISOString(),
    remainingRequests: null
  })
  t.match(await status(f, merchant, hash), { status: 'unpaid' }, 'asking is no first use')
  const narrowedUntil = Math.floor(f.clock.now() / 1000) + 60
  t.match((await ask(`L402 ${narrowed(macaroon, `expires=${narrowedUntil}`)}:${preimage}`)).data, {
    expiresAt: new Date(narrowedUntil * 1000).toISOString()
  })
  const refused: [string | undefined, string | RegExp][] = [
    [undefined, 'No L402 credential was sent'],
    ['Bearer abc', 'No L402 credential was sent'],
    ['L402 x', /must be/],
    [`L402 ${macaroon}:${preimage.toUpperCase()}`, /64 lower-case hex/],
    [`L402 ${macaroon}:${'0'.repeat(64)}`, 'Preimage does not match payment hash'],
    [`L402 ${narrowed(macaroon, 'x=1')}:${preimage}`, /Unknown caveat/]
  ]
  for (const [authorization, message] of refused) {
    const answer = await ask(authorization)
    t.equal(answer.status, 200)
    t.match(answer.data, { authenticated: false, message })
    t.same(Object.keys(answer.data), ['authenticated', 'message'])
  }
  const proxied = await minted(f, {
    source: 'proxy',
    service: 'api-654321:0',
    proxyId: 'api-654321',
    merchantId: String(merchant.id)
  })
  const ofProxy = `L402 ${proxied.macaroon}:${f.payee.pay(proxied.invoice)}`
  t.match((await ask(ofProxy)).data, { authenticated: true })
  await f.selling.revocations.revoke('proxy', 'api-654321')
  t.match((await ask(ofProxy)).data, { authenticated: false, message: 'The token has been revoked' })
  f.clock.advance(3_600_001)
  t.match((await ask(`L402 ${macaroon}:${preimage}`)).data, { authenticated: false, message: 'Token expired' })
})

t.test(
  "pricing: defaults, operators' priced routes, the ping, and one line for merchants' proxies (contract; decision 127)",
  async t => {
    const f = await producer(t)
    const reply = await f.call(null, 'GET', '/api/l402/pricing')
    t.equal(reply.status, 200)
    t.same(reply.data, {
      defaultPriceSats: 10,
      serviceName: 'boltgate',
      endpoints: [
        { pathPattern: '/demo/*', priceSats: 10, description: 'A quote about money' },
        { pathPattern: '/l402/test/ping', priceSats: 1, description: 'GET /l402/test/ping' },
        { pathPattern: '/default', priceSats: 10, description: '* /default' },
        { pathPattern: '/l402/proxy/*', priceSats: 'varies', description: 'APIs of merchants' }
      ],
      tokenValiditySeconds: 3600
    })
  }
)

t.test('an invoice that the sandbox has settled is not handed out again and not counted (decision 122)', async t => {
  const f = await producer(t, { maxPerClient: 2, maxPerPlace: 3 })
  const request = { clientKey: freshAddress(), digest: null }
  const at = offer({ place: `route:${request.clientKey}` })
  const one = (await f.selling.minting.mint(at, request)).challenge
  const two = (await f.selling.minting.mint(at, request)).challenge
  t.match(await f.selling.minting.mint(at, request), { again: true })
  await f.selling.settlements.settled(two.paymentHash)
  await f.selling.settlements.settled('0'.repeat(64))
  const three = await f.selling.minting.mint(at, request)
  t.equal(three.again, false)
  await f.selling.settlements.settled(three.challenge.paymentHash)
  await f.selling.settlements.settled(one.paymentHash)
  t.equal((await f.selling.minting.mint(at, request)).again, false)
  const newest = (await f.selling.minting.mint(at, request)).challenge
  f.selling.configure({ settings: { ...f.challenges.settings, maxPerClient: 1 }, keys: f.keys })
  await f.selling.settlements.settled(newest.paymentHash)
  const handed = await f.selling.minting.mint(at, request)
  t.equal(handed.again, true)
  t.not(handed.challenge.paymentHash, newest.paymentHash, 'the newest that is not settled')
  f.watched.broken.add('settled')
  await t.resolves(f.selling.settlements.settled(one.paymentHash), 'the payer is still answered')
})
