import type { Test as T } from 'tap'
import type { Answer } from '../support/gateway.ts'
import { addressOf, invoiceOf } from '../payments/refunds/fixture.ts'
import { paidOrNull, randomHash, settle } from './provider-journey.ts'
import { json, PATIENCE, type Json, type ShopFront } from './shop-front.ts'

/** What a merchant sees of a provider that fails, of notifications that get lost, and of keys that end. */
export async function faults(t: T, front: ShopFront): Promise<void> {
  await t.test('a lost answer to create leaves no payment, and the order id is free', t => lostCreate(t, front))
  await t.test('HTML and 5xx are 503, and nothing of the payment changes', t => nonsense(t, front))
  await t.test('duplicate notifications are one change and one webhook', t => duplicates(t, front))
  await t.test('a lost notification: polling finds the payment', t => lostNotification(t, front))
  await t.test('the answer to a refund is lost: pending, looked up, never sent twice', t => lostPayout(t, front))
  await t.test('a key that was replaced between invoice and payment', t => rotated(t, front))
  await t.test('a key without a scope: the scope is named', t => missingScope(t, front))
  await t.test('a key that became invalid: 502, and validation says so', t => expiredKey(t, front))
}

let orders = 0

function create({ gateway }: ShopFront, orderId = `faulty-${++orders}`) {
  return gateway.merchantSend('POST', '/api/payments', { orderId, amount: 0.0001, currency: 'BTC' })
}

function sync({ gateway }: ShopFront, { invoiceId }: Json) {
  return gateway.merchantSend('POST', `/api/payments/${String(invoiceId)}/sync`)
}

/** A 503 that says when to come back. */
function isUnavailable(t: T, answer: Answer, message: string) {
  t.equal(answer.status, 503, message)
  t.match(answer.headers['retry-after'], /^[1-9]\d*$/, `${message}: Retry-After`)
  t.match(answer.json(), { error: 'Payment provider unavailable' }, message)
}

/**
 * A provider that hangs: 503 within its timeout; after five immediately, with Retry-After; and again 10 s later. Before there is
 * any payment: the poller's calls would be fine.
 */
export async function hanging(t: T, front: ShopFront): Promise<void> {
  const { till, clock, gateway } = front
  till.onHang(() => {
    clock.advance(PATIENCE)
  })
  for (let time = 1; time <= 5; time++) {
    till.fail('hang', 'create')
    const began = clock.now()
    isUnavailable(t, await create(front), `failure ${time}`)
    t.equal(clock.now() - began, PATIENCE, 'when the time of the provider was over')
  }
  till.onHang(() => {})
  const requests = till.requests()
  for (const [what, path] of [
    ['payments', '/api/payments'],
    ['challenges', '/api/l402/challenges']
  ] as const) {
    const answer = await gateway.merchantSend(
      'POST',
      path,
      what === 'payments' ? { orderId: 'while-open', amount: 1, currency: 'BTC' } : { resource: '/r', priceSats: 3 }
    )
    t.equal(answer.status, 503, what)
    t.equal(answer.headers['retry-after'], '10', `${what}: until it is tried again`)
  }
  t.match(json(await gateway.merchantSend('POST', `/api/merchant/validate-${till.slot}`), 200), {
    isValid: false,
    message: /could not be asked, so the key was not tried/
  })
  t.equal(till.requests(), requests, 'no provider was called')
  clock.advance(9_999)
  t.equal((await create(front)).headers['retry-after'], '1')
  clock.advance(1)
  json(await create(front, 'while-open'), 201)
  json(await create(front), 201)
}

async function lostCreate(t: T, front: ShopFront) {
  const { till, gateway } = front
  const charges = till.charges()
  till.fail('lost after', 'create')
  isUnavailable(t, await create(front, 'lost-order'), 'create')
  t.equal(till.charges(), charges + 1, 'the provider had made an invoice')
  json(await gateway.merchantSend('GET', '/api/payments/order/lost-order'), 404)
  const payment = json(await create(front, 'lost-order'), 201)
  t.equal(till.charges(), charges + 2)
  await settle(t, front, payment)
  json(await create(front, 'lost-order'), 400)
}

