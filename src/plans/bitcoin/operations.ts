import { clientNetwork } from '../../engine/message/addresses.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { merchantOf } from '../../accounts/merchants/principal.ts'
import { BitcoinPricingView, BitcoinSubscriptionInput, BitcoinSubscriptionView, PlanInvoicesView } from './schema.ts'
import type { BitcoinPlans } from './bitcoin.ts'

/** Plans paid in bitcoin (contract, Billing and checkout; decisions 165 and 167). */
export function bitcoinOperations(plans: Pick<BitcoinPlans, 'pricing' | 'create' | 'invoices'>): AnyOperation[] {
  return [
    defineOperation({
      id: 'getBitcoinPricing',
      method: 'GET',
      path: '/api/bitcoin/pricing',
      mount: { use: 'merchant-api', chain: 'public-read' },
      summary: 'The public plans with their prices in satoshis',
      description: 'The same plans as by card, at the price of bitcoin of this moment.',
      tag: 'Billing',
      access: 'public',
      responses: {
        200: { description: 'The plans that anybody can buy.', schema: BitcoinPricingView },
        503: 'The price of bitcoin is not known at the moment. Retry-After says when to come back.'
      },
      handle: async () => ({ status: 200, body: await plans.pricing() })
    }),
    defineOperation({
      id: 'createBitcoinSubscription',
      role: 'owner',
      method: 'POST',
      path: '/api/bitcoin/create-subscription',
      mount: { use: 'merchant-api', chain: 'checkout-create' },
      summary: 'Buy one month of a plan with Lightning, or pay for one more',
      description:
        'Nothing renews by itself: before a month ends a mail has the invoice for the next one. Asked again while an invoice is open, the same one is answered.',
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
        503: 'The payment provider, the price of bitcoin or the database is away; nothing was made. Retry-After says when to come back.'
      },
      handle: async ({ ctx, body }) => {
        const merchant = ctx.principal?.kind === 'merchant' ? ctx.principal.merchant : null
        const created = await plans.create(body, { merchant, client: clientNetwork(ctx.clientAddress) })
        return { status: 201, body: created }
      }
    }),
    defineOperation({
      id: 'getPlanInvoices',
      method: 'GET',
      path: '/api/merchant/subscription/invoices',
      mount: { use: 'merchant-api', chain: 'settings-read' },
      summary: 'The invoices of a plan that is paid by Lightning',
      description:
        'One for each month that was asked for; those that nobody paid are forgotten some days after they expired. Invoices of a card are on the page of the customer portal.',
      tag: 'Billing',
      access: 'merchant',
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
