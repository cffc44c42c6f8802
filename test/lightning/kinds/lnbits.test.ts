import { hash } from 'node:crypto'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { readResponse } from '../../../src/engine/formats/response-schema.ts'
import { startKind } from '../open-kind.ts'
import t, { type Test as T } from 'tap'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { lnbitsMessage, LnbitsPayment } from '../../../src/lightning/kinds/lnbits/responses.ts'
import { lnbits, readLnbitsKey } from '../../../src/lightning/kinds/lnbits/lnbits.ts'
import { startFakeLnbits } from '../../fakes/lnbits.ts'
import { refundOf } from '../providers/contract/subject.ts'

const request = { amountSats: 2_100, description: 'a quote', expirySeconds: 600 }
const RECEIVER = 'https://pay.example.com/api/webhooks/primary'

async function setUp(t: T) {
  const address = { receiver: RECEIVER as string | null }
  return { address, ...(await startKind(t, lnbits, startFakeLnbits, { receiver: () => address.receiver })) }
}

t.test('a key names the instance, with a path where it has one, and the key of a wallet', async t => {
  const key = 'ab'.repeat(16)
  t.match(readLnbitsKey(`lnbits+https://demo.example.com/ln/?key=${key}`), {
    origin: 'https://demo.example.com:443',
    base: 'https://demo.example.com:443/ln'
  })
  t.match(readLnbitsKey(`lnbits+http://127.0.0.1:5000?key=${key}`), { base: 'http://127.0.0.1:5000' })
  for (const [text, wanted] of [
    [`lnbits+https://demo.example.com?key=${key}0`, /not 32 hex characters/],
    ['lnbits+https://demo.example.com?key=', /not 32 hex characters/],
    [`lnbits://demo.example.com?key=${key}`, /must have the form lnbits\+https:/]
  ] as const)
    t.throws(() => readLnbitsKey(text), { name: 'AddressKeyError', message: wanted })
})

t.test('an instance below a path is called there', async t => {
  const { fake, provider } = await setUp(t)
  const charge = await provider.createCharge(new Secret(fake.key('admin', '/ln')), request)
  t.ok(fake.wallet.invoices.has(charge.chargeId))
  t.equal(fake.requests.at(-1)?.path, '/ln/api/v1/payments')
})

t.test('its webhook is unsigned: a token of ours in the address authenticates it', async t => {
  const { fake, provider, key } = await setUp(t)
  const { chargeId } = await provider.createCharge(key, request)
  const called = new URL(fake.wallet.invoices.get(chargeId)?.webhook ?? '')
  t.equal(`${called.origin}${called.pathname}`, RECEIVER)
  const token = called.searchParams.get('token')
  t.match(token, /^[\w-]{22}$/)
  t.notOk(key.reveal().includes(token ?? ''))
  const body = fake.notification(chargeId)
  t.equal(typeof JSON.parse(body.toString()), 'string', 'JSON within JSON')
  const read = (bytes: Buffer, given: string | null) => provider.readNotification(new HeaderList([]), bytes, given)
  t.equal(read(body, token)?.chargeId, chargeId)
  t.ok(read(body, token)?.verify(key))
  t.notOk(read(body, null)?.verify(key))
  t.notOk(read(body, 'x'.repeat(22))?.verify(key))
  t.notOk(read(body, token)?.verify(new Secret(fake.key('invoice'))), 'another key has another token')
  t.notOk(read(body, token)?.verify(new Secret('another form of key')))
  for (const bytes of ['', '""', '"{"', '"[]"', '{"payment_hash":"ab"}'])
    t.throws(() => read(Buffer.from(bytes), token), { status: 400 }, bytes)
})

