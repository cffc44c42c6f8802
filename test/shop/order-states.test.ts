import t from 'tap'
import { ChallengeStore } from '../../src/selling/holding/store.ts'
import { BODY, claimBody, claimsOf, DAY, EMAIL, openShop, PUBLIC_URL, textOf, tokenOf, type Shop } from './fixture.ts'
import { addressOf } from '../payments/refunds/fixture.ts'
import { MUG } from './test-platform.ts'

const WITH_EMAIL = { ...BODY, email: EMAIL }

async function statusOf(shop: Shop, orderId: string) {
  return (await shop.orders.get(orderId))?.status ?? null
}

t.test(
  'none | checkout POST without credential | valid cart, buyer location header | PendingPayment | 402 returned with invoice and macaroon; no claim token issued',
  async t => {
    const shop = await openShop(t)
    const { orderId, paymentHash } = await shop.unpaid(WITH_EMAIL)
    const order = await shop.orders.get(orderId)
    t.match(order, {
      status: /^PendingPayment$/,
      paymentHash,
      email: EMAIL,
      claimToken: null,
      claimDigest: null,
      paidAt: null,
      totalCents: 4616
    })
    const challenge = await shop.selling.claims.find(paymentHash)
    t.match(challenge, {
      source: 'storefront',
      service: `${shop.integration.slug}:0`,
      place: `store:${shop.integration.id}`,
      resource: `/api/storefront/${shop.integration.slug}/*`,
      merchantId: String(shop.integration.merchantId)
    })
    t.notMatch(JSON.stringify(challenge), EMAIL, 'the buyer is not kept with the challenge')
  }
)

t.test(
  'PendingPayment | checkout POST with valid L402 credential | credential verifies | PaidAwaitingDetails | claim page URL returned',
  async t => {
    const shop = await openShop(t)
    const order = await shop.unpaid()
    const answer = await shop.checkout({ headers: { authorization: order.pay() } })
    t.match(answer.data, { status: /^PaidAwaitingDetails$/, claimPageUrl: `${PUBLIC_URL}/storefront/` })
    const kept = await shop.orders.get(order.orderId)
    t.match(kept, { status: /^PaidAwaitingDetails$/, paidAt: shop.clock.now() })
    t.notMatch(JSON.stringify(kept), tokenOf(answer), 'the token is kept as digest and seal')
    t.equal(shop.mails.length, 0, 'the provider has not reported it')
  }
)

t.test(
  'PendingPayment | provider paid webhook | payment landed | PaidAwaitingDetails | if an email was given at checkout, the buyer is sent the claim URL',
  async t => {
    const shop = await openShop(t)
    const { orderId, paymentHash } = await shop.unpaid(WITH_EMAIL)
    const without = await shop.unpaid()
    for (let time = 0; time < 2; time++) {
      await shop.settle(paymentHash)
      await shop.settle(without.paymentHash)
    }
    t.equal(await statusOf(shop, orderId), 'PaidAwaitingDetails')
    t.equal(await statusOf(shop, without.orderId), 'PaidAwaitingDetails')
    t.equal(shop.mails.length, 1, 'once, however often it is reported')
    t.equal(shop.mails[0]?.to, EMAIL)
    const token = /claimToken=([A-Za-z0-9_-]{43})/.exec(shop.mails[0]?.text ?? '')?.[1] ?? ''
    t.equal((await shop.status(orderId, token)).status, 200, "the mail's token opens the order")
  }
)

t.test(
  'Events 7 | the buyer is mailed once, also when the credential came first, and the news after the claim',
  async t => {
    const shop = await openShop(t)
    const order = await shop.unpaid(WITH_EMAIL)
    const paid = await shop.checkout({ headers: { authorization: order.pay() } })
    t.equal((await shop.claim(claimBody(tokenOf(paid)))).status, 200)
    t.equal(shop.mails.length, 0)
    await Promise.all([shop.settle(order.paymentHash), shop.settle(order.paymentHash)])
    t.equal(shop.mails.length, 1)
    t.match(shop.mails[0]?.text, tokenOf(paid), 'the same token')
    t.notMatch(shop.mails[0]?.text, /missing/, 'known fields are not requested again')
    t.equal(await statusOf(shop, order.orderId), 'PaidWithDetails', 'the order does not go back')
  }
)

