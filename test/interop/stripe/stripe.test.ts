/** What billing asks of Stripe, before Stripe's own mock: it refuses what its OpenAPI description does not have. */
import { spawn } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { once } from 'node:events'
import { delimiter, join } from 'node:path'
import { createInterface } from 'node:readline'
import { Stripe } from 'stripe'
import t from 'tap'
import { StripeBilling } from '../../../src/plans/stripe/stripe.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'

const program = findProgram()
const skip =
  program === null
    ? 'stripe-mock is not at hand: run sh test/interop/stripe/install.sh FOLDER, then set BOLTGATE_STRIPE_MOCK_BIN=FOLDER'
    : false

/** In the folder that the environment names, or on the path. */
function findProgram() {
  const folders = [
    process.env['BOLTGATE_STRIPE_MOCK_BIN'] ?? '',
    ...(process.env['PATH'] ?? '').split(delimiter)
  ].filter(folder => folder !== '')
  return folders.map(folder => join(folder, 'stripe-mock')).find(isProgram) ?? null
}

function isProgram(path: string) {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    // Not there, or not for us to run.
    return false
  }
}

t.test('stripe-mock', { skip }, async t => {
  if (program === null) return
  // An empty port has the system choose one; without the second it would take a fixed one for https.
  const mock = spawn(program, ['-http-addr', '127.0.0.1:', '-https-addr', '127.0.0.1:'], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  t.teardown(async () => {
    mock.kill()
    await once(mock, 'exit')
  })
  const url = await new Promise<string>((resolve, reject) => {
    mock.once('error', reject)
    mock.once('exit', code => {
      reject(new Error(`stripe-mock ended with ${code}`))
    })
    createInterface({ input: mock.stdout }).on('line', line => {
      const port = /Listening for HTTP at address: .*:(\d+)/.exec(line)?.[1]
      if (port !== undefined) resolve(`http://127.0.0.1:${port}`)
    })
  })
  const billing = new StripeBilling({
    key: new Secret('sk_test_123'),
    webhookSecret: new Secret('whsec_123'),
    price: 'price_123',
    url,
    timeout: 20_000,
    clock: systemClock
  })
  const request = {
    plan: 'individual',
    email: 'buyer@example.com',
    customerName: 'Buyer',
    merchantId: 42,
    customerId: null,
    trialDays: 30,
    successUrl: 'https://shop.example/done',
    cancelUrl: 'https://shop.example/left'
  } as const

  await t.test('it knows the parameters that we send: without that the rest would prove nothing', async t => {
    const { hostname: host, port } = new URL(url)
    const stripe = new Stripe('sk_test_123', { host, port, protocol: 'http', maxNetworkRetries: 0 })
    // It lets unknown names pass below the first level, but looks at the values of those that it knows.
    const odd: ReadonlyArray<readonly [what: string, more: object]> = [
      ['an unknown name', { no_such_parameter: '1' }],
      ['payment_method_collection', { payment_method_collection: 'nonsense' }],
      ['trial_period_days', { subscription_data: { trial_period_days: 'nonsense' } }],
      [
        'missing_payment_method',
        { subscription_data: { trial_settings: { end_behavior: { missing_payment_method: 'nonsense' } } } }
      ],
      ['metadata of the subscription', { subscription_data: { metadata: 'nonsense' } }],
      ['quantity', { line_items: [{ price: 'price_123', quantity: 'nonsense' }] }]
    ]
    for (const [what, more] of odd) {
      const requests = {
        mode: 'subscription',
        success_url: request.successUrl,
        line_items: [{ price: 'price_123', quantity: 1 }],
        ...more
      }
      await t.rejects(stripe.rawRequest('POST', '/v1/checkout/sessions', requests), { statusCode: 400 }, what)
    }
  })

  await t.test('the parameters of a checkout with a trial', async t => {
    t.match(await billing.createCheckout({ ...request, idempotencyKey: 'a' }), {
      sessionId: /^cs_/,
      checkoutUrl: /^http/
    })
  })

  await t.test('the parameters of a checkout of a known customer without a trial', async t => {
    t.match(
      await billing.createCheckout({
        ...request,
        customerId: 'cus_123',
        customerName: null,
        trialDays: 0,
        idempotencyKey: 'b'
      }),
      { sessionId: /^cs_/ }
    )
  })

  await t.test('the parameters of the portal', async t => {
    t.match(await billing.portal('cus_123', 'https://shop.example/account'), /^http/)
  })

  await t.test('a subscription is read, with its customer and the period of its item', async t => {
    const read = await billing.subscription('sub_123')
    t.match(read, {
      subscriptionId: /^sub_/,
      customerId: /^cus_/,
      status: String,
      startedAt: Number,
      plan: null,
      merchantId: null
    })
    t.ok(Number.isSafeInteger(read?.currentPeriodEnd), `${read?.currentPeriodEnd}`)
  })
})
