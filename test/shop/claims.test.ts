import t from 'tap'
import { narrowed } from '../selling/challenges/fixture.ts'
import { ADDRESS, claimBody, claimsOf, DAY, openShop, textOf, tokenOf, type Answered, type Shop } from './fixture.ts'
import { until } from '../support/until.ts'

async function statusOf(shop: Shop, orderId: string) {
  return (await shop.orders.get(orderId))?.status ?? null
}

const tally = (answers: readonly Answered[]) => {
  const counts: Record<string, number> = {}
  for (const { status, data } of answers) {
    const key = status === 200 ? '200' : `${status} ${String(data['error'])}`
    counts[key] = (counts[key] ?? 0) + 1
  }
  return counts
}

t.test('Storefront claim | 400 | expired claim window', async t => {
  const shop = await openShop(t)
  const { orderId, claimToken } = await shop.paid()
  const order = await shop.unpaid()
  shop.clock.advance(30 * DAY)
  t.equal((await shop.claim(claimBody(claimToken, { email: 'nobody' }))).status, 400, 'the body first')
  shop.clock.advance(1)
  const answer = await shop.claim(claimBody(claimToken))
  t.equal(answer.status, 400)
  t.match(answer.data, { error: 'Claim window expired' })
  t.match((await shop.claim(claimBody(null), { authorization: order.pay('legacy') })).data, {
    error: 'Claim window expired'
  })
  t.equal((await shop.claim(claimBody(null), { authorization: order.pay() })).status, 400)
  t.equal(await statusOf(shop, orderId), 'PaidAwaitingDetails')
  t.equal(shop.platform.made.length, 0)
})

t.test('Storefront claim | 400 | already claimed; the claim token is single-use for claiming', async t => {
  const shop = await openShop(t)
  const { orderId, claimToken, authorization } = await shop.paid()
  t.equal((await shop.claim(claimBody(claimToken))).status, 200)
  await t.rejects(
    shop.storefront.placement.make(shop.integration, orderId, null),
    { status: 400, error: 'Order already claimed' },
    'also for a client that saw it unclaimed'
  )
  for (const headers of [{}, { authorization }]) {
    const answer = await shop.claim(claimBody(claimToken), headers)
    t.equal(answer.status, 400)
    t.match(answer.data, { error: 'Order already claimed' })
  }
  t.equal(shop.platform.made.length, 1)
})

t.test('Storefront claim | 400 | missing payment proof (decision 133)', async t => {
  const shop = await openShop(t)
  await shop.unpaid()
  for (const headers of [{}, { authorization: 'Basic YTpi' }]) {
    const answer = await shop.claim(claimBody(null), headers)
    t.equal(answer.status, 400)
    t.match(answer.data, { error: 'Missing payment proof' })
  }
  t.equal(
    (await shop.claim({ ...claimBody(null), claimToken: null })).data['error'],
    'Missing payment proof',
    'null is absent'
  )
})

t.test('Storefront claim | 400 | invalid preimage format', async t => {
  const shop = await openShop(t)
  const order = await shop.unpaid()
  const [macaroon = ''] = order.pay().split(':')
  for (const preimage of ['', 'AB'.repeat(32), `0x${'ab'.repeat(32)}`, 'ab'.repeat(31)]) {
    const answer = await shop.claim(claimBody(null), { authorization: `${macaroon}:${preimage}` })
    t.equal(answer.status, 400, preimage)
    t.match(answer.data, { error: 'Bad Request', message: /preimage/ })
  }
})

t.test('Storefront claim | 400 | failed L402 verification', async t => {
  const shop = await openShop(t)
  const order = await shop.unpaid()
  const good = order.pay()
  const [macaroon = '', preimage = ''] = good.slice('L402 '.length).split(':')
  const elsewhere = await openShop(t)
  for (const authorization of [
    `L402 ${macaroon}:${'0'.repeat(64)}`,
    `L402 ${narrowed(macaroon, `path=${shop.base}/checkout`)}:${preimage}`,
    (await elsewhere.unpaid()).pay()
  ]) {
    const answer = await shop.claim(claimBody(null), { authorization })
    t.equal(answer.status, 400)
    t.match(answer.data, { error: 'L402 verification failed' })
    t.same(answer.headers.all('x-l402-error'), [answer.data['message']])
  }
  t.equal(await statusOf(shop, order.orderId), 'PendingPayment')
  t.equal(
    (
      await shop.claim(claimBody(null), {
        authorization: `L402 ${narrowed(macaroon, `path=${shop.base}/claim`)}:${preimage}`
      })
    ).status,
    200,
    'one that was narrowed to claiming claims'
  )
})

