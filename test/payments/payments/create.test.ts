import t from 'tap'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { NoPrices } from '../../../src/lightning/money/prices.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { anInput, fixture, type Reply } from './fixture.ts'
import { until } from '../../support/until.ts'

/** The fields that a validation problem names. */
function fieldsOf(reply: Reply) {
  return reply.type?.startsWith('application/problem+json') === true ? Object.keys(reply.data['errors'] as object) : []
}

void t.test('the rules of the create body', async t => {
  const { call, merchant } = await fixture(t)
  const acme = await merchant()
  const long = (length: number) => 'x'.repeat(length)
  const pairs = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, 'v']))

  const good: Array<[name: string, body: object]> = [
    ['orderId | string | yes | 1-100 chars: 1', { orderId: '#' }],
    ['orderId | string | yes | 1-100 chars: 100', { orderId: long(100) }],
    ['orderId | any characters (decision 52)', { orderId: ' a/b%2F?#ü\n💣 ' }],
    ['amount | decimal | yes | 0 = demo invoice', { amount: 0 }],
    ['amount | a decimal string too (decision 4)', { amount: '0.00012' }],
    ['BTC amounts are decimals with up to 8 places', { amount: 0.00000001 }],
    ['amount | at most 21,000,000 BTC (decision 46)', { amount: '21000000' }],
    ['amount | at most 100,000,000 of the others (decision 46)', { amount: 100_000_000, currency: 'USD' }],
    ['amount | fiat 2 places (decision 46)', { amount: 0.01, currency: 'USD' }],
    ['amount | zeros at the end are no places', { amount: '1.500', currency: 'USD' }],
    ['currency | USD', { amount: 1, currency: 'USD' }],
    ['currency | EUR', { amount: 1, currency: 'EUR' }],
    ['currency | GBP', { amount: 1, currency: 'GBP' }],
    ['currency | BTC', { currency: 'BTC' }],
    ['description | string | no | max 500', { description: '💣'.repeat(500) }],
    ['description | several lines', { description: 'one\ntwo\tthree' }],
    ['customerEmail | string | no | receipt recipient', { customerEmail: "jo.o'neil+shop@mail.example.com" }],
    ['customerName | string | no | max 200', { customerName: long(200) }],
    [
      'successUrl | string | no | redirect after payment',
      { successUrl: 'https://shop.example.com/thanks?order=1&x=%20#top' }
    ],
    ['successUrl | http too, up to 2,048 (decision 50)', { successUrl: `http://localhost:3000/${long(2026)}` }],
    ['metadata | object | no | string values only', { metadata: { color: 'red', '': undefined, 'a b\nc': '' } }],
    [
      'metadata | at most 50 pairs, key 1-100, value 0-500 (decision 49)',
      { metadata: { ...pairs(49), [long(100)]: long(500) } }
    ],
    ['unknown members are ignored (decision 4)', { cancelUrl: 'https://x.example', sats: 1 }],
    [
      'null is absent (decision 4)',
      { description: null, customerEmail: null, customerName: null, successUrl: null, metadata: null }
    ],
    ['null of metadata is absent (decision 4)', { metadata: { a: null } }]
  ]
  for (const [name, body] of good) {
    await t.test(`taken: ${name}`, async t => {
      const reply = await call(acme, 'POST', '/api/payments', { ...anInput(), ...body })
      t.equal(reply.status, 201, reply.text)
    })
  }

  const problems: Array<[name: string, body: object, field: string]> = [
    ['orderId | yes: missing', { orderId: undefined }, 'OrderId'],
    ['orderId | 1-100 chars: empty', { orderId: '' }, 'OrderId'],
    ['orderId | 1-100 chars: 101', { orderId: long(101) }, 'OrderId'],
    ['orderId | U+0000 cannot be kept', { orderId: 'a\0b' }, 'OrderId'],
    ['orderId | half a surrogate pair cannot be kept', { orderId: 'a\ud800' }, 'OrderId'],
    ['amount | yes: missing', { amount: undefined }, 'Amount'],
    ['amount | negative fails validation', { amount: -1 }, 'Amount'],
    ['amount | negative fails validation: as text', { amount: '-0.01' }, 'Amount'],
    ['amount | decimal: no number', { amount: 'ten' }, 'Amount'],
    ['amount | more places than any currency has', { amount: 1.5e-8 }, 'Amount'],
    ['amount | larger than any currency allows, as a huge text', { amount: '1e400' }, 'Amount'],
    ['there is no sats currency code', { currency: 'sats' }, 'Currency'],
    ['lowercase codes fail validation', { currency: 'usd' }, 'Currency'],
    ['non-3-letter codes fail validation', { currency: 'US' }, 'Currency'],
    ['other currency codes 400 (decision 46)', { currency: 'JPY' }, 'Currency'],
    ['description | max 500', { description: long(501) }, 'Description'],
    ['customerEmail | plain address form (decision 50)', { customerEmail: 'not an address' }, 'CustomerEmail'],
    ['customerEmail | no quoted names (decision 50)', { customerEmail: '"a b"@example.com' }, 'CustomerEmail'],
    [
      'customerEmail | no second header line (decision 50)',
      { customerEmail: 'a@example.com\r\nBcc: b@example.com' },
      'CustomerEmail'
    ],
    ['customerEmail | no list (decision 50)', { customerEmail: 'a@example.com,b@example.com' }, 'CustomerEmail'],
    [
      'customerEmail | at most 254',
      { customerEmail: `${long(60)}@${long(60)}.${long(60)}.${long(60)}.${long(60)}.com` },
      'CustomerEmail'
    ],
    ['customerName | max 200', { customerName: long(201) }, 'CustomerName'],
    ['successUrl | http(s) only (decision 50)', { successUrl: 'javascript:alert(1)' }, 'SuccessUrl'],
    ['successUrl | an address (decision 50)', { successUrl: 'shop.example.com/thanks' }, 'SuccessUrl'],
    ['successUrl | no blanks (decision 50)', { successUrl: 'https://shop.example.com/\nx' }, 'SuccessUrl'],
    ['successUrl | no backslashes (decision 50)', { successUrl: 'https:\\\\evil.example' }, 'SuccessUrl'],
    ['successUrl | up to 2,048 (decision 50)', { successUrl: `https://x.example/${long(2031)}` }, 'SuccessUrl'],
    ['metadata | string values only: a number', { metadata: { size: 42 } }, 'Metadata.Size'],
    ['metadata | value 0-500 (decision 49)', { metadata: { size: long(501) } }, 'Metadata.Size'],
    ['metadata | key 1-100 (decision 49)', { metadata: { [long(101)]: '' } }, 'Metadata'],
    ['metadata | key 1-100: empty (decision 49)', { metadata: { '': 'x' } }, 'Metadata'],
    ['metadata | at most 50 pairs (decision 49)', { metadata: pairs(51) }, 'Metadata'],
    ['metadata | U+0000 cannot be kept', { metadata: { a: '\0' } }, 'Metadata']
  ]
  for (const [name, body, field] of problems) {
    await t.test(`Create payment | 400 | validation: ${name}`, async t => {
      const reply = await call(acme, 'POST', '/api/payments', { ...anInput(), ...body })
      t.equal(reply.status, 400)
      t.same(fieldsOf(reply), [field], reply.text)
    })
  }

  await t.test('several wrong fields are named together', async t => {
    t.same(fieldsOf(await call(acme, 'POST', '/api/payments', {})).sort(), ['Amount', 'Currency', 'OrderId'])
    t.same(
      fieldsOf(
        await call(acme, 'POST', '/api/payments', { ...anInput(), amount: '-1', successUrl: 'x', metadata: { '': '' } })
      ).sort(),
      ['Amount', 'Metadata', 'SuccessUrl']
    )
    t.same(fieldsOf(await call(acme, 'POST', '/api/payments', '{"orderId":')), ['$'])
  })

  const rules: Array<[name: string, body: object]> = [
    ['fiat 2 places', { amount: 0.005, currency: 'USD' }],
    ['fiat 2 places, as text', { amount: '1.001', currency: 'GBP' }],
    ['at most 21,000,000 BTC', { amount: '21000000.00000001' }],
    ['at most 21,000,000 BTC, as a number', { amount: 21_000_001 }]
  ]
  for (const [name, body] of rules) {
    await t.test(`what needs another field is {error} (decisions 1 and 46): ${name}`, async t => {
      const reply = await call(acme, 'POST', '/api/payments', { ...anInput(), ...body })
      t.equal(reply.status, 400)
      t.match(reply.type, /^application\/json/)
      t.same(Object.keys(reply.data), ['error'])
    })
  }
})

