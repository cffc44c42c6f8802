import { spawnSync } from 'node:child_process'
import t from 'tap'
import { startGateway } from '../../support/gateway.ts'
import { accountOf, newAccount, type TestAccount } from './accounts.ts'

const gateway = await startGateway(t)
const fresh = () => newAccount(gateway)
const me = async (account: TestAccount) => (await account.send('GET', '/api/merchant/me')).json()

t.test('GET /api/merchant/me | none | merchant account object', async t => {
  const answer = await gateway.merchantSend('GET', '/api/merchant/me')
  t.equal(answer.status, 200)
  const body = answer.json() as Record<string, object>
  t.same(Object.keys(body), [
    'merchantId',
    'name',
    'email',
    'planTier',
    'subscriptionStatus',
    'isActive',
    'createdAt',
    'features',
    'onboarding'
  ])
  t.same(Object.keys(body['features'] ?? {}), [
    'refundsEnabled',
    'multiCurrencyEnabled',
    'analyticsEnabled',
    'prioritySupport',
    'customBrandingEnabled',
    'maxWebhookEndpoints',
    'l402Enabled'
  ])
  t.same(body['onboarding'], {
    hasPaymentProviderKey: true,
    hasWebhookUrl: false,
    hasActiveProxy: false,
    proxyCount: 0,
    isFullyConfigured: false
  })
  t.match(body, {
    merchantId: gateway.merchant.id,
    planTier: 'individual',
    subscriptionStatus: 'active',
    isActive: true,
    createdAt: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
  })
})

t.test('onboarding counts proxies that are not deleted, and says whether one is active', async t => {
  const account = await fresh()
  const onboarding = async () => ((await me(account)) as { onboarding: unknown }).onboarding
  const created = await account.send('POST', '/api/proxy', {
    name: 'P',
    targetBaseUrl: 'https://api.example.com',
    defaultPriceSats: 1
  })
  t.equal(created.status, 201)
  const { proxyId } = created.json() as { proxyId: string }
  t.match(await onboarding(), { hasActiveProxy: true, proxyCount: 1 })
  await account.send('PUT', `/api/proxy/${proxyId}`, { isActive: false })
  t.match(await onboarding(), { hasActiveProxy: false, proxyCount: 1 })
  await account.send('DELETE', `/api/proxy/${proxyId}`)
  t.match(await onboarding(), { hasActiveProxy: false, proxyCount: 0 })
})

t.test('GET /api/merchant/l402-status | none | l402 license status', async t => {
  const account = await fresh()
  t.same((await account.send('GET', '/api/merchant/l402-status')).json(), {
    l402Enabled: true,
    planTier: 'free',
    subscriptionStatus: 'active',
    isActive: true
  })
  await account.set({ l402_enabled: false, plan_tier: 'individual', subscription_status: 'trialing' })
  t.same((await account.send('GET', '/api/merchant/l402-status')).json(), {
    l402Enabled: false,
    planTier: 'individual',
    subscriptionStatus: 'trialing',
    isActive: true
  })
})

t.test('GET /api/merchant/subscription | none | subscription object', async t => {
  const account = await fresh()
  t.same((await account.send('GET', '/api/merchant/subscription')).json(), {
    planTier: 'free',
    planName: 'Free Producer Sandbox',
    status: 'active',
    billingCustomerId: null,
    limits: { maxMerchants: 1, maxEnvironments: 1, maxWebhookEndpoints: 1 }
  })
  await account.set({ plan_tier: 'standard', subscription_status: 'past_due', billing_customer_id: 'cus_9' })
  t.same((await account.send('GET', '/api/merchant/subscription')).json(), {
    planTier: 'individual',
    planName: 'Agentic Commerce',
    status: 'past_due',
    billingCustomerId: 'cus_9',
    limits: { maxMerchants: 1, maxEnvironments: 1, maxWebhookEndpoints: 5 }
  })
  await account.set({ subscription_status: null })
  t.match((await account.send('GET', '/api/merchant/subscription')).json(), { status: null })
})

