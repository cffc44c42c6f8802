import { pageRange, pageQuery } from '../engine/operations/keyset.ts'
import { nullableInteger } from '../engine/formats/text-patterns.ts'
import { Type } from 'typebox'
import { defineOperation, type AnyOperation } from '../engine/operations/operation.ts'
import { merchantOf, adminOperation } from '../accounts/merchants/principal.ts'
import { IntegrationChange, IntegrationInput, IntegrationView, integrationView } from './stores/integration-schema.ts'
import type { Storefronts } from './stores/integrations.ts'
import {
  orderPageOf,
  OrderRow,
  orderRow,
  OrdersQuery,
  StatsView,
  statsView,
  AdminOrderRow,
  adminOrderRow,
  OrderView,
  orderView
} from './orders/views.ts'
import type { Orders } from './orders/orders.ts'
import { OrderNotMade } from './public-schema.ts'

interface StorefrontMerchantOptions {
  readonly storefronts: Storefronts
  readonly orders: Orders
}

const common = { tag: 'Storefront', access: 'merchant' } as const
const reads = { ...common, mount: { use: 'storefront', chain: 'store-read' } } as const
const writes = { ...common, mount: { use: 'storefront', chain: 'store-write' } } as const
const PATH = '/api/merchant/storefront'

const missing = 'The merchant has no store.'
const silent = {
  description: 'The platform gave no shop info. Nothing was changed.',
  schema: Type.Object({
    error: Type.String(),
    message: Type.String(),
    upstreamStatus: nullableInteger("The platform's HTTP status; null when it did not answer.")
  })
}
const opening =
  'A problem where a member does not fit; an error where credentials are missing or refused, the shop is unknown to the platform, or it does not sell in US dollars.'

/** `/api/merchant/storefront` (contract, Storefront merchant endpoints; decisions 141 to 145 and 149). */
export function storefrontMerchantOperations(options: StorefrontMerchantOptions): AnyOperation[] {
  return [...store(options), ...acts(options), ...reports(options)]
}

function store({ storefronts }: StorefrontMerchantOptions): AnyOperation[] {
  return [
    defineOperation({
      ...reads,
      id: 'getStorefront',
      method: 'GET',
      path: PATH,
      summary: 'The store, without its credentials',
      description: 'Includes all settings, and whether platform credentials are stored.',
      responses: { 200: { description: 'The store.', schema: IntegrationView }, 404: missing },
      handle: async ({ ctx }) => ({ status: 200, body: integrationView(await storefronts.own(merchantOf(ctx).id)) })
    }),
    defineOperation({
      ...writes,
      id: 'createStorefront',
      liveOnly: true,
      method: 'POST',
      path: PATH,
      summary: 'Open a store; a merchant has one',
      description:
        'Verifies the credentials with the platform first. The store sells immediately unless isActive is false.',
      body: IntegrationInput,
      responses: {
        201: { description: 'Open, with what its platform says of the shop.', schema: IntegrationView },
        400: opening,
        409: 'The merchant has a store, or another store has the slug.',
        502: silent
      },
      handle: async ({ ctx, body }) => {
        const integration = await storefronts.create(merchantOf(ctx).id, body)
        return { status: 201, body: integrationView(integration), headers: ['Location', PATH] }
      }
    }),
    defineOperation({
      ...writes,
      id: 'updateStorefront',
      method: 'PUT',
      path: PATH,
      summary: 'Change what is named; slug and domain stay',
      description:
        'Omitted members keep their values. Existing orders keep their prices and claim window; the catalog is read again.',
      body: IntegrationChange,
      bodyOptional: true,
      responses: {
        200: { description: 'The store as it is now.', schema: IntegrationView },
        400: opening,
        404: missing,
        502: silent
      },
      handle: async ({ ctx, body }) => ({
        status: 200,
        body: integrationView(await storefronts.update(merchantOf(ctx).id, body))
      })
    })
  ]
}

