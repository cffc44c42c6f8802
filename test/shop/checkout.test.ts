import t from 'tap'
import { decodeInvoice } from '../../src/lightning/codecs/bolt11.ts'
import { decodeReceipt } from '../../src/lightning/payment-scheme/payment-credential.ts'
import { l402Parameters, narrowed } from '../selling/challenges/fixture.ts'
import { ProviderKeyRequired } from '../../src/lightning/provider-calls/errors.ts'
import { BODY, claimBody, DAY, LOCATION, openShop, PUBLIC_URL, textOf, tokenOf } from './fixture.ts'
import { MUG, SOCKS, SOLD_OUT } from './test-platform.ts'

t.test('POST checkout | header X-Buyer-Location (required); body {items[], email?} | 402 challenge', async t => {
  const shop = await openShop(t)
  const { answer } = await shop.unpaid({ ...BODY, email: 'ada@example.com' })
  t.same(
    Object.keys(answer.data),
    [
      'orderId',
      'items',
      'subtotalUsd',
      'shippingUsd',
      'taxUsd',
      'taxNote',
      'totalUsd',
      'totalSats',
      'claimExpiresAt',
      'invoice',
      'macaroonBase64',
      'paymentHash',
      'invoiceExpiresAt'
    ],
    "the contract's members and no others"
  )
  t.same(answer.data['items'], [
    { variantId: MUG, productTitle: 'Mug', variantTitle: 'Blue', quantity: 2, priceUsd: 19.99 },
    { variantId: SOCKS, productTitle: 'Socks', variantTitle: 'M', quantity: 1, priceUsd: 0.05 }
  ])
  t.match(
    answer.data,
    { subtotalUsd: 40.03, shippingUsd: 4.9, taxUsd: 1.23, taxNote: null, totalUsd: 46.16, totalSats: 46_160 },
    'totalUsd equals subtotal plus shipping plus tax'
  )
  t.equal(answer.data['claimExpiresAt'], new Date(shop.clock.now() + 30 * DAY).toISOString())
  t.equal(
    answer.data['invoiceExpiresAt'],
    new Date(shop.clock.now() + 600_000).toISOString(),
    'storefront checkout invoices expire in about 10 minutes'
  )
  t.equal(answer.headers.get('cache-control'), 'no-store')
  const lines = answer.headers.all('www-authenticate')
  t.equal(lines.length, 2, 'L402 and Payment (decision 137)')
  t.same(l402Parameters(lines), { macaroon: answer.data['macaroonBase64'], invoice: answer.data['invoice'] })
  const invoice = decodeInvoice(textOf(answer, 'invoice'))
  t.equal(invoice.amountMsat, 46_160_000n)
  t.equal(invoice.paymentHash, answer.data['paymentHash'])
})

t.test('Checkout 402 response | the 402 never contains a claim token or claim page URL, by design', async t => {
  const shop = await openShop(t)
  const { answer, orderId } = await shop.unpaid({ ...BODY, email: 'ada@example.com' })
  t.notMatch(answer.text, /claimToken|claimPage|\/storefront\/corner-\d+\/claim/i)
  t.equal((await shop.orders.get(orderId))?.claimToken, null, 'there is none yet')
})

t.test(
  'POST checkout | Authorization: L402 plus the same valid body | 200 {orderId, status, storefrontOrderNumber, claimPageUrl, message}',
  async t => {
    const shop = await openShop(t)
    const order = await shop.unpaid()
    const answer = await shop.checkout({ headers: { authorization: order.pay() } })
    t.equal(answer.status, 200)
    t.same(Object.keys(answer.data), ['orderId', 'status', 'storefrontOrderNumber', 'claimPageUrl', 'message'])
    t.match(answer.data, { orderId: order.orderId, status: /^PaidAwaitingDetails$/, storefrontOrderNumber: null })
    t.match(
      textOf(answer, 'claimPageUrl'),
      new RegExp(`^${PUBLIC_URL}/storefront/${shop.integration.slug}/claim\\?claimToken=[A-Za-z0-9_-]{43}$`),
      'decision 134'
    )
    t.equal(answer.headers.get('cache-control'), 'private, no-store')
    const again = await shop.checkout({ headers: { authorization: order.pay() } })
    t.same(again.data, answer.data, 'every retry shows the same token')
    const bare = await shop.send('POST', `${shop.base}/checkout`, {
      headers: { authorization: order.pay() },
      body: BODY
    })
    t.same(bare.data, answer.data, 'the retry needs no X-Buyer-Location')
  }
)