for (const [slot, member] of [
  ['primary', 'primaryApiKey'],
  ['alternate', 'alternateApiKey']
] as const) {
  const path = `/api/merchant/${slot}-key`

  t.test(`PUT ${path} | {${member}: string} required | {success, message}`, async t => {
    const account = await fresh()
    const answer = await account.send('PUT', path, { [member]: `  a-${slot}-key \n` })
    t.equal(answer.status, 200)
    t.same(Object.keys(answer.json() as object), ['success', 'message'])
    t.match(answer.json(), { success: true, message: String })
    t.match(await me(account), { onboarding: { hasPaymentProviderKey: true } })
    t.equal(
      await account.column('provider_choice'),
      slot === 'primary' ? 'primary' : null,
      'saving primary makes the choice, alternate does not (decision 68)'
    )
    t.match((await account.send('POST', `/api/merchant/validate-${slot}`)).json(), { isValid: true })
  })

  t.test(`${path}: 400 payment provider key required, always {error} (decision 1)`, async t => {
    const account = await fresh()
    for (const body of [{}, { [member]: '' }, { [member]: '   ' }, { [member]: null }, { other: 'x' }, '']) {
      const answer = await account.send('PUT', path, body)
      t.equal(answer.status, 400, JSON.stringify(body))
      t.same(answer.json(), { error: 'Payment provider key required' }, JSON.stringify(body))
    }
    t.equal(await account.column(`${slot}_key`), null)
  })

  t.test(
    `POST /api/merchant/validate-${slot} | none | 200 {isValid, message}, whether or not the key works`,
    async t => {
      const account = await fresh()
      const validate = async () => {
        const answer = await account.send('POST', `/api/merchant/validate-${slot}`)
        t.equal(answer.status, 200)
        t.same(Object.keys(answer.json() as object), ['isValid', 'message'])
        return answer.json() as object
      }
      t.match(
        await validate(),
        { isValid: false, message: /no key is saved/i },
        'no key is saved: isValid is false and the message says so'
      )
      await account.send('PUT', path, { [member]: 'a-good-key' })
      t.match(await validate(), { isValid: true })
      await account.send('PUT', path, { [member]: 'sandbox-invalid' })
      t.match(await validate(), { isValid: false, message: /does not accept/ })
      await account.send('PUT', path, { [member]: 'sandbox-no-create' })
      t.match(
        await validate(),
        { isValid: false, message: /partner\.receive-request\.create/ },
        'a key that reads but cannot create fails with the missing scope named'
      )
      const saved = await account.send('PUT', `${path}?test=true`, { [member]: 'another-good-key' })
      t.match([saved.status, saved.json()], [200, { success: true, message: /was saved\. ./ }])
      const refused = await account.send('PUT', `${path}?test=true`, { [member]: 'sandbox-no-create' })
      t.match([refused.status, refused.json()], [400, { error: /not saved.*partner\.receive-request\.create/ }])
      t.match(await validate(), { isValid: true }, 'a key that fails its test leaves the saved one')
    }
  )
}

t.test('PUT /api/merchant/payment-provider | {provider: primary or alternate} | success', async t => {
  const account = await fresh()
  for (const provider of ['alternate', 'primary']) {
    const answer = await account.send('PUT', '/api/merchant/payment-provider', { provider })
    t.equal(answer.status, 200, 'also without a key in that slot (decision 69)')
    t.match(answer.json(), { success: true, message: /not saved yet/ })
    t.equal(await account.column('provider_choice'), provider)
  }
  await account.send('PUT', '/api/merchant/payment-provider', { provider: 'alternate' })
  await account.send('PUT', '/api/merchant/primary-key', { primaryApiKey: 'a-primary-key' })
  t.equal(
    await account.column('provider_choice'),
    'alternate',
    'saving a primary key never overwrites an explicit choice'
  )
})

