import t from 'tap'
import { startFakeStripe } from '../fakes/stripe.ts'
import { newAccount } from '../accounts/merchants/accounts.ts'
import { defaultYaml, startGateway, type Answer, type TestGateway } from '../support/gateway.ts'
import { eventually } from '../support/gateway-process.ts'
import { stripeYaml } from './fixture.ts'

type Json = Record<string, unknown>

const SANDBOX = 'billing:    { kind: sandbox }'
const buyer = { plan: 'individual', email: 'Buyer@Example.com' }

function json(answer: Answer, status = 200) {
  if (answer.status !== status) throw new Error(`${answer.status} instead of ${status}: ${answer.text}`)
  return answer.json() as Json
}

const checkout = (gateway: TestGateway, body: object, key?: string) =>
  gateway.send('POST', '/api/billing/create-checkout-session', {
    body,
    ...(key === undefined ? {} : { headers: { 'x-api-key': key } })
  })

const asAdmin = async (gateway: TestGateway, method: string, path: string, status = 200) => {
  const answer = await gateway.adminSend(method, path)
  return answer.status === 204
    ? null
    : answer.status === status
      ? answer.json()
      : Promise.reject(new Error(`${answer.status} ${answer.text}`))
}

/** The pending subscription with an address, once it is there. */
function pendingOf(gateway: TestGateway, email: string) {
  return eventually(
    `a pending subscription of ${email}`,
    async () =>
      ((await asAdmin(gateway, 'GET', '/api/admin/pending-subscriptions')) as Json[]).find(
        one => one['email'] === email
      ) ?? null
  )
}

