import type { GatewayConfig } from '../../engine/config/schema.ts'
import { VALIDATION } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import type { MerchantFlags } from './schema.ts'

/** The plans (contract, Plan tiers). */
export type PlanTier = 'free' | 'individual' | 'l402'

/** Every plan, in the contract's order. */
export const planTiers: readonly PlanTier[] = Object.freeze(['free', 'individual', 'l402'])

/** The product's name of each plan (contract, Plan tiers). */
export const planNames: Readonly<Record<PlanTier, string>> = Object.freeze({
  free: 'Free Producer Sandbox',
  individual: 'Agentic Commerce',
  l402: 'Agentic Commerce - Business'
})

/** Begins the id of a subscription that is paid in bitcoin, by which it is told from one by card. */
export const BITCOIN_PREFIX = 'btc_'

// A Map, because a stored tier can be any text, `constructor` too.
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

/**
 * The plan that a stored id stands for: retired ids by the contract's table, none and unknown ones as free (decision
 * 80).
 */
export function resolveTier(stored: string | null): PlanTier {
  return stored === null ? 'free' : (known.get(stored) ?? 'free')
}

/** What is stored for a plan: its own id and retired ones. None and unknown ones stand for the free plan as well. */
export function storedTiers(tier: PlanTier): readonly string[] {
  return [...known].flatMap(([stored, meant]) => (meant === tier ? [stored] : []))
}

/**
 * `current_plan` of an error: the resolved plan, an unknown stored id as it stands, null when none is on file
 * (contract, Errors).
 */
export function currentPlan(stored: string | null): string | null {
  if (stored === null || stored === '') return null
  return known.get(stored) ?? stored
}

/**
 * Reads a planTier that somebody sent, retired spellings included.
 * @throws ShortError 400 that names the accepted values (decision 154)
 */
export function parseTier(text: string): PlanTier {
  const tier = known.get(text.trim())
  if (tier === undefined)
    throw new ShortError(VALIDATION, `Invalid planTier. Accepted values: ${planTiers.join(', ')}.`)
  return tier
}

/** What a plan allows; null is unlimited. */
export interface PlanCaps {
  /** Distinct endpoints: producer resources that are not retired, and proxies that are not deleted (decision 84). */
  readonly endpoints: number | null
  /** Challenges made through the producer API in one UTC month (decision 87). */
  readonly challengesPerMonth: number | null
  /** Satoshis for one challenge. */
  readonly maxPriceSats: number | null
  /** Webhook endpoints, the callback URL among them (decision 79). */
  readonly webhookEndpoints: number
}

/** The caps of a plan, from `plans` of the configuration (decision 88). */
export function planCaps(plans: GatewayConfig['plans'], tier: PlanTier): PlanCaps {
  const { endpoints, challengesPerMonth, maxPriceSats, webhookEndpoints } = plans[tier]
  return {
    endpoints: endpoints ?? null,
    challengesPerMonth: challengesPerMonth ?? null,
    maxPriceSats: maxPriceSats ?? null,
    webhookEndpoints
  }
}

/** Features that are plan lookups, unlike the three flags (decision 79). */
export interface PlanFeatures {
  readonly analyticsEnabled: boolean
  readonly prioritySupport: boolean
  readonly customBrandingEnabled: boolean
  readonly slaUptimePercentage: number
}

/** Those features of each plan (decision 79). */
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
export interface SubscriptionLimits {
  readonly maxMerchants: number
  readonly maxEnvironments: number
  readonly maxWebhookEndpoints: number
}

/** The subscription limits of a plan. */
export function subscriptionLimits(plans: GatewayConfig['plans'], tier: PlanTier): SubscriptionLimits {
  return {
    maxMerchants: tier === 'l402' ? 5 : 1,
    maxEnvironments: tier === 'l402' ? 3 : 1,
    maxWebhookEndpoints: plans[tier].webhookEndpoints
  }
}

/**
 * The flags that a plan sets on creation, approval, a billing change or an admin's change of planTier: l402 on every
 * plan, multi-currency on paid ones. Refunds are an operator's alone and come from no plan (decision 77).
 */
export function flagsOfTier(tier: PlanTier): Omit<MerchantFlags, 'refundsEnabled'> {
  return { l402Enabled: true, multiCurrencyEnabled: tier !== 'free' }
}

/** The beginning of the UTC month of `now`, both in milliseconds: from where challenges are counted (decision 87). */
export function monthStart(now: number): number {
  const date = new Date(now)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1)
}
