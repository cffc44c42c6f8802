import { readResponse } from '../../../src/engine/formats/response-schema.ts'
import { createHmac } from 'node:crypto'
import { startKind } from '../open-kind.ts'
import t, { type Test as T } from 'tap'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { paymentHashOf } from '../../../src/lightning/codecs/hmac.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import {
  ProviderNotificationError,
  ProviderRefused,
  ProviderUnavailable
} from '../../../src/lightning/provider-calls/errors.ts'
import { opennode } from '../../../src/lightning/kinds/opennode/opennode.ts'
import { OpenNodeCharge } from '../../../src/lightning/kinds/opennode/responses.ts'
import { startFakeOpenNode } from '../../fakes/opennode.ts'
import { startReceiver } from '../../fakes/receiver.ts'
import { listed } from '../providers/listed.ts'

const KEY = 'opennode-test-key'
const key = new Secret(KEY)
const request = { amountSats: 2_100, description: 'A quote about money', expirySeconds: 900 }

async function setUp(t: T) {
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  const address = { url: `${receiver.url}/api/webhooks/alternate` as string | null }
  const made = await startKind(t, opennode, startFakeOpenNode, { receiver: () => address.url })
  const notifications = () =>
    receiver.received.map(({ headers, body }) => ({
      headers: new HeaderList(['content-type', headers['content-type'] ?? '']),
      body
    }))
  return { ...made, notifications, address }
}

void t.test('the life of a charge: made, paid, notified, verified, read again', async t => {
  const { clock, fake, provider, notifications } = await setUp(t)
  const charge = await provider.createCharge(key, request)
  const invoice = decodeInvoice(charge.invoice)
  t.match(invoice, {
    network: 'regtest',
    amountSats: 2_100,
    description: request.description,
    paymentHash: charge.paymentHash,
    expirySeconds: 900
  })
  t.equal(charge.expiresAt, clock.now() + 900_000)
  t.match(charge, {
    network: 'regtest',
    checkoutUrl: `https://checkout.dev.opennode.com/${charge.chargeId}`,
    onchainAddress: /^bcrt1q/
  })
  t.same(await provider.lookUp(key, charge.chargeId), { status: 'unpaid', receivedSats: 0, settledAt: null })
  clock.advance(5_000)
  const preimage = await fake.pay(charge.invoice)
  t.equal(paymentHashOf(preimage), charge.paymentHash)
  const [first] = notifications()
  if (first === undefined) throw new Error('no notification was sent')
  const notification = provider.readNotification(first.headers, first.body)
  t.equal(notification?.chargeId, charge.chargeId)
  t.equal(notification?.verify(key), true)
  t.equal(notification?.verify(new Secret('another key')), false)
  t.same(await provider.lookUp(key, charge.chargeId), { status: 'paid', receivedSats: 2_100, settledAt: clock.now() })
})

void t.test('the request has the fields that the provider documents', async t => {
  const { fake, provider, address } = await setUp(t)
  await provider.createCharge(key, request)
  t.same(fake.requests.at(-1), {
    method: 'POST',
    path: '/v1/charges',
    authorization: KEY,
    body: { amount: 2_100, description: request.description, ttl: 15, callback_url: address.url }
  })
  const order = {
    orderId: 'order-7',
    successUrl: 'https://shop.example/thanks',
    customerEmail: 'ada@example.com',
    customerName: 'Ada',
    metadata: { basket: '9' }
  }
  const shown = {
    order_id: 'order-7',
    success_url: 'https://shop.example/thanks',
    customer_email: 'ada@example.com',
    customer_name: 'Ada',
    metadata: { basket: '9' }
  }
  await provider.createCharge(key, { ...request, order })
  t.same(fake.requests.at(-1)?.body, {
    amount: 2_100,
    description: request.description,
    ttl: 15,
    callback_url: address.url,
    ...shown
  })
  await provider.createFiatCharge(key, {
    amount: '5',
    currency: 'USD',
    description: 'A book',
    expirySeconds: 900,
    order: { ...order, customerName: null, metadata: null }
  })
  t.match(fake.requests.at(-1)?.body, {
    order_id: 'order-7',
    success_url: 'https://shop.example/thanks',
    customer_name: undefined,
    metadata: undefined
  })
  address.url = null
  await provider.createCharge(key, request)
  t.notMatch(
    JSON.stringify(fake.requests.at(-1)?.body),
    'callback_url',
    'without a public address there is no receiver to name'
  )
  for (const [expirySeconds, ttl] of [
    [60, 10],
    [600, 10],
    [601, 11],
    [86_400, 1440],
    [259_200, 1440]
  ] as const) {
    const charge = await provider.createCharge(key, { ...request, expirySeconds })
    t.match(fake.requests.at(-1)?.body, { ttl }, `${expirySeconds} s become ${ttl} minutes`)
    t.equal(charge.expiresAt, decodeInvoice(charge.invoice).expiresAt * 1000)
  }
})

