import t from 'tap'
import { openShop, PUBLIC_URL } from './fixture.ts'
import { until } from '../support/until.ts'

const TTL = 300_000

t.test(
  'GET catalog | none | 200 {storeName, slug, shipping, products[]} (cached); 404 if integration unknown or inactive',
  async t => {
    const shop = await openShop(t)
    await shop.change(integration => ({
      ...integration,
      shipping: { domesticCents: 490, domesticOnly: true, freeEnabled: true, freeThresholdCents: 5000 }
    }))
    const answer = await shop.send('GET', `${shop.base}/catalog`)
    t.equal(answer.status, 200)
    t.same(answer.data, {
      storeName: 'Corner shop',
      slug: shop.integration.slug,
      shipping: { domesticUsd: 4.9, domesticOnly: true, freeShippingEnabled: true, freeShippingThresholdUsd: 50 },
      products: [
        {
          productId: 1,
          title: 'Mug',
          description: 'Holds coffee.',
          imageUrl: 'https://cdn.example/mug.png',
          variants: [{ variantId: 11, title: 'Blue', priceUsd: 19.99, available: true }]
        },
        {
          productId: 2,
          title: 'Socks',
          description: '',
          imageUrl: null,
          variants: [
            { variantId: 21, title: 'M', priceUsd: 0.05, available: true },
            { variantId: 22, title: 'L', priceUsd: 0.05, available: false }
          ]
        }
      ]
    })
    t.equal((await shop.send('GET', '/api/storefront/nobody/catalog')).status, 404)
    await shop.change(integration => ({ ...integration, isActive: false }))
    t.match((await shop.send('GET', `${shop.base}/catalog`)).data, { error: 'Store not found' })
    await shop.change(integration => ({
      ...integration,
      isActive: true,
      shipping: { ...integration.shipping, freeThresholdCents: null }
    }))
    t.match((await shop.send('GET', `${shop.base}/catalog`)).data, { shipping: { freeShippingThresholdUsd: null } })
    await shop.deactivateMerchant()
    t.equal((await shop.send('GET', `${shop.base}/catalog`)).status, 404)
  }
)

t.test('the catalog is fetched once for any number of requests, and again when it expires (decision 144)', async t => {
  const shop = await openShop(t)
  const requests = () => shop.platform.calls.filter(call => call === 'catalog').length
  const get = () => shop.send('GET', `${shop.base}/catalog`)
  const gate = Promise.withResolvers<void>()
  shop.platform.gates.set('catalog', gate.promise)
  const answers = Array.from({ length: 50 }, get)
  await until(() => requests() > 0)
  gate.resolve()
  t.ok((await Promise.all(answers)).every(answer => answer.status === 200))
  t.equal(requests(), 1)
  shop.clock.advance(TTL - 1)
  await get()
  t.equal(requests(), 1)
  shop.clock.advance(1)
  shop.platform.goods = { ...shop.platform.goods, storeName: 'New name' }
  t.match((await get()).data, { storeName: 'New name' })
  t.equal(requests(), 2)
})

t.test('while the platform is down the last catalog is served, and the platform is left alone for a while', async t => {
  const shop = await openShop(t)
  const requests = () => shop.platform.calls.filter(call => call === 'catalog').length
  const get = () => shop.send('GET', `${shop.base}/catalog`)
  shop.platform.faults.set('catalog', 'away')
  const none = await get()
  t.equal(none.status, 503, 'there is none at all')
  t.match(none.data, { error: 'Catalog unavailable' })
  t.equal(none.headers.get('retry-after'), '7')
  t.equal((await get()).status, 503)
  t.equal(requests(), 1, 'not retried before it said so')
  const checkout = await shop.checkout()
  t.equal(checkout.status, 503)
  t.match(checkout.data, { error: 'Catalog unavailable', retryable: true })
  shop.clock.advance(7000)
  shop.platform.faults.clear()
  t.equal((await get()).status, 200)
  shop.clock.advance(TTL)
  for (const fault of ['away', 'throttled', 'credentials', 'shop'] as const) {
    shop.platform.faults.set('catalog', fault)
    t.match((await get()).data, { storeName: 'Corner shop' }, fault)
    shop.clock.advance(7000)
  }
  t.equal(requests(), 6)
  t.equal((await shop.checkout()).status, 402, 'and sold from')
})

t.test('POST invalidate-cache | forces catalog refresh on next request, at every gateway', async t => {
  const shop = await openShop(t)
  const other = await shop.another()
  const names = async () => [
    (await shop.send('GET', `${shop.base}/catalog`)).data['storeName'],
    (await other.send('GET', `${shop.base}/catalog`)).data['storeName']
  ]
  t.same(await names(), ['Corner shop', 'Corner shop'])
  shop.platform.goods = { ...shop.platform.goods, storeName: 'New name' }
  t.same(await names(), ['Corner shop', 'Corner shop'])
  await shop.storefront.storefronts.invalidateCatalog(shop.integration.merchantId)
  t.same(await names(), ['New name', 'New name'])
  shop.platform.goods = { ...shop.platform.goods, storeName: 'Newest name' }
  shop.storefront.catalogs.invalidate(shop.integration.id)
  t.same(await names(), ['Newest name', 'New name'], 'here alone')
})