t.test(
  'Checkout request rules | the credential identifies the paid order by macaroon, or by SHA256(preimage) when no macaroon is sent; the body is otherwise ignored',
  async t => {
    const shop = await openShop(t)
    for (const scheme of ['l402', 'payment', 'legacy'] as const) {
      const order = await shop.unpaid()
      const authorization = order.pay(scheme)
      const other = { items: [{ variantId: 987_654, quantity: 1 }] }
      for (const use of ['first', 'second']) {
        const answer = await shop.checkout({ headers: { authorization, 'x-buyer-location': 'DE--10115' }, body: other })
        t.equal(answer.status, 200, `${use} use of ${scheme}: ${answer.text}`)
        t.equal(answer.data['orderId'], order.orderId)
        const receipt = answer.headers.get('payment-receipt')
        if (scheme === 'payment')
          t.match(decodeReceipt(receipt ?? ''), { reference: order.paymentHash, status: 'success' })
        else t.equal(receipt, undefined)
      }
    }
    t.equal(shop.platform.taxQuestions.length, 3, 'the shop is not called again')
  }
)

t.test(
  'Checkout request rules | an L402 credential without a macaroon finds the order by SHA256(preimage), at the retry and at the claim',
  async t => {
    const shop = await openShop(t)
    const order = await shop.unpaid()
    const preimage = order.pay().split(':')[1] ?? ''
    t.equal(
      (await shop.checkout({ headers: { authorization: `L402 :${'0'.repeat(64)}` } })).status,
      404,
      'a preimage of nothing'
    )
    const answer = await shop.checkout({ headers: { authorization: `L402 :${preimage}` } })
    t.equal(answer.status, 200)
    t.equal(answer.data['orderId'], order.orderId)
    t.equal((await shop.checkout({ headers: { authorization: `L402 :${preimage.slice(1)}` } })).status, 400)
    t.equal((await shop.claim(claimBody(null), { authorization: `L402 :${preimage}` })).status, 200)
    const other = await openShop(t)
    t.equal((await other.checkout({ headers: { authorization: `L402 :${preimage}` } })).status, 404, "another store's")
  }
)

t.test(
  'Checkout request rules | the body is validated before the credential is inspected: an empty items array returns 400 even with a valid Authorization header',
  async t => {
    const shop = await openShop(t)
    const order = await shop.unpaid()
    const answer = await shop.checkout({ headers: { authorization: order.pay() }, body: { items: [] } })
    t.equal(answer.status, 400)
    t.match(answer.data, { errors: { Items: ['Must have at least 1 item.'] } })
    t.match(await shop.orders.get(order.orderId), { status: /^PendingPayment$/ }, 'nothing was looked at')
    t.equal(
      (
        await shop.checkout({
          headers: { authorization: 'L402 rubbish' },
          body: { items: [{ variantId: MUG, quantity: 11 }] }
        })
      ).status,
      400
    )
  }
)

t.test('Storefront cart | 1-10 items, quantity 1-10 each, total quantity 10', async t => {
  const shop = await openShop(t)
  const line = (quantity: number, variantId = MUG) => ({ variantId, quantity })
  for (const items of [[line(1)], [line(10)], [line(5), line(5, SOCKS)], Array.from({ length: 10 }, () => line(1))]) {
    t.equal((await shop.checkout({ body: { items } })).status, 402, JSON.stringify(items))
  }
  const eleven = Array.from({ length: 11 }, () => line(1))
  const wrong = [[], eleven, [line(0)], [line(11)], [line(1.5)], [line(6), line(5)], [{ variantId: MUG }]]
  for (const items of wrong) t.equal((await shop.checkout({ body: { items } })).status, 400, JSON.stringify(items))
  t.equal((await shop.checkout({ body: { ...BODY, email: 'nobody' } })).status, 400)
  t.equal((await shop.checkout({ body: { ...BODY, email: `${'a'.repeat(250)}@example.com` } })).status, 400)
})

