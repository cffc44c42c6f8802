import t from 'tap'
import { BillingError, type CheckoutRequest } from '../../src/plans/provider.ts'
import { StripeBilling } from '../../src/plans/stripe/stripe.ts'
import { Secret } from '../../src/platform/keys/secrets.ts'
import { startFakeStripe } from '../fakes/stripe.ts'
import { ManualClock } from '../support/manual-clock.ts'

const clock = new ManualClock()
const fake = await startFakeStripe(clock)
t.teardown(() => fake.close())

const open = (options: { readonly key?: string; readonly url?: string } = {}) =>
  new StripeBilling({
    key: new Secret(options.key ?? fake.key),
    webhookSecret: new Secret(fake.webhookSecret),
    price: fake.price,
    url: options.url ?? fake.url,
    timeout: 10_000,
    clock
  })
const stripe = open()

const request: CheckoutRequest = {
  plan: 'individual',
  email: 'buyer@example.com',
  customerName: 'Béatrice Buyer',
  merchantId: null,
  customerId: null,
  trialDays: 30,
  successUrl: 'https://shop.example/done?session={CHECKOUT_SESSION_ID}',
  cancelUrl: 'https://shop.example/left',
  idempotencyKey: 'key-1'
}
const lastForm = () => Object.fromEntries(fake.requests.at(-1)?.form ?? [])

t.test(
  'a checkout requires a card although it begins with a trial, and ends without one when the card is gone',
  async t => {
    const { sessionId, checkoutUrl } = await stripe.createCheckout(request)
    t.equal(checkoutUrl, `${fake.url}/c/pay/${sessionId}`)
    t.same(lastForm(), {
      mode: 'subscription',
      'line_items[0][price]': fake.price,
      'line_items[0][quantity]': '1',
      success_url: request.successUrl,
      cancel_url: request.cancelUrl,
      payment_method_collection: 'always',
      customer_email: 'buyer@example.com',
      'metadata[customer_name]': 'Béatrice Buyer',
      'subscription_data[metadata][customer_name]': 'Béatrice Buyer',
      'subscription_data[trial_period_days]': '30',
      'subscription_data[trial_settings][end_behavior][missing_payment_method]': 'cancel'
    })
    t.equal(fake.requests.at(-1)?.idempotencyKey, 'key-1')
  }
)

t.test(
  "a merchant's checkout names the account and the customer that already exist; without a trial none is requested",
  async t => {
    const customer = fake.customer('shop@example.com')
    await stripe.createCheckout({
      ...request,
      merchantId: 42,
      customerId: customer,
      customerName: null,
      trialDays: 0,
      idempotencyKey: 'key-2'
    })
    t.same(lastForm(), {
      mode: 'subscription',
      'line_items[0][price]': fake.price,
      'line_items[0][quantity]': '1',
      success_url: request.successUrl,
      cancel_url: request.cancelUrl,
      payment_method_collection: 'always',
      customer,
      client_reference_id: '42',
      'metadata[merchant_id]': '42',
      'subscription_data[metadata][merchant_id]': '42'
    })
  }
)

t.test('a customer that is there no more becomes a new one, so that the account can still buy', async t => {
  const { sessionId } = await stripe.createCheckout({
    ...request,
    merchantId: 42,
    customerId: 'cus_deleted',
    trialDays: 0,
    idempotencyKey: 'key-2b'
  })
  t.ok(fake.sessions.has(sessionId))
  t.match(lastForm(), {
    customer_email: 'buyer@example.com',
    client_reference_id: '42',
    'subscription_data[metadata][merchant_id]': '42'
  })
  t.notOk('customer' in lastForm())
  t.notOk('subscription_data[trial_period_days]' in lastForm(), 'still without a second trial')
})

t.test('a call whose answer is lost is repeated with the same key, and makes one session', async t => {
  const before = { requests: fake.requests.length, sessions: fake.sessions.size }
  fake.fail('lost after', /checkout/)
  const { sessionId } = await stripe.createCheckout({ ...request, idempotencyKey: 'key-3' })
  t.ok(fake.sessions.has(sessionId))
  t.same(
    fake.requests.slice(before.requests).map(({ idempotencyKey }) => idempotencyKey),
    ['key-3', 'key-3']
  )
  t.equal(fake.sessions.size, before.sessions + 1)
})

t.test('a subscription is read with the period of its items, its plan by price, and whose it is', async t => {
  const { sessionId } = await stripe.createCheckout({ ...request, merchantId: 42, idempotencyKey: 'key-4' })
  const held = fake.complete(sessionId)
  t.same(await stripe.subscription(held.id), {
    subscriptionId: held.id,
    customerId: held.customer,
    status: 'trialing',
    currentPeriodEnd: clock.now() + 30 * 86_400_000,
    startedAt: clock.now(),
    plan: 'individual',
    merchantId: 42,
    email: 'buyer@example.com',
    customerName: 'Béatrice Buyer'
  })
})

