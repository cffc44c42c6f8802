import { createHmac } from 'node:crypto'
import { hmac } from '@noble/hashes/hmac.js'
import { sha256 } from '@noble/hashes/sha2.js'
import t from 'tap'
import { errors } from 'undici'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { AddressRefused, NameUnresolved } from '../../../src/engine/upstream/guard.ts'
import { answered, responseText, unanswered, signatureHeader } from '../../../src/payments/webhooks/delivery.ts'
import { paymentPayload, storeOrderPayload } from '../../../src/payments/webhooks/service.ts'
import { aPayment } from '../payments/fixture.ts'
import { isAuthentic } from '../../fakes/receiver.ts'

t.test('Payment webhook payload: a flat JSON object, no envelope and no event-name field', async t => {
  t.equal(
    paymentPayload(
      aPayment({
        orderId: 'o-1',
        status: 'expired',
        slot: 'alternate',
        chargeId: 'ch-2',
        amount: '49.9',
        currency: 'USD'
      })
    ),
    '{"invoiceId":"123456789012345","orderId":"o-1","status":"expired","amount":49.9,"currency":"USD","alternateChargeId":"ch-2","paidAt":null,"metadata":null}',
    'alternateChargeId | string (merchants on the alternate provider); paidAt is null until it is paid; metadata | or null'
  )
})

t.test('amount | decimal: exactly as given, in plain notation', async t => {
  for (const amount of ['0', '0.00000001', '21000000', '20999999.99999999', '0.1', '99999999.99']) {
    t.match(paymentPayload(aPayment({ amount })), `"amount":${amount},`)
  }
})

t.test('metadata | string holding the JSON supplied at payment creation', async t => {
  const metadata = { b: '1', a: '2', 'with "quotes"': '\u0000\ud800' }
  const payload = JSON.parse(paymentPayload(aPayment({ metadata }))) as { metadata: unknown }
  t.type(payload.metadata, 'string')
  t.same(JSON.parse(String(payload.metadata)), metadata)
  t.equal((JSON.parse(paymentPayload(aPayment({ metadata: {} }))) as { metadata: unknown }).metadata, '{}')
})

t.test(
  'X-Service-Signature: t=<unix_seconds>,v1=<hex>: HMAC-SHA256 of <t>.<raw request body>, keyed with the webhook secret',
  async t => {
    const body = Buffer.from('{"a":"ü"}', 'utf8')
    for (const text of ['0123456789abcdef', 'schlüssel aus ümlauten ₿', 'x'.repeat(200)]) {
      const header = signatureHeader(new Secret(text), 1_700_000_000_999, body)
      t.match(header, /^t=1700000000,v1=[0-9a-f]{64}$/, 'whole seconds, cut; lowercase hex')
      const v1 = header.slice('t=1700000000,v1='.length)
      const signed = Buffer.concat([Buffer.from('1700000000.'), body])
      t.equal(v1, createHmac('sha256', text).update(signed).digest('hex'))
      t.equal(
        v1,
        Buffer.from(hmac(sha256, Buffer.from(text, 'utf8'), signed)).toString('hex'),
        'and by another implementation'
      )
      t.ok(isAuthentic({ headers: { 'x-service-signature': header }, body }, text, 1_700_000_000_000))
      t.notOk(
        isAuthentic({ headers: { 'x-service-signature': header }, body }, text, 1_700_000_301_000),
        'reject timestamps older than 5 minutes'
      )
      t.notOk(
        isAuthentic(
          { headers: { 'x-service-signature': header }, body: Buffer.from('{"a":"u"}') },
          text,
          1_700_000_000_000
        )
      )
    }
    // Computed outside of this repository, with Python's hmac.
    t.equal(
      signatureHeader(new Secret('whsec_test'), 1_492_774_577_000, Buffer.from('{"invoiceId":"1","status":"paid"}')),
      't=1492774577,v1=8917d5d22a7880121da518f1cfe316ed5423b4fab7695e15b613c1d8f8dfbf9a'
    )
  }
)

t.test('the endpoint must return 2xx', async t => {
  const error = (status: number) => answered({ status, body: Buffer.alloc(0) }).error
  for (const status of [200, 201, 202, 204, 299]) t.equal(error(status), null)
  for (const status of [199, 300, 301, 302, 304, 307, 308, 400, 404, 410, 429, 500, 503])
    t.match(error(status), new RegExp(`answered ${status}`))
  t.match(error(302), /not followed/)
})

t.test('the stored part of a response is text that any database accepts, at most 1 KiB', async t => {
  t.equal(responseText(Buffer.from('ok')), 'ok')
  t.equal(responseText(Buffer.from('a\0b')), 'a\ufffdb')
  t.equal(responseText(Buffer.from([0x61, 0xff, 0xfe, 0x62])), 'a\ufffd\ufffdb')
  t.equal(responseText(Buffer.from('x'.repeat(5_000))).length, 1024)
  t.equal(responseText(Buffer.from(`${'x'.repeat(1023)}ü`)), 'x'.repeat(1023), 'a character that is cut is left out')
  t.equal(responseText(Buffer.from([0xed, 0xa0, 0x80])).isWellFormed(), true)
})

t.test('why there was no answer, in words that name no address', async t => {
  const error = (cause: unknown) => unanswered(cause)
  t.same(error(new AddressRefused('range', 'The target host resolves to an address in a blocked range.')), {
    error: 'The address was refused: The target host resolves to an address in a blocked range.',
    responseStatus: null,
    responseBody: null
  })
  t.equal(error(new NameUnresolved('hooks.example.com')).error, 'The name in the address could not be resolved.')
  t.equal(
    error(Object.assign(new Error('connect ECONNREFUSED 10.0.0.1:1'), { code: 'ECONNREFUSED' })).error,
    'The endpoint could not be reached (ECONNREFUSED).'
  )
  t.equal(
    error(new DOMException('The operation was aborted due to timeout', 'TimeoutError')).error,
    'No answer came within 10 seconds.'
  )
  t.equal(
    error(Object.assign(new Error('Connect Timeout'), { code: 'UND_ERR_CONNECT_TIMEOUT' })).error,
    'No answer came within 10 seconds.'
  )
  t.equal(
    error(new errors.HTTPParserError('Response does not match the HTTP/1.1 protocol')).error,
    'What the endpoint answered is not HTTP.',
    'it has no code'
  )
  t.equal(error(new Error('odd')).error, 'The endpoint could not be reached (no answer).')
})

t.test('storefront.order.failed names the paid order that the shop did not make, and why', async t => {
  const body = storeOrderPayload({
    id: 'ord_0123456789abcdef',
    merchantId: 7,
    status: 'PaidAwaitingDetails',
    totalCents: 4616,
    totalSats: 46_160,
    paymentHash: 'ab'.repeat(32),
    email: null,
    createdAt: 0,
    paidAt: 1000,
    failure: { reason: 'sold_out', message: 'gone', at: 2000 }
  })
  t.same(JSON.parse(body), {
    event: 'storefront.order.failed',
    orderId: 'ord_0123456789abcdef',
    status: 'PaidAwaitingDetails',
    reason: 'sold_out',
    message: 'gone',
    totalUsd: 46.16,
    paidSats: 46_160,
    paymentHash: 'ab'.repeat(32),
    email: null,
    merchantId: 7,
    createdAt: '1970-01-01T00:00:00.000Z',
    paidAt: '1970-01-01T00:00:01.000Z',
    failedAt: '1970-01-01T00:00:02.000Z'
  })
})
