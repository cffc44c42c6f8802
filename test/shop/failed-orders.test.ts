import { testSealer } from '../support/merchants.ts'
/** Paid orders that their shop does not make: notifications, and how the money goes back, once. */
import t from 'tap'
import { silentLog } from '../../src/platform/telemetry/log.ts'
import { systemRandom } from '../../src/platform/system/ids.ts'
import { MerchantStore } from '../../src/accounts/merchants/store.ts'
import { Payees } from '../../src/lightning/providers/payees.ts'
import { StorePlatformError } from '../../src/shop/platform.ts'
import { Refunds } from '../../src/payments/refunds/service.ts'
import { RefundStore } from '../../src/payments/refunds/store.ts'
import type { Refund } from '../../src/payments/refunds/schema.ts'
import { FakeProvider } from '../payments/refunds/fake-provider.ts'
import { addressOf, invoiceOf } from '../payments/refunds/fixture.ts'
import { BODY, claimBody, claimsOf, openShop, type Shop } from './fixture.ts'

const MINUTE = 60_000
const SOLD_OUT = new StorePlatformError('refused', 'The store has not enough in stock: Unable to reserve inventory', {
  isSoldOut: true
})

async function refunding(shop: Shop): Promise<{
  readonly provider: FakeProvider
  refund(orderId: string, amountSatoshis: number): Promise<Refund>
  sync(refundId: string): Promise<Refund>
}> {
  const provider = new FakeProvider(shop.clock)
  const [row] = await shop.database.sql<
    Array<{ provider_kind: FakeProvider['kind'] }>
  >`select provider_kind from challenges limit 1`
  provider.kind = row?.provider_kind ?? 'sandbox'
  const key = (slot: string, id: number) => ({
    ciphertext: testSealer.seal('key', { table: 'merchants', column: `${slot}_key`, row: String(id) }),
    place: { table: 'merchants', column: `${slot}_key`, row: String(id) }
  })
  const stored = await new MerchantStore(shop.database).byId(shop.integration.merchantId)
  if (stored === null) throw new Error('no merchant')
  const merchant = { ...stored, primaryKey: key('primary', stored.id), alternateKey: key('alternate', stored.id) }
  const refunds = new Refunds({
    store: new RefundStore(shop.database),
    database: shop.database,
    clock: shop.clock,
    random: systemRandom,
    log: silentLog,
    sources: shop.storefront.refundSources,
    payees: new Payees({ primary: { provider, key: null }, alternate: { provider, key: null } }, testSealer),
    merchants: { byId: async () => merchant },
    onConfirmed: async () => {},
    invoiceFor: async () => {
      throw new Error('no Lightning address is asked here')
    }
  })
  return {
    provider,
    sync: refundId => refunds.sync(merchant, refundId),
    refund: (orderId, amountSatoshis) =>
      refunds.create(merchant, { invoiceId: orderId, refundAddress: addressOf(), amountSatoshis })
  }
}

/** A shop whose only order is paid, and was refused for stock that is gone. */
async function soldOut(t: Parameters<typeof openShop>[0]) {
  const shop = await openShop(t)
  const order = await shop.paid()
  shop.platform.faults.set('createOrder', SOLD_OUT)
  return { shop, ...order }
}

t.test(
  'a paid order that the shop refuses: the buyer sees the reason and the choice, the merchant and the operator see it',
  async t => {
    const { shop, orderId, claimToken } = await soldOut(t)
    const answer = await shop.claim(claimBody(claimToken))
    t.equal(answer.status, 502)
    t.match(answer.data, {
      error: 'Store order failed',
      reason: 'sold_out',
      choices: ['wait', 'refund'],
      message: /not enough of it left.*ask for the money back/
    })
    t.match(
      (await shop.status(orderId, claimToken)).data,
      {
        status: 'PaidAwaitingDetails',
        failure: { reason: 'sold_out', message: 'The store has not enough of it left.' }
      },
      'in our words'
    )
    const [row] = await shop.storefront.orders.list(shop.integration.merchantId, {
      status: null,
      page: 1,
      pageSize: 20
    })
    t.match(
      row,
      { id: orderId, failure: { reason: 'sold_out', message: /Unable to reserve inventory/, at: shop.clock.now() } },
      "the merchant in the platform's"
    )
    t.ok(
      (await shop.storefront.orders.troubled({ skip: 0, take: 100 })).some(({ id }) => id === orderId),
      "and it is in the operator's list"
    )
    t.match(shop.failed, [{ id: orderId, failure: { reason: 'sold_out' } }])
    await shop.claim(claimBody(claimToken))
    t.equal(shop.failed.length, 1, 'each reason is reported once')
    shop.platform.faults.set('createOrder', 'credentials')
    t.match((await shop.claim(claimBody(claimToken))).data, { reason: 'store_access' })
    t.equal(shop.failed.length, 2)
    shop.platform.faults.delete('createOrder')
    t.equal((await shop.claim(claimBody(claimToken))).status, 200, 'waiting helps once there is stock')
    const made = (await shop.status(orderId, claimToken)).data
    t.match(made, { status: 'PaidWithDetails' })
    t.notOk('failure' in made)
    t.notOk((await shop.storefront.orders.troubled({ skip: 0, take: 100 })).some(({ id }) => id === orderId))
  }
)

