import { testPlans } from '../../support/merchants.ts'
import * as fc from 'fast-check'
import t from 'tap'
import { accountView, licenseView, subscriptionView } from '../../../src/accounts/merchants/account.ts'
import { aMerchant } from './a-merchant.ts'

const account = (different: Parameters<typeof aMerchant>[0] = {}) =>
  accountView(aMerchant(different), testPlans, { count: 0, active: 0 })

for (const [tier, analyticsEnabled, prioritySupport, customBrandingEnabled, maxWebhookEndpoints] of [
  ['free', false, false, false, 1],
  ['individual', true, false, false, 5],
  ['l402', true, true, true, 5]
] as const) {
  t.test(`features of the plan ${tier} that are plan lookups (decision 79)`, async t => {
    t.match(account({ storedTier: tier }).features, {
      analyticsEnabled,
      prioritySupport,
      customBrandingEnabled,
      maxWebhookEndpoints
    })
  })
}

t.test('flags are of the account and not of its plan; l402Enabled is false whenever isActive is false', async t => {
  const off = { refundsEnabled: false, multiCurrencyEnabled: false, l402Enabled: false }
  for (const storedTier of ['free', 'individual', 'l402'])
    for (const flag of Object.keys(off)) {
      const flags = { ...off, [flag]: true }
      t.match(account({ storedTier, flags }).features, flags, `${storedTier} ${flag}`)
    }
  const inactive = { isActive: false, flags: { l402Enabled: true } }
  t.equal(account(inactive).features.l402Enabled, false)
  t.match(licenseView(aMerchant(inactive)), { l402Enabled: false, isActive: false })
})

t.test(
  'whatever tier is stored, planTier is free, individual or l402 and everything shown follows from it',
  async t => {
    const stored = fc.oneof(
      fc.string(),
      fc.constantFrom('free', 'individual', 'l402', 'standard', 'pilot', 'constructor', '__proto__'),
      fc.constant(null)
    )
    fc.assert(
      fc.property(stored, storedTier => {
        const merchant = aMerchant({ storedTier })
        const { planTier, features } = accountView(merchant, testPlans, { count: 0, active: 0 })
        const plain = aMerchant({ storedTier: planTier })
        t.ok(['free', 'individual', 'l402'].includes(planTier))
        t.same(features, accountView(plain, testPlans, { count: 0, active: 0 }).features)
        t.same(subscriptionView(merchant, testPlans), subscriptionView(plain, testPlans))
      })
    )
  }
)

for (const [tier, planName, limits] of [
  ['free', 'Free Producer Sandbox', { maxMerchants: 1, maxEnvironments: 1, maxWebhookEndpoints: 1 }],
  ['individual', 'Agentic Commerce', { maxMerchants: 1, maxEnvironments: 1, maxWebhookEndpoints: 5 }],
  ['l402', 'Agentic Commerce - Business', { maxMerchants: 5, maxEnvironments: 3, maxWebhookEndpoints: 5 }]
] as const) {
  t.test(`Subscription of ${tier}: planTier, planName, status, billingCustomerId, limits (decision 81)`, async t => {
    t.same(subscriptionView(aMerchant({ storedTier: tier, billingCustomerId: 'cus_1' }), testPlans), {
      planTier: tier,
      planName,
      status: 'active',
      billingCustomerId: tier === 'free' ? null : 'cus_1',
      limits
    })
  })
}

for (const [stored, shown] of [
  ['active', 'active'],
  ['trialing', 'trialing'],
  ['past_due', 'past_due'],
  ['canceled', 'canceled'],
  ['unpaid', 'canceled'],
  ['incomplete', 'canceled'],
  ['incomplete_expired', 'canceled'],
  ['paused', 'canceled'],
  [null, null],
  ['', null]
] as const) {
  t.test(
    `Status values: active, trialing, past_due, canceled: a stored ${JSON.stringify(stored)} is shown as ${JSON.stringify(shown)}`,
    async t => {
      t.equal(subscriptionView(aMerchant({ subscriptionStatus: stored }), testPlans).status, shown)
      t.equal(
        subscriptionView(aMerchant({ storedTier: 'free', subscriptionStatus: stored }), testPlans).status,
        'active',
        'free is active immediately'
      )
    }
  )
}
