import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { IntegrationStore } from '../../src/shop/stores/integration-store.ts'
import type { NewPlatformOrder, StoreAccess } from '../../src/shop/platform.ts'
import { SANDBOX_CATALOG, sandboxRate, taxOf } from '../../src/shop/sandbox/catalog.ts'
import { openSandboxShop, SANDBOX_SIGNATURE, signSandboxNotification } from '../../src/shop/sandbox/sandbox.ts'
import { Secret } from '../../src/platform/keys/secrets.ts'
import { openStores, type StoresFixture } from './merchant-fixture.ts'

const mug = 10101
const soldOut = 10504

async function aStore(f: StoresFixture, members: Partial<StoreAccess> = {}) {
  const { id, storefrontDomain } = await f.storefronts.create(await f.merchant(), {
    slug: `shop-${randomBytes(4).toString('hex')}`,
    storefrontDomain: 'shop.example.com',
    adminApiToken: 'sandbox-token'
  })
  return {
    storefrontId: id,
    domain: storefrontDomain,
    clientId: null,
    clientSecret: null,
    adminApiToken: new Secret('sandbox-token'),
    ...members
  }
}

function anOrder(sourceIdentifier: string, members: Partial<NewPlatformOrder> = {}) {
  return {
    sourceIdentifier,
    email: 'buyer@example.com',
    items: [
      {
        variantId: mug,
        productTitle: 'Coin mug',
        variantTitle: 'Small',
        quantity: 2,
        priceCents: 1250,
        requiresShipping: true
      }
    ],
    shippingAddress: {
      firstName: 'A',
      lastName: 'B',
      address1: 'C 1',
      address2: null,
      city: 'D',
      province: 'CA',
      zip: '94107',
      country: 'US',
      phone: null
    },
    countryCode: 'US',
    location: { country: 'US', state: 'CA', zip: '94107' },
    shippingCents: 490,
    taxCents: 217,
    holdId: null,
    tax: { lines: [], isIncluded: false },
    totalCents: 3207,
    paidSats: 32070,
    paymentHash: 'ab'.repeat(32),
    ...members
  }
}