t.test('Storefront checkout | 400 | invalid cart (bad variant, unavailable item, limits)', async t => {
  const shop = await openShop(t)
  for (const [variantId, message] of [
    [999, /no variant 999/],
    [SOLD_OUT, /not available/]
  ] as const) {
    const answer = await shop.checkout({ body: { items: [{ variantId, quantity: 1 }] } })
    t.equal(answer.status, 400)
    t.match(answer.data, { error: 'Invalid cart', message })
  }
  shop.platform.gone.add(MUG)
  const answer = await shop.checkout()
  t.equal(answer.status, 400, 'the catalog still says available, the shop does not')
  t.match(answer.data, { error: 'Invalid cart', message: /Variant 11 is not available/ })
  t.equal(
    (
      await shop.checkout({
        body: {
          items: [
            { variantId: MUG, quantity: 6 },
            { variantId: SOCKS, quantity: 5 }
          ]
        }
      })
    ).data['error'],
    'Invalid cart'
  )
  t.equal(shop.payee.requests.length, 0, 'nothing was invoiced')
})

t.test('Storefront checkout | 400 | missing or blank X-Buyer-Location', async t => {
  const shop = await openShop(t)
  t.equal((await shop.send('POST', `${shop.base}/checkout`, { body: BODY })).status, 400)
  for (const location of [
    '',
    '  ',
    'US',
    'US-CA',
    'USA-CA-94103',
    'U-CA-94103',
    'US-CALI-94103',
    `US-CA-${'1'.repeat(21)}`,
    '1S-CA-94103',
    'ZZ-CA-94103'
  ]) {
    const answer = await shop.checkout({ headers: { 'x-buyer-location': location } })
    t.equal(answer.status, 400, location)
    t.match(answer.data, { error: 'Invalid buyer location', message: /X-Buyer-Location/ })
  }
  t.equal(shop.platform.calls.length, 0, 'no call was made')
})

t.test(
  'X-Buyer-Location | {country}-{state}-{zip}, with ZIP+4 and countries without states (decision 139)',
  async t => {
    const shop = await openShop(t)
    for (const [location, read] of [
      ['US-CA-94103', { country: 'US', state: 'CA', zip: '94103' }],
      ['us-ca-94103-1234', { country: 'US', state: 'CA', zip: '94103-1234' }],
      ['SG--018956', { country: 'SG', state: '', zip: '018956' }],
      ['HK--', { country: 'HK', state: '', zip: '' }],
      ['gb-eng-sw1a 1aa', { country: 'GB', state: 'ENG', zip: 'SW1A 1AA' }]
    ] as const) {
      const answer = await shop.checkout({ headers: { 'x-buyer-location': ` ${location} ` } })
      t.equal(answer.status, 402, location)
      t.same(shop.platform.taxQuestions.at(-1)?.location, read)
      t.same((await shop.orders.get(textOf(answer, 'orderId')))?.location, read)
    }
    t.same(shop.platform.taxQuestions.at(-1), {
      items: [
        { variantId: MUG, quantity: 2 },
        { variantId: SOCKS, quantity: 1 }
      ],
      location: { country: 'GB', state: 'ENG', zip: 'SW1A 1AA' },
      shippingCents: 490
    })
  }
)

