import type { OperationText } from '../../engine/operations/operation.ts'

/** The account of all examples. */
export const exampleAccount = {
  merchantId: 7,
  name: 'Example Shop',
  email: 'owner@example.com',
  planTier: 'individual',
  subscriptionStatus: 'active',
  isActive: true,
  createdAt: '2026-11-01T08:00:00.000Z'
}
const account = {
  ...exampleAccount,
  features: {
    refundsEnabled: true,
    multiCurrencyEnabled: true,
    analyticsEnabled: true,
    prioritySupport: false,
    customBrandingEnabled: false,
    maxWebhookEndpoints: 5,
    l402Enabled: true
  },
  onboarding: {
    hasPaymentProviderKey: true,
    hasWebhookUrl: true,
    hasActiveProxy: false,
    proxyCount: 0,
    isFullyConfigured: true
  }
}
const done = (message: string) => ({ 200: { success: true, message } })

const key = {
  keyId: 'k3v9q2m8xa',
  name: 'Bookkeeping',
  isFirst: false,
  isReadOnly: true,
  createdAt: '2026-11-22T10:00:00.000Z',
  lastUsedAt: null,
  endsAt: null
}
const newKey = { ...key, apiKey: 'bg_k3v9q2m8xa_the-new-key-shown-once' }

/** What OpenAPI says of an account's API keys. */
export const keyTexts: Readonly<Record<string, OperationText>> = {
  listApiKeys: {
    description: 'To tell which key is used by whom, and which by nobody any more.',
    example: { responses: { 200: [key] } }
  },
  createApiKey: {
    description:
      'Give each program a key of its own, so that one can be removed alone; and one that only reads to whoever only looks.',
    example: { body: { name: 'Bookkeeping', isReadOnly: true }, responses: { 201: newKey } }
  },
  rotateApiKey: {
    description:
      'Works for the first key too. Move your programs to the new key during the overlap; lastUsedAt shows whether the ' +
      'old one is still in use. For a leaked key use no overlap: replacing the first key without one, or ' +
      'POST /api/merchant/regenerate-key, also ends every earlier overlap immediately.',
    example: { params: { keyId: key.keyId }, body: { overlapSeconds: 86_400 }, responses: { 200: newKey } }
  },
  removeApiKey: {
    description: 'Also one that was replaced and goes on for a while.',
    example: { params: { keyId: key.keyId } }
  }
}

/** What OpenAPI says of an account's settings. */
export const settingsTexts: Readonly<Record<string, OperationText>> = {
  getSettings: {
    description: 'Keys and secrets are told to be there, and never shown.',
    example: {
      responses: {
        200: {
          plan: { paidUntil: '2026-12-22T10:15:00.000Z', paidBy: 'card' },
          webhook: { url: 'https://shop.example.com/webhooks', hasSecret: true },
          colour: '#c2410c',
          paymentProvider: { slot: 'primary', chosenBy: 'choice', isReady: true },
          providers: [
            {
              slot: 'primary',
              kind: 'node',
              hasKey: true,
              keyVersion: 'q83vEjRWeJCrze8S',
              scopes: [{ scope: 'invoices', purpose: 'Make invoices' }]
            },
            { slot: 'alternate', kind: 'custodian', hasKey: false, keyVersion: null, scopes: [] }
          ]
        }
      }
    }
  }
}

