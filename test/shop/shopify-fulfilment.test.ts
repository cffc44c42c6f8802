import t from 'tap'
import { StorePlatformError, type Fulfilment } from '../../src/shop/platform.ts'
import { startReceiver } from '../fakes/receiver.ts'
import { fault, legacyStoreOf, mugs, shopify } from './shopify-fixture.ts'

const NOTHING = { number: null, carrier: null, url: null }

t.test('how far an order is', async t => {
  const { fake, clock, platform, store } = await shopify(t)
  const { platformOrderId } = await platform.createOrder(store, mugs(fake))
  const order = fake.shop.orders[0]!
  const ask = async () => (await platform.fulfilments(store, [platformOrderId]))[0]

  t.same(await ask(), {
    platformOrderId,
    isFulfilled: false,
    isShipped: false,
    isCanceled: false,
    tracking: NOTHING,
    shippedAt: null
  })
  const first = fake.fulfill(order, { isPart: true })
  t.same(
    await ask(),
    { platformOrderId, isFulfilled: false, isShipped: false, isCanceled: false, tracking: NOTHING, shippedAt: null },
    'a part is not the whole'
  )
  order.fulfillmentStatus = 'FULFILLED'
  t.match(await ask(), { isFulfilled: true, isShipped: false })
  clock.advance(60_000)
  fake.move(order, first, 'IN_TRANSIT')
  t.match(
    await ask(),
    { isFulfilled: true, isShipped: true, tracking: NOTHING, shippedAt: clock.now() },
    'in transit without a number'
  )
  fake.fulfill(order, { number: '1Z999', company: 'UPS', url: 'https://ups.example/1Z999' })
  t.match(await ask(), {
    isShipped: true,
    tracking: { number: '1Z999', carrier: 'UPS', url: 'https://ups.example/1Z999' }
  })
  order.fulfilments[1]!.url = 'javascript:alert(1)'
  t.match(await ask(), { tracking: { number: '1Z999', url: null } }, 'a link is a web address, or none')
  for (const given of order.fulfilments) given.status = 'CANCELLED'
  t.match(await ask(), { isShipped: false, tracking: NOTHING }, 'one that was given up does not count')
  fake.cancel(order)
  t.match(await ask(), { isCanceled: true })
  t.same(await platform.fulfilments(store, ['gid://shopify/Order/1']), [], 'unknown ones are left out')
  t.same(await platform.fulfilments(store, []), [])
})

t.test('many orders are polled in rotation', async t => {
  const { fake, platform, store } = await shopify(t)
  const ids: string[] = []
  for (let index = 0; index < 45; index++)
    ids.push(
      (
        await platform.createOrder(
          store,
          mugs(fake, {
            sourceIdentifier: `n-${index}`,
            items: [{ ...mugs(fake).items[0]!, variantId: fake.shop.variantOf('Notebook', 'Plain').id }]
          })
        )
      ).platformOrderId
    )
  t.same(
    (await platform.fulfilments(store, ids)).map(({ platformOrderId }) => platformOrderId),
    ids
  )
  t.equal(fake.count('Fulfilments'), 3)
})

t.test('webhooks are registered once for each topic, and repeating is idempotent', async t => {
  const { fake, platform, store } = await shopify(t)
  const address = 'https://gateway.example.com/api/webhooks/storefront/demo'
  await platform.subscribe(store, address)
  t.same(fake.subscriptions.map(({ topic }) => topic).sort(), [
    'FULFILLMENTS_CREATE',
    'FULFILLMENTS_UPDATE',
    'ORDERS_CANCELLED',
    'ORDERS_FULFILLED',
    'ORDERS_PARTIALLY_FULFILLED'
  ])
  t.ok(fake.subscriptions.every(({ uri }) => uri === address))
  await platform.subscribe(store, address)
  t.equal(fake.count('Subscribe'), 5)
  fake.subscriptions.pop()
  await platform.subscribe(store, address)
  t.equal(fake.count('Subscribe'), 6, 'only what is missing')
  fake.rewrite = (operation, body) =>
    operation === 'Subscriptions' ? { data: { webhookSubscriptions: { nodes: [] } } } : body
  await platform.subscribe(store, address)
  t.equal(fake.subscriptions.length, 5, 'one that another client has made since is fine')
  fake.takesPlainWebhooks = false
  t.equal(await fault(platform.subscribe(store, 'http://gateway.example.com/')), 'refused')
})

