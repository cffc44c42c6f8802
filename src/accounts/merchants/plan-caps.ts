import { FEATURE_NOT_AVAILABLE } from '../../engine/operations/error-kinds.ts'
import { GateError, ProblemError } from '../../engine/operations/errors.ts'
import { currentPlan, type PlanCaps } from './plans.ts'
import type { Merchant } from './schema.ts'
import { defineError } from '../../platform/system/errors.ts'

const PLAN_LIMIT = defineError('BG_PLAN_LIMIT', {
  status: 402,
  cause: "A limit of the merchant's plan is reached: price, challenges per month, or endpoints. It cannot be paid.",
  fix: 'Lower the price, wait for the next month (UTC), retire an endpoint, or upgrade the plan.'
})

/** Which cap of a plan was reached (decision 102). */
export type PlanCap = 'price' | 'monthly' | 'endpoint'

const caps: Readonly<Record<PlanCap, { readonly of: keyof PlanCaps; readonly title: string; readonly noun: string }>> =
  Object.freeze({
    price: { of: 'maxPriceSats', title: 'Plan price limit reached', noun: 'satoshis for one challenge' },
    monthly: { of: 'challengesPerMonth', title: 'Plan monthly limit reached', noun: 'challenges a month' },
    endpoint: { of: 'endpoints', title: 'Plan endpoint limit reached', noun: 'distinct endpoints' }
  })

/** What is measured against a cap. */
export interface CapUse {
  /** What stands already: challenges of the month, endpoints; 0 for a price. */
  readonly current: number
  /** What is asked for on top: a price in satoshis, or 1. */
  readonly requested: number
}

/**
 * Whether a request would pass a cap of its merchant's plan: the 402 problem that says so, or null. It never carries
 * WWW-Authenticate, since an agent must not try to pay it (decision 102).
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

/**
 * 403 for a further webhook endpoint than the plan allows: 402 is never used for settings (contract, Errors: Status
 * codes). `limit`: the plan's.
 */
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

/** The next plan that is sold; null above the highest. */
function nextPlan({ tier }: Merchant): 'individual' | 'l402' | null {
  return tier === 'free' ? 'individual' : tier === 'individual' ? 'l402' : null
}
