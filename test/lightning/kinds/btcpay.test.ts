import { hash } from 'node:crypto'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { readResponse } from '../../../src/engine/formats/response-schema.ts'
import { startKind } from '../open-kind.ts'
import t, { type Test as T } from 'tap'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { BtcpayInvoice, BtcpayMethod } from '../../../src/lightning/kinds/btcpay/responses.ts'
import { btcOf } from '../../../src/lightning/provider-calls/lightning-charge.ts'
import { btcpay } from '../../../src/lightning/kinds/btcpay/btcpay.ts'
import { readBtcpayKey } from '../../../src/lightning/kinds/btcpay/key.ts'
import { startFakeBtcpay } from '../../fakes/btcpay.ts'
import { refundOf } from '../providers/contract/subject.ts'

const request = { amountSats: 2_100, description: 'a quote', expirySeconds: 600 }
const CREATE = 'btcpay.store.cancreateinvoice'
const VIEW = 'btcpay.store.canviewinvoices'
const WEBHOOKS = 'btcpay.store.webhooks.canmodifywebhooks'

const setUp = (t: T) => startKind(t, btcpay, startFakeBtcpay)

t.test('a key names the server, with a path where it has one, a store and a key', async t => {
  const text = 'btcpay+https://pay.example.com/btc/?store=CPTcEqjCK9&key=0123abcd'
  t.match(readBtcpayKey(text), { base: 'https://pay.example.com:443/btc', store: 'CPTcEqjCK9' })
  for (const [wrong, wanted] of [
    ['btcpay+https://pay.example.com?key=0123abcd', /has no store/],
    ['btcpay+https://pay.example.com?store=CPTc', /has no key/],
    ['btcpay+https://pay.example.com?store=../x&key=0123abcd', /not a store ID/],
    ['btcpay+https://pay.example.com?store=CPTc&key=a%20b', /visible ASCII/],
    ['https://pay.example.com?store=CPTc&key=0123abcd', /must have the form/]
  ] as const)
    t.throws(() => readBtcpayKey(wrong), { name: 'AddressKeyError', message: wanted }, wrong)
})

t.test('a charge is an invoice of the store, paid over Lightning alone, with its own page', async t => {
  const { fake, provider, key } = await setUp(t)
  const charge = await provider.createCharge(key, {
    ...request,
    expirySeconds: 601,
    order: {
      orderId: 'A-7',
      successUrl: 'https://shop.example.com/thanks',
      customerEmail: 'ada@example.com',
      customerName: null,
      metadata: { till: '2' }
    }
  })
  t.equal(charge.checkoutUrl, `${fake.url}/i/${charge.chargeId}`)
  t.not(charge.chargeId, charge.paymentHash)
  t.same(fake.requests[0]?.body, {
    amount: '0.00002100',
    currency: 'BTC',
    metadata: { itemDesc: 'a quote', posData: { till: '2' }, buyerEmail: 'ada@example.com', orderId: 'A-7' },
    checkout: {
      paymentMethods: ['BTC-LN'],
      lazyPaymentMethods: false,
      paymentTolerance: 0,
      expirationMinutes: 11,
      redirectURL: 'https://shop.example.com/thanks'
    }
  })
})

t.test('a store whose node is down makes no charge', async t => {
  const { fake, provider, key } = await setUp(t)
  fake.hasNode = false
  await t.rejects(provider.createCharge(key, request), {
    name: 'ProviderRefused',
    message: /gives no Lightning invoice/
  })
})

t.test('a missing permission is named, by the check and by whatever needs it', async t => {
  const { clock, fake, provider } = await setUp(t)
  for (const [permissions, missing] of [
    [[VIEW], CREATE],
    [[CREATE], VIEW]
  ] as const) {
    const key = new Secret(fake.key(permissions))
    t.match(await provider.validateKey(key), {
      isValid: false,
      message: `The BTCPay key lacks the permission ${missing}.`
    })
    await t.rejects(provider.createCharge(key, request), { name: 'ProviderRefused', reason: 'scope', scope: missing })
  }
  const receiving = new Secret(fake.key([CREATE, VIEW]))
  t.match(await provider.validateKey(receiving), {
    isValid: true,
    message: new RegExp(`notified of them .* ${WEBHOOKS}`)
  })
  await t.rejects(provider.subscribe(receiving, 'https://us.example.com', new Secret('0123456789')), {
    scope: WEBHOOKS
  })
  await t.rejects(provider.createPayout(receiving, refundOf(clock, 40)), { scope: 'btcpay.store.canuselightningnode' })
})

t.test('a refund uses the given fee limit, and none is sent without one', async t => {
  const { clock, fake, provider, key } = await setUp(t)
  const refund = refundOf(clock, 40)
  await t.rejects(provider.createPayout(key, { ...refund, feeLimitSats: 0 }), { name: 'ProviderRefused' })
  t.match(await provider.createPayout(key, { ...refund, feeLimitSats: 3 }), { status: 'confirmed' })
  t.same(
    fake.requests
      .filter(({ path }) => path.endsWith('/pay'))
      .map(({ text }) => (JSON.parse(text) as { maxFeeFlat: string }).maxFeeFlat),
    ['3']
  )
})