void t.test('the create response', async t => {
  const { call, merchant, primary, clock, payments } = await fixture(t)
  const acme = await merchant()

  await t.test('carries every field of the Payment resource, and what was given with it', async t => {
    const reply = await call(acme, 'POST', '/api/payments', {
      ...anInput({
        orderId: 'A-1',
        description: 'Two\nbooks',
        customerEmail: 'jo@example.com',
        customerName: 'Jø',
        successUrl: 'https://x.example',
        metadata: { 'z"b': 'c\nd', é: '', a: 'b' }
      })
    })
    t.equal(reply.status, 201)
    const payment = reply.data
    t.same(Object.keys(payment), [
      'invoiceId',
      'orderId',
      'status',
      'amount',
      'currency',
      'lightningInvoice',
      'paymentHash',
      'hostedCheckoutUrl',
      'payUrl',
      'providerChargeId',
      'alternateChargeId',
      'createdAt',
      'expiresAt',
      'description',
      'customerEmail',
      'customerName',
      'metadata'
    ])
    t.match(payment, {
      description: 'Two\nbooks',
      customerEmail: 'jo@example.com',
      customerName: 'Jø',
      metadata: { 'z"b': 'c\nd', é: '', a: 'b' }
    })
    const read = await call(acme, 'GET', `/api/payments/${String(payment['invoiceId'])}`)
    t.equal(read.text, reply.text, 'and is read back, metadata in its order')
    t.match(payment, {
      invoiceId: /^[1-9]\d{14}$/,
      orderId: 'A-1',
      status: /^unpaid$/,
      amount: 0.0001,
      currency: 'BTC',
      hostedCheckoutUrl: /^$/,
      payUrl: /^https:\/\/pay\.example\.com\/pay\/[A-Za-z0-9_-]{43}$/,
      providerChargeId: /^charge-/,
      alternateChargeId: payment['providerChargeId'],
      createdAt: new Date(clock.now()).toISOString(),
      expiresAt: new Date(clock.now() + 3_600_000).toISOString()
    })
    t.ok(reply.text.includes('"amount":0.0001,'), 'in plain notation')
    const invoice = decodeInvoice(String(payment['lightningInvoice']))
    t.match(invoice, { amountSats: 10_000, paymentHash: payment['paymentHash'] })
    t.notOk(String(payment['payUrl']).includes(String(payment['invoiceId'])), 'not derived from invoiceId')
    t.same(primary.requests.at(-1), {
      amountSats: 10_000,
      description: 'Two books',
      expirySeconds: 3600,
      order: {
        orderId: 'A-1',
        successUrl: 'https://x.example',
        customerEmail: 'jo@example.com',
        customerName: 'Jø',
        metadata: { 'z"b': 'c\nd', é: '', a: 'b' }
      }
    })
    t.equal(primary.keys.at(-1), 'a primary key', "with the merchant's own key")
    t.equal(reply.header('location'), `/api/payments/${String(payment['invoiceId'])}`)
  })

  await t.test('a payment without a description has its order id on the invoice', async () => {
    await call(acme, 'POST', '/api/payments', anInput({ orderId: 'A-2' }))
    t.equal(primary.requests.at(-1)?.description, 'Order A-2')
  })

  await t.test(
    'a long description is cut on the invoice, whose code must stay coarse, and kept in the payment',
    async () => {
      const description = 'Ärmel '.repeat(80).trim()
      const { data } = await call(acme, 'POST', '/api/payments', anInput({ orderId: 'A-3', description }))
      const cut = primary.requests.at(-1)?.description ?? ''
      t.ok(Buffer.byteLength(cut) <= 100 && cut.endsWith('…') && description.startsWith(cut.slice(0, -1)), cut)
      t.equal(data['description'], description)
    }
  )

  await t.test('onchainAddress | On-chain fallback, present when the provider supplies one', async t => {
    primary.more = { onchainAddress: 'bcrt1qexample', checkoutUrl: 'https://provider.example/c' }
    t.teardown(() => {
      primary.more = {}
    })
    const { data } = await call(acme, 'POST', '/api/payments', anInput())
    t.equal(data['onchainAddress'], 'bcrt1qexample')
    t.equal(data['hostedCheckoutUrl'], '', 'empty for primary, whatever it says')
  })

  await t.test('amount | as given, in plain notation (decision 8)', async t => {
    for (const [amount, currency, text] of [
      [1e-8, 'BTC', '0.00000001'],
      ['20999999.97690001', 'BTC', '20999999.97690001'],
      ['49.90', 'USD', '49.9'],
      [100_000_000, 'USD', '100000000'],
      [0, 'USD', '0']
    ] as const) {
      const created = await call(acme, 'POST', '/api/payments', anInput({ amount, currency }))
      t.ok(created.text.includes(`"amount":${text},`), created.text)
      const read = await call(acme, 'GET', `/api/payments/${String(created.data['invoiceId'])}`)
      t.equal(read.text, created.text, 'the database gives the same')
    }
  })

  await t.test('fiat is charged in satoshis, rounded up (decision 47)', async t => {
    await call(acme, 'POST', '/api/payments', anInput({ amount: 19.99, currency: 'USD' }))
    t.equal(primary.requests.at(-1)?.amountSats, 39_980)
    await call(acme, 'POST', '/api/payments', anInput({ amount: 0.01, currency: 'GBP' }))
    t.equal(primary.requests.at(-1)?.amountSats, 34, '33.3')
  })

  await t.test('a provider that converts fiat itself gets fiat, and its invoice decides (decision 47)', async t => {
    let body: unknown = null
    primary.createFiatCharge = (key, request) => {
      body = request
      return primary.createCharge(key, {
        amountSats: 4321,
        description: request.description,
        expirySeconds: request.expirySeconds
      })
    }
    t.teardown(() => {
      delete primary.createFiatCharge
    })
    const { data } = await call(
      acme,
      'POST',
      '/api/payments',
      anInput({ orderId: 'F-1', amount: '4.50', currency: 'EUR' })
    )
    t.same(body, {
      currency: 'EUR',
      amount: '4.5',
      description: 'Order F-1',
      expirySeconds: 3600,
      order: { orderId: 'F-1', successUrl: null, customerEmail: null, customerName: null, metadata: null }
    })
    t.equal((await payments.get(acme, String(data['invoiceId']))).amountSats, 4321)
    body = null
    await call(acme, 'POST', '/api/payments', anInput())
    t.equal(body, null, 'bitcoin is charged in satoshis')
    primary.more = { invoice: 'lnbcrt1nonsense' }
    const input = anInput({ amount: 1, currency: 'EUR' })
    const broken = await call(acme, 'POST', '/api/payments', input)
    primary.more = {}
    t.match([broken.status, broken.data], [502, { error: 'Payment provider error' }])
    t.equal((await call(acme, 'POST', '/api/payments', input)).status, 201)
  })
})

