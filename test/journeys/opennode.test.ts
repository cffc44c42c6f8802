import t from 'tap'
import { chargeForm } from '../fakes/opennode-views.ts'
import { eventually } from '../support/gateway-process.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { faults, hanging } from './provider-faults.ts'
import { journey } from './provider-journey.ts'
import { openShopFront, type Json } from './shop-front.ts'
import { openNodeTill } from './tills.ts'

void t.test('opennode in the alternate slot of a whole gateway', async t => {
  const clock = new ManualClock(Date.now())
  const till = await openNodeTill(t, clock)
  const { fake } = till
  const front = await openShopFront(t, till, clock)
  const chargeOf = (payment: Json) => fake.account.charge(String(payment['providerChargeId']))
  const statuses = (payment: Json) => front.statusesOf(payment['invoiceId'])

  await t.test('it hangs: 503 within its timeout, after five immediately with Retry-After, and again 10 s later', t =>
    hanging(t, front)
  )

  await t.test('forged notifications are 401, with no call and no change', async t => {
    const payment = await front.order()
    till.pay(String(payment['lightningInvoice']))
    const requests = till.requests()
    t.equal((await fake.notifyForged(chargeOf(payment)))?.status, 401)
    await front.idle('notifications')
    t.equal(till.requests(), requests)
    t.same(await front.payment(payment['invoiceId']), payment)
  })

  await t.test('a genuine signature with a status that is not true changes nothing', async t => {
    const payment = await front.order()
    const charge = chargeOf(payment)
    const form = chargeForm(charge)
    form.set('status', 'paid')
    t.equal((await fake.notify(charge, form))?.status, 200)
    await front.idle('notifications')
    t.same(await front.payment(payment['invoiceId']), payment)
  })

  await t.test(
    'notifications in the wrong order, and of unknown charges, are 200; one webhook for each status',
    async t => {
      const payment = await front.order()
      const charge = chargeOf(payment)
      const early = chargeForm(fake.account.seeTransaction(charge.id, charge.amount))
      t.equal((await fake.notify(fake.account.confirmChain(charge.id)))?.status, 200)
      await front.becomes(payment['invoiceId'], 'paid')
      t.equal((await fake.notify(charge, early))?.status, 200, 'late, and outdated')
      t.equal(
        (await fake.notify(fake.account.createCharge(till.key, { amount: 5, callback_url: charge.callbackUrl ?? '' })))
          ?.status,
        200,
        'not one of ours'
      )
      await front.idle('notifications')
      await front.webhookOf(payment['invoiceId'])
      await front.idle('webhooks')
      t.same(statuses(payment), ['paid'])
    }
  )

  await t.test(
    'on chain: processing, then paid; less than asked: underpaid; refunded by the provider: the merchant is notified',
    async t => {
      const payment = await front.order()
      await fake.payOnChain(chargeOf(payment).id, 10_000)
      await front.becomes(payment['invoiceId'], 'processing')
      await fake.confirm(chargeOf(payment).id)
      await front.becomes(payment['invoiceId'], 'paid')
      const other = await front.order()
      await fake.payOnChain(chargeOf(other).id, 9_999)
      await front.becomes(other['invoiceId'], 'underpaid')
      await eventually('all have arrived', () =>
        Promise.resolve(statuses(payment).length === 2 && statuses(other).length === 1 ? true : null)
      )
      t.same(statuses(payment).toSorted(), ['paid', 'processing'])
      t.same(statuses(other), ['underpaid'])
      await fake.become(chargeOf(payment).id, 'refunded')
      await front.becomes(payment['invoiceId'], 'refunded')
      await eventually('it has arrived', () => Promise.resolve(statuses(payment).length === 3 ? true : null))
      t.same(statuses(payment).toSorted(), ['paid', 'processing', 'refunded'])
    }
  )

  await t.test('from the key to the refund', t => journey(t, front))
  await t.test('failures', t => faults(t, front))
})
