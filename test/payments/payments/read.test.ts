import t from 'tap'
import { hasPaidPayment } from '../../../src/accounts/merchants/holdings.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { ProviderUnavailable } from '../../../src/lightning/provider-calls/errors.ts'
import type { ChargeState } from '../../../src/lightning/provider-calls/provider.ts'
import { ANSWERLESS } from '../../../src/payments/payments/sweeper.ts'
import type { Payment } from '../../../src/payments/payments/schema.ts'
import { anInput, fixture } from './fixture.ts'

const PAID = { status: 'paid', receivedSats: 10_000, settledAt: null } as const

void t.test('reading payments', async t => {
  const { call, primary, merchant, payments, clock, another } = await fixture(t)
  const [acme, other] = [await merchant(), await merchant()]
  const created = await call(acme, 'POST', '/api/payments', anInput())
  const invoiceId = String(created.data['invoiceId'])

  await t.test(
    "Get payment | 404 {error} if unknown or another merchant's; non-numeric ids too (decision 10)",
    async t => {
      for (const [caller, id] of [
        [acme, '100000000000000'],
        [other, invoiceId],
        [acme, 'abc'],
        [acme, '1'],
        [acme, `${invoiceId}0`],
        [acme, '0'.repeat(15)],
        [acme, '%00'],
        [acme, '١'.repeat(15)]
      ] as const) {
        const reply = await call(caller, 'GET', `/api/payments/${id}`)
        t.same([reply.status, reply.data], [404, { error: 'Payment not found' }], id)
      }
      for (const id of ['100000000000000', 'abc']) {
        t.same(
          (await call(acme, 'POST', `/api/payments/${id}/sync`)).data,
          { error: 'Payment not found' },
          `sync ${id}`
        )
        t.same(
          (await call(null, 'GET', `/api/payments/${id}/status`)).data,
          { error: 'Payment not found' },
          `status ${id}`
        )
      }
      t.equal((await call(other, 'POST', `/api/payments/${invoiceId}/sync`)).status, 404)
    }
  )

  await t.test(
    'GET /api/payments/order/{orderId} | same as get by invoice; takes %2F and %2E and decodes once (decision 52)',
    async t => {
      for (const orderId of [
        'status',
        'a/b/status',
        '/',
        '%2F',
        '#?&=+;:@$,',
        '..x',
        '"\'<>',
        '💣'.repeat(100),
        '\n'
      ]) {
        const made = await call(acme, 'POST', '/api/payments', anInput({ orderId }))
        t.equal(made.status, 201, orderId)
        const reply = await call(acme, 'GET', `/api/payments/order/${encodeURIComponent(orderId)}`)
        t.same([reply.status, reply.data], [200, made.data], orderId)
        t.equal(
          (await call(other, 'GET', `/api/payments/order/${encodeURIComponent(orderId)}`)).status,
          404,
          "another merchant's"
        )
      }
      t.equal((await call(acme, 'GET', '/api/payments/order/%73tatus')).status, 200, 'any spelling of the same')
      for (const path of ['unknown', '%00', 'a%00b', 'x'.repeat(201), '%2525252F']) {
        const reply = await call(acme, 'GET', `/api/payments/order/${path}`)
        t.same([reply.status, reply.data], [404, { error: 'Payment not found' }], path)
      }
    }
  )

  await t.test(
    'a payment past expiresAt reads expired everywhere once its provider has reported (decision 178)',
    async t => {
      const create = async () => {
        const { data } = await call(acme, 'POST', '/api/payments', anInput())
        return { id: String(data['invoiceId']), charge: String(data['providerChargeId']), url: String(data['payUrl']) }
      }
      const everywhere = async ({ id, url }: { readonly id: string; readonly url: string }) => [
        (await call(acme, 'GET', `/api/payments/${id}`)).data['status'],
        (await call(null, 'GET', `/api/payments/${id}/status`)).data['status'],
        (await payments.byPayToken(url.split('/').at(-1) ?? ''))?.status,
        (
          await payments.list(
            { merchantId: acme.id, status: null, period: { from: null, to: null }, text: id },
            { after: null, limit: 1 }
          )
        )[0]?.status
      ]
      const all = (status: string) => [status, status, status, status]
      const [lost, paid] = [await create(), await create()]
      clock.advance(3_599_999)
      t.same(await everywhere(lost), all('unpaid'))
      clock.advance(1)
      primary.fault = new ProviderUnavailable('away', 5)
      for (const one of [lost, paid]) t.same(await everywhere(one), all('unpaid'), 'its provider is down')
      primary.states.set(paid.charge, { status: 'paid', receivedSats: 10_000, settledAt: clock.now() - 1000 })
      await t.rejects(payments.refundable(acme.id, paid.id), 'nor can it be said whether it can be refunded')
      primary.fault = null
      const looked = primary.lookUps
      t.equal((await another({ polled: () => ['primary sandbox'] }).get(acme, lost.id)).status, 'unpaid')
      t.equal(primary.lookUps, looked, 'a provider that is polled is not called')
      t.equal((await payments.refundable(acme.id, paid.id))?.status, 'paid', 'a refund looks it up first')
      t.same(await everywhere(lost), all('expired'))
      t.same(await everywhere(paid), all('paid'))
      const keyless = another({ merchants: { byId: async () => ({ ...acme, primaryKey: null }) } })
      const last = await create()
      clock.advance(3_600_000 + ANSWERLESS)
      primary.fault = new ProviderUnavailable('away', 5)
      await keyless.recordExpiries()
      t.same(await everywhere(last), all('expired'), 'without a key a quarter of an hour later')
      primary.fault = null
    }
  )

  await t.test('pay token | /pay/<invoiceId> does not resolve; unknown and odd tokens are invalid', async t => {
    for (const token of [invoiceId, '', 'A'.repeat(43), `${'A'.repeat(42)}!`, 'A'.repeat(44), `\0${'A'.repeat(43)}`])
      t.equal(await payments.byPayToken(token), null, token)
    t.equal((await payments.byPayToken(String(created.data['payUrl']).split('/').at(-1) ?? ''))?.invoiceId, invoiceId)
  })
})