t.test('Storefront claim | 400 | international address on a domestic-only store', async t => {
  const shop = await openShop(t)
  await shop.change(integration => ({ ...integration, shipping: { ...integration.shipping, domesticOnly: true } }))
  const { orderId, claimToken } = await shop.paid()
  const answer = await shop.claim(claimBody(claimToken, { shippingAddress: { ...ADDRESS, country: 'Canada' } }))
  t.equal(answer.status, 400)
  t.match(answer.data, { error: 'Not shipped to this country' })
  t.equal(await statusOf(shop, orderId), 'PaidAwaitingDetails', 'nothing is used up')
  t.equal(
    (await shop.claim(claimBody(claimToken, { shippingAddress: { ...ADDRESS, country: 'united states' } }))).status,
    200
  )
})

t.test('Storefront claim | 401 | credential for a disabled protocol only', async t => {
  const shop = await openShop(t, { schemes: ['l402'] })
  const order = await shop.unpaid()
  const answer = await shop.claim(claimBody(null), { authorization: order.pay('legacy') })
  t.equal(answer.status, 401)
  t.equal(await statusOf(shop, order.orderId), 'PendingPayment')
  t.equal((await shop.claim(claimBody(null), { authorization: order.pay() })).status, 200)
})

t.test('Storefront claim | 404 | unknown claim token or token of another store', async t => {
  const shop = await openShop(t)
  const elsewhere = await openShop(t)
  const foreign = await elsewhere.paid()
  const { claimToken, authorization } = await shop.paid()
  const other = await shop.unpaid()
  for (const [what, token, headers] of [
    ['unknown', 'a'.repeat(43), {}],
    ['empty', '', {}],
    ['odd', '\u0000\ud800', {}],
    ["another store's", foreign.claimToken, {}],
    ["another store's beside a credential of this one", foreign.claimToken, { authorization }],
    ["another order's beside a credential", claimToken, { authorization: other.pay() }],
    ['any beside the credential of an order that has none yet', 'a'.repeat(43), { authorization: other.pay() }]
  ] as const)
    t.equal((await shop.claim(claimBody(token), headers)).status, 404, what)
  t.equal(
    (await shop.claim(claimBody(null), { authorization: `Payment method="lightning", preimage="${'ab'.repeat(32)}"` }))
      .status,
    404,
    'no order of this payment'
  )
  t.equal((await shop.send('POST', '/api/storefront/nobody/claim', { body: claimBody(claimToken) })).status, 404)
  t.equal(await statusOf(shop, other.orderId), 'PendingPayment')
  t.equal(
    (await shop.claim(claimBody(claimToken), { authorization })).status,
    200,
    "the order's own token beside its credential"
  )
})

t.test('Shipping address | required members, and the maxima of each', async t => {
  const shop = await openShop(t)
  const { claimToken } = await shop.paid()
  const maxima = {
    firstName: 200,
    lastName: 200,
    address1: 500,
    address2: 500,
    city: 100,
    province: 100,
    zip: 20,
    country: 100,
    phone: 30
  }
  const field = (name: string) => `ShippingAddress.${name.charAt(0).toUpperCase()}${name.slice(1)}`
  for (const [name, most] of Object.entries(maxima)) {
    const answer = await shop.claim(
      claimBody(claimToken, { shippingAddress: { ...ADDRESS, [name]: 'x'.repeat(most + 1) } })
    )
    t.equal(answer.status, 400, name)
    t.match(answer.data, { errors: { [field(name)]: [`Must have at most ${most} characters.`] } })
  }
  for (const name of ['firstName', 'lastName', 'address1', 'city', 'country']) {
    const { [name as 'firstName']: _left, ...rest } = ADDRESS
    t.equal((await shop.claim(claimBody(claimToken, { shippingAddress: rest }))).status, 400, `without ${name}`)
    t.equal(
      (await shop.claim(claimBody(claimToken, { shippingAddress: { ...ADDRESS, [name]: '  ' } }))).status,
      400,
      `blank ${name}`
    )
  }
  t.equal((await shop.claim(claimBody(claimToken, { email: 'x' }))).status, 400)
  const country = 'Atlantis'
  t.equal((await shop.claim(claimBody(claimToken, { shippingAddress: { ...ADDRESS, country } }))).status, 400)
  const full = Object.fromEntries(
    Object.entries(maxima).map(([name, most]) => [name, name === 'country' ? 'US' : 'é'.repeat(most)])
  )
  t.equal(
    (await shop.claim(claimBody(claimToken, { shippingAddress: full }))).status,
    200,
    'all of them as long as they may be'
  )
  t.match(shop.platform.made[0]?.shippingAddress, full)
})

