import { Type } from 'typebox'
import { LINE, nullableText } from '../../engine/formats/text-patterns.ts'
import { iso, isoTime } from '../../engine/formats/iso-time.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import { RESOURCE_NOT_FOUND, VALIDATION } from '../../engine/operations/error-kinds.ts'
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
import { merchantOf, settingsRead, settingsWrite } from './principal.ts'
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

export const Done = Type.Object({ success: Type.Boolean(), message: Type.String() }, { title: 'Done' })
const TestAccount = Type.Object(
  {
    merchantId: Type.Integer({ description: 'The negated id of the account.' }),
    apiKey: nullableText('Null when the account existed.')
  },
  { title: 'TestAccount' }
)
export const gone = 'The account is not there any more.'
/**
 * `/api/merchant` (contract, Merchant self-service; decisions 64 to 74). Without a subscription gate, so that an
 * account can be repaired (decision 36).
 */
export function merchantOperations(dependencies: MerchantOperationDependencies): AnyOperation[] {
  return [
    ...accountReads(dependencies),
    webhookOperation(dependencies),
    colourOperation(dependencies),
    nameOperation(dependencies),
    receiptNoteOperation(dependencies),
    regenerateOperation(dependencies)
  ]
}

function accountReads(dependencies: MerchantOperationDependencies): AnyOperation[] {
  return [
    defineOperation({
      ...settingsRead,
      id: 'getMerchant',
      method: 'GET',
      path: '/api/merchant/me',
      summary: 'The account, without its keys',
      description:
        'Also of accounts that are inactive or behind with their subscription: what an account is repaired with is not gated.',
      responses: { 200: { description: 'The account.', schema: AccountView } },
      handle: async ({ ctx }) => {
        const merchant = merchantOf(ctx)
        return {
          status: 200,
          body: accountView(merchant, dependencies.plans(), await dependencies.countProxies(merchant.id))
        }
      }
    }),
    defineOperation({
      ...settingsRead,
      id: 'getLicense',
      method: 'GET',
      path: '/api/merchant/l402-status',
      summary: 'Whether the account may sell requests',
      description:
        'l402Enabled is whether proxies and the producer API sell; it is false whenever the account is inactive.',
      responses: { 200: { description: 'The state of the plan.', schema: LicenseView } },
      handle: ({ ctx }) => ({ status: 200, body: licenseView(merchantOf(ctx)) })
    }),
    defineOperation({
      ...settingsRead,
      id: 'getSubscription',
      method: 'GET',
      path: '/api/merchant/subscription',
      summary: 'The plan and the state of its subscription',
      description: 'Retired names of plans read as those of now. On the free plan the status is always active.',
      responses: { 200: { description: 'The subscription.', schema: SubscriptionView } },
      handle: ({ ctx }) => ({ status: 200, body: subscriptionView(merchantOf(ctx), dependencies.plans()) })
    }),
    defineOperation({
      ...settingsRead,
      id: 'getApiKeyInfo',
      method: 'GET',
      path: '/api/merchant/api-key-info',
      summary: 'When the API key was created and last regenerated',
      description:
        'To tell which key is in use and how old it is. keyHint is the part that a key is looked up by, and opens nothing.',
      responses: { 200: { description: 'Never the key itself.', schema: KeyInfoView } },
      handle: ({ ctx }) => ({ status: 200, body: keyInfoView(merchantOf(ctx)) })
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
    defineOperation({
      ...settingsRead,
      id: 'getQuickstart',
      method: 'GET',
      path: '/api/merchant/quickstart',
      summary: 'The steps to the first payment, and which are complete',
      description:
        'Each step with a call that can be pasted into a shell. A demo payment, of the amount 0, counts for the first payment.',
      responses: { 200: { description: 'The steps.', schema: QuickstartView } },
      handle: async ({ ctx }) => {
        const merchant = merchantOf(ctx)
        const [proxies, challenged, paid] = await Promise.all([
          dependencies.countProxies(merchant.id),
          dependencies.hasChallenge(merchant.id),
          dependencies.hasPaidPayment(merchant.id)
        ])
        return {
          status: 200,
          body: quickstart(merchant, { paid, sells: challenged || proxies.count > 0 }, dependencies.publicUrl())
        }
      }
    })
  ]
}

/** `PUT …/colour`: color of the merchant's payment pages. */
function colourOperation(dependencies: MerchantOperationDependencies): AnyOperation {
  return defineOperation({
    ...settingsWrite,
    id: 'setColour',
    method: 'PUT',
    path: '/api/merchant/colour',
    summary: 'Set the color of the payment pages',
    description:
      'A browser that opens a paid address of a proxy gets a page to pay on, with the name of the account and this colour.',
    body: Type.Object({
      colour: nullableText({
        pattern: '^#[0-9a-fA-F]{6}$',
        description: 'For example `#c2410c`. Adjusted for contrast. Null restores the default.'
      })
    }),
    responses: { 200: { description: 'Saved.', schema: Done }, 404: gone },
    handle: async ({ ctx, body }) => {
      const { colour } = there(await dependencies.merchants.change(merchantOf(ctx).id, body))
      return done(
        colour === null ? 'Pages have the usual colour from now on.' : `Pages have the colour ${colour} from now on.`
      )
    }
  })
}

function nameOperation(dependencies: MerchantOperationDependencies): AnyOperation {
  return defineOperation({
    ...settingsWrite,
    id: 'setName',
    role: 'owner',
    method: 'PUT',
    path: '/api/merchant/name',
    summary: 'Rename the account',
    description: 'Customers see the name on payment pages, receipts and invoices.',
    body: Type.Object({
      name: Type.String({
        minLength: 1,
        maxLength: 200,
        pattern: `^(?=.*\\S)${LINE}`,
        'x-rule': 'Must be one line with a visible character.'
      })
    }),
    responses: { 200: { description: 'Saved.', schema: Done }, 404: gone },
    handle: async ({ ctx, body }) => {
      const { name } = there(await dependencies.merchants.change(merchantOf(ctx).id, { name: body.name.trim() }))
      return done(`The account is now named ${name}.`)
    }
  })
}

/** What tax law wants on a receipt, in the merchant's words: the gateway computes no taxes. */
function receiptNoteOperation(dependencies: MerchantOperationDependencies): AnyOperation {
  return defineOperation({
    ...settingsWrite,
    id: 'setReceiptNote',
    method: 'PUT',
    path: '/api/merchant/receipt-note',
    summary: 'Set the seller details on receipts',
    description: 'Printed on each receipt by email: legal name, address, tax number, and which tax a price includes.',
    body: Type.Object({
      note: nullableText({
        maxLength: 500,
        pattern: LINE,
        'x-rule': 'Must be one line.',
        description: 'Null or empty for none.'
      })
    }),
    responses: { 200: { description: 'Saved.', schema: Done }, 404: gone },
    handle: async ({ ctx, body }) => {
      const note = body.note?.trim() ?? ''
      there(await dependencies.merchants.change(merchantOf(ctx).id, { receiptNote: note === '' ? null : note }))
      return done(note === '' ? 'Receipts have no seller details.' : 'Receipts have these seller details.')
    }
  })
}

const WebhookChange = Type.Object(
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
  return defineOperation({
    ...settingsWrite,
    id: 'setWebhook',
    method: 'PUT',
    path: '/api/merchant/webhook-url',
    mount: { use: 'merchant-api', chain: 'settings-keys' },
    summary: 'Set the webhook URL and signing secret',
    description:
      'One URL receives all events. Setting a URL without a secret creates a secret and shows it once; ' +
      'check X-Service-Signature with it.',
    body: WebhookChange,
    refuse: error => (error.errors['WebhookUrl'] === undefined ? error : invalidWebhookUrl('it must be a string.')),
    responses: {
      200: {
        description: 'Saved. A generated secret is shown only once.',
        schema: Type.Object({ ...Done.properties, webhookSecret: Type.Optional(Type.String()) })
      },
      400: 'An error where the URL cannot be used, or neither member is there; a problem where the secret cannot.',
      404: gone
    },
    handle: async ({ ctx, body }) => {
      const { webhookUrl, webhookSecret } = body
      if (webhookUrl === undefined && webhookSecret === undefined)
        throw new ShortError(VALIDATION, 'webhookUrl or webhookSecret is required')
      const url = cleared(webhookUrl)
        ? null
        : webhookUrl === undefined
          ? undefined
          : webhookAddress(webhookUrl, dependencies)
      if (!cleared(webhookSecret) && webhookSecret !== undefined) checkWebhookSecret(webhookSecret)
      const secret = cleared(webhookSecret) ? null : webhookSecret === undefined ? undefined : new Secret(webhookSecret)
      const { merchant, issued } = there(
        await dependencies.merchants.changeWebhook(merchantOf(ctx).id, {
          ...(url === undefined ? {} : { url }),
          ...(secret === undefined ? {} : { secret })
        })
      )
      const message =
        merchant.webhookUrl === null
          ? 'No webhooks are sent: there is no webhook URL.'
          : 'Webhooks are sent to this address from now on.'
      return {
        status: 200,
        body:
          issued === null
            ? { success: true, message }
            : {
                success: true,
                message: `${message} Keep the secret: it is shown this once.`,
                webhookSecret: issued.reveal()
              }
      }
    }
  })
}

function cleared(value: string | null | undefined): value is null | '' {
  return value === null || value === ''
}

function regenerateOperation(dependencies: MerchantOperationDependencies): AnyOperation {
  return defineOperation({
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
    handle: async ({ ctx }) => {
      const { merchant, apiKey } = there(await dependencies.merchants.regenerateKey(merchantOf(ctx).id))
      const at = merchant.keyRotatedAt ?? merchant.keyCreatedAt
      return {
        status: 200,
        body: { merchantId: merchant.id, apiKey: apiKey.reveal(), regeneratedAt: iso(at) }
      }
    }
  })
}

export function done(message: string): { status: number; body: { success: true; message: string } } {
  return { status: 200, body: { success: true, message } }
}

/** Guards against an account deleted meanwhile. */
export function there<T>(written: T | null): T {
  if (written === null) throw new ShortError(RESOURCE_NOT_FOUND, 'Merchant not found')
  return written
}