void t.test("fiat amounts are the provider's to convert, and its invoice is the truth", async t => {
  const { fake, provider } = await setUp(t)
  for (const [amount, currency, sats, text] of [
    ['49.99', 'USD', 99_980, '49.99'],
    ['0.01', 'EUR', 22, '0.01'],
    ['200000', 'GBP', 500_000_000, '200000']
  ] as const) {
    const charge = await provider.createFiatCharge(key, {
      amount,
      currency,
      description: 'Order 7',
      expirySeconds: 600
    })
    t.equal(decodeInvoice(charge.invoice).amountSats, sats)
    t.match(JSON.stringify(fake.requests.at(-1)?.body), `"amount":${text},"currency":"${currency}"`)
  }
  await t.rejects(
    provider.createFiatCharge(key, { amount: '200000.01', currency: 'GBP', description: '', expirySeconds: 600 }),
    { reason: 'request', message: /500,000,000/ }
  )
})

void t.test('more than 500,000,000 satoshis are refused before any call', async t => {
  const { fake, provider } = await setUp(t)
  for (const amountSats of [500_000_001, 0, 1.5])
    await t.rejects(provider.createCharge(key, { ...request, amountSats }), ProviderRefused)
  t.equal(fake.requests.length, 0)
  t.equal(
    decodeInvoice((await provider.createCharge(key, { ...request, amountSats: 500_000_000 })).invoice).amountSats,
    500_000_000
  )
})

void t.test('every status of a charge is read, with what was received and when', async t => {
  const { clock, fake, provider, notifications } = await setUp(t)
  const make = async () => (await provider.createCharge(key, request)).chargeId
  const seen = async (chargeId: string) => await provider.lookUp(key, chargeId)

  const chain = await make()
  await fake.payOnChain(chain, 2_100)
  t.same(await seen(chain), { status: 'processing', receivedSats: null, settledAt: null })
  clock.advance(600_000)
  await fake.confirm(chain)
  t.same(await seen(chain), { status: 'paid', receivedSats: 2_100, settledAt: clock.now() })

  const short = await make()
  await fake.payOnChain(short, 1_500)
  t.same(await seen(short), { status: 'underpaid', receivedSats: 1_500, settledAt: null })
  await fake.payOnChain(short, 600)
  t.same(await seen(short), { status: 'processing', receivedSats: null, settledAt: null })

  const returned = await make()
  await fake.payOnChain(returned, 100)
  await fake.become(returned, 'refunded')
  t.match(await seen(returned), { status: 'refunded', receivedSats: 100 })

  const late = await make()
  clock.advance(900_000)
  t.same(await seen(late), { status: 'expired', receivedSats: 0, settledAt: null })
  t.equal(notifications().length, 6, 'one notification for each change')
  for (const { headers, body } of notifications()) t.equal(provider.readNotification(headers, body)?.verify(key), true)
})

void t.test('figures and times are read as numbers, texts and dates, and what says nothing is null', async t => {
  const charge = {
    id: 'c',
    status: 'paid',
    amount: '2100',
    overpaid_by: '5',
    chain_invoice: { address: 'N/A', settled_at: '1763683200' },
    address: 'bc1q',
    hosted_checkout_url: 'javascript:alert(1)'
  }
  t.match(readResponse(OpenNodeCharge, charge), {
    invoice: null,
    onchainAddress: 'bc1q',
    checkoutUrl: null,
    state: { status: /^paid$/, receivedSats: 2_105, settledAt: 1_763_683_200_000 }
  })
  t.match(
    readResponse(OpenNodeCharge, {
      ...charge,
      chain_invoice: null,
      transactions: [{ settled_at: '2025-11-21T00:00:00.000Z' }, { settled_at: '' }]
    })?.state,
    { settledAt: 1_763_683_200_000 }
  )
  t.equal(readResponse(OpenNodeCharge, { ...charge, amount: -1 })?.state?.receivedSats, null)
  t.equal(
    readResponse(OpenNodeCharge, { ...charge, status: 'underpaid', missing_amt: 9_999 })?.state?.receivedSats,
    null
  )
  t.equal(readResponse(OpenNodeCharge, { ...charge, status: 'failed' })?.state?.status, 'expired')
  t.equal(readResponse(OpenNodeCharge, { ...charge, status: 'brand new' })?.state, null)
  for (const nothing of [null, 'text', [], {}, { id: 7 }, { id: '' }])
    t.equal(readResponse(OpenNodeCharge, nothing), null)
})

void t.test('a charge of another account is not found with any key', async t => {
  const { fake, provider } = await setUp(t)
  fake.addKey('another-merchant')
  const { chargeId } = await provider.createCharge(key, request)
  t.equal(await provider.lookUp(new Secret('another-merchant'), chargeId), null)
  t.equal(await provider.lookUp(key, '../v1/charges?x='), null, 'an id is one part of a path')
  t.equal(fake.requests.at(-1)?.path, '/v1/charge/..%2Fv1%2Fcharges%3Fx%3D')
})

