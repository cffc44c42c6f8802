import t from 'tap'
import { MAXIMA, type Field } from '../../src/shop/pages/claim-form.ts'
import { StorePlatformError } from '../../src/shop/platform.ts'
import { addressOf } from '../payments/refunds/fixture.ts'
import { until } from '../support/until.ts'
import { BODY, claimBody, openShop, pageRequest, PUBLIC_URL, type Answered, type Shop } from './fixture.ts'
import { MUG } from './test-platform.ts'

const HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>\'&lt;</title></main><!--\u202e'
const EMAIL = 'ada@example.org'
const WITH_EMAIL = { ...BODY, email: EMAIL }

/** A form that can be claimed with. */
const GOOD: Readonly<Record<Field, string>> = {
  email: EMAIL,
  firstName: 'Ada',
  lastName: 'Lovelace',
  country: 'US',
  address1: '1 Market St',
  address2: '',
  city: 'San Francisco',
  province: 'CA',
  zip: '94110',
  phone: ''
}

/** The value of a field's input, or of the chosen country. An empty one is written as a name alone. */
function valueOf({ text }: Answered, field: Field) {
  if (field === 'country') return /<option value="([^"]*)" selected/.exec(text)?.[1]
  const tag = new RegExp(`<input id="${field}"(?: [a-z-]+(?:="[^"]*")?)*/>`).exec(text)?.[0]
  return / value="([^"]*)"/
    .exec(tag ?? '')?.[1]
    ?.replaceAll('&quot;', '"')
    .replaceAll('&lt;', '<')
    .replaceAll('&amp;', '&')
}

/** What is said beside a field. */
function errorOf({ text }: Answered, field: Field) {
  return new RegExp(`<p class="error" id="${field}-error">([^<]*)<`).exec(text)?.[1]
}

t.test('the page of a paid order is kept nowhere and loads nothing but its own', async t => {
  const shop = await openShop(t)
  const { claimToken, paymentHash } = await shop.paid()
  const form = await shop.page(claimToken)
  await shop.claim(claimBody(claimToken))
  for (const answer of [form, await shop.page(claimToken)]) {
    t.equal(answer.status, 200)
    for (const [name, value] of [
      ['content-type', 'text/html; charset=utf-8'],
      ['cache-control', 'no-store'],
      ['referrer-policy', 'no-referrer'],
      ['x-robots-tag', 'noindex, nofollow'],
      [
        'content-security-policy',
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
      ],
      ['set-cookie', undefined]
    ] as const)
      t.equal(answer.headers.get(name), value)
    t.notMatch(
      answer.text,
      /\sstyle=|<style|\son[a-z]+=|<script(?![^>]* src="\.\.\/\.\.\/assets\/shop-[0-9a-f]{12}\.js">)/,
      'nothing inline, which the policy would stop'
    )
    t.notMatch(answer.text, paymentHash, 'nothing of the payment')
  }
})

t.test("the form is prefilled from the order's location and email, and has the bill", async t => {
  const shop = await openShop(t)
  const page = await shop.page((await shop.paid(WITH_EMAIL)).claimToken)
  t.same(
    (['email', 'country', 'province', 'zip', 'firstName'] as const).map(field => valueOf(page, field) ?? ''),
    [EMAIL, 'US', 'CA', '94103', '']
  )
  for (const words of [
    'Corner shop',
    'Mug, Blue',
    '2 × $19.99',
    '$39.98',
    'Socks, M',
    '$0.05',
    '$4.90',
    '$1.23',
    '$46.16',
    '46,160\u00a0sats'
  ])
    t.match(page.text, words)
})

