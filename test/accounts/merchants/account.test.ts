import { testPlans } from '../../support/merchants.ts'
import * as fc from 'fast-check'
import t from 'tap'
import { accountView, licenseView, subscriptionView } from '../../../src/accounts/merchants/account.ts'
import type { Merchant } from '../../../src/accounts/merchants/schema.ts'
import type { SealedValue } from '../../../src/platform/keys/secrets.ts'
import { aMerchant } from './a-merchant.ts'

const noProxies = { count: 0, active: 0 }
const sealed: SealedValue = { ciphertext: 'sealed', place: { table: 'merchants', column: 'primary_key', row: '7' } }
const account = (different: Parameters<typeof aMerchant>[0] = {}, proxies = noProxies) =>
  accountView(aMerchant(different), testPlans, proxies)

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

t.test('refundsEnabled, multiCurrencyEnabled and l402Enabled are per-account flags, not plan lookups', async t => {
  for (const storedTier of ['free', 'individual', 'l402']) {
    for (const flags of [
      { refundsEnabled: true, multiCurrencyEnabled: false, l402Enabled: false },
      { refundsEnabled: false, multiCurrencyEnabled: true, l402Enabled: false },
      { refundsEnabled: false, multiCurrencyEnabled: false, l402Enabled: true }
    ])
      t.match(account({ storedTier, flags }).features, flags, `${storedTier} ${JSON.stringify(flags)}`)
  }
})

t.test('l402Enabled is false whenever isActive is false, on me and on l402-status', async t => {
  const merchant = aMerchant({ isActive: false, flags: { l402Enabled: true } })
  t.equal(accountView(merchant, testPlans, noProxies).features.l402Enabled, false)
  t.match(licenseView(merchant), { l402Enabled: false, isActive: false })
})

t.test(
  'onboarding: hasPaymentProviderKey, hasWebhookUrl, hasActiveProxy, proxyCount, isFullyConfigured (decision 73)',
  async t => {
    const url = 'https://shop.example/hook'
    const rows: ReadonlyArray<readonly [Partial<Merchant>, { count: number; active: number }, object]> = [
      [
        { primaryKey: sealed },
        noProxies,
        { hasPaymentProviderKey: true, hasWebhookUrl: false, isFullyConfigured: false }
      ],
      [{ alternateKey: sealed }, noProxies, { hasPaymentProviderKey: true, isFullyConfigured: false }],
      [{ webhookUrl: url }, noProxies, { hasPaymentProviderKey: false, hasWebhookUrl: true, isFullyConfigured: false }],
      [
        { primaryKey: sealed, webhookUrl: url },
        noProxies,
        { hasActiveProxy: false, proxyCount: 0, isFullyConfigured: true }
      ],
      [{}, { count: 2, active: 0 }, { hasActiveProxy: false, proxyCount: 2, isFullyConfigured: false }],
      [{}, { count: 2, active: 1 }, { hasActiveProxy: true, proxyCount: 2, isFullyConfigured: false }]
    ]
    for (const [different, proxies, expected] of rows)
      t.match(account(different, proxies).onboarding, expected, JSON.stringify([Object.keys(different), proxies]))
  }
)

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
        const { planTier, features } = accountView(merchant, testPlans, noProxies)
        const plain = aMerchant({ storedTier: planTier })
        t.ok(['free', 'individual', 'l402'].includes(planTier))
        t.same(features, accountView(plain, testPlans, noProxies).features)
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