/** What OpenAPI says of the operations of merchants' own accounts. */
export const merchantTexts: Readonly<Record<string, OperationText>> = {
  getMerchant: {
    description:
      'Also of accounts that are inactive or behind with their subscription: what an account is repaired with is not gated.',
    example: { responses: { 200: account } }
  },
  getLicense: {
    description:
      'l402Enabled is whether proxies and the producer API sell; it is false whenever the account is inactive.',
    example: {
      responses: { 200: { l402Enabled: true, planTier: 'individual', subscriptionStatus: 'active', isActive: true } }
    }
  },
  getSubscription: {
    description: 'Retired names of plans read as those of now. On the free plan the status is always active.',
    example: {
      responses: {
        200: {
          planTier: 'individual',
          planName: 'Individual',
          status: 'active',
          billingCustomerId: 'cus_sandbox_1',
          limits: { maxMerchants: 1, maxEnvironments: 2, maxWebhookEndpoints: 5 }
        }
      }
    }
  },
  getApiKeyInfo: {
    description:
      'To tell which key is in use and how old it is. keyHint is the part that a key is looked up by, and opens nothing.',
    example: { responses: { 200: { createdAt: account.createdAt, lastRotatedAt: null, keyHint: 'k3v9q2m8xa' } } }
  },
  getQuickstart: {
    description:
      'Each step with a call that can be pasted into a shell. A demo payment, of the amount 0, counts for the first payment.',
    example: {
      responses: {
        200: {
          merchantId: 7,
          merchantName: 'Example Shop',
          completedSteps: 1,
          totalSteps: 5,
          requiredStepsCompleted: 1,
          requiredStepsTotal: 4,
          isReadyForProduction: false,
          steps: [
            {
              stepNumber: 1,
              title: 'Create an account',
              description: 'The account stands and its API key works.',
              endpoint: 'GET /api/merchant/me',
              exampleRequest:
                'curl -X GET \'https://gateway.example.com/api/merchant/me\' -H "X-API-Key: $BOLTGATE_API_KEY"',
              isCompleted: true,
              isRequired: true
            }
          ]
        }
      }
    }
  },
  setPrimaryKey: {
    description:
      'Replaces the key that was saved. New payments use it at once; what is under way is looked up with it too.',
    example: {
      body: { primaryApiKey: 'your-provider-key' },
      responses: done('The key for the primary provider was saved.')
    }
  },
  setAlternateKey: {
    description:
      'Replaces the key that was saved. New payments use it at once where the alternate provider is the one chosen.',
    example: {
      body: { alternateApiKey: 'your-provider-key' },
      responses: done('The key for the alternate provider was saved.')
    }
  },
  removePrimaryKey: {
    description:
      'What was made with it can be neither looked up nor refunded by us from then on. The choice of a provider stays.',
    example: { responses: done('The key for the primary provider was removed.') }
  },
  removeAlternateKey: {
    description:
      'What was made with it can be neither looked up nor refunded by us from then on. The choice of a provider stays.',
    example: { responses: done('The key for the alternate provider was removed.') }
  },
  setPaymentProvider: {
    description: 'Payments made before stay with the provider that made them, and so do their refunds.',
    example: {
      body: { provider: 'alternate' },
      responses: done('Invoices are made by the alternate provider from now on.')
    }
  },
  setColour: {
    description:
      'A browser that opens a paid address of a proxy gets a page to pay on, with the name of the account and this colour.',
    example: {
      body: { colour: '#c2410c' },
      responses: { 200: { success: true, message: 'Pages have the colour #c2410c from now on.' } }
    }
  },
  setWebhook: {
    description:
      'One address takes all events. Where an address is set and no secret stands, a secret is made and shown this once; ' +
      'check X-Service-Signature with it.',
    example: {
      body: { webhookUrl: 'https://shop.example.com/webhooks' },
      responses: {
        200: {
          success: true,
          message: 'Webhooks are sent to this address from now on.',
          webhookSecret: 'whsec_0123456789abcdef0123456789abcdef'
        }
      }
    }
  },
  validatePrimaryKey: {
    description:
      'Asks the provider with the saved key, and makes no invoice. The status is 200 whether or not the key works.',
    example: { responses: { 200: { isValid: true, message: 'The sandbox accepts this key.' } } }
  },
  validateAlternateKey: {
    description:
      'Asks the provider with the saved key, and makes no invoice. The status is 200 whether or not the key works.',
    example: { responses: { 200: { isValid: false, message: 'No key is saved for the alternate provider.' } } }
  },
  regenerateKey: {
    description:
      'Invalidates the old first key immediately, and every replaced key that is still in its overlap. ' +
      'Named keys stay valid: remove those that may have leaked with DELETE /api/merchant/keys/{keyId}.',
    example: {
      responses: {
        200: {
          merchantId: 7,
          apiKey: 'bg_k7w2m8p4zc_the-new-key-shown-once',
          regeneratedAt: '2026-11-22T10:00:00.000Z'
        }
      }
    }
  }
}
