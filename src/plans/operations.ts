import { Type } from 'typebox'
import { defineOperation, type AnyOperation } from '../engine/operations/operation.ts'
import { merchantOf, settingsRead, settingsWrite } from '../accounts/merchants/principal.ts'
import { HTML_TYPE } from '../web/kit/document.ts'
import { BILLING_PAGE_HEADERS, BillingPages } from './pages.ts'
import { PlanCheckoutInput, CheckoutView, PortalInput, PortalView, PricingView } from './plans.ts'
import type { Billing } from './service.ts'
import { clientNetwork } from '../engine/message/addresses.ts'
import {
  BitcoinPricingView,
  BitcoinSubscriptionInput,
  BitcoinSubscriptionView,
  PlanInvoicesView
} from './bitcoin/schema.ts'
import type { BitcoinPlans } from './bitcoin/bitcoin.ts'
import { RESOURCE_NOT_FOUND } from '../engine/operations/error-kinds.ts'
import { ShortError } from '../engine/operations/errors.ts'
import type { PortalButton, SandboxBilling, TakeNotification } from './sandbox/sandbox.ts'

/** Bytes; notifications of providers are far smaller. */
const NOTIFICATION_LIMIT = 1_048_576

const Received = Type.Object({ received: Type.Literal(true) })
const refused = 'The billing provider refused.'
const unavailable =
  'The billing provider or the database is down, or the provider would charge a price other than the listed one. Retry-After says when to retry.'
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
      description: 'The content of a pricing page, without plans that are sold by contact only.',
      tag: 'Billing',
      access: 'public',
      responses: { 200: { description: 'The plans.', schema: PricingView } },
      handle: () => ({ status: 200, body: billing.pricing() })
    }),
    defineOperation({
      id: 'createBillingCheckout',
      liveOnly: true,
      role: 'owner',
      method: 'POST',
      path: '/api/billing/create-checkout-session',
      mount: { use: 'merchant-api', chain: 'checkout-create' },
      summary:
        "Open a checkout of a plan by card; with a merchant's key it is for that account, else for a new one that is approved first",
      description:
        'The plan starts once the page is completed and the billing provider reports the subscription as active.',
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
        503: unavailable
      },
      handle: async ({ ctx, body }) => ({
        status: 200,
        body: await billing.createCheckout(body, ctx.principal === null ? null : merchantOf(ctx))
      })
    }),
    defineOperation({
      ...settingsWrite,
      id: 'createCustomerPortal',
      liveOnly: true,
      role: 'owner',
      method: 'POST',
      path: '/api/billing/customer-portal',
      summary: 'Open the page where a merchant manages its card and subscription',
      description: 'The URL is short-lived: create one for each visit, and store none.',
      tag: 'Billing',
      body: PortalInput,
      responses: {
        200: {
          description: 'The page. It needs no sign-in, so keep its URL secret.',
          schema: PortalView
        },
        400: 'The address is not valid, or the account has no subscription by card.',
        500: missing,
        502: refused,
        503: unavailable
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
      summary: 'Receive a notification of the billing provider, which triggers a lookup of the subscription',
      description:
        'For the billing provider, which signs its requests. Each one only triggers a lookup of the subscription.',
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
        200: { description: 'Accepted, or ignored as irrelevant or duplicate.', schema: Received },
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

/** Plans paid in bitcoin (contract, Billing and checkout; decisions 165 and 167). */
export function bitcoinOperations(plans: BitcoinPlans): AnyOperation[] {
  return [
    defineOperation({
      id: 'getBitcoinPricing',
      method: 'GET',
      path: '/api/bitcoin/pricing',
      mount: { use: 'merchant-api', chain: 'public-read' },
      summary: 'The public plans with their prices in satoshis',
      description: 'The same plans as by card, at the current price of bitcoin.',
      tag: 'Billing',
      access: 'public',
      responses: {
        200: { description: 'The plans that are for sale.', schema: BitcoinPricingView },
        503: 'The price of bitcoin is not known at the moment. Retry-After says when to come back.'
      },
      handle: async () => ({ status: 200, body: await plans.pricing() })
    }),
    defineOperation({
      id: 'createBitcoinSubscription',
      liveOnly: true,
      role: 'owner',
      method: 'POST',
      path: '/api/bitcoin/create-subscription',
      mount: { use: 'merchant-api', chain: 'checkout-create' },
      summary: 'Buy one month of a plan with Lightning, or pay for one more',
      description:
        'There is no automatic renewal: a mail with the next invoice is sent before the month ends. Repeated requests return the open invoice.',
      tag: 'Billing',
      access: 'public',
      headers: {
        'X-API-Key':
          "A merchant's key: the plan is then for that account. Without it the account with the email address has it, or an administrator makes one."
      },
      body: BitcoinSubscriptionInput,
      responses: {
        201: {
          description: 'The invoice. Once it is paid the month counts from then, or from the end of the one that runs.',
          schema: BitcoinSubscriptionView
        },
        400: 'A field is not valid, the plan is not sold so, or the account has a plan that is not paid so.',
        401: "A key was sent, and is not a merchant's.",
        503: 'The payment provider, the price of bitcoin or the database is unavailable; nothing was created. Retry-After says when to retry.'
      },
      handle: async ({ ctx, body }) => {
        const merchant = ctx.principal?.kind === 'merchant' ? ctx.principal.merchant : null
        const created = await plans.create(body, { merchant, client: clientNetwork(ctx.clientAddress) })
        return { status: 201, body: created }
      }
    }),
    defineOperation({
      ...settingsRead,
      id: 'getPlanInvoices',
      method: 'GET',
      path: '/api/merchant/subscription/invoices',
      summary: 'List the invoices of a plan paid by Lightning',
      description:
        'One per requested month; unpaid ones are deleted some days after they expire. Card invoices are in the customer portal.',
      tag: 'Billing',
      responses: {
        200: { description: 'The invoices; none where the plan is paid by card.', schema: PlanInvoicesView }
      },
      handle: async ({ ctx }) => ({
        status: 200,
        body: await plans.invoices(merchantOf(ctx))
      })
    })
  ]
}

const Session = Type.Object({ session: Type.String({ 'x-judged': true }) })
// Other forms cannot be a session.
const SESSION = /^(cs|bps)_sandbox_[A-Za-z0-9_-]{43}$/

/**
 * The sandbox's pages, in place of the billing provider's. Their addresses are the only authorization.
 */
export function sandboxBillingOperations(sandbox: SandboxBilling | null, take: TakeNotification): AnyOperation[] {
  if (sandbox === null) return []
  const pages = new BillingPages()
  const common = {
    tag: 'Sandbox',
    access: 'public',
    mount: { use: 'pages', chain: 'page-forms', below: '/billing/*' },
    params: Session
  } as const
  const act = (id: string, name: PortalButton | 'complete', summary: string, description: string): AnyOperation =>
    defineOperation({
      ...common,
      id,
      method: 'POST',
      path: `/billing/sandbox/:session/${name}`,
      summary,
      description,
      responses: {
        303: { description: 'Done; the page at `Location` shows it.' },
        404: 'There is no such session.'
      },
      async handle({ params: { session } }) {
        const isDone =
          SESSION.test(session) &&
          (await (name === 'complete' ? sandbox.complete(session, take) : sandbox.turn(session, name, take)))
        if (!isDone) throw new ShortError(RESOURCE_NOT_FOUND, 'Session not found')
        return { status: 303, body: null, headers: ['Location', `../${session}`, ...BILLING_PAGE_HEADERS] }
      }
    })
  return [
    defineOperation({
      ...common,
      id: 'getSandboxBillingPage',
      method: 'GET',
      path: '/billing/sandbox/:session',
      summary: 'The page of a checkout or a customer portal of the sandbox',
      description: "Replaces the billing provider's page, to try a purchase without a card.",
      responses: {
        200: { description: 'The page.', mediaType: HTML_TYPE },
        404: { description: 'A page that says that there is no such session.', mediaType: HTML_TYPE }
      },
      async handle({ params: { session } }) {
        const found = SESSION.test(session) ? await sandbox.session(session) : null
        return {
          status: found === null ? 404 : 200,
          body: found === null ? pages.missing() : pages.sandbox(found, session),
          headers: BILLING_PAGE_HEADERS
        }
      }
    }),
    act(
      'completeSandboxCheckout',
      'complete',
      'Complete a checkout of the sandbox: nothing is charged',
      'Starts the subscription and redirects to the successUrl.'
    ),
    act(
      'cancelSandboxSubscription',
      'cancel',
      'Cancel the subscription of a customer portal of the sandbox',
      'The subscription ends immediately, and the account is on the free plan.'
    ),
    act(
      'failSandboxCard',
      'fail',
      'Have the card of a customer portal of the sandbox fail',
      'The subscription is past_due, as after a declined card, until the card works again.'
    ),
    act(
      'recoverSandboxCard',
      'recover',
      'Have that card work again',
      'A subscription that was past_due is active again.'
    )
  ]
}
