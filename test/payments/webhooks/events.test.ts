import t from 'tap'
import type { OnPaid } from '../../../src/selling/holding/challenge.ts'
import { PaymentChanges } from '../../../src/payments/payments/changes.ts'
import { PaymentStore } from '../../../src/payments/payments/store-sql.ts'
import { modern } from '../../selling/challenges/fixture.ts'
import { producer, text } from '../../selling/challenges/producer-fixture.ts'
import { openAnyDatabase } from '../../support/database.ts'
import { fixture } from './fixture.ts'

await t.test(
  'paid, processing, underpaid and expired are reported, once per invoice and status; refunded when the provider reports it',
  async t => {
    const { changes, clock, jobs, merchant, payment, rows } = await fixture(t)
    const account = await merchant('http://127.0.0.1:1234/')
    const first = await payment(account)
    for (const status of ['processing', 'underpaid', 'paid', 'paid', 'refunded', 'refunded'] as const) {
      await changes.observe(
        first,
        { status, receivedSats: status === 'underpaid' ? 5 : 10_000, settledAt: null },
        clock.now()
      )
      clock.advance(1)
    }
    const second = await payment(account)
    clock.advance(3_600_000)
    await changes.recordDue(second, clock.now())
    await changes.recordDue(second, clock.now())
    const written = await rows(account)
    t.same(
      written.map(row => [row.event, row.event_key]),
      [
        ['payment.processing', `payment:${first.invoiceId}:processing`],
        ['payment.underpaid', `payment:${first.invoiceId}:underpaid`],
        ['payment.paid', `payment:${first.invoiceId}:paid`],
        ['payment.refunded', `payment:${first.invoiceId}:refunded`],
        ['payment.expired', `payment:${second.invoiceId}:expired`]
      ]
    )
    t.same(
      written.map(row => (JSON.parse(row.body) as { status: string }).status),
      ['processing', 'underpaid', 'paid', 'refunded', 'expired']
    )
    t.same(
      written.map(row => (JSON.parse(row.body) as { paidAt: string | null }).paidAt !== null),
      [false, false, true, true, false]
    )
    t.same(
      (await jobs.waiting()).map(job => job.data['delivery']),
      written.map(row => row.id)
    )
  }
)

await t.test('Refund status changes emit no merchant webhook: our own change to refunded writes no event', async t => {
  const { changes, database, merchant, paid, rows } = await fixture(t)
  const account = await merchant('http://127.0.0.1:1234/')
  const payment = await paid(account)
  await database.transaction(sql => changes.apply(sql, payment, 'refunded', {}, false))
  t.same(
    (await rows(account)).map(row => row.event),
    ['payment.paid']
  )
})

await t.test('a merchant without a callback URL gets no event, also not later', async t => {
  const { jobs, merchants, merchant, paid, rows } = await fixture(t)
  const account = await merchant(null)
  await paid(account)
  await merchants.changeWebhook(account.id, { url: 'http://127.0.0.1:1234/' })
  t.same(await rows(account), [])
  t.same(await jobs.waiting(), [])
})

await t.test('event and job commit or roll back with the change', async t => {
  const { changes, clock, database, jobs, merchant, payment, rows, webhooks } = await fixture(t)
  const account = await merchant('http://127.0.0.1:1234/')
  const made = await payment(account)
  const failing = new PaymentChanges({
    store: new PaymentStore(database),
    database,
    clock,
    changed: async (sql, change) => {
      await webhooks.paymentChanged(sql, change)
      throw new Error('something else failed')
    }
  })
  await t.rejects(failing.observe(made, { status: 'paid', receivedSats: null, settledAt: null }, clock.now()), {
    message: 'something else failed'
  })
  t.same(await rows(account), [])
  t.same(await jobs.waiting(), [])
  await changes.observe(made, { status: 'paid', receivedSats: null, settledAt: null }, clock.now())
  t.equal((await rows(account)).length, 1)
  t.equal((await jobs.waiting()).length, 1)
  // The same event from somewhere else: the transaction goes on, and nothing is written twice.
  await database.transaction(sql =>
    webhooks.paymentChanged(sql, { payment: { ...made, status: 'paid' }, from: 'unpaid', tellMerchant: true })
  )
  t.equal((await rows(account)).length, 1)
  t.equal((await jobs.waiting()).length, 1)
})

