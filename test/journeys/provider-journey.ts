import type { Test as T } from 'tap'
import { decodeInvoice } from '../../src/lightning/codecs/bolt11.ts'
import { addressOf, invoiceOf } from '../payments/refunds/fixture.ts'
import { countingUpstream } from '../security/shop.ts'
import { challengeOf, credentialOf } from '../support/gateway.ts'
import { isWebhook, json, type Json, type ShopFront } from './shop-front.ts'

const FOLLOW_UP = 'refunds-follow-up'

/** The whole life of payments and challenges over one kind, from the key to the refund. */
export async function journey(t: T, front: ShopFront): Promise<void> {
  await t.test('the key is valid', t => validKey(t, front))
  await t.test('BTC: paid, notified, synced, refunded in two parts', t => paymentLife(t, front))
  await t.test('USD and EUR are converted, and still paid', t => fiat(t, front))
  await t.test("a challenge of a proxy: the payer's preimage opens it, l402.challenge.paid arrives once", t =>
    proxyChallenge(t, front)
  )
  await t.test("a challenge of the producer API: the payer's preimage verifies, l402.challenge.paid arrives once", t =>
    producerChallenge(t, front)
  )
}

async function validKey(t: T, { gateway, till }: ShopFront) {
  const verdict = json(await gateway.merchantSend('POST', `/api/merchant/validate-${till.slot}`), 200)
  t.equal(verdict['isValid'], true, String(verdict['message']))
}

/** What a payer does, and what the provider does then; resolves once the payment is paid. */
export async function settle(t: T, front: ShopFront, payment: Json): Promise<Json> {
  const { till } = front
  const invoice = String(payment['lightningInvoice'])
  till.pay(invoice)
  if (till.notify === null) {
    return await front.inTime(
      'polling finds the payment',
      `poll-${till.slot}`,
      async () => await paidOrNull(front, payment)
    )
  }
  t.same(await till.notify(invoice), [200], 'the notification is accepted')
  return await front.becomes(payment['invoiceId'], 'paid')
}

/** The payment once it is paid, else null. */
export async function paidOrNull(front: ShopFront, { invoiceId }: Json): Promise<Json | null> {
  const payment = await front.payment(invoiceId)
  return payment['status'] === 'paid' ? payment : null
}

async function paymentLife(t: T, front: ShopFront) {
  const { gateway, till, clock } = front
  const created = await front.order({ metadata: { cart: '7' }, description: 'Two coffees' })
  const { invoiceId, orderId, providerChargeId } = created
  const decoded = decodeInvoice(String(created['lightningInvoice']))
  t.equal(decoded.amountSats, 10_000)
  t.equal(decoded.paymentHash, created['paymentHash'])
  t.equal(created['status'], 'unpaid')
  const page = await gateway.send('GET', String(created['payUrl']))
  if (till.slot === 'alternate') {
    t.match(created['hostedCheckoutUrl'], /^https:\/\/checkout\./)
    t.match(created['onchainAddress'], /^bcrt1/)
    t.ok(page.text.includes(String(created['onchainAddress'])), 'onchainAddress shown on the pay page')
  } else t.equal(created['hostedCheckoutUrl'], '', 'hostedCheckoutUrl empty for primary')
  t.equal(json(await gateway.merchantSend('POST', `/api/payments/${String(invoiceId)}/sync`), 200)['status'], 'unpaid')

  const paid = await settle(t, front, created)
  const charge =
    till.slot === 'primary' ? { providerChargeId, provider: 'primary' } : { alternateChargeId: providerChargeId }
  isWebhook(t, front, await front.webhookOf(invoiceId), {
    invoiceId,
    orderId,
    status: 'paid',
    amount: 0.0001,
    currency: 'BTC',
    ...charge,
    paidAt: paid['paidAt'],
    metadata: '{"cart":"7"}'
  })
  t.same(
    json(await gateway.merchantSend('POST', `/api/payments/${String(invoiceId)}/sync`), 200),
    paid,
    'sync changes nothing'
  )

  till.slowPayouts()
  const part = json(
    await gateway.merchantSend('POST', '/api/refunds', {
      invoiceId,
      refundType: 'ln',
      refundAddress: invoiceOf(clock, { amountMsat: 4_000_000n, paymentHash: randomHash() }),
      amountSatoshis: 4_000,
      reason: 'A part'
    }),
    201
  )
  await confirmed(t, front, part)
  t.equal((await front.payment(invoiceId))['status'], 'paid', 'a part of it was given back')
  const rest = json(
    await gateway.merchantSend('POST', '/api/refunds', {
      invoiceId,
      refundAddress: addressOf(),
      amountSatoshis: 6_000
    }),
    201
  )
  const over = await confirmed(t, front, rest)
  t.match(over['transactionHash'], /^[0-9a-f]{64}$/)
  t.equal((await front.payment(invoiceId))['status'], 'refunded')
  t.equal(till.payouts(), 2)
  t.match(
    json(
      await gateway.merchantSend('POST', '/api/refunds', { invoiceId, refundAddress: addressOf(), amountSatoshis: 1 }),
      400
    )['error'],
    /its status is refunded/
  )
  await front.idle('webhooks')
  t.equal(front.webhooksOf(invoiceId).length, 1, 'refund status changes emit no merchant webhook')
}

