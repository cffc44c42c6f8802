import * as fc from 'fast-check'
import t from 'tap'
import {
  overCap,
  currentPlan,
  flagsOfTier,
  monthStart,
  parseTier,
  planCaps,
  resolveTier
} from '../../../src/accounts/merchants/plans.ts'
import { errorReply } from '../../../src/engine/operations/errors.ts'
import { aMerchant } from './a-merchant.ts'

const plans = {
  free: { endpoints: 3, challengesPerMonth: 200, maxPriceSats: 1000, webhookEndpoints: 1 },
  individual: { webhookEndpoints: 5 },
  l402: { maxPriceSats: 5000, webhookEndpoints: 5 }
}

for (const [stored, tier] of [
  ['free', 'free'],
  ['individual', 'individual'],
  ['l402', 'l402'],
  ['standard', 'individual'],
  ['kenticocommerce', 'individual'],
  ['standalone', 'individual'],
  ['standaloneapi', 'individual'],
  ['pilot', 'free']
] as const) {
  t.test(`the stored tier ${stored} resolves to ${tier}, and an admin may write it so`, async t => {
    t.equal(resolveTier(stored), tier)
    t.equal(currentPlan(stored), tier)
    t.equal(parseTier(stored), tier)
  })
}

t.test('any other stored tier, and none, resolves to free', async t => {
  const names = new Set([
    'free',
    'individual',
    'l402',
    'standard',
    'kenticocommerce',
    'standalone',
    'standaloneapi',
    'pilot'
  ])
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.constantFrom('constructor', '__proto__', 'toString', 'FREE', '')), stored => {
      fc.pre(!names.has(stored))
      return resolveTier(stored) === 'free'
    })
  )
  t.equal(resolveTier(null), 'free')
})

t.test('current_plan is an unrecognized stored tier echoed raw and null when no tier is on file', async t => {
  t.equal(currentPlan('enterprise-2019'), 'enterprise-2019')
  t.equal(currentPlan(null), null)
  t.equal(currentPlan(''), null)
})

t.test('an unrecognized or blank planTier is 400 naming accepted values', async t => {
  for (const text of ['', '  ', 'gold', 'Free']) {
    t.throws(
      () => parseTier(text),
      { status: 400, message: 'Invalid planTier. Accepted values: free, individual, l402.' },
      JSON.stringify(text)
    )
  }
})

t.test('the caps of a plan are those of the configuration, unlimited where it has none', async t => {
  t.same(planCaps(plans, 'free'), { endpoints: 3, challengesPerMonth: 200, maxPriceSats: 1000, webhookEndpoints: 1 })
  t.same(planCaps(plans, 'individual'), {
    endpoints: null,
    challengesPerMonth: null,
    maxPriceSats: null,
    webhookEndpoints: 5
  })
  t.same(planCaps(plans, 'l402'), {
    endpoints: null,
    challengesPerMonth: null,
    maxPriceSats: 5000,
    webhookEndpoints: 5
  })
})

t.test(
  'a plan switches l402 on, multi-currency on where it is paid, and never touches refunds (decision 77)',
  async t => {
    t.same(flagsOfTier('free'), { l402Enabled: true, multiCurrencyEnabled: false })
    t.same(flagsOfTier('individual'), { l402Enabled: true, multiCurrencyEnabled: true })
    t.same(flagsOfTier('l402'), { l402Enabled: true, multiCurrencyEnabled: true })
  }
)

t.test('months are counted in UTC', async t => {
  t.equal(monthStart(Date.parse('2026-11-30T23:59:59.999Z')), Date.parse('2026-11-01T00:00:00.000Z'))
  t.equal(monthStart(Date.parse('2026-12-01T00:00:00.000Z')), Date.parse('2026-12-01T00:00:00.000Z'))
})

t.test('plan cap reached: a 402 problem with its members and without WWW-Authenticate (decision 102)', async t => {
  const caps = planCaps(plans, 'free')
  const merchant = aMerchant({ storedTier: 'pilot' })
  const problem = overCap('price', merchant, caps, { current: 0, requested: 1001 }, 'https://gw.example/problems')
  if (problem === null) return t.fail('1001 sats must be above the cap')
  const reply = errorReply(problem, { correlationId: 'c', now: 0, mode: 'production' })
  t.equal(reply.status, 402)
  t.notOk(reply.headers.some(name => name.toLowerCase() === 'www-authenticate'))
  t.match(reply.headers, ['Content-Type', 'application/problem+json; charset=utf-8'])
  t.match(JSON.parse(String(reply.body)), {
    type: 'https://gw.example/problems/plan-price-limit',
    title: 'Plan price limit reached',
    status: 402,
    error: 'Plan price limit reached',
    limit: 1000,
    current: 0,
    requested: 1001,
    current_plan: 'free',
    required_plan: 'individual',
    action_required: 'upgrade_plan'
  })
  t.equal(overCap('price', merchant, caps, { current: 0, requested: 1000 }, 'b'), null, 'the cap itself is allowed')
  t.equal(overCap('monthly', merchant, caps, { current: 199, requested: 1 }, 'b'), null)
  t.match(overCap('monthly', merchant, caps, { current: 200, requested: 1 }, 'b'), { type: 'b/plan-monthly-limit' })
  t.match(overCap('endpoint', merchant, caps, { current: 3, requested: 1 }, 'b'), { type: 'b/plan-endpoint-limit' })
  t.equal(
    overCap('endpoint', aMerchant(), planCaps(plans, 'individual'), { current: 1e6, requested: 1 }, 'b'),
    null,
    'paid plans are unlimited by default'
  )
})