void t.test('providers, prices and features', async t => {
  const { call, merchant, merchants, alternate, clock } = await fixture(t, { prices: new NoPrices() })

  await t.test(
    'the alternate provider: its own time to pay, and hostedCheckoutUrl, empty when it gives none (decision 7)',
    async t => {
      const shop = await merchant({
        primaryApiKey: undefined,
        alternateApiKey: new Secret('an alternate key')
      } as never)
      alternate.more = { checkoutUrl: 'https://provider.example/checkout/1' }
      const { data } = await call(shop, 'POST', '/api/payments', anInput())
      t.equal(data['hostedCheckoutUrl'], 'https://provider.example/checkout/1')
      t.equal(
        data['expiresAt'],
        new Date(clock.now() + 86_400_000).toISOString(),
        'alternate provider uses its own TTL'
      )
      t.equal(alternate.keys.at(-1), 'an alternate key')
      alternate.more = {}
      t.equal((await call(shop, 'POST', '/api/payments', anInput())).data['hostedCheckoutUrl'], '')
    }
  )

  await t.test(
    'No provider key? 400 {error: "Payment provider key required"} (decision 54), and the order id is free again',
    async t => {
      const bare = await merchant({ primaryApiKey: undefined } as never)
      const input = anInput()
      const reply = await call(bare, 'POST', '/api/payments', input)
      t.same([reply.status, reply.data], [400, { error: 'Payment provider key required' }])
      await merchants.setProviderKey(bare.id, 'primary', new Secret('now there is one'))
      t.equal((await call(await merchants.byId(bare.id), 'POST', '/api/payments', input)).status, 201)
    }
  )

  await t.test(
    '403 Feature not available: EUR and GBP need multi_currency, USD and BTC never (decision 51); validation comes first',
    async t => {
      const free = await merchant({ tier: 'free' })
      for (const currency of ['EUR', 'GBP'] as const) {
        const reply = await call(free, 'POST', '/api/payments', anInput({ currency, amount: 1 }))
        t.equal(reply.status, 403)
        t.match(reply.data, {
          error: 'Feature not available',
          feature: 'multi_currency',
          action_required: 'upgrade_plan',
          required_plan: 'individual',
          current_plan: 'free'
        })
        t.equal(
          (await call(free, 'POST', '/api/payments', anInput({ currency, amount: 0 }))).status,
          403,
          'a trial meets what the real one would'
        )
        t.equal((await call(free, 'POST', '/api/payments', anInput({ currency, amount: -1 }))).status, 400)
      }
      t.equal((await call(free, 'POST', '/api/payments', anInput())).status, 201)
      t.equal((await call(free, 'POST', '/api/payments', anInput({ currency: 'USD', amount: 0 }))).status, 201)
    }
  )

  await t.test('503 | price feed unavailable, and the order id is free again', async t => {
    const acme = await merchant()
    const input = anInput({ currency: 'USD', amount: 5 })
    const reply = await call(acme, 'POST', '/api/payments', input)
    t.equal(reply.status, 503)
    t.match(reply.data, { error: 'Price feed unavailable', message: String })
    t.ok(reply.header('retry-after'))
    t.equal((await call(acme, 'POST', '/api/payments', { ...input, currency: 'BTC' })).status, 201)
  })
})

