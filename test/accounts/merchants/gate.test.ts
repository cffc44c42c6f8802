import * as fc from 'fast-check'
import t from 'tap'
import { gate, mayBeRenewed, type GatedFeature } from '../../../src/accounts/merchants/gate.ts'
import type { Merchant } from '../../../src/accounts/merchants/schema.ts'
import { aMerchant } from './a-merchant.ts'

const now = Date.parse('2026-11-21T12:00:00.000Z')

/** The body of the refusal, without its wording. */
function refusal(merchant: Merchant, feature: GatedFeature | null = null, at = now): Record<string, unknown> | null {
  const error = gate(merchant, feature, at)
  if (error === null) return null
  const { message, ...members } = error.members() as Record<string, unknown>
  t.type(message, 'string')
  t.equal(error.status, 403)
  return members
}

t.test('Account inactive | merchant deactivated | contact_support: and no further members', t => {
  t.same(refusal(aMerchant({ isActive: false })), { error: 'Account inactive', action_required: 'contact_support' })
  t.end()
})

t.test('Subscription required | paid-tier account without valid subscription | subscribe', t => {
  for (const subscriptionStatus of [null, '']) {
    t.same(refusal(aMerchant({ subscriptionStatus })), {
      error: 'Subscription required',
      action_required: 'subscribe',
      current_plan: 'individual',
      subscription_status: null
    })
  }
  t.end()
})

t.test('Subscription not active | status past_due | update_payment_method', t => {
  t.same(refusal(aMerchant({ subscriptionStatus: 'past_due', storedTier: 'l402' })), {
    error: 'Subscription not active',
    action_required: 'update_payment_method',
    current_plan: 'l402',
    subscription_status: 'past_due'
  })
  t.end()
})

for (const status of ['canceled', 'unpaid', 'incomplete', 'incomplete_expired', 'paused']) {
  t.test(`Subscription not active | status ${status} | renew_subscription`, t => {
    t.same(refusal(aMerchant({ subscriptionStatus: status, storedTier: 'standard' })), {
      error: 'Subscription not active',
      action_required: 'renew_subscription',
      current_plan: 'individual',
      subscription_status: status
    })
    t.end()
  })
}

for (const status of ['active', 'trialing']) {
  t.test(`Subscription period expired | billing period end passed while status ${status} | renew_subscription`, t => {
    const merchant = aMerchant({ subscriptionStatus: status, currentPeriodEnd: now })
    t.equal(refusal(merchant, null, now), null, 'at the very millisecond it has not passed')
    t.same(refusal(merchant, null, now + 1), {
      error: 'Subscription period expired',
      action_required: 'renew_subscription',
      current_plan: 'individual',
      subscription_status: status,
      current_period_end: '2026-11-21T12:00:00.000Z'
    })
    t.equal(
      refusal(aMerchant({ subscriptionStatus: status, currentPeriodEnd: null })),
      null,
      'a null period end passes'
    )
    t.end()
  })
}

t.test('Feature not available | feature refunds (required_plan null) | contact_support', t => {
  t.same(refusal(aMerchant({ flags: { refundsEnabled: false } }), 'refunds'), {
    error: 'Feature not available',
    action_required: 'contact_support',
    current_plan: 'individual',
    required_plan: null,
    feature: 'refunds'
  })
  t.end()
})

for (const [feature, flag] of [
  ['multi_currency', 'multiCurrencyEnabled'],
  ['l402', 'l402Enabled']
] as const) {
  t.test(`Feature not available | feature ${feature} (required_plan individual) | upgrade_plan`, t => {
    t.same(refusal(aMerchant({ storedTier: 'free', subscriptionStatus: null, flags: { [flag]: false } }), feature), {
      error: 'Feature not available',
      action_required: 'upgrade_plan',
      current_plan: 'free',
      required_plan: 'individual',
      feature
    })
    t.equal(refusal(aMerchant({ flags: { [flag]: true } }), feature), null)
    t.end()
  })
}

t.test('when current_plan equals required_plan the message says to contact support', t => {
  t.match(gate(aMerchant({ flags: { l402Enabled: false } }), 'l402', now)?.message, /contact support/)
  t.notMatch(
    gate(aMerchant({ storedTier: 'free', flags: { l402Enabled: false } }), 'l402', now)?.message,
    /contact support/
  )
  t.end()
})

t.test('current_plan echoes an unrecognized stored tier raw and is null without one; both are treated as free', t => {
  t.equal(refusal(aMerchant({ storedTier: 'gold', subscriptionStatus: 'canceled' })), null)
  t.match(refusal(aMerchant({ storedTier: 'gold', flags: { refundsEnabled: false } }), 'refunds'), {
    current_plan: 'gold'
  })
  t.equal(refusal(aMerchant({ storedTier: null, flags: { refundsEnabled: false } }), 'refunds')?.['current_plan'], null)
  t.end()
})

t.test('the free plan skips the subscription rows whatever billing says', t => {
  fc.assert(
    fc.property(
      fc.constantFrom('free', 'pilot', 'gold', null),
      fc.constantFrom(null, 'past_due', 'canceled', 'unpaid', 'active'),
      fc.option(fc.integer()),
      (storedTier, subscriptionStatus, currentPeriodEnd) =>
        gate(aMerchant({ storedTier, subscriptionStatus, currentPeriodEnd }), null, now) === null
    )
  )
  t.end()
})

t.test('of several reasons the first counts: inactive, required, not active, expired, feature', t => {
  const order = [
    'Account inactive',
    'Subscription required',
    'Subscription not active',
    'Subscription period expired',
    'Feature not available'
  ]
  const everything = {
    isActive: false,
    subscriptionStatus: null,
    currentPeriodEnd: now - 1,
    flags: { refundsEnabled: false }
  }
  const seen = [
    gate(aMerchant(everything), 'refunds', now),
    gate(aMerchant({ ...everything, isActive: true }), 'refunds', now),
    gate(aMerchant({ ...everything, isActive: true, subscriptionStatus: 'past_due' }), 'refunds', now),
    gate(aMerchant({ ...everything, isActive: true, subscriptionStatus: 'trialing' }), 'refunds', now),
    gate(
      aMerchant({ ...everything, isActive: true, subscriptionStatus: 'trialing', currentPeriodEnd: null }),
      'refunds',
      now
    )
  ].map(error => error?.error)
  t.same(seen, order)
  t.end()
})

t.test('only an ended period may be outdated news', t => {
  const expired = gate(aMerchant({ currentPeriodEnd: now - 1 }), null, now)
  const canceled = gate(aMerchant({ subscriptionStatus: 'canceled' }), null, now)
  if (expired === null || canceled === null) return t.fail('both must be refused')
  t.equal(mayBeRenewed(expired), true)
  t.equal(mayBeRenewed(canceled), false)
  t.end()
})
