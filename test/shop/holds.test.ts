/** Goods of paid orders are held until they are claimed: when, for how long, and that none are counted twice. */
import t from 'tap'
import { StorePlatformError } from '../../src/shop/platform.ts'
import { BODY, claimBody, openShop } from './fixture.ts'
import { fault, mugs, shopify } from './shopify-fixture.ts'
import { MUG } from './test-platform.ts'
import { until } from '../support/until.ts'

t.test(
  'goods are held once an order is paid, until its claim window ends, and released once the shop has the order',
  async t => {
    const shop = await openShop(t)
    await shop.unpaid({ ...BODY, email: 'nobody@example.com' })
    await shop.storefront.holds.run()
    t.equal(shop.platform.holds.size, 0, 'nothing is held for unpaid orders')
    const { orderId, claimToken } = await shop.paid()
    await shop.storefront.holds.run()
    await shop.storefront.holds.run()
    const order = await shop.orders.get(orderId)
    t.match(
      [...shop.platform.holds],
      [
        [
          'hold-0',
          { sourceIdentifier: orderId, until: order?.claimExpiresAt, items: [{ variantId: MUG, quantity: 2 }, {}] }
        ]
      ],
      'once'
    )
    t.equal((await shop.claim(claimBody(claimToken))).status, 200)
    t.match(shop.platform.made, [{ holdId: 'hold-0' }], 'the order is made with what holds its goods')
    t.same(shop.platform.released, [])
    shop.platform.faults.set('release', 'away')
    await shop.storefront.holds.run()
    shop.platform.faults.delete('release')
    shop.clock.advance(600_000)
    await shop.storefront.holds.run()
    await shop.storefront.holds.run()
    t.same(shop.platform.released, ['hold-0'], 'tried again until it is done, and then no more')
  }
)

t.test(
  'a shop that cannot hold them is asked once, but for one that asked to wait; the order is still made',
  async t => {
    const shop = await openShop(t)
    const { claimToken } = await shop.paid()
    for (const [fault, asked] of [
      ['throttled', 1],
      ['throttled', 2],
      ['refused', 3],
      ['refused', 3]
    ] as const) {
      shop.platform.faults.set('hold', fault)
      await shop.storefront.holds.run()
      t.equal(shop.platform.calls.filter(call => call === 'hold').length, asked, fault)
    }
    t.equal((await shop.claim(claimBody(claimToken))).status, 200)
    t.match(shop.platform.made, [{ holdId: null }])
  }
)

t.test('a claim beside a hold that takes the last piece gets that piece', async t => {
  const shop = await openShop(t)
  const { claimToken } = await shop.paid()
  const answered = Promise.withResolvers<void>()
  shop.platform.gates.set('hold', answered.promise)
  const holding = shop.storefront.holds.run()
  await until(() => shop.platform.holds.size > 0)
  const create = shop.platform.createOrder.bind(shop.platform)
  shop.platform.createOrder = async (store, order) => {
    if (order.holdId !== null) return await create(store, order)
    answered.resolve()
    await holding
    throw new StorePlatformError('refused', 'The store has not enough in stock', { isSoldOut: true })
  }
  t.equal((await shop.claim(claimBody(claimToken))).status, 200)
  t.match(shop.platform.made, [{ holdId: 'hold-0' }])
  t.same(shop.failed, [], 'no client saw it as sold out')
})

t.test('nothing is held for an order that is being made', async t => {
  const shop = await openShop(t)
  const { claimToken } = await shop.paid()
  const answered = Promise.withResolvers<void>()
  shop.platform.gates.set('createOrder', answered.promise)
  const claiming = shop.claim(claimBody(claimToken))
  await until(() => shop.platform.made.length > 0)
  await shop.storefront.holds.run()
  t.equal(shop.platform.holds.size, 0)
  answered.resolve()
  t.equal((await claiming).status, 200)
})

t.test(
  'at Shopify a draft order reserves the goods: no other client can buy them, and the paid order is made',
  async t => {
    const { fake, platform, store } = await shopify(t)
    const mug = fake.shop.variantOf('Enamel Mug')
    mug.stock = 2
    const order = mugs(fake)
    const until = fake.shop.now()
    const holdId = await platform.hold(store, {
      sourceIdentifier: order.sourceIdentifier,
      items: order.items,
      until: Date.parse(until) + 86_400_000
    })
    t.equal(mug.stock, 0)
    t.same(
      [...(await platform.available(store, [{ variantId: mug.id, quantity: 1 }]))],
      [],
      'no other client can buy them'
    )
    t.match(fake.shop.drafts, [{ tags: ['boltgate', `bg-${order.sourceIdentifier}`] }])
    t.equal(
      await fault(platform.createOrder(store, { ...order, sourceIdentifier: 'other' })),
      'refused',
      'not even without having them held'
    )
    await platform.createOrder(store, { ...order, holdId })
    await platform.release(store, holdId ?? '')
    t.equal(mug.stock, 0, 'two were there, and two are sold')
    await platform.release(store, holdId ?? '')
    t.equal(fake.shop.orders.length, 1)
    mug.stock = 1
    t.equal(
      await fault(
        platform.hold(store, { sourceIdentifier: 'x', items: order.items, until: Date.parse(until) + 86_400_000 })
      ),
      'refused',
      'more than is there cannot be held'
    )
  }
)

t.test(
  'at Shopify what no longer holds the goods gives no right to them: its time is over, or the merchant has deleted it',
  async t => {
    const { fake, clock, platform, store } = await shopify(t)
    const mug = fake.shop.variantOf('Enamel Mug')
    const order = mugs(fake)
    for (const end of ['lapse', 'delete'] as const) {
      mug.stock = 2
      const holdId = await platform.hold(store, {
        sourceIdentifier: order.sourceIdentifier,
        items: order.items,
        until: clock.now() + 60_000
      })
      if (end === 'lapse') clock.advance(60_000)
      else fake.shop.drafts.splice(0)
      fake.shop.lapse()
      mug.stock = 0
      t.equal(await fault(platform.createOrder(store, { ...order, holdId })), 'refused', end)
    }
    t.same(fake.shop.orders, [])
  }
)