async function nonsense(t: T, front: ShopFront) {
  const { till, gateway } = front
  for (const fault of ['html', 'server error'] as const) {
    till.fail(fault, 'create')
    const answer = await create(front, `no-${fault}`)
    isUnavailable(t, answer, fault)
    t.notMatch(answer.text, /<html|Checking your browser|unable to query/, 'nothing of it is passed on')
    json(await gateway.merchantSend('GET', `/api/payments/order/${encodeURIComponent(`no-${fault}`)}`), 404)
    const payment = json(await create(front), 201)
    let synced: Answer
    // The poller may have been quicker to run into it.
    for (let tries = 1; ; tries++) {
      till.fail(fault, 'look up')
      synced = await sync(front, payment)
      if (synced.status === 503 || tries === 5) break
    }
    isUnavailable(t, synced, `${fault} at sync`)
    t.same(await front.payment(payment['invoiceId']), payment)
    till.pay(String(payment['lightningInvoice']))
    t.equal(json(await sync(front, payment), 200)['status'], 'paid')
  }
}

async function duplicates(t: T, front: ShopFront) {
  const { till } = front
  const payment = json(await create(front), 201)
  const invoice = String(payment['lightningInvoice'])
  const paid = await settle(t, front, payment)
  if (till.notify !== null) {
    t.same(await till.notify(invoice, 5), [200, 200, 200, 200, 200])
    t.same(
      (await Promise.all([till.notify(invoice), till.notify(invoice)])).flat().filter(status => status !== 200),
      []
    )
    await front.idle('notifications')
  }
  await Promise.all([sync(front, payment), sync(front, payment), sync(front, payment)])
  t.same(await front.payment(payment['invoiceId']), paid)
  await front.webhookOf(payment['invoiceId'])
  await front.idle('webhooks')
  t.equal(front.webhooksOf(payment['invoiceId']).length, 1)
}

async function lostNotification(t: T, front: ShopFront) {
  const { till, clock } = front
  const payments: Json[] = []
  for (let count = 0; count < 3; count++) payments.push(json(await create(front), 201))
  const requests = till.requests()
  for (const payment of payments.slice(1)) till.pay(String(payment['lightningInvoice']))
  clock.advance(till.polled)
  for (const payment of payments.slice(1)) {
    await front.inTime('polling finds the payment', `poll-${till.slot}`, () => paidOrNull(front, payment))
    t.match(JSON.parse((await front.webhookOf(payment['invoiceId'])).text), { status: /^paid$/ })
  }
  t.equal((await front.payment(payments[0]?.['invoiceId']))['status'], 'unpaid')
  // Where notifications are sent, the poller is a back-up with a budget, for an account with whatever else came in.
  if (till.notify !== null)
    t.ok(
      till.requests() - requests <= 3,
      `${till.requests() - requests} calls: an account-wide list, not a look-up of each payment`
    )
}

async function lostPayout(t: T, front: ShopFront) {
  const { till, clock, gateway } = front
  const payment = json(await create(front), 201)
  const { invoiceId } = payment
  await settle(t, front, payment)
  const payouts = till.payouts()
  till.fail('lost after', 'pay out')
  const refund = json(
    await gateway.merchantSend('POST', '/api/refunds', {
      invoiceId,
      refundType: 'ln',
      refundAddress: invoiceOf(clock, { amountMsat: 9_000_000n, paymentHash: randomHash() }),
      amountSatoshis: 9_000
    }),
    201
  )
  t.equal(refund['status'], 'pending')
  t.equal(till.payouts(), payouts + 1, 'the provider had sent it')
  t.match(
    json(
      await gateway.merchantSend('POST', '/api/refunds', {
        invoiceId,
        refundAddress: addressOf(),
        amountSatoshis: 1_001
      }),
      400
    ),
    { error: /1000 satoshis are left/ }
  )
  till.finishPayouts()
  clock.advance(60_000)
  const path = `/api/refunds/${String(refund['refundId'])}`
  const confirmed = await front.inTime('the refund is looked up', 'refunds-follow-up', async () => {
    const now = json(await gateway.merchantSend('GET', path), 200)
    return now['status'] === 'confirmed' ? now : null
  })
  t.type(confirmed['providerRefundId'], 'string')
  t.equal(till.payouts(), payouts + 1, 'and never sent twice')
  t.equal((await front.payment(invoiceId))['status'], 'paid', 'a part of it was given back')
}

