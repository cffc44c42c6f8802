import { Type } from 'typebox'
import { nullableText } from '../../engine/formats/text-patterns.ts'
import { iso, isoTime } from '../../engine/formats/iso-time.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import { VALIDATION } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { Secret } from '../../platform/keys/secrets.ts'
import {
  AccountView,
  accountView,
  KeyInfoView,
  keyInfoView,
  LicenseView,
  licenseView,
  SubscriptionView,
  subscriptionView
} from './account.ts'
import { merchantOf, merchantOperation, settingsRead, settingsWrite } from './principal.ts'
import { Done, gone, there } from './settings-operation.ts'
import { quickstart, QuickstartView } from './quickstart.ts'
import type { ProxyCounts } from './holdings.ts'
import type { Merchants } from './service.ts'
import { checkWebhookSecret, invalidWebhookUrl, webhookAddress, webhookSecretLength } from './webhook-address.ts'

export interface MerchantOperationDependencies {
  readonly merchants: Merchants
  /** Webhooks may target this machine outside production (decision 162). */
  readonly production: boolean
  /** A function, since a reload changes them. */
  plans(): GatewayConfig['plans']
  publicUrl(): string
  countProxies(merchantId: number): Promise<ProxyCounts>
  /** Includes demos (decision 74). */
  hasPaidPayment(merchantId: number): Promise<boolean>
  hasChallenge(merchantId: number): Promise<boolean>
}

const TestAccount = Type.Object(
  {
    merchantId: Type.Integer({ description: 'The negated id of the account.' }),
    apiKey: nullableText('Null when the account existed.')
  },
  { title: 'TestAccount' }
)
/**
 * `/api/merchant` (contract, Merchant self-service; decisions 64 to 74). Without a subscription gate, so that an
 * account can be repaired (decision 36).
 */
export function merchantOperations(dependencies: MerchantOperationDependencies): AnyOperation[] {
  return [...accountReads(dependencies), webhookOperation(dependencies), regenerateOperation(dependencies)]
}

function accountReads(dependencies: MerchantOperationDependencies): AnyOperation[] {
  return [
    merchantOperation({
      ...settingsRead,
      id: 'getMerchant',
      path: '/api/merchant/me',
      summary: 'The account, without its keys',
      description:
        'Also of accounts that are inactive or behind with their subscription: what an account is repaired with is not gated.',
      responses: { 200: { description: 'The account.', schema: AccountView } },
      handle: async ({ merchant }) =>
        accountView(merchant, dependencies.plans(), await dependencies.countProxies(merchant.id))
    }),
    merchantOperation({
      ...settingsRead,
      id: 'getLicense',
      path: '/api/merchant/l402-status',
      summary: 'Whether the account may sell requests',
      description:
        'l402Enabled is whether proxies and the producer API sell; it is false whenever the account is inactive.',
      responses: { 200: { description: 'The state of the plan.', schema: LicenseView } },
      handle: ({ merchant }) => licenseView(merchant)
    }),
    merchantOperation({
      ...settingsRead,
      id: 'getSubscription',
      path: '/api/merchant/subscription',
      summary: 'The plan and the state of its subscription',
      description: 'Retired names of plans read as those of now. On the free plan the status is always active.',
      responses: { 200: { description: 'The subscription.', schema: SubscriptionView } },
      handle: ({ merchant }) => subscriptionView(merchant, dependencies.plans())
    }),
    merchantOperation({
      ...settingsRead,
      id: 'getApiKeyInfo',
      path: '/api/merchant/api-key-info',
      summary: 'When the API key was created and last regenerated',
      description:
        'To tell which key is in use and how old it is. keyHint is the part that a key is looked up by, and opens nothing.',
      responses: { 200: { description: 'Never the key itself.', schema: KeyInfoView } },
      handle: ({ merchant }) => keyInfoView(merchant)
    }),
    defineOperation({
      ...settingsWrite,
      id: 'createTestAccount',
      role: 'owner',
      method: 'POST',
      path: '/api/merchant/test-account',
      summary: 'Create the test account, whose payments move no money',
      description:
        'An account beside yours with keys, payments, APIs and webhooks of its own. The sandbox makes its invoices, in production too, and what is paid there counts nowhere else. Called again, it returns the account without a key.',
      responses: {
        200: { description: 'It exists. Replace its key in the console.', schema: TestAccount },
        201: { description: 'Created. Its API key is shown only now.', schema: TestAccount }
      },
      handle: async ({ ctx }) => {
        const { merchant, apiKey } = await dependencies.merchants.testOf(merchantOf(ctx))
        return {
          status: apiKey === null ? 200 : 201,
          body: { merchantId: merchant.id, apiKey: apiKey?.reveal() ?? null },
          headers: ['Cache-Control', 'no-store']
        }
      }
    }),
    merchantOperation({
      ...settingsRead,
      id: 'getQuickstart',
      path: '/api/merchant/quickstart',
      summary: 'The steps to the first payment, and which are complete',
      description:
        'Each step with a call that can be pasted into a shell. A demo payment, of the amount 0, counts for the first payment.',
      responses: { 200: { description: 'The steps.', schema: QuickstartView } },
      handle: async ({ merchant }) => {
        const [proxies, challenged, paid] = await Promise.all([
          dependencies.countProxies(merchant.id),
          dependencies.hasChallenge(merchant.id),
          dependencies.hasPaidPayment(merchant.id)
        ])
        return quickstart(merchant, { paid, sells: challenged || proxies.count > 0 }, dependencies.publicUrl())
      }
    })
  ]
}