void t.test('notifications: forged, repeated, in another case, unreadable, about something else', async t => {
  const { fake, provider, notifications } = await setUp(t)
  const { chargeId } = await provider.createCharge(key, request)
  await fake.notifyForged(fake.account.charge(chargeId))
  const [forged] = notifications()
  if (forged === undefined) throw new Error('no notification was sent')
  t.equal(provider.readNotification(forged.headers, forged.body)?.verify(key), false)

  const headers = new HeaderList(['Content-Type', 'application/x-www-form-urlencoded; charset=utf-8'])
  const signed = createHmac('sha256', KEY).update(chargeId).digest('hex')
  const read = (form: string) => provider.readNotification(headers, Buffer.from(form))
  for (const signature of [signed, signed.toUpperCase()]) {
    for (let repeat = 0; repeat < 2; repeat++)
      t.equal(read(`id=${chargeId}&status=paid&hashed_order=${signature}`)?.verify(key), true)
  }
  for (const signature of ['', 'N/A', createHmac('sha256', KEY).update(`${chargeId}x`).digest('hex')])
    t.equal(read(`id=${chargeId}&hashed_order=${signature}`)?.verify(key), false, signature)
  t.equal(
    read(`id=${chargeId}&type=ln&amount=5&status=confirmed&hashed_order=${signed}`),
    null,
    'a withdrawal is not about an incoming payment'
  )
  for (const form of [
    '',
    'id=',
    `hashed_order=${signed}`,
    `id=${chargeId}`,
    `id=a&id=b&hashed_order=${signed}`,
    `id=a%20b&hashed_order=${signed}`,
    `id=${'a'.repeat(101)}&hashed_order=${signed}`,
    `{"id":"${chargeId}"}`
  ]) {
    t.throws(() => read(form), ProviderNotificationError, form.slice(0, 20))
  }
  for (const type of ['application/json', 'text/plain']) {
    t.throws(
      () =>
        provider.readNotification(
          new HeaderList(['content-type', type]),
          Buffer.from(`id=${chargeId}&hashed_order=${signed}`)
        ),
      { status: 400 }
    )
  }
  t.throws(() => provider.readNotification(new HeaderList(), Buffer.from('id=1')), ProviderNotificationError)
})

void t.test('recent settlements are listed newest first, in one call', async t => {
  const { clock, fake, provider } = await setUp(t)
  const make = async () => await provider.createCharge(key, request)
  const old = await make()
  await fake.pay(old.invoice)
  clock.advance(60_000)
  const since = clock.now()
  const first = await make()
  await make()
  await fake.pay(first.invoice)
  clock.advance(1_000)
  const second = await make()
  await fake.pay(second.invoice)
  clock.advance(1_000)
  const chain = await make()
  await fake.payOnChain(chain.chargeId, 2_000)
  const before = fake.requests.length
  const settled = await listed(provider, key, since)
  t.equal(fake.requests.length, before + 1)
  t.same(
    settled.map(({ chargeId, state }) => [chargeId, state?.status]),
    [
      [chain.chargeId, 'underpaid'],
      [second.chargeId, 'paid'],
      [first.chargeId, 'paid']
    ]
  )
  clock.advance(15 * 24 * 3_600_000)
  t.same(await listed(provider, key, clock.now()), [], 'what never settled is not listed forever')
})

void t.test('a key is tried as far as it is needed, and the missing permission is named', async t => {
  const { fake, provider } = await setUp(t)
  t.same(await provider.validateKey(key), {
    isValid: true,
    message: 'The provider accepts this key.',
    network: 'regtest'
  })
  t.match(
    fake.requests.map(({ method, path, body }) => [method, path, body]),
    [
      ['GET', '/v1/account/balance', ''],
      ['POST', '/v1/charges', { amount: 1, ttl: 10 }],
      ['POST', '/v2/withdrawals', { type: 'ln' }]
    ]
  )
  t.equal(fake.account.withdrawals.size, 0)
  fake.addKey('read-only', ['Read'])
  fake.addKey('invoices', ['Read', 'Invoices'])
  fake.addKey('blind', ['Invoices', 'Withdrawals'])
  for (const status of [403, 401] as const) {
    fake.permissionStatus = status
    t.same(await provider.validateKey(new Secret('read-only')), {
      isValid: false,
      message: 'The provider key lacks the permissions Invoices and Withdrawals.'
    })
    t.same(await provider.validateKey(new Secret('blind')), {
      isValid: false,
      message: 'The provider key lacks the permission Read.',
      network: 'regtest'
    })
    t.match(await provider.validateKey(new Secret('invoices')), {
      isValid: true,
      message: /lacks the permission Withdrawals, so refunds will be refused/
    })
    await t.rejects(provider.lookUp(new Secret('blind'), 'x'), { reason: 'scope', scope: 'Read' })
  }
})

void t.test("a provider's invalid responses are not passed on", async t => {
  const { fake, provider } = await setUp(t)
  const { chargeId } = await provider.createCharge(key, request)
  const charge = fake.account.charge(chargeId)
  Object.assign(charge, { status: 'brand new' })
  await t.rejects(provider.lookUp(key, chargeId), ProviderUnavailable)
})
