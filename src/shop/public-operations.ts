import { Type } from 'typebox'
import { challengeLines, offeredSchemes } from '../selling/minting/replies.ts'
import type { ChallengeSettings } from '../selling/offers/settings.ts'
import { defineOperation, type AnyOperation } from '../engine/operations/operation.ts'
import { encodeReceipt } from '../lightning/payment-scheme/payment-credential.ts'
import type { Clock } from '../platform/system/clock.ts'
import { CATALOG_TTL, type Catalogs } from './catalogs.ts'
import type { Checkout } from './checkout.ts'
import type { OrderClaims } from './orders/claims.ts'
import type { Fulfilments } from './orders/fulfilments.ts'
import { LOCATION_HEADER } from './cart.ts'
import {
  manifest,
  CatalogView,
  catalogView,
  challengeView,
  CheckoutBody,
  CheckoutChallenge,
  ClaimBody,
  OrderNotMade,
  OrderStatusView,
  PaidOrderView,
  paidOrderView,
  RefundRequestBody
} from './public-schema.ts'
import type { Orders } from './orders/orders.ts'
import { buyerView } from './orders/views.ts'
import type { RefundRequests } from './orders/refunds.ts'
import type { Integration, Order, ShippingAddress } from './schema.ts'
import { orderNotFound, storeNotFound } from './store-errors.ts'

interface StorefrontPublicOptions {
  readonly catalogs: Catalogs
  readonly checkout: Checkout
  readonly claims: OrderClaims
  readonly orders: Orders
  readonly refundRequests: RefundRequests
  readonly fulfilments: Fulfilments
  readonly clock: Clock
  /** Null for an unknown or inactive store, and for one of an inactive merchant. */
  selling(slug: string): Promise<Integration | null>
  publicUrl(): string
  settings(): ChallengeSettings
}

const BASE = '/api/storefront/:slug'
const NOTIFICATION_LIMIT = 1_048_576

const Slug = Type.Object({ slug: Type.String() })
const Retryable = Type.Object({
  error: Type.String(),
  message: Type.String(),
  correlationId: Type.Optional(Type.String()),
  retryable: Type.Optional(Type.Boolean())
})

const common = {
  tag: 'Storefront',
  access: 'public',
  mount: { use: 'storefront', chain: 'public' },
  params: Slug
} as const
const unknown = 'There is no such store, or it sells nothing at the moment.'
const unavailable = {
  description:
    'Price, tax, stock or an invoice cannot be had at the moment. Nothing was charged: come back after Retry-After.',
  schema: Retryable
}
const authorization = "A payment credential of the order's invoice: L402, or Payment."
/** What opens an order must not be cached. */
const PRIVATE = ['Cache-Control', 'private, no-store']

/** `/api/storefront/{slug}/…` and the receiver of platform notifications (contract, Storefront). */
export function storefrontPublicOperations(options: StorefrontPublicOptions): AnyOperation[] {
  return [...browsing(options), ...buying(options), receiving(options)]
}

function browsing({ catalogs, selling, publicUrl }: StorefrontPublicOptions): AnyOperation[] {
  return [
    defineOperation({
      ...common,
      id: 'getStoreCatalog',
      method: 'GET',
      path: `${BASE}/catalog`,
      summary: 'What a store sells, and how it ships',
      description: "The platform's prices and stock, refreshed every few minutes. Checkout takes variantId.",
      responses: {
        200: { description: 'The catalog, at most a few minutes old.', schema: CatalogView },
        404: unknown,
        503: unavailable
      },
      handle: async ({ params: { slug } }) => {
        const integration = await selling(slug)
        if (integration === null) throw storeNotFound()
        return {
          status: 200,
          body: catalogView(integration, await catalogs.get(integration)),
          headers: ['Cache-Control', 'public, max-age=60']
        }
      }
    }),
    defineOperation({
      ...common,
      id: 'getStoreManifest',
      method: 'GET',
      path: `${BASE}/llms.txt`,
      summary: 'How an agent buys at a store, in plain text',
      description: 'All steps from the catalog to the parcel, with the URLs of this store.',
      responses: {
        200: { description: 'The text.', mediaType: 'text/plain; charset=utf-8' },
        404: {
          description: 'There is no such store, or it sells nothing at the moment.',
          mediaType: 'text/plain; charset=utf-8'
        },
        503: unavailable
      },
      handle: async ({ params: { slug } }) => {
        const integration = await selling(slug)
        if (integration === null)
          return { status: 404, body: 'There is no such store, or it sells nothing at the moment.\n' }
        const text = manifest(integration, await catalogs.get(integration), publicUrl())
        return {
          status: 200,
          body: text,
          headers: ['Cache-Control', `public, max-age=${Math.floor(CATALOG_TTL / 1000)}`]
        }
      }
    })
  ]
}

