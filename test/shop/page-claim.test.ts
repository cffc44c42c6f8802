import t from 'tap'
import { LongError, Unavailable, ValidationError } from '../../src/engine/operations/errors.ts'
import { MAXIMA, type Field } from '../../src/shop/pages/claim-form.ts'
import { ALREADY_CLAIMED } from '../../src/shop/orders/placement.ts'
import { CATALOG, GOOD, PageWorld, servePages, anIntegration } from './page-world.ts'

const world = new PageWorld()
const { send, post, get } = await servePages(t, world)
const HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>\'&lt;</title></main><!--\u202e'

function unescaped(text: string) {
  return text.replaceAll('&quot;', '"').replaceAll('&lt;', '<').replaceAll('&amp;', '&')
}

/** The value of a field's input, or of the chosen country. An empty one is written as a name alone. */
function valueOf(page: string, field: Field) {
  if (field === 'country') return /<option value="([^"]*)" selected/.exec(page)?.[1]
  const tag = new RegExp(`<input id="${field}"(?: [a-z-]+(?:="[^"]*")?)*/>`).exec(page)?.[0]
  return tag === undefined ? undefined : unescaped(/ value="([^"]*)"/.exec(tag)?.[1] ?? '')
}

/** What is said beside a field. */
function errorOf(page: string, field: Field) {
  return new RegExp(`<p class="error" id="${field}-error">([^<]*)<`).exec(page)?.[1]
}

