import t, { type Test as T } from 'tap'
import type { Payout } from '../../../src/lightning/provider-calls/provider.ts'
import type { Refund } from '../../../src/payments/refunds/schema.ts'
import type { RefundStore } from '../../../src/payments/refunds/store.ts'
import { eachDatabase } from '../../support/database.ts'
import type { HeaderFate } from './fake-provider.ts'
import { addressOf, fixtureOn, invoiceOf } from './fixture.ts'

const refundAddress = addressOf()
const minutes = 60_000

void eachDatabase(t, 'the life of a refund', async (t: T, database) => {
  const f = await fixtureOn(database)
  const { clock, provider, refunds, merchant } = f
  const ask = async (fate: HeaderFate, amountSatoshis = 100) => {
    provider.fate = () => fate
    const payment = await f.payment()
    return await refunds.create(merchant, { invoiceId: payment.invoiceId, refundAddress, amountSatoshis })
  }
  const timesSent = (refund: Refund) => provider.sent.filter(({ reference }) => reference === refund.refundId).length
  const timesAsked = (refund: Refund) => provider.asked.filter(({ reference }) => reference === refund.refundId).length

  t.beforeEach(() => {
    provider.reachable = true
  })

  for (const fate of ['lost after', 'breaks after'] as const) {
    await t.test(
      `an answer that is lost after the money was sent (${fate}) is 201 pending, then found by its reference and paid exactly once`,
      async t => {
        const refund = await ask(fate)
        t.match(refund, { status: 'pending', providerRefundId: null, feeSats: 0, processedAt: null })
        t.match((await f.call('GET', `/api/refunds/${refund.refundId}`)).data, {
          status: 'pending',
          providerRefundId: null,
          alternateRefundId: null
        })
        const reply = await f.call('POST', `/api/refunds/${refund.refundId}/sync`)
        t.match(reply, {
          status: 200,
          data: {
            status: 'confirmed',
            providerRefundId: `out_${refund.refundId}`,
            alternateRefundId: `out_${refund.refundId}`,
            feeSatoshis: 2,
            processedAt: /Z$/
          }
        })
        clock.advance(60 * minutes)
        await refunds.followUp(clock.now())
        await refunds.sync(merchant, refund.refundId)
        t.equal(timesSent(refund), 1)
        t.equal(timesAsked(refund), 1)
      }
    )
  }

  for (const fate of ['lost before', 'breaks before'] as const) {
    await t.test(
      `an answer that is lost before anything was sent (${fate}) is 201 pending, and failed after ten minutes of not knowing`,
      async t => {
        const refund = await ask(fate)
        t.equal(refund.status, 'pending')
        clock.advance(10 * minutes - 1)
        t.equal(
          (await refunds.sync(merchant, refund.refundId)).status,
          'pending',
          'the request may still be on its way'
        )
        clock.advance(1)
        t.match(await refunds.sync(merchant, refund.refundId), {
          status: 'failed',
          processedAt: clock.now(),
          providerRefundId: null
        })
        t.equal(timesAsked(refund), 1, 'it was never requested again')
        provider.fate = () => 'pays'
        const again = await refunds.create(merchant, {
          invoiceId: refund.invoiceId,
          refundAddress,
          amountSatoshis: 1000
        })
        t.equal(again.status, 'confirmed', 'its amount is free again')
      }
    )
  }

  await t.test(
    'a lost answer is not taken for failed because an earlier payment of the same invoice had failed',
    async t => {
      const payment = await f.payment()
      const again = invoiceOf(clock)
      const body = {
        invoiceId: payment.invoiceId,
        refundAddress: again,
        refundType: 'ln' as const,
        amountSatoshis: 100
      }
      const failedAt = clock.now()
      clock.advance(2_000)
      provider.fate = () => 'lost before'
      const refund = await refunds.create(merchant, body)
      const earlier: Payout = {
        payoutId: 'earlier',
        status: 'failed',
        feeSats: 0,
        transactionHash: null,
        processedAt: failedAt
      }
      provider.payouts.set(refund.refundId, earlier)
      t.match(
        await refunds.sync(merchant, refund.refundId),
        { status: 'pending', providerRefundId: null },
        'its own request may still be on its way'
      )
      clock.advance(10 * minutes)
      t.equal((await refunds.sync(merchant, refund.refundId)).status, 'failed', 'as where nothing is known')

      const lost = await refunds.create(merchant, { ...body, refundAddress: invoiceOf(clock) })
      clock.advance(1_000)
      provider.payouts.set(lost.refundId, { ...earlier, processedAt: clock.now() })
      t.equal((await refunds.sync(merchant, lost.refundId)).status, 'failed', 'one that ended later is its own')
    }
  )

  for (const [fate, status, error] of [
    ['refuses', 400, 'The balance is too low.'],
    ['fails', 400, /could not send the refund/],
    ['is away', 503, 'Payment provider unavailable']
  ] as const) {
    await t.test(
      `a provider that ${fate} is ${status}, with a failed refund that frees its amount (decisions 17 and 57)`,
      async t => {
        provider.fate = () => fate
        const payment = await f.payment()
        const body = { invoiceId: payment.invoiceId, refundAddress, amountSatoshis: 1000 }
        t.match(await f.call('POST', '/api/refunds', body), { status, type: /^application\/json/, data: { error } })
        t.match(await refunds.ofInvoice(merchant, payment.invoiceId), [
          { status: 'failed', processedAt: clock.now(), amountSats: 1000 }
        ])
        provider.fate = () => 'pays'
        t.equal((await f.call('POST', '/api/refunds', body)).status, 201)
      }
    )
  }

  await t.test(
    'a refund of a payment that was processing is confirmed also when the payment has expired meanwhile',
    async t => {
      provider.fate = () => 'takes'
      const payment = await f.payment({ status: 'processing', paidAt: null })
      const refund = await refunds.create(merchant, {
        invoiceId: payment.invoiceId,
        refundAddress,
        amountSatoshis: 1000
      })
      await database.sql`update payments set status = 'expired' where invoice_id = ${payment.invoiceId}`
      provider.becomes(refund.refundId, {
        status: 'confirmed',
        transactionHash: '56'.repeat(32),
        processedAt: clock.now()
      })
      t.match(await f.call('POST', `/api/refunds/${refund.refundId}/sync`), {
        status: 200,
        data: { status: 'confirmed', transactionHash: '56'.repeat(32) }
      })
      t.equal(
        (await f.stored(payment.invoiceId)).status,
        'expired',
        'nothing came in, so that it is no refunded payment'
      )
    }
  )

  await t.test(
    'a refund is sent through the kind of provider that took the payment, or not at all (decision 54)',
    async t => {
      provider.fate = () => 'pays'
      const payment = await f.payment({ kind: 'opennode' })
      const reply = await f.call('POST', '/api/refunds', {
        invoiceId: payment.invoiceId,
        refundAddress,
        amountSatoshis: 1000
      })
      t.match(reply, { status: 400, data: { error: /opennode/ } })
      t.same(await refunds.ofInvoice(merchant, payment.invoiceId), [])
    }
  )

  await t.test('a crash between call and write leaves a pending row that the follow-up finds confirmed', async t => {
    let broken = true
    const store = Object.create(f.store, {
      write: {
        value: async (...args: Parameters<RefundStore['write']>) => {
          if (broken) throw new Error('the database is gone')
          await f.store.write(...args)
        }
      }
    }) as RefundStore
    provider.fate = () => 'pays'
    const payment = await f.payment()
    const refund = await f
      .another(store)
      .create(merchant, { invoiceId: payment.invoiceId, refundAddress, amountSatoshis: 1000 })
    t.equal(refund.status, 'pending', 'the client is not asked to retry')
    broken = false
    clock.advance(2 * minutes)
    await refunds.followUp(clock.now())
    t.match(await refunds.get(merchant, refund.refundId), { status: 'confirmed' })
    t.equal((await f.stored(payment.invoiceId)).status, 'refunded')
    t.equal(timesSent(refund), 1)
  })

  await t.test('a process that hung for a minute before the call does not send', async t => {
    const store = Object.create(f.store, {
      insert: {
        value: async (...args: Parameters<RefundStore['insert']>) => {
          await f.store.insert(...args)
          clock.advance(1 * minutes)
        }
      }
    }) as RefundStore
    provider.fate = () => 'pays'
    const payment = await f.payment()
    const requests = provider.asked.length
    await t.rejects(
      f.another(store).create(merchant, { invoiceId: payment.invoiceId, refundAddress, amountSatoshis: 1000 }),
      { status: 503 }
    )
    t.equal(provider.asked.length, requests)
    t.match(await refunds.ofInvoice(merchant, payment.invoiceId), [{ status: 'failed' }])
  })

  await t.test('a key that cannot be opened sends nothing, and no refund is written', async t => {
    const payment = await f.payment()
    const key = merchant.primaryKey
    if (key === null) throw new Error('the merchant has a key')
    const moved = { ...merchant, primaryKey: { ...key, place: { ...key.place, row: '0' } } }
    await t.rejects(refunds.create(moved, { invoiceId: payment.invoiceId, refundAddress, amountSatoshis: 100 }), {
      name: 'UnsealError'
    })
    t.same(await refunds.ofInvoice(merchant, payment.invoiceId), [])
  })

  await t.test('sync refreshes status from the provider: pending, processing, confirmed once broadcast', async t => {
    const refund = await ask('takes')
    t.match(refund, { status: 'pending', providerRefundId: `out_${refund.refundId}` })
    provider.becomes(refund.refundId, { status: 'processing' })
    t.match(await refunds.sync(merchant, refund.refundId), {
      status: 'processing',
      processedAt: null,
      transactionHash: null
    })
    provider.becomes(refund.refundId, { status: 'pending' })
    t.match(
      await refunds.sync(merchant, refund.refundId),
      { status: 'processing' },
      'an older answer takes nothing back'
    )
    const at = clock.now() + 5
    provider.becomes(refund.refundId, {
      status: 'confirmed',
      feeSats: 9,
      transactionHash: 'cd'.repeat(32),
      processedAt: at
    })
    t.match(await refunds.sync(merchant, refund.refundId), {
      status: 'confirmed',
      feeSats: 9,
      transactionHash: 'cd'.repeat(32),
      processedAt: at
    })
  })

  await t.test('a refund that the provider fails frees its amount, and stays failed', async t => {
    const refund = await ask('takes', 1000)
    provider.becomes(refund.refundId, { status: 'failed' })
    t.match(await refunds.sync(merchant, refund.refundId), { status: 'failed', processedAt: clock.now() })
    provider.fate = () => 'pays'
    await refunds.create(merchant, { invoiceId: refund.invoiceId, refundAddress, amountSatoshis: 1000 })
    provider.becomes(refund.refundId, { status: 'confirmed' })
    const before = provider.lookUps
    t.match(await refunds.sync(merchant, refund.refundId), { status: 'failed' })
    t.equal(provider.lookUps, before, 'a final refund makes no call')
  })

  await t.test('a confirmed refund never goes back, whatever the provider says afterwards', async t => {
    const refund = await ask('pays', 1000)
    const before = provider.lookUps
    for (const status of ['failed', 'pending', 'processing'] as const) {
      provider.becomes(refund.refundId, { status, transactionHash: null })
      t.match(await refunds.sync(merchant, refund.refundId), { status: 'confirmed', transactionHash: 'ab'.repeat(32) })
    }
    t.equal(provider.lookUps, before, 'a final refund makes no call')
  })

  await t.test(
    'a transaction hash that comes after the confirmation is filled in, and the payment changes once',
    async t => {
      const refund = await ask('takes', 1000)
      provider.becomes(refund.refundId, { status: 'confirmed', processedAt: clock.now() })
      const changed = f.changes.length
      t.match(await refunds.sync(merchant, refund.refundId), { status: 'confirmed', transactionHash: null })
      provider.becomes(refund.refundId, { transactionHash: 'ef'.repeat(32) })
      t.match(await refunds.sync(merchant, refund.refundId), { status: 'confirmed', transactionHash: 'ef'.repeat(32) })
      t.equal(f.changes.length, changed + 1)
      t.equal(
        f.confirmed.filter(({ refundId }) => refundId === refund.refundId).length,
        1,
        'its recipient is notified once'
      )
    }
  )

  await t.test('a provider that knew a refund and does not any more leaves it as it is', async t => {
    const refund = await ask('takes')
    provider.payouts.delete(refund.refundId)
    clock.advance(24 * 60 * minutes)
    t.match(await refunds.sync(merchant, refund.refundId), { status: 'pending' })
  })

  await t.test('twenty concurrent syncs write once, and change the payment once', async t => {
    const refund = await ask('takes', 1000)
    provider.becomes(refund.refundId, {
      status: 'confirmed',
      transactionHash: '12'.repeat(32),
      processedAt: clock.now()
    })
    const changed = f.changes.length
    const seen = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        (index % 2 === 0 ? refunds : f.another()).sync(merchant, refund.refundId)
      )
    )
    t.ok(seen.every(one => one.status === 'confirmed'))
    t.equal(f.changes.length, changed + 1)
  })

  await t.test(
    'sync with the provider down is 503, with the key gone 400, with another kind in the slot 502; the refund stays',
    async t => {
      const refund = await ask('lost after')
      provider.reachable = false
      t.equal((await f.call('POST', `/api/refunds/${refund.refundId}/sync`)).status, 503)
      provider.reachable = true
      t.equal(
        (await f.call('POST', `/api/refunds/${refund.refundId}/sync`, undefined, { ...merchant, primaryKey: null }))
          .status,
        400
      )
      clock.advance(10 * minutes)
      await t.rejects(
        f.ofKind('strike').sync(merchant, refund.refundId),
        { status: 502, error: 'Payment provider error' },
        'another provider\'s ignorance is not "never sent"'
      )
      t.match(await refunds.sync(merchant, refund.refundId), { status: 'confirmed' })
    }
  )
})

