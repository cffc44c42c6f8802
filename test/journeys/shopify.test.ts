import t, { type Test as T } from 'tap'
import { eventually } from '../support/gateway-process.ts'
import { json } from './shop-front.ts'
import { FRESH, LAG, openCounter, PATIENCE, SLUG, type Bought, type Counter } from './shopify-counter.ts'

/** The platform has one order for the payment, and the buyer knows its number. */
async function hasOne(t: T, counter: Counter, bought: Bought) {
  const orders = counter.ordersOf(bought)
  t.equal(orders.length, 1, 'one order for one payment')
  const status = await counter.status(bought)
  t.equal(status['status'], 'PaidWithDetails')
  t.equal(status['storefrontOrderNumber'], orders[0]?.name)
}

/** The platform has none, and the payment stays recorded. */
async function hasNone(t: T, counter: Counter, bought: Bought) {
  t.equal(counter.ordersOf(bought).length, 0)
  t.equal((await counter.status(bought))['status'], 'PaidAwaitingDetails')
}

t.test("a merchant's store on Shopify", async t => {
  const counter = await openCounter(t)
  const { gateway, fake, clock } = counter
  const mug = fake.shop.variantOf('Enamel Mug')
  mug.stock = 1000

  t.test('is opened with what the platform says of it, and the platform is asked to report', async t => {
    const { storefrontDomain, hasAdminApiToken } = json(
      await gateway.merchantSend('GET', '/api/merchant/storefront'),
      200
    )
    t.equal(storefrontDomain, 'example.myshopify.com')
    t.type(hasAdminApiToken, 'boolean')
    await eventually('the platform reports', () => Promise.resolve(fake.subscriptions.length === 5 ? true : null))
    t.ok(fake.subscriptions.every(({ uri }) => uri === `${gateway.url}/api/webhooks/storefront/${SLUG}`))
  })

  t.test('catalog unavailable: 503 while none was read, and the last one afterwards', async t => {
    fake.away.add('CatalogPage')
    t.equal((await gateway.send('GET', `/api/storefront/${SLUG}/catalog`)).status, 503)
    fake.away.clear()
    clock.advance(6_000)
    const catalog = json(await gateway.send('GET', `/api/storefront/${SLUG}/catalog`), 200)
    t.match(catalog, {
      storeName: 'Example Goods',
      slug: SLUG,
      products: [
        { title: 'Linen Tote' },
        { title: 'Enamel Mug', variants: [{ variantId: mug.id, priceUsd: 12.99, available: true }] },
        { title: 'Notebook' }
      ]
    })
    fake.away.add('CatalogPage')
    clock.advance(FRESH + 1)
    t.same(json(await gateway.send('GET', `/api/storefront/${SLUG}/catalog`), 200), catalog)
    await hasNone(t, counter, await counter.buy())
    fake.away.clear()
  })

  t.test("the buyer's whole way: catalog, 402, payment, 200, claim, order status, fulfilled and shipped", async t => {
    const unpaid = json(await counter.checkout(), 402)
    t.match(unpaid, { subtotalUsd: 25.98, shippingUsd: 5, taxUsd: 2.31, totalUsd: 33.29, taxNote: null })
    const bought = await counter.buy()
    t.match(json(await counter.claim(bought), 200), {
      orderId: bought.orderId,
      status: /^PaidWithDetails$/,
      storefrontOrderNumber: '#1001'
    })
    await hasOne(t, counter, bought)
    const order = counter.ordersOf(bought)[0]!
    t.match(order.input, {
      email: 'buyer@example.com',
      financialStatus: /^PAID$/,
      shippingAddress: { countryCode: 'US', provinceCode: 'NY' },
      transactions: [{ amountSet: { shopMoney: { amount: '33.29' } } }]
    })
    fake.fulfill(order)
    t.same(await fake.deliver(), [200, 200])
    t.equal((await counter.status(bought))['status'], 'Fulfilled')
    fake.fulfill(order, { number: '1Z999', company: 'UPS', url: 'https://ups.example/1Z999' })
    t.same(await fake.deliver(), [200, 200])
    t.match(await counter.status(bought), {
      status: /^Shipped$/,
      trackingNumber: '1Z999',
      trackingCarrier: 'UPS',
      trackingUrl: 'https://ups.example/1Z999'
    })
    t.equal((await counter.claim(bought)).status, 400, 'claimed once')
    t.equal(counter.ordersOf(bought).length, 1)
  })

  t.test('a notification with a bad signature is 401, and changes nothing', async t => {
    const bought = await counter.buy()
    json(await counter.claim(bought), 200)
    const body = JSON.stringify({
      id: counter.ordersOf(bought)[0]?.id,
      cancelled_at: null,
      fulfillment_status: 'fulfilled',
      fulfillments: []
    })
    const send = (secret: string) =>
      gateway.send('POST', `/api/webhooks/storefront/${SLUG}`, {
        headers: fake.signed('orders/fulfilled', body, secret),
        body
      })
    t.equal((await send('forged')).status, 401)
    await hasOne(t, counter, bought)
    t.equal((await send(fake.clientSecret)).status, 200)
    t.equal((await counter.status(bought))['status'], 'Fulfilled')
  })

  t.test('fulfilment is learnt by asking, too, where no notification comes', async () => {
    const bought = await counter.buy()
    json(await counter.claim(bought), 200)
    const [order] = counter.ordersOf(bought)
    order!.fulfillmentStatus = 'FULFILLED'
    await counter.afterJob('the order is fulfilled', 'storefront-fulfilments', async () =>
      (await counter.status(bought))['status'] === 'Fulfilled' ? true : null
    )
  })

  t.test('order creation fails once: the claim is 502, and succeeds when repeated', async t => {
    for (const fault of [422, 402, 'access denied', 429] as const) {
      const bought = await counter.buy()
      // A 429 is retried automatically, until that has been tried often enough.
      for (let times = 0; times < (fault === 429 ? 4 : 1); times++) fake.fail(fault, /^CreateOrder$/)
      t.equal((await counter.inTime(counter.claim(bought))).status, 502, String(fault))
      await hasNone(t, counter, bought)
      json(await counter.claim(bought), 200)
      await hasOne(t, counter, bought)
    }
  })

  t.test("order creation fails with an unknown outcome: no retry before the platform's search would know", async t => {
    for (const fault of ['lost before', 'server error', 'html as 200', 'internal error'] as const) {
      const bought = await counter.buy()
      fake.fail(fault, /^CreateOrder$/)
      t.equal((await counter.claim(bought)).status, 502, fault)
      await hasNone(t, counter, bought)
      const requests = fake.count('CreateOrder')
      t.equal((await counter.claim(bought)).status, 502, 'immediately')
      t.equal(fake.count('CreateOrder'), requests)
      clock.advance(LAG)
      json(await counter.claim(bought), 200)
      await hasOne(t, counter, bought)
    }
  })

  t.test('its answer is lost: the order is found, and not made again', async t => {
    for (const fault of [
      'lost after',
      'server error after',
      'cut after',
      'html as 200 after',
      'internal error after'
    ] as const) {
      const bought = await counter.buy()
      fake.fail(fault, /^CreateOrder$/)
      json(await counter.claim(bought), 200)
      await hasOne(t, counter, bought)
    }
  })

  t.test('its answer is lost while the search is behind: the order is found among the newest', async t => {
    fake.shop.isSearchBehind = true
    const bought = await counter.buy()
    fake.fail('lost after', /^CreateOrder$/)
    json(await counter.claim(bought), 200)
    await hasOne(t, counter, bought)
    fake.shop.isSearchBehind = false
    fake.shop.index()
  })

  t.test('its answer is lost and it cannot be looked for: the next claim finds it', async t => {
    const bought = await counter.buy()
    fake.fail('lost after', /^CreateOrder$/)
    fake.fail('server error', /^FindOrder$/)
    t.equal((await counter.claim(bought)).status, 502)
    t.equal(counter.ordersOf(bought).length, 1)
    json(await counter.claim(bought), 200)
    await hasOne(t, counter, bought)
  })

  t.test('its answer is lost and the buyer never comes back: the gateway finds it', async t => {
    const bought = await counter.buy()
    fake.fail('lost after', /^CreateOrder$/)
    fake.fail('server error', /^FindOrder$/)
    t.equal((await counter.claim(bought)).status, 502)
    await counter.afterJob('the order is found', 'storefront-claims', async () =>
      (await counter.status(bought))['status'] === 'PaidWithDetails' ? true : null
    )
    await hasOne(t, counter, bought)
  })

  t.test('its response times out, and the order is still made', async t => {
    const bought = await counter.buy()
    const late = Promise.withResolvers<void>()
    fake.beforeOrder = () => late.promise
    const requests = fake.count('CreateOrder')
    const claiming = counter.claim(bought)
    await eventually('the platform was asked', () =>
      Promise.resolve(fake.count('CreateOrder') > requests ? true : null)
    )
    clock.advance(PATIENCE)
    t.equal((await claiming).status, 502)
    await hasNone(t, counter, bought)
    t.equal((await counter.claim(bought)).status, 502, 'and is not requested again while it may be on its way')
    fake.beforeOrder = () => {}
    late.resolve()
    await eventually('the order was made', () => Promise.resolve(counter.ordersOf(bought).length > 0 ? true : null))
    json(await counter.claim(bought), 200)
    await hasOne(t, counter, bought)
  })

  t.test('throttled: retried, and the order is made once', async t => {
    const bought = await counter.buy()
    fake.bucket.available = 0
    fake.fail('throttled', /^CreateOrder$/)
    json(await counter.inTime(counter.claim(bought)), 200)
    await hasOne(t, counter, bought)
    fake.bucket.available = 0
    const checkout = await counter.inTime(counter.checkout())
    t.equal(checkout.status, 402, checkout.text)
    // The gateway counts on the last reported bucket: what comes next would wait for this clock.
    clock.advance(45_000)
  })

  t.test('throttled for longer than a buyer waits: 503 before paying, 502 at the claim', async t => {
    const bought = await counter.inTime(counter.buy())
    fake.bucket.available = 0
    fake.bucket.restoreRate = 1
    // The clock goes on while a request is waited for: on a slow machine enough would come back for it.
    fake.bucket.shared = true
    const refused = await counter.inTime(counter.checkout())
    t.equal(refused.status, 503)
    t.match(refused.json(), { retryable: true })
    t.equal((await counter.inTime(counter.claim(bought))).status, 502)
    await hasNone(t, counter, bought)
    Object.assign(fake.bucket, { restoreRate: 100, available: 2000, shared: false })
    clock.advance(45_000)
    json(await counter.inTime(counter.claim(bought)), 200)
    await hasOne(t, counter, bought)
  })

  t.test('token expired: another one is fetched, and the order is made once', async t => {
    const bought = await counter.inTime(counter.buy())
    fake.expireTokens()
    json(await counter.claim(bought), 200)
    await hasOne(t, counter, bought)
    fake.expireTokens()
    t.equal((await counter.checkout()).status, 402)
  })

  t.test('tax unavailable: 503 that may be retried, and nothing can be paid', async t => {
    const invoices = async () => json(await gateway.merchantSend('GET', '/api/merchant/storefront/stats'), 200)['total']
    const before = await invoices()
    fake.away.add('Tax')
    const refused = await counter.checkout()
    t.equal(refused.status, 503)
    t.match(refused.json(), { error: 'Tax calculation failed', retryable: true, correlationId: /./ })
    t.notOk(refused.headers['www-authenticate'])
    t.same(await invoices(), before)
    fake.away.clear()
    t.equal((await counter.checkout()).status, 402)
  })

  t.test('stock gone before checkout: 400 before paying', async t => {
    mug.stock = 1
    t.equal((await counter.checkout()).status, 400)
    mug.stock = 1000
  })

  t.test(
    "stock gone between checkout and claim: the payment stays recorded, and the administrator's retry makes the order",
    async t => {
      const bought = await counter.buy()
      mug.stock = 1
      t.equal((await counter.claim(bought)).status, 502)
      await hasNone(t, counter, bought)
      const retry = () => gateway.adminSend('POST', `/api/admin/storefront/orders/${bought.orderId}/retry`)
      t.equal((await retry()).status, 502)
      await hasNone(t, counter, bought)
      mug.stock = 2
      json(await retry(), 200)
      await hasOne(t, counter, bought)
      t.equal(mug.stock, 0)
      t.equal(
        counter.ordersOf(bought)[0]?.input.shippingAddress?.['address1'],
        '1 Main Street',
        'to the address that the buyer gave'
      )
      t.equal((await retry()).status, 400)
      mug.stock = 1000
    }
  )

  t.test('50 claims at a time, with lost answers among them: one order', async t => {
    const bought = await counter.buy()
    fake.fail('lost after', /^CreateOrder$/)
    const statuses = (await Promise.all(Array.from({ length: 50 }, () => counter.claim(bought)))).map(
      ({ status }) => status
    )
    t.equal(statuses.filter(status => status === 200).length, 1)
    t.ok(
      statuses.every(status => status === 200 || status === 400),
      String(new Set(statuses))
    )
    await hasOne(t, counter, bought)
  })

  t.test('in the end no payment has two orders, and none is lost', async t => {
    for (const bought of counter.bought) {
      if (counter.ordersOf(bought).length === 0) json(await counter.claim(bought), 200)
      t.equal(counter.ordersOf(bought).length, 1)
      t.match((await counter.status(bought))['status'], /^(?:PaidWithDetails|Fulfilled|Shipped)$/)
    }
    t.equal(fake.shop.orders.length, counter.bought.length)
    t.match(json(await gateway.merchantSend('GET', '/api/merchant/storefront/stats'), 200), {
      total: { paidOrders: counter.bought.length }
    })
  })
})