t.test('the page of a paid order is kept nowhere and loads nothing but its own', async t => {
  for (const status of ['PaidAwaitingDetails', 'PaidWithDetails', 'Fulfilled', 'Shipped'] as const) {
    const answer = await get(world.add({ status }))
    t.equal(answer.status, 200)
    t.equal(answer.headers['content-type'], 'text/html; charset=utf-8')
    t.equal(answer.headers['cache-control'], 'no-store')
    t.equal(answer.headers['referrer-policy'], 'no-referrer')
    t.match(answer.headers['x-robots-tag'], /\bnoindex\b/)
    t.equal(
      answer.headers['content-security-policy'],
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
    t.equal(answer.headers['set-cookie'], undefined, 'the token is all the authority there is')
    t.notMatch(
      answer.text,
      /\sstyle=|<style|\son[a-z]+=|<script(?![^>]* src="\.\.\/\.\.\/assets\/shop-[0-9a-f]{12}\.js">)/,
      'nothing inline, which the policy would stop'
    )
    for (const [, name = ''] of answer.text.matchAll(/"\.\.\/\.\.(\/assets\/[^"]+)"/g))
      t.equal((await send('GET', name)).status, 200, name)
    t.notMatch(answer.text, /ab{32}/, 'nothing of the payment')
  }
})

t.test("the form is prefilled from the order's location and email, with the contract's maxima", async t => {
  const { text } = await get(world.add())
  t.same(
    ['email', 'country', 'province', 'zip', 'firstName'].map(field => valueOf(text, field as Field)),
    ['ada@example.org', 'US', 'CA', '94110', '']
  )
  for (const [field, max] of [
    ['firstName', 200],
    ['lastName', 200],
    ['address1', 500],
    ['address2', 500],
    ['city', 100],
    ['province', 100],
    ['zip', 20],
    ['phone', 30]
  ] as const) {
    t.match(text, new RegExp(`<input id="${field}"[^>]* maxlength="${max}"`), field)
  }
  for (const words of [
    'Corner Mugs',
    'Coin mug, Small',
    '2 × $12.50',
    '$25.00',
    '>Sticker pack<',
    '$4.20',
    '$5.00',
    '$2.48',
    '$36.68',
    '36,680\u00a0sats',
    'December 21, 2026'
  ])
    t.match(text, words)
  t.notMatch(text, 'Default Title')
})

t.test(
  'a claim: the order is made of what was filled in, and the page is looked at again at its own address',
  async t => {
    const token = world.add()
    world.claimed.length = 0
    const answer = await post(token, { ...GOOD, address2: '  Flat 2\r\n', phone: '+1 415 555 0100' })
    t.equal(answer.status, 303)
    t.equal(answer.headers['location'], `claim?claimToken=${token}`)
    t.equal(answer.text, '')
    t.same(world.claimed, [
      {
        claimToken: token,
        email: 'ada@example.org',
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
    const { text } = await get(token)
    t.match(text, 'Order #1001 is placed')
    t.notMatch(text, '<form')
  }
)

t.test('pressed twice, one order is made and both see it', async t => {
  const token = world.add()
  world.claimed.length = 0
  const { promise, resolve } = Promise.withResolvers<undefined>()
  world.gate = promise
  const presses = [post(token, GOOD), post(token, GOOD), post(token, { ...GOOD, firstName: 'Bea' })]
  resolve(undefined)
  for (const answer of await Promise.all(presses))
    t.match(answer, { status: 303, headers: { location: `claim?claimToken=${token}` } })
  t.equal(world.claimed.length, 1)
  t.equal((await post(token, {})).status, 303, 'later too, whatever is in the form')
  t.equal(world.claimed.length, 1)
})

t.test('each fault is beside its field, in a summary that links to it, and everything is kept', async t => {
  const token = world.add()
  world.claimed.length = 0
  const given: Record<string, string> = {
    ...GOOD,
    email: 'not an address',
    lastName: '',
    zip: ' ',
    city: 'Ō "x" <b>&amp;'
  }
  const answer = await post(token, given)
  t.equal(answer.status, 400)
  t.equal(world.claimed.length, 0)
  const expected: ReadonlyArray<readonly [Field, string]> = [
    ['email', 'Enter an email address like name@example.com.'],
    ['lastName', 'Enter your last name.'],
    ['zip', 'Enter a value for “ZIP code”.']
  ]
  for (const [field, words] of expected) {
    t.equal(errorOf(answer.text, field), words)
    t.match(answer.text, `<li><a href="#${field}">${words}</a></li>`)
    t.match(answer.text, new RegExp(`id="${field}"[^>]* aria-invalid="true" aria-describedby="${field}-error"`))
  }
  t.equal(answer.text.match(/class="error"/g)?.length, 3, 'and nothing else is wrong')
  t.match(answer.text, 'Check 3 fields')
  t.match(answer.text, '<title>Check your entries')
  for (const field of ['email', 'firstName', 'address1', 'city', 'country'] as const)
    t.equal(valueOf(answer.text, field), given[field], field)
})

t.test('Limits | Shipping address: each field at its most characters is taken, one more is refused', async t => {
  for (const [field, max] of Object.entries(MAXIMA) as Array<[Field, number]>) {
    if (field === 'country') continue
    const longest = field === 'email' ? `${'a'.repeat(64)}@${'b'.repeat(max - 69)}.com` : '𝒳'.repeat(max)
    const token = world.add()
    const tooLong = await post(token, { ...GOOD, [field]: `${longest}x` })
    t.equal(tooLong.status, 400, field)
    t.match(errorOf(tooLong.text, field), new RegExp(` can have at most ${max} characters\\.$`))
    t.equal(valueOf(tooLong.text, field), `${longest}x`, 'kept whole')
    t.equal((await post(token, { ...GOOD, [field]: longest })).status, 303, `${field}: ${max}`)
  }
})

t.test('an address has the fields that its country needs', async t => {
  const cases: ReadonlyArray<readonly [string, Record<string, string>, Partial<Record<Field, string>>]> = [
    [
      'Canada',
      { country: 'CA', province: '', zip: '' },
      { province: 'Enter a value for “Province or territory”.', zip: 'Enter a value for “Postal code”.' }
    ],
    [
      'Australia',
      { country: 'AU', province: '', zip: '' },
      { province: 'Enter a value for “State or territory”.', zip: 'Enter a value for “Postcode”.' }
    ],
    [
      'Germany has no states on parcels',
      { country: 'DE', province: '', zip: '' },
      { zip: 'Enter a value for “Postal code”.' }
    ],
    ['the Emirates have no ZIPs', { country: 'AE', province: '', zip: '' }, {}],
    ['names are taken too', { country: 'united states', province: 'CA' }, {}],
    ['no country', { country: '' }, { country: 'Choose a country.' }],
    ["nobody's country", { country: 'Atlantis' }, { country: 'Choose a country from the list.' }]
  ]
  for (const [name, more, errors] of cases) {
    const answer = await post(world.add(), { ...GOOD, ...more })
    t.equal(answer.status, Object.keys(errors).length === 0 ? 303 : 400, name)
    for (const [field, words] of Object.entries(errors)) t.equal(errorOf(answer.text, field as Field), words, name)
  }
  const page = (await get(world.add({ location: { country: 'IE', state: '', zip: '' } }))).text
  t.match(page, '<span class="label-text">Eircode</span><span class="optional"> (optional)</span>')
  t.match(page, '<span class="label-text">County</span>')
  t.equal(page.match(/<option/g)?.length, 250, 'every country can be chosen')
})

t.test('a store that ships within its country offers no other (decision 140)', async t => {
  world.integration = anIntegration({
    shipping: { domesticCents: 0, domesticOnly: true, freeEnabled: false, freeThresholdCents: null },
    shopCountry: 'CA'
  })
  t.teardown(() => {
    world.integration = anIntegration()
  })
  const token = world.add()
  const { text } = await get(token)
  t.equal(text.match(/<option/g)?.length, 1)
  t.equal(valueOf(text, 'country'), 'CA')
  t.match(text, 'This shop only ships within Canada.')
  const answer = await post(token, GOOD)
  t.equal(answer.status, 400)
  t.equal(errorOf(answer.text, 'country'), 'This shop only ships within Canada.')
})

t.test(
  'Storefront order | claim POST, storefront order creation fails | the page says so, keeps the address, and tries again',
  async t => {
    const token = world.add()
    world.claimed.length = 0
    t.teardown(() => {
      world.refusal = null
    })
    for (const refusal of [
      new LongError(502, 'Store order failed', 'secret words of the store'),
      new Unavailable('Store unavailable', 'secret words of the store', 7)
    ]) {
      world.refusal = refusal
      const answer = await post(token, { ...GOOD, address2: HOSTILE.slice(0, 60) })
      world.away = false
      t.equal(answer.status, refusal.status)
      t.match(answer.text, 'Your order could not be placed')
      t.match(answer.text, '>Try again</button>')
      t.match(answer.text, 'San Francisco, CA, 94110')
      t.notMatch(answer.text, 'secret words')
      t.equal(answer.headers['retry-after'], refusal.status === 503 ? '7' : undefined)
      world.refusal = null
      const kept = Object.fromEntries(
        [...answer.text.matchAll(/<input type="hidden" name="([^"]+)" value(?:="([^"]*)")?/g)].map(
          ([, name = '', value = '']) => [name, unescaped(value)]
        )
      )
      t.same(kept, { ...GOOD, address2: HOSTILE.slice(0, 60) }, 'everything is sent again')
      const changing = await post(token, { ...kept, change: '1' })
      t.equal(changing.status, 200)
      t.equal(valueOf(changing.text, 'address1'), '1 Market St')
      t.notMatch(changing.text, 'class="error"')
      t.equal(world.claimed.length, 0, 'nothing is claimed by changing the address')
    }
    t.equal((await post(token, GOOD)).status, 303)
    t.equal(world.claimed.length, 1)
  }
)

t.test('while another process makes the order, the page says so and keeps the address', async t => {
  t.teardown(() => {
    world.refusal = null
  })
  world.refusal = new LongError(400, ALREADY_CLAIMED, 'secret words')
  const answer = await post(world.add(), GOOD)
  t.equal(answer.status, 503)
  t.equal(answer.headers['retry-after'], '5')
  t.match(answer.text, 'Your order is being placed')
  t.match(answer.text, '<input type="hidden" name="address1" value="1 Market St"/>')
  t.notMatch(answer.text, 'secret words')
})

t.test('errors of the claim itself are shown above the form, or beside the fields that they name', async t => {
  t.teardown(() => {
    world.refusal = null
  })
  const token = world.add()
  world.refusal = new LongError(400, 'Not claimable', "The state is not one of the country's.")
  const whole = await post(token, GOOD)
  t.equal(whole.status, 400)
  t.match(whole.text, "The state is not one of the country's.")
  t.equal(valueOf(whole.text, 'address1'), '1 Market St')
  world.refusal = new ValidationError({
    'ShippingAddress.Zip': ['Must be shorter.'],
    Email: ['Must be a valid email.']
  })
  const fields = await post(token, GOOD)
  t.equal(errorOf(fields.text, 'zip'), 'Must be shorter.')
  t.equal(errorOf(fields.text, 'email'), 'Must be a valid email.')
  world.refusal = new LongError(404, 'Order not found', 'Gone.')
  world.forget(token)
  t.equal((await post(token, GOOD)).status, 404, 'its time was over meanwhile')
})

t.test('Storefront claim | 404 | unknown claim token or token of another store: a page of its own', async t => {
  const token = world.add()
  const other = await send('GET', `/storefront/other/claim?claimToken=${token}`)
  const pending = world.add({ status: 'PendingPayment' })
  const unknown = 'x'.repeat(43)
  for (const [name, answer] of [
    ['another store', other],
    ['unknown', await get(unknown)],
    ['unpaid', await get(pending)],
    ['too short', await get('x')],
    ['none', await send('GET', '/storefront/mugs/claim')],
    ['hostile', await get(encodeURIComponent(HOSTILE))],
    ['posted', await post(unknown, GOOD)]
  ] as const) {
    t.equal(answer.status, 404, name)
    t.match(answer.text, 'Order not found')
    t.equal(answer.headers['cache-control'], 'no-store')
    t.notMatch(answer.text, /x{43}|alert/, 'it repeats nothing')
  }
})

t.test('a body that no browser sends is refused before anything is read', async t => {
  const token = world.add()
  world.claimed.length = 0
  const path = `/storefront/mugs/claim?claimToken=${token}`
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  for (const type of [
    'application/json',
    'multipart/form-data; boundary=x',
    'text/plain',
    'application/x-www-form-urlencoded; charset=latin1',
    ''
  ]) {
    t.equal(
      (await send('POST', path, { headers: type === '' ? {} : { 'content-type': type }, body: 'email=a' })).status,
      415,
      type
    )
  }
  t.equal((await send('POST', path, { headers: { ...form, 'content-encoding': 'gzip' }, body: 'email=a' })).status, 415)
  t.equal((await send('POST', path, { headers: form, body: `email=${'a'.repeat(65_536)}` })).status, 413)
  for (const [body, why] of [
    ['email=a&email=b', 'it has a field twice'],
    ['email=%zz', 'a percent sign'],
    ['email=%ff', 'a percent sign'],
    ['x&'.repeat(33), 'more than 32 parts'],
    [new Uint8Array([0x61, 0xff]), 'not UTF-8']
  ] as const) {
    const answer = await send('POST', path, { headers: form, body })
    t.equal(answer.status, 400)
    t.match(answer.json(), { error: new RegExp(why) })
  }
  const odd = await post(token, new URLSearchParams({ ...GOOD, firstName: 'A\u0000da' }).toString())
  t.equal(odd.status, 400)
  t.match(errorOf(odd.text, 'firstName'), 'contains an invalid character')
  t.equal(
    (
      await send('POST', path, {
        headers: { 'content-type': 'Application/X-WWW-Form-Urlencoded; charset=UTF-8' },
        body: new URLSearchParams(GOOD).toString()
      })
    ).status,
    303
  )
  t.equal(world.claimed.length, 1)
})

t.test(
  "afterwards the same address shows the order's state and tracking (contract: it remains valid as a read credential)",
  async t => {
    const token = world.add({
      status: 'PaidWithDetails',
      claimedAt: Date.parse('2026-11-21T09:15:00Z'),
      orderNumber: '#1001'
    })
    const cases = [
      [{}, 'Order #1001 is placed', 2],
      [{ status: 'Fulfilled', fulfilledAt: Date.parse('2026-11-22T08:00:00Z') }, 'Your order is packed', 3],
      [
        {
          status: 'Shipped',
          shippedAt: Date.parse('2026-11-22T10:00:00Z'),
          tracking: { number: '1Z999', carrier: 'UPS', url: 'https://track.example/?n=1Z999&a="b' }
        },
        'Your order has shipped',
        4
      ]
    ] as const
    for (const [more, heading, done] of cases) {
      world.change(token, more)
      const { text } = await get(token)
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
    const { text } = await get(token)
    for (const words of [
      'UPS',
      '1Z999',
      'href="https://track.example/?n=1Z999&amp;a=%22b"',
      'Nov 22, 2026, 10:00 UTC',
      'Nov 21, 2026, 09:15 UTC'
    ])
      t.match(text, words)
    world.change(token, { tracking: { number: '1', carrier: null, url: 'javascript:alert(1)' } })
    t.notMatch((await get(token)).text, /javascript:|Track package/)
  }
)

t.test('texts of merchants and buyers never become markup', async t => {
  world.integration = anIntegration({ shopName: HOSTILE })
  t.teardown(() => {
    world.integration = anIntegration()
  })
  const item = {
    variantId: 1,
    productTitle: HOSTILE,
    variantTitle: HOSTILE,
    quantity: 1,
    priceCents: 1,
    requiresShipping: true
  }
  const tracking = { number: HOSTILE, carrier: HOSTILE, url: `https://x.example/${HOSTILE}` }
  const token = world.add({ items: [item], email: HOSTILE, location: { country: 'US', state: HOSTILE, zip: HOSTILE } })
  const pages = [
    (await get(token)).text,
    (await post(token, Object.fromEntries(Object.keys(GOOD).map(field => [field, HOSTILE])))).text
  ]
  world.catalog = {
    storeName: HOSTILE,
    products: [
      {
        productId: 1,
        title: HOSTILE,
        description: HOSTILE,
        imageUrl: `https://x.example/${HOSTILE}`,
        variants: [{ variantId: 1, title: HOSTILE, priceCents: 1, available: true }]
      }
    ]
  }
  t.teardown(() => {
    world.catalog = CATALOG
  })
  pages.push((await send('GET', '/storefront/mugs')).text)
  for (const status of ['PaidWithDetails', 'Fulfilled', 'Shipped'] as const)
    pages.push((await get(world.add({ status, items: [item], orderNumber: HOSTILE, tracking }))).text)
  for (const page of pages) {
    t.notMatch(page, '<script>')
    t.notMatch(page, /<img(?! src="https:\/\/x\.example\/)/)
    t.notMatch(page, '<!--')
    t.equal(page.split('</title>').length, 2)
    t.equal(page.split('</main>').length, 2)
    t.match(page, '&lt;script>alert(1)&lt;/script>')
  }
})

t.test("a store's page shows what it sells, and how people and agents buy", async t => {
  const answer = await send('GET', '/storefront/mugs')
  t.equal(answer.status, 200)
  for (const words of [
    'Corner Mugs',
    'Coin mug',
    'Holds coffee, not keys.',
    '$12.50',
    '$15.90 · sold out',
    'Ships worldwide for $5.00, free from $50.00.',
    'https://gateway.example/api/storefront/mugs/llms.txt',
    'href="../api/storefront/mugs/llms.txt"'
  ])
    t.match(answer.text, words)
  t.notMatch(answer.text, /Default Title|<script/)
  t.match(answer.headers['content-security-policy'], "img-src 'self' data:; base-uri 'none'; form-action 'self'")
  t.equal((await send('HEAD', '/storefront/mugs')).status, 200)
})

t.test('pictures of products come from where the shop has them, and from nowhere else', async t => {
  const product = (imageUrl: string) => ({ productId: 1, title: 'A', description: '', imageUrl, variants: [] })
  world.catalog = {
    storeName: 'A',
    products: [
      'https://cdn.example/a.png?v=1',
      'https://cdn.example/b.png',
      'http://plain.example/c.png',
      'javascript:alert(1)',
      'https://odd;script-src.example/d.png',
      'nonsense'
    ].map(product)
  }
  t.teardown(() => {
    world.catalog = CATALOG
  })
  const answer = await send('GET', '/storefront/mugs')
  t.match(answer.headers['content-security-policy'], "; img-src 'self' data: https://cdn.example; base-uri")
  t.equal(answer.text.match(/<img /g)?.length, 2)
  t.match(
    answer.text,
    '<img src="https://cdn.example/a.png?v=1" alt loading="lazy" decoding="async" referrerpolicy="no-referrer"/>'
  )
})

t.test('a store that is closed or unknown is not found, and one whose platform is down says so', async t => {
  t.teardown(() => {
    world.integration = anIntegration()
    world.catalog = CATALOG
  })
  t.match(await send('GET', '/storefront/nobody'), { status: 404, text: 'Shop not found' })
  world.catalog = new Unavailable('Catalog unavailable', 'secret words', 9)
  const unavailable = await send('GET', '/storefront/mugs')
  t.match(unavailable, { status: 503, headers: { 'retry-after': '9' }, text: 'Back soon' })
  t.notMatch(unavailable.text, 'secret words')
  world.integration = anIntegration({ isActive: false })
  t.match(await send('GET', '/storefront/mugs'), { status: 404, text: 'Shop not found' })
  const token = world.add()
  t.equal((await get(token)).status, 200, 'a client that has paid can still claim')
})

t.test('an order that the shop refused: the page says why, and takes in where the money should go', async t => {
  const address = 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080'
  const failure = { reason: 'sold_out', message: 'Unable to reserve <inventory>', at: 0 } as const
  t.notMatch((await get(world.add())).text, 'refundAddress', 'nothing of it where there is no need')
  const token = world.add({ failure })
  const page = await get(token)
  t.match(page.text, 'The store has not enough of it left.')
  t.notMatch(page.text, 'inventory', "the platform's own words are the merchant's")
  t.match(page.text, `action="claim-refund?claimToken=${token}"`)
  const ask = (refundAddress: string, of = token) =>
    send('POST', `/storefront/mugs/claim-refund?claimToken=${of}`, {
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ refundAddress }).toString()
    })
  const short = await ask('bc1')
  t.equal(short.status, 400)
  t.match(short.text, 'Enter a Bitcoin address or a Lightning invoice.')
  t.match(short.text, 'value="bc1"', 'the fields keep their values')
  world.refusal = new LongError(400, 'Invalid refund address', 'It is <b>for</b> mainnet.')
  t.match((await ask(HOSTILE.padEnd(30))).text, 'It is &lt;b>for&lt;/b> mainnet.')
  world.refusal = null
  const response = await ask(` ${address} `)
  t.equal(response.status, 303)
  t.equal(response.headers['location'], `claim?claimToken=${token}`)
  const after = await get(token)
  t.match(after.text, 'Refund requested')
  t.match(after.text, address)
  t.match(after.text, 'Place order', 'until it goes back the order can be placed')
  t.equal((await ask(address, 'A'.repeat(43))).status, 404)
  world.change(token, { refundedAt: 1 })
  const back = await get(token)
  t.match(back.text, 'Your payment has been refunded')
  t.notMatch(back.text, 'Place order')
})

t.test('a claim that the shop refuses permanently shows why on the page from which it can be sent again', async t => {
  const token = world.add({ failure: { reason: 'sold_out', message: 'gone', at: 0 } })
  world.refusal = new LongError(502, 'Store order failed', 'x', { reason: 'sold_out' }, ['Retry-After', '5'])
  const answer = await post(token, GOOD)
  world.refusal = null
  t.equal(answer.status, 502)
  t.match(answer.text, 'The store has not enough of it left.')
  t.match(answer.text, 'claim-refund?claimToken=')
})
