import t from 'tap'
import { fault, faultOf, legacyStoreOf, shopify } from './shopify-fixture.ts'

for (const apiVersion of ['2026-04', '2026-10']) {
  t.test(`the catalog holds active and published products with prices in cents, in ${apiVersion}`, async t => {
    const { fake, platform, store } = await shopify(t, { apiVersion })
    const { storeName, products } = await platform.catalog(store)
    t.equal(storeName, 'Example Goods')
    t.same(
      products.map(({ title }) => title),
      ['Linen Tote', 'Enamel Mug', 'Notebook'],
      'neither drafts nor what is not published'
    )
    const [tote] = fake.shop.products
    t.same(products[0], {
      productId: tote?.id,
      title: 'Linen Tote',
      description: 'A bag for the market.',
      imageUrl: 'https://cdn.example.com/linen-tote.png',
      variants: [
        { variantId: tote?.variants[0]?.id, title: 'Natural', priceCents: 1850, available: true },
        { variantId: tote?.variants[1]?.id, title: 'Black', priceCents: 1850, available: false }
      ]
    })
    t.equal(fake.seen.at(-1)?.path, `/admin/api/${apiVersion}/graphql.json`)
  })
}

t.test('the catalog', async t => {
  const { fake, platform, store } = await shopify(t)
  t.teardown(() => {
    fake.rewrite = null
  })
  /** Answers with this text instead of another. */
  const instead = (from: string, to: string) => {
    fake.rewrite = (_, body) => JSON.parse(JSON.stringify(body).replaceAll(from, () => to)) as unknown
  }

  t.test('comes page by page, variants too', async t => {
    for (let index = 0; index < 45; index++)
      fake.shop.addProduct(`Card ${index}`, [
        ['Small', 100 + index, 1],
        ['Large', 200 + index, 1]
      ])
    fake.shop.addProduct(
      'Paint',
      Array.from({ length: 130 }, (_, index) => [`Colour ${index}`, 500, 1] as const)
    )
    const { products } = await platform.catalog(store)
    t.equal(products.length, 49)
    t.equal(new Set(products.map(({ productId }) => productId)).size, 49)
    t.equal(fake.count('CatalogPage'), 3)
    const paint = products.find(({ title }) => title === 'Paint')
    t.equal(new Set(paint?.variants.map(({ variantId }) => variantId)).size, 130)
    t.equal(fake.count('VariantsPage'), 2)
    fake.shop.products.splice(5)
  })

  t.test('leaves out gift cards and what is sold by subscription only', async t => {
    fake.shop.addProduct('Gift card', [['10 $', 1000, 1]]).isGiftCard = true
    fake.shop.addProduct('Box', [['Monthly', 1000, 1]]).requiresSellingPlan = true
    t.equal((await platform.catalog(store)).products.length, 3)
    fake.shop.products.splice(5)
  })

  t.test('holds to what a product says of itself, whatever the search makes of it', async t => {
    instead('"status":"ACTIVE"', '"status":"ARCHIVED"')
    t.same((await platform.catalog(store)).products, [])
  })

  t.test('of a shop that does not count in dollars is refused', async t => {
    fake.rewrite = null
    fake.shop.currency = 'EUR'
    const refused = await faultOf(platform.catalog(store))
    t.equal(refused.fault, 'refused')
    t.match(refused.message, /EUR/)
    t.equal((await platform.shopInfo(store)).currency, 'EUR', 'which is announced before')
    fake.shop.currency = 'USD'
  })

  t.test('is not read where a price is not exact to the cent, negative, or no decimal text', async t => {
    for (const price of [
      '"12.995"',
      '"-1.00"',
      '12.99',
      '"12,99"',
      '"NaN"',
      'null',
      '"1e400"',
      '"99999999999999999.00"'
    ]) {
      instead('"12.99"', price)
      const unread = await faultOf(platform.catalog(store))
      t.equal(unread.fault, 'away', price)
      t.match(unread.message, /price/, price)
    }
    for (const price of ['"12.990"', '"12.9900"', '"12.99"']) {
      instead('"12.99"', price)
      t.equal((await platform.catalog(store)).products[1]?.variants[0]?.priceCents, 1299, price)
    }
    instead('"12.99"', '"13"')
    t.equal((await platform.catalog(store)).products[1]?.variants[0]?.priceCents, 1300)
  })

  t.test('that never ends is left', async t => {
    fake.shop.products.splice(0, fake.shop.products.length, ...fake.shop.products.slice(1, 2))
    fake.bucket.maximum = Infinity
    fake.bucket.available = Infinity
    instead('"hasNextPage":false', '"hasNextPage":true')
    t.equal(await fault(platform.catalog(store)), 'away')
  })
})

t.test('the data of a shop', async t => {
  const { fake, platform, store } = await shopify(t)
  t.same(await platform.shopInfo(store), {
    name: 'Example Goods',
    domain: 'example.myshopify.com',
    handle: 'example',
    country: 'US',
    currency: 'USD'
  })
  t.same(
    await platform.shopInfo(legacyStoreOf(fake)),
    await platform.shopInfo(store),
    'with a token that lasts as well'
  )
  fake.shop.country = null
  t.equal((await platform.shopInfo(store)).country, null)
  fake.shop.domain = 'evil.example.com'
  t.equal(await fault(platform.shopInfo(store)), 'away', 'a canonical domain of another kind is not taken over')
})

t.test('a variant is available in the quantity that is left', async t => {
  const { fake, platform, store } = await shopify(t)
  const ruled = fake.shop.variantOf('Notebook', 'Ruled')
  const plain = fake.shop.variantOf('Notebook', 'Plain')
  const black = fake.shop.variantOf('Linen Tote', 'Black')
  const ask = async (...items: ReadonlyArray<readonly [variantId: number, quantity: number]>) => [
    ...(await platform.available(
      store,
      items.map(([variantId, quantity]) => ({ variantId, quantity }))
    ))
  ]
  t.same(await ask([ruled.id, 3], [plain.id, 10]), [ruled.id, plain.id])
  t.same(await ask([ruled.id, 4], [plain.id, 10]), [plain.id])
  t.same(await ask([ruled.id, 2], [ruled.id, 2]), [], 'two lines of one are one')
  t.same(await ask([black.id, 1]), [], 'sold out')
  black.policy = 'CONTINUE'
  t.same(await ask([black.id, 1]), [black.id], 'sold on when nothing is left')
  black.policy = 'DENY'
  black.tracked = false
  t.same(await ask([black.id, 1]), [black.id], 'not counted')
  t.same(
    await ask([12_345, 1], [fake.shop.variantOf('Not yet').id, 1], [fake.shop.variantOf('Over the counter').id, 1]),
    [],
    'unknown, a draft, not published'
  )
  t.same(await ask(), [])
})
