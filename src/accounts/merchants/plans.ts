import type { GatewayConfig } from '../../engine/config/schema.ts'
import { VALIDATION } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import type { MerchantFlags } from './schema.ts'

export type PlanTier = 'free' | 'individual' | 'l402'

export const planTiers: readonly PlanTier[] = Object.freeze(['free', 'individual', 'l402'])

/** Product names (contract, Plan tiers). */
export const planNames: Readonly<Record<PlanTier, string>> = Object.freeze({
  free: 'Free Producer Sandbox',
  individual: 'Agentic Commerce',
  l402: 'Agentic Commerce - Business'
})

/** Id prefix of subscriptions paid in bitcoin. */
export const BITCOIN_PREFIX = 'btc_'

// A Map: a stored tier may be any text, such as `constructor`.
const known: ReadonlyMap<string, PlanTier> = new Map([
  ['free', 'free'],
  ['individual', 'individual'],
  ['l402', 'l402'],
  ['standard', 'individual'],
  ['kenticocommerce', 'individual'],
  ['standalone', 'individual'],
  ['standaloneapi', 'individual'],
  ['pilot', 'free']
])

/** Plan of a stored id: retired ids by the contract's table, missing and unknown ones are free (decision 80). */
export function resolveTier(stored: string | null): PlanTier {
  return stored === null ? 'free' : (known.get(stored) ?? 'free')
}

/** Stored ids of a plan, with retired ones. Missing and unknown ids are free as well. */
export function storedTiers(tier: PlanTier): readonly string[] {
  return [...known].flatMap(([stored, meant]) => (meant === tier ? [stored] : []))
}

/** `current_plan` of an error: the resolved plan, an unknown id verbatim, null without one (contract, Errors). */
export function currentPlan(stored: string | null): string | null {
  if (stored === null || stored === '') return null
  return known.get(stored) ?? stored
}

/**
 * Parses a planTier, including retired spellings.
 * @throws ShortError 400 that names the accepted values (decision 154)
 */
export function parseTier(text: string): PlanTier {
  const tier = known.get(text.trim())
  if (tier === undefined)
    throw new ShortError(VALIDATION, `Invalid planTier. Accepted values: ${planTiers.join(', ')}.`)
  return tier
}

/** Limits of a plan; null: unlimited. */
export interface PlanCaps {
  /** Active producer resources and proxies (decision 84). */
  readonly endpoints: number | null
  /** Producer API challenges per UTC month (decision 87). */
  readonly challengesPerMonth: number | null
  /** Satoshis per challenge. */
  readonly maxPriceSats: number | null
  /** Includes the callback URL (decision 79). */
  readonly webhookEndpoints: number
}

/** `own`: the account's, which take precedence. */
export function planCaps(
  plans: GatewayConfig['plans'],
  tier: PlanTier,
  own: Partial<PlanCaps> | null = null
): PlanCaps {
  const { endpoints, challengesPerMonth, maxPriceSats, webhookEndpoints } = plans[tier]
  return {
    endpoints: endpoints ?? null,
    challengesPerMonth: challengesPerMonth ?? null,
    maxPriceSats: maxPriceSats ?? null,
    webhookEndpoints,
    ...own
  }
}

/** Features by plan, unlike the three flags (decision 79). */
interface PlanFeatures {
  readonly analyticsEnabled: boolean
  readonly prioritySupport: boolean
  readonly customBrandingEnabled: boolean
  readonly slaUptimePercentage: number
}

export const planFeatures: Readonly<Record<PlanTier, PlanFeatures>> = Object.freeze({
  free: Object.freeze({
    analyticsEnabled: false,
    prioritySupport: false,
    customBrandingEnabled: false,
    slaUptimePercentage: 99
  }),
  individual: Object.freeze({
    analyticsEnabled: true,
    prioritySupport: false,
    customBrandingEnabled: false,
    slaUptimePercentage: 99.5
  }),
  l402: Object.freeze({
    analyticsEnabled: true,
    prioritySupport: true,
    customBrandingEnabled: true,
    slaUptimePercentage: 99.9
  })
})

/** `limits` of the subscription object (decision 81). */
interface SubscriptionLimits {
  readonly maxMerchants: number
  readonly maxEnvironments: number
  readonly maxWebhookEndpoints: number
}

export function subscriptionLimits(tier: PlanTier, maxWebhookEndpoints: number): SubscriptionLimits {
  return {
    maxMerchants: tier === 'l402' ? 5 : 1,
    maxEnvironments: tier === 'l402' ? 3 : 1,
    maxWebhookEndpoints
  }
}

/**
 * Flags that a plan sets on creation, approval, and billing or admin changes: l402 on every plan, multi-currency on
 * paid ones. Refunds are only enabled by an operator (decision 77).
 */
export function flagsOfTier(tier: PlanTier): Omit<MerchantFlags, 'refundsEnabled'> {
  return { l402Enabled: true, multiCurrencyEnabled: tier !== 'free' }
}

/** Start of the UTC month of `now` in milliseconds; challenges count from it (decision 87). */
export function monthStart(now: number): number {
  const date = new Date(now)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1)
}