t.test('notifications', async t => {
  const { fake, platform, store } = await shopify(t)
  const told: Array<Fulfilment | null> = []
  const receiver = await startReceiver({
    answer: ({ headers, body }) => {
      const named = new Map(
        Object.entries(headers).flatMap(([name, value]) => (typeof value === 'string' ? [[name, value] as const] : []))
      )
      told.push(platform.readNotification(store, named, body))
      return { status: 200 }
    }
  })
  t.teardown(() => receiver.close())
  await platform.subscribe(store, `${receiver.url}/api/webhooks/storefront/demo`)
  const { platformOrderId } = await platform.createOrder(store, mugs(fake))
  const order = fake.shop.orders[0]!
  const next = async () => {
    told.length = 0
    t.ok((await fake.deliver()).every(status => status === 200))
    return told.slice()
  }

  t.test('return what the platform reports', async t => {
    const given = fake.fulfill(order, { number: '1Z999', company: 'UPS', url: 'https://ups.example/1Z999' })
    const [asked] = await platform.fulfilments(store, [platformOrderId])
    const [ofFulfilment, ofOrder] = await next()
    t.same(ofOrder, asked)
    t.same(ofFulfilment, { ...asked, isFulfilled: false }, 'a fulfilment does not know the whole order')
    fake.move(order, given, 'DELIVERED')
    t.match(await next(), [{ platformOrderId, isShipped: true }])
    fake.cancel(order)
    t.match(await next(), [{ platformOrderId, isCanceled: true, isFulfilled: true }])
  })

  const body = JSON.stringify({ id: order.id, cancelled_at: null, fulfillment_status: 'fulfilled', fulfillments: [] })
  const read = (headers: Record<string, string>, bytes = body, access = store) =>
    platform.readNotification(access, new Map(Object.entries(headers)), Buffer.from(bytes))
  const refusal = (run: () => unknown) => {
    try {
      run()
    } catch (error) {
      if (error instanceof StorePlatformError) return error.fault
      throw error
    }
    return 'taken'
  }

  t.test('are accepted with a valid signature only', async t => {
    const good = fake.signed('orders/fulfilled', body)
    t.match(read(good), { platformOrderId, isFulfilled: true })
    const signature = good['x-shopify-hmac-sha256'] ?? ''
    const forged: Record<string, Record<string, string>> = {
      'another secret': fake.signed('orders/fulfilled', body, 'another'),
      'the signature of another body': fake.signed('orders/fulfilled', `${body} `),
      'no signature': { ...good, 'x-shopify-hmac-sha256': '' },
      hex: { ...good, 'x-shopify-hmac-sha256': Buffer.from(signature, 'base64').toString('hex') },
      'a piece of one': { ...good, 'x-shopify-hmac-sha256': signature.slice(0, 20) },
      'another shop': { ...good, 'x-shopify-shop-domain': 'other.myshopify.com' }
    }
    for (const [name, headers] of Object.entries(forged))
      t.equal(
        refusal(() => read(headers)),
        'credentials',
        name
      )
    const { 'x-shopify-hmac-sha256': _, ...unsigned } = good
    t.equal(
      refusal(() => read(unsigned)),
      'credentials'
    )
    const { 'x-shopify-shop-domain': __, ...nameless } = good
    t.equal(
      refusal(() => read(nameless)),
      'credentials'
    )
    t.equal(
      refusal(() => read(good, body.replace('fulfilled', 'fulfilles'))),
      'credentials',
      'one byte changed'
    )
    t.equal(
      refusal(() => read(good, body, legacyStoreOf(fake))),
      'credentials',
      'a store without a secret cannot check any'
    )
  })

  t.test('of other topics are of no interest; those that cannot be read are refused', async t => {
    t.equal(read(fake.signed('products/update', '{}'), '{}'), null)
    t.equal(read(fake.signed('app/uninstalled', 'x'), 'x'), null)
    for (const bad of [
      '',
      'x',
      '[]',
      'null',
      '{}',
      '{"id":"x","fulfillments":[]}',
      '{"id":9007199254740993,"fulfillments":[]}',
      '{"id":5,"fulfillments":{}}'
    ]) {
      t.equal(
        refusal(() => read(fake.signed('orders/fulfilled', bad), bad)),
        'refused',
        bad
      )
    }
    t.equal(
      refusal(() => read(fake.signed('fulfillments/create', body), body)),
      'refused',
      'an order is no fulfilment'
    )
  })
})