t.test('a claim makes the order of what was filled in; pressed twice, one is made and both see it', async t => {
  const shop = await openShop(t)
  const { claimToken } = await shop.paid()
  const presses = ['Ada', 'Ada', 'Bea'].map(firstName =>
    shop.page(claimToken, { ...GOOD, firstName, address2: '  Flat 2\r\n', phone: '+1 415 555 0100' })
  )
  for (const answer of [...(await Promise.all(presses)), await shop.page(claimToken, {})]) {
    t.equal(answer.status, 303)
    t.equal(answer.headers.get('location'), `claim?claimToken=${claimToken}`)
  }
  t.match(shop.platform.made, [
    {
      email: EMAIL,
      shippingAddress: {
        firstName: 'Ada',
        lastName: 'Lovelace',
        address1: '1 Market St',
        address2: 'Flat 2',
        city: 'San Francisco',
        province: 'CA',
        zip: '94110',
        country: 'US',
        phone: '+1 415 555 0100'
      }
    }
  ])
  t.equal(shop.platform.made.length, 1)
  const { text } = await shop.page(claimToken)
  t.match(text, 'Order #1001 is placed')
  t.notMatch(text, '<form')
})

t.test('each fault is beside its field, in a summary that links to it, and everything is kept', async t => {
  const shop = await openShop(t)
  const { claimToken } = await shop.paid()
  const given = { ...GOOD, email: 'not an address', lastName: '', zip: ' ', city: 'Ō "x" <b>&amp;', firstName: 'A\0' }
  const answer = await shop.page(claimToken, given)
  t.equal(answer.status, 400)
  for (const [field, words] of [
    ['email', 'Enter an email address like name@example.com.'],
    ['firstName', 'First name contains an invalid character. Enter it again.'],
    ['lastName', 'Enter a value for “Last name”.'],
    ['zip', 'Enter a value for “ZIP code”.']
  ] as const) {
    t.equal(errorOf(answer, field), words)
    t.match(answer.text, `<li><a href="#${field}">${words}</a></li>`)
    t.match(answer.text, new RegExp(`id="${field}"[^>]* aria-invalid="true" aria-describedby="${field}-error"`))
  }
  t.equal(answer.text.match(/class="error"/g)?.length, 4, 'and nothing else is wrong')
  t.match(answer.text, 'Check 4 fields')
  t.match(answer.text, '<title>Check your entries')
  for (const field of ['email', 'address1', 'city', 'country'] as const) t.equal(valueOf(answer, field), given[field])
  t.equal((await shop.send('POST', `/storefront/${shop.integration.slug}/claim?claimToken=${claimToken}`)).status, 400)
  t.equal(shop.platform.made.length, 0)
})

t.test('Limits | Shipping address: each field at its most characters is taken, one more is refused', async t => {
  const shop = await openShop(t)
  const longest = Object.entries(MAXIMA).map(([field, max]) => [
    field,
    field === 'country' ? 'US' : field === 'email' ? `${'a'.repeat(64)}@${'b'.repeat(max - 69)}.com` : '𝒳'.repeat(max)
  ])
  const { claimToken } = await shop.paid()
  const tooLong = await shop.page(claimToken, Object.fromEntries(longest.map(([field, value]) => [field, `${value}x`])))
  for (const [field, max] of Object.entries(MAXIMA) as Array<[Field, number]>) {
    if (field !== 'country') t.match(errorOf(tooLong, field), new RegExp(` can have at most ${max} characters\\.$`))
    t.match(tooLong.text, new RegExp(`id="${field}"`))
  }
  t.equal(valueOf(tooLong, 'zip'), `${'𝒳'.repeat(20)}x`, 'kept whole')
  t.equal((await shop.page(claimToken, Object.fromEntries(longest))).status, 303)
})