t.test('plans by card over stripe', async t => {
  const fake = await startFakeStripe()
  const gateway = await startGateway(t, { yaml: stripeYaml(fake) })
  t.teardown(() => fake.close())
  const post = (body: string, headers: Readonly<Record<string, string>>) =>
    gateway.send('POST', '/api/webhooks/billing', { body, headers })
  const notify = async (type: string, object: object) => {
    const { body, headers } = fake.event(type, object)
    return json(await post(body, headers))
  }
  const me = async (apiKey: string) =>
    json(await gateway.send('GET', '/api/merchant/subscription', { headers: { 'x-api-key': apiKey } }))
  const becomes = (apiKey: string, status: string) =>
    eventually(`the subscription is ${status}`, async () => {
      const now = await me(apiKey)
      return now['status'] === status ? now : null
    })

  await t.test(
    'checkout without a key, pending, the administrator approves: a merchant on individual, trialing',
    async t => {
      const { sessionId, checkoutUrl } = json(
        await checkout(gateway, { ...buyer, customerName: 'Béatrice Buyer' })
      ) as { sessionId: string; checkoutUrl: string }
      t.equal(checkoutUrl, `${fake.url}/c/pay/${sessionId}`)
      const { form } = fake.requests.at(-1) ?? { form: new Map() }
      t.equal(form.get('customer_email'), 'buyer@example.com')
      t.equal(form.get('success_url'), `${gateway.url}/billing/done`)
      t.equal(form.get('cancel_url'), `${gateway.url}/billing/canceled`)
      t.equal(form.get('subscription_data[trial_period_days]'), '30')
      const { id } = fake.complete(sessionId)
      t.same(
        await notify('checkout.session.completed', { object: 'checkout.session', id: sessionId, subscription: id }),
        { received: true }
      )
      const pending = await pendingOf(gateway, 'buyer@example.com')
      t.match(pending, {
        customerName: 'Béatrice Buyer',
        planTier: 'individual',
        subscriptionStatus: /^trialing$/,
        billingSubscriptionId: id,
        isApproved: false
      })
      const { apiKey } = (await asAdmin(
        gateway,
        'POST',
        `/api/admin/pending-subscriptions/${String(pending['id'])}/approve`
      )) as { apiKey: string }
      t.match(await me(apiKey), {
        planTier: 'individual',
        planName: 'Agentic Commerce',
        status: /^trialing$/,
        billingCustomerId: /^cus_/
      })
      const held = fake.subscriptions.get(id)
      if (held === undefined) throw new Error('the fake keeps what it made')

      await t.test('events drive status, whatever their payload says', async t => {
        held.status = 'past_due'
        // The notification says active: only the provider's word counts.
        await notify('customer.subscription.updated', { object: 'subscription', id, status: 'active' })
        await becomes(apiKey, 'past_due')
        t.match(json(await gateway.send('GET', '/api/proxy', { headers: { 'x-api-key': apiKey } }), 403), {
          error: 'Subscription not active',
          action_required: 'update_payment_method'
        })
        held.status = 'active'
        await notify('invoice.paid', {
          object: 'invoice',
          id: 'in_1',
          parent: { subscription_details: { subscription: id } }
        })
        await becomes(apiKey, 'active')
      })

      await t.test('the portal is opened for its customer', async t => {
        const { portalUrl } = json(
          await gateway.send('POST', '/api/billing/customer-portal', {
            headers: { 'x-api-key': apiKey },
            body: { returnUrl: 'https://shop.example/account' }
          })
        )
        t.equal(portalUrl, `${fake.url}/p/session/${held.customer}`)
      })

      await t.test('a second subscription for the same account is refused', async t => {
        t.match(json(await checkout(gateway, buyer, apiKey), 400), { error: /customer-portal/ })
      })

      await t.test('an ended period is checked with the provider once more and passes (decision 83)', async t => {
        await gateway.database
          .sql`update merchants set current_period_end = ${new Date(Date.now() - 1000)} where billing_subscription_id = ${id}`
        t.equal((await gateway.send('GET', '/api/proxy', { headers: { 'x-api-key': apiKey } })).status, 200)
      })

      await t.test(
        'canceled: the plan stays, the gate refuses, and the same customer buys again without a second trial',
        async t => {
          held.status = 'canceled'
          await notify('customer.subscription.deleted', { object: 'subscription', id })
          t.match(await becomes(apiKey, 'canceled'), { planTier: 'individual' })
          const again = json(await checkout(gateway, { ...buyer, email: 'someone-else@example.com' }, apiKey)) as {
            sessionId: string
          }
          const { form: second } = fake.requests.at(-1) ?? { form: new Map() }
          t.equal(second.get('customer'), held.customer)
          t.notOk(second.has('customer_email'))
          t.notOk(second.has('subscription_data[trial_period_days]'))
          const next = fake.complete(again.sessionId)
          await notify('customer.subscription.created', { object: 'subscription', id: next.id })
          await becomes(apiKey, 'active')
          t.equal(
            ((await asAdmin(gateway, 'GET', '/api/admin/pending-subscriptions')) as Json[]).length,
            0,
            'with a key nothing waits for approval'
          )
        }
      )
    }
  )

  await t.test("a merchant's own first checkout: its account, with a trial", async t => {
    const account = await newAccount(gateway)
    const { sessionId } = json(await checkout(gateway, buyer, account.apiKey)) as { sessionId: string }
    const { form } = fake.requests.at(-1) ?? { form: new Map() }
    t.equal(form.get('client_reference_id'), String(account.id))
    t.equal(form.get('subscription_data[trial_period_days]'), '30')
    const { id } = fake.complete(sessionId)
    await notify('customer.subscription.created', { object: 'subscription', id })
    t.match(await becomes(account.apiKey, 'trialing'), { planTier: 'individual' })
    const me = json(await account.send('GET', '/api/merchant/me'))
    t.match(me, {
      planTier: 'individual',
      features: { multiCurrencyEnabled: true, l402Enabled: true, refundsEnabled: false }
    })
  })

  await t.test(
    'Inbound answers: bad signature 401, unreadable 400, unknown entity or replay 200 {received: true} (decision 163)',
    async t => {
      const { body, headers } = fake.event('customer.subscription.updated', {
        object: 'subscription',
        id: 'sub_unknown'
      })
      t.match(
        json(await post(body, { 'content-type': 'application/json' }), 401),
        { error: 'Unauthorized', message: /Stripe-Signature/ },
        'none'
      )
      t.match(json(await post(body, { ...headers, 'stripe-signature': 'nonsense' }), 401), { error: 'Unauthorized' })
      t.match(json(await post(`${body} `, headers), 401), { error: 'Unauthorized' }, 'another body')
      t.match(
        json(await post(body, fake.signed(body, { at: Date.now() - 301_000 })), 401),
        { error: 'Unauthorized' },
        'an old one'
      )
      t.same(Object.keys(json(await post('not JSON', fake.signed('not JSON')), 400)), ['error'])
      t.same(json(await post(body, headers)), { received: true }, 'unknown')
      t.same(json(await post(body, headers)), { received: true }, 'replayed')
      t.same(
        await notify('customer.created', { object: 'customer', id: 'cus_1' }),
        { received: true },
        'of no interest'
      )
    }
  )

  await t.test('the provider is down: 503 with Retry-After; it refuses: 502; neither shows why', async t => {
    fake.fail('server error', /checkout/, 2)
    const unavailable = await checkout(gateway, buyer)
    t.match(json(unavailable, 503), { error: 'Billing provider unavailable' })
    t.match(unavailable.headers['retry-after'], /^[1-9]\d*$/)
    const account = await newAccount(gateway)
    await account.set({ billing_customer_id: 'cus_of_another_account' })
    const refused = await account.send('POST', '/api/billing/customer-portal', { returnUrl: 'https://shop.example' })
    t.same(json(refused, 502), {
      error: 'Billing provider error',
      message: 'The billing provider refused the request.'
    })
  })

  await t.test("an address that the provider rejects is the buyer's mistake: 400", async t => {
    const answer = await checkout(gateway, { plan: 'individual', email: 'buyer@localhost' })
    t.match(json(answer, 400), { errors: { Email: [/address/] } })
  })

  await t.test('a job whose provider call fails is retried until it succeeds', async t => {
    const customer = fake.customer('patient@example.com')
    const { id } = fake.subscribe({ customer, status: 'active', price: fake.price })
    fake.fail('server error', /subscriptions/, 2)
    await notify('customer.subscription.created', { object: 'subscription', id })
    t.match(await pendingOf(gateway, 'patient@example.com'), { billingSubscriptionId: id })
  })
})

