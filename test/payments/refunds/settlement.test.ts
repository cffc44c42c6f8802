/** Refunds whose fate only the provider's records show: who may settle them, when, and what that changes. */
import t, { type Test as T } from 'tap'
import { allSources, type RefundSource, type RefundSources } from '../../../src/payments/refunds/destination.ts'
import type { Refund } from '../../../src/payments/refunds/schema.ts'
import { eachDatabase } from '../../support/database.ts'
import { addressOf, fixtureOn, type Json } from './fixture.ts'

const refundAddress = addressOf()
const MINUTE = 60_000
const DAY = 24 * 60 * MINUTE
const HASH = 'ab'.repeat(32)

void eachDatabase(t, 'refunds that an administrator settles', async (t: T, database) => {
  const f = await fixtureOn(database)
  const { clock, provider, refunds, merchant } = f

  /** A provider that never says whether it sent what it was asked for, as OpenNode after a lost answer. */
  const lost = async (amountSatoshis = 1000) => {
    provider.fate = () => 'lost before'
    provider.reachable = false
    const payment = await f.payment()
    return await refunds.create(merchant, { invoiceId: payment.invoiceId, refundAddress, amountSatoshis })
  }
  const settle = (refund: Refund, body: Json) =>
    f.call('POST', `/api/admin/refunds/${refund.refundId}/settle`, {
      settledBy: 'Ada',
      reason: 'looked in the dashboard',
      ...body
    })
  const sent = { outcome: 'sent', providerRefundId: 'w-1', transactionHash: HASH, feeSatoshis: 7 }
  t.beforeEach(() => {
    provider.reachable = true
  })

  await t.test("a merchant's view of it: at create, get, sync, and on a retry of its amount", async t => {
    const refund = await lost()
    provider.reachable = false
    const advice = new RegExp(
      `Refund ${refund.refundId} of 1000 satoshis is pending.*looked up until .*Do not create another.*ask the operator to settle it`
    )
    t.match((await f.call('GET', `/api/refunds/${refund.refundId}`)).data, { status: 'pending', message: advice })
    t.match(await f.call('POST', `/api/refunds/${refund.refundId}/sync`), { status: 503, data: { message: advice } })
    const again = await f.call('POST', '/api/refunds', {
      invoiceId: refund.invoiceId,
      refundAddress,
      amountSatoshis: 1
    })
    t.equal(again.status, 400)
    t.match(again.data, { error: advice })
    provider.reachable = true
    provider.fate = () => 'pays'
    const payment = await f.payment()
    const plain = await f.call('POST', '/api/refunds', {
      invoiceId: payment.invoiceId,
      refundAddress,
      amountSatoshis: 1
    })
    t.notOk('message' in plain.data, 'nothing is to be done about one that was taken')
  })

  await t.test(
    "sent: confirmed with the provider's id, the payment reads refunded, and actor and reason are kept",
    async t => {
      const refund = await lost()
      const reply = await settle(refund, sent)
      t.match(reply, {
        status: 200,
        data: {
          status: 'confirmed',
          providerRefundId: 'w-1',
          alternateRefundId: 'w-1',
          transactionHash: HASH,
          feeSatoshis: 7,
          merchantId: merchant.id,
          settlement: {
            outcome: 'sent',
            settledBy: 'Ada',
            reason: 'looked in the dashboard',
            correlationId: /./,
            settledAt: new Date(clock.now()).toISOString()
          }
        }
      })
      t.equal((await f.stored(refund.invoiceId)).status, 'refunded')
      t.equal(
        f.confirmed.filter(({ refundId }) => refundId === refund.refundId).length,
        1,
        'and it is reported as any other'
      )
      t.match((await f.call('GET', `/api/refunds/${refund.refundId}`)).data, {
        status: 'confirmed',
        providerRefundId: 'w-1'
      })
      t.match((await f.call('GET', `/api/admin/refunds/${refund.refundId}`)).data, { settlement: { settledBy: 'Ada' } })
      t.match((await f.call('GET', '/api/admin/refunds?view=settled')).data, [{ refundId: refund.refundId }])
    }
  )

  await t.test(
    'not-sent: failed, and its amount is free, but only once nothing can be on its way any more',
    async t => {
      const refund = await lost()
      clock.advance(10 * MINUTE - 1)
      t.match(await settle(refund, { outcome: 'not-sent' }), {
        status: 409,
        data: { message: /may still be on its way/ }
      })
      clock.advance(1)
      t.match(await settle(refund, { outcome: 'not-sent' }), {
        status: 200,
        data: { status: 'failed', providerRefundId: null }
      })
      provider.fate = () => 'pays'
      t.equal(
        (await f.call('POST', '/api/refunds', { invoiceId: refund.invoiceId, refundAddress, amountSatoshis: 1000 }))
          .status,
        201
      )
    }
  )

  await t.test('of twenty concurrent settlements one is written', async t => {
    const refund = await lost()
    clock.advance(10 * MINUTE)
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, nth) => settle(refund, nth % 2 === 0 ? sent : { outcome: 'not-sent' }))
    )
    t.same(replies.map(({ status }) => status).toSorted(), [200, ...Array.from({ length: 19 }, () => 409)])
    t.equal((await database.sql`select 1 from refund_settlements where refund_id = ${refund.refundId}`).length, 1)
  })

  await t.test(
    'a refund that the provider has acknowledged is settled by the provider: not-sent is 409, and nothing changes',
    async t => {
      provider.fate = () => 'takes'
      const payment = await f.payment()
      const refund = await refunds.create(merchant, {
        invoiceId: payment.invoiceId,
        refundAddress,
        amountSatoshis: 1000
      })
      clock.advance(DAY)
      t.match(await settle(refund, { outcome: 'not-sent' }), { status: 409, data: { message: /provider accepted it/ } })
      t.equal((await refunds.get(merchant, refund.refundId)).status, 'pending')
    }
  )

  await t.test(
    'a settled refund stays as it is: settled twice is 409, and a late answer of the provider changes nothing',
    async t => {
      const refund = await lost()
      clock.advance(10 * MINUTE)
      t.equal((await settle(refund, { outcome: 'not-sent' })).status, 200)
      t.match(await settle(refund, sent), { status: 409, data: { message: /failed already/ } })
      provider.payouts.set(refund.refundId, {
        payoutId: 'late',
        status: 'confirmed',
        feeSats: 1,
        transactionHash: HASH,
        processedAt: clock.now()
      })
      provider.reachable = true
      t.match(await refunds.sync(merchant, refund.refundId), { status: 'failed', providerRefundId: null })
      await refunds.followUp(clock.now())
      t.equal((await refunds.get(merchant, refund.refundId)).status, 'failed')
    }
  )

  await t.test(
    "of an administrator and a provider's late answer at the same moment the first counts, and the payment is given back once",
    async t => {
      for (let round = 0; round < 8; round++) {
        const refund = await lost()
        clock.advance(10 * MINUTE)
        provider.payouts.set(refund.refundId, {
          payoutId: 'late',
          status: 'confirmed',
          feeSats: 1,
          transactionHash: HASH,
          processedAt: clock.now()
        })
        provider.reachable = true
        const changes = f.changes.length
        const [reply] = await Promise.all([
          settle(refund, { outcome: 'not-sent' }),
          f.another().sync(merchant, refund.refundId),
          refunds.sync(merchant, refund.refundId)
        ])
        const { status, providerRefundId } = await refunds.get(merchant, refund.refundId)
        if (reply.status === 200) t.match({ status, providerRefundId }, { status: 'failed', providerRefundId: null })
        else
          t.match(
            { status, providerRefundId, refused: reply.status },
            { status: 'confirmed', providerRefundId: 'late', refused: 409 }
          )
        t.equal(f.changes.length - changes, status === 'confirmed' ? 1 : 0)
        const { held } = await database.transaction(sql => f.store.sums(sql, refund.invoiceId))
        t.equal(held, status === 'confirmed' ? 1000 : 0)
      }
    }
  )

  await t.test(
    'the list: lost ones of any merchant after ten minutes, oldest first, and all that are open',
    async t => {
      const older = await lost(1)
      clock.advance(10 * MINUTE)
      const newer = await lost(2)
      const ids = async (view: string) =>
        ((await f.call('GET', `/api/admin/refunds?${view}`)).data as unknown as Json[]).map(row => row['refundId'])
      const before = await ids('')
      t.ok(before.includes(older.refundId))
      t.notOk(before.includes(newer.refundId), 'its request may be on its way')
      t.ok((await ids('view=open')).includes(newer.refundId))
      clock.advance(10 * MINUTE)
      t.same((await ids('take=100')).slice(-2), [older.refundId, newer.refundId])
      t.same(await ids('skip=1&take=1'), (await ids('')).slice(1, 2))
    }
  )

  await t.test('input: an id for sent, none for not-sent, actor and reason always', async t => {
    const refund = await lost()
    clock.advance(10 * MINUTE)
    const bad: readonly Json[] = [
      { outcome: 'sent' },
      { outcome: 'not-sent', providerRefundId: 'w' },
      { outcome: 'not-sent', transactionHash: HASH },
      { outcome: 'maybe' },
      { ...sent, settledBy: ' ' },
      { ...sent, reason: '' },
      { ...sent, settledBy: null },
      { ...sent, transactionHash: 'AB' },
      { ...sent, feeSatoshis: -1 }
    ]
    for (const body of bad) t.equal((await settle(refund, body)).status, 400, JSON.stringify(body))
    t.equal((await refunds.get(merchant, refund.refundId)).status, 'pending')
    t.equal(
      (await f.call('POST', '/api/admin/refunds/123456789012345/settle', { ...sent, settledBy: 'A', reason: 'b' }))
        .status,
      404
    )
    t.equal((await f.call('GET', '/api/admin/refunds/x')).status, 404)
  })

  await t.test('the job looks it up for 30 days, with growing intervals, and then stops', async t => {
    const refund = await lost()
    provider.reachable = false
    const asked = async () => {
      const before = provider.lookUps
      await refunds.followUp(clock.now())
      return provider.lookUps > before
    }
    await database.sql`update refunds set next_check_at = ${new Date(clock.now() + 365 * DAY)} where refund_id <> ${refund.refundId}`
    clock.advance(2 * MINUTE)
    t.ok(await asked())
    clock.advance(50_000)
    t.notOk(await asked(), 'not each time that the job runs')
    clock.advance(30 * DAY - 5 * MINUTE)
    t.ok(await asked(), 'on the last day')
    clock.advance(5 * MINUTE)
    t.notOk(await asked())
    t.match((await f.call('GET', `/api/refunds/${refund.refundId}`)).data, {
      message: /no longer looked up automatically/
    })
  })
})

t.test('refundable money is looked up in each source, and its own source is notified of the refund', async t => {
  const money = { invoiceId: 'order-1', merchantId: 1 } as RefundSource /* The rest is the source's. */
  const received: string[] = []
  const source = (name: string, found: RefundSource | null): RefundSources => ({
    get: async () => found,
    lock: async () => found,
    refunded: async (_sql, { invoiceId }) => void received.push(`${name} ${invoiceId}`)
  })
  const [empty, orders] = [source('payments', null), source('orders', money)]
  const all = allSources(empty, orders)
  const sql = null as never /* These sources read nothing. */
  t.equal(await all.get(1, 'order-1', 0), money)
  t.equal(await allSources(empty).get(1, 'order-1', 0), null)
  const locked = await all.lock(sql, 1, 'order-1', 0)
  t.equal(locked, money)
  await all.refunded(sql, money)
  t.same(received, ['orders order-1'])
})
