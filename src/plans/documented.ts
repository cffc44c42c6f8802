import type { OperationText } from '../engine/operations/operation.ts'

const plan = {
  planTier: 'individual',
  name: 'Individual',
  priceUsd: 29,
  interval: 'month',
  trialDays: 0,
  features: ['Refunds', 'Pay per request']
}
const buyer = { plan: 'individual', email: 'buyer@example.com', customerName: 'Grace' }
const byPortal = { session: 'bps_sandbox_uJ0mZ5q3W8nX1rT6vY2bC4dE7fG9hK0lM3nP5qR8sTw' }
const bySession = { session: 'cs_sandbox_uJ0mZ5q3W8nX1rT6vY2bC4dE7fG9hK0lM3nP5qR8sTw' }

/** What OpenAPI says of plans that are paid by card. */
export const billingTexts: Readonly<Record<string, OperationText>> = {
  getBillingPricing: {
    description: 'What a page of prices shows. Plans that are sold by contact only are not among them.',
    example: { responses: { 200: { plans: [plan] } } }
  },
  createBillingCheckout: {
    description:
      'Nothing is bought until the page is completed; the plan then counts once the billing provider says that the subscription runs.',
    example: {
      body: { ...buyer, successUrl: 'https://shop.example.com/welcome' },
      responses: {
        200: {
          sessionId: bySession.session,
          checkoutUrl: `https://gateway.example.com/billing/sandbox/${bySession.session}`
        }
      }
    }
  },
  createCustomerPortal: {
    description: 'The address opens for a short time: make one whenever somebody wants to go there, and keep none.',
    example: {
      body: { returnUrl: 'https://shop.example.com/account' },
      responses: {
        200: {
          portalUrl:
            'https://gateway.example.com/billing/sandbox/bps_sandbox_uJ0mZ5q3W8nX1rT6vY2bC4dE7fG9hK0lM3nP5qR8sTw'
        }
      }
    }
  },
  receiveBillingNotification: {
    description:
      'For the billing provider alone, which signs what it sends. What it says is never believed: the subscription is asked for.',
    example: { body: { id: 'evt_1', type: 'customer.subscription.updated' }, responses: { 200: { received: true } } }
  },
  getCheckoutDonePage: {
    description: 'Where a checkout leads that named no successUrl. It says the same to everybody.'
  },
  getCheckoutCanceledPage: {
    description: 'Where a checkout leads that named no cancelUrl. It says the same to everybody.'
  }
}

/** What OpenAPI says of the pages of the sandbox. */
export const sandboxBillingTexts: Readonly<Record<string, OperationText>> = {
  getSandboxBillingPage: {
    description:
      "Stands in the place of the billing provider's own page, so that the way to a plan can be tried without a card.",
    example: { params: bySession }
  },
  completeSandboxCheckout: {
    description:
      "What the page's button is sent to: the subscription begins, and the checkout leads to where it was told.",
    example: { params: bySession }
  },
  cancelSandboxSubscription: {
    description:
      "What the page's button is sent to: the subscription ends at once, and the account is on the free plan.",
    example: { params: byPortal }
  },
  failSandboxCard: {
    description:
      "What the page's button is sent to: the subscription is past_due, as when a card was refused, until the card works again.",
    example: { params: byPortal }
  },
  recoverSandboxCard: {
    description: "What the page's button is sent to: a subscription that was past_due is active again.",
    example: { params: byPortal }
  }
}

/** What OpenAPI says of plans that are paid in bitcoin. */
export const bitcoinTexts: Readonly<Record<string, OperationText>> = {
  getBitcoinPricing: {
    description: 'The same plans as by card, at the price of bitcoin of this moment.',
    example: {
      responses: { 200: { plans: [{ ...plan, priceSats: 48334, quoteExpiresAt: '2026-11-22T10:16:00.000Z' }] } }
    }
  },
  createBitcoinSubscription: {
    description:
      'Nothing renews by itself: before a month ends a mail has the invoice for the next one. Asked again while an invoice is open, the same one is answered.',
    example: {
      body: buyer,
      responses: {
        201: {
          subscriptionId: 'btc_0199f1d4-1c2d-7e3f-8a4b-5c6d7e8f9a0b',
          invoiceId: '482910573648202',
          lightningInvoice: 'lnbcrt483340n1p5q0example',
          paymentHash: '4d784aaa1f64c1b2b6b4a9d0a4c7c3f0e9d3a7b5c1f2e4d6a8b0c2d4e6f80123',
          amountSats: 48334,
          payUrl: 'https://gateway.example.com/pay/uJ0mZ5q3W8nX1rT6vY2bC4dE7fG9hK0lM3nP5qR8sTw',
          expiresAt: '2026-11-22T11:15:00.000Z'
        }
      }
    }
  },
  getPlanInvoices: {
    description:
      'One for each month that was asked for; those that nobody paid are forgotten some days after they expired. Invoices of a card are on the page of the customer portal.',
    example: {
      responses: {
        200: {
          invoices: [
            {
              invoiceId: '482910573648202',
              description: 'Individual plan, one month',
              status: 'paid',
              priceUsd: 29,
              amountSats: 48334,
              createdAt: '2026-11-22T10:15:00.000Z',
              expiresAt: '2026-11-22T11:15:00.000Z',
              paidAt: '2026-11-22T10:16:12.000Z',
              payUrl: 'https://gateway.example.com/pay/uJ0mZ5q3W8nX1rT6vY2bC4dE7fG9hK0lM3nP5qR8sTw'
            }
          ]
        }
      }
    }
  }
}
