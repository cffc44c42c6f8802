import { randomBytes } from 'node:crypto'
import t from 'tap'
import { IdempotencyKeyTaken } from '../../../src/engine/message/idempotency.ts'
import { PaymentStore } from '../../../src/payments/payments/store-sql.ts'
import { InvoiceIdTaken, type Reservation } from '../../../src/payments/payments/store.ts'
import type { Payment } from '../../../src/payments/payments/schema.ts'
import { numericId, systemRandom } from '../../../src/platform/system/ids.ts'
import { eachDatabase } from '../../support/database.ts'
import { aPayment, fixture } from './fixture.ts'

await eachDatabase(t, 'payments that are written together get each its own verdict', async (t, database) => {
  const { merchants, merchant, clock } = await fixture(t, { database })
  const [acme, gone] = [await merchant(), await merchant()]
  const store = new PaymentStore(database)
  const now = clock.now()
  const held = (orderId: string, different: Partial<Reservation> = {}) => ({
    merchantId: acme.id,
    orderId,
    reservationId: randomBytes(8).toString('hex'),
    heldUntil: now + 120_000,
    ...different
  })
  const paymentOf = ({ merchantId, orderId }: Reservation, different: Partial<Payment> = {}) =>
    aPayment({
      merchantId,
      orderId,
      invoiceId: numericId(systemRandom),
      payToken: randomBytes(32).toString('base64url'),
      paymentHash: randomBytes(32).toString('hex'),
      amount: '0.00012345',
      description: 'a "book", {and} \\ more',
      metadata: { sku: '1' },
      createdAt: now,
      expiresAt: now + 3_600_000,
      ...different
    })

  await t.test('payments: one that is refused fails alone, and keeps its order id', async t => {
    const idempotency = { operation: 'payment', key: 'the same', fingerprint: 'ab'.repeat(32) } as const
    const good = Array.from({ length: 20 }, (_each, at) => held(`good-${at}`))
    const [theirs, sameId, keyed, keyedToo] = [
      held('theirs', { merchantId: gone.id }),
      held('same id'),
      held('keyed', { idempotency }),
      held('keyed too', { idempotency })
    ]
    for (const each of [...good, theirs, sameId, keyed, keyedToo]) t.equal(await store.reserve(each, now), 'done')
    await merchants.deactivate(gone.id)
    const made = good.map(each => paymentOf(each))
    const twin = paymentOf(sameId, { invoiceId: made[5]?.invoiceId ?? '' })
    const outcomes = await Promise.allSettled([
      ...good.map((each, at) => store.insert(made[at] ?? paymentOf(each), each)),
      store.insert(paymentOf(held('lost')), held('lost')),
      store.insert(paymentOf(theirs), theirs),
      store.insert(twin, sameId),
      store.insert(paymentOf(keyed), keyed),
      store.insert(paymentOf(keyedToo), keyedToo)
    ])
    const said = outcomes.map(outcome => (outcome.status === 'fulfilled' ? outcome.value : outcome.reason))
    t.same(
      said.slice(0, 5),
      Array.from({ length: 5 }, () => 'done')
    )
    t.same(
      said.slice(6, 20),
      Array.from({ length: 14 }, () => 'done')
    )
    t.same(said.slice(20, 22), ['taken', 'inactive'])
    t.same(
      [said[5], said[22]].map(each => each instanceof InvoiceIdTaken || each).toSorted(),
      ['done', true].toSorted(),
      'of two with one invoice id one is written'
    )
    t.same(
      said
        .slice(23)
        .map(each => each instanceof IdempotencyKeyTaken || each)
        .toSorted(),
      ['done', true].toSorted(),
      'of two with one idempotency key one is written'
    )
    for (const [at, payment] of made.entries()) {
      if (at !== 5) t.same(await store.get(acme.id, payment.invoiceId), payment)
    }
    const rows = await database.sql`select order_id from payment_reservations where order_id like 'good%'`
    t.ok(rows.length <= 1, 'the written row no longer holds its order id')
    if (said[22] instanceof InvoiceIdTaken)
      t.equal(await store.insert({ ...twin, invoiceId: numericId(systemRandom) }, sameId), 'done', 'drawn again')
  })
})