t.test('an address has the fields that its country needs', async t => {
  const shop = await openShop(t)
  const { claimToken } = await shop.paid()
  for (const [more, errors] of [
    [{ country: 'CA' }, ['Enter a value for “Province or territory”.', 'Enter a value for “Postal code”.']],
    [{ country: 'AU' }, ['Enter a value for “State or territory”.', 'Enter a value for “Postcode”.']],
    [{ country: 'DE' }, [undefined, 'Enter a value for “Postal code”.']],
    [{ country: '' }, [undefined, undefined]],
    [{ country: 'Atlantis' }, [undefined, undefined]]
  ] as const) {
    const answer = await shop.page(claimToken, { ...GOOD, province: '', zip: '', ...more })
    t.equal(answer.status, 400, more.country)
    t.same([errorOf(answer, 'province'), errorOf(answer, 'zip')], errors, more.country)
  }
  const emirates = await shop.page(claimToken, { ...GOOD, country: 'United Arab Emirates', province: '', zip: '' })
  t.equal(emirates.status, 303, 'has no ZIPs, and names are taken too')
  const ireland = await shop.checkout({ headers: { 'x-buyer-location': 'IE--' } })
  await shop.settle(String(ireland.data['paymentHash']))
  const order = await shop.orders.get(String(ireland.data['orderId']))
  const url = order === null ? null : shop.storefront.orders.claimPageUrl(shop.integration, order)
  const { text } = await shop.page(new URL(url ?? '').searchParams.get('claimToken') ?? '')
  t.match(text, '<span class="label-text">Eircode</span><span class="optional"> (optional)</span>')
  t.match(text, '<span class="label-text">County</span>')
  t.equal(text.match(/<option/g)?.length, 250, 'every country can be chosen')
})

t.test('a store that ships within its country offers no other (decision 140)', async t => {
  const shop = await openShop(t)
  const { claimToken } = await shop.paid()
  await shop.change(store => ({ ...store, shipping: { ...store.shipping, domesticOnly: true } }))
  const page = await shop.page(claimToken)
  t.equal(page.text.match(/<option/g)?.length, 1)
  t.equal(valueOf(page, 'country'), 'US')
  t.match(page.text, 'This shop only ships within United States.')
  const answer = await shop.page(claimToken, { ...GOOD, country: 'CA' })
  t.equal(answer.status, 400)
  t.equal(errorOf(answer, 'country'), 'This shop only ships within United States.')
})

t.test(
  'Storefront order | claim POST, storefront order creation fails | the page says so, and keeps the address to send again',
  async t => {
    const shop = await openShop(t)
    const { claimToken } = await shop.paid()
    shop.platform.faults.set('createOrder', 'throttled')
    const failed = await shop.page(claimToken, GOOD)
    t.equal(failed.status, 502)
    t.equal(failed.headers.get('retry-after'), '7')
    t.match(failed.text, 'Your order could not be placed.')
    t.equal(valueOf(failed, 'address1'), '1 Market St')
    t.notMatch(failed.text, /the shop says throttled|class="error"/)
    shop.platform.faults.delete('createOrder')
    shop.database.away = true
    t.equal((await shop.page(claimToken, GOOD)).status, 503)
    shop.database.away = false
    const gate = Promise.withResolvers<void>()
    shop.platform.gates.set('createOrder', gate.promise)
    const elsewhere = await shop.another()
    const other = elsewhere.send('POST', `${shop.base}/claim`, { body: claimBody(claimToken) })
    await until(() => shop.platform.made.length > 0)
    const running = await shop.page(claimToken, GOOD)
    t.equal(running.status, 503)
    t.equal(running.headers.get('retry-after'), '5')
    t.match(running.text, 'Your order is being placed.')
    t.equal(valueOf(running, 'address1'), '1 Market St')
    gate.resolve()
    await other
    t.equal((await shop.page(claimToken, GOOD)).status, 303)
    t.equal(shop.platform.made.length, 1)
  }
)