t.test('Storefront checkout | 400 | credential for a disabled protocol', async t => {
  const shop = await openShop(t, { schemes: ['l402'] })
  const order = await shop.unpaid()
  t.equal(order.answer.headers.all('www-authenticate').length, 1)
  const answer = await shop.checkout({ headers: { authorization: order.pay('legacy') } })
  t.equal(answer.status, 400)
  t.match(answer.data, { error: 'Protocol disabled' })
  t.equal((await shop.checkout({ headers: { authorization: order.pay() } })).status, 200, 'the other one is valid')

  const other = await openShop(t, { schemes: ['payment'] })
  const unpaid = await other.unpaid()
  const preimage = other.payee.pay(textOf(unpaid.answer, 'invoice'))
  t.equal(
    (
      await other.checkout({
        headers: { authorization: `L402 ${textOf(unpaid.answer, 'macaroonBase64')}:${preimage}` }
      })
    ).status,
    400
  )
  t.equal((await other.checkout({ headers: { authorization: unpaid.pay('payment') } })).status, 200)
})

t.test('Storefront checkout | 404 | integration unknown; inactive, or its merchant is', async t => {
  const shop = await openShop(t)
  const order = await shop.unpaid()
  t.equal(
    (
      await shop.send('POST', '/api/storefront/nobody/checkout', {
        headers: { 'x-buyer-location': LOCATION },
        body: BODY
      })
    ).status,
    404
  )
  await shop.change(integration => ({ ...integration, isActive: false }))
  const answer = await shop.checkout()
  t.equal(answer.status, 404)
  t.match(answer.data, { error: 'Store not found' })
  t.equal((await shop.checkout({ headers: { authorization: order.pay() } })).status, 200, 'a paid buyer is served')
  await shop.change(integration => ({ ...integration, isActive: true }))
  await shop.deactivateMerchant()
  t.equal((await shop.checkout()).status, 404)
})

t.test(
  'Storefront checkout | 503 | a merchant whose subscription has lapsed sells nothing (decisions 36 and 93), and a paid buyer is served',
  async t => {
    const shop = await openShop(t)
    const order = await shop.unpaid()
    const paid = await shop.paid()
    await shop.cancelSubscription()
    const answer = await shop.checkout()
    t.equal(answer.status, 503)
    t.match(answer.data, { error: 'Store unavailable', correlationId: answer.ctx.correlationId, retryable: false })
    t.notMatch(answer.text, /subscription|plan|merchant/i, 'buyers see no account facts')
    t.equal(answer.headers.get('retry-after'), '60')
    t.equal(shop.payee.requests.length, 2, 'nothing was invoiced')
    t.equal((await shop.send('GET', `${shop.base}/catalog`)).status, 200, 'its goods are shown')
    const found = await shop.checkout({ headers: { authorization: order.pay() } })
    t.equal(found.status, 200, 'the payment is found')
    t.equal((await shop.claim(claimBody(tokenOf(found)))).status, 200, 'and claimed')
    t.equal((await shop.claim(claimBody(paid.claimToken))).status, 200)
  }
)

t.test(
  'Storefront checkout | 503 | a store without a provider key: waiting does not help, so it is not retryable',
  async t => {
    const shop = await openShop(t)
    shop.payee.fault = new ProviderKeyRequired()
    const answer = await shop.checkout()
    t.equal(answer.status, 503)
    t.match(answer.data, { error: 'Store unavailable', retryable: false })
  }
)

t.test('Storefront checkout | 503 | price feed unavailable (includes correlationId, retryable)', async t => {
  const shop = await openShop(t)
  shop.prices.fails = true
  const answer = await shop.checkout()
  t.equal(answer.status, 503)
  t.match(answer.data, { error: 'Price feed unavailable', correlationId: answer.ctx.correlationId, retryable: true })
  t.equal(answer.headers.get('retry-after'), '9')
  t.equal(shop.payee.requests.length, 0)
})

t.test(
  'Storefront checkout | 503 | tax calculation failed (retryable); no estimate path and no fallback to a stored default location',
  async t => {
    const shop = await openShop(t)
    for (const fault of ['away', 'throttled', 'credentials', 'refused'] as const) {
      shop.platform.faults.set('calculate', fault)
      const answer = await shop.checkout()
      t.equal(answer.status, 503, fault)
      t.match(answer.data, {
        error: 'Tax calculation failed',
        retryable: true,
        correlationId: answer.ctx.correlationId
      })
      t.equal(answer.headers.get('retry-after'), '7')
    }
    shop.platform.faults.delete('calculate')
    for (const cents of [-1, 1.5, Number.NaN]) {
      shop.platform.taxCents = cents
      const refused = await shop.checkout()
      t.equal(refused.status, 503, `${cents} is no tax`)
      t.match(refused.data, { error: 'Tax calculation failed', retryable: true })
    }
    t.equal(shop.payee.requests.length, 0)
    t.notOk(
      shop.platform.taxQuestions.some(question => question.location.state === 'NY'),
      'the default location is used nowhere (decision 145)'
    )
  }
)