t.test('500 concurrent claims with one token make one order', async t => {
  const shop = await openShop(t)
  const { claimToken, authorization } = await shop.paid()
  const answers = await Promise.all(
    Array.from({ length: 500 }, (_, index) =>
      shop.claim(claimBody(claimToken), index % 2 === 0 ? {} : { authorization })
    )
  )
  t.same(tally(answers), { 200: 1, '400 Order already claimed': 499 })
  t.equal(shop.platform.made.length, 1)
})

t.test('a failure is returned to all concurrent claims, and the shop is called once', async t => {
  const shop = await openShop(t)
  const { claimToken } = await shop.paid()
  shop.platform.faults.set('createOrder', 'throttled')
  const answers = await Promise.all(Array.from({ length: 20 }, () => shop.claim(claimBody(claimToken))))
  t.same(tally(answers), { '502 Store order failed': 20 })
  t.same(new Set(answers.map(({ headers }) => headers.get('retry-after'))), new Set(['7']))
  t.equal(shop.platform.calls.filter(call => call === 'createOrder').length, 1)
  shop.platform.faults.clear()
  t.equal((await shop.claim(claimBody(claimToken))).status, 200, 'nothing was done, so it may be retried immediately')
})

t.test('concurrent claims at two gateways over one database make one order', async t => {
  const shop = await openShop(t)
  const other = await shop.another()
  const { orderId, claimToken } = await shop.paid()
  const gate = Promise.withResolvers<void>()
  shop.platform.gates.set('createOrder', gate.promise)
  const claims = Array.from({ length: 100 }, (_, index) =>
    (index % 2 === 0 ? shop.send : other.send)('POST', `${shop.base}/claim`, { body: claimBody(claimToken) })
  )
  await until(() => shop.platform.made.length > 0)
  const foreign = await Promise.race(claims)
  t.match(
    foreign.data,
    { error: 'Order already claimed', message: /another request is claiming/i },
    'the gateway that does not make it is answered immediately'
  )
  gate.resolve()
  const answers = await Promise.all(claims)
  t.match(tally(answers), { 200: 1, '400 Order already claimed': 99 })
  t.equal(shop.platform.made.length, 1)
  t.equal(await statusOf(shop, orderId), 'PaidWithDetails')
})

t.test(
  'a shop that may have made an order and is down for days: the order is looked up with growing intervals, and found',
  async t => {
    const shop = await openShop(t)
    const { orderId, claimToken } = await shop.paid()
    shop.platform.losesAnswer = true
    shop.platform.faults.set('findOrder', 'away')
    t.equal((await shop.claim(claimBody(claimToken))).status, 502)
    const before = shop.platform.calls.length
    for (let hour = 0; hour < 60; hour++) {
      shop.clock.advance(3_600_000)
      t.equal(await shop.storefront.placement.followUp(), 0)
    }
    const polls = shop.platform.calls.length - before
    t.ok(polls > 8 && polls < 25, `${polls} looks in 60 hours`)
    shop.platform.faults.clear()
    shop.clock.advance(15 * 3_600_000)
    t.equal(await shop.storefront.placement.followUp(), 1)
    t.match(await shop.orders.get(orderId), { status: /^PaidWithDetails$/ })
  }
)

t.test(
  'a gateway that dies between making and writing: its order is found and written, by the job or the next claim',
  async t => {
    for (const healer of ['job', 'claim'] as const) {
      const shop = await openShop(t)
      const { orderId, claimToken } = await shop.paid()
      // The platform answers after the caller has died: the claim is held, and nothing is written any more.
      const dead = Promise.withResolvers<void>()
      shop.platform.gates.set('createOrder', dead.promise)
      const dying = shop.claim(claimBody(claimToken))
      await until(() => shop.platform.made.length > 0)
      shop.platform.gates.delete('createOrder')
      const other = await shop.another()
      const claim = () => other.send('POST', `${shop.base}/claim`, { body: claimBody(claimToken) })
      t.match((await claim()).data, { error: 'Order already claimed' }, 'while the claim is held')
      t.equal(await other.storefront.placement.followUp(), 0, 'nor does the job look')
      shop.clock.advance(121_000)
      if (healer === 'job') t.equal(await other.storefront.placement.followUp(), 1)
      else t.equal((await claim()).data['storefrontOrderNumber'], '#1001')
      t.match(await shop.orders.get(orderId), { status: /^PaidWithDetails$/, orderNumber: '#1001' })
      t.equal(shop.platform.made.length, 1)
      dead.resolve()
      t.equal((await dying).status, 200, 'one that was only slow finds what the other wrote')
      t.equal(shop.platform.made.length, 1)
    }
  }
)