function buying({
  checkout,
  claims,
  orders,
  refundRequests,
  settings,
  clock
}: StorefrontPublicOptions): AnyOperation[] {
  const receipt = ({ order, challengeId }: { readonly order: Order; readonly challengeId: string | null }): string[] =>
    challengeId === null
      ? []
      : ['Payment-Receipt', encodeReceipt(challengeId, order.paymentHash, Math.floor(clock.now() / 1000))]
  return [
    defineOperation({
      ...common,
      id: 'checkOut',
      method: 'POST',
      path: `${BASE}/checkout`,
      summary:
        "Order a cart: 402 with its invoice, and 200 once the same request carries the paid invoice's credential",
      description:
        'The first request fixes the price with tax and shipping until the invoice expires. Pay it and repeat the request with the credential; ' +
        'then claim the order with the claimPageUrl of the response. The shop ships only claimed orders.',
      sells: { price: null, description: 'Goods of the store, at the price of the cart' },
      headers: {
        [LOCATION_HEADER]: {
          description: '{country}-{state}-{zip}, such as US-CA-94103; the state may be empty.',
          required: true,
          example: 'US-CA-94103'
        },
        Authorization: authorization
      },
      body: CheckoutBody,
      responses: {
        200: {
          description: 'The order is paid. Say where it goes with the claim token in claimPageUrl.',
          schema: PaidOrderView
        },
        400: "The cart, the buyer's place, or the credential's form; or the credential is of a scheme that is disabled.",
        401: 'The credential is not good.',
        402: { description: 'The order waits for payment.', schema: CheckoutChallenge },
        404: 'There is no such store, or no order for this credential.',
        503: unavailable
      },
      handle: async ({ ctx, params: { slug }, body }) => {
        const done = await checkout.run(ctx, slug, { items: body.items, email: body.email ?? null })
        if (done.kind === 'unpaid') {
          const lines = challengeLines(done.challenge, offeredSchemes(settings(), ctx.headers), settings())
          return {
            status: 402,
            body: challengeView(done.order, done.challenge),
            headers: [...lines, 'Cache-Control', 'no-store']
          }
        }
        return {
          status: 200,
          body: paidOrderView(done.order, orders.claimPageUrl(done.integration, done.order)),
          headers: [...receipt(done), ...PRIVATE]
        }
      }
    }),
    defineOperation({
      ...common,
      id: 'claimOrder',
      method: 'POST',
      path: `${BASE}/claim`,
      summary: "Say where a paid order goes; the store's order is made then, once",
      description:
        'The address is final once the claim succeeds. Claim before the claimExpiresAt of the checkout response.',
      headers: {
        Authorization: `${authorization} Needed only where the order is still PendingPayment; finds it without a claimToken.`
      },
      body: ClaimBody,
      responses: {
        200: { description: 'The store has the order.', schema: PaidOrderView },
        400: 'The address, or: window expired, claimed before, no payment proof, a credential that is not good, an address abroad at a domestic-only store.',
        401: 'The credential is of a scheme that is disabled.',
        404: 'There is no such store, or no order of it with this token or credential.',
        502: {
          description:
            'The store did not take the order. The token is not used up, and the address is kept: send the claim again later, or ask for the money back.',
          schema: OrderNotMade
        },
        503: unavailable
      },
      handle: async ({ ctx, params: { slug }, body }) => {
        const input = { claimToken: body.claimToken ?? null, email: body.email, shippingAddress: addressOf(body) }
        const claimed = await claims.claim(slug, input, ctx.headers)
        return {
          status: 200,
          body: paidOrderView(claimed.order, orders.claimPageUrl(claimed.integration, claimed.order)),
          headers: [...receipt(claimed), ...PRIVATE]
        }
      }
    }),
    defineOperation({
      ...common,
      id: 'askForRefund',
      method: 'POST',
      path: `${BASE}/refund-request`,
      summary:
        'Ask for the money of a paid order back that the store has not made. The merchant sees it and gives it back; nothing is sent by this',
      description: 'For buyers whose paid order the shop rejected. The merchant decides on the refund.',
      body: RefundRequestBody,
      responses: {
        200: {
          description: 'The order, with what was asked for. PageRequest again, the later address counts.',
          schema: OrderStatusView
        },
        400: 'The store has the order, the money went back already, or the address is not one to pay this to.',
        404: 'There is no such store, or no order of it with this token.',
        503: unavailable
      },
      handle: async ({ params: { slug }, body: { claimToken, refundAddress } }) => ({
        status: 200,
        body: buyerView(await refundRequests.ask(slug, claimToken, refundAddress)),
        headers: PRIVATE
      })
    }),
    defineOperation({
      ...common,
      id: 'getStoreOrder',
      method: 'GET',
      path: `${BASE}/orders/:orderId`,
      summary: 'How far an order is',
      description: "Requires the order's claim token, which only the buyer has; otherwise 404.",
      params: Type.Object({ slug: Type.String(), orderId: Type.String() }),
      query: Type.Object({
        claimToken: Type.Optional(
          Type.String({ 'x-judged': true, description: "The order's claim token, used up for claiming or not." })
        )
      }),
      responses: {
        200: { description: 'The order.', schema: OrderStatusView },
        404: 'There is no such order, the token is not its own, or it can be read no longer.',
        503: unavailable
      },
      handle: async ({ params: { slug, orderId }, query: { claimToken } }) => {
        if (claimToken === undefined) throw orderNotFound()
        return { status: 200, body: buyerView(await orders.status(slug, orderId, claimToken)), headers: PRIVATE }
      }
    })
  ]
}

