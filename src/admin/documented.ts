import type { OperationText } from '../gateway/operation.ts'
import { exampleTraffic } from '../traffic/documented.ts'
import { exampleAccount } from '../merchants/documented.ts'

const row = exampleAccount
const detail = {
  ...row,
  features: {
    refundsEnabled: true,
    multiCurrencyEnabled: true,
    analyticsEnabled: true,
    prioritySupport: false,
    customBrandingEnabled: false,
    maxWebhookEndpoints: 5,
    l402Enabled: true,
    slaUptimePercentage: 99.5
  },
  onboarding: {
    hasPaymentProviderKey: true,
    hasWebhookUrl: false,
    hasActiveProxy: false,
    proxyCount: 0,
    isFullyConfigured: false
  },
  hasAlternateKey: false,
  hasPrimaryKey: true,
  hasWebhookUrl: false,
  currentPeriodEnd: null,
  billingCustomerId: null,
  billingSubscriptionId: null
}
const created = {
  merchantId: 7,
  name: row.name,
  email: row.email,
  apiKey: 'bg_k7w2m8p4zc_the-key-shown-once',
  createdAt: row.createdAt
}
const pending = {
  id: 3,
  email: 'buyer@example.com',
  customerName: 'Grace',
  billingCustomerId: 'cus_sandbox_2',
  billingSubscriptionId: 'sub_sandbox_2',
  planTier: 'individual',
  subscriptionStatus: 'active',
  createdAt: '2026-11-20T12:00:00.000Z',
  isApproved: false,
  isRejected: false,
  reviewedAt: null,
  rejectionReason: null,
  linkedMerchantId: null
}
const byMerchant = { merchantId: '7' }
const byPending = { id: '3' }

/** What OpenAPI says of the operator's overview. */
export const overviewTexts: Readonly<Record<string, OperationText>> = {
  adminGetOverview: {
    description: 'What is not 0 under waiting wants somebody to look; each member names the list that shows it.',
    example: {
      responses: {
        200: {
          at: '2026-11-22T10:00:00.000Z',
          merchants: { total: 12, active: 11 },
          earned: { today: { sales: 340, sats: 3_400 }, thirtyDays: { sales: 9_120, sats: 91_200 } },
          traffic: { now: { ...exampleTraffic, requests: 42 }, day: exampleTraffic },
          waiting: { pendingSubscriptions: 1, lostRefunds: 0, openRefunds: 2, refusedOrders: 0 },
          lastDay: { failedWebhooks: 0, ambiguousLeases: 0 }
        }
      }
    }
  },
  adminGetProviders: {
    description:
      'Budgets are shared by all processes; hosts that do not answer are what the one process has seen that answers this.',
    example: {
      responses: {
        200: [
          {
            slot: 'primary',
            kind: 'node',
            hasKey: true,
            budgets: [{ limit: 'others', exhausted: false, retryAfter: null }],
            hosts: [{ host: 'node.example.com:8080', failures: 5, isLeftAlone: true, retryAfter: 8 }]
          }
        ]
      }
    }
  }
}

/** What OpenAPI says of the operator's operations on accounts. */
export const adminTexts: Readonly<Record<string, OperationText>> = {
  adminListMerchants: {
    description:
      'Without limit and after it is the whole list. A page is followed by the address in Link, which stays right while accounts are made.',
    example: { responses: { 200: [row] } }
  },
  adminCreateMerchant: {
    description:
      'The account begins on the free plan and active. Its API key is answered here and nowhere else: hand it over at once.',
    example: {
      body: { name: row.name, email: row.email, callbackUrl: 'https://shop.example.com/webhooks' },
      responses: { 201: created }
    }
  },
  adminGetMerchant: {
    description: 'Which keys and addresses are set, never what they are.',
    example: { params: byMerchant, responses: { 200: detail } }
  },
  adminUpdateMerchant: {
    description:
      'A planTier sets the flags that come with it; features of the same request are set after them. isActive false ends the key as deactivating does.',
    example: {
      params: byMerchant,
      body: { planTier: 'individual', features: { refundsEnabled: true } },
      responses: { 200: row }
    }
  },
  adminRegenerateKey: {
    description: 'For a key that was lost or leaked. There is no time in which both keys work.',
    example: {
      params: byMerchant,
      responses: { 200: { merchantId: 7, apiKey: created.apiKey, regeneratedAt: '2026-11-22T10:00:00.000Z' } }
    }
  },
  adminDeactivateMerchant: {
    description:
      'The account sells nothing from then on and its key is refused. Nothing is deleted; payments that were made are still reported.',
    example: { params: byMerchant }
  },
  adminReactivateMerchant: {
    description: 'Takes a deactivation back: the same key works again, with the flags that the account had.',
    example: { params: byMerchant }
  },
  adminListPendingSubscriptions: {
    description: 'Somebody has paid for a plan and has no account yet: approve or reject each.',
    example: { responses: { 200: [pending] } }
  },
  adminGetPendingSubscription: {
    description: 'Also after it was processed: it shows what came of it, and the account.',
    example: { params: byPending, responses: { 200: pending } }
  },
  adminApprovePendingSubscription: {
    description: "The buyer is told by mail. A new account's API key is answered here, this once.",
    example: {
      params: byPending,
      body: { merchantName: "Grace's Shop" },
      responses: { 200: { ...created, merchantId: 8, name: "Grace's Shop", email: pending.email } }
    }
  },
  adminRejectPendingSubscription: {
    description: 'Makes no account, and gives no money back: do that at the billing provider.',
    example: { params: byPending, body: { reason: 'Not a shop' } }
  }
}
