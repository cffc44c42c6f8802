import { nullableInteger } from '../../engine/formats/text-patterns.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import { VALIDATION, FEATURE_NOT_AVAILABLE } from '../../engine/operations/error-kinds.ts'
import { ShortError, GateError, ProblemError } from '../../engine/operations/errors.ts'
import type { MerchantFlags, Merchant } from './schema.ts'
import { Type, type Static } from 'typebox'
import type { AnyOperation } from '../../engine/operations/operation.ts'
import type { Sql } from '../../platform/database/database.ts'
import { countEndpoints, countProxies } from './holdings.ts'
import { merchantOperation, settingsRead } from './principal.ts'
import { defineError } from '../../platform/system/errors.ts'

export type PlanTier = 'free' | 'individual' | 'l402'

export const planTiers: readonly PlanTier[] = Object.freeze(['free', 'individual', 'l402'])

/** Product names (contract, Plan tiers). */
export const planNames: Readonly<Record<PlanTier, string>> = Object.freeze({
  free: 'Free Producer Sandbox',
  individual: 'Agentic Commerce',
  l402: 'Agentic Commerce - Business'
})

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
export const planFeatures = {
  free: {
    analyticsEnabled: false,
    prioritySupport: false,
    customBrandingEnabled: false,
    slaUptimePercentage: 99
  },
  individual: {
    analyticsEnabled: true,
    prioritySupport: false,
    customBrandingEnabled: false,
    slaUptimePercentage: 99.5
  },
  l402: {
    analyticsEnabled: true,
    prioritySupport: true,
    customBrandingEnabled: true,
    slaUptimePercentage: 99.9
  }
} as const

/**
 * Flags that a plan sets on creation, approval, and billing or admin changes: l402 on every plan, multi-currency on
 * paid ones. Refunds are only enabled by an operator (decision 77).
 */
export function flagsOfTier(tier: PlanTier): Omit<MerchantFlags, 'refundsEnabled'> {
  return { l402Enabled: true, multiCurrencyEnabled: tier !== 'free' }
}

/** Start of the UTC month; challenges count from it (decision 87). */
export function monthStart(now: number): number {
  const date = new Date(now)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1)
}

const PLAN_LIMIT = defineError('BG_PLAN_LIMIT', {
  status: 402,
  cause: "A limit of the merchant's plan is reached: price, challenges per month, or endpoints. It cannot be paid.",
  fix: 'Lower the price, wait for the next month (UTC), retire an endpoint, or upgrade the plan.'
})

/** Cap of a plan (decision 102). */
export type PlanCap = 'price' | 'monthly' | 'endpoint'

const caps: Readonly<Record<PlanCap, { readonly of: keyof PlanCaps; readonly title: string; readonly noun: string }>> =
  Object.freeze({
    price: { of: 'maxPriceSats', title: 'Plan price limit reached', noun: 'satoshis for one challenge' },
    monthly: { of: 'challengesPerMonth', title: 'Plan monthly limit reached', noun: 'challenges a month' },
    endpoint: { of: 'endpoints', title: 'Plan endpoint limit reached', noun: 'distinct endpoints' }
  })

interface CapUse {
  /** This month's challenges or the endpoints; 0 for a price. */
  readonly current: number
  /** A price in satoshis, or 1. */
  readonly requested: number
}

/**
 * The 402 problem of an exceeded plan cap, or null. Never has WWW-Authenticate: an agent must not try to pay it
 * (decision 102).
 * @param problemBase `{publicUrl}/problems` (decision 103)
 */
export function overCap(
  cap: PlanCap,
  merchant: Merchant,
  allowed: PlanCaps,
  use: CapUse,
  problemBase: string
): ProblemError | null {
  const { of, title, noun } = caps[cap]
  const limit = allowed[of]
  if (limit === null || use.current + use.requested <= limit) return null
  return new ProblemError(
    PLAN_LIMIT,
    `${problemBase}/plan-${cap}-limit`,
    title,
    `This plan allows ${limit} ${noun}; the request would make it ${use.current + use.requested}.`,
    {
      error: title,
      limit,
      current: use.current,
      requested: use.requested,
      current_plan: currentPlan(merchant.storedTier),
      required_plan: nextPlan(merchant),
      action_required: 'upgrade_plan'
    }
  )
}

/** 403 for webhook endpoints above the plan's `limit`: settings never answer 402 (contract, Errors: Status codes). */
export function webhookEndpointsUsedUp(merchant: Merchant, limit: number): GateError {
  return new GateError(
    FEATURE_NOT_AVAILABLE,
    `This plan allows ${limit} webhook ${limit === 1 ? 'endpoint' : 'endpoints'}; the webhook URL is one of them. Remove an endpoint, or upgrade the plan.`,
    {
      action_required: 'upgrade_plan',
      current_plan: currentPlan(merchant.storedTier),
      required_plan: nextPlan(merchant),
      feature: 'webhook_endpoints'
    }
  )
}

function nextPlan({ tier }: Merchant): 'individual' | 'l402' | null {
  return tier === 'free' ? 'individual' : tier === 'individual' ? 'l402' : null
}

const ownLimit = Type.Integer({ minimum: 0, maximum: 2_147_483_647 })

export const AccountLimits = Type.Object({
  endpoints: ownLimit,
  challengesPerMonth: ownLimit,
  maxPriceSats: ownLimit,
  webhookEndpoints: ownLimit
})

const limit = nullableInteger('Null: unlimited.')
const use = (description: string) => Type.Object({ used: Type.Integer(), limit }, { description })

const UsageView = Type.Object(
  {
    endpoints: use('Proxies, and resources of the producer API that are not retired.'),
    challengesThisMonth: use('Challenges of the producer API since the month began, in UTC.'),
    webhookEndpoints: use('The webhook URL is always one of them.'),
    maxPriceSats: limit,
    ownLimits: Type.Partial(AccountLimits, { description: 'Limits that the operator set for this account.' })
  },
  { title: 'PlanUsage' }
)
export type UsageView = Static<typeof UsageView>

export function usageOperation(sql: Sql, caps: (merchant: Merchant) => PlanCaps): AnyOperation[] {
  return [
    merchantOperation({
      ...settingsRead,
      id: 'getUsage',
      path: '/api/merchant/usage',
      summary: 'The limits of the plan, and what is used of them',
      description: 'A request above a limit is refused with 402 or 403, and paying an invoice does not help.',
      responses: { 200: { description: 'As counted now.', schema: UsageView } },
      handle: async ({ merchant, ctx }) => {
        const { id } = merchant
        const { endpoints, challengesPerMonth, webhookEndpoints, maxPriceSats } = caps(merchant)
        const [proxies, resources, [row]] = await Promise.all([
          countProxies(sql, id),
          countEndpoints(sql, id),
          sql<Array<{ challenges: number; webhooks: number }>>`
            select (select count(*)::int from challenges where merchant_id = ${String(id)} and source = 'producer'
                and created_at >= ${new Date(monthStart(ctx.now))}) as challenges,
              (select count(*)::int from webhook_endpoints where merchant_id = ${id}) as webhooks`
        ])
        return {
          endpoints: { used: proxies.count + resources, limit: endpoints },
          challengesThisMonth: { used: row?.challenges ?? 0, limit: challengesPerMonth },
          webhookEndpoints: { used: (row?.webhooks ?? 0) + 1, limit: webhookEndpoints },
          maxPriceSats,
          ownLimits: (merchant.caps ?? {}) as UsageView['ownLimits'] /* numbers: its schema on the way in */
        } satisfies UsageView
      }
    })
  ]
}
