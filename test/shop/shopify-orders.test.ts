import fc from 'fast-check'
import t from 'tap'
import type { BuyerLocation } from '../../src/shop/schema.ts'
import { money, orderTag, taxRate } from '../../src/shop/shopify/orders.ts'
import { fault, faultOf, mugs, shopify } from './shopify-fixture.ts'

t.test('tax', async t => {
  const { fake, platform, store } = await shopify(t)
  const mug = fake.shop.variantOf('Enamel Mug').id
  const ask = (location: BuyerLocation, shippingCents = 500) =>
    platform
      .calculate(store, { items: [{ variantId: mug, quantity: 2 }], location, shippingCents })
      .then(({ taxCents }) => taxCents)
  const newYork = { country: 'US', state: 'NY', zip: '10001-1234' }

  t.test("is the platform's for the buyer's place", async t => {
    t.equal(await ask(newYork), 231)
    t.equal(await ask({ country: 'US', state: 'OR', zip: '97201' }), 0)
    t.equal(await ask({ country: 'DE', state: '', zip: '10115' }), 494)
    t.equal(await ask({ country: 'IE', state: '', zip: '' }), 0)
    const input = fake.seen.at(-1)?.variables.input as { shippingAddress: object } | undefined /* as it was asked */
    t.same(input?.shippingAddress, { countryCode: 'IE' }, 'missing fields are left out')
    fake.shop.taxShipping = true
    t.equal(await ask(newYork), 275, 'shipping is taxed where the shop says so')
    t.equal(await ask(newYork, 0), 231)
    fake.shop.taxShipping = false
  })

  t.test('is named and rated by the platform, each line once, and the lines come to the whole', async t => {
    const { taxCents, tax } = await platform.calculate(store, {
      items: [{ variantId: mug, quantity: 2 }],
      location: newYork,
      shippingCents: 500
    })
    t.same(tax, {
      isIncluded: false,
      lines: [
        { title: 'NY State Tax', rate: '0.04', cents: 104 },
        { title: 'City Tax', rate: '0.04875', cents: 127 }
      ]
    })
    t.equal(taxCents, 231)
    // The platform rounds each line for itself.
    fake.rewrite = (_, body) =>
      JSON.parse(JSON.stringify(body).replace('"amount":"1.27"', '"amount":"1.26"')) as unknown
    const rounded = await platform.calculate(store, {
      items: [{ variantId: mug, quantity: 2 }],
      location: newYork,
      shippingCents: 500
    })
    t.equal(
      rounded.tax.lines.reduce((sum, { cents }) => sum + cents, 0),
      231
    )
    fake.rewrite = (_, body) =>
      JSON.parse(JSON.stringify(body).replace('"amount":"1.27"', '"amount":"9.27"')) as unknown
    t.equal(await fault(ask(newYork)), 'away', 'lines that are far from the whole are not used')
    fake.rewrite = null
  })

  t.test('comes with the prices of now, and with what is shipped', async t => {
    const tote = fake.shop.variantOf('Linen Tote', 'Natural')
    fake.shop.variantOf('Enamel Mug').priceCents = 5000
    tote.requiresShipping = false
    const { lines } = await platform.calculate(store, {
      items: [
        { variantId: mug, quantity: 2 },
        { variantId: tote.id, quantity: 1 }
      ],
      location: newYork,
      shippingCents: 500
    })
    t.same(
      [...lines],
      [
        [mug, { priceCents: 5000, requiresShipping: true }],
        [tote.id, { priceCents: 1850, requiresShipping: false }]
      ]
    )
    fake.rewrite = (_, body) =>
      JSON.parse(JSON.stringify(body).replace('"amount":"50.00"', '"amount":"49.00"')) as unknown
    t.equal(await fault(ask(newYork)), 'away', 'a subtotal that is not the sum of its lines is not used')
    fake.rewrite = null
    fake.shop.variantOf('Enamel Mug').priceCents = 1299
    tote.requiresShipping = true
  })

  t.test('on top is nothing in a shop whose prices include it', async t => {
    fake.shop.taxesIncluded = true
    const { tax, taxCents } = await platform.calculate(store, {
      items: [{ variantId: mug, quantity: 2 }],
      location: newYork,
      shippingCents: 500
    })
    t.match({ tax, taxCents }, { taxCents: 0, tax: { isIncluded: true } })
    t.equal(
      tax.lines.reduce((sum, { cents }) => sum + cents, 0),
      212,
      'and what is within the prices is known'
    )
    fake.shop.taxesIncluded = false
  })

  t.test('is never an estimate: a place or goods that the platform does not take are refused', async t => {
    t.equal(await fault(ask({ country: 'XQ', state: '', zip: '' })), 'refused', 'no country of the schema')
    t.match(await faultOf(ask({ country: 'US', state: 'N1', zip: '' })), {
      fault: 'refused',
      message: /Province is invalid/
    })
    t.equal(
      await fault(
        platform.calculate(store, { items: [{ variantId: 99, quantity: 1 }], location: newYork, shippingCents: 0 })
      ),
      'refused'
    )
    fake.shop.taxWarnings = [
      {
        field: 'marketRegionCountryCode',
        message: 'The region is not supported.',
        errorCode: 'MARKET_REGION_COUNTRY_CODE_NOT_SUPPORTED'
      }
    ]
    t.match(await faultOf(ask(newYork)), { fault: 'refused', message: /not supported/ })
    fake.shop.taxWarnings = []
  })

  t.test("that does not add up with the platform's own total is not used", async t => {
    for (const [from, to] of [
      ['"amount":"33.29"', '"amount":"33.30"'],
      ['"amount":"5.00"', '"amount":"6.00"'],
      ['"amount":"2.31"', '"amount":"2.315"'],
      ['"currencyCode":"USD"', '"currencyCode":"EUR"']
    ] as const) {
      fake.rewrite = (_, body) => JSON.parse(JSON.stringify(body).replaceAll(from, to)) as unknown
      t.match(await fault(ask(newYork)), /^(?:away|refused)$/, to)
    }
    fake.rewrite = null
    t.equal(await ask(newYork), 231)
  })
})

