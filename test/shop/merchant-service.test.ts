import { randomBytes } from 'node:crypto'
import t from 'tap'
import { silentLog } from '../../src/platform/telemetry/log.ts'
import { Catalogs } from '../../src/shop/catalogs.ts'
import { IntegrationStore } from '../../src/shop/stores/integration-store.ts'
import { integrationView, type IntegrationInput } from '../../src/shop/stores/integration-schema.ts'
import { Storefronts } from '../../src/shop/stores/integrations.ts'
import { openFirstStore } from '../../src/shop/open.ts'
import { StorePlatformError, type ShopInfo } from '../../src/shop/platform.ts'
import { openSandboxShop } from '../../src/shop/sandbox/sandbox.ts'
import { centsOf, usd } from '../../src/shop/schema.ts'
import { openStores } from './merchant-fixture.ts'

const unique = () => `shop-${randomBytes(4).toString('hex')}`
/** Without credentials. */
const bare = (members: Partial<IntegrationInput> = {}) => ({
  slug: unique(),
  storefrontDomain: 'Shop.Example.com',
  ...members
})
const anInput = (members: Partial<IntegrationInput> = {}) => bare({ adminApiToken: 'shpat_secret', ...members })
const pair = { clientId: 'client', clientSecret: 'shpss_secret' }
const info: ShopInfo = { name: 'Books', domain: 'books.myshopify.com', handle: 'books', country: 'DE', currency: 'USD' }

