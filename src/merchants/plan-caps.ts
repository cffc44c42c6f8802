import { ProblemError } from '../gateway/errors.ts'
import { currentPlan, type PlanCaps } from './plans.ts'
import type { Merchant } from './schema.ts'

/** Which cap of a plan was reached (decision 102). */
export type PlanCap = 'price' | 'monthly' | 'endpoint' | 'webhook'

const caps: Readonly<Record<PlanCap, { readonly of: keyof PlanCaps; readonly title: string; readonly noun: string }>> =
  Object.freeze({
    price: { of: 'maxPriceSats', title: 'Plan price limit reached', noun: 'satoshis for one challenge' },
    monthly: { of: 'challengesPerMonth', title: 'Plan monthly limit reached', noun: 'challenges a month' },
    endpoint: { of: 'endpoints', title: 'Plan endpoint limit reached', noun: 'distinct endpoints' },
    webhook: { of: 'webhookEndpoints', title: 'Plan webhook limit reached', noun: 'webhook endpoints' }
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
    402,
    `${problemBase}/plan-${cap}-limit`,
    title,
    `This plan allows ${limit} ${noun}; the request would make it ${use.current + use.requested}.`,
    {
      error: title,
      limit,
      current: use.current,
      requested: use.requested,
      current_plan: currentPlan(merchant.storedTier),
      // The next plan that is sold; the highest has none above it.
      required_plan: merchant.tier === 'free' ? 'individual' : merchant.tier === 'individual' ? 'l402' : null,
      action_required: 'upgrade_plan'
    }
  )
}
