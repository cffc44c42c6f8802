import { createHmac } from 'node:crypto'
import { startKind } from '../open-kind.ts'
import t, { type Test as T } from 'tap'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { ProviderNotificationError } from '../../../src/lightning/provider-calls/errors.ts'
import { strike as strikeKind } from '../../../src/lightning/kinds/strike/strike.ts'
import { startReceiver } from '../../fakes/receiver.ts'
import { startFakeStrike, type StrikeScope } from '../../fakes/strike.ts'
import { listed } from '../providers/listed.ts'

const CANARY = 'canary-key-51ab09'
const key = new Secret(CANARY)
const request = { amountSats: 2_340, description: 'Tea', expirySeconds: 600 }
const CONTRACT_SCOPES: readonly StrikeScope[] = [
  'partner.receive-request.read',
  'partner.receive-request.create',
  'partner.webhooks.manage'
]

async function rig(t: T) {
  const { provider, open, ...made } = await startKind(t, strikeKind, ({ clock }) =>
    startFakeStrike({ clock, key: CANARY })
  )
  return { ...made, strike: provider, another: open }
}

t.test('a charge is a receive request with a Lightning invoice over the amount', async t => {
  const { clock, fake, strike } = await rig(t)
  const charge = await strike.createCharge(key, request)
  const held = fake.account.request(charge.chargeId)
  t.same(fake.requests, [
    {
      method: 'POST',
      path: '/v1/receive-requests',
      body: { bolt11: { amount: { amount: '0.00002340', currency: 'BTC' }, description: 'Tea', expiryInSeconds: 600 } },
      idempotencyKey: undefined
    }
  ])
  t.same(charge, {
    chargeId: held.id,
    invoice: held.invoice,
    paymentHash: held.paymentHash,
    expiresAt: clock.now() + 600_000,
    network: 'regtest',
    onchainAddress: null,
    checkoutUrl: null
  })
  t.equal(decodeInvoice(charge.invoice).amountSats, 2_340)
})

t.test("a description is cut to 250 characters at a character's edge, and left out when empty", async t => {
  const { fake, strike } = await rig(t)
  const long = await strike.createCharge(key, { ...request, description: `${'x'.repeat(249)}🙂!` })
  t.equal(fake.account.request(long.chargeId).description, 'x'.repeat(249))
  const empty = await strike.createCharge(key, { ...request, description: '' })
  t.equal(fake.account.request(empty.chargeId).description, null)
})

t.test('a fiat amount is converted by Strike, and its invoice is the truth', async t => {
  const { fake, strike } = await rig(t)
  const charge = await strike.createFiatCharge(key, {
    amount: '49.9',
    currency: 'EUR',
    description: 'Tea',
    expirySeconds: 600
  })
  t.match(fake.requests[0]?.body, { bolt11: { amount: { amount: '49.9', currency: 'EUR' } } })
  t.equal(decodeInvoice(charge.invoice).amountSats, 54_240)
  fake.pay(charge.chargeId)
  t.match(await strike.lookUp(key, charge.chargeId), { status: /^paid$/, receivedSats: 54_240 })
})

t.test('the payment hash may be left out or in capitals', async t => {
  const { fake, strike } = await rig(t)
  for (const paymentHash of [undefined, (text: string) => text.toUpperCase()]) {
    fake.rewrite = (_on, body) => {
      const { bolt11, ...rest } = body as { bolt11: { paymentHash: string } }
      return { ...rest, bolt11: { ...bolt11, paymentHash: paymentHash?.(bolt11.paymentHash) } }
    }
    const charge = await strike.createCharge(key, request)
    t.match(charge.paymentHash, /^[0-9a-f]{64}$/)
  }
})

