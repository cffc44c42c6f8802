import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { silentLog } from '../../src/platform/telemetry/log.ts'
import { Secret } from '../../src/platform/keys/secrets.ts'
import { StorePlatformError } from '../../src/shop/platform.ts'
import { openShopify } from '../../src/shop/shopify/shopify.ts'
import { AddressGuard } from '../../src/engine/upstream/guard.ts'
import { outboundCall, type OutboundResponse, type OutboundRequest } from '../../src/engine/upstream/outbound.ts'
import { startFakeShopify, type ShopifyFault } from '../fakes/shopify.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { fault, faultOf, legacyStoreOf, mugs, shopify, storeOf, TIMEOUT } from './shopify-fixture.ts'

t.test('the token of a day', async t => {
  const { fake, clock, platform, store } = await shopify(t)
  const ask = (): Promise<unknown> => platform.shopInfo(store)

  t.test('is fetched once, however many ask at a time', async t => {
    await Promise.all(Array.from({ length: 20 }, ask))
    t.equal(fake.count('Token'), 1)
    t.equal(fake.count('ShopInfo'), 20)
  })

  t.test('is used until shortly before its end', async t => {
    clock.advance(86_399_000 - 5 * 60_000 - 1)
    await ask()
    t.equal(fake.count('Token'), 1)
    clock.advance(1)
    await ask()
    t.equal(fake.count('Token'), 2)
    t.equal(fake.count('ShopInfo'), 22, 'and no call went out with one that was over')
  })

  t.test('a rejected one is fetched once more, and the call sent again', async t => {
    fake.expireTokens()
    await Promise.all([ask(), ask(), ask()])
    t.equal(fake.count('Token'), 3)
    fake.expireTokens()
    await platform.createOrder(store, mugs(fake))
    t.equal(fake.shop.orders.length, 1)
  })

  t.test('is not fetched a third time for one call', async t => {
    const before = fake.count('Token')
    fake.fail(401, /^ShopInfo$/)
    fake.fail(401, /^ShopInfo$/)
    t.match(await faultOf(ask()), { fault: 'credentials', upstreamStatus: 401 })
    t.equal(fake.count('Token'), before + 1)
    await ask()
  })

  t.test('belongs to the credentials: changed ones get their own', async t => {
    const changed = { ...store, clientSecret: new Secret('another') }
    t.match(await faultOf(platform.shopInfo(changed)), {
      fault: 'credentials',
      upstreamStatus: 400,
      message: /client id and secret/
    })
    fake.clientSecret = 'another'
    await platform.shopInfo(changed)
    await ask()
  })

  t.test('that cannot be fetched fails the call with its own fault', async t => {
    const faults: ReadonlyArray<readonly [ShopifyFault, string]> = [
      [401, 'credentials'],
      [403, 'credentials'],
      [402, 'shop'],
      [404, 'shop'],
      [429, 'throttled'],
      ['server error', 'away'],
      ['html as 200', 'away'],
      ['lost before', 'away'],
      ['empty', 'away'],
      ['null', 'away']
    ]
    fake.expireTokens()
    for (const [spoiled, expected] of faults) {
      fake.expireTokens()
      const fresh = {
        ...store,
        clientSecret: new Secret('another'),
        domain: `shop-${faults.findIndex(([given]) => given === spoiled)}.myshopify.com`
      }
      fake.fail(spoiled, /^Token$/)
      t.equal(await fault(platform.shopInfo(fresh)), expected, String(spoiled))
      await platform.shopInfo(fresh)
    }
  })
})

t.test('a token that lasts is used as it is', async t => {
  const { fake, platform } = await shopify(t)
  const store = legacyStoreOf(fake)
  await platform.shopInfo(store)
  t.equal(fake.count('Token'), 0)
  fake.fail(401)
  t.equal(await fault(platform.shopInfo(store)), 'credentials')
  t.equal(fake.seen.length, 2, 'not tried again')
  t.equal(await fault(platform.shopInfo({ ...store, adminApiToken: new Secret('shpat_\r\nx-evil: 1') })), 'credentials')
  t.equal(await fault(platform.shopInfo({ ...store, adminApiToken: null })), 'credentials')
  t.equal(fake.seen.length, 2, 'nothing was sent')
})

