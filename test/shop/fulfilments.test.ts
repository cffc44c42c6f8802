import t from 'tap'
import { claimBody, DAY, openShop, type Shop } from './fixture.ts'
import { notification } from './test-platform.ts'

const HOUR = 3_600_000

interface Claimed {
  readonly orderId: string
  readonly claimToken: string
  readonly platformOrderId: string
}

async function claimed(shop: Shop) {
  const { orderId, claimToken } = await shop.paid()
  await shop.claim(claimBody(claimToken))
  return { orderId, claimToken, platformOrderId: (await shop.orders.get(orderId))?.platformOrderId ?? '' }
}

function tell(shop: Shop, body: object | string | null, slug = shop.integration.slug) {
  return shop.send('POST', `/api/webhooks/storefront/${slug}`, notification(body))
}

/** How often the shop was asked after an order; other tests' orders are due at other times. */
const asked = (shop: Shop, { platformOrderId }: Claimed) =>
  shop.platform.askedAfter.filter(id => id === platformOrderId).length

t.test('PaidWithDetails to Fulfilled to Shipped, by signed notifications (decision 147)', async t => {
  const shop = await openShop(t)
  const { orderId, claimToken, platformOrderId } = await claimed(shop)
  shop.clock.advance(HOUR)
  t.same((await tell(shop, { id: platformOrderId, isFulfilled: true })).data, { received: true })
  t.match((await shop.status(orderId, claimToken)).data, {
    status: /^Fulfilled$/,
    trackingNumber: null,
    shippedAt: null
  })
  shop.clock.advance(HOUR)
  const shipped = {
    id: platformOrderId,
    isFulfilled: true,
    isShipped: true,
    tracking: { number: '1Z999', carrier: 'UPS', url: 'https://ups.example/1Z999' }
  }
  await tell(shop, shipped)
  const at = shop.clock.now()
  shop.clock.advance(HOUR)
  for (const repeated of [shipped, { id: platformOrderId, isFulfilled: true }, { id: platformOrderId }])
    t.equal((await tell(shop, repeated)).status, 200)
  t.match(
    (await shop.status(orderId, claimToken)).data,
    {
      status: /^Shipped$/,
      trackingNumber: '1Z999',
      trackingCarrier: 'UPS',
      trackingUrl: 'https://ups.example/1Z999',
      shippedAt: new Date(at).toISOString()
    },
    'replays and what overtakes change nothing'
  )
  t.match(await shop.storefront.orders.stats(shop.integration.merchantId), { fulfilled: 1, shipped: 1 })
})

t.test(
  'an order is shipped when the platform says that it is on its way, also before all of it is fulfilled',
  async t => {
    const shop = await openShop(t)
    const { orderId, claimToken, platformOrderId } = await claimed(shop)
    await tell(shop, { id: platformOrderId, isShipped: true, shippedAt: shop.clock.now() - 5000 })
    t.match((await shop.status(orderId, claimToken)).data, {
      status: /^Shipped$/,
      shippedAt: new Date(shop.clock.now() - 5000).toISOString()
    })
  }
)

t.test(
  'POST /api/webhooks/storefront/{slug} | bad signature 401, unreadable 400, unknown entity or replay 200 (decision 163)',
  async t => {
    const shop = await openShop(t)
    const { orderId, claimToken, platformOrderId } = await claimed(shop)
    const path = `/api/webhooks/storefront/${shop.integration.slug}`
    const good = notification({ id: platformOrderId, isFulfilled: true })
    for (const headers of [{}, { 'x-test-signature': 'wrong' }, notification({ id: 'other' }).headers])
      t.equal((await shop.send('POST', path, { headers, body: good.body })).status, 401)
    t.equal((await tell(shop, 'no JSON')).status, 400)
    for (const body of [null, { id: 'unknown', isFulfilled: true }])
      t.same((await tell(shop, body)).data, { received: true })
    t.equal((await tell(shop, { id: platformOrderId }, 'nobody')).status, 404)
    const elsewhere = await openShop(t)
    t.equal((await tell(elsewhere, { id: platformOrderId, isFulfilled: true })).status, 200)
    t.match((await shop.status(orderId, claimToken)).data, { status: /^PaidWithDetails$/ }, 'no other store moves it')
    t.equal(
      (
        await shop.send('POST', path, {
          ...good,
          headers: { ...good.headers, 'X-Test-Signature': good.headers['x-test-signature'] ?? '' }
        })
      ).status,
      200
    )
    t.match((await shop.status(orderId, claimToken)).data, { status: /^Fulfilled$/ })
  }
)

