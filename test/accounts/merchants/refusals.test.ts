import t from 'tap'
import { startGateway, type Answer } from '../../support/gateway.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { newAccount } from './accounts.ts'

const clock = new ManualClock()
const gateway = await startGateway(t, { clock })

// One operation for each chain that has the subscription gate.
const gated = [
  ['GET', '/api/proxy'],
  ['GET', '/api/l402/challenges'],
  ['GET', '/api/payments/100000000000000'],
  ['GET', '/api/refunds'],
  ['GET', '/api/merchant/storefront'],
  ['GET', '/api/merchant/storefront/orders'],
  ['POST', '/api/merchant/storefront'],
  ['POST', '/api/merchant/storefront/invalidate-cache']
] as const

async function account(columns: Readonly<Record<string, unknown>>) {
  const made = await newAccount(gateway, {}, clock)
  await made.set(columns)
  return made
}

/** The members of a 403 but its wording. */
function refusal(answer: Answer) {
  if (answer.status !== 403) return answer.status
  const { message, ...members } = answer.json() as Record<string, unknown>
  if (typeof message !== 'string' || message === '') throw new Error('a 403 has a message')
  return members
}

const rows: ReadonlyArray<readonly [row: string, columns: Readonly<Record<string, unknown>>, expected: object]> = [
  ...[null, ''].map(
    subscription_status =>
      [
        'Subscription required | paid-tier account without valid subscription | subscribe',
        { plan_tier: 'individual', subscription_status },
        {
          error: 'Subscription required',
          action_required: 'subscribe',
          current_plan: 'individual',
          subscription_status: null
        }
      ] as const
  ),
  [
    'Subscription not active | status past_due | update_payment_method',
    { plan_tier: 'l402', subscription_status: 'past_due' },
    {
      error: 'Subscription not active',
      action_required: 'update_payment_method',
      current_plan: 'l402',
      subscription_status: 'past_due'
    }
  ],
  ...['canceled', 'unpaid', 'incomplete', 'incomplete_expired', 'paused'].map(
    status =>
      [
        `Subscription not active | status ${status} | renew_subscription`,
        { plan_tier: 'standalone', subscription_status: status },
        {
          error: 'Subscription not active',
          action_required: 'renew_subscription',
          current_plan: 'individual',
          subscription_status: status
        }
      ] as const
  )
]

for (const [row, columns, expected] of rows) {
  t.test(row, async t => {
    const { send } = await account(columns)
    for (const [method, path] of gated) t.same(refusal(await send(method, path)), expected, `${method} ${path}`)
  })
}

for (const status of ['active', 'trialing']) {
  t.test(`Statuses active and trialing pass: ${status} on a paid plan`, async t => {
    const { send } = await account({
      plan_tier: 'individual',
      subscription_status: status,
      multi_currency_enabled: true
    })
    for (const [method, path] of gated) t.not((await send(method, path)).status, 403, `${method} ${path}`)
    t.equal((await send('GET', '/api/proxy')).status, 200)
  })
}

t.test(
  'Subscription period expired | billing period end passed while status still active | renew_subscription, at the very moment by the clock',
  async t => {
    // Soon, since idle connections end by the same clock.
    const end = new Date(clock.now() + 1000)
    const paid = await Promise.all(
      ['active', 'trialing'].map(subscription_status =>
        account({ plan_tier: 'individual', subscription_status, current_period_end: end })
      )
    )
    const free = await account({ plan_tier: 'free', subscription_status: 'active', current_period_end: end })
    clock.advance(1000)
    for (const { send } of paid)
      t.equal((await send('GET', '/api/proxy')).status, 200, 'at its end the period has not passed')
    clock.advance(1)
    for (const [at, { send }] of paid.entries()) {
      for (const [method, path] of gated) {
        t.same(
          refusal(await send(method, path)),
          {
            error: 'Subscription period expired',
            action_required: 'renew_subscription',
            current_plan: 'individual',
            subscription_status: at === 0 ? 'active' : 'trialing',
            current_period_end: end.toISOString()
          },
          `${method} ${path}`
        )
      }
      t.match((await send('GET', '/api/merchant/subscription')).json(), { status: at === 0 ? 'active' : 'trialing' })
    }
    t.equal((await free.send('GET', '/api/proxy')).status, 200, 'the free plan has no period')
  }
)

for (const [feature, required_plan, action_required, plans, column, method, path] of [
  ['l402', 'individual', 'upgrade_plan', ['free'], 'l402_enabled', 'GET', '/api/proxy'],
  ['l402', 'individual', 'upgrade_plan', ['free'], 'l402_enabled', 'GET', '/api/l402/challenges'],
  ['refunds', null, 'contact_support', ['free', 'individual', 'l402'], 'refunds_enabled', 'POST', '/api/refunds'],
  ['multi_currency', 'individual', 'upgrade_plan', ['free'], 'multi_currency_enabled', 'POST', '/api/payments']
] as const)
  t.test(
    `Feature not available | feature ${feature} (required_plan ${required_plan}) | ${action_required}: ${path}`,
    async t => {
      for (const current_plan of plans) {
        const { send } = await account({ plan_tier: current_plan, [column]: false })
        const body = { orderId: 'one', amount: 1, currency: 'EUR' }
        const answer = await send(method, path, method === 'POST' ? body : undefined)
        t.same(refusal(answer), {
          error: 'Feature not available',
          action_required,
          current_plan,
          required_plan,
          feature
        })
        t.equal(/contact support/.test(answer.text), action_required === 'contact_support')
      }
    }
  )

t.test(
  'when current_plan equals required_plan the account flag was never applied; the message says to contact support',
  async t => {
    const { send } = await account({ plan_tier: 'individual', l402_enabled: false })
    const body = (await send('GET', '/api/proxy')).json()
    t.match(body, {
      action_required: 'upgrade_plan',
      current_plan: 'individual',
      required_plan: 'individual',
      message: /contact support/
    })
  }
)

t.test('current_plan: an unrecognized stored tier is echoed raw, and null when no tier is on file', async t => {
  for (const stored of ['enterprise-2019', null]) {
    const { send } = await account({ plan_tier: stored, l402_enabled: false })
    t.equal(((await send('GET', '/api/proxy')).json() as { current_plan: unknown }).current_plan, stored)
  }
})