t.test('a mail that cannot be queued leaves the order unchanged, and the notification is retried', async t => {
  const shop = await openShop(t)
  const { orderId, paymentHash } = await shop.unpaid(WITH_EMAIL)
  shop.mailFault = new Error('the queue is down')
  await t.rejects(shop.settle(paymentHash), { message: 'the queue is down' })
  t.equal(await statusOf(shop, orderId), 'PendingPayment')
  shop.mailFault = null
  await shop.settle(paymentHash)
  t.equal(await statusOf(shop, orderId), 'PaidAwaitingDetails')
  t.equal(shop.mails.length, 1)
})

t.test('credential and news at the same moment make one claim token', async t => {
  const shop = await openShop(t)
  const order = await shop.unpaid(WITH_EMAIL)
  const authorization = order.pay()
  const answers = await Promise.all([
    shop.settle(order.paymentHash),
    ...Array.from({ length: 5 }, () => shop.checkout({ headers: { authorization } }))
  ])
  const tokens = new Set(answers.slice(1).map(answer => (answer === undefined ? '' : tokenOf(answer))))
  t.equal(tokens.size, 1)
  t.match(shop.mails[0]?.text, [...tokens][0] ?? 'none')
})

t.test(
  'PendingPayment | claim POST with L402 Authorization | claim token valid, window open, preimage verifies | PaidWithDetails | storefront order created with shipping details',
  async t => {
    const shop = await openShop(t)
    for (const scheme of ['l402', 'payment', 'legacy'] as const) {
      const order = await shop.unpaid()
      const authorization = order.pay(scheme)
      // No token was ever issued for an order that is pending (decision 133).
      const answer = await shop.claim(claimBody(null), { authorization })
      t.equal(answer.status, 200, answer.text)
      t.match(answer.data, {
        orderId: order.orderId,
        status: /^PaidWithDetails$/,
        storefrontOrderNumber: /^#\d+$/,
        claimPageUrl: /claimToken=/
      })
      t.equal(answer.headers.has('payment-receipt'), scheme === 'payment', 'a receipt for the modern credential')
      t.equal(await statusOf(shop, order.orderId), 'PaidWithDetails')
      t.match(shop.platform.made.at(-1), {
        sourceIdentifier: order.orderId,
        email: EMAIL,
        countryCode: 'US',
        shippingAddress: { lastName: 'Lovelace', address2: null, phone: null }
      })
      t.equal((await shop.status(order.orderId, tokenOf(answer))).status, 200)
    }
  }
)

t.test(
  'PaidAwaitingDetails | claim POST with claim token | claim window open, not yet claimed, address valid | PaidWithDetails | storefront order created, order number returned',
  async t => {
    const shop = await openShop(t)
    const { orderId, claimToken, paymentHash } = await shop.paid(WITH_EMAIL)
    const answer = await shop.claim(claimBody(claimToken, { email: 'other@example.com' }))
    t.equal(answer.status, 200)
    t.same(Object.keys(answer.data), ['orderId', 'status', 'storefrontOrderNumber', 'claimPageUrl', 'message'])
    t.match(answer.data, { orderId, status: /^PaidWithDetails$/, storefrontOrderNumber: '#1001' })
    t.equal(tokenOf(answer), claimToken, 'it stays a read credential')
    t.same(
      shop.platform.made,
      [
        {
          sourceIdentifier: orderId,
          email: 'other@example.com',
          items: [
            {
              variantId: MUG,
              productTitle: 'Mug',
              variantTitle: 'Blue',
              quantity: 2,
              priceCents: 1999,
              requiresShipping: true
            },
            {
              variantId: 21,
              productTitle: 'Socks',
              variantTitle: 'M',
              quantity: 1,
              priceCents: 5,
              requiresShipping: true
            }
          ],
          shippingAddress: {
            firstName: 'Ada',
            lastName: 'Lovelace',
            address1: '12 Analytical Way',
            address2: null,
            city: 'San Francisco',
            province: 'CA',
            zip: '94103',
            country: 'US',
            phone: null
          },
          countryCode: 'US',
          location: { country: 'US', state: 'CA', zip: '94103' },
          shippingCents: 490,
          taxCents: 123,
          tax: { lines: [{ title: 'State tax', rate: '0.0725', cents: 123 }], isIncluded: false },
          totalCents: 4616,
          paidSats: 46_160,
          paymentHash,
          holdId: null
        }
      ],
      "the buyer's payment, to the cent"
    )
  }
)