t.test('the sandbox shop', async t => {
  const f = await openStores(t)
  const shop = openSandboxShop(f)

  await t.test(
    'its catalog has six to eight products with prices in cents, one variant of which cannot be had',
    async t => {
      const { products } = await shop.catalog(await aStore(f))
      t.ok(products.length >= 6 && products.length <= 8)
      const variants = products.flatMap(product => product.variants)
      t.equal(
        new Set(variants.map(variant => variant.variantId)).size,
        variants.length,
        'every variant has an id of its own'
      )
      t.equal(new Set(products.map(product => product.productId)).size, products.length)
      t.ok(variants.every(({ priceCents }) => Number.isSafeInteger(priceCents) && priceCents > 0))
      t.ok(variants.some(({ priceCents }) => priceCents % 100 !== 0))
      t.same(
        variants.filter(variant => !variant.available).map(variant => variant.variantId),
        [soldOut]
      )
      t.ok(products.every(({ imageUrl }) => imageUrl === null || imageUrl.startsWith('https://')))
    }
  )

  await t.test('sold-out and unknown variants are not available', async t => {
    const items = [mug, soldOut, 1].map(variantId => ({ variantId, quantity: 1 }))
    t.same([...(await shop.available(await aStore(f), items))], [mug])
  })

  await t.test("tax follows the buyer's state, on goods and shipping, and is the same each time", async t => {
    const store = await aStore(f)
    const tax = (country: string, state: string) =>
      shop
        .calculate(store, {
          items: [{ variantId: mug, quantity: 2 }],
          location: { country, state, zip: '1' },
          shippingCents: 490
        })
        .then(({ taxCents }) => taxCents)
    // 29.90 dollars: 7.25 % is 2.16775.
    t.same(
      await Promise.all([
        tax('US', 'CA'),
        tax('US', 'CA'),
        tax('US', 'OR'),
        tax('US', 'NY'),
        tax('US', 'AK'),
        tax('CA', 'ON'),
        tax('DE', '')
      ]),
      [217, 217, 0, 266, 150, 389, 0]
    )
    await t.rejects(
      tax('US', 'ZZ'),
      { name: 'StorePlatformError', fault: 'away', upstreamStatus: 503 },
      'the absence of tax can be tried'
    )
  })

  await t.test('tax is exact to the cent, the half cent upwards', async t => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 100_000_000 }), fc.integer({ min: 0, max: 3_000 }), (amount, rate) => {
        t.equal(BigInt(taxOf(amount, rate)), (BigInt(amount) * BigInt(rate) + 5_000n) / 10_000n)
      }),
      { numRuns: 50 }
    )
    t.equal(taxOf(1_000, 5), 1, '0.5 cents')
    t.equal(sandboxRate({ country: 'US', state: 'CA' }), 725)
  })

  await t.test('an order is found by its source identifier, by this shop alone and after a restart', async t => {
    const store = await aStore(f)
    t.equal(await shop.findOrder(store, 'one'), null)
    const made = await shop.createOrder(store, anOrder('one'))
    t.match(made, { platformOrderId: /^sbx_\d+$/, orderNumber: /^#1\d{3}$/ })
    t.same(await openSandboxShop(f).findOrder(store, 'one'), made)
    t.equal(await shop.findOrder(await aStore(f), 'one'), null)
    t.not((await shop.createOrder(store, anOrder('two'))).orderNumber, made.orderNumber)
  })

  await t.test('an order that was requested twice exists twice, as at a real platform', async t => {
    const store = await aStore(f)
    const [first, second] = [
      await shop.createOrder(store, anOrder('same')),
      await shop.createOrder(store, anOrder('same'))
    ]
    t.not(first.platformOrderId, second.platformOrderId)
    t.same(await shop.findOrder(store, 'same'), first)
  })

  await t.test('an order for what cannot be had, or whose amounts do not add up, is refused and not made', async t => {
    const store = await aStore(f)
    const line = { productTitle: 'a', variantTitle: 'b', quantity: 1, priceCents: 2600, requiresShipping: true }
    const refused = [
      anOrder('no', { items: [{ ...line, variantId: soldOut }], totalCents: 2600 + 490 + 217 }),
      anOrder('no', { items: [{ ...line, variantId: 1 }], totalCents: 2600 + 490 + 217 }),
      anOrder('no', { totalCents: 3206 })
    ]
    for (const order of refused)
      await t.rejects(shop.createOrder(store, order), { name: 'StorePlatformError', fault: 'refused' })
    t.equal(await shop.findOrder(store, 'no'), null)
  })

  await t.test('it is fulfilled after a minute and shipped with a tracking number after two', async t => {
    const store = await aStore(f)
    const { platformOrderId } = await shop.createOrder(store, anOrder('goes-on'))
    const made = f.clock.now()
    const now = async () => await shop.fulfilments(store, [platformOrderId, 'sbx_999999999', 'another'])
    const untracked = { number: null, carrier: null, url: null }
    t.same(await now(), [
      { platformOrderId, isFulfilled: false, isShipped: false, isCanceled: false, tracking: untracked, shippedAt: null }
    ])
    f.clock.advance(59_999)
    t.equal((await now())[0]?.isFulfilled, false)
    f.clock.advance(1)
    t.same(await now(), [
      { platformOrderId, isFulfilled: true, isShipped: false, isCanceled: false, tracking: untracked, shippedAt: null }
    ])
    f.clock.advance(60_000)
    const [shipped] = await now()
    t.match(shipped, {
      isFulfilled: true,
      isShipped: true,
      tracking: { number: /^SBX\d{9}$/, carrier: 'Sandbox Post', url: /^https:\/\// },
      shippedAt: made + 120_000
    })
    t.same(await openSandboxShop(f).fulfilments(store, [platformOrderId]), [shipped], 'and stays so')
    t.same(await shop.fulfilments(await aStore(f), [platformOrderId]), [], 'another shop does not know it')
    t.same(await shop.fulfilments(store, []), [])
  })

  await t.test("a notification is believed with the store's own secret only", async t => {
    const store = await aStore(f)
    const body = Buffer.from(
      JSON.stringify({
        platformOrderId: 'sbx_1',
        status: 'shipped',
        trackingNumber: 'T1',
        trackingCarrier: 'Post',
        trackingUrl: 'https://example.com/T1',
        shippedAt: 5
      })
    )
    const signed = (secret: string, bytes: Uint8Array = body) =>
      new Map([[SANDBOX_SIGNATURE, signSandboxNotification(new Secret(secret), bytes)]])
    t.same(shop.readNotification(store, signed('sandbox-token'), body), {
      platformOrderId: 'sbx_1',
      isFulfilled: true,
      isShipped: true,
      isCanceled: false,
      tracking: { number: 'T1', carrier: 'Post', url: 'https://example.com/T1' },
      shippedAt: 5
    })
    const forged: ReadonlyArray<readonly [string, StoreAccess, ReadonlyMap<string, string>, Uint8Array]> = [
      ['another secret', store, signed('sandbox-other'), body],
      ['no signature', store, new Map(), body],
      ['other bytes', store, signed('sandbox-token'), Buffer.from(`${body.toString()} `)],
      ['a store without a secret', { ...store, adminApiToken: null }, signed('sandbox-token'), body]
    ]
    for (const [name, access, headers, bytes] of forged)
      t.throws(() => shop.readNotification(access, headers, bytes), { fault: 'credentials' }, name)
    for (const text of ['{', '[]', 'null', '{"status":"shipped"}']) {
      const bytes = Buffer.from(text)
      t.throws(() => shop.readNotification(store, signed('sandbox-token', bytes), bytes), { fault: 'refused' }, text)
    }
    const other = Buffer.from('{"platformOrderId":"sbx_1","status":"packed"}')
    t.equal(shop.readNotification(store, signed('sandbox-token', other), other), null, 'of no interest')
    const canceled = Buffer.from('{"platformOrderId":"sbx_1","status":"canceled"}')
    t.match(shop.readNotification(store, signed('sandbox-token', canceled), canceled), {
      isFulfilled: false,
      isShipped: false,
      isCanceled: true
    })
  })

  await t.test('it needs no secret, and hosts and secrets of its own simulate failures', async t => {
    const store = await aStore(f, { adminApiToken: null })
    t.same(await shop.shopInfo(store), {
      name: SANDBOX_CATALOG.storeName,
      domain: 'shop.example.com',
      handle: 'shop',
      country: 'US',
      currency: 'USD'
    })
    await t.resolves(shop.subscribe(store, 'https://pay.example.com/x'))
    t.match(await shop.shopInfo({ ...store, domain: 'euro.example.com' }), { currency: 'EUR' })
    const faults: ReadonlyArray<readonly [Partial<StoreAccess>, string, number]> = [
      [{ domain: 'away.example.com' }, 'away', 503],
      [{ domain: 'unknown.example.com' }, 'shop', 404],
      [{ adminApiToken: new Secret('sandbox-invalid') }, 'credentials', 401],
      [{ clientId: 'a', clientSecret: new Secret('sandbox-invalid') }, 'credentials', 401]
    ]
    for (const [members, fault, upstreamStatus] of faults) {
      const access = { ...store, ...members }
      const calls: ReadonlyArray<Promise<unknown>> = [
        shop.shopInfo(access),
        shop.catalog(access),
        shop.createOrder(access, anOrder('x')),
        shop.findOrder(access, 'x'),
        shop.fulfilments(access, ['sbx_1']),
        shop.available(access, [])
      ]
      for (const call of calls) await t.rejects(call, { name: 'StorePlatformError', fault, upstreamStatus }, fault)
    }
  })

  await t.test('while its database is down it is down itself, since what was asked may have been done', async t => {
    const store = await aStore(f)
    const lost = Object.assign(
      () => Promise.reject(Object.assign(new Error('lost'), { code: 'CONNECTION_CLOSED' })),
      f.database.sql
    ) as unknown as typeof f.database.sql /* nothing else of it is asked */
    const away = openSandboxShop({ clock: f.clock, database: { sql: lost } })
    const calls: ReadonlyArray<Promise<unknown>> = [
      away.createOrder(store, anOrder('x')),
      away.findOrder(store, 'x'),
      away.fulfilments(store, ['sbx_1'])
    ]
    for (const call of calls) await t.rejects(call, { name: 'StorePlatformError', fault: 'away', upstreamStatus: null })
  })

  await t.test('its orders go with their store', async t => {
    const store = await aStore(f)
    await shop.createOrder(store, anOrder('gone'))
    await f.database.sql`delete from storefronts where id = ${store.storefrontId}`
    t.equal(await shop.findOrder(store, 'gone'), null)
    t.equal(await new IntegrationStore(f.database).byId(store.storefrontId), null)
  })
})