t.test('throttling by cost', async t => {
  const { fake, clock, platform, store } = await shopify(t)
  await platform.shopInfo(store)

  t.test('waits for points that the last answer did not have', async t => {
    fake.bucket.available = 0
    await platform.shopInfo(store).catch(() => {})
    const sent = fake.count('Tax')
    clock.waits.length = 0
    await platform.calculate(store, {
      items: [{ variantId: fake.shop.variantOf('Enamel Mug').id, quantity: 1 }],
      location: { country: 'US', state: 'NY', zip: '' },
      shippingCents: 0
    })
    t.equal(fake.count('Tax'), sent + 1, 'sent once, when they were there')
    t.ok(clock.waits.length > 0 && clock.waits.every(wait => wait <= 6000), String(clock.waits))
  })

  t.test('gives up immediately where they would take longer than a client waits', async t => {
    fake.bucket.restoreRate = 1
    fake.bucket.available = 5
    await platform.shopInfo(store)
    const before = fake.seen.length
    const thrown = await faultOf(platform.catalog(store))
    t.equal(thrown.fault, 'throttled')
    t.ok(thrown.retryAfter > 60, String(thrown.retryAfter))
    t.equal(fake.seen.length, before, 'without asking')
    fake.bucket.restoreRate = 100
    fake.bucket.available = 2000
    clock.advance(3_600_000)
    await platform.shopInfo(store)
  })

  t.test('sends again what was throttled, a few times, since nothing was done', async t => {
    for (let times = 0; times < 3; times++) fake.fail('throttled', /^CreateOrder$/)
    await platform.createOrder(store, mugs(fake))
    t.equal(fake.shop.orders.length, 1)
    t.equal(fake.count('CreateOrder'), 4)
    for (let times = 0; times < 4; times++) fake.fail('throttled', /^CreateOrder$/)
    t.equal(await fault(platform.createOrder(store, mugs(fake, { sourceIdentifier: 'second' }))), 'throttled')
    t.equal(fake.shop.orders.length, 1)
    t.equal(fake.count('CreateOrder'), 8)
  })

  t.test('sends nothing again that has taken long already', async t => {
    const before = fake.count('CreateOrder')
    fake.rewrite = (operation, body) => {
      if (operation !== 'CreateOrder') return body
      clock.advance(TIMEOUT - 1000)
      return { errors: [{ message: 'Throttled', extensions: { code: 'THROTTLED' } }] }
    }
    t.equal(await fault(platform.createOrder(store, mugs(fake, { sourceIdentifier: 'slow' }))), 'throttled')
    t.equal(fake.count('CreateOrder'), before + 2, 'after nine seconds again, after eighteen no longer')
    fake.rewrite = null
  })

  t.test('waits a second after a 429, which does not say how long', async t => {
    clock.waits.length = 0
    fake.fail(429, /^ShopInfo$/)
    await platform.shopInfo(store)
    t.ok(clock.waits.includes(1000))
  })
})

t.test('paid orders wait longer than queries: no number of them keeps an order from being made', async t => {
  const clock = new ManualClock()
  const fake = await startFakeShopify({ clock })
  t.teardown(() => fake.close())
  const send = outboundCall(new AddressGuard({ production: false }))
  let inFlight = 0
  const call = async (request: OutboundRequest): Promise<OutboundResponse> => {
    inFlight++
    try {
      return await send(request)
    } finally {
      inFlight--
    }
  }
  const platform = openShopify({
    call,
    clock,
    log: silentLog,
    config: { url: fake.url, apiVersion: '2026-10', timeout: TIMEOUT }
  })
  const store = storeOf(fake)
  await platform.shopInfo(store)
  fake.bucket.available = 10
  await platform.shopInfo(store)
  const question = {
    items: [{ variantId: fake.shop.variantOf('Enamel Mug').id, quantity: 1 }],
    location: { country: 'US', state: 'NY', zip: '' },
    shippingCents: 0
  }
  const pending = Array.from({ length: 100 }, () =>
    platform.calculate(store, question).then(
      () => 'answered',
      (error: unknown) => (error instanceof StorePlatformError ? error.fault : String(error))
    )
  )
  const order = mugs(fake)
  const over: true[] = []
  const made = Promise.all([
    platform.createOrder(store, order),
    platform.findOrder(store, order.sourceIdentifier),
    ...pending
  ]).finally(() => {
    over.push(true)
  })
  // Awaited below; until then its rejection has a reader.
  made.catch(() => {})
  while (over.length === 0) {
    await setImmediate()
    // Time limits are the clock's too: it is paused while an answer is on its way.
    if (inFlight === 0) clock.advance(100)
  }
  await made
  t.equal(fake.shop.orders.length, 1)
  t.same(
    new Set(await Promise.all(pending)),
    new Set(['answered', 'throttled']),
    'there were more questions than points'
  )
})