t.test('address and email of a claim are kept sealed', async t => {
  const shop = await openShop(t)
  const { orderId, claimToken } = await shop.paid()
  await shop.claim(claimBody(claimToken))
  const details = await claimsOf(shop).details(orderId)
  t.match(details, /^v1\./)
  const rows = await shop.database
    .sql`select storefront_orders::text as orders, storefront_claims::text as claims from storefront_orders join storefront_claims on order_id = id where id = ${orderId}`
  t.notMatch(JSON.stringify(rows), /Lovelace|Analytical|94103.*Ada/)
  t.notMatch(JSON.stringify(rows), claimToken)
})

t.test('Claimed orders stay readable with the claim token for 90 days after claiming, then are purged', async t => {
  const shop = await openShop(t)
  const { orderId, claimToken, authorization, paymentHash } = await shop.paid()
  await shop.claim(claimBody(claimToken))
  const again = await shop.checkout({ headers: { authorization } })
  t.match(
    again.data,
    { status: /^PaidWithDetails$/, storefrontOrderNumber: '#1001', claimPageUrl: /claimToken=/ },
    'retry after claiming: the real status and number (decision 135)'
  )
  shop.clock.advance(90 * DAY)
  await shop.storefront.orders.purge()
  t.equal((await shop.status(orderId, claimToken)).status, 200)
  shop.clock.advance(1)
  t.equal((await shop.status(orderId, claimToken)).status, 404, 'also before the job has come by')
  await shop.storefront.orders.purge()
  t.equal(await shop.orders.get(orderId), null)
  t.equal(await claimsOf(shop).details(orderId), null)
  t.equal(await shop.selling.claims.find(paymentHash), null, 'its challenge goes with it')
})

t.test(
  'Unclaimed orders stop being readable when the claim window (default 30 days, configurable 1-365) ends; expired unclaimed orders are purged',
  async t => {
    const shop = await openShop(t)
    await shop.change(integration => ({ ...integration, claimWindowDays: 1 }))
    const pending = await shop.unpaid()
    const { orderId, claimToken } = await shop.paid()
    shop.clock.advance(DAY)
    await shop.storefront.orders.purge()
    t.equal((await shop.status(orderId, claimToken)).status, 200, 'to the last moment')
    shop.clock.advance(1)
    t.equal((await shop.status(orderId, claimToken)).status, 404)
    await shop.storefront.orders.purge()
    t.equal(await shop.orders.get(orderId), null)
    t.equal(await shop.orders.get(pending.orderId), null)
  }
)

t.test('the window of an order is the one of its checkout', async t => {
  const shop = await openShop(t)
  const { orderId, claimToken } = await shop.paid()
  await shop.change(integration => ({ ...integration, claimWindowDays: 1 }))
  shop.clock.advance(29 * DAY)
  t.equal((await shop.status(orderId, claimToken)).status, 200)
})

t.test('a paid order that the store did not take in time is kept for the administrator', async t => {
  const shop = await openShop(t)
  const { orderId, claimToken } = await shop.paid()
  shop.platform.faults.set('createOrder', 'credentials')
  t.equal((await shop.claim(claimBody(claimToken))).status, 502)
  shop.clock.advance(31 * DAY)
  await shop.storefront.orders.purge()
  t.equal((await shop.status(orderId, claimToken)).status, 404)
  shop.platform.faults.clear()
  t.match(await shop.storefront.orders.retry(orderId), { status: /^PaidWithDetails$/ })
  t.equal((await shop.status(orderId, claimToken)).status, 200)
  const other = await shop.paid()
  shop.platform.faults.set('createOrder', 'credentials')
  await shop.claim(claimBody(other.claimToken))
  shop.clock.advance(121 * DAY)
  await shop.storefront.orders.purge()
  t.equal(await shop.orders.get(other.orderId), null, 'but not forever')
})

t.test('an order whose buyer wants the money back is kept for the merchant as long', async t => {
  const shop = await openShop(t)
  const { orderId, claimToken } = await shop.paid()
  const response = await shop.send('POST', `${shop.base}/refund-request`, {
    body: { claimToken, refundAddress: addressOf() }
  })
  t.equal(response.status, 200)
  shop.clock.advance(31 * DAY)
  await shop.storefront.orders.purge()
  t.match(await shop.orders.get(orderId), { refundRequest: { address: addressOf() } })
  shop.clock.advance(90 * DAY)
  await shop.storefront.orders.purge()
  t.equal(await shop.orders.get(orderId), null, 'but not forever')
})

