import * as fc from 'fast-check'
import t from 'tap'
import { gate, mayBeRenewed } from '../../../src/accounts/merchants/gate.ts'
import { aMerchant } from './a-merchant.ts'

const now = Date.parse('2026-11-21T12:00:00.000Z')

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