t.test('Storefront checkout | 503 | whether the goods are there, or an invoice, cannot be had', async t => {
  const shop = await openShop(t)
  shop.platform.faults.set('available', 'away')
  t.match((await shop.checkout()).data, { error: 'Store unavailable', retryable: true })
  shop.platform.faults.delete('available')
  shop.payee.fault = new Error('the provider is down')
  const answer = await shop.checkout()
  t.equal(answer.status, 503)
  t.match(answer.data, { error: 'Payment provider unavailable', retryable: true })
  shop.payee.fault = null
  t.same(
    await shop.orders.list(shop.integration.merchantId, null, { limit: 10, offset: 0 }),
    [],
    'no order without an invoice'
  )
})

t.test("the price is the platform's of now, not the one that the catalog still shows", async t => {
  const shop = await openShop(t)
  const catalogs = shop.platform.calls.filter(call => call === 'catalog').length
  shop.platform.prices.set(MUG, 5000)
  const { answer, orderId } = await shop.unpaid()
  t.match(answer.data, {
    items: [
      { variantId: MUG, priceUsd: 50 },
      { variantId: SOCKS, priceUsd: 0.05 }
    ],
    subtotalUsd: 100.05,
    totalUsd: 106.18
  })
  t.match(await shop.orders.get(orderId), {
    subtotalCents: 10_005,
    tax: { isIncluded: false, lines: [{ title: 'State tax', rate: '0.0725', cents: 123 }] }
  })
  await shop.send('GET', `${shop.base}/catalog`)
  t.equal(shop.platform.calls.filter(call => call === 'catalog').length - catalogs, 2, 'and the catalog is read again')
  shop.platform.prices.clear()
  t.match((await shop.unpaid()).answer.data, { subtotalUsd: 40.03 })
})

t.test("shipping that hangs on the subtotal follows the platform's prices, and so does the tax on it", async t => {
  const shop = await openShop(t)
  await shop.change(integration => ({
    ...integration,
    shipping: { ...integration.shipping, freeEnabled: true, freeThresholdCents: 9000 }
  }))
  shop.platform.prices.set(MUG, 5000)
  const { answer } = await shop.unpaid()
  t.match(answer.data, { subtotalUsd: 100.05, shippingUsd: 0, taxUsd: 1.23 })
  t.same(
    shop.platform.taxQuestions.map(question => question.shippingCents),
    [490, 0]
  )
})

t.test('an order knows which of its goods are shipped, and its taxes by name', async t => {
  const shop = await openShop(t)
  shop.platform.digital.add(SOCKS)
  const { claimToken } = await shop.paid()
  t.equal((await shop.claim(claimBody(claimToken))).status, 200)
  t.match(shop.platform.made, [
    { items: [{ requiresShipping: true }, { requiresShipping: false }], tax: { lines: [{ title: 'State tax' }] } }
  ])
})

t.test('Storefront checkout retry | 400 | invalid body or preimage format', async t => {
  const shop = await openShop(t)
  const order = await shop.unpaid()
  const good = order.pay()
  for (const authorization of [
    `${good}0`,
    good.slice(0, -1),
    'L402 nothing',
    'Payment not/base64',
    `${good.split(':')[0] ?? ''}:0x${'0'.repeat(62)}`
  ]) {
    const answer = await shop.checkout({ headers: { authorization } })
    t.equal(answer.status, 400, authorization.slice(0, 30))
    t.match(answer.data, { error: 'Bad Request' })
  }
})