t.test('the state of a charge is in its receives', async t => {
  const { clock, fake, strike } = await rig(t)
  const look = async (id: string) => await strike.lookUp(key, id)
  const make = async () => (await strike.createCharge(key, request)).chargeId

  await t.test('unpaid, then paid over Lightning, in one call each', async t => {
    const id = await make()
    t.same(await look(id), { status: 'unpaid', receivedSats: 0, settledAt: null })
    clock.advance(5_000)
    fake.pay(id)
    const paidAt = clock.now()
    clock.advance(5_000)
    fake.requests.length = 0
    t.same(await look(id), { status: 'paid', receivedSats: 2_340, settledAt: paidAt })
    t.equal(fake.requests.length, 1)
  })

  await t.test('a payer who is on Strike too leaves no payment hash, and has still paid', async t => {
    const id = await make()
    fake.pay(id, 'P2P')
    t.match(await look(id), { status: /^paid$/, receivedSats: 2_340 })
    const other = await make()
    fake.pay(other, 'P2P', { amount: '2.34', currency: 'USD' })
    t.match(await look(other), { status: /^paid$/, receivedSats: null }, 'also when it is reported in dollars')
  })

  await t.test('pending is processing; less than the amount is underpaid; the rest makes it paid', async t => {
    const id = await make()
    fake.begin(id, 'ONCHAIN', { amount: '0.00001000', currency: 'BTC' })
    t.same(await look(id), { status: 'processing', receivedSats: 0, settledAt: null })
    fake.complete(id)
    t.same(await look(id), { status: 'underpaid', receivedSats: 1_000, settledAt: clock.now() })
    fake.begin(id, 'ONCHAIN', { amount: '0.00001340', currency: 'BTC' })
    t.match(await look(id), { status: 'processing', receivedSats: 1_000 })
    fake.complete(id)
    t.match(await look(id), { status: /^paid$/, receivedSats: 2_340 })
  })

  await t.test('more than the amount is paid; parts of a satoshi are read exactly', async t => {
    const id = await make()
    fake.pay(id, 'ONCHAIN', { amount: '0.00002340999', currency: 'BTC' })
    t.match(await look(id), { status: /^paid$/, receivedSats: 2_340 })
    const short = await make()
    fake.pay(short, 'ONCHAIN', { amount: '0.00002339999', currency: 'BTC' })
    t.match(await look(short), { status: 'underpaid', receivedSats: 2_339 })
  })

  await t.test('one of another account is null', async t => {
    const id = await make()
    fake.addKey('stranger')
    t.equal(await strike.lookUp(new Secret('stranger'), id), null)
  })
})

t.test("Strike's words about a field are passed on", async t => {
  const { strike } = await rig(t)
  await t.rejects(strike.createCharge(key, { ...request, expirySeconds: 0 }), {
    reason: 'request',
    message: /bolt11\.expiryInSeconds: A whole number above 0 is expected\./
  })
})

t.test('a lock-out of our address stops receiving for all keys until it is over, and sending continues', async t => {
  const { clock, fake, strike } = await rig(t)
  fake.addKey('shop-key')
  const { invoice } = await strike.createCharge(new Secret('shop-key'), request)
  fake.lock('others', 3_600_000)
  await t.rejects(strike.createCharge(key, request), { fault: 'rate', retryAfter: 3600 })
  t.match(
    await strike.createPayout(key, {
      reference: '1',
      chargeId: 'c',
      destination: { type: 'ln', invoice },
      amountSats: 2_340,
      description: null
    }),
    { status: 'confirmed' }
  )
  fake.requests.length = 0
  clock.advance(600_000)
  await t.rejects(strike.createCharge(new Secret('another-merchant'), request), { fault: 'rate', retryAfter: 3000 })
  await t.rejects(strike.listSettled(key, { since: 0, oldest: 0, position: null }), { fault: 'rate' })
  t.equal(fake.requests.length, 0)
  clock.advance(3_000_000)
  t.match(await strike.createCharge(key, request), { network: 'regtest' })
})

t.test(
  'validation reads the profile, reads receive requests and makes an invoice of 1 satoshi that expires after 60 seconds',
  async t => {
    const { fake, strike } = await rig(t)
    t.same(await strike.validateKey(key), {
      isValid: true,
      message: 'The provider accepts this key, and it can create and read receive requests.',
      network: 'regtest'
    })
    t.same(
      fake.requests.map(({ method, path }) => `${method} ${path}`),
      ['GET /v1/accounts/profile', 'GET /v1/receive-requests?$top=1', 'POST /v1/receive-requests']
    )
    t.match(fake.requests[2]?.body, {
      bolt11: { amount: { amount: '0.00000001', currency: 'BTC' }, expiryInSeconds: 60 }
    })

    const without = (scope: StrikeScope) => CONTRACT_SCOPES.filter(other => other !== scope)
    fake.addKey('contract', CONTRACT_SCOPES)
    t.match(
      await strike.validateKey(new Secret('contract')),
      { isValid: true },
      'the three scopes of the contract are enough: a 403 of the profile is ignored'
    )
    fake.addKey('no-create', without('partner.receive-request.create'))
    t.same(await strike.validateKey(new Secret('no-create')), {
      isValid: false,
      message: 'The provider key lacks the scope partner.receive-request.create.'
    })
    fake.addKey('no-read', without('partner.receive-request.read'))
    t.same(await strike.validateKey(new Secret('no-read')), {
      isValid: false,
      message: 'The provider key lacks the scope partner.receive-request.read.'
    })
    for (const on of [/profile/, /GET .*receive-requests/, /POST/]) {
      fake.fail('server error', on)
      await t.rejects(strike.validateKey(key), { name: 'ProviderUnavailable' }, 'trouble is no verdict')
    }
  }
)

