import { Type } from 'typebox'
import { defineOperation, type AnyOperation } from '../engine/operations/operation.ts'
import { merchantOf } from '../accounts/merchants/principal.ts'
import { HTML_TYPE } from '../web/kit/document.ts'
import { BILLING_PAGE_HEADERS, BillingPages } from './pages.ts'
import { PlanCheckoutInput, CheckoutView, PortalInput, PortalView, PricingView } from './schema.ts'
import type { Billing } from './service.ts'

/** Bytes; notifications of providers are far smaller. */
const NOTIFICATION_LIMIT = 1_048_576

const Received = Type.Object({ received: Type.Literal(true) })
const refused = 'The billing provider refused.'
const away =
  'The billing provider or the database is away, or the provider would charge another price than is listed. Retry-After says when to come back.'
const missing = 'No billing provider is configured.'

/** Plans paid by card (contract, Billing and checkout; decisions 163, 165, 166 and 169). */
export function billingOperations(billing: Billing): AnyOperation[] {
  return [
    defineOperation({
      id: 'getBillingPricing',
      method: 'GET',
      path: '/api/billing/pricing',
      mount: { use: 'merchant-api', chain: 'public-read' },
      summary: 'The plans that are publicly listed, with their prices by card',
      description: 'What a page of prices shows. Plans that are sold by contact only are not among them.',
      tag: 'Billing',
      access: 'public',
      responses: { 200: { description: 'The plans.', schema: PricingView } },
      handle: () => ({ status: 200, body: billing.pricing() })
    }),
    defineOperation({
      id: 'createBillingCheckout',
      role: 'owner',
      method: 'POST',
      path: '/api/billing/create-checkout-session',
      mount: { use: 'merchant-api', chain: 'checkout-create' },
      summary:
        "Open a checkout of a plan by card; with a merchant's key it is for that account, else for a new one that is approved first",
      description:
        'Nothing is bought until the page is completed; the plan then counts once the billing provider says that the subscription runs.',
      tag: 'Billing',
      access: 'public',
      headers: { 'X-API-Key': "A merchant's key, where the plan is for its account." },
      body: PlanCheckoutInput,
      responses: {
        200: { description: 'The session, and the page where the card is entered.', schema: CheckoutView },
        400: 'A field is not valid, the plan is not sold here (the error says which are), or the account has one already.',
        401: "A key was sent and is not a merchant's.",
        500: missing,
        502: refused,
        503: away
      },
      handle: async ({ ctx, body }) => ({
        status: 200,
        body: await billing.createCheckout(body, ctx.principal === null ? null : merchantOf(ctx))
      })
    }),
    defineOperation({
      id: 'createCustomerPortal',
      role: 'owner',
      method: 'POST',
      path: '/api/billing/customer-portal',
      mount: { use: 'merchant-api', chain: 'settings-write' },
      summary: 'Open the page where a merchant manages its card and subscription',
      description: 'The address opens for a short time: make one whenever somebody wants to go there, and keep none.',
      tag: 'Billing',
      access: 'merchant',
      body: PortalInput,
      responses: {
        200: {
          description: 'The page. It needs no further sign-in: show its address to nobody else.',
          schema: PortalView
        },
        400: 'The address is not valid, or the account has no subscription by card.',
        500: missing,
        502: refused,
        503: away
      },
      handle: async ({ ctx, body }) => ({
        status: 200,
        body: { portalUrl: await billing.portal(merchantOf(ctx), body.returnUrl) }
      })
    }),
    defineOperation({
      id: 'receiveBillingNotification',
      method: 'POST',
      path: '/api/webhooks/billing',
      mount: { use: 'merchant-api', chain: 'receivers' },
      summary: 'Take in a notification of the billing provider; the subscription is then read anew',
      description:
        'For the billing provider alone, which signs what it sends. What it says is never believed: the subscription is asked for.',
      tag: 'Provider notifications',
      access: 'public',
      headers: { 'Stripe-Signature': 'Signs the body.' },
      // The signature over the raw bytes is verified before they are parsed.
      form: {
        mediaType: 'application/json',
        schema: Type.Object({}, { additionalProperties: true, description: 'As the billing provider writes it.' })
      },
      bodyLimit: NOTIFICATION_LIMIT,
      responses: {
        200: { description: 'Taken in, or ignored: of no interest here, or said before.', schema: Received },
        400: 'It cannot be read.',
        401: 'It is not signed by the billing provider, or more than five minutes ago.',
        413: 'Larger than 1 MiB.',
        500: missing,
        503: 'It cannot be written down at the moment: send it again.'
      },
      handle: async ({ ctx }) => {
        await billing.receive(ctx.headers.get('stripe-signature') ?? null, await ctx.body.bytes())
        return { status: 200, body: { received: true } }
      }
    }),
    ...endPages()
  ]
}

/** Default targets of checkouts. */
function endPages(): AnyOperation[] {
  const pages = new BillingPages()
  return (['done', 'canceled'] as const).map(end =>
    defineOperation({
      id: end === 'done' ? 'getCheckoutDonePage' : 'getCheckoutCanceledPage',
      method: 'GET',
      path: `/billing/${end}`,
      mount: { use: 'pages', chain: 'page-forms', below: '/billing/*' },
      summary: end === 'done' ? 'What follows after a plan was bought' : 'That no plan was bought',
      description: `Where a checkout leads that named no ${end === 'done' ? 'successUrl' : 'cancelUrl'}.`,
      tag: 'pages',
      access: 'public',
      responses: { 200: { description: 'The page.', mediaType: HTML_TYPE } },
      handle: () => ({ status: 200, body: pages.end(end), headers: BILLING_PAGE_HEADERS })
    })
  )
}