t.test('Storefront claim | 404 | unknown claim token or token of another store', async t => {
  const shop = await openShop(t)
  const { claimToken } = await shop.paid()
  const slug = `/storefront/${shop.integration.slug}/claim`
  for (const path of [
    `/storefront/nobody/claim?claimToken=${claimToken}`,
    `/storefront/${(await openShop(t)).integration.slug}/claim?claimToken=${claimToken}`,
    ...['x'.repeat(43), 'x', encodeURIComponent(HOSTILE)].map(token => `${slug}?claimToken=${token}`),
    slug
  ]) {
    const answer = await shop.send('GET', path)
    t.equal(answer.status, 404, path)
    t.match(answer.text, 'Order not found')
    t.equal(answer.headers.get('cache-control'), 'no-store')
    t.notMatch(answer.text, /x{43}|alert/, 'it repeats nothing')
  }
  t.equal((await shop.page('x'.repeat(43), GOOD)).status, 404)
})

t.test(
  "afterwards the same address shows the order's state and tracking (contract: it remains valid as a read credential)",
  async t => {
    const shop = await openShop(t)
    const { orderId, claimToken } = await shop.paid()
    await shop.page(claimToken, GOOD)
    const { platformOrderId } = (await shop.orders.get(orderId)) ?? {}
    const tracking = { number: '1Z999', carrier: 'UPS', url: 'https://track.example/?n=1Z999&a="b' }
    let text = ''
    for (const [progress, heading, done] of [
      [{}, 'Order #1001 is placed', 2],
      [{ isFulfilled: true }, 'Your order is packed', 3],
      [{ isFulfilled: true, isShipped: true, tracking }, 'Your order has shipped', 4]
    ] as const) {
      shop.platform.progress.set(platformOrderId ?? '', progress)
      shop.clock.advance(3_600_000)
      await shop.storefront.fulfilments.poll()
      text = (await shop.page(claimToken)).text
      t.match(text, heading)
      t.equal(text.match(/class="step done"/g)?.length, done, heading)
      t.equal(text.match(/aria-current="step"/g)?.length ?? 0, done === 4 ? 0 : 1)
      t.equal(
        text.includes('<noscript><meta http-equiv="refresh" content="30"/></noscript>'),
        done < 4,
        'it looks again while something may change'
      )
      t.equal(text.includes('data-follow'), done < 4)
    }
    for (const words of ['UPS', '1Z999', 'href="https://track.example/?n=1Z999&amp;a=%22b"']) t.match(text, words)
  }
)