t.test(
  'without a notification the status is polled: soon after the claim, with growing intervals, and not once it is known',
  async t => {
    const shop = await openShop(t)
    const order = await claimed(shop)
    const { orderId, claimToken, platformOrderId } = order
    t.equal(await shop.storefront.fulfilments.poll(), 0)
    t.equal(asked(shop, order), 0, 'not due yet')
    shop.clock.advance(20_000)
    await shop.storefront.fulfilments.poll()
    await shop.storefront.fulfilments.poll()
    t.equal(asked(shop, order), 1)
    shop.platform.progress.set(platformOrderId, { isFulfilled: true })
    shop.clock.advance(20_000)
    t.equal(await shop.storefront.fulfilments.poll(), 1)
    t.match((await shop.status(orderId, claimToken)).data, { status: /^Fulfilled$/ })
    let polls = 0
    for (const end = shop.clock.now() + 2 * DAY; shop.clock.now() < end; shop.clock.advance(HOUR)) {
      const before = asked(shop, order)
      await shop.storefront.fulfilments.poll()
      polls += asked(shop, order) - before
    }
    t.ok(polls > 10 && polls < 25, `${polls} looks in 2 days`)
    shop.platform.progress.set(platformOrderId, {
      isFulfilled: true,
      isShipped: true,
      tracking: { number: '1Z', carrier: null, url: null }
    })
    shop.clock.advance(6 * HOUR)
    t.equal(await shop.storefront.fulfilments.poll(), 1)
    t.match((await shop.status(orderId, claimToken)).data, { status: /^Shipped$/, trackingNumber: '1Z' })
    const before = asked(shop, order)
    shop.clock.advance(30 * DAY)
    await shop.storefront.fulfilments.poll()
    t.equal(asked(shop, order), before, 'nothing is missing')
  }
)

t.test('a shop that is down is retried later; it delays no other store', async t => {
  const shop = await openShop(t)
  const elsewhere = await openShop(t)
  const mine = await claimed(shop)
  const theirs = await claimed(elsewhere)
  shop.clock.advance(20_000)
  elsewhere.clock.advance(20_000)
  shop.platform.faults.set('fulfilments', 'away')
  shop.platform.progress.set(mine.platformOrderId, { isFulfilled: true })
  await shop.storefront.fulfilments.poll()
  shop.platform.faults.clear()
  shop.clock.advance(119_999)
  t.equal(await shop.storefront.fulfilments.poll(), 0)
  shop.clock.advance(1)
  t.equal(await shop.storefront.fulfilments.poll(), 1)
  t.match((await elsewhere.status(theirs.orderId, theirs.claimToken)).data, { status: /^PaidWithDetails$/ })
})

t.test('a canceled order is polled no more', async t => {
  const shop = await openShop(t)
  const order = await claimed(shop)
  const { orderId, claimToken, platformOrderId } = order
  await tell(shop, { id: platformOrderId, isCanceled: true })
  shop.clock.advance(DAY)
  await shop.storefront.fulfilments.poll()
  t.equal(asked(shop, order), 0)
  t.match(
    (await shop.status(orderId, claimToken)).data,
    { status: /^PaidWithDetails$/ },
    'the contract knows no such state'
  )
})

t.test("a platform's text is stored as the database can return it, and only web addresses become links", async t => {
  const shop = await openShop(t)
  shop.platform.goods = {
    ...shop.platform.goods,
    products: [
      {
        productId: 1,
        title: 'M\u0000ug\ud800',
        description: '',
        imageUrl: null,
        variants: [{ variantId: 11, title: 'Blue\u0000', priceCents: 1999, available: true }]
      }
    ]
  }
  const { orderId, claimToken } = await shop.paid({ items: [{ variantId: 11, quantity: 1 }] })
  shop.platform.faults.set('createOrder', Object.assign(new Error('odd \u0000 text')))
  t.equal((await shop.claim(claimBody(claimToken))).status, 500)
  shop.platform.faults.clear()
  shop.clock.advance(30_000)
  t.equal((await shop.claim(claimBody(claimToken))).status, 200)
  t.match(await shop.orders.get(orderId), { items: [{ productTitle: 'Mug\ufffd', variantTitle: 'Blue' }] })
  const platformOrderId = (await shop.orders.get(orderId))?.platformOrderId ?? ''
  await tell(shop, {
    id: platformOrderId,
    isShipped: true,
    tracking: { number: '1\u0000Z', carrier: 'U\u0000PS', url: 'javascript:alert(1)' }
  })
  t.match((await shop.status(orderId, claimToken)).data, {
    trackingNumber: '1Z',
    trackingCarrier: 'UPS',
    trackingUrl: null
  })
})