void t.test('sync', async t => {
  const {
    call,
    merchant,
    merchants,
    payments,
    primary,
    alternate,
    changes,
    told: notified,
    clock,
    database,
    another
  } = await fixture(t)

  await t.test(
    'POST /api/payments/{invoiceId}/sync | 200 updated payment object (forces provider re-check), through every status',
    async t => {
      const acme = await merchant()
      const { data } = await call(acme, 'POST', '/api/payments', anInput())
      const path = `/api/payments/${String(data['invoiceId'])}/sync`
      const says = (state: object) =>
        primary.states.set(String(data['providerChargeId']), { receivedSats: null, settledAt: null, ...state } as never)
      const looked = primary.lookUps
      const first = await call(acme, 'POST', path)
      t.same([first.status, first.data], [200, data], 'nothing new')
      t.equal(primary.lookUps, looked + 1)
      t.equal(primary.keys.at(-1), 'a primary key')
      says({ status: 'processing' })
      t.equal((await call(acme, 'POST', path)).data['status'], 'processing')
      says({ status: 'underpaid', receivedSats: 4_000 })
      t.equal(
        (await call(acme, 'POST', path)).data['status'],
        'underpaid',
        'a stored status, shown by get (decision 39)'
      )
      says({ status: 'underpaid', receivedSats: 6_000 })
      await call(acme, 'POST', path)
      t.equal(
        (await payments.get(acme, String(data['invoiceId']))).receivedSats,
        6_000,
        'more came, and no status changed'
      )
      says({ status: 'paid', receivedSats: 10_000, settledAt: clock.now() - 1234 })
      const paid = await call(acme, 'POST', path)
      t.same(
        paid.data,
        { ...data, status: 'paid', paidAt: new Date(clock.now() - 1234).toISOString() },
        'paidAt appears once paid'
      )
      t.same((await call(acme, 'GET', `/api/payments/${String(data['invoiceId'])}`)).data, paid.data)
      t.same(
        await database.sql`select sold_at from payments where invoice_id = ${String(data['invoiceId'])}`,
        [{ sold_at: new Date(clock.now()) }],
        'sums go by when it was written'
      )
      says({ status: 'unpaid' })
      t.equal((await call(acme, 'POST', path)).data['status'], 'paid', 'no news leaves paid')
      says({ status: 'refunded' })
      t.equal(
        (await call(acme, 'POST', path)).data['status'],
        'refunded',
        'or the provider itself says so (decision 56)'
      )
      t.same(
        changes.map(change => [change.from, change.payment.status, change.tellMerchant]),
        [
          ['unpaid', 'processing', true],
          ['processing', 'underpaid', true],
          ['underpaid', 'paid', true],
          ['paid', 'refunded', true]
        ],
        'each change is reported once'
      )
    }
  )

  await t.test('the provider that made an invoice stays with it even if the choice changes (decision 54)', async t => {
    const acme = await merchant()
    const { data } = await call(acme, 'POST', '/api/payments', anInput())
    await merchants.setProviderKey(acme.id, 'alternate', new Secret('an alternate key'))
    await merchants.change(acme.id, { providerChoice: 'alternate' })
    const changed = await merchants.byId(acme.id)
    const looked = alternate.lookUps
    primary.states.set(String(data['providerChargeId']), PAID)
    t.equal((await call(changed, 'POST', `/api/payments/${String(data['invoiceId'])}/sync`)).data['status'], 'paid')
    t.equal(alternate.lookUps, looked)
    const made = alternate.requests.length
    t.equal((await call(changed, 'POST', '/api/payments', anInput())).status, 201)
    t.equal(alternate.requests.length, made + 1, "new ones are the other provider's")
  })

  await t.test("the merchant's key is gone: 400 provider key required", async t => {
    const acme = await merchant()
    const { data } = await call(acme, 'POST', '/api/payments', anInput())
    const reply = await call({ ...acme, primaryKey: null }, 'POST', `/api/payments/${String(data['invoiceId'])}/sync`)
    t.same([reply.status, reply.data], [400, { error: 'Payment provider key required' }])
  })

  await t.test(
    'settled: the provider is queried again; unknown hashes, an unavailable provider and an account that is gone are no error',
    async t => {
      const acme = await merchant()
      const payment = await payments.create(acme, anInput())
      await payments.settled(payment.paymentHash)
      t.equal(await payments.status(payment.invoiceId), 'unpaid', 'saying so does not make it paid')
      primary.fault = new ProviderUnavailable()
      await payments.settled(payment.paymentHash)
      primary.fault = null
      primary.states.set(payment.chargeId, PAID)
      await payments.settled('00'.repeat(32))
      await payments.settled('not a hash')
      t.equal(await payments.status(payment.invoiceId), 'unpaid')
      t.equal(await hasPaidPayment(database.sql, acme.id), false)
      await payments.settled(payment.paymentHash)
      t.equal(await payments.status(payment.invoiceId), 'paid')
      t.equal(await hasPaidPayment(database.sql, acme.id), true)
    }
  )

  await t.test('a sale is reported once, after it was written, also where it was refunded immediately', async t => {
    const sold: string[] = []
    const heard = another({ paid: payment => sold.push(payment.status) })
    const acme = await merchant()
    const observe = async (payment: Payment, status: ChargeState['status']) =>
      await heard.observe(payment, { status, receivedSats: 10_000, settledAt: null }, clock.now())
    const [one, two] = [await heard.create(acme, anInput()), await heard.create(acme, anInput())]
    for (const status of ['processing', 'paid', 'paid', 'refunded'] as const) await observe(one, status)
    t.same(sold, ['paid'])
    await observe(two, 'refunded')
    t.same(sold, ['paid', 'refunded'])
    t.equal(await observe({ ...one, invoiceId: '100000000000000' }, 'paid'), null, 'there is no such payment')
    t.equal(sold.length, 2)
  })

  await t.test('an error of a listener rolls the change back, and its writes are of the change', async t => {
    const acme = await merchant()
    const payment = await payments.create(acme, anInput())
    const { changed } = notified
    t.teardown(() => (notified.changed = changed))
    for (const fails of [true, false]) {
      notified.changed = async sql => {
        await sql`update payments set description = 'touched' where invoice_id = ${payment.invoiceId}`
        if (fails) throw new Error('no webhook row')
      }
      const observed = payments.observe(payment, PAID, clock.now())
      if (fails) await t.rejects(observed, { message: 'no webhook row' })
      else await observed
      const { status, description } = await payments.get(acme, payment.invoiceId)
      t.same([status, description], fails ? ['unpaid', null] : ['paid', 'touched'])
    }
    notified.changed = changed
    const another = { merchantId: acme.id + 1, invoiceId: payment.invoiceId }
    t.equal(await payments.observe(another, PAID, clock.now()), null, "another merchant's")
  })

  await t.test('20 concurrent observations in two gateways: the change is reported once', async t => {
    const acme = await merchant()
    const gateway = await fixture(t, { database })
    const second = gateway.another({ changed: (sql, change) => notified.changed(sql, change) })
    const payment = await payments.create(acme, anInput())
    const before = changes.length
    await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        (index % 2 === 0 ? payments : second).observe(payment, { ...PAID, settledAt: index + 1 }, clock.now())
      )
    )
    t.equal(changes.length - before, 1)
    const paidAt = (await payments.get(acme, payment.invoiceId)).paidAt
    t.equal(changes.at(-1)?.payment.paidAt, paidAt)
  })
})
