import type { OperationText } from '../../engine/operations/operation.ts'
import { exampleTraffic } from '../../accounts/traffic/documented.ts'
import { exampleAccount } from '../../accounts/merchants/documented.ts'

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

const { sales: _sales, sats: _sats, ...routeTraffic } = exampleTraffic

/** What OpenAPI says of what is live. */
export const liveTexts: Readonly<Record<string, OperationText>> = {
  adminListRoutes: {
    description:
      'How an upstream is, is known from the requests that went there: nobody asks it for that. Traffic is that of all processes; of merchants’ proxies it is that of all of them.',
    example: {
      responses: {
        200: [
          {
            name: 'GET /v1/*',
            host: null,
            methods: ['GET'],
            paths: ['/v1/*'],
            from: 'line 12',
            description: 'Weather of today',
            price: '10 sats',
            chain: {
              name: 'paid',
              plugins: [
                { plugin: 'correlation', isConditional: false, isObserving: false },
                { plugin: 'challenge', isConditional: false, isObserving: false },
                { plugin: 'forward', isConditional: false, isObserving: false }
              ]
            },
            upstream: { kind: 'url', address: 'http://127.0.0.1:9000', state: 'failing' },
            now: routeTraffic,
            day: routeTraffic,
            faults: [
              {
                status: 502,
                message: 'The upstream could not be reached. connection refused',
                times: 2,
                firstAt: '2026-11-22T09:58:10.000Z',
                lastAt: '2026-11-22T09:59:30.000Z',
                correlationId: '7d3c1a52-8f0e-4c35-9b1d-2e4f6a8c0b13'
              }
            ]
          }
        ]
      }
    }
  },
  adminGetConfiguration: {
    description:
      'Hidden is what the schema calls a secret, users, passwords and queries of addresses, headers that are set on upstreams, values of fields by which prices differ where clients send them, and texts in the settings of plugins that are not the gateway’s own.',
    example: {
      responses: {
        200: {
          file: '/etc/boltgate/gateway.yaml',
          generation: 2,
          yaml: 'mode: production\nsecrets:\n  master: (hidden)\n',
          waitsForRestart: ['server'],
          reload: {
            at: '2026-11-22T10:00:00.000Z',
            isUsed: true,
            problem: null,
            changes: [{ path: 'routes.GET /v1/*.price', before: '10 sats', after: '12 sats' }]
          },
          warnings: []
        }
      }
    }
  }
}

/** What OpenAPI says of how everything stands. */
export const healthTexts: Readonly<Record<string, OperationText>> = {
  adminGetHealth: {
    description:
      'What /health and /ready know and more, for people: each check says what it found and, where that is not good, what to do. It asks no provider anything.',
    example: {
      responses: {
        200: {
          at: '2026-11-22T10:00:00.000Z',
          ready: true,
          checks: [
            { name: 'database', state: 'good', says: 'PostgreSQL answers in 1 ms and can be written.', wayOut: null },
            {
              name: 'jobs',
              state: 'warning',
              says: '2 jobs have failed for good.',
              wayOut: 'The page of jobs says why; have them run again there once the reason is gone.'
            }
          ]
        }
      }
    }
  }
}

/** What OpenAPI says of background jobs. */
export const jobsTexts: Readonly<Record<string, OperationText>> = {
  adminListJobs: {
    description: 'What went well is kept for a day, failures for 14 days. The same for people is at /operator/jobs.',
    example: {
      responses: {
        200: {
          queues: [
            {
              name: 'webhooks',
              title: 'Webhooks to merchants',
              every: null,
              failed: 1,
              waiting: 2,
              later: 1,
              running: 0,
              done: 120,
              lastDone: '2026-11-22T10:00:00.000Z'
            }
          ],
          jobs: [
            {
              id: '0199f1d3-0b1e-7c22-8f10-2d3c4b5a6978',
              queue: 'webhooks',
              state: 'failed',
              data: '{"id":"0199f1d3"}',
              group: '7',
              reason: 'The receiver answered 500.',
              runs: 6,
              createdAt: '2026-11-22T09:00:00.000Z',
              dueAt: '2026-11-22T09:00:00.000Z',
              startedAt: '2026-11-22T09:59:59.000Z',
              endedAt: '2026-11-22T10:00:00.000Z'
            }
          ],
          hasMore: false
        }
      }
    }
  },
  adminRetryJob: {
    description: 'Every job may be run twice: it looks at the rows again before it does anything.',
    example: { params: { queue: 'webhooks', id: '0199f1d3-0b1e-7c22-8f10-2d3c4b5a6978' } }
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
    description:
      'For a key that was lost or leaked. Invalidates the old first key immediately, and every replaced key that is still ' +
      'in its overlap. Named keys of the account stay valid.',
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
