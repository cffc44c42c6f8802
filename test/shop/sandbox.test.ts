import { randomBytes } from 'node:crypto'
import t from 'tap'
import type { NewPlatformOrder, StoreAccess } from '../../src/shop/platform.ts'
import { openSandboxShop } from '../../src/shop/sandbox/sandbox.ts'
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

  await t.test('one variant of its catalog cannot be had', async t => {
    const { products } = await shop.catalog(await aStore(f))
    const variants = products.flatMap(product => product.variants)
    t.equal(new Set(variants.map(variant => variant.variantId)).size, variants.length)
    t.same(
      variants.filter(variant => !variant.available).map(variant => variant.variantId),
      [soldOut]
    )
  })

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
    t.same(await Promise.all([tax('US', 'CA'), tax('US', 'AK'), tax('DE', '')]), [217, 150, 0])
    await t.rejects(
      tax('US', 'ZZ'),
      { name: 'StorePlatformError', fault: 'away', upstreamStatus: 503 },
      'the absence of tax can be tried'
    )
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

  await t.test('it needs no secret, and hosts and secrets of its own simulate failures', async t => {
    const store = await aStore(f, { adminApiToken: null })
    t.same(await shop.shopInfo(store), {
      name: 'Sandbox shop',
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
})