t.test('a catalog that was on its way when it was invalidated is not taken for a fresh one', async t => {
  const shop = await openShop(t)
  const gate = Promise.withResolvers<void>()
  shop.platform.gates.set('catalog', gate.promise)
  const old = shop.send('GET', `${shop.base}/catalog`)
  await until(() => shop.platform.calls.includes('catalog'))
  shop.platform.gates.clear()
  shop.platform.goods = { ...shop.platform.goods, storeName: 'New name' }
  shop.storefront.catalogs.invalidate(shop.integration.id)
  t.match((await shop.send('GET', `${shop.base}/catalog`)).data, { storeName: 'New name' })
  gate.resolve()
  t.match((await old).data, { storeName: 'Corner shop' })
  t.match((await shop.send('GET', `${shop.base}/catalog`)).data, { storeName: 'New name' })
})

t.test(
  'GET, HEAD llms.txt | 200 text/plain; charset=utf-8 manifest (tagline, endpoints, products, shipping rules, links), cached with the catalog TTL',
  async t => {
    const shop = await openShop(t)
    const { slug } = shop.integration
    shop.platform.goods = {
      ...shop.platform.goods,
      products: [
        ...shop.platform.goods.products,
        { productId: 3, title: 'Line\nbreaker\u202e', description: '# Heading\nmore', imageUrl: null, variants: [] }
      ]
    }
    const answer = await shop.send('GET', `${shop.base}/llms.txt`)
    t.equal(answer.status, 200)
    t.equal(answer.headers.get('content-type'), 'text/plain; charset=utf-8')
    t.equal(answer.headers.get('cache-control'), 'public, max-age=300')
    for (const part of [
      '# Corner shop\n\n> ',
      `POST ${PUBLIC_URL}/api/storefront/${slug}/checkout`,
      `GET ${PUBLIC_URL}/api/storefront/${slug}/catalog`,
      `GET ${PUBLIC_URL}/api/storefront/${slug}/orders/{orderId}?claimToken={claimToken}`,
      'X-Buyer-Location',
      '- Mug: Holds coffee.\n  - variantId 11: Blue, $19.99\n',
      'variantId 22: L, $0.05 (not available)',
      'To every country. Shipping costs $4.90 an order.',
      'Line breaker: # Heading more',
      `[Store page](${PUBLIC_URL}/storefront/${slug})`,
      'for 30 days'
    ])
      t.ok(answer.text.includes(part), part)
    const head = await shop.send('HEAD', `${shop.base}/llms.txt`)
    t.equal(head.status, 200)
    t.equal(head.headers.get('content-type'), 'text/plain; charset=utf-8')
    await shop.change(integration => ({
      ...integration,
      shipping: { domesticCents: 490, domesticOnly: true, freeEnabled: true, freeThresholdCents: 5000 }
    }))
    t.match(
      (await shop.send('GET', `${shop.base}/llms.txt`)).text,
      'Within US only. Shipping costs $4.90 an order. It is free from $50.00 on.'
    )
  }
)

t.test('llms.txt | 404 as text/plain if unknown or inactive', async t => {
  const shop = await openShop(t)
  await shop.change(integration => ({ ...integration, isActive: false }))
  for (const method of ['GET', 'HEAD']) {
    for (const path of ['/api/storefront/nobody/llms.txt', `${shop.base}/llms.txt`]) {
      const answer = await shop.send(method, path)
      t.equal(answer.status, 404)
      t.equal(answer.headers.get('content-type'), 'text/plain; charset=utf-8')
    }
  }
})

t.test(
  'nothing is sold at old prices: a client that keeps the platform from giving a catalog gets 503, and may read the last one',
  async t => {
    const shop = await openShop(t)
    const requests = () => shop.platform.calls.filter(call => call === 'catalog').length
    const look = async () => (await shop.send('GET', `${shop.base}/catalog`)).status
    t.equal((await shop.checkout()).status, 402)
    shop.platform.faults.set('catalog', 'throttled')
    shop.clock.advance(3_600_000)
    t.equal((await shop.checkout()).status, 402, 'a short while ago it was read')
    shop.clock.advance(TTL + 1)
    const old = await shop.checkout()
    t.equal(old.status, 503)
    t.match(old.data, { error: 'Catalog unavailable', retryable: true })
    t.equal(old.headers.get('retry-after'), '7')
    t.equal(await look(), 200)
    t.equal(requests(), 3)
    shop.platform.faults.clear()
    shop.clock.advance(7000)
    t.equal((await shop.checkout()).status, 402)
    await shop.storefront.storefronts.invalidateCatalog(shop.integration.merchantId)
    shop.platform.faults.set('catalog', 'throttled')
    t.equal((await shop.checkout()).status, 503, 'its merchant says that it is out of date')
    t.equal((await shop.checkout()).status, 503, 'also while the platform is left alone')
    t.equal(await look(), 200)
    t.equal(shop.payee.requests.length, 3)
  }
)
