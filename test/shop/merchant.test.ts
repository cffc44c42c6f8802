import { randomBytes } from 'node:crypto'
import t from 'tap'
import { challengeOf, credentialOf, startGateway, type Answer, type TestGateway } from '../support/gateway.ts'

const PATH = '/api/merchant/storefront'
const unique = () => `shop-${randomBytes(4).toString('hex')}`
const US = 'US-CA-94107'
const mug = 10101
const address = {
  firstName: 'Ada',
  lastName: 'B',
  address1: 'C 1',
  city: 'D',
  province: 'CA',
  zip: '94107',
  country: 'US'
}

interface Account {
  readonly id: number
  readonly email: string
  send(method: string, path: string, body?: object): Promise<Answer>
}

async function account(gateway: TestGateway): Promise<Account> {
  const email = `${unique()}@example.com`
  const created = await gateway.adminSend('POST', '/api/admin/merchants', {
    name: 'Shop',
    email,
    primaryApiKey: 'sandbox-account-key'
  })
  const { merchantId, apiKey } = created.json() as { merchantId: number; apiKey: string }
  return {
    id: merchantId,
    email,
    send: (method, path, body) =>
      gateway.send(method, path, { headers: { 'x-api-key': apiKey }, ...(body === undefined ? {} : { body }) })
  }
}

async function opened(gateway: TestGateway, members: object = {}) {
  const merchant = await account(gateway)
  const slug = unique()
  const answer = await merchant.send('POST', PATH, { slug, storefrontDomain: 'books.example.com', ...members })
  if (answer.status !== 201) throw new Error(`${answer.status} ${answer.text}`)
  return { ...merchant, slug }
}

interface Checkout {
  readonly orderId: string
  readonly totalUsd: number
  readonly totalSats: number
  readonly invoice: string
}

/** A checkout of one mug; with `pay` it is paid, and the answer to the credential says where to claim. */
async function checkout(gateway: TestGateway, slug: string, email?: string) {
  const ask = (headers: Readonly<Record<string, string>> = {}) =>
    gateway.send('POST', `/api/storefront/${slug}/checkout`, {
      headers: { 'x-buyer-location': US, ...headers },
      body: { items: [{ variantId: mug, quantity: 1 }], ...(email === undefined ? {} : { email }) }
    })
  const answer = await ask()
  if (answer.status !== 402) throw new Error(`${answer.status} ${answer.text}`)
  const made = answer.json() as Checkout
  return {
    ...made,
    pay: async () => {
      const paid = await ask({
        authorization: credentialOf(challengeOf(answer, 'l402'), await gateway.pay(made.invoice))
      })
      const { claimPageUrl } = paid.json() as { claimPageUrl: string }
      return new URL(claimPageUrl).searchParams.get('claimToken') ?? ''
    }
  }
}

function claim(gateway: TestGateway, slug: string, claimToken: string): Promise<Answer> {
  return gateway.send('POST', `/api/storefront/${slug}/claim`, {
    body: { claimToken, email: 'buyer@example.com', shippingAddress: address }
  })
}

