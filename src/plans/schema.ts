import { Type, type Static } from 'typebox'
import { WEB_ADDRESS } from '../engine/openapi/schemas.ts'

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

/** A plan as the feeds of prices list it (decision 165). */
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

/** Response of `GET /api/billing/pricing`. */
export const PricingView = Type.Object({ plans: Type.Array(PlanView) })

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