async function rotated(t: T, front: ShopFront) {
  const { till, clock } = front
  const payment = json(await create(front), 201)
  const invoice = String(payment['lightningInvoice'])
  const before = till.anotherKey()
  await front.useKey(before)
  const second = json(await create(front), 201)
  await front.useKey(till.anotherKey())
  till.revoke(before)
  for (const charged of [payment, second]) till.pay(String(charged['lightningInvoice']))
  if (till.kind === 'opennode') {
    // It signs with the key that made the charge, which is not kept: polling finds these.
    t.same(await till.notify?.(invoice), [401])
  } else if (till.notify !== null) t.same(await till.notify(invoice), [200])
  clock.advance(till.polled)
  for (const charged of [payment, second]) {
    await front.inTime('it is paid', `poll-${till.slot}`, () => paidOrNull(front, charged))
    await front.webhookOf(charged['invoiceId'])
  }
  await front.useKey(till.key)
}

async function missingScope(t: T, front: ShopFront) {
  const { till, gateway, clock } = front
  const paid = json(await create(front), 201)
  await settle(t, front, paid)
  const blind = till.keyWithoutInvoices()
  await front.useKey(blind.key)
  const verdict = json(await gateway.merchantSend('POST', `/api/merchant/validate-${till.slot}`), 200)
  t.equal(verdict['isValid'], false)
  t.match(verdict['message'], blind.lacks)
  const refused = json(await create(front, 'no-scope'), 502)
  t.match(refused, { error: 'Payment provider error', message: blind.lacks })
  json(await gateway.merchantSend('GET', '/api/payments/order/no-scope'), 404)

  const tight = till.keyWithoutPayouts()
  await front.useKey(tight.key)
  t.equal(
    json(await gateway.merchantSend('POST', `/api/merchant/validate-${till.slot}`), 200)['isValid'],
    true,
    'it can take payments'
  )
  const payouts = till.payouts()
  const body = () => ({
    invoiceId: paid['invoiceId'],
    refundType: 'ln',
    refundAddress: invoiceOf(clock, { amountMsat: 10_000_000n, paymentHash: randomHash() }),
    amountSatoshis: 10_000
  })
  t.match(json(await gateway.merchantSend('POST', '/api/refunds', body()), 400)['error'], tight.lacks)
  t.equal(till.payouts(), payouts)
  await front.useKey(till.key)
  json(await gateway.merchantSend('POST', '/api/refunds', body()), 201)
  t.equal(till.payouts(), payouts + 1, 'nothing is held by the one that was refused')
}

async function expiredKey(t: T, front: ShopFront) {
  const { till, gateway } = front
  const key = till.anotherKey()
  await front.useKey(key)
  const payment = json(await create(front), 201)
  till.revoke(key)
  t.match(json(await create(front, 'dead-key'), 502), { error: 'Payment provider error' })
  t.match(json(await sync(front, payment), 502), { error: 'Payment provider error' })
  const verdict = json(await gateway.merchantSend('POST', `/api/merchant/validate-${till.slot}`), 200)
  t.match(verdict, { isValid: false, message: /does not accept (this key|the macaroon)/ })
  t.notOk(String(verdict['message']).includes(key), 'the key is not shown')
  await front.useKey(till.key)
  json(await create(front, 'dead-key'), 201)
  t.equal(json(await sync(front, payment), 200)['status'], 'unpaid')
}