function receiving({ fulfilments }: StorefrontPublicOptions): AnyOperation {
  return defineOperation({
    id: 'receiveStoreNotification',
    method: 'POST',
    path: '/api/webhooks/storefront/:slug',
    mount: { use: 'storefront', chain: 'receivers' },
    summary: "Take in a notification of a store's platform about one of its orders",
    description: 'For the platform alone, which signs what it sends: it moves orders on to Shipped, or calls them off.',
    tag: 'Provider notifications',
    access: 'public',
    params: Slug,
    // The signature over the raw bytes is verified before they are parsed.
    form: {
      mediaType: 'application/json',
      schema: Type.Object({}, { additionalProperties: true, description: 'As the platform writes it.' })
    },
    bodyLimit: NOTIFICATION_LIMIT,
    responses: {
      200: {
        description: 'Accepted, or ignored as unknown or duplicate.',
        schema: Type.Object({ received: Type.Literal(true) })
      },
      400: 'It cannot be read.',
      401: "It is not signed with the store's secret.",
      404: unknown,
      503: 'It cannot be written down at the moment: send it again.'
    },
    handle: async ({ ctx, params: { slug } }) => {
      await fulfilments.receive(slug, ctx.headers, await ctx.body.bytes())
      return { status: 200, body: { received: true } }
    }
  })
}

function addressOf({ shippingAddress: given }: ClaimBody): ShippingAddress {
  return {
    firstName: given.firstName,
    lastName: given.lastName,
    address1: given.address1,
    address2: given.address2 ?? null,
    city: given.city,
    province: given.province ?? null,
    zip: given.zip ?? null,
    country: given.country,
    phone: given.phone ?? null
  }
}