t.test('stats count what was purged too, and do not shrink (decision 149)', async t => {
  const shop = await openShop(t)
  const { merchantId } = shop.integration
  t.match(await shop.storefront.orders.stats(merchantId), {
    totalCheckouts: 0,
    paidOrders: 0,
    conversionRate: 0,
    firstOrderAt: null,
    lastOrderAt: null
  })
  const start = shop.clock.now()
  await shop.unpaid()
  shop.clock.advance(1000)
  await shop.paid()
  shop.clock.advance(1000)
  const { claimToken } = await shop.paid()
  await shop.claim(claimBody(claimToken))
  const expected = {
    totalCheckouts: 3,
    paidOrders: 2,
    conversionRate: 0.6667,
    totalPaidSats: 92_320,
    totalPaidCents: 9232,
    fulfilled: 0,
    shipped: 0,
    firstOrderAt: start,
    lastOrderAt: start + 2000
  }
  t.same(await shop.storefront.orders.stats(merchantId), expected)
  shop.clock.advance(31 * DAY)
  t.equal((await shop.storefront.orders.purge()) >= 2, true)
  t.same(await shop.storefront.orders.stats(merchantId), expected)
  shop.clock.advance(90 * DAY)
  await shop.storefront.orders.purge()
  t.same(await shop.storefront.orders.stats(merchantId), expected)
  t.same(await shop.orders.list(merchantId, null, { limit: 10, offset: 0 }), [])
  await shop.unpaid()
  t.match(await shop.storefront.orders.stats(merchantId), {
    totalCheckouts: 4,
    conversionRate: 0.5,
    totalPaidCents: 9232
  })
})

t.test('a notification of a payment for an order that was purged changes nothing, and causes no retry', async t => {
  const shop = await openShop(t)
  const { orderId, paymentHash } = await shop.unpaid()
  await shop.database.sql`delete from storefront_orders where id = ${orderId}`
  await shop.settle(paymentHash)
  t.match(await new ChallengeStore(shop.database).find(paymentHash), { source: 'storefront' })
})

t.test('GET orders/{orderId}?claimToken | 200 order status object', async t => {
  const shop = await openShop(t)
  const { orderId, claimToken } = await shop.paid(WITH_EMAIL)
  const answer = await shop.status(orderId, claimToken)
  t.equal(answer.status, 200)
  t.same(
    answer.data,
    {
      orderId,
      status: 'PaidAwaitingDetails',
      totalUsd: 46.16,
      paidSats: 46_160,
      storefrontOrderNumber: null,
      trackingNumber: null,
      trackingCarrier: null,
      trackingUrl: null,
      createdAt: new Date(shop.clock.now()).toISOString(),
      paidAt: new Date(shop.clock.now()).toISOString(),
      shippedAt: null
    },
    'nothing about its buyer'
  )
  t.equal(answer.headers.get('cache-control'), 'private, no-store')
})

t.test(
  'Storefront order status | 404 | order not found, token mismatch (always 404, never 401), or claim window expired before claim',
  async t => {
    const shop = await openShop(t)
    const { orderId, claimToken, authorization } = await shop.paid()
    const other = await shop.paid()
    const elsewhere = await openShop(t)
    const foreign = await elsewhere.paid()
    const pending = await shop.unpaid()
    for (const [what, path] of [
      ['unknown order', `${shop.base}/orders/nothing?claimToken=${claimToken}`],
      ['no token', `${shop.base}/orders/${orderId}`],
      ['empty token', `${shop.base}/orders/${orderId}?claimToken=`],
      ['wrong token', `${shop.base}/orders/${orderId}?claimToken=${'a'.repeat(43)}`],
      ['odd token', `${shop.base}/orders/${orderId}?claimToken=%00%ff`],
      ["another order's token", `${shop.base}/orders/${orderId}?claimToken=${other.claimToken}`],
      ["another store's", `${shop.base}/orders/${foreign.orderId}?claimToken=${foreign.claimToken}`],
      ['unknown store', `/api/storefront/nobody/orders/${orderId}?claimToken=${claimToken}`],
      ['pending', `${shop.base}/orders/${pending.orderId}?claimToken=`]
    ] as const) {
      const answer = await shop.send('GET', path, { headers: { authorization } })
      t.equal(answer.status, 404, what)
      t.match(answer.data, { error: 'Order not found' })
    }
    shop.clock.advance(30 * DAY + 1)
    t.equal((await shop.status(orderId, claimToken)).status, 404)
    t.match(textOf(await elsewhere.checkout(), 'orderId'), /^ord_[0-9a-f]{16}$/)
  }
)