t.test("the account's list of what was settled", async t => {
  const { clock, fake, strike } = await rig(t)
  const ids: string[] = []
  for (let count = 0; count < 4; count++) {
    ids.push((await strike.createCharge(key, request)).chargeId)
    clock.advance(1_000)
  }
  const [first = '', second = '', third = '', fourth = ''] = ids
  fake.pay(first)
  clock.advance(60_000)
  const since = clock.now()
  fake.pay(second)
  clock.advance(1_000)
  fake.pay(third, 'ONCHAIN', { amount: '0.00000001', currency: 'BTC' })
  fake.begin(fourth)

  fake.requests.length = 0
  t.same(
    await listed(strike, key, since),
    [
      { chargeId: third, state: null },
      { chargeId: second, state: { status: 'paid', receivedSats: 2_340, settledAt: since } }
    ],
    'newest first, without older ones and those that are not final'
  )
  t.equal(fake.requests[0]?.path, '/v1/receive-requests/receives?$top=100')
  t.equal(fake.requests.length, 1, "what was not paid over Lightning may be another account's: it is not requested")
  t.same(
    (await listed(strike, key, 0)).map(({ chargeId }) => chargeId),
    [third, second, first]
  )
})

t.test('a list in ascending order is read from its end', async t => {
  const { clock, fake, strike } = await rig(t)
  const { chargeId } = await strike.createCharge(key, request)
  for (let count = 0; count < 130; count++) {
    clock.advance(1_000)
    fake.account.receive(chargeId, 'LIGHTNING', 'COMPLETED')
  }
  const last = await strike.createCharge(key, request)
  clock.advance(1_000)
  fake.pay(last.chargeId)
  fake.requests.length = 0
  fake.isOldestFirst = true
  t.equal((await listed(strike, key, 0))[0]?.chargeId, last.chargeId)
  t.same(
    fake.requests.map(({ path }) => path),
    ['/v1/receive-requests/receives?$top=100', '/v1/receive-requests/receives?$top=100&$skip=31']
  )
  fake.isOldestFirst = false
  fake.requests.length = 0
  t.equal((await listed(strike, key, 0))[0]?.chargeId, last.chargeId)
  t.equal(fake.requests.length, 1)
})

t.test('notifications', async t => {
  const { fake, strike } = await rig(t)
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  const secret = new Secret('0123456789abcdef')
  const { chargeId } = await strike.createCharge(key, request)
  const { subscriptionId } = await strike.subscribe(key, `${receiver.url}/api/webhooks/primary`, secret)
  t.equal(fake.subscriptions[0]?.id, subscriptionId)
  t.match(fake.subscriptions[0], {
    enabled: true,
    webhookVersion: 'v1',
    eventTypes: ['receive-request.receive-pending', 'receive-request.receive-completed']
  })

  await t.test('are about a charge, and signed over the bytes in hex of either case', async t => {
    fake.pay(chargeId)
    t.same(await fake.deliver(), [200])
    const got = receiver.received[0]
    const signature = String(got?.headers['x-webhook-signature'])
    const body = got?.body ?? Buffer.alloc(0)
    for (const text of [signature.toUpperCase(), signature.toLowerCase()]) {
      const notification = strike.readNotification(new HeaderList(['X-Webhook-Signature', text]), body)
      t.equal(notification?.chargeId, chargeId)
      t.equal(notification?.verify(secret), true)
      t.equal(notification?.verify(new Secret('0123456789abcdeF')), false)
    }
    for (const bad of ['', 'zz', signature.slice(1), `${signature}00`, `${signature.slice(0, 63)}g`]) {
      t.equal(strike.readNotification(new HeaderList(['x-webhook-signature', bad]), body)?.verify(secret), false)
    }
    t.equal(strike.readNotification(new HeaderList([]), body)?.verify(secret), false)
    const changed = Buffer.from(body.toString().replace('{', '{ '))
    t.equal(
      strike.readNotification(new HeaderList(['x-webhook-signature', signature]), changed)?.verify(secret),
      false,
      'the same JSON in other bytes is not what was signed'
    )
  })

  await t.test('of other kinds are null; what cannot be read is 400', async t => {
    const read = (text: string) => strike.readNotification(new HeaderList([]), Buffer.from(text))
    t.equal(read('{"eventType":"payment.updated","data":{"entityId":"x"}}'), null)
    t.equal(read('{"eventType":"invoice.updated"}'), null)
    for (const bad of [
      '',
      'null',
      '[]',
      '{"eventType":1}',
      '{',
      '{"eventType":"receive-request.receive-completed"}',
      '{"eventType":"receive-request.receive-completed","data":{"entityId":"../x"}}'
    ]) {
      t.throws(() => read(bad), ProviderNotificationError, bad)
    }
    const body = Buffer.from(
      '{"eventType":"receive-request.what-comes-next","data":{"entityId":"abc","receiveId":"def"},"more":1}'
    )
    const signature = createHmac('sha256', 'a secret of mine').update(body).digest('hex')
    const read_ = strike.readNotification(new HeaderList(['x-webhook-signature', ` ${signature} `]), body)
    t.equal(read_?.chargeId, 'abc')
    t.equal(read_?.verify(new Secret('a secret of mine')), true)
  })
})