const WebhookInput = Type.Object(
  {
    // Validated manually: every error has one shape.
    webhookUrl: Type.Optional(nullableText('Left out it stays; null or empty clears it.')),
    webhookSecret: Type.Optional(
      nullableText(
        `${webhookSecretLength.min} to ${webhookSecretLength.max} characters. Left out it stays; null or empty clears it, and another is made while a URL is set.`
      )
    )
  },
  { title: 'WebhookChange' }
)

/** `PUT …/webhook-url`: omitted members stay, null or empty clears, and a URL always has a secret (decision 67). */
function webhookOperation(dependencies: MerchantOperationDependencies): AnyOperation {
  return merchantOperation({
    ...settingsWrite,
    id: 'setWebhook',
    method: 'PUT',
    path: '/api/merchant/webhook-url',
    mount: { use: 'merchant-api', chain: 'settings-keys' },
    summary: 'Set the webhook URL and signing secret',
    description:
      'One URL receives all events. Setting a URL without a secret creates a secret and shows it once; ' +
      'check X-Service-Signature with it.',
    body: WebhookInput,
    refuse: error => (error.errors['WebhookUrl'] === undefined ? error : invalidWebhookUrl('it must be a string.')),
    responses: {
      200: {
        description: 'Saved. A generated secret is shown only once.',
        schema: Type.Object({ ...Done.properties, webhookSecret: Type.Optional(Type.String()) })
      },
      400: 'An error where the URL cannot be used, or neither member is there; a problem where the secret cannot.',
      404: gone
    },
    handle: async ({ merchant: { id }, body: { webhookUrl, webhookSecret } }) => {
      if (webhookUrl === undefined && webhookSecret === undefined)
        throw new ShortError(VALIDATION, 'webhookUrl or webhookSecret is required')
      const url =
        webhookUrl === undefined ? {} : { url: isGiven(webhookUrl) ? webhookAddress(webhookUrl, dependencies) : null }
      if (isGiven(webhookSecret)) checkWebhookSecret(webhookSecret)
      const secret =
        webhookSecret === undefined ? {} : { secret: isGiven(webhookSecret) ? new Secret(webhookSecret) : null }
      const { merchant, issued } = there(await dependencies.merchants.changeWebhook(id, { ...url, ...secret }))
      const message =
        merchant.webhookUrl === null
          ? 'No webhooks are sent: there is no webhook URL.'
          : 'Webhooks are sent to this address from now on.'
      return issued === null
        ? { success: true, message }
        : {
            success: true,
            message: `${message} Keep the secret: it is shown this once.`,
            webhookSecret: issued.reveal()
          }
    }
  })
}

/** Neither left out nor cleared. */
function isGiven(value: string | null | undefined): value is string {
  return value !== undefined && value !== null && value !== ''
}

function regenerateOperation(dependencies: MerchantOperationDependencies): AnyOperation {
  return merchantOperation({
    ...settingsWrite,
    id: 'regenerateKey',
    role: 'owner',
    method: 'POST',
    path: '/api/merchant/regenerate-key',
    summary: 'Replace the API key; the old one is invalid immediately',
    description:
      'Invalidates the old first key immediately, and every replaced key that is still in its overlap. ' +
      'Named keys stay valid: remove those that may have leaked with DELETE /api/merchant/keys/{keyId}.',
    responses: {
      200: {
        description: 'The new key, shown only once.',
        schema: Type.Object({ merchantId: Type.Integer(), apiKey: Type.String(), regeneratedAt: isoTime() })
      },
      404: gone
    },
    handle: async ({ merchant: { id } }) => {
      const { merchant, apiKey } = there(await dependencies.merchants.regenerateKey(id))
      const at = merchant.keyRotatedAt ?? merchant.keyCreatedAt
      return { merchantId: id, apiKey: apiKey.reveal(), regeneratedAt: iso(at) }
    }
  })
}