t.test(
  'PUT /api/merchant/webhook-url | {webhookUrl?: string, webhookSecret?: string} | {success, message}',
  async t => {
    const account = await fresh()
    const put = (body: object) => account.send('PUT', '/api/merchant/webhook-url', body)
    const url = 'https://shop.example/hook?from=boltgate'

    const first = await put({ webhookUrl: url })
    t.equal(first.status, 200)
    t.same(
      Object.keys(first.json() as object),
      ['success', 'message', 'webhookSecret'],
      'a URL without a stored secret gets one, shown once'
    )
    t.match(first.headers['cache-control'], 'no-store')
    const made = (first.json() as { webhookSecret: string }).webhookSecret
    t.ok(made.length >= 16 && made.length <= 200)
    t.equal(await account.column('webhook_url'), url)
    t.match(await me(account), { onboarding: { hasWebhookUrl: true } })
    const sealed = await account.column('webhook_secret')

    t.same(
      Object.keys((await put({ webhookUrl: `${url}2` })).json() as object),
      ['success', 'message'],
      'the current secret is kept and not shown again'
    )
    t.equal(await account.column('webhook_secret'), sealed)

    t.same(Object.keys((await put({ webhookSecret: 'my own secret of mine' })).json() as object), [
      'success',
      'message'
    ])
    t.equal(await account.column('webhook_url'), `${url}2`, 'absent is unchanged')
    t.not(await account.column('webhook_secret'), sealed)

    t.type(
      ((await put({ webhookSecret: null }).then(answer => answer.json())) as { webhookSecret: unknown }).webhookSecret,
      'string',
      'cleared under a URL, another is made and shown'
    )
    for (const empty of ['', null]) {
      await put({ webhookUrl: url })
      t.equal((await put({ webhookUrl: empty })).status, 200)
      t.equal(await account.column('webhook_url'), null, `${JSON.stringify(empty)} clears the URL`)
      t.match(await me(account), { onboarding: { hasWebhookUrl: false } })
      await put({ webhookSecret: 'my own secret of mine' })
      t.same(Object.keys((await put({ webhookSecret: empty })).json() as object), ['success', 'message'])
      t.equal(await account.column('webhook_secret'), null, `${JSON.stringify(empty)} clears the secret`)
    }
  }
)

t.test('webhook-url: both members absent are 400', async t => {
  const account = await fresh()
  const answer = await account.send('PUT', '/api/merchant/webhook-url', { other: 1 })
  t.equal(answer.status, 400)
  t.same(answer.json(), { error: 'webhookUrl or webhookSecret is required' })
})

t.test(
  'webhook-url: a bad format, a blocked hostname and an internal port are 400 {error}, and nothing is stored',
  async t => {
    const account = await fresh()
    for (const webhookUrl of [
      'nonsense',
      'http://shop.example/',
      'https://metadata.google.internal/',
      'https://10.0.0.7/',
      'https://shop.example:6379/',
      5,
      { a: 1 },
      'https://u:p@shop.example/'
    ]) {
      const answer = await account.send('PUT', '/api/merchant/webhook-url', {
        webhookUrl,
        webhookSecret: 'my own secret of mine'
      })
      t.equal(answer.status, 400, JSON.stringify(webhookUrl))
      t.same(Object.keys(answer.json() as object), ['error'])
      t.match(answer.json(), { error: /webhook URL/i })
    }
    t.equal(await account.column('webhook_url'), null)
    t.equal(await account.column('webhook_secret'), null)
  }
)

t.test('webhook-url: a secret has 16 to 200 characters, else a validation problem', async t => {
  const account = await fresh()
  for (const webhookSecret of ['s'.repeat(15), 's'.repeat(201), 5]) {
    const answer = await account.send('PUT', '/api/merchant/webhook-url', {
      webhookUrl: 'https://shop.example/',
      webhookSecret
    })
    t.equal(answer.status, 400)
    t.match(answer.json(), { errors: { WebhookSecret: [String] } })
  }
  t.equal(await account.column('webhook_url'), null)
  for (const length of [16, 200])
    t.equal((await account.send('PUT', '/api/merchant/webhook-url', { webhookSecret: 's'.repeat(length) })).status, 200)
})

t.test(
  'GET /api/merchant/api-key-info: created and last-rotated; POST regenerate-key: a new key, the old one invalid immediately',
  async t => {
    const account = await fresh()
    const info = (await account.send('GET', '/api/merchant/api-key-info')).json() as Record<string, unknown>
    t.same(Object.keys(info), ['createdAt', 'lastRotatedAt', 'keyHint'])
    t.equal(info['lastRotatedAt'], null)
    t.ok(account.apiKey.includes(String(info['keyHint'])), 'the hint is a part of the key')
    const answer = await account.send('POST', '/api/merchant/regenerate-key')
    t.equal(answer.status, 200)
    t.match(answer.headers['cache-control'], 'no-store')
    const issued = answer.json() as { merchantId: number; apiKey: string; regeneratedAt: string }
    t.same(Object.keys(issued), ['merchantId', 'apiKey', 'regeneratedAt'])
    t.equal(issued.merchantId, account.id)
    const old = await account.send('GET', '/api/merchant/me')
    t.equal(old.status, 401)
    t.match(old.json(), { error: 'Invalid API key', message: String })
    const renewed = accountOf(gateway, account.id, issued.apiKey)
    const after = (await renewed.send('GET', '/api/merchant/api-key-info')).json() as Record<string, unknown>
    t.equal(after['createdAt'], info['createdAt'])
    t.equal(after['lastRotatedAt'], issued.regeneratedAt)
    t.not(after['keyHint'], info['keyHint'])
  }
)