t.test('Storefront checkout retry | 401 | verification failed', async t => {
  const shop = await openShop(t)
  const order = await shop.unpaid()
  const good = order.pay()
  const [macaroon = '', preimage = ''] = good.slice('L402 '.length).split(':')
  const elsewhere = await openShop(t)
  const foreign = await elsewhere.unpaid()
  for (const [what, authorization] of [
    ['wrong preimage', `L402 ${macaroon}:${'0'.repeat(64)}`],
    ['changed macaroon', `L402 ${macaroon.slice(0, -6)}AAAAA=:${preimage}`],
    ['unknown caveat', `L402 ${narrowed(macaroon, 'colour=red')}:${preimage}`],
    ['narrowed to the claim', `L402 ${narrowed(macaroon, `path=${shop.base}/claim`)}:${preimage}`],
    ['another store', foreign.pay()],
    ['another store, by Payment', foreign.pay('payment')]
  ] as const) {
    const answer = await shop.checkout({ headers: { authorization } })
    t.equal(answer.status, 401, what)
    t.match(answer.data, { error: 'Unauthorized' })
    const isL402 = authorization.startsWith('L402')
    t.equal(answer.data['detail'], isL402 ? answer.data['message'] : undefined, what)
    t.same(answer.headers.all('x-l402-error'), isL402 ? [answer.data['message']] : [], what)
  }
  const mistaken = await shop.checkout({ headers: { authorization: `L402 ${macaroon}:${'0'.repeat(64)}` } })
  t.equal(mistaken.data['detail'], 'Preimage does not match payment hash')
  t.match(await shop.orders.get(order.orderId), { status: /^PendingPayment$/ })
  await shop.selling.revocations.revoke('payment', order.paymentHash)
  t.equal((await shop.checkout({ headers: { authorization: good } })).status, 401, 'revoked')
})

t.test('Storefront checkout retry | 404 | no order for this token', async t => {
  const shop = await openShop(t)
  const elsewhere = await openShop(t)
  const foreign = await elsewhere.unpaid()
  for (const authorization of [`Payment method="lightning", preimage="${'ab'.repeat(32)}"`, foreign.pay('legacy')]) {
    const answer = await shop.checkout({ headers: { authorization } })
    t.equal(answer.status, 404)
    t.match(answer.data, { error: 'Order not found' })
  }
  const order = await shop.unpaid()
  await shop.database.sql`delete from storefront_orders where id = ${order.orderId}`
  t.equal((await shop.checkout({ headers: { authorization: order.pay() } })).status, 404)
})

t.test('the macaroon of an order lives as long as its claim window (decision 136)', async t => {
  const shop = await openShop(t)
  await shop.change(integration => ({ ...integration, claimWindowDays: 2 }))
  const order = await shop.unpaid()
  const authorization = order.pay()
  shop.clock.advance(2 * DAY - 1000)
  t.equal((await shop.checkout({ headers: { authorization } })).status, 200, 'paying and returning next day works')
  t.equal((await shop.checkout({ headers: { authorization: order.pay('payment') } })).status, 200, 'by Payment too')
  shop.clock.advance(2000)
  t.equal((await shop.checkout({ headers: { authorization } })).status, 401)
  t.equal(
    (await shop.checkout({ headers: { authorization: order.pay('legacy') } })).status,
    404,
    'an unclaimed order can be read no longer'
  )
})

t.test('a foreign buyer at a domestic-only store is refused at checkout, before paying (decision 140)', async t => {
  const shop = await openShop(t)
  await shop.change(integration => ({ ...integration, shipping: { ...integration.shipping, domesticOnly: true } }))
  const answer = await shop.checkout({ headers: { 'x-buyer-location': 'CA-ON-K1A0A9' } })
  t.equal(answer.status, 400)
  t.match(answer.data, { error: 'Not shipped to this country', message: /US/ })
  t.equal((await shop.checkout()).status, 402)
  await shop.change(integration => ({ ...integration, shopCountry: null }))
  t.equal((await shop.checkout()).status, 400, 'a home that is not known is nowhere')
})