t.test('the merchant side of the shop', async t => {
  const gateway = await startGateway(t)

  await t.test(
    'GET /api/merchant/storefront: integration configuration (admin token never returned, only hasAdminApiToken); 404 with none (decision 143)',
    async t => {
      const merchant = await account(gateway)
      const none = await merchant.send('GET', PATH)
      t.equal(none.status, 404)
      t.same(none.json(), {
        error: 'Store not found',
        message: 'There is no store yet; POST /api/merchant/storefront opens one.'
      })
      const slug = unique()
      const created = await merchant.send('POST', PATH, {
        slug,
        storefrontDomain: 'Books.Example.com',
        clientId: 'client-1',
        clientSecret: 'very-secret-1'
      })
      t.equal(created.status, 201, created.text)
      t.equal(created.headers['location'], PATH)
      const view = created.json() as Record<string, unknown>
      t.same(view, {
        slug,
        storefrontDomain: 'books.example.com',
        shopHandle: 'books',
        shopName: 'Sandbox shop',
        shopCountry: 'US',
        hasAdminApiToken: true,
        domesticShippingUsd: 0,
        domesticOnly: false,
        freeShippingEnabled: false,
        freeShippingThresholdUsd: null,
        defaultTaxLocation: null,
        claimWindowDays: 30,
        isActive: true,
        listInRegistry: false,
        registryCategories: null,
        registryDescription: null,
        createdAt: view['createdAt'],
        updatedAt: view['createdAt']
      })
      t.match(view['createdAt'], /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      const read = await merchant.send('GET', PATH)
      t.same(read.json(), view)
      const changed = await merchant.send('PUT', PATH, { adminApiToken: 'very-secret-2' })
      for (const answer of [created, read, changed])
        t.notOk(/very-secret|client-1|v1\./.test(answer.text), 'no credential, sealed or not')
    }
  )

  await t.test(
    'POST /api/merchant/storefront: every setting is taken and shown (decisions 141, 143 and 145)',
    async t => {
      const merchant = await account(gateway)
      const settings = {
        domesticShippingUsd: 4.99,
        domesticOnly: true,
        freeShippingEnabled: true,
        freeShippingThresholdUsd: 49.95,
        defaultTaxLocation: 'US-CA-94107-1234',
        claimWindowDays: 7,
        isActive: false,
        listInRegistry: true,
        registryCategories: '["books","music"]',
        registryDescription: 'Books & music'
      }
      const answer = await merchant.send('POST', PATH, {
        slug: unique(),
        storefrontDomain: 'books.example.com',
        ...settings
      })
      t.equal(answer.status, 201, answer.text)
      t.match(answer.json(), { ...settings, hasAdminApiToken: false })
      t.match(answer.text, /"domesticShippingUsd":4\.99,/, 'a number in plain notation')
    }
  )

  await t.test('POST /api/merchant/storefront: what is not right is 400, and says where', async t => {
    const merchant = await account(gateway)
    const good = { slug: 'books', storefrontDomain: 'books.example.com' }
    const slugs = ['ab', '-books', 'Books', 'bücher', 'a'.repeat(64)].map(
      slug => [{ slug }, 'Slug', /small letters|at most 63/] as const
    )
    const hosts = ['books', 'https://books.example.com', 'books.example.com:443', '10.0.0.1', 'a.example.com.'].map(
      storefrontDomain => [{ storefrontDomain }, 'StorefrontDomain', /host name/] as const
    )
    const rows: ReadonlyArray<readonly [object, string, unknown]> = [
      ...slugs,
      ...hosts,
      [{ domesticShippingUsd: 1.005 }, 'DomesticShippingUsd', 'Must have at most 2 decimal places.'],
      [{ freeShippingThresholdUsd: 0.001 }, 'FreeShippingThresholdUsd', 'Must have at most 2 decimal places.'],
      [{ domesticShippingUsd: -0.01 }, 'DomesticShippingUsd', 'Must be at least 0.'],
      [{ claimWindowDays: 0 }, 'ClaimWindowDays', 'Must be at least 1.'],
      [{ claimWindowDays: 366 }, 'ClaimWindowDays', 'Must be at most 365.'],
      [{ defaultTaxLocation: 'California' }, 'DefaultTaxLocation', /country-state-zip/],
      [{ defaultTaxLocation: 'USA-CA-94107' }, 'DefaultTaxLocation', /country-state-zip/],
      [{ registryCategories: '{"a":1}' }, 'RegistryCategories', /JSON array/],
      [{ clientId: 'a' }, 'ClientSecret', 'Must be given together with clientId.'],
      [{ clientSecret: 'a' }, 'ClientId', 'Must be given together with clientSecret.'],
      [
        { clientId: 'a', clientSecret: 'b', adminApiToken: 'c' },
        'AdminApiToken',
        'Must be left out where clientId and clientSecret are given.'
      ],
      [{ adminApiToken: 'a b' }, 'AdminApiToken', 'Must be printable ASCII without spaces.']
    ]
    for (const [members, field, message] of rows) {
      const answer = await merchant.send('POST', PATH, { ...good, ...members })
      t.equal(answer.status, 400, JSON.stringify(members))
      t.match(
        (answer.json() as { errors?: Record<string, string[]> }).errors?.[field]?.[0],
        message,
        `${field}: ${answer.text}`
      )
    }
    t.equal((await merchant.send('GET', PATH)).status, 404, 'and nothing was opened')
  })

  await t.test(
    'POST /api/merchant/storefront: shop currency must be USD, checked on create (decision 142); bad credentials and an unknown shop are 400, a silent platform 502 with its status',
    async t => {
      const merchant = await account(gateway)
      const rows = [
        [
          { storefrontDomain: 'euro.example.com' },
          400,
          {
            error: 'Unsupported currency',
            message: "The shop's currency is EUR; only shops that sell in USD can be opened."
          }
        ],
        [
          { adminApiToken: 'sandbox-invalid' },
          400,
          { error: 'Store credentials refused', message: 'The shop does not accept these credentials.' }
        ],
        [
          { storefrontDomain: 'unknown.example.com' },
          400,
          { error: 'Store not found at the platform', message: 'There is no shop at unknown.example.com.' }
        ],
        [
          { storefrontDomain: 'away.example.com' },
          502,
          {
            error: 'No shop info from the platform',
            message: 'The shop away.example.com does not answer.',
            upstreamStatus: 503
          }
        ]
      ] as const
      for (const [members, status, body] of rows) {
        const answer = await merchant.send('POST', PATH, {
          slug: 'books',
          storefrontDomain: 'books.example.com',
          ...members
        })
        t.equal(answer.status, status, JSON.stringify(members))
        t.same(answer.json(), body)
      }
      t.equal((await merchant.send('GET', PATH)).status, 404, 'and nothing was opened')
    }
  )

  await t.test(
    'PUT /api/merchant/storefront: partial update, only the fields to change; updated integration',
    async t => {
      const merchant = await opened(gateway, {
        domesticShippingUsd: 4.99,
        freeShippingThresholdUsd: 50,
        registryCategories: '[]',
        registryDescription: 'Books'
      })
      const before = (await merchant.send('GET', PATH)).json() as Record<string, unknown>
      for (const body of [
        undefined,
        {},
        { unknown: 1, slug: 'other', storefrontDomain: 'other.example.com', domesticShippingUsd: null }
      ]) {
        const answer = await merchant.send('PUT', PATH, body)
        t.equal(answer.status, 200, answer.text)
        t.same(answer.json(), before, `an empty PUT changes nothing: ${JSON.stringify(body)}`)
      }
      const changed = (
        await merchant.send('PUT', PATH, {
          domesticShippingUsd: 0,
          isActive: false,
          freeShippingThresholdUsd: null,
          listInRegistry: true,
          registryCategories: null,
          registryDescription: null
        })
      ).json() as Record<string, unknown>
      t.same(changed, {
        ...before,
        domesticShippingUsd: 0,
        isActive: false,
        freeShippingThresholdUsd: null,
        listInRegistry: true,
        registryCategories: null,
        registryDescription: null,
        updatedAt: changed['updatedAt']
      })
      t.same((await merchant.send('GET', PATH)).json(), changed)
      const refused = await merchant.send('PUT', PATH, { domesticOnly: true, domesticShippingUsd: 0.001 })
      t.equal(refused.status, 400)
      const credentials = await merchant.send('PUT', PATH, { domesticOnly: true, adminApiToken: 'sandbox-invalid' })
      t.equal(credentials.status, 400)
      t.match(credentials.json(), { error: 'Store credentials refused' })
      t.same((await merchant.send('GET', PATH)).json(), changed, 'all of it or nothing')
      t.equal((await (await account(gateway)).send('PUT', PATH, { isActive: true })).status, 404)
    }
  )

  await t.test(
    '404 if integration unknown or inactive: buyers see a store as soon as it is active, and no longer',
    async t => {
      const merchant = await opened(gateway, { domesticShippingUsd: 4.99 })
      const catalog = () => gateway.send('GET', `/api/storefront/${merchant.slug}/catalog`)
      t.match((await catalog()).json(), {
        slug: merchant.slug,
        shipping: { domesticUsd: 4.99, domesticOnly: false, freeShippingEnabled: false, freeShippingThresholdUsd: null }
      })
      await merchant.send('PUT', PATH, { isActive: false })
      t.equal((await catalog()).status, 404)
      await merchant.send('PUT', PATH, {
        isActive: true,
        domesticOnly: true,
        freeShippingEnabled: true,
        freeShippingThresholdUsd: 50.5
      })
      t.match((await catalog()).json(), {
        shipping: { domesticUsd: 4.99, domesticOnly: true, freeShippingEnabled: true, freeShippingThresholdUsd: 50.5 }
      })
    }
  )

  await t.test('POST /api/merchant/storefront/invalidate-cache: {success, message} (decision 144)', async t => {
    const merchant = await opened(gateway)
    const answer = await merchant.send('POST', `${PATH}/invalidate-cache`)
    t.equal(answer.status, 200)
    t.same(answer.json(), {
      success: true,
      message: `The catalog of ${merchant.slug} is read from the platform with the next request.`
    })
    t.equal((await (await account(gateway)).send('POST', `${PATH}/invalidate-cache`)).status, 404)
  })

  await t.test('POST /api/merchant/storefront/refresh-shop-info: updated integration', async t => {
    const refresh = (merchant: Account) => merchant.send('POST', `${PATH}/refresh-shop-info`)
    const merchant = await opened(gateway, { adminApiToken: 'sandbox-token' })
    await gateway.database
      .sql`update storefronts set shop_handle = null, shop_name = null, shop_country = null where slug = ${merchant.slug}`
    const refreshed = await refresh(merchant)
    t.equal(refreshed.status, 200)
    t.match(refreshed.json(), {
      storefrontDomain: 'books.example.com',
      shopHandle: 'books',
      shopName: 'Sandbox shop',
      shopCountry: 'US'
    })
  })

  await t.test(
    'GET /api/merchant/storefront/orders and stats: members of the contract, pages and status, scoped to the merchant (decision 149)',
    async t => {
      const merchant = await opened(gateway, { domesticShippingUsd: 4.99 })
      const get = async (path: string) => (await merchant.send('GET', `${PATH}/${path}`)).json()
      const zero = {
        totalCheckouts: 0,
        paidOrders: 0,
        conversionRate: 0,
        totalPaidSats: 0,
        totalPaidUsd: 0,
        fulfilled: 0,
        shipped: 0,
        firstOrderAt: null,
        lastOrderAt: null
      }
      t.same(await get('orders'), [])
      t.same(await get('stats'), {
        merchantId: merchant.id,
        total: { totalIntegrations: 1, ...zero },
        byStore: [{ slug: merchant.slug, storefrontDomain: 'books.example.com', ...zero }]
      })

      const first = await checkout(gateway, merchant.slug)
      const second = await checkout(gateway, merchant.slug, 'buyer@example.com')
      const third = await checkout(gateway, merchant.slug)
      await second.pay()
      t.equal((await claim(gateway, merchant.slug, await third.pay())).status, 200)

      const list = (await get('orders')) as Array<Record<string, unknown>>
      const seen = ({ orderId, totalUsd }: Checkout, members: object) => ({
        orderId,
        status: 'PendingPayment',
        totalUsd,
        paidSats: null,
        email: null,
        storefrontOrderNumber: null,
        ...members
      })
      t.same(
        list.map(({ createdAt: _createdAt, ...rest }) => rest),
        [
          seen(third, {
            status: 'PaidWithDetails',
            paidSats: third.totalSats,
            email: list[0]?.['email'],
            storefrontOrderNumber: list[0]?.['storefrontOrderNumber']
          }),
          seen(second, { status: 'PaidAwaitingDetails', paidSats: second.totalSats, email: 'buyer@example.com' }),
          seen(first, {})
        ],
        'newest first'
      )
      t.match(list[0]?.['storefrontOrderNumber'], /^#\d+$/)
      for (const { createdAt } of list) t.match(createdAt, /Z$/)

      const ids = async (query: string) =>
        ((await get(`orders?${query}`)) as Array<{ orderId: string }>).map(({ orderId }) => orderId)
      const [a, b, c] = [first, second, third].map(({ orderId }) => orderId)
      for (const [query, expected] of [
        ['status=PendingPayment', [a]],
        ['status=PaidAwaitingDetails', [b]],
        ['status=PaidWithDetails', [c]],
        ['status=Fulfilled', []],
        ['status=Shipped', []],
        ['pageSize=2', [c, b]],
        ['pageSize=2&page=2', [a]],
        ['pageSize=2&page=3', []],
        ['page=0', [c, b, a]],
        ['page=-5&pageSize=0', [c]],
        ['pageSize=100000', [c, b, a]],
        ['page=99999999999999999999', []]
      ] as const)
        t.same(await ids(query), expected, query)
      const unknown = await merchant.send('GET', `${PATH}/orders?status=paid`)
      t.equal(unknown.status, 400)
      t.match((unknown.json() as { errors: object }).errors, {
        Status: ['Must be one of: PendingPayment, PaidAwaitingDetails, PaidWithDetails, Fulfilled, Shipped.']
      })

      const counted = {
        totalCheckouts: 3,
        paidOrders: 2,
        conversionRate: 0.6667,
        totalPaidSats: second.totalSats + third.totalSats,
        totalPaidUsd: (Math.round(second.totalUsd * 100) + Math.round(third.totalUsd * 100)) / 100,
        fulfilled: 0,
        shipped: 0,
        firstOrderAt: list[2]?.['createdAt'],
        lastOrderAt: list[0]?.['createdAt']
      }
      t.same(await get('stats'), {
        merchantId: merchant.id,
        total: { totalIntegrations: 1, ...counted },
        byStore: [{ slug: merchant.slug, storefrontDomain: 'books.example.com', ...counted }]
      })

      const other = await account(gateway)
      t.same((await other.send('GET', `${PATH}/orders`)).json(), [], 'another merchant has no part in it')
      t.same((await other.send('GET', `${PATH}/stats`)).json(), {
        merchantId: other.id,
        total: { totalIntegrations: 0, ...zero },
        byStore: []
      })
    }
  )

  await t.test('page (default 1), pageSize (default 20)', async t => {
    const merchant = await opened(gateway)
    // Paid, because of open invoices one client has only so many.
    for (let made = 0; made < 21; made++) await gateway.pay((await checkout(gateway, merchant.slug)).invoice)
    t.equal(((await merchant.send('GET', `${PATH}/orders`)).json() as unknown[]).length, 20)
    t.equal(((await merchant.send('GET', `${PATH}/orders?page=2`)).json() as unknown[]).length, 1)
  })

  await t.test(
    'PaidAwaitingDetails | claim POST, storefront order creation fails | PaidAwaitingDetails | payment stays recorded; retry via admin (decision 146)',
    async t => {
      const merchant = await opened(gateway)
      const retry = (orderId: string) => gateway.adminSend('POST', `/api/admin/storefront/orders/${orderId}/retry`)
      const placed = async (domain: string) => {
        await gateway.database.sql`update storefronts set storefront_domain = ${domain} where slug = ${merchant.slug}`
      }
      for (const orderId of ['nothing', '00000000-0000-4000-8000-000000000000'])
        t.equal((await retry(orderId)).status, 404, orderId)
      const order = await checkout(gateway, merchant.slug)
      t.equal((await retry(order.orderId)).status, 400, 'not paid')
      const claimToken = await order.pay()
      t.equal((await retry(order.orderId)).status, 400, 'it is unclaimed')

      // A shop that surely did nothing; after one that did not answer, the order would first have to be looked for.
      await placed('unknown.example.com')
      const failed = await claim(gateway, merchant.slug, claimToken)
      t.equal(failed.status, 502, failed.text)
      const again = await retry(order.orderId)
      t.equal(again.status, 502, again.text)
      t.match(again.json(), { error: String, message: String })
      t.match((await merchant.send('GET', `${PATH}/orders`)).json(), [
        { orderId: order.orderId, status: /^PaidAwaitingDetails$/, paidSats: order.totalSats }
      ])

      await placed('books.example.com')
      const created = await retry(order.orderId)
      t.equal(created.status, 200, created.text)
      const view = created.json() as Record<string, unknown>
      t.same(Object.keys(view), [
        'orderId',
        'status',
        'totalUsd',
        'paidSats',
        'email',
        'storefrontOrderNumber',
        'trackingNumber',
        'trackingCarrier',
        'trackingUrl',
        'createdAt',
        'paidAt',
        'shippedAt'
      ])
      t.match(view, {
        orderId: order.orderId,
        status: /^PaidWithDetails$/,
        totalUsd: order.totalUsd,
        paidSats: order.totalSats,
        storefrontOrderNumber: /^#\d+$/,
        trackingNumber: null,
        trackingCarrier: null,
        trackingUrl: null,
        shippedAt: null,
        paidAt: /Z$/
      })
      t.notOk(created.text.includes(claimToken), 'it opens nothing')
      t.equal((await retry(order.orderId)).status, 400, 'it was made')
      t.equal((await claim(gateway, merchant.slug, claimToken)).status, 400, 'and the token is used up')
      const [count] = await gateway.database.sql<
        { made: number }[]
      >`select count(*)::int as made from sandbox_shop_orders where source_identifier = ${order.orderId}`
      t.equal(count?.made, 1, 'one order')
    }
  )
})