t.test('a gateway that hung until its claim lapsed does not ask the shop', async t => {
  const shop = await openShop(t)
  const other = await shop.another()
  const { claimToken } = await shop.paid()
  shop.platform.faults.set('createOrder', 'away')
  t.equal((await shop.claim(claimBody(claimToken))).status, 502)
  shop.platform.faults.clear()
  shop.clock.advance(60_000)
  const still = Promise.withResolvers<void>()
  shop.platform.gates.set('findOrder', still.promise)
  const searches = () => shop.platform.calls.filter(call => call === 'findOrder').length
  const before = searches()
  const slow = shop.claim(claimBody(claimToken))
  await until(() => searches() !== before)
  shop.platform.gates.delete('findOrder')
  shop.clock.advance(121_000)
  t.equal((await other.send('POST', `${shop.base}/claim`, { body: claimBody(claimToken) })).status, 200)
  still.resolve()
  t.match((await slow).data, { error: 'Order already claimed' })
  t.equal(shop.platform.made.length, 1)
})

t.test('an unexpected platform error counts as one that may have made the order', async t => {
  const shop = await openShop(t)
  const { orderId, claimToken } = await shop.paid()
  shop.platform.faults.set('createOrder', new TypeError('a bug'))
  t.equal((await shop.claim(claimBody(claimToken))).status, 500)
  shop.platform.faults.clear()
  t.same(await claimsOf(shop).takeUnsure(0, shop.clock.now(), 30_000, 10), [orderId])
  t.equal((await shop.claim(claimBody(claimToken))).status, 502)
})

t.test('a claim at a store that sells nothing any more is served', async t => {
  const shop = await openShop(t)
  const { claimToken } = await shop.paid()
  await shop.change(integration => ({ ...integration, isActive: false }))
  await shop.deactivateMerchant()
  const answer = await shop.claim(claimBody(claimToken))
  t.equal(answer.status, 200)
  t.equal(tokenOf(answer), claimToken)
  t.equal(textOf(answer, 'status'), 'PaidWithDetails')
})

t.test(
  'a database that fails after the shop has made the order: 503, and the order is found and written once it is back',
  async t => {
    for (const healer of ['job', 'claim'] as const) {
      const shop = await openShop(t)
      const { orderId, claimToken } = await shop.paid()
      const gate = Promise.withResolvers<void>()
      shop.platform.gates.set('createOrder', gate.promise)
      const claiming = shop.claim(claimBody(claimToken))
      await until(() => shop.platform.made.length > 0)
      shop.database.away = true
      gate.resolve()
      const answer = await claiming
      t.equal(answer.status, 503)
      t.equal(answer.headers.get('retry-after'), '5')
      shop.database.away = false
      shop.clock.advance(121_000)
      if (healer === 'job') t.equal(await shop.storefront.placement.followUp(), 1)
      else t.equal((await shop.claim(claimBody(claimToken))).status, 200)
      t.match(await shop.orders.get(orderId), { status: /^PaidWithDetails$/, orderNumber: '#1001' })
      t.equal(shop.platform.made.length, 1)
    }
  }
)

t.test('while the database is down everything of the shop answers 503', async t => {
  const shop = await openShop(t)
  const order = await shop.unpaid()
  const { orderId, claimToken } = await shop.paid()
  shop.database.away = true
  const authorization = order.pay()
  for (const [what, asking] of [
    ['catalog', shop.send('GET', `${shop.base}/catalog`)],
    ['llms.txt', shop.send('GET', `${shop.base}/llms.txt`)],
    ['checkout', shop.checkout()],
    ['retry', shop.checkout({ headers: { authorization } })],
    ['claim', shop.claim(claimBody(claimToken))],
    ['claim by credential', shop.claim(claimBody(null), { authorization })],
    ['status', shop.status(orderId, claimToken)]
  ] as const)
    t.equal((await asking).status, 503, what)
  shop.database.away = false
  t.equal((await shop.claim(claimBody(null), { authorization })).status, 200, 'nothing was used up')
})
