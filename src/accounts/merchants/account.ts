import { nullableText } from '../../engine/formats/text-patterns.ts'
import type { ProxyCounts } from './holdings.ts'
import { Type, type Static } from 'typebox'
import { iso, isoTime, isoTimeOrNull } from '../../engine/formats/iso-time.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import { planCaps, planFeatures, planNames } from './plans.ts'
import type { RecordOf } from '../../platform/database/rows.ts'
import type { headColumns, Merchant } from './schema.ts'

const planTier = Type.String({
  description: 'free, individual or l402; retired ids are resolved. Take an unknown value for free.'
})

/** `features` and `onboarding` of an account (contract, Merchant account; decision 73). */
export const FeaturesView = Type.Object(
  {
    refundsEnabled: Type.Boolean(),
    multiCurrencyEnabled: Type.Boolean(),
    analyticsEnabled: Type.Boolean(),
    prioritySupport: Type.Boolean(),
    customBrandingEnabled: Type.Boolean(),
    maxWebhookEndpoints: Type.Integer({ description: 'Most webhook endpoints, the webhook URL among them.' }),
    l402Enabled: Type.Boolean({ description: 'False whenever the account is inactive.' })
  },
  { title: 'MerchantFeatures' }
)

const OnboardingView = Type.Object(
  {
    hasPaymentProviderKey: Type.Boolean(),
    hasWebhookUrl: Type.Boolean(),
    hasActiveProxy: Type.Boolean(),
    proxyCount: Type.Integer({ description: 'Proxies that are not deleted.' }),
    isFullyConfigured: Type.Boolean({ description: 'A provider key and a webhook URL are there.' })
  },
  { title: 'MerchantOnboarding' }
)

/** Members that the merchant's account and the administrator's list share, in the order of its CSV columns. */
export const AccountHead = Type.Object({
  merchantId: Type.Integer(),
  name: Type.String(),
  email: Type.String(),
  planTier,
  subscriptionStatus: nullableText('Null on a paid plan without a subscription on file.'),
  isActive: Type.Boolean(),
  createdAt: isoTime()
})

export type HeadFields = RecordOf<typeof headColumns>

export function accountHead(merchant: HeadFields): Static<typeof AccountHead> {
  return {
    merchantId: merchant.id,
    name: merchant.name,
    email: merchant.email,
    planTier: merchant.tier,
    subscriptionStatus: shownStatus(merchant),
    isActive: merchant.isActive,
    createdAt: iso(merchant.createdAt)
  }
}

/** Response of `GET /api/merchant/me` (contract, Merchant account). An admin's detail adds members (decision 156). */
export const AccountView = Type.Object(
  {
    ...AccountHead.properties,
    features: FeaturesView,
    onboarding: OnboardingView
  },
  { title: 'MerchantAccount' }
)
export type AccountView = Static<typeof AccountView>

export const LicenseView = Type.Object(
  {
    l402Enabled: Type.Boolean(),
    planTier,
    subscriptionStatus: nullableText(),
    isActive: Type.Boolean()
  },
  { title: 'L402License' }
)
export type LicenseView = Static<typeof LicenseView>

/** Response of `GET /api/merchant/subscription` (contract, Subscription; decision 81). */
export const SubscriptionView = Type.Object(
  {
    planTier,
    planName: Type.String(),
    status: nullableText('active, trialing, past_due or canceled; null on a paid plan without a subscription on file.'),
    billingCustomerId: nullableText(),
    limits: Type.Object({
      maxMerchants: Type.Integer(),
      maxEnvironments: Type.Integer(),
      maxWebhookEndpoints: Type.Integer()
    })
  },
  { title: 'Subscription' }
)
export type SubscriptionView = Static<typeof SubscriptionView>

export const KeyInfoView = Type.Object(
  {
    createdAt: isoTime('When the account got its first key.'),
    lastRotatedAt: isoTimeOrNull('When the key was last regenerated; null when it never was.'),
    keyHint: Type.String({ description: 'The part of the key that is no secret, to tell keys apart.' })
  },
  { title: 'ApiKeyInfo' }
)
export type KeyInfoView = Static<typeof KeyInfoView>

/**
 * Displayed status. The free plan is always active, whatever an earlier subscription left (decisions 81 and 82). Null
 * for a paid plan without a status.
 */
export function shownStatus(merchant: Pick<Merchant, 'tier' | 'subscriptionStatus'>): string | null {
  if (merchant.tier === 'free') return 'active'
  return merchant.subscriptionStatus === '' ? null : merchant.subscriptionStatus
}

/**
 * `status` of the subscription object, which has four values instead of seven (contract, Subscription): those that
 * require renewal read `canceled`, as in the gate.
 */
function subscriptionStatus(merchant: Merchant): string | null {
  const status = shownStatus(merchant)
  return status === null || status === 'active' || status === 'trialing' || status === 'past_due' ? status : 'canceled'
}

export function accountView(merchant: Merchant, plans: GatewayConfig['plans'], proxies: ProxyCounts): AccountView {
  const hasPaymentProviderKey = merchant.primaryKey !== null || merchant.alternateKey !== null
  const hasWebhookUrl = merchant.webhookUrl !== null
  return {
    ...accountHead(merchant),
    features: {
      ...planFeatures[merchant.tier],
      ...merchant.flags,
      maxWebhookEndpoints: planCaps(plans, merchant.tier, merchant.caps).webhookEndpoints,
      l402Enabled: merchant.flags.l402Enabled && merchant.isActive
    },
    onboarding: {
      hasPaymentProviderKey,
      hasWebhookUrl,
      hasActiveProxy: proxies.active > 0,
      proxyCount: proxies.count,
      isFullyConfigured: hasPaymentProviderKey && hasWebhookUrl
    }
  }
}

export function licenseView(merchant: Merchant): LicenseView {
  return {
    l402Enabled: merchant.flags.l402Enabled && merchant.isActive,
    planTier: merchant.tier,
    subscriptionStatus: shownStatus(merchant),
    isActive: merchant.isActive
  }
}

export function subscriptionView(merchant: Merchant, plans: GatewayConfig['plans']): SubscriptionView {
  return {
    planTier: merchant.tier,
    planName: planNames[merchant.tier],
    status: subscriptionStatus(merchant),
    billingCustomerId: merchant.tier === 'free' ? null : merchant.billingCustomerId,
    limits: {
      maxMerchants: merchant.tier === 'l402' ? 5 : 1,
      maxEnvironments: merchant.tier === 'l402' ? 3 : 1,
      maxWebhookEndpoints: planCaps(plans, merchant.tier, merchant.caps).webhookEndpoints
    }
  }
}

export function keyInfoView(merchant: Merchant): KeyInfoView {
  return {
    createdAt: iso(merchant.keyCreatedAt),
    lastRotatedAt: iso(merchant.keyRotatedAt),
    keyHint: merchant.keyId
  }
}