await t.test(
  "l402.challenge.paid: fired once, at the first successful verification of a challenge's credential",
  async t => {
    const database = await openAnyDatabase(t)
    const { merchant, merchants, rows, jobs, webhooks } = await fixture(t, { database })
    let told: OnPaid = (tx, paid) => webhooks.challengesPaid(tx, paid)
    const shop = await producer(t, {}, database, (tx, challenge) => told(tx, challenge))
    const account = await merchant('http://127.0.0.1:1234/')
    await merchants.change(account.id, { l402Enabled: true })
    const { data } = await shop.call(account, 'POST', '/api/l402/challenges', {
      resource: '/reports/1',
      priceSats: 5,
      idempotencyKey: 'order-7'
    })
    const credential = { macaroon: data['macaroon'], preimage: shop.payee.pay(text(data, 'invoice')) }
    t.same(await rows(account), [], 'not when it was made or paid, but when it is verified')
    for (let time = 0; time < 3; time++) {
      t.match((await shop.call(account, 'POST', '/api/l402/challenges/verify', credential)).data, { valid: true })
      shop.clock.advance(1_000)
    }
    const [row, ...more] = await rows(account)
    t.same(more, [], 'later verifications of the same credential do not re-fire')
    t.match(row, {
      event: 'l402.challenge.paid',
      event_key: `challenge:${text(data, 'paymentHash')}`,
      invoice_id: null,
      payment_hash: data['paymentHash']
    })
    const paid = await shop.selling.claims.find(text(data, 'paymentHash'))
    if (paid === null) throw new Error('the challenge is gone')
    t.same(JSON.parse(row?.body ?? ''), {
      event: 'l402.challenge.paid',
      paymentHash: data['paymentHash'],
      resource: '/reports/1',
      amountSats: 5,
      status: 'paid',
      merchantId: account.id,
      source: 'producer',
      proxyId: null,
      idempotencyKey: 'order-7',
      createdAt: new Date(paid.createdAt).toISOString(),
      paidAt: new Date(paid.paidAt ?? 0).toISOString()
    })
    t.equal((await jobs.waiting()).length, 1)

    await t.test(
      "proxy challenges too; not those of operators' routes, nor of a merchant without a callback URL",
      async t => {
        const silent = await merchant(null)
        const hashes = ['1', '2', '3', '4'].map(digit => digit.repeat(64))
        const changes = [
          { source: 'proxy', merchantId: String(account.id), proxyId: 'shop-0a1b2c' },
          { source: 'route', merchantId: null },
          { source: 'producer', merchantId: String(silent.id) },
          { source: 'storefront', merchantId: String(account.id) }
        ] as const
        for (const [index, change] of changes.entries()) {
          const paymentHash = hashes[index] ?? ''
          await shop.selling.challengeStore.insert(database.sql, {
            ...paid,
            ...change,
            paymentHash,
            tokenId: paymentHash,
            idempotencyKey: null
          })
          t.ok(await shop.selling.claims.claim(paymentHash, 'l402', change.merchantId))
          t.ok(await shop.selling.claims.claim(paymentHash, 'l402', change.merchantId))
        }
        t.same(await rows(silent), [])
        const bodies = (await rows(account)).map(one => JSON.parse(one.body) as Record<string, unknown>)
        t.same(bodies.map(body => [body['source'], body['proxyId']]).toSorted(), [
          ['producer', null],
          ['proxy', 'shop-0a1b2c']
        ])
      }
    )

    await t.test(
      'a single-use credential that is consumed fires once as well, and a failed event leaves the payment unclaimed',
      async t => {
        const made = await shop.call(account, 'POST', '/api/l402/challenges', { resource: '/reports/2', priceSats: 6 })
        const paymentHash = text(made.data, 'paymentHash')
        const body = {
          credential: modern([text(made.data, 'mppChallenge')], shop.payee.pay(text(made.data, 'invoice')))
        }
        told = async (tx, paid) => {
          await webhooks.challengesPaid(tx, paid)
          throw Object.assign(new Error('the database is down'), { code: 'ECONNRESET' })
        }
        t.equal((await shop.call(account, 'POST', '/api/l402/challenges/verify-credential', body)).status, 503)
        const before = (await rows(account)).length
        told = (tx, paid) => webhooks.challengesPaid(tx, paid)
        t.match((await shop.call(account, 'POST', '/api/l402/challenges/verify-credential', body)).data, {
          valid: true,
          consumed: true
        })
        t.match((await shop.call(account, 'POST', '/api/l402/challenges/verify-credential', body)).data, {
          valid: false
        })
        const after = await rows(account)
        t.equal(after.length, before + 1)
        t.equal(after.filter(one => one.event_key === `challenge:${paymentHash}`).length, 1)
      }
    )
  }
)
