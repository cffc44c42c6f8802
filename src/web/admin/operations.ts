import { adminOperation } from '../../accounts/merchants/principal.ts'
import { Type, type Static } from 'typebox'
import type { GatewayError, ValidationError } from '../../engine/operations/errors.ts'
import { CSV, csvHeaders, csvStream, type CsvColumns } from '../../engine/formats/csv.ts'
import { listingHeaders, wantsCsv } from '../../engine/operations/keyset.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { invalidWebhookUrl } from '../../accounts/merchants/webhook-address.ts'
import {
  Approval,
  ChangedMerchant,
  CreatedMerchant,
  LinkedMerchant,
  MerchantChange,
  MerchantDetail,
  MerchantInput,
  MerchantQuery,
  MerchantSummary,
  PendingQuery,
  PendingSubscriptionView,
  RegeneratedKey,
  Rejection
} from './schema.ts'
import { Administration, type AdministrationDependencies } from './service.ts'
import { idOf, known, PENDING, pendingView } from './views.ts'
import { iso } from '../../engine/formats/iso-time.ts'

// Malformed ids are 404 like unknown ones (decision 10).
const MerchantId = Type.Object({ merchantId: Type.String({ 'x-judged': true }) })
const PendingId = Type.Object({ id: Type.String() })

const missing = 'There is no such merchant.'
const taken = 'Another merchant has this email address.'
const refused = 'A provider key is blank, the callback URL cannot be used, or the plan is unknown.'
const pendingMissing = 'There is no such pending subscription.'
/** Every error of a callback URL is `{error}`, even its type (decision 1). */
const refuse = (error: ValidationError): GatewayError =>
  error.errors['CallbackUrl'] === undefined ? error : invalidWebhookUrl('it must be a string.')
/** `/api/admin` in all its operations (contract, Admin; decisions 76 to 78 and 151 to 156). */
export function adminOperations(dependencies: AdministrationDependencies): AnyOperation[] {
  const administration = new Administration(dependencies)
  return [...accounts(administration), ...acts(dependencies), ...pendingSubscriptions(administration, dependencies)]
}

function accounts(administration: Administration): AnyOperation[] {
  return [
    defineOperation({
      ...adminOperation,
      id: 'adminListMerchants',
      method: 'GET',
      path: '/api/admin/merchants',
      summary: 'Merchants, newest first: all of them, or a page, or as CSV',
      description:
        'Without limit and after it is the whole list. A page is followed by the address in Link, which stays right while accounts are made.',
      headers: listingHeaders,
      query: MerchantQuery,
      responses: {
        200: {
          description:
            'A bare array. X-Total-Count has how many there are in all, and Link the address of the next page.',
          schema: Type.Array(MerchantSummary),
          isPaged: true,
          also: CSV
        }
      },
      handle: async ({ ctx, query: { format, ...query } }) => {
        if (wantsCsv(ctx, format)) {
          const body = csvStream(merchantColumns, () => administration.merchantPages(query))
          const { total } = await administration.merchants({ ...query, limit: 1 })
          const headers = ['X-Total-Count', String(total), ...csvHeaders('merchants.csv')]
          return { status: 200, body, mediaType: CSV, headers }
        }
        const { list, total, next } = await administration.merchants(query)
        const link = next === null ? [] : ['Link', `</api/admin/merchants?${nextQuery(query, next)}>; rel="next"`]
        return { status: 200, body: list, headers: ['X-Total-Count', String(total), ...link, 'Vary', 'Accept'] }
      }
    }),
    defineOperation({
      ...adminOperation,
      id: 'adminCreateMerchant',
      method: 'POST',
      path: '/api/admin/merchants',
      summary: 'Create a merchant without a checkout',
      description: 'The account starts active, on the free plan. Its API key is returned only in this response.',
      body: MerchantInput,
      refuse,
      responses: {
        201: { description: 'Created. The key is shown only once.', schema: CreatedMerchant },
        400: refused,
        409: taken
      },
      handle: async ({ body }) => {
        const created = await administration.create(body)
        return {
          status: 201,
          body: created,
          headers: ['Location', `/api/admin/merchants/${created.merchantId}`]
        }
      }
    }),
    defineOperation({
      ...adminOperation,
      id: 'adminGetMerchant',
      method: 'GET',
      path: '/api/admin/merchants/:merchantId',
      summary: 'One merchant in detail',
      description: 'Which keys and addresses are set, never what they are.',
      params: MerchantId,
      responses: {
        200: { description: 'The account as its merchant sees it, and more.', schema: MerchantDetail },
        404: missing
      },
      handle: async ({ params }) => ({ status: 200, body: await administration.merchant(params.merchantId) })
    }),
    defineOperation({
      ...adminOperation,
      id: 'adminUpdateMerchant',
      method: 'PUT',
      path: '/api/admin/merchants/:merchantId',
      summary: 'Change what is named, all of it or nothing',
      description:
        'A planTier sets the flags that come with it; features of the same request are set after them. isActive false ends the key as deactivating does.',
      params: MerchantId,
      body: MerchantChange,
      refuse,
      responses: {
        200: {
          description: 'The merchant as it is now. A webhook secret that was made here is shown only once.',
          schema: ChangedMerchant
        },
        400: refused,
        404: missing,
        409: taken
      },
      handle: async ({ params, body }) => ({
        status: 200,
        body: await administration.update(params.merchantId, body)
      })
    })
  ]
}