t.test('plans by card over the sandbox', async t => {
  const gateway = await startGateway(t)
  const own = (url: string) => new URL(url).pathname

  await t.test('Checkout-session plan values: new Business subscriptions return 400', async t => {
    t.match(json(await checkout(gateway, { ...buyer, plan: 'l402' }), 400), { error: /Allowed: individual\.$/ })
  })

  await t.test("validation of a checkout's fields", async t => {
    const wrong = async (more: Json, field: string) => {
      t.match(
        json(await checkout(gateway, { ...buyer, ...more }), 400)['errors'],
        { [field]: [String] },
        `${field} ${JSON.stringify(more)}`
      )
    }
    for (const email of ['nobody', 'a@example.com, b@example.com', `${'a'.repeat(250)}@b.de`])
      await wrong({ email }, 'Email')
    for (const customerName of [' ', 'a\nb']) await wrong({ customerName }, 'CustomerName')
    for (const url of [
      'example.com',
      'ftp://example.com',
      'javascript:alert(1)',
      'https://',
      'https://a b',
      'https:\\\\example.com',
      '/done'
    ]) {
      await wrong({ successUrl: url }, 'SuccessUrl')
      await wrong({ cancelUrl: url }, 'CancelUrl')
    }
  })

  await t.test('Portal without customer? 400 {error}; returnUrl http(s) (decision 169)', async t => {
    const answer = json(
      await gateway.merchantSend('POST', '/api/billing/customer-portal', { returnUrl: 'https://shop.example' }),
      400
    )
    t.same(Object.keys(answer), ['error'])
    for (const returnUrl of ['nowhere', 'javascript:alert(1)', 7, undefined]) {
      t.match(
        json(await gateway.merchantSend('POST', '/api/billing/customer-portal', { returnUrl }), 400)['errors'],
        { ReturnUrl: [String] },
        String(returnUrl)
      )
    }
  })

  await t.test("a checkout without addresses of its own leads to the gateway's pages", async t => {
    for (const [end, text] of [
      ['done', /Thank you/],
      ['canceled', /Checkout canceled/]
    ] as const) {
      const page = await gateway.send('GET', `/billing/${end}`)
      t.equal(page.status, 200)
      t.match(page.text, text)
      t.match(page.headers['content-security-policy'], /default-src 'none'; script-src 'none'/)
    }
  })

  await t.test('checkout without a key, one button, pending, approved, canceled in the portal', async t => {
    const { checkoutUrl } = json(
      await checkout(gateway, {
        ...buyer,
        successUrl: 'https://shop.example/done',
        cancelUrl: 'https://shop.example/left'
      })
    ) as { checkoutUrl: string }
    const page = await gateway.send('GET', own(checkoutUrl))
    t.match(page.text, /\$49 per month after a 30-day trial/s)
    t.match(page.text, 'https://shop.example/left')
    t.match(page.headers['content-security-policy'], /form-action 'self'/)
    const action = /<form class="form" method="post" action="([^"]+)"/.exec(page.text)?.[1] ?? ''
    const done = await gateway.send('POST', new URL(action, checkoutUrl).pathname)
    t.equal(done.status, 303)
    const next = new URL(String(done.headers['location']), new URL(action, checkoutUrl))
    t.equal(next.href, checkoutUrl)
    t.match((await gateway.send('GET', next.pathname)).text, /Subscribed.*https:\/\/shop\.example\/done/s)
    t.equal((await gateway.send('POST', new URL(action, checkoutUrl).pathname)).status, 303, 'again')
    const pending = await pendingOf(gateway, 'buyer@example.com')
    t.match(pending, { planTier: 'individual', subscriptionStatus: /^trialing$/ })
    const { apiKey } = (await asAdmin(
      gateway,
      'POST',
      `/api/admin/pending-subscriptions/${String(pending['id'])}/approve`
    )) as { apiKey: string }
    const headers = { 'x-api-key': apiKey }
    t.match(json(await gateway.send('GET', '/api/merchant/subscription', { headers })), {
      planTier: 'individual',
      status: /^trialing$/
    })

    const { portalUrl } = json(
      await gateway.send('POST', '/api/billing/customer-portal', {
        headers,
        body: { returnUrl: 'https://shop.example/account' }
      })
    ) as { portalUrl: string }
    t.match(
      (await gateway.send('GET', own(portalUrl))).text,
      /trialing until \d{4}-.*https:\/\/shop\.example\/account/s
    )
    t.equal((await gateway.send('POST', `${own(portalUrl)}/cancel`)).status, 303)
    t.match((await gateway.send('GET', own(portalUrl))).text, /: canceled</)
    await eventually('the subscription is canceled', async () =>
      json(await gateway.send('GET', '/api/merchant/subscription', { headers }))['status'] === 'canceled' ? true : null
    )
    t.equal((await gateway.send('POST', `${own(checkoutUrl)}/cancel`)).status, 404, 'a checkout is no portal')
    t.equal((await gateway.send('POST', `${own(portalUrl)}/complete`)).status, 404, 'a portal is no checkout')
  })

  await t.test('only the sandbox itself can sign', async t => {
    const answer = await gateway.send('POST', '/api/webhooks/billing', {
      body: { id: 'evt_1', type: 'a' },
      headers: { 'stripe-signature': `t=${Math.floor(Date.now() / 1000)},v1=${'0'.repeat(64)}` }
    })
    t.match(json(answer, 401), { error: 'Unauthorized' })
  })

  await t.test('a missing page says so', async t => {
    for (const session of ['x', `cs_sandbox_${'a'.repeat(43)}`, 'cs_sandbox_%00']) {
      const page = await gateway.send('GET', `/billing/sandbox/${session}`)
      t.equal(page.status, 404)
      t.match(page.text, /This page does not exist/)
    }
  })
})

t.test('without a billing provider: 500 {error: "Server configuration error"}, but the feed of prices', async t => {
  const gateway = await startGateway(t, { yaml: defaultYaml({ replace: [[SANDBOX, 'billing: { kind: none }']] }) })
  t.equal((await gateway.send('GET', '/api/billing/pricing')).status, 200)
  const missing = { error: 'Server configuration error' }
  t.same(json(await checkout(gateway, buyer), 500), missing)
  t.same(
    json(
      await gateway.merchantSend('POST', '/api/billing/customer-portal', { returnUrl: 'https://shop.example' }),
      500
    ),
    missing
  )
  t.same(json(await gateway.send('POST', '/api/webhooks/billing', { body: {} }), 500), missing)
  t.equal((await gateway.send('GET', '/billing/sandbox/x')).status, 404)
  t.equal((await gateway.merchantSend('GET', '/api/proxy')).status, 200)
})