t.test('its webhook is registered for what was settled, and believed by its signature', async t => {
  const { fake, provider, key } = await setUp(t)
  const secret = new Secret('webhook-secret-1')
  const { subscriptionId } = await provider.subscribe(key, 'https://us.example.com/api/webhooks/primary', secret)
  t.same(fake.webhooks.get(subscriptionId), {
    url: 'https://us.example.com/api/webhooks/primary',
    secret: secret.reveal()
  })
  t.match(fake.requests.at(-1)?.body, {
    authorizedEvents: { everything: false, specificEvents: ['InvoiceSettled'] }
  })
  const { chargeId, paymentHash } = await provider.createCharge(key, request)
  const { body, headers } = fake.notification(paymentHash, secret.reveal())
  const read = (bytes: Buffer, sent: Record<string, string>) =>
    provider.readNotification(new HeaderList(Object.entries(sent).flat()), bytes)
  t.equal(read(body, headers)?.chargeId, chargeId)
  t.ok(read(body, headers)?.verify(secret))
  t.notOk(read(body, headers)?.verify(new Secret('another-secret-2')))
  t.notOk(read(body, {})?.verify(secret))
  t.notOk(read(Buffer.concat([body, Buffer.from(' ')]), headers)?.verify(secret), 'over the bytes as they came')
  t.equal(read(fake.notification(paymentHash, secret.reveal(), 'InvoiceCreated').body, headers), null)
  t.throws(() => read(Buffer.from('{"type":"InvoiceSettled","invoiceId":"../x"}'), headers), { status: 400 })
})

t.test('the states of an invoice are mapped', async t => {
  const status = (name: string, additionalStatus = 'None') =>
    readResponse(BtcpayInvoice, { id: 'G6CzqNFTZe3', status: name, additionalStatus })?.status
  t.equal(status('New'), 'unpaid')
  t.equal(status('New', 'PaidPartial'), 'underpaid')
  t.equal(status('Processing'), 'processing')
  t.equal(status('Settled', 'PaidOver'), 'paid')
  t.equal(status('Settled', 'Marked'), 'paid')
  t.equal(status('Expired'), 'expired')
  t.equal(status('Expired', 'PaidPartial'), 'underpaid')
  t.equal(status('Expired', 'PaidLate'), 'paid')
  t.equal(status('Invalid', 'Marked'), 'expired')
  t.equal(status('Paid'), undefined)
})

t.test('bitcoin is written and read without a float', async t => {
  t.equal(btcOf(1), '0.00000001')
  t.equal(btcOf(2_100_000_000_000_000), '21000000.00000000')
  const read = (paymentMethodPaid: unknown) =>
    readResponse(BtcpayMethod, [{ paymentMethodId: 'BTC-LN', paymentMethodPaid }])?.receivedSats
  t.equal(read('0.000021'), 2_100)
  t.equal(read('21000000'), 2_100_000_000_000_000)
  t.equal(read(0.000021), 2_100)
  t.equal(read('-1'), null)
  t.equal(readResponse(BtcpayMethod, [{ paymentMethodId: 'BTC-CHAIN' }]), null)
})

t.test('a list of more than one call resumes where it ended', async t => {
  const { clock, fake, provider, key } = await setUp(t)
  const since = clock.now()
  const expected = new Set<string>()
  for (let count = 0; count < 505; count++) {
    const { chargeId, paymentHash } = await provider.createCharge(key, request)
    fake.wallet.settle(paymentHash)
    expected.add(chargeId)
  }
  const first = await provider.listSettled(key, { since, oldest: since, position: null })
  t.equal(first.reach, 'more')
  const second = await provider.listSettled(key, { since, oldest: since, position: first.position })
  t.match(second, { reach: 'whole', asOf: first.asOf })
  t.same(new Set([...first.charges, ...second.charges].map(({ chargeId }) => chargeId)), expected)
})

t.test('an invoice with a hash is made at the node, where the key may also look it up', async t => {
  const { clock, fake, provider } = await setUp(t)
  const hashed = { text: 'a text', hash: hash('sha256', 'a text') }
  const make = (key: Secret<string>) => provider.createCharge(key, { ...request, hashed })
  const AT_NODE = ['btcpay.store.cancreatelightninginvoice', 'btcpay.store.canviewlightninginvoice']
  for (const more of [[], AT_NODE.slice(0, 1), AT_NODE.slice(1)]) {
    const key = new Secret(fake.key([CREATE, VIEW, ...more]))
    const before = fake.requests.length
    t.equal(decodeInvoice((await make(key)).invoice).descriptionHash, null, 'it still sells by the other schemes')
    const tried = fake.requests.length - before
    t.equal(decodeInvoice((await make(key)).invoice).descriptionHash, null)
    t.ok(fake.requests.length - before - tried < tried, 'not requested again soon')
    clock.advance(600_001)
  }
  const key = new Secret(fake.key([CREATE, VIEW, ...AT_NODE]))
  const charge = await make(key)
  t.equal(decodeInvoice(charge.invoice).descriptionHash, hashed.hash)
  t.match(await provider.lookUp(key, charge.chargeId), { status: 'unpaid' })
  clock.advance(1_000)
  fake.wallet.settle(charge.paymentHash)
  t.match(await provider.lookUp(key, charge.chargeId), {
    status: 'paid',
    receivedSats: 2_100,
    settledAt: Math.floor(clock.now() / 1000) * 1000
  })
  t.equal(await provider.lookUp(key, `ln_${'ab'.repeat(32)}`), null)
  clock.advance(600_000)
  fake.hasNode = false
  t.equal(decodeInvoice((await make(key).catch(() => charge)).invoice).paymentHash, charge.paymentHash)
})