t.test('an order', async t => {
  const { fake, platform, store } = await shopify(t)
  const order = mugs(fake)

  t.test("is made paid, with the buyer's amounts, and takes the goods from the stock", async t => {
    const made = await platform.createOrder(store, order)
    const [held] = fake.shop.orders
    t.same(made, { platformOrderId: `gid://shopify/Order/${held?.id}`, orderNumber: '#1001' })
    const usd = (amount: string) => ({ shopMoney: { amount, currencyCode: 'USD' } })
    t.match(held?.input, {
      currency: 'USD',
      email: 'buyer@example.com',
      sourceIdentifier: order.sourceIdentifier,
      tags: ['boltgate', `bg-${order.sourceIdentifier}`],
      financialStatus: /^PAID$/,
      shippingAddress: { firstName: 'Ada', countryCode: 'US', provinceCode: 'NY', zip: '10001' }
    })
    t.same(held?.input.transactions, [
      { kind: 'SALE', status: 'SUCCESS', gateway: 'Lightning', amountSet: usd('33.29'), test: false }
    ])
    t.match(held?.input.lineItems, [
      {
        variantId: `gid://shopify/ProductVariant/${order.items[0]?.variantId}`,
        quantity: 2,
        priceSet: usd('12.99'),
        requiresShipping: true
      }
    ])
    t.match(held?.input.shippingLines, [{ title: 'Shipping', priceSet: usd('5.00') }])
    t.match(
      held?.input.taxLines,
      [{ title: 'Tax', rate: '0.074564', priceSet: usd('2.31') }],
      "of an order from before the shop's own lines were kept"
    )
    t.match(
      held?.input.customAttributes,
      [
        { key: 'lightning_payment_hash' },
        { key: 'lightning_satoshis', value: '34276' },
        { key: 'tax_worked_out_for', value: 'US-NY-10001' }
      ],
      'the address may be elsewhere'
    )
    t.same(held?.options, {
      inventoryBehaviour: 'DECREMENT_OBEYING_POLICY',
      sendReceipt: true,
      sendFulfillmentReceipt: false
    })
    t.equal(fake.shop.variantOf('Enamel Mug').stock, 23)
  })

  t.test("carries the shop's own tax lines, and goods without shipping as such", async t => {
    const tax = {
      isIncluded: false,
      lines: [
        { title: 'NY State Tax', rate: '0.04', cents: 104 },
        { title: 'City Tax', rate: '0.04875', cents: 127 }
      ]
    }
    await platform.createOrder(store, {
      ...order,
      sourceIdentifier: 'taxed',
      tax,
      items: order.items.map(item => ({ ...item, requiresShipping: false }))
    })
    const held = fake.shop.order('taxed')
    t.match(held?.input.taxLines, [
      { title: 'NY State Tax', rate: '0.04', priceSet: { shopMoney: { amount: '1.04' } } },
      { title: 'City Tax', rate: '0.04875', priceSet: { shopMoney: { amount: '1.27' } } }
    ])
    t.equal(held?.input.taxesIncluded, false)
    t.match(held?.input.lineItems, [{ requiresShipping: false }])
    await platform.createOrder(store, {
      ...order,
      sourceIdentifier: 'included',
      taxCents: 0,
      totalCents: 3098,
      tax: { isIncluded: true, lines: [{ title: 'VAT', rate: '0.19', cents: 495 }] }
    })
    t.match(fake.shop.order('included')?.input, {
      taxesIncluded: true,
      taxLines: [{ title: 'VAT', rate: '0.19', priceSet: { shopMoney: { amount: '4.95' } } }]
    })
    fake.shop.variantOf('Enamel Mug').stock = 23
  })

  t.test('without tax has no tax line; a province by name goes as one', async t => {
    await platform.createOrder(store, {
      ...order,
      sourceIdentifier: 'second',
      taxCents: 0,
      totalCents: 3098,
      shippingAddress: { ...order.shippingAddress, province: 'New York' }
    })
    const held = fake.shop.order('second')
    t.same(held?.input.taxLines, [])
    t.match(held?.input.shippingAddress, { province: 'New York' })
    t.notOk('provinceCode' in (held?.input.shippingAddress ?? {}))
  })

  t.test('whose amounts do not add up is never sent', async t => {
    const before = fake.seen.length
    await t.rejects(platform.createOrder(store, { ...order, totalCents: 3328 }), TypeError)
    await t.rejects(platform.createOrder(store, { ...order, sourceIdentifier: 'a" OR tag:"b' }), TypeError)
    t.equal(fake.seen.length, before)
  })

  t.test('is found before the search knows it, and another one is not taken for it', async t => {
    fake.shop.variantOf('Enamel Mug').stock = 1000
    fake.shop.isSearchBehind = true
    const made = await platform.createOrder(store, { ...order, sourceIdentifier: 'hidden' })
    t.same(await platform.findOrder(store, 'hidden'), made)
    fake.bucket.maximum = Infinity
    for (let index = 0; index < 100; index++)
      await platform.createOrder(store, {
        ...order,
        items: [{ ...order.items[0]!, quantity: 1 }],
        totalCents: 2030,
        sourceIdentifier: `more-${index}`
      })
    fake.shop.index()
    t.same(await platform.findOrder(store, 'hidden'), made, 'by the search, once it is no longer among the newest')
    t.equal(await platform.findOrder(store, 'hidde'), null)
    t.equal(await platform.findOrder(store, 'nobody'), null)
  })
})

t.test('amounts', async t => {
  t.same(
    [0, 5, 99, 100, 123_456].map(cents => money(cents).amount),
    ['0.00', '0.05', '0.99', '1.00', '1234.56']
  )
  for (const wrong of [-1, 1.5, NaN, Infinity, 2 ** 53]) t.throws(() => money(wrong), TypeError)
  fc.assert(
    fc.property(
      fc.maxSafeNat(),
      cents => money(cents).amount === `${BigInt(cents) / 100n}.${String(BigInt(cents) % 100n).padStart(2, '0')}`
    )
  )
  t.same(
    [taxRate(231, 2598), taxRate(1, 3), taxRate(2, 3), taxRate(100, 100), taxRate(1, 10_000_000)],
    ['0.088915', '0.333333', '0.666667', '1.000000', '0.000000']
  )
  t.throws(() => taxRate(1, 0), TypeError)
})

t.test('an order id fits a tag, which holds 40 characters', async t => {
  t.equal(orderTag('0190a5b1-7d3c-7c11-8f5e-3a2b1c0d9e8f').length, 39)
  t.throws(() => orderTag('x'.repeat(38)), TypeError)
})