t.test('GET /api/merchant/quickstart | none | quickstart object, with what has really been done', async t => {
  const account = await fresh()
  const completed = async () => {
    const { steps, ...head } = (await account.send('GET', '/api/merchant/quickstart')).json() as {
      steps: Array<{ stepNumber: number; isCompleted: boolean }>
      completedSteps: number
    }
    t.same(Object.keys(head), [
      'merchantId',
      'merchantName',
      'completedSteps',
      'totalSteps',
      'requiredStepsCompleted',
      'requiredStepsTotal',
      'isReadyForProduction'
    ])
    const list = steps.filter(step => step.isCompleted).map(step => step.stepNumber)
    t.equal(head.completedSteps, list.length)
    return list
  }
  t.same(await completed(), [1])
  await account.send('PUT', '/api/merchant/primary-key', { primaryApiKey: 'a-primary-key' })
  t.same(await completed(), [1, 2])
  await account.send('PUT', '/api/merchant/webhook-url', { webhookUrl: 'https://shop.example/hook' })
  t.same(await completed(), [1, 2, 3])
  t.equal((await account.send('POST', '/api/l402/challenges', { resource: 'a report', priceSats: 5 })).status, 200)
  t.same(await completed(), [1, 2, 3, 5])
  const payment = await account.send('POST', '/api/payments', { orderId: 'first', amount: '0.00001', currency: 'BTC' })
  t.same(await completed(), [1, 2, 3, 5], 'a payment that is not paid completes nothing')
  await gateway.pay((payment.json() as { lightningInvoice: string }).lightningInvoice)
  t.same(await completed(), [1, 2, 3, 4, 5])
  t.match((await account.send('GET', '/api/merchant/quickstart')).json(), {
    isReadyForProduction: true,
    requiredStepsCompleted: 4,
    requiredStepsTotal: 4
  })
})

t.test('the examples of the quickstart can be pasted into a shell', async t => {
  const account = await fresh()
  const { steps } = (await account.send('GET', '/api/merchant/quickstart')).json() as {
    steps: Array<{ endpoint: string; exampleRequest: string }>
  }
  t.notMatch(JSON.stringify(steps), account.apiKey)
  for (const { exampleRequest, endpoint } of steps) {
    const words = spawnSync('sh', ['-c', exampleRequest.replace(/^curl/, `printf '%s\\n'`)], {
      env: { BOLTGATE_API_KEY: account.apiKey },
      encoding: 'utf8'
    })
      .stdout.trimEnd()
      .split('\n')
    const option = (name: string) => words.flatMap((word, at) => (words[at - 1] === name ? [word] : []))
    const [method = ''] = option('-X')
    const url = words[words.indexOf('-X') + 2] ?? ''
    const [body = null] = option('-d')
    t.equal(`${method} ${url}`, endpoint.replace(' ', ` ${gateway.url}`))
    const headers = Object.fromEntries(option('-H').map(line => line.split(': ')))
    t.equal(headers['X-API-Key'], account.apiKey)
    t.ok((await gateway.send(method, url, { headers, body })).status < 300, endpoint)
  }
})

t.test(
  'an account without a subscription can still be repaired: no operation here has the subscription gate (decision 36)',
  async t => {
    const account = await fresh()
    await account.set({ plan_tier: 'individual', subscription_status: 'canceled' })
    t.equal((await account.send('GET', '/api/proxy')).status, 403)
    for (const path of ['me', 'l402-status', 'subscription', 'api-key-info', 'quickstart'])
      t.equal((await account.send('GET', `/api/merchant/${path}`)).status, 200, path)
    t.equal((await account.send('PUT', '/api/merchant/primary-key', { primaryApiKey: 'a-primary-key' })).status, 200)
    t.equal(
      (await account.send('PUT', '/api/merchant/webhook-url', { webhookUrl: 'https://shop.example/' })).status,
      200
    )
    t.equal((await account.send('POST', '/api/merchant/validate-primary')).status, 200)
    t.equal((await account.send('POST', '/api/merchant/regenerate-key')).status, 200)
  }
)
