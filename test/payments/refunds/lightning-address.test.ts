/** Refunds to a Lightning address, whose server is asked for an invoice (LUD-06, -16). */
import { randomUUID } from 'node:crypto'
import t, { type Test as T } from 'tap'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { LnurlCalls } from '../../../src/lightning/kinds/lnurl/lnurl.ts'
import { AddressGuard } from '../../../src/engine/upstream/guard.ts'
import { startFakeLnurl } from '../../fakes/lnurl.ts'
import { openTestDatabase } from '../../support/database.ts'
import { fixtureOn } from './fixture.ts'

/** Milliseconds after which terms of an address are read again. */
const LONG = 121_000

async function setUp(t: T) {
  const f = await fixtureOn(await openTestDatabase(t, {}))
  const { clock } = f
  const server = await startFakeLnurl({ clock })
  // Every name leads into a private network.
  const guard = new AddressGuard({ production: false, resolve: async () => ['10.0.0.7'] })
  const provider = new LnurlCalls({ guard, timeout: 10_000, clock, ownKey: null, url: null })
  const requests: string[] = []
  f.addresses.invoiceFor = (address, amountSats) => {
    requests.push(address)
    return provider.invoiceFor(address, amountSats)
  }
  t.teardown(async () => {
    await provider.close()
    await server.close()
  })
  const { invoiceId } = await f.payment({ network: 'mainnet' })
  const input = { invoiceId, refundType: 'ln', refundAddress: server.key(), amountSatoshis: 400 } as const
  const refund = (different: object = {}, key: string | null = randomUUID()) =>
    f.refunds.create(f.merchant, { ...input, ...different }, key === null ? null : { key, fingerprint: 'f'.repeat(64) })
  const kept = () => f.refunds.ofInvoice(f.merchant, invoiceId)
  return { ...f, server, asked: requests, refund, kept, invoiceId }
}

t.test('refunds: a Lightning address is paid by its invoice of exactly the amount', async t => {
  const { refund, server, provider, call } = await setUp(t)
  const made = await refund()
  t.match(made, { status: 'confirmed', amountSats: 400, lightningAddress: server.key() })
  t.match(decodeInvoice(made.address), { amountMsat: 400_000n, paymentHash: made.paymentHash })
  t.same(provider.asked.at(-1)?.destination, { type: 'ln', invoice: made.address })
  t.match((await call('GET', `/api/refunds/${made.refundId}`)).data, {
    refundAddress: made.address,
    lightningAddress: server.key()
  })
})

t.test('refunds: nothing is sent for an invoice of another amount, of another payee, or about to expire', async t => {
  const { refund, server, provider, kept, clock } = await setUp(t)
  const other = server.wallet.addInvoice({ amountSats: 401, description: '', expirySeconds: 3600 })
  server.answer = { pr: other.invoice }
  await t.rejects(refund(), { status: 503, message: /no usable invoice\. Nothing was sent/ })
  server.answer = { pr: 'lnbc1nonsense' }
  await t.rejects(refund(), { status: 503 })
  server.answer = {}
  server.wallet.lie = 'hash'
  await t.rejects(refund(), { status: 503, message: /no usable invoice/ })
  server.expirySeconds = 10
  await t.rejects(refund(), { status: 503, message: /no usable invoice/ })
  server.expirySeconds = 3600
  server.terms = { maxSendable: 1_000 }
  clock.advance(LONG)
  await t.rejects(refund(), { status: 400, message: /takes 1 to 1 satoshis, not 400/ })
  t.same([provider.asked.length, await kept()], [0, []])
})

t.test('refunds: no address, callback or redirect leads into a private network', async t => {
  const { refund, server, kept, clock } = await setUp(t)
  for (const refundAddress of ['shop@intern.example.com', 'lnurlp://10.0.0.7/pay', 'shop@metadata.google.internal'])
    await t.rejects(refund({ refundAddress }), { status: 400 }, refundAddress)
  for (const callback of ['https://intern.example.com/pay', 'http://169.254.169.254/latest'] as const) {
    server.terms = { callback }
    clock.advance(LONG)
    await t.rejects(refund(), { status: 400 }, callback)
  }
  t.same(await kept(), [])
})

t.test('refunds: a repeated request pays a Lightning address once, and needs a key for it', async t => {
  const { refund, asked: requests, provider, kept } = await setUp(t)
  await t.rejects(refund({}, null), { status: 400, message: /Idempotency-Key is required/ })
  await t.rejects(refund({ amountSatoshis: 1001 }), { status: 400, message: /exceeds the payment: 1000/ })
  await t.rejects(refund({ amountSatoshis: undefined }), { status: 400, message: /amountSatoshis is required/ })
  await t.rejects(refund({ refundType: 'chain' }), { status: 400, message: /refundType is chain/ })
  await t.rejects(refund({ refundAddress: 'a@b@c' }), { status: 400, message: /not a Lightning address/ })
  await t.rejects(refund({ refundAddress: 'short' }), { status: 400 })
  t.equal(requests.length, 0, 'no server is called before')
  const both = await Promise.allSettled([refund({}, 'one'), refund({}, 'one')])
  t.same(both.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
  t.same([provider.asked.length, (await kept()).length], [1, 1])
})
