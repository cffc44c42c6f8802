import { ShortError } from '../engine/operations/errors.ts'
import { planNames, type PlanTier } from '../accounts/merchants/plans.ts'
import { defineError } from '../platform/system/errors.ts'

export const PLAN_NOT_SOLD = defineError('BG_PLAN_NOT_SOLD', {
  status: 400,
  cause: 'The plan is unknown, retired, free, or sold and changed by contact only.',
  fix: 'Choose a plan listed in `error`, or contact the operator.'
})

/** Plans that anyone may buy: `l402` is contact-only, `free` needs no purchase (contract, Plan tiers; decision 165). */
export type SoldPlan = 'individual'

const contactOnly = new Set(['l402', 'l402microtransactions'])
const retired = new Set(['standard', 'kenticocommerce', 'standalone', 'standaloneapi', 'pilot'])

/**
 * Reads the requested plan (contract, Billing and checkout; decision 166).
 * @throws ShortError 400 with the reason and the plans that can be bought
 */
export function parseSoldPlan(text: string): SoldPlan {
  if (text === 'individual') return text
  const allowed = 'Allowed: individual.'
  if (contactOnly.has(text))
    throw new ShortError(
      PLAN_NOT_SOLD,
      `The plan ${planNames.l402} is sold by contact only, so it has no checkout. ${allowed}`
    )
  if (text === 'free')
    throw new ShortError(PLAN_NOT_SOLD, `The free plan costs nothing and needs no checkout. ${allowed}`)
  if (retired.has(text)) throw new ShortError(PLAN_NOT_SOLD, `The plan ${text} is retired. ${allowed}`)
  throw new ShortError(PLAN_NOT_SOLD, `Unknown plan. ${allowed}`)
}

export interface ListedPlan {
  readonly planTier: PlanTier
  readonly name: string
  /** Whole US dollars for one period. */
  readonly priceUsd: number
  readonly interval: 'month'
  /** Days before the first charge of a card; 0 for none. Bitcoin is paid in advance. */
  readonly trialDays: number
  /** Features in words. */
  readonly features: readonly string[]
}

export const soldPlans: readonly SoldPlan[] = Object.freeze(['individual'])

/** What a plan costs for one calendar month, in whole US dollars (contract, Plan tiers). */
export const planPricesUsd: Readonly<Record<SoldPlan, number>> = Object.freeze({ individual: 49 })

/**
 * The public plans in the contract's order, for price feeds (decision 165).
 * @param caps `plans` of the configuration (decision 88)
 * @param trialDays of the plan individual; 0 for bitcoin
 */
export function listedPlans(caps: ListedCaps, trialDays: number): readonly ListedPlan[] {
  const { free, individual } = caps
  return [
    {
      planTier: 'free',
      name: planNames.free,
      priceUsd: 0,
      interval: 'month',
      trialDays: 0,
      features: ['Lightning payments, L402 challenges and proxies', ...capWords(free), webhookWords(free)]
    },
    {
      planTier: 'individual',
      name: planNames.individual,
      priceUsd: planPricesUsd.individual,
      interval: 'month',
      trialDays,
      features: [
        'Lightning payments, L402 challenges and proxies',
        ...capWords(individual),
        'Prices in other currencies than bitcoin',
        webhookWords(individual)
      ]
    }
  ]
}

/** `plans` of the configuration; a missing number is unlimited. */
export type ListedCaps = Readonly<
  Record<
    'free' | SoldPlan,
    {
      readonly endpoints?: number | undefined
      readonly challengesPerMonth?: number | undefined
      readonly maxPriceSats?: number | undefined
      readonly webhookEndpoints: number
    }
  >
>

function capWords(caps: ListedCaps['free']): string[] {
  return [
    caps.endpoints === undefined ? 'Any number of endpoints' : `Up to ${count(caps.endpoints)} endpoints`,
    caps.challengesPerMonth === undefined
      ? 'Any number of challenges a month'
      : `Up to ${count(caps.challengesPerMonth)} challenges a month`,
    caps.maxPriceSats === undefined
      ? 'Challenges of any price'
      : `Up to ${count(caps.maxPriceSats)} satoshis for one challenge`
  ]
}

function webhookWords({ webhookEndpoints }: ListedCaps['free']): string {
  // The webhook URL is one of them and always available (decision 79).
  return webhookEndpoints > 1 ? `Up to ${count(webhookEndpoints)} webhook endpoints` : '1 webhook endpoint'
}

function count(number: number): string {
  return number.toLocaleString('en-US')
}