/** A refund in flight is followed up without a request; returns it as it then is. */
async function confirmed(t: T, { gateway, till, clock, inTime }: ShopFront, created: Json) {
  const path = `/api/refunds/${String(created['refundId'])}`
  if (created['status'] !== 'confirmed') {
    t.match(created['status'], /^(pending|processing)$/)
    till.finishPayouts()
    t.equal(json(await gateway.merchantSend('GET', path), 200)['status'], created['status'], 'no client has asked yet')
    // A refund is first looked up a minute after it was begun; nothing else is in flight now that time could cut short.
    clock.advance(60_000)
  }
  const refund = await inTime('the refund is followed up', FOLLOW_UP, async () => {
    const now = json(await gateway.merchantSend('GET', path), 200)
    return now['status'] === 'confirmed' ? now : null
  })
  t.same(json(await gateway.merchantSend('POST', `${path}/sync`), 200), refund)
  t.ok(refund['processedAt'])
  t.type(refund['providerRefundId'], 'string')
  return refund
}

async function fiat(t: T, front: ShopFront) {
  for (const [currency, amount, sats] of [
    ['USD', 25, front.till.sats.usd],
    ['EUR', 9.2, front.till.sats.eur]
  ] as const) {
    const created = await front.order({ currency, amount })
    t.equal(decodeInvoice(String(created['lightningInvoice'])).amountSats, sats, currency)
    await settle(t, front, created)
    const webhook = await front.webhookOf(created['invoiceId'])
    t.match(JSON.parse(webhook.text), { status: /^paid$/, amount, currency, metadata: null })
  }
}

async function proxyChallenge(t: T, front: ShopFront) {
  const { gateway, till } = front
  const upstream = await countingUpstream(t)
  const { proxyId } = json(
    await gateway.merchantSend('POST', '/api/proxy', {
      name: 'Shop',
      targetBaseUrl: upstream.origin,
      defaultPriceSats: 7
    }),
    201
  )
  const path = `/l402/proxy/${String(proxyId)}/wares`
  for (const scheme of ['l402', 'payment'] as const) {
    const offered = await gateway.send('GET', path)
    t.equal(offered.status, 402)
    const challenge = challengeOf(offered, scheme)
    const invoice = challenge.parameters.get('invoice') ?? ''
    const { paymentHash, amountSats } = decodeInvoice(invoice)
    t.equal(amountSats, 7)
    const preimage = till.pay(invoice)
    if (till.notify !== null) t.same(await till.notify(invoice), [200])
    await front.idle('notifications')
    t.same(front.webhooksOf(paymentHash), [], 'not before the credential was verified')
    const authorization = credentialOf(challenge, preimage)
    const opened = await gateway.send('GET', path, { headers: { authorization } })
    t.equal(opened.status, 200, opened.text)
    t.equal(opened.text, 'sold')
    const told = JSON.parse((await front.webhookOf(paymentHash)).text) as Json
    t.match(told, {
      event: 'l402.challenge.paid',
      amountSats: 7,
      status: /^paid$/,
      merchantId: gateway.merchant.id,
      source: 'proxy',
      proxyId
    })
    t.equal((await gateway.send('GET', path, { headers: { authorization } })).status, scheme === 'l402' ? 200 : 402)
    if (till.notify !== null) t.same(await till.notify(invoice), [200], 'a replay')
    await front.idle('notifications')
    await front.idle('webhooks')
    t.equal(front.webhooksOf(paymentHash).length, 1)
  }
}

async function producerChallenge(t: T, front: ShopFront) {
  const { gateway, till } = front
  const made = json(
    await gateway.merchantSend('POST', '/api/l402/challenges', { resource: '/reports/1', priceSats: 9 }),
    200
  )
  const { paymentHash, macaroon, invoice } = made
  const preimage = till.pay(String(invoice))
  if (till.notify !== null) t.same(await till.notify(String(invoice)), [200])
  for (const time of ['first', 'second']) {
    const verdict = json(await gateway.merchantSend('POST', '/api/l402/challenges/verify', { macaroon, preimage }), 200)
    t.match(verdict, { valid: true, resource: '/reports/1', amountSats: 9, paymentHash }, time)
  }
  const wrong = json(
    await gateway.merchantSend('POST', '/api/l402/challenges/verify', { macaroon, preimage: '00'.repeat(32) }),
    200
  )
  t.equal(wrong['valid'], false)
  const received = await front.webhookOf(paymentHash)
  const { createdAt, paidAt } = JSON.parse(received.text) as Json
  isWebhook(t, front, received, {
    event: 'l402.challenge.paid',
    paymentHash,
    resource: '/reports/1',
    amountSats: 9,
    status: 'paid',
    merchantId: gateway.merchant.id,
    source: 'producer',
    proxyId: null,
    idempotencyKey: null,
    createdAt,
    paidAt
  })
  t.ok(Date.parse(String(createdAt)) <= Date.parse(String(paidAt)))
  await front.idle('webhooks')
  t.equal(front.webhooksOf(paymentHash).length, 1)
}

/** Of an invoice of a payer's, which no other test has. */
export function randomHash(): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('hex')
}
