import { resolveTier } from '../../../src/accounts/merchants/plans.ts'
import type { Merchant, MerchantFlags } from '../../../src/accounts/merchants/schema.ts'

/** An account in good standing on the plan `individual`, with what a test needs different. */
export function aMerchant(
  different: Partial<Omit<Merchant, 'tier' | 'flags'>> & { flags?: Partial<MerchantFlags> } = {}
): Merchant {
  const storedTier = different.storedTier === undefined ? 'individual' : different.storedTier
  return {
    id: 7,
    name: 'Acme',
    email: 'acme@example.com',
    keyId: 'abcdefghij',
    keyCreatedAt: 0,
    keyRotatedAt: null,
    subscriptionStatus: 'active',
    currentPeriodEnd: null,
    billingCustomerId: null,
    billingSubscriptionId: null,
    isActive: true,
    providerChoice: null,
    primaryKey: null,
    alternateKey: null,
    webhookUrl: null,
    webhookSecret: null,
    colour: null,
    receiptNote: null,
    caps: null,
    createdAt: 0,
    ...different,
    storedTier,
    tier: resolveTier(storedTier),
    flags: { refundsEnabled: true, multiCurrencyEnabled: true, l402Enabled: true, ...different.flags }
  }
}