t.test("merchants' stores", async t => {
  const f = await openStores(t)
  const { storefronts, platform, clock } = f
  t.beforeEach(() => {
    platform.next = null
    platform.asked.length = 0
    platform.subscribed.length = 0
  })

  await t.test('create: credentials are kept sealed for their row, and open as they were given', async t => {
    const made = await storefronts.create(await f.merchant(), anInput())
    const [row] = await f.database.sql<
      { text: string }[]
    >`select row_to_json(storefronts)::text as text from storefronts where id = ${made.id}`
    t.notOk(row?.text.includes('shpat_secret'))
    t.notOk(JSON.stringify(integrationView(made)).includes('shpat'))
    t.equal(storefronts.access(made).adminApiToken?.reveal(), 'shpat_secret')
    const other = await storefronts.create(await f.merchant(), bare(pair))
    t.match(storefronts.access(other), { clientId: 'client', adminApiToken: null })
    t.equal(storefronts.access(other).clientSecret?.reveal(), 'shpss_secret')
    t.throws(
      () =>
        storefronts.access({
          ...other,
          clientSecret:
            made.adminApiToken === null
              ? null
              : { ...made.adminApiToken, place: { ...made.adminApiToken.place, row: String(other.id) } }
        }),
      { name: 'StorePlatformError', fault: 'credentials', cause: { name: 'UnsealError' } }
    )
  })

  await t.test('create: one store for each merchant and one merchant for each slug, also concurrently', async t => {
    const merchantId = await f.merchant()
    const slug = unique()
    const made = await Promise.allSettled([1, 2, 3, 4].map(() => storefronts.create(merchantId, anInput())))
    t.same(made.map(one => one.status).sort(), ['fulfilled', 'rejected', 'rejected', 'rejected'])
    for (const one of made) if (one.status === 'rejected') t.match(one.reason, { status: 409, error: 'Store exists' })
    const others = await Promise.all([f.merchant(), f.merchant(), f.merchant()])
    const taken = await Promise.allSettled(others.map(id => storefronts.create(id, anInput({ slug }))))
    t.same(taken.map(one => one.status).sort(), ['fulfilled', 'rejected', 'rejected'])
    for (const one of taken) if (one.status === 'rejected') t.match(one.reason, { status: 409, error: 'Slug taken' })
    platform.asked.length = 0
    await t.rejects(storefronts.create(merchantId, anInput()), { status: 409, error: 'Store exists' })
    await t.rejects(storefronts.create(await f.merchant(), anInput({ slug })), { status: 409, error: 'Slug taken' })
    t.equal(platform.asked.length, 0, 'the platform is not called for nothing')
  })

  await t.test("create: a request that is sent twice returns its own store, not another merchant's", async t => {
    const merchantId = await f.merchant()
    const input = anInput()
    let first: Promise<unknown> | null = null
    class Overtaken extends IntegrationStore {
      override async ofMerchant(id: number) {
        const found = await super.ofMerchant(id)
        await (first ??= storefronts.create(merchantId, input))
        return found
      }
    }
    const second = new Storefronts({
      ...partsOf(f),
      platform: platform.platform,
      store: new Overtaken(f.database)
    })
    await t.rejects(second.create(merchantId, input), { status: 409, error: 'Store exists' })
  })

  await t.test('create: a shop that is not the sandbox needs credentials', async t => {
    await t.rejects(storefronts.create(await f.merchant(), bare()), {
      status: 400,
      error: 'Store credentials required'
    })
    t.equal(platform.asked.length, 0)
  })

  await t.test('create: a private host is refused before it is called', async t => {
    const merchantId = await f.merchant()
    for (const storefrontDomain of ['shop.internal', 'a.local', 'metadata.google.internal']) {
      await t.rejects(
        storefronts.create(merchantId, anInput({ storefrontDomain })),
        { errors: { StorefrontDomain: ['The host name is one of a private network.'] } },
        storefrontDomain
      )
    }
    t.equal(platform.asked.length, 0)
  })

  await t.test('money is whole cents, exactly', async t => {
    const merchantId = await f.merchant()
    for (const [dollars, cents] of [
      [0, 0],
      [4.9, 490],
      [0.07, 7],
      [1.15, 115],
      [19.99, 1999],
      [1_000_000, 100_000_000],
      [8.2e1, 8200],
      [1.001, null],
      [0.1 + 0.2, null],
      [1e-3, null]
    ] as const) {
      t.equal(centsOf(dollars), cents, String(dollars))
    }
    for (const [cents, text] of [
      [0, '0'],
      [7, '0.07'],
      [490, '4.9'],
      [1999, '19.99'],
      [100_000_000, '1000000']
    ] as const)
      t.equal(JSON.stringify(usd(cents)), text)
    const made = await storefronts.create(
      merchantId,
      anInput({ domesticShippingUsd: 4.9, freeShippingThresholdUsd: 50, freeShippingEnabled: true, domesticOnly: true })
    )
    t.same(made.shipping, { domesticCents: 490, freeThresholdCents: 5000, freeEnabled: true, domesticOnly: true })
  })

  await t.test('update: two concurrent ones both hold', async t => {
    const merchantId = await f.merchant()
    await storefronts.create(merchantId, anInput())
    await Promise.all([
      storefronts.update(merchantId, { domesticOnly: true }),
      storefronts.update(merchantId, { domesticShippingUsd: 3 }),
      storefronts.update(merchantId, { claimWindowDays: 7 })
    ])
    t.match(await storefronts.ofMerchant(merchantId), {
      shipping: { domesticOnly: true, domesticCents: 300 },
      claimWindowDays: 7
    })
  })

  await t.test('update: credentials are tried first, and one form takes the place of the other', async t => {
    const merchantId = await f.merchant()
    const made = await storefronts.create(merchantId, anInput())
    platform.next = new StorePlatformError('credentials', 'Not these.', { upstreamStatus: 401 })
    await t.rejects(storefronts.update(merchantId, { ...pair, domesticOnly: true }), {
      status: 400,
      error: 'Store credentials refused'
    })
    platform.next = new StorePlatformError('away', 'No answer.', { upstreamStatus: 500 })
    await t.rejects(storefronts.update(merchantId, { ...pair, domesticOnly: true }), {
      status: 502,
      more: { upstreamStatus: 500 }
    })
    t.same(await storefronts.ofMerchant(merchantId), made, 'all of it or nothing')
    platform.next = null
    const changed = await storefronts.update(merchantId, pair)
    t.match(storefronts.access(changed), { clientId: 'client', adminApiToken: null, domain: made.storefrontDomain })
    t.equal(platform.asked.at(-1)?.clientSecret?.reveal(), 'shpss_secret')
    t.equal(
      storefronts.access(await storefronts.update(merchantId, { clientSecret: 'rotated' })).clientSecret?.reveal(),
      'rotated',
      'the id stays'
    )
    t.match(storefronts.access(await storefronts.update(merchantId, { adminApiToken: 'shpat_other' })), {
      clientId: null,
      clientSecret: null
    })
    await t.rejects(storefronts.update(merchantId, { clientSecret: 'a' }), {
      errors: { ClientId: ['Must be given together with clientSecret.'] }
    })
  })

  await t.test(
    'the platform is asked for notifications after create and new credentials, again until it takes it',
    async t => {
      await f.runJobs()
      platform.subscribed.length = 0
      const merchantId = await f.merchant()
      const made = await storefronts.create(merchantId, bare(pair))
      platform.next = new StorePlatformError('away', 'No answer.')
      await t.rejects(f.runJobs(), { fault: 'away' }, 'the queue tries a job that throws again')
      platform.next = null
      await storefronts.update(merchantId, { clientSecret: 'rotated' })
      t.equal(await f.runJobs(), 1)
      t.same(platform.subscribed, [
        { storefrontId: made.id, address: `https://pay.example.com/api/webhooks/storefront/${made.slug}` }
      ])
      await storefronts.update(merchantId, { isActive: false })
      await storefronts.invalidateCatalog(merchantId)
      t.equal(await f.runJobs(), 0, "nothing else is the platform's affair")
      await storefronts.update(merchantId, { adminApiToken: 'shpat_token' })
      t.equal(await f.runJobs(), 1)
      t.equal(platform.subscribed.length, 1, 'without a secret nothing could tell a notification from a forged one')
    }
  )

  await t.test(
    'refresh-shop-info: canonical domain and handle from the platform; 400 without credentials, 502 when it says nothing',
    async t => {
      const merchantId = await f.merchant()
      await t.rejects(storefronts.refreshShopInfo(merchantId), { status: 404 })
      const made = await storefronts.create(merchantId, anInput())
      platform.next = { ...info, domain: 'Books.myshopify.com' }
      const refreshed = await storefronts.refreshShopInfo(merchantId)
      t.same(refreshed, {
        ...made,
        storefrontDomain: 'books.myshopify.com',
        shopHandle: 'books',
        shopName: 'Books',
        shopCountry: 'DE',
        updatedAt: refreshed.updatedAt
      })
      for (const [fault, upstreamStatus] of [
        ['credentials', 401],
        ['shop', 404],
        ['away', null],
        ['throttled', 429],
        ['refused', 200]
      ] as const) {
        platform.next = new StorePlatformError(fault, 'Nothing.', { upstreamStatus })
        await t.rejects(
          storefronts.refreshShopInfo(merchantId),
          { status: 502, error: 'No shop info from the platform', more: { upstreamStatus } },
          fault
        )
      }
      platform.next = { ...info, currency: 'EUR' }
      await t.rejects(storefronts.refreshShopInfo(merchantId), { status: 400, error: 'Unsupported currency' })
      t.same(await storefronts.ofMerchant(merchantId), refreshed)
      await f.database.sql`update storefronts set admin_api_token = null where id = ${made.id}`
      await t.rejects(storefronts.refreshShopInfo(merchantId), { status: 400, error: 'No access token configured' })
    }
  )

  await t.test(
    'invalidate-cache: the store is another one for every process, though nothing else of it changes',
    async t => {
      const merchantId = await f.merchant()
      await t.rejects(storefronts.invalidateCatalog(merchantId), { status: 404 })
      const made = await storefronts.create(merchantId, anInput())
      let read = 0
      const catalogs = new Catalogs({
        clock,
        log: silentLog,
        stores: storefronts,
        platform: {
          catalog: store => {
            read++
            return platform.platform.catalog(store)
          }
        }
      })
      await catalogs.get(made)
      await catalogs.get(await storefronts.own(merchantId))
      t.equal(read, 1, 'until then it is kept')
      const { updatedAt, ...rest } = await storefronts.invalidateCatalog(merchantId)
      t.ok(updatedAt > made.updatedAt, 'in the same millisecond too')
      t.match(made, rest)
      await catalogs.get(await storefronts.own(merchantId))
      t.equal(read, 2, 'forces catalog refresh on next request')
    }
  )

  await t.test(
    'the sandbox opens without credentials, and a store of another platform counts as inactive for buyers',
    async t => {
      const sandbox = new Storefronts({ ...partsOf(f), platform: openSandboxShop(f) })
      const merchantId = await f.merchant()
      const made = await sandbox.create(merchantId, bare())
      t.match(integrationView(made), { hasAdminApiToken: false })
      t.equal((await sandbox.bySlug(made.slug))?.isActive, true)
      t.equal((await storefronts.bySlug(made.slug))?.isActive, false)
      t.equal((await storefronts.byId(made.id))?.isActive, false)
      t.equal((await storefronts.ofMerchant(merchantId))?.isActive, true, 'its merchant sees it as it is')
    }
  )

  await t.test("the first merchant's store is made once and then left alone", async t => {
    const sandbox = new Storefronts({ ...partsOf(f), platform: openSandboxShop(f) })
    const open = (id: number) => openFirstStore({ ...f, publicUrl: '' }, id, 'demo')
    const merchantId = await f.merchant()
    await open(merchantId)
    const made = await sandbox.own(merchantId)
    t.match(made, { slug: /^demo$/, isActive: true, shopName: 'Sandbox shop' })
    await sandbox.update(merchantId, { isActive: false })
    await open(merchantId)
    t.equal((await sandbox.own(merchantId)).isActive, false)
    const second = await f.merchant()
    await open(second)
    t.equal(await sandbox.ofMerchant(second), null, 'a slug that is taken is taken')
  })
})

function partsOf(f: Awaited<ReturnType<typeof openStores>>) {
  return {
    store: new IntegrationStore(f.database),
    sealer: f.sealer,
    clock: f.clock,
    jobs: null,
    publicUrl: () => 'https://pay.example.com'
  }
}
