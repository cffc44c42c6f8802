import t, { type Test as T } from 'tap'
import { REFUND_STATUSES } from '../../../src/lightning/providers/payout-states.ts'
import type { Refund } from '../../../src/payments/refunds/schema.ts'
import { eachDatabase } from '../../support/database.ts'
import { addressOf, fixtureOn, type Fixture, type Json } from './fixture.ts'

const refundAddress = addressOf()

/** Writes a refund straight into the table, as lists do not care how it came there. */
async function insert(f: Fixture, invoiceId: string, different: Partial<Refund>) {
  const refund: Refund = {
    refundId: '100000000000000',
    merchantId: f.merchant.id,
    invoiceId,
    status: 'confirmed',
    type: 'chain',
    address: refundAddress,
    lightningAddress: null,
    paymentHash: null,
    amountSats: 1,
    feeSats: 0,
    slot: 'primary',
    kind: 'sandbox',
    providerRefundId: null,
    transactionHash: null,
    email: null,
    reason: null,
    createdAt: f.clock.now(),
    processedAt: null,
    ...different
  }
  await f.database.transaction(sql => f.store.insert(sql, refund, f.clock.now()))
  return refund
}

function idsOf(data: unknown) {
  return (data as Json[]).map(row => row['refundId'])
}

void eachDatabase(t, 'GET /api/refunds', async (t: T, database) => {
  const f = await fixtureOn(database)
  const payment = await f.payment()
  const other = await f.payment()
  const made: Refund[] = []
  for (let index = 0; index < 130; index++) {
    made.push(
      await insert(f, index % 10 === 0 ? other.invoiceId : payment.invoiceId, {
        // In neither order; three at each moment, so that ties are decided by id.
        refundId: String(100_000_000_000_000 + ((index * 37) % 130)),
        createdAt: f.clock.now() + Math.floor(((index * 53) % 130) / 3) * 1000,
        status: REFUND_STATUSES[index % 4] ?? 'failed'
      })
    )
  }
  const outsider = await f.newMerchant()
  const sorted = (refunds: readonly Refund[]) =>
    refunds
      .toSorted((a, b) => b.createdAt - a.createdAt || Number(b.refundId) - Number(a.refundId))
      .map(refund => refund.refundId)

  await t.test(
    'bare JSON array, no wrapper and no total: newest first, ties by id descending, take is 50 by default (decision 11)',
    async t => {
      const reply = await f.call('GET', '/api/refunds')
      t.equal(reply.status, 200)
      t.ok(Array.isArray(reply.data))
      t.same(idsOf(reply.data), sorted(made).slice(0, 50))
    }
  )

  for (const status of REFUND_STATUSES) {
    await t.test(`query status (pending, processing, confirmed, failed): ${status}`, async t => {
      t.same(
        idsOf((await f.call('GET', `/api/refunds?status=${status}&take=100`)).data),
        sorted(made.filter(refund => refund.status === status))
      )
    })
  }

  const pages: ReadonlyArray<[query: string, from: number, to: number]> = [
    ['skip=0&take=3', 0, 3],
    ['skip=3&take=3', 3, 6],
    ['take=100', 0, 100],
    ['take=101', 0, 100],
    ['take=1000000000000000000000', 0, 100],
    ['take=0', 0, 1],
    ['take=-5', 0, 1],
    ['skip=-1', 0, 50],
    ['skip=129', 129, 130],
    ['skip=130', 130, 130],
    ['skip=99999999999999999999', 130, 130],
    ['skip=&take=', 0, 50]
  ]
  for (const [query, from, to] of pages) {
    await t.test(`skip (default 0), take (default 50, max 100), clamped silently (decision 12): ${query}`, async t => {
      const reply = await f.call('GET', `/api/refunds?${query}`)
      t.equal(reply.status, 200)
      t.same(idsOf(reply.data), sorted(made).slice(from, to))
    })
  }

  await t.test('bare array of all refunds of that invoice, however many', async t => {
    for (const { invoiceId } of [payment, other]) {
      t.same(
        idsOf((await f.call('GET', `/api/refunds/invoice/${invoiceId}`)).data),
        sorted(made.filter(refund => refund.invoiceId === invoiceId))
      )
    }
    t.same((await f.call('GET', `/api/refunds/invoice/${(await f.payment()).invoiceId}`)).data, [], 'none yet')
  })

  await t.test('another merchant sees none of them', async t => {
    t.same((await f.call('GET', '/api/refunds', undefined, outsider)).data, [])
  })

  await t.test('reason and processedAt are on get and the lists, email nowhere (decision 61)', async t => {
    const refund = await insert(f, payment.invoiceId, {
      refundId: '200000000000000',
      createdAt: f.clock.now() + 1e9,
      processedAt: f.clock.now(),
      reason: 'why',
      email: 'payer@example.com'
    })
    t.same(idsOf(await f.refunds.list(f.merchant, { text: 'WH' })), [refund.refundId])
    for (const path of [
      `/api/refunds/${refund.refundId}`,
      '/api/refunds?take=1',
      `/api/refunds/invoice/${payment.invoiceId}`
    ]) {
      const { data } = await f.call('GET', path)
      const row = (Array.isArray(data) ? data[0] : data) as Json
      t.same(Object.keys(row).sort(), [
        'alternateRefundId',
        'amountSatoshis',
        'createdAt',
        'feeSatoshis',
        'invoiceId',
        'processedAt',
        'providerRefundId',
        'reason',
        'refundAddress',
        'refundId',
        'refundType',
        'status',
        'transactionHash'
      ])
      t.match(row, { reason: 'why', processedAt: new Date(f.clock.now()).toISOString() })
    }
  })
})
