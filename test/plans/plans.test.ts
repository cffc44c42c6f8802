import t from 'tap'
import { listedPlans, parseSoldPlan } from '../../src/plans/plans.ts'

t.test(
  'Checkout-session plan values are individual, l402, l402microtransactions; retired spellings and new Business subscriptions return 400',
  async t => {
    t.equal(parseSoldPlan('individual'), 'individual')
    const refused = (plan: string, message: RegExp) => {
      t.throws(() => parseSoldPlan(plan), { status: 400, message }, plan)
      t.throws(() => parseSoldPlan(plan), { message: /Allowed: individual\.$/ }, `${plan}: it says what is allowed`)
    }
    for (const plan of ['l402', 'l402microtransactions']) refused(plan, /Business is sold by contact only/)
    for (const plan of ['standard', 'kenticocommerce', 'standalone', 'standaloneapi', 'pilot'])
      refused(plan, new RegExp(`The plan ${plan} is retired`))
    refused('free', /free plan costs nothing/)
    for (const plan of ['', 'Individual', ' individual', 'constructor', '__proto__']) refused(plan, /^Unknown plan/)
  }
)

t.test('Pricing feeds return only publicly listed plans: free and individual (decision 165)', async t => {
  const caps = {
    free: { endpoints: 3, challengesPerMonth: 200, maxPriceSats: 1000, webhookEndpoints: 1 },
    individual: { endpoints: 2000, webhookEndpoints: 5 }
  }
  const plans = listedPlans(caps, 30)
  t.match(plans, [
    { planTier: 'free', name: 'Free Producer Sandbox', priceUsd: 0, interval: 'month', trialDays: 0 },
    { planTier: 'individual', name: 'Agentic Commerce', priceUsd: 49, interval: 'month', trialDays: 30 }
  ])
  t.equal(plans.length, 2)
  t.strictSame(plans[0]?.features.slice(1), [
    'Up to 3 endpoints',
    'Up to 200 challenges a month',
    'Up to 1,000 satoshis for one challenge',
    '1 webhook endpoint'
  ])
  t.match(plans[1]?.features, [
    'Lightning payments, L402 challenges and proxies',
    'Up to 2,000 endpoints',
    'Any number of challenges a month',
    'Challenges of any price'
  ])
  t.ok(plans[1]?.features.includes('Up to 5 webhook endpoints'), 'as many as the plan lets an account make')
  t.notOk(plans[1]?.features.includes('1 webhook endpoint'))
  t.equal(
    listedPlans({ ...caps, individual: { webhookEndpoints: 0 } }, 30)[1]?.features.at(-1),
    '1 webhook endpoint',
    'the webhook URL is there whatever the number'
  )
  t.notOk(plans[1]?.features.includes('Analytics'), 'no buyer is promised what does not exist')
  t.equal(listedPlans(caps, 0)[1]?.trialDays, 0)
})