t.test('shipping is free from the threshold on, flat below it, abroad too (decision 141)', async t => {
  const shop = await openShop(t)
  const shipping = async (quantity: number) =>
    (
      await shop.checkout({
        body: { items: [{ variantId: MUG, quantity }] },
        headers: { 'x-buyer-location': 'DE--10115' }
      })
    ).data['shippingUsd']
  const set = (freeEnabled: boolean, freeThresholdCents: number | null) =>
    shop.change(integration => ({
      ...integration,
      shipping: { ...integration.shipping, freeEnabled, freeThresholdCents }
    }))
  t.equal(await shipping(2), 4.9)
  await set(true, 3998)
  t.equal(await shipping(1), 4.9)
  t.equal(await shipping(2), 0, 'at least the threshold')
  await set(true, null)
  t.equal(await shipping(1), 0, 'null is always')
  await set(false, 1)
  t.equal(await shipping(2), 4.9, 'a threshold alone is none')
})

t.test('totalSats is the total at the price of now, rounded up, and locked (decisions 47 and 142)', async t => {
  const shop = await openShop(t)
  shop.prices.price = '97531.24'
  const order = await shop.unpaid()
  t.equal(order.answer.data['totalSats'], Math.ceil((46.16 / 97531.24) * 1e8))
  shop.prices.price = '50000'
  t.equal((await shop.checkout({ headers: { authorization: order.pay() } })).status, 200)
  t.equal((await shop.orders.get(order.orderId))?.totalSats, order.answer.data['totalSats'])
})

t.test('PendingPayment | invoice expires | PendingPayment | a new checkout is required', async t => {
  const shop = await openShop(t)
  const first = await shop.unpaid()
  shop.clock.advance(700_000)
  const second = await shop.unpaid()
  t.not(second.orderId, first.orderId)
  t.match(await shop.orders.get(first.orderId), { status: /^PendingPayment$/ })
})

t.test(
  'a client that holds too many open invoices gets its last order again; one that was paid meanwhile is not handed out',
  async t => {
    const shop = await openShop(t, { maxPerClient: 2 })
    const from = '192.0.2.77'
    const ids: string[] = []
    for (let time = 0; time < 3; time++) {
      ids.push(textOf(await shop.checkout({ from }), 'orderId'))
      shop.clock.advance(1000)
    }
    t.not(ids[0], ids[1])
    t.equal(ids[2], ids[1], 'the newest of the same cart')
    t.not(
      textOf(await shop.checkout({ from, body: { items: [{ variantId: SOCKS, quantity: 3 }] } }), 'orderId'),
      ids[1],
      'another cart is another order'
    )
    t.not(
      textOf(await shop.checkout({ from, body: { ...BODY, email: 'other@example.com' } }), 'orderId'),
      ids[1],
      'so is another buyer'
    )
    const again = await shop.checkout({ from })
    const preimage = shop.payee.pay(textOf(again, 'invoice'))
    t.equal(
      tokenOf(await shop.checkout({ headers: { authorization: `Payment method="lightning", preimage="${preimage}"` } }))
        .length,
      43
    )
    const fresh = await shop.checkout({ from })
    t.equal(fresh.status, 402)
    t.notOk(ids.includes(textOf(fresh, 'orderId')), 'no client is asked to pay what is paid')
  }
)

t.test(
  'a client with too many open orders in a store is answered 429, whatever its carts, and no other buyer (decision 175)',
  async t => {
    const shop = await openShop(t, { maxPerClient: 3, maxPerPlace: 3 })
    const from = '192.0.2.78'
    const checkout = (quantity: number, email: string) =>
      shop.checkout({ from, body: { ...BODY, email, items: [{ variantId: SOCKS, quantity }] } })
    for (let time = 1; time <= 3; time++) t.equal((await checkout(time, `${time}@example.com`)).status, 402)
    t.equal((await checkout(4, 'four@example.com')).status, 429)
    t.equal((await shop.checkout()).status, 402, 'another buyer')
    const orders = await shop.orders.list(shop.integration.merchantId, null, { limit: 10, offset: 0 })
    t.equal(orders.length, 4)
  }
)