t.test('texts of merchants and buyers never become markup', async t => {
  const shop = await openShop(t)
  await shop.change(store => ({ ...store, shopName: HOSTILE }))
  const variants = [{ variantId: MUG, title: HOSTILE, priceCents: 1, available: true }]
  const product = { productId: 1, title: HOSTILE, description: HOSTILE, variants }
  shop.platform.goods = { storeName: HOSTILE, products: [{ ...product, imageUrl: `https://x.example/${HOSTILE}` }] }
  const { orderId, claimToken } = await shop.paid({ items: [{ variantId: MUG, quantity: 1 }] })
  const pages = [
    await shop.send('GET', `/storefront/${shop.integration.slug}`),
    await shop.page(claimToken),
    await shop.page(claimToken, Object.fromEntries(Object.keys(GOOD).map(field => [field, HOSTILE])))
  ]
  await shop.page(claimToken, GOOD)
  pages.push(await shop.page(claimToken))
  shop.platform.progress.set((await shop.orders.get(orderId))?.platformOrderId ?? '', {
    isShipped: true,
    tracking: { number: HOSTILE, carrier: HOSTILE, url: `https://x.example/${HOSTILE}` }
  })
  shop.clock.advance(3_600_000)
  await shop.storefront.fulfilments.poll()
  pages.push(await shop.page(claimToken))
  for (const { text } of pages) {
    t.notMatch(text, '<script>')
    t.notMatch(text, /<img(?! src="https:\/\/x\.example\/)/)
    t.notMatch(text, '<!--')
    t.equal(text.split('</title>').length, 2)
    t.equal(text.split('</main>').length, 2)
    t.match(text, '&lt;script>alert(1)&lt;/script>')
  }
})

t.test("a store's page shows what it sells, and how people and agents buy", async t => {
  const shop = await openShop(t)
  const path = `/storefront/${shop.integration.slug}`
  await shop.change(store => ({
    ...store,
    shipping: { domesticCents: 500, domesticOnly: false, freeEnabled: true, freeThresholdCents: 5000 }
  }))
  const product = shop.platform.goods.products[0]
  const pictured = (imageUrl: string) => ({
    ...product,
    productId: 9,
    title: 'Mug',
    description: '',
    imageUrl,
    variants: []
  })
  shop.platform.goods = {
    ...shop.platform.goods,
    products: [
      ...shop.platform.goods.products,
      ...['http://plain.example/c.png', 'javascript:alert(1)', 'https://odd;script-src.example/d.png'].map(pictured)
    ]
  }
  const answer = await shop.send('GET', path)
  t.equal(answer.status, 200)
  for (const words of [
    'Corner shop',
    'Holds coffee.',
    '$19.99',
    '$0.05 · sold out',
    'Ships worldwide for $5.00, free from $50.00.',
    `${PUBLIC_URL}/api${path}/llms.txt`,
    `href="../api${path}/llms.txt"`,
    '<img src="https://cdn.example/mug.png" alt loading="lazy" decoding="async" referrerpolicy="no-referrer"/>'
  ])
    t.match(answer.text, words)
  t.notMatch(answer.text, '<script')
  t.equal(answer.text.match(/<img /g)?.length, 1)
  t.match(
    answer.headers.get('content-security-policy'),
    "img-src 'self' data: https://cdn.example; base-uri 'none'; form-action 'self'",
    'pictures come from where the shop has them, and from nowhere else'
  )
  t.equal((await shop.send('GET', '/storefront/nobody')).status, 404)
  await shop.change(store => ({ ...store, isActive: false }))
  t.equal((await shop.send('GET', path)).status, 404)
  const down = await openShop(t)
  down.platform.faults.set('catalog', 'away')
  const unavailable = await down.send('GET', `/storefront/${down.integration.slug}`)
  t.equal(unavailable.status, 503)
  t.equal(unavailable.headers.get('retry-after'), '7')
})

t.test('an order that the shop refused: the page says why, and takes in where the money should go', async t => {
  const shop: Shop = await openShop(t)
  const { orderId, claimToken } = await shop.paid()
  t.notMatch((await shop.page(claimToken)).text, 'refundAddress', 'nothing of it where there is no need')
  shop.platform.faults.set(
    'createOrder',
    new StorePlatformError('refused', 'Unable to reserve <inventory>', { isSoldOut: true })
  )
  for (const page of [await shop.page(claimToken, GOOD), await shop.page(claimToken)]) {
    t.match(page.text, 'The store has not enough of it left.')
    t.notMatch(page.text, 'inventory', "the platform's own words are the merchant's")
    t.match(page.text, `action="claim-refund?claimToken=${claimToken}"`)
  }
  const ask = (refundAddress: string, token = claimToken) =>
    shop.send(
      ...pageRequest(`/storefront/${shop.integration.slug}/claim-refund?claimToken=${token}`, { refundAddress })
    )
  const wrong = await ask(HOSTILE.padEnd(30))
  t.equal(wrong.status, 400)
  t.match(wrong.text, 'id="refundAddress-error"')
  t.match(wrong.text, '&lt;script>alert(1)', 'the fields keep their values')
  const response = await ask(` ${addressOf()} `)
  t.equal(response.status, 303)
  t.equal(response.headers.get('location'), `claim?claimToken=${claimToken}`)
  const after = (await shop.page(claimToken)).text
  for (const words of ['Refund requested', addressOf(), 'Place order']) t.match(after, words)
  t.equal((await ask(addressOf(), 'A'.repeat(43))).status, 404)
  await shop.database.sql`update storefront_orders set refunded_at = now() where id = ${orderId}`
  const back = (await shop.page(claimToken)).text
  t.match(back, 'Your payment has been refunded')
  t.notMatch(back, 'Place order')
})