t.test('an instance that never calls our receiver still makes invoices, and is registered again later', async t => {
  const { clock, fake, provider, key } = await setUp(t)
  fake.refusesWebhooks = true
  await provider.createCharge(key, request)
  t.equal(fake.requests.length, 2)
  await provider.createCharge(key, request)
  t.equal(fake.requests.length, 3, 'it is not looked up each time')
  fake.refusesWebhooks = false
  clock.advance(3_600_000)
  const { chargeId } = await provider.createCharge(key, request)
  t.ok(fake.wallet.invoices.get(chargeId)?.webhook)
})

t.test('an answer that needs no key says nothing of the charge: the key is gone', async t => {
  const { fake, provider, key } = await setUp(t)
  const { chargeId } = await provider.createCharge(key, request)
  fake.isDeleted = true
  await t.rejects(provider.lookUp(key, chargeId), { name: 'ProviderRefused', reason: 'key' })
})

t.test('of an invoice that its own wallet paid the part that came in counts', async t => {
  const { clock, fake, provider, key, address } = await setUp(t)
  address.receiver = null
  const charge = await provider.createCharge(key, request)
  fake.wallet.pay(charge.invoice, null)
  t.match(await provider.lookUp(key, charge.chargeId), { status: 'unpaid' })
  fake.wallet.settle(charge.chargeId)
  t.match(await provider.lookUp(key, charge.chargeId), {
    status: /^paid$/,
    receivedSats: 2_100,
    settledAt: clock.now()
  })
  const refund = refundOf(clock, 40)
  const incoming = { ...refund, destination: { type: 'ln', invoice: charge.invoice } } as const
  fake.wallet.payments.clear()
  t.equal(await provider.lookUpPayout(key, incoming), null, 'an incoming payment is no payout')
})

t.test('an expired invoice is expired, and its times are UTC', async t => {
  const { clock, provider, key } = await setUp(t)
  const { chargeId } = await provider.createCharge(key, request)
  clock.advance(600_000)
  t.match(await provider.lookUp(key, chargeId), { status: 'expired', settledAt: null })
  const updated = (text: unknown) =>
    readResponse(LnbitsPayment, { payment_hash: 'ab'.repeat(32), status: 'success', amount: 1, updated_at: text })
      ?.updatedAt
  const at = Date.UTC(2026, 10, 22, 20, 0, 1)
  for (const text of ['2026-11-22T20:00:01', '2026-11-22 20:00:01', '2026-11-22T22:00:01+02:00', at / 1000])
    t.equal(updated(text), at, String(text))
  t.equal(updated('soon'), null)
})

t.test('a payment that failed before cannot be retried, and the error says so', async t => {
  const { clock, fake, provider, key } = await setUp(t)
  fake.wallet.outcome = 'failed'
  const refund = refundOf(clock, 40)
  await t.rejects(provider.createPayout(key, refund), { name: 'ProviderRefused' })
  fake.wallet.outcome = 'paid'
  await t.rejects(provider.createPayout(key, refund), { name: 'ProviderRefused' })
  t.equal(fake.wallet.sendings, 0)
})

t.test('an error has its own message, in each form that LNbits uses', async t => {
  t.equal(lnbitsMessage({ detail: 'Wallet not found.' }), 'Wallet not found.')
  t.equal(lnbitsMessage({ detail: [{ loc: ['body'], msg: 'field required', type: 'missing' }] }), 'field required')
  t.equal(lnbitsMessage({ error: 'Rate limit exceeded' }), 'Rate limit exceeded')
  t.equal(lnbitsMessage('text'), null)
})

t.test('a refused or dropped hash is distinguished from a bad key', async t => {
  const { fake, provider, key } = await setUp(t)
  const hashed = { text: 'a text', hash: hash('sha256', 'a text') }
  fake.wallet.hashes = 'refused'
  await t.rejects(provider.createCharge(key, { ...request, hashed }), { name: 'ProviderRefused', reason: 'request' })
  fake.wallet.hashes = 'ignored'
  const { invoice } = await provider.createCharge(key, { ...request, hashed })
  t.equal(decodeInvoice(invoice).descriptionHash, null)
})