t.test('unknown or odd events are read as such', async t => {
  const other = fake.subscribe({
    customer: fake.customer('b@example.com', 'As the card says'),
    status: 'paused',
    price: 'price_of_another_product',
    metadata: { merchant_id: '0042' }
  })
  t.match(await stripe.subscription(other.id), {
    plan: null,
    status: /^paused$/,
    merchantId: null,
    email: 'b@example.com',
    customerName: 'As the card says'
  })
  const deleted = fake.subscribe({ customer: 'cus_deleted', status: 'canceled', price: fake.price })
  t.match(await stripe.subscription(deleted.id), { customerId: 'cus_deleted', email: null, customerName: null })
  t.equal(await stripe.subscription('sub_unknown'), null)
})

t.test("the portal is the customer's, and leads back", async t => {
  const customer = fake.customer('shop@example.com')
  t.equal(await stripe.portal(customer, 'https://shop.example/account'), `${fake.url}/p/session/${customer}`)
  t.same(lastForm(), { customer, return_url: 'https://shop.example/account' })
})

t.test('errors: temporary ones are "unavailable", permanent ones are refusals, and none shows a key', async t => {
  const fault = async (call: Promise<unknown>) => {
    const error = await call.then(
      () => null,
      (reason: unknown) => reason
    )
    if (!(error instanceof BillingError)) throw new Error('rejects with BillingError', { cause: error })
    t.notMatch(`${error.message} ${String(error.cause)}`, /sk_|secret_key|another_key|Invalid API Key/)
    return error.fault
  }
  for (const kind of ['server error', 'html', 'lost after', 'rate limit'] as const) {
    fake.fail(kind, /subscriptions/, kind === 'rate limit' ? 1 : 2)
    t.equal(await fault(stripe.subscription('sub_1')), 'away', kind)
  }
  t.equal(
    await fault(open({ url: 'http://127.0.0.1:1' }).portal('cus_1', 'https://shop.example')),
    'away',
    'connection refused'
  )
  t.equal(await fault(open({ key: 'sk_test_another_key' }).subscription('sub_1')), 'refused', 'a wrong key')
  t.equal(await fault(stripe.portal('cus_unknown', 'https://shop.example')), 'refused', 'a customer of another account')
})

t.test('notifications: which subscription they are about', async t => {
  const about = (type: string, object: object) => {
    const { body, headers } = fake.event(type, object)
    return stripe.readEvent(headers['stripe-signature'] ?? null, Buffer.from(body))
  }
  t.equal(about('customer.subscription.updated', { object: 'subscription', id: 'sub_1' }), 'sub_1')
  t.equal(
    about('checkout.session.completed', { object: 'checkout.session', id: 'cs_1', subscription: 'sub_2' }),
    'sub_2'
  )
  t.equal(
    about('checkout.session.completed', { object: 'checkout.session', id: 'cs_1', subscription: null }),
    null,
    'a checkout of something else'
  )
  t.equal(
    about('invoice.paid', {
      object: 'invoice',
      id: 'in_1',
      parent: { subscription_details: { subscription: 'sub_3' } }
    }),
    'sub_3'
  )
  t.equal(
    about('invoice.paid', { object: 'invoice', id: 'in_1', subscription: { id: 'sub_4' } }),
    'sub_4',
    'an endpoint of an older version'
  )
  t.equal(about('customer.updated', { object: 'customer', id: 'cus_1' }), null)
  t.equal(
    about('customer.subscription.updated', { object: 'subscription', id: 'sub_../customers' }),
    null,
    'an invalid id'
  )
})

t.test("notifications: the signature is over the bytes, for five minutes by the gateway's clock", async t => {
  const { body, headers } = fake.event('customer.subscription.updated', { object: 'subscription', id: 'sub_1' })
  const signature = headers['stripe-signature'] ?? ''
  const read = (with_: string | null, bytes: string) => stripe.readEvent(with_, Buffer.from(bytes))
  const bad = { name: 'BillingError', fault: 'signature' }
  t.throws(() => read(null, body), bad, 'none')
  t.throws(() => read('nonsense', body), bad)
  t.throws(() => read('t=,v1=', body), bad)
  t.throws(() => read(signature, `${body} `), bad, 'another body')
  t.throws(() => read(signature, ''), bad, 'no body')
  t.throws(
    () => read(fake.signed(body, { secret: 'whsec_another' })['stripe-signature'] ?? '', body),
    bad,
    "another endpoint's"
  )
  for (const text of ['not JSON', '[]', 'null', '{"object":"v2.core.event","id":"evt_1","type":"a"}']) {
    t.throws(
      () => read(fake.signed(text)['stripe-signature'] ?? '', text),
      { name: 'BillingError', fault: 'refused' },
      `${text} cannot be read`
    )
  }
  clock.advance(300_000)
  t.equal(read(signature, body), 'sub_1')
  clock.advance(1_000)
  t.throws(() => read(signature, body), bad, 'a second later')
})