t.test('a temporary error is no failure', async t => {
  const shop = await openShop(t)
  const { orderId, claimToken } = await shop.paid()
  for (const fault of ['throttled', 'away'] as const) {
    shop.platform.faults.set('createOrder', fault)
    const answer = await shop.claim(claimBody(claimToken))
    t.equal(answer.status, 502)
    t.notOk('reason' in answer.data)
  }
  t.same(shop.failed, [])
  t.match(await shop.orders.get(orderId), { failure: null })
})

t.test('a buyer requests the money back, and the merchant sees where to', async t => {
  const { shop, orderId, claimToken } = await soldOut(t)
  const ask = (refundAddress: string, token = claimToken) =>
    shop.send('POST', `${shop.base}/refund-request`, { body: { claimToken: token, refundAddress } })
  await shop.claim(claimBody(claimToken))
  t.equal((await ask(addressOf('bc'))).status, 400, 'another network')
  t.equal((await ask('not an address at all, is it?')).status, 400)
  t.equal((await ask(addressOf(), 'A'.repeat(43))).status, 404)
  const answer = await ask(addressOf())
  t.equal(answer.status, 200)
  t.match(answer.data, { orderId, refundRequest: { refundAddress: addressOf(), refundType: 'chain' } })
  t.match(await shop.orders.get(orderId), {
    refundRequest: { address: addressOf(), type: 'chain', at: shop.clock.now() }
  })
  shop.platform.faults.delete('createOrder')
  t.equal(
    (await shop.claim(claimBody(claimToken))).status,
    200,
    'until the money goes back the order can still be made'
  )
  t.match(await shop.orders.get(orderId), { refundRequest: null })
  t.match((await ask(addressOf())).data, { error: 'Order placed' })
})

t.test(
  'the refund is requested with an invoice of the buyer, as wallets copy it, and not with the one that was paid',
  async t => {
    const { shop, orderId, claimToken } = await soldOut(t)
    const ask = (refundAddress: string) =>
      shop.send('POST', `${shop.base}/refund-request`, { body: { claimToken, refundAddress } })
    const own = (await shop.selling.claims.find((await shop.orders.get(orderId))?.paymentHash ?? ''))?.invoice ?? ''
    for (const address of [own, own.toUpperCase(), `lightning:${own}`])
      t.match(await ask(address), {
        status: 400,
        data: { error: 'Invalid refund address', message: /paid with.*one of your own/ }
      })
    const other = invoiceOf(shop.clock, { amountMsat: 1000n })
    t.match(await ask(`lightning:${other}`), {
      status: 200,
      data: { refundRequest: { refundAddress: other, refundType: 'ln' } }
    })
  }
)

t.test(
  "POST /api/refunds with an order's id gives back what was paid, never more, and the order is not made any more",
  async t => {
    const { shop, orderId, claimToken } = await soldOut(t)
    const { provider, refund } = await refunding(shop)
    await shop.claim(claimBody(claimToken))
    const { totalSats } = (await shop.orders.get(orderId)) ?? { totalSats: 0 }
    await t.rejects(refund(orderId, totalSats + 1), { status: 400, message: /exceeds/ })
    t.match(await refund(orderId, 100), { status: 'confirmed', invoiceId: orderId })
    shop.platform.faults.delete('createOrder')
    t.match(await shop.claim(claimBody(claimToken)), { status: 400, data: { error: 'Order refunded' } })
    t.equal(shop.platform.made.length, 0)
    await t.rejects(refund(orderId, totalSats), { status: 400, message: /exceeds/ })
    t.match(await refund(orderId, totalSats - 100), { status: 'confirmed' })
    t.equal(
      provider.sent.reduce((sum, { amountSats }) => sum + amountSats, 0),
      totalSats
    )
    t.match(await shop.orders.get(orderId), { refundedAt: shop.clock.now() })
  }
)