function acts({ storefronts }: StorefrontMerchantOptions): AnyOperation[] {
  return [
    defineOperation({
      ...writes,
      id: 'invalidateStorefrontCache',
      unaudited: true,
      method: 'POST',
      path: `${PATH}/invalidate-cache`,
      summary: 'Have the next request read the catalog from the platform',
      description: 'For a change that buyers should see immediately; it appears within minutes anyway.',
      responses: {
        200: { description: 'It will.', schema: Type.Object({ success: Type.Boolean(), message: Type.String() }) },
        404: missing
      },
      handle: async ({ ctx }) => {
        const { slug } = await storefronts.invalidateCatalog(merchantOf(ctx).id)
        return {
          status: 200,
          body: { success: true, message: `The catalog of ${slug} is read from the platform with the next request.` }
        }
      }
    }),
    defineOperation({
      ...writes,
      id: 'refreshStorefrontShopInfo',
      unaudited: true,
      method: 'POST',
      path: `${PATH}/refresh-shop-info`,
      summary: "Read the shop's domain, handle, name and country from the platform",
      description: 'For a shop that was renamed or moved. Also verifies the stored credentials.',
      responses: {
        200: { description: 'The store as it is now.', schema: IntegrationView },
        400: 'No credentials are stored, or the shop no longer sells in US dollars.',
        404: missing,
        502: silent
      },
      handle: async ({ ctx }) => ({
        status: 200,
        body: integrationView(await storefronts.refreshShopInfo(merchantOf(ctx).id))
      })
    })
  ]
}

function reports({ storefronts, orders }: StorefrontMerchantOptions): AnyOperation[] {
  return [
    defineOperation({
      ...reads,
      id: 'getStorefrontStats',
      method: 'GET',
      path: `${PATH}/stats`,
      summary: 'What the store has sold',
      description: 'Counts all orders, including deleted ones.',
      responses: { 200: { description: 'All zero without a store.', schema: StatsView } },
      handle: async ({ ctx }) => {
        const { id } = merchantOf(ctx)
        const [integration, stats] = await Promise.all([storefronts.ofMerchant(id), orders.stats(id)])
        return { status: 200, body: statsView(id, integration, stats) }
      }
    }),
    defineOperation({
      ...reads,
      id: 'listStorefrontOrders',
      method: 'GET',
      path: `${PATH}/orders`,
      summary: "The store's orders, newest first",
      description:
        'An order with failure was paid but rejected by the shop; one with refundRequest awaits POST /api/refunds with its orderId.',
      query: OrdersQuery,
      responses: { 200: { description: 'A bare array.', schema: Type.Array(OrderRow) } },
      handle: async ({ ctx, query }) => {
        const list = await orders.list(merchantOf(ctx).id, {
          status: query.status ?? null,
          text: query.text ?? null,
          ...orderPageOf(query)
        })
        return { status: 200, body: list.map(orderRow) }
      }
    })
  ]
}

// Other forms are 404 like an unknown id (decision 10).
const OrderId = Type.Object({ orderId: Type.String() })

/** Orders for the administrator: lists those in trouble and retries failed ones (decision 146). */
export function storefrontAdminOperations(orders: Orders): AnyOperation[] {
  return [
    defineOperation({
      ...adminOperation,
      id: 'adminListTroubledOrders',
      method: 'GET',
      path: '/api/admin/storefront/orders',
      summary: 'Paid orders of all stores that their shop did not make, or whose buyer wants the money back',
      description: 'The buyers paid and have neither goods nor money: retry the order, or have its merchant refund it.',
      query: Type.Object(pageQuery),
      responses: { 200: { description: 'A bare array, longest waiting first.', schema: Type.Array(AdminOrderRow) } },
      handle: async ({ query }) => ({ status: 200, body: (await orders.troubled(pageRange(query))).map(adminOrderRow) })
    }),
    defineOperation({
      ...adminOperation,
      id: 'adminRetryStorefrontOrder',
      method: 'POST',
      path: '/api/admin/storefront/orders/:orderId/retry',
      summary: "Make the store's order of what the buyer gave at a claim that failed",
      description: 'Never creates an order twice: one whose response was lost is found by its id.',
      params: OrderId,
      responses: {
        200: { description: 'The order, which the store has taken.', schema: OrderView },
        400: 'There is nothing to retry: the order is unpaid, unclaimed, or was made.',
        404: 'There is no such order.',
        502: { description: 'The store did not take it this time either.', schema: OrderNotMade }
      },
      handle: async ({ params }) => ({ status: 200, body: orderView(await orders.retry(params.orderId)) })
    })
  ]
}