void t.test('order ids', async t => {
  const { call, merchant, merchants, primary, database, store, clock, payments, another } = await fixture(t)

  await t.test('Create payment | 400 | duplicate orderId: {error}; unique per merchant only', async t => {
    const [acme, other] = [await merchant(), await merchant()]
    const input = anInput()
    t.equal((await call(acme, 'POST', '/api/payments', input)).status, 201)
    const requests = primary.requests.length
    const again = await call(acme, 'POST', '/api/payments', input)
    t.same([again.status, again.data], [400, { error: 'A payment with this orderId already exists' }])
    t.match(again.type, /^application\/json/)
    t.equal(primary.requests.length, requests, 'no invoice is made for it')
    t.equal((await call(other, 'POST', '/api/payments', input)).status, 201)
    clock.advance(4_000_000)
    t.equal((await call(acme, 'POST', '/api/payments', input)).status, 400, 'expired still occupies it (decision 45)')
    const held = await database.sql`select 1 from payment_reservations`
    t.equal(held.count, 0, 'nothing stays reserved')
  })

  await t.test('20 concurrent creates with one order id, in two gateways: one payment, one invoice', async t => {
    const acme = await merchant()
    const input = anInput()
    const requests = primary.requests.length
    const second = another()
    const results = await Promise.allSettled(
      Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? payments : second).create(acme, input))
    )
    t.equal(results.filter(result => result.status === 'fulfilled').length, 1)
    for (const result of results)
      if (result.status === 'rejected') t.match(result.reason, { status: 400, message: /already exists/ })
    t.equal(primary.requests.length - requests, 1)
  })

  await t.test(
    'an order id whose payment is written while another create waits for it is not held again',
    { skip: process.env['TEST_DATABASE_URL'] === undefined && 'the embedded database runs one statement at a time' },
    async t => {
      const acme = await merchant()
      const made = await payments.create(acme, anInput())
      const { orderId } = anInput()
      const hold = (reservationId: string) => ({
        merchantId: acme.id,
        orderId,
        reservationId,
        heldUntil: clock.now() + 120_000
      })
      t.equal(await store.reserve(hold('first'), clock.now()), 'done')
      const payment = {
        ...made,
        orderId,
        invoiceId: '999999999999999',
        payToken: 'B'.repeat(43),
        paymentHash: 'cd'.repeat(32)
      }
      const waiting = async (count: number) => {
        const seen = () => database.sql`
          select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
        await until(async () => (await seen()).count >= count)
      }
      const [locked, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      const locking = database.transaction(async sql => {
        await sql`select from merchants where id = ${acme.id} for update`
        locked.resolve()
        await go.promise
      })
      await locked.promise
      // It drops its reservation, and then waits for the account's row.
      const written = store.insert(payment, hold('first'))
      await waiting(1)
      const reserved = store.reserve(hold('second'), clock.now())
      await waiting(2)
      go.resolve()
      await locking
      t.equal(await written, 'done')
      t.equal(await reserved, 'taken')
    }
  )

  await t.test('the order id of a process that died is free after two minutes', async t => {
    const acme = await merchant()
    const input = anInput()
    t.equal(
      await store.reserve(
        { merchantId: acme.id, orderId: input.orderId, reservationId: 'dead', heldUntil: clock.now() + 120_000 },
        clock.now()
      ),
      'done'
    )
    t.equal((await call(acme, 'POST', '/api/payments', input)).status, 400)
    clock.advance(119_999)
    t.equal((await call(acme, 'POST', '/api/payments', input)).status, 400)
    clock.advance(1)
    t.equal((await call(acme, 'POST', '/api/payments', input)).status, 201)
  })

  await t.test('order ids of processes that died are dropped by a job, however many, and held ones stay', async t => {
    const acme = await merchant()
    const hold = async (orderId: string, heldUntil: number) =>
      await store.reserve({ merchantId: acme.id, orderId, reservationId: orderId, heldUntil }, clock.now())
    await Promise.all(Array.from({ length: 1_001 }, (_, at) => hold(`dead-${at}`, clock.now() + 1)))
    clock.advance(2 * 120_000)
    await hold('held', clock.now() + 120_000)
    const purge = payments.jobs.find(({ name }) => name === 'payments-purge')
    await purge?.run({ id: '1', data: {} }, new AbortController().signal)
    const left = await database.sql`select order_id from payment_reservations where merchant_id = ${acme.id}`
    t.same(
      left.map(row => row['order_id']),
      ['held']
    )
  })

  await t.test('a create that took longer than that does not write beside the one that took over', async t => {
    const acme = await merchant()
    const input = anInput()
    const gate = Promise.withResolvers<void>()
    primary.gate = gate.promise
    const requests = primary.requests.length
    const slow = call(acme, 'POST', '/api/payments', input)
    await until(() => primary.requests.length !== requests)
    clock.advance(120_000)
    primary.gate = null
    const taken = await call(acme, 'POST', '/api/payments', input)
    t.equal(taken.status, 201)
    gate.resolve()
    t.equal((await slow).status, 400)
    t.same((await call(acme, 'GET', `/api/payments/order/${input.orderId}`)).data['invoiceId'], taken.data['invoiceId'])
  })

  await t.test(
    'Create payment | 400 | merchant inactive or not found: changed after the key was checked (decision 25)',
    async t => {
      const acme = await merchant()
      await merchants.deactivate(acme.id)
      const reply = await call(acme, 'POST', '/api/payments', anInput())
      t.same([reply.status, reply.data], [400, { error: 'Merchant not found or inactive' }])
      t.equal((await call({ ...acme, id: 999_999 }, 'POST', '/api/payments', anInput())).status, 400)
      await merchants.reactivate(acme.id)
      const gate = Promise.withResolvers<void>()
      primary.gate = gate.promise
      const requests = primary.requests.length
      const input = anInput()
      const slow = call(acme, 'POST', '/api/payments', input)
      await until(() => primary.requests.length !== requests)
      await merchants.deactivate(acme.id)
      gate.resolve()
      t.same((await slow).data, { error: 'Merchant not found or inactive' }, 'during the provider call')
      primary.gate = null
      await merchants.reactivate(acme.id)
      t.equal((await call(acme, 'POST', '/api/payments', input)).status, 201)
    }
  )

  await t.test('an invoice id that is taken is drawn again', async t => {
    const acme = await merchant()
    const first = await payments.create(acme, anInput())
    let draws = 0
    const random = (length: number) => {
      // Numbers are drawn from 8 bytes; the first two draws give the number of the first payment.
      if (length !== 8 || ++draws > 2) return crypto.getRandomValues(new Uint8Array(length))
      const bytes = Buffer.alloc(8)
      bytes.writeBigUInt64BE(BigInt(first.invoiceId) - 100_000_000_000_000n)
      return bytes
    }
    const made = await another({ random }).create(acme, anInput())
    t.equal(draws, 3)
    t.not(made.invoiceId, first.invoiceId)
    t.equal((await payments.get(acme, made.invoiceId)).orderId, made.orderId)
  })
})