t.test('a refund is shown and synced after its order was purged', async t => {
  const shop = await openShop(t)
  const { orderId } = await shop.paid()
  const { refund, sync } = await refunding(shop)
  const { refundId } = await refund(orderId, 100)
  await shop.database.sql`update refunds set transaction_hash = null where refund_id = ${refundId}`
  shop.clock.advance(31 * 24 * 60 * MINUTE)
  t.equal(await shop.storefront.orders.purge(), 1)
  t.match(await sync(refundId), { refundId, status: 'confirmed', transactionHash: null })
})

t.test('a refund that failed lets the order be made again', async t => {
  const { shop, orderId, claimToken } = await soldOut(t)
  const { provider, refund } = await refunding(shop)
  await shop.claim(claimBody(claimToken))
  provider.fate = () => 'refuses'
  await t.rejects(refund(orderId, 100), { status: 400 })
  shop.platform.faults.delete('createOrder')
  t.equal((await shop.claim(claimBody(claimToken))).status, 200)
})

t.test('an order that the shop has is not refunded until the shop has called it off', async t => {
  const shop = await openShop(t)
  const { orderId, claimToken } = await shop.paid()
  const unpaid = await shop.unpaid({ ...BODY, email: 'other@example.com' })
  const { refund } = await refunding(shop)
  await t.rejects(refund(unpaid.orderId, 1), { status: 400, message: /not paid/ })
  t.equal((await shop.claim(claimBody(claimToken))).status, 200)
  await t.rejects(refund(orderId, 1), { status: 400, message: /Call it off there/ })
  const platformOrderId = (await shop.orders.get(orderId))?.platformOrderId ?? ''
  shop.platform.progress.set(platformOrderId, { isCanceled: true })
  shop.clock.advance(MINUTE)
  await shop.storefront.fulfilments.poll()
  t.match(await refund(orderId, 1), { status: 'confirmed' })
})

t.test('an order that the shop may have taken is looked up before its money goes back', async t => {
  const shop = await openShop(t)
  const { orderId, claimToken } = await shop.paid()
  const { refund } = await refunding(shop)
  shop.platform.searchable = false
  shop.platform.losesAnswer = true
  t.equal((await shop.claim(claimBody(claimToken))).status, 502)
  await t.rejects(refund(orderId, 1), { status: 400, message: /may have taken/ }, 'the search may be behind')
  shop.platform.searchable = true
  shop.clock.advance(MINUTE)
  await t.rejects(refund(orderId, 1), { status: 400, message: /Call it off there/ }, 'it was made')
  t.match(await shop.orders.get(orderId), { status: /^PaidWithDetails$/ })
  const other = await shop.paid({ ...BODY, email: 'other@example.com' })
  shop.platform.faults.set('createOrder', 'away')
  t.equal((await shop.claim(claimBody(other.claimToken))).status, 502)
  shop.clock.advance(MINUTE)
  t.match(await refund(other.orderId, 1), { status: 'confirmed' }, 'it surely was not')
})

t.test('of a claim and a refund at the same moment one has it: no order is both made and given back', async t => {
  for (let round = 0; round < 6; round++) {
    const shop = await openShop(t)
    const { orderId, claimToken } = await shop.paid()
    const { provider, refund } = await refunding(shop)
    await Promise.allSettled([
      round % 2 === 0 ? shop.claim(claimBody(claimToken)) : refund(orderId, 1),
      round % 2 === 0 ? refund(orderId, 1) : shop.claim(claimBody(claimToken))
    ])
    t.equal(shop.platform.made.length + provider.sent.length, 1, `round ${round}`)
  }
})

t.test(
  'a claim that hung until its time was over finds that the money went back, and asks the shop for nothing',
  async t => {
    const shop = await openShop(t)
    const { orderId, claimToken } = await shop.paid()
    const { refund } = await refunding(shop)
    const claims = claimsOf(shop)
    await shop.database.transaction(tx =>
      claims.take(tx, orderId, 'sleeper', shop.clock.now() + MINUTE, shop.clock.now(), 'sealed')
    )
    await t.rejects(refund(orderId, 1), { status: 400, message: /at this moment/ })
    const before = shop.clock.now()
    shop.clock.advance(MINUTE)
    t.match(await refund(orderId, 1), { status: 'confirmed' })
    t.equal(await claims.asking(orderId, 'sleeper', before), false, 'by its own clock it would still be its')
    t.equal((await shop.claim(claimBody(claimToken))).status, 400)
  }
)
