import { currentLanguage, t } from '../engine/formats/language.ts'
import { ShortError } from '../engine/operations/errors.ts'
import { planNames, type PlanTier } from '../accounts/merchants/plans.ts'
import { defineError } from '../platform/system/errors.ts'
import { Type, type Static } from 'typebox'
import { WEB_ADDRESS } from '../engine/openapi/schemas.ts'

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
  readonly features: readonly string[]
}

/** What a plan costs for one calendar month, in whole US dollars (contract, Plan tiers). */
export const planPricesUsd: Readonly<Record<SoldPlan, number>> = Object.freeze({ individual: 49 })

/** Of the plan individual, whose first checkout still asks for a card (contract, 6). */
export const TRIAL_DAYS = 30

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
      features: [t('Lightning payments, L402 challenges and proxies'), ...capWords(free), webhookWords(free)]
    },
    {
      planTier: 'individual',
      name: planNames.individual,
      priceUsd: planPricesUsd.individual,
      interval: 'month',
      trialDays,
      features: [
        t('Lightning payments, L402 challenges and proxies'),
        ...capWords(individual),
        t('Prices in other currencies than bitcoin'),
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
    caps.endpoints === undefined ? t('Any number of endpoints') : t`Up to ${count(caps.endpoints)} endpoints`,
    caps.challengesPerMonth === undefined
      ? t('Any number of challenges a month')
      : t`Up to ${count(caps.challengesPerMonth)} challenges a month`,
    caps.maxPriceSats === undefined
      ? t('Challenges of any price')
      : t`Up to ${count(caps.maxPriceSats)} satoshis for one challenge`
  ]
}

function webhookWords({ webhookEndpoints }: ListedCaps['free']): string {
  // The webhook URL is one of them and always available (decision 79).
  return webhookEndpoints > 1 ? t`Up to ${count(webhookEndpoints)} webhook endpoints` : t('1 webhook endpoint')
}

function count(number: number): string {
  return number.toLocaleString(currentLanguage())
}

/** A plain address: safe in a mail header, and accepted by billing providers. */
const EMAIL = "^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9-]+(\\.[A-Za-z0-9-]+)*$"
// At least one visible character, no control characters; written without backtracking.
const NAME = '^[^\\S\\u0000-\\u001f]*[^\\s\\u0000-\\u001f\\u007f][^\\u0000-\\u001f\\u007f]*$'
/** Characters: the longest address of SMTP (RFC 5321, 4.5.3.1.3), and the longest name. */
const MAX_EMAIL = 254
const MAX_NAME = 200
const MAX_URL = 2048

/** Members of every body that buys a plan (decisions 166 and 167). `parseSoldPlan` validates `plan`. */
export const buyer = Object.freeze({
  plan: Type.String({
    maxLength: 100,
    'x-openapi': { enum: ['individual'] },
    description:
      'individual. The Business plan (l402, l402microtransactions) is sold by contact only, and retired names are refused.'
  }),
  email: Type.String({
    minLength: 3,
    maxLength: MAX_EMAIL,
    pattern: EMAIL,
    'x-email': true,
    'x-rule': 'Must be an email address, such as name@example.com.',
    description: 'Compared and stored in lower case.'
  }),
  customerName: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: MAX_NAME,
      pattern: NAME,
      'x-rule': 'Must have a visible character, and no control characters.'
    })
  )
})

export const PlanView = Type.Object(
  {
    planTier: Type.String(),
    name: Type.String(),
    priceUsd: Type.Integer({ description: 'US dollars for one interval.' }),
    interval: Type.Literal('month'),
    trialDays: Type.Integer({ description: 'Days before the first charge; 0 for none.' }),
    features: Type.Array(Type.String(), { description: 'What the plan gives, in words.' })
  },
  { title: 'Plan' }
)

export const PricingView = Type.Object({ plans: Type.Array(PlanView) })
export type PricingView = Static<typeof PricingView>

const address = (description: string) =>
  Type.String({
    minLength: 1,
    maxLength: MAX_URL,
    'x-openapi': WEB_ADDRESS,
    description: `${description} An http or https address; https in production.`
  })

/** Body of `POST /api/billing/create-checkout-session` (decision 166). */
export const PlanCheckoutInput = Type.Object(
  {
    ...buyer,
    successUrl: Type.Optional(address('Where the checkout leads once it is completed; a page of ours when left out.')),
    cancelUrl: Type.Optional(address('Where it leads when it is left; a page of ours when left out.'))
  },
  { title: 'PlanCheckoutInput' }
)
export type PlanCheckoutInput = Static<typeof PlanCheckoutInput>

export const CheckoutView = Type.Object(
  {
    sessionId: Type.String(),
    checkoutUrl: Type.String({ description: 'The page of the billing provider where the card is entered.' })
  },
  { title: 'PlanCheckout' }
)

/** Body of `POST /api/billing/customer-portal` (contract, Billing and checkout; decision 169). */
export const PortalInput = Type.Object({ returnUrl: address('Where the portal leads back to.') })

export const PortalView = Type.Object(
  {
    portalUrl: Type.String({
      description:
        'Opens the page where the customer manages card and subscription; for a short time, and without a further sign-in.'
    })
  },
  { title: 'CustomerPortal' }
)