t.test('failures', async t => {
  const { fake, clock, platform, store } = await shopify(t)
  await platform.shopInfo(store)
  const faults: ReadonlyArray<readonly [ShopifyFault, string, number | null]> = [
    [402, 'shop', 402],
    [403, 'credentials', 403],
    [404, 'shop', 404],
    [422, 'refused', 422],
    ['redirect', 'shop', 301],
    ['server error', 'away', 500],
    ['html', 'away', 502],
    ['html as 200', 'away', 200],
    ['empty', 'away', 200],
    ['null', 'away', 200],
    ['no data', 'away', 200],
    ['huge', 'away', 200],
    ['cut after', 'away', 200],
    ['lost before', 'away', null],
    ['lost after', 'away', null],
    ['internal error', 'away', 200],
    ['access denied', 'credentials', 200],
    ['shop inactive', 'shop', 200]
  ]
  for (const [spoiled, expected, status] of faults) {
    t.test(`${spoiled} is ${expected}`, async t => {
      const before = fake.count('CreateOrder')
      fake.fail(spoiled, /^CreateOrder$/)
      const thrown = await faultOf(platform.createOrder(store, mugs(fake)))
      t.equal(thrown.fault, expected)
      t.equal(thrown.upstreamStatus, status)
      t.equal(fake.count('CreateOrder'), before + 1, 'and the order is not sent again')
      t.notMatch(`${thrown.message} ${thrown.stack}`, /shpat_|shpss_/, 'without secrets')
    })
  }

  t.test("the platform's own words are passed on as one short line, without keys", async t => {
    fake.rewrite = (_, body) => ({
      errors: [{ message: `Bad\ntoken ${fake.legacyToken} ${'x'.repeat(500)}`, extensions: { code: 'ACCESS_DENIED' } }],
      extensions: { body }
    })
    const { message } = await faultOf(platform.shopInfo(legacyStoreOf(fake)))
    t.match(message, /: Bad token \[redacted\] x+…$/)
    t.ok(message.length < 350)
    fake.rewrite = (_, body) => ({
      data: {
        orderCreate: {
          order: null,
          userErrors: [
            { code: null, field: null, message: 'One.\u2028Two.' },
            { code: 'INVALID', field: ['x'], message: 'Three.' }
          ]
        }
      },
      extensions: { body }
    })
    t.match(await faultOf(platform.createOrder(store, mugs(fake))), {
      fault: 'refused',
      message: /: One\. Two\. Three\.$/
    })
    fake.rewrite = (_, body) => ({
      data: { orderCreate: { order: null, userErrors: [{ code: 'SHOP_DORMANT', field: null, message: 'Dormant' }] } },
      extensions: { body }
    })
    t.equal(await fault(platform.createOrder(store, mugs(fake))), 'shop')
    fake.rewrite = (_, body) => ({ data: { orderCreate: { order: null, userErrors: [] } }, extensions: { body } })
    t.equal(
      await fault(platform.createOrder(store, mugs(fake))),
      'away',
      'neither an order nor an error: it may have been made'
    )
    fake.rewrite = null
  })

  t.test('no response in time is "unavailable"', async t => {
    fake.onHang = () => {
      clock.advance(TIMEOUT)
    }
    for (const spoiled of ['hang', 'hang after'] as const) {
      fake.fail(spoiled, /^CreateOrder$/)
      t.match(await faultOf(platform.createOrder(store, mugs(fake))), {
        fault: 'away',
        upstreamStatus: null,
        message: /in time/
      })
    }
  })
})

t.test('a merchant names the domain, and nothing but a shop is ever called', async t => {
  const { fake, clock, store } = await shopify(t)
  const called: OutboundRequest[] = []
  const guard = new AddressGuard({ production: true, resolve: async () => ['10.0.0.7'] })
  const guarded = outboundCall(guard)
  const platform = openShopify({
    call: request => {
      called.push(request)
      return guarded(request)
    },
    clock,
    log: silentLog,
    config: { apiVersion: '2026-10', timeout: TIMEOUT }
  })
  for (const domain of [
    'shop.example.com',
    'localhost',
    '127.0.0.1',
    'myshopify.com',
    'a.b.myshopify.com',
    'example.myshopify.com.evil.com',
    'example.myshopify.com/x',
    'x@example.myshopify.com',
    'example.myshopify.com:8080',
    'Example.myshopify.com',
    ''
  ]) {
    t.equal(await fault(platform.shopInfo({ ...store, domain })), 'shop', domain)
  }
  t.equal(called.length, 0)
  t.match(
    await faultOf(platform.shopInfo(store)),
    { fault: 'shop', message: /blocked range/ },
    'a name that leads inside is refused on connecting'
  )
  t.equal(called[0]?.url, 'https://example.myshopify.com/admin/oauth/access_token')
  await fault(platform.shopInfo(legacyStoreOf(fake)))
  t.equal(called[1]?.url, 'https://example.myshopify.com/admin/api/2026-10/graphql.json')
  t.equal(fake.seen.length, 0)
})