void eachDatabase(t, 'the follow-up', async (t: T, database) => {
  const f = await fixtureOn(database)
  const { clock, provider, refunds, merchant } = f

  await t.test('it looks up what is due, with growing intervals, and continues after a failure', async t => {
    provider.fate = () => 'takes'
    const payment = await f.payment()
    const made: Refund[] = []
    for (let index = 0; index < 3; index++)
      made.push(await refunds.create(merchant, { invoiceId: payment.invoiceId, refundAddress, amountSatoshis: 100 }))
    t.equal(await refunds.followUp(clock.now()), 0, 'not before a minute: the create itself may be in flight')
    clock.advance(1 * minutes)
    t.equal(await refunds.followUp(clock.now()), 3)
    t.equal(await refunds.followUp(clock.now()), 0, 'each is put off')
    clock.advance(29_999)
    t.equal(await refunds.followUp(clock.now()), 0)
    clock.advance(1)
    provider.reachable = false
    t.equal(await refunds.followUp(clock.now()), 3, 'half its age later')
    provider.reachable = true
    clock.advance(1 * minutes)
    for (const { refundId } of made.slice(0, 2))
      provider.becomes(refundId, { status: 'confirmed', transactionHash: '34'.repeat(32) } satisfies Partial<Payout>)
    t.equal(await refunds.followUp(clock.now()), 3)
    t.same((await refunds.ofInvoice(merchant, payment.invoiceId)).map(one => one.status).sort(), [
      'confirmed',
      'confirmed',
      'pending'
    ])
    clock.advance(48 * 60 * minutes)
    t.equal(await refunds.followUp(clock.now()), 1, 'a settled refund is not looked up')
    clock.advance(15 * minutes)
    t.equal(await refunds.followUp(clock.now()), 1, 'at least every quarter of an hour')
  })

  await t.test('of two processes each looks up its own share', async t => {
    clock.advance(24 * 60 * minutes)
    await refunds.followUp(clock.now())
    provider.fate = () => 'takes'
    const payment = await f.payment({ amountSats: 100_000 })
    for (let index = 0; index < 30; index++)
      await refunds.create(merchant, {
        invoiceId: payment.invoiceId,
        refundAddress: index % 2 === 0 ? refundAddress : invoiceOf(clock),
        refundType: index % 2 === 0 ? 'chain' : 'ln',
        amountSatoshis: 100
      })
    clock.advance(1 * minutes)
    const before = provider.lookUps
    const done = await Promise.all([refunds.followUp(clock.now()), f.another().followUp(clock.now())])
    t.equal(
      done.reduce((sum, one) => sum + one),
      30
    )
    t.equal(provider.lookUps - before, 30)
  })
})