// The keys of the schema are the members of its type.
const summaryMembers = Object.keys(MerchantSummary.properties) as ReadonlyArray<keyof MerchantSummary>
const merchantColumns: CsvColumns<MerchantSummary> = Object.fromEntries(
  summaryMembers.map(member => [member, (row: MerchantSummary) => row[member]])
)

function nextQuery(
  query: Omit<Static<typeof MerchantQuery>, 'format'>,
  next: { readonly limit: number; readonly after: number }
): string {
  const { search, isActive, planTier } = query
  const members = { limit: next.limit, after: next.after, search, isActive, planTier }
  return new URLSearchParams(
    Object.entries(members).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]))
  ).toString()
}

const ACTS = [
  {
    id: 'adminDeactivateMerchant',
    act: 'deactivate',
    summary: 'Deactivate a merchant; its key stops working immediately',
    description:
      'The account sells nothing from then on and its key is refused. Nothing is deleted; payments that were made are still reported.'
  },
  {
    id: 'adminReactivateMerchant',
    act: 'reactivate',
    summary: 'Reactivate a merchant; its key works again',
    description: 'Takes a deactivation back: the same key works again, with the flags that the account had.'
  }
] as const

function acts({ clock, merchants }: AdministrationDependencies): AnyOperation[] {
  return [
    defineOperation({
      ...adminOperation,
      id: 'adminRegenerateKey',
      method: 'POST',
      path: '/api/admin/merchants/:merchantId/regenerate-key',
      summary: "Replace a merchant's API key; the old one stops working immediately",
      description:
        'For a key that was lost or leaked. Invalidates the old first key immediately, and every replaced key that is still ' +
        'in its overlap. Named keys of the account stay valid.',
      params: MerchantId,
      responses: { 200: { description: 'The new key, shown only once.', schema: RegeneratedKey }, 404: missing },
      handle: async ({ params }) => {
        const { merchant, apiKey } = known(await merchants.regenerateKey(idOf(params.merchantId)))
        const regeneratedAt = iso(merchant.keyRotatedAt ?? clock.now())
        return { status: 200, body: { merchantId: merchant.id, apiKey: apiKey.reveal(), regeneratedAt } }
      }
    }),
    ...ACTS.map(({ id, act, ...of }) =>
      defineOperation({
        ...adminOperation,
        ...of,
        id,
        method: 'POST',
        path: `/api/admin/merchants/:merchantId/${act}`,
        params: MerchantId,
        responses: { 204: { description: 'Done, also when it was so already.' }, 404: missing },
        handle: async ({ params }) => {
          known(await merchants[act](idOf(params.merchantId)))
          return { status: 204, body: null }
        }
      })
    )
  ]
}

function pendingSubscriptions(administration: Administration, { store }: AdministrationDependencies): AnyOperation[] {
  return [
    defineOperation({
      ...adminOperation,
      id: 'adminListPendingSubscriptions',
      method: 'GET',
      path: '/api/admin/pending-subscriptions',
      summary: 'Subscriptions that were bought without an account, newest first',
      description: 'Paid subscriptions without an account: approve or reject each.',
      query: PendingQuery,
      responses: {
        200: {
          description: 'A bare array; those that wait unless includeProcessed is true.',
          schema: Type.Array(PendingSubscriptionView)
        }
      },
      handle: async ({ query }) => ({
        status: 200,
        body: (await store.list(query.includeProcessed === true)).map(pendingView)
      })
    }),
    defineOperation({
      ...adminOperation,
      id: 'adminGetPendingSubscription',
      method: 'GET',
      path: '/api/admin/pending-subscriptions/:id',
      summary: 'One pending subscription',
      description: 'Also after it was processed, with its outcome and account.',
      params: PendingId,
      responses: { 200: { description: 'The subscription.', schema: PendingSubscriptionView }, 404: pendingMissing },
      handle: async ({ params }) => ({
        status: 200,
        body: pendingView(known(await store.byId(idOf(params.id, PENDING)), PENDING))
      })
    }),
    defineOperation({
      ...adminOperation,
      id: 'adminApprovePendingSubscription',
      method: 'POST',
      path: '/api/admin/pending-subscriptions/:id/approve',
      summary: 'Make an account of a subscription, or link it to the account with its email address',
      description: "The buyer is notified by email. A new account's API key is returned only here, once.",
      params: PendingId,
      body: Approval,
      refuse,
      bodyOptional: true,
      responses: {
        200: {
          description:
            'A new account with its key, shown only once; or the account that the subscription was linked to.',
          schema: Type.Union([CreatedMerchant, LinkedMerchant])
        },
        400: 'It was processed already, a provider key is blank, or the callback URL cannot be used. It stays as it was.',
        404: pendingMissing
      },
      handle: async ({ params, body }) => ({ status: 200, body: await administration.approve(params.id, body) })
    }),
    defineOperation({
      ...adminOperation,
      id: 'adminRejectPendingSubscription',
      method: 'POST',
      path: '/api/admin/pending-subscriptions/:id/reject',
      summary: 'Turn a subscription down',
      description: 'Makes no account, and gives no money back: do that at the billing provider.',
      params: PendingId,
      body: Rejection,
      bodyOptional: true,
      responses: {
        204: { description: 'Rejected.' },
        400: 'It was processed already.',
        404: pendingMissing
      },
      handle: async ({ params, body }) => {
        await administration.reject(params.id, body.reason ?? null)
        return { status: 204, body: null }
      }
    })
  ]
}
