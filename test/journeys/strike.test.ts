import t from 'tap'
import { eventually } from '../support/gateway-process.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { faults, hanging } from './provider-faults.ts'
import { journey, paidOrNull } from './provider-journey.ts'
import { json, openShopFront } from './shop-front.ts'
import { strikeTill } from './tills.ts'

void t.test('strike in the primary slot of a whole gateway', async t => {
  const clock = new ManualClock(Date.now())
  const till = await strikeTill(t, clock)
  const { fake } = till
  const front = await openShopFront(t, till, clock)
  const { gateway } = front
  t.same(fake.subscriptions, [], 'nothing is registered by saving a key')

  await t.test('it hangs: 503 within its timeout, after five immediately with Retry-After, and again 10 s later', t =>
    hanging(t, front)
  )

  await t.test('forged notifications are 401, with no call and no change', async t => {
    const payment = await front.order()
    till.pay(String(payment['lightningInvoice']))
    const requests = till.requests()
    const body = JSON.stringify({
      id: 'e',
      eventType: 'receive-request.receive-completed',
      webhookVersion: 'v1',
      data: { entityId: payment['providerChargeId'] }
    })
    for (const signature of ['', '0'.repeat(64), 'nothing']) {
      const answer = await gateway.send('POST', '/api/webhooks/primary', {
        headers: { 'content-type': 'application/json', 'x-webhook-signature': signature },
        body
      })
      t.equal(answer.status, 401)
    }
    await front.idle('notifications')
    t.equal(till.requests(), requests)
    t.same(await front.payment(payment['invoiceId']), payment)
  })

  await t.test(
    'notifications in the wrong order, and of unknown charges, are 200; one webhook for each status',
    async t => {
      const payment = await front.order()
      const id = String(payment['providerChargeId'])
      fake.begin(id, 'ONCHAIN')
      fake.complete(id)
      fake.announce('receive-request.receive-pending', id)
      fake.announce('receive-request.receive-completed', '7c9e6679-7425-40de-944b-e07fc1f90ae7')
      fake.announce('receive-request.receive-pending', id)
      t.same(await fake.deliver(), [200, 200, 200, 200, 200])
      await front.becomes(payment['invoiceId'], 'paid')
      await front.webhookOf(payment['invoiceId'])
      await front.idle('notifications')
      await front.idle('webhooks')
      t.same(front.statusesOf(payment['invoiceId']), ['paid'])
    }
  )

  await t.test('on chain and not final: processing, then paid; less than asked: underpaid', async t => {
    const payment = await front.order()
    const id = String(payment['providerChargeId'])
    fake.begin(id)
    await fake.deliver()
    await front.becomes(payment['invoiceId'], 'processing')
    fake.complete(id)
    await fake.deliver()
    await front.becomes(payment['invoiceId'], 'paid')
    const other = await front.order()
    fake.pay(String(other['providerChargeId']), 'ONCHAIN', { amount: '0.00009999', currency: 'BTC' })
    await fake.deliver()
    await front.becomes(other['invoiceId'], 'underpaid')
    await eventually('all have arrived', () =>
      Promise.resolve(
        front.webhooksOf(payment['invoiceId']).length === 2 && front.webhooksOf(other['invoiceId']).length === 1
          ? true
          : null
      )
    )
    t.same(front.statusesOf(payment['invoiceId']).toSorted(), ['paid', 'processing'])
    t.match(JSON.parse(front.webhooksOf(other['invoiceId'])[0]?.text ?? ''), { status: 'underpaid', paidAt: null })
  })

  await t.test("one that another account's secret signs is 401, and sent again by Strike", async t => {
    const payment = await front.order()
    till.pay(String(payment['lightningInvoice']))
    const subscription = fake.subscriptions[0]
    if (subscription === undefined) throw new Error('it is registered')
    const others = { ...subscription, secret: 'of-another-account' }
    fake.subscriptions.splice(0, 1, others)
    t.same(await till.notify?.(String(payment['lightningInvoice'])), [401])
    fake.subscriptions.splice(0, 1, subscription)
    t.same(await till.notify?.(String(payment['lightningInvoice'])), [200])
    await front.becomes(payment['invoiceId'], 'paid')
    t.ok(fake.waiting > 0, 'the refused one is sent again automatically')
    t.equal(json(await gateway.merchantSend('GET', '/api/merchant/webhooks/deliveries?status=failed'), 200)['total'], 0)
  })

  await t.test(
    'on chain, and the notification is lost: polling finds it, and does not ask for what others were paid',
    async t => {
      const payment = await front.order()
      for (let count = 0; count < 20; count++) {
        const { id } = fake.account.createRequest({ bolt11: { amount: { amount: '0.00000100', currency: 'BTC' } } })
        fake.account.receive(id, 'P2P', 'COMPLETED')
      }
      fake.account.receive(String(payment['providerChargeId']), 'P2P', 'COMPLETED')
      const requests = till.requests()
      await front.inTime('polling finds the payment', 'poll-primary', () => paidOrNull(front, payment))
      t.ok(till.requests() - requests <= 6, `${till.requests() - requests} calls`)
    }
  )

  await t.test('from the key to the refund', t => journey(t, front))
  await t.test('failures', t => faults(t, front))
})
