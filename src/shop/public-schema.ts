import { nullableText } from '../engine/formats/text-patterns.ts'
import { Type, type Static } from 'typebox'
import { iso, isoTime } from '../engine/formats/iso-time.ts'
import type { SentChallenge } from '../selling/holding/challenge.ts'
import type { RawJson } from '../lightning/money/decimal.ts'
import { CART_LIMITS, LOCATION_HEADER } from './cart.ts'
import { OrderView } from './orders/views.ts'
import type { Catalog, CatalogProduct, CatalogVariant } from './platform.ts'
import { dollars, ORDER_STATUSES, type Integration, type Order, usd } from './schema.ts'
import { oneLine } from '../web/mail/outbox.ts'
import { dollarsText } from '../web/kit/amounts.ts'

/** Contract, Storefront. */
export const CatalogView = Type.Object(
  {
    storeName: Type.String(),
    slug: Type.String(),
    shipping: Type.Object({
      domesticUsd: dollars('A number of US dollars: the flat rate of an order, abroad too.'),
      domesticOnly: Type.Boolean({ description: "Shipped within the shop's own country only." }),
      freeShippingEnabled: Type.Boolean(),
      freeShippingThresholdUsd: Type.Unsafe<RawJson | null>({
        'x-type': ['number', 'null'],
        description: 'A number of US dollars from which on shipping is free; null for any subtotal.'
      })
    }),
    products: Type.Array(
      Type.Object({
        productId: Type.Integer(),
        title: Type.String(),
        description: Type.String(),
        imageUrl: nullableText('Null where the product has none.'),
        variants: Type.Array(
          Type.Object({
            variantId: Type.Integer(),
            title: Type.String(),
            priceUsd: dollars(),
            available: Type.Boolean()
          })
        )
      })
    )
  },
  { title: 'Catalog' }
)

export function catalogView(
  { slug, shipping }: Integration,
  { storeName, products }: Catalog
): Static<typeof CatalogView> {
  const { domesticCents, domesticOnly, freeEnabled, freeThresholdCents } = shipping
  return {
    storeName,
    slug,
    shipping: {
      domesticUsd: usd(domesticCents),
      domesticOnly,
      freeShippingEnabled: freeEnabled,
      freeShippingThresholdUsd: freeThresholdCents === null ? null : usd(freeThresholdCents)
    },
    products: products.map(({ productId, title, description, imageUrl, variants }) => ({
      productId,
      title,
      description,
      imageUrl,
      variants: variants.map(({ variantId, title, priceCents, available }) => ({
        variantId,
        title,
        priceUsd: usd(priceCents),
        available
      }))
    }))
  }
}

/** Contract, Checkout request rules. */
export const CheckoutBody = Type.Object(
  {
    items: Type.Array(
      Type.Object({
        variantId: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
        quantity: Type.Integer({ minimum: 1, maximum: CART_LIMITS.quantity })
      }),
      { minItems: 1, maxItems: CART_LIMITS.lines, description: `At most ${CART_LIMITS.total} pieces together.` }
    ),
    email: Type.Optional(
      Type.String({
        format: 'email',
        maxLength: 254,
        description: 'Who is sent the claim page once the payment provider reports the payment.'
      })
    )
  },
  { title: 'Cart' }
)

/** Never has a claim token, by design (contract, Checkout 402 response). */
export const CheckoutChallenge = Type.Object(
  {
    orderId: Type.String(),
    items: Type.Array(
      Type.Object({
        variantId: Type.Integer(),
        productTitle: Type.String(),
        variantTitle: Type.String(),
        quantity: Type.Integer(),
        priceUsd: dollars('A number of US dollars for one piece.')
      })
    ),
    subtotalUsd: dollars(),
    shippingUsd: dollars(),
    taxUsd: dollars(),
    taxNote: Type.Null(),
    totalUsd: dollars('A number of US dollars: subtotal, shipping and tax.'),
    totalSats: Type.Integer({ description: 'What the invoice asks for, at the exchange rate of this moment.' }),
    claimExpiresAt: isoTime(),
    invoice: Type.String({ description: 'BOLT 11.' }),
    macaroonBase64: Type.String(),
    paymentHash: Type.String(),
    invoiceExpiresAt: isoTime()
  },
  { title: 'OrderChallenge' }
)

export function challengeView(order: Order, challenge: SentChallenge): Static<typeof CheckoutChallenge> {
  return {
    orderId: order.id,
    items: order.items.map(({ variantId, productTitle, variantTitle, quantity, priceCents }) => ({
      variantId,
      productTitle,
      variantTitle,
      quantity,
      priceUsd: usd(priceCents)
    })),
    subtotalUsd: usd(order.subtotalCents),
    shippingUsd: usd(order.shippingCents),
    taxUsd: usd(order.taxCents),
    taxNote: null,
    totalUsd: usd(order.totalCents),
    totalSats: order.totalSats,
    claimExpiresAt: iso(order.claimExpiresAt),
    invoice: challenge.invoice,
    macaroonBase64: challenge.macaroon,
    paymentHash: challenge.paymentHash,
    invoiceExpiresAt: iso(challenge.expiresAt)
  }
}

export const PaidOrderView = Type.Object(
  {
    orderId: Type.String(),
    status: Type.Enum([...ORDER_STATUSES]),
    storefrontOrderNumber: nullableText("The store's number of the order; null until it is claimed."),
    claimPageUrl: nullableText(
      "Where a person says where the order goes, and sees how far it is. Its claimToken is the order's. Null when it can be read no longer."
    ),
    message: Type.String()
  },
  { title: 'PaidOrder' }
)

export function paidOrderView(order: Order, claimPageUrl: string | null): Static<typeof PaidOrderView> {
  const message =
    order.status === 'PaidAwaitingDetails'
      ? 'Paid. Now say where the order goes: with POST …/claim, or at claimPageUrl.'
      : "Paid and claimed. The order's status says how far it is."
  return { orderId: order.id, status: order.status, storefrontOrderNumber: order.orderNumber, claimPageUrl, message }
}

const required = (maxLength: number) =>
  Type.String({ minLength: 1, maxLength, pattern: '\\S', 'x-rule': 'Must not be blank.' })
const optional = (maxLength: number) => Type.Optional(Type.String({ maxLength }))

/** Contract, Shipping address. */
export const ClaimBody = Type.Object(
  {
    claimToken: Type.Optional(
      Type.String({
        'x-judged': true,
        description: 'The token in claimPageUrl. May be left out beside a payment credential.'
      })
    ),
    email: Type.String({ format: 'email', maxLength: 254 }),
    shippingAddress: Type.Object({
      firstName: required(200),
      lastName: required(200),
      address1: required(500),
      address2: optional(500),
      city: required(100),
      province: optional(100),
      zip: optional(20),
      country: Type.String({
        minLength: 1,
        maxLength: 100,
        description: 'Two letters (ISO 3166-1), or the English name.'
      }),
      phone: optional(30)
    })
  },
  { title: 'ClaimInput' }
)
export type ClaimBody = Static<typeof ClaimBody>

export const OrderNotMade = Type.Object(
  {
    error: Type.String(),
    message: Type.String(),
    reason: Type.Optional(
      Type.Enum(['sold_out', 'refused', 'store_access', 'store_closed'], {
        description: 'Left out for what may resolve without action.'
      })
    ),
    choices: Type.Optional(
      Type.Array(Type.Enum(['wait', 'refund']), { description: 'What the buyer can do, where there is a reason.' })
    )
  },
  { title: 'OrderNotMade' }
)

export const RefundRequestBody = Type.Object(
  {
    claimToken: Type.String({ 'x-judged': true, description: "The order's token in claimPageUrl." }),
    refundAddress: Type.String({
      minLength: 26,
      maxLength: 500,
      pattern: '^[\\x21-\\x7e]+$',
      'x-rule': 'Must have no spaces.',
      description:
        'A Bitcoin address, or a BOLT 11 invoice for at most what was paid. The merchant pays it by hand: have an invoice last for days.'
    })
  },
  { title: 'RefundRequestInput' }
)

/** Contract, Claim body: Order status. Everything but the buyer. */
export const OrderStatusView = Type.Omit(OrderView, ['email'], { title: 'BuyerOrder' })

const MOST_PRODUCTS = 200

/** How an agent buys at a store, in plain text (contract, Storefront: llms.txt). */
export function manifest(integration: Integration, catalog: Catalog, publicUrl: string): string {
  const { slug } = integration
  const base = `${publicUrl}/api/storefront/${slug}`
  const products = catalog.products.slice(0, MOST_PRODUCTS)
  const more = catalog.products.length - products.length
  return `# ${oneLine(catalog.storeName)}

> A store that sells for Lightning: no account and no card. Put a cart together, pay one invoice, say where it goes.

## How to buy
1. POST ${base}/checkout with the header ${LOCATION_HEADER}: {country}-{state}-{zip} (US-CA-94103, or SG--018956 without a state) and the body
   {"items":[{"variantId":1,"quantity":1}],"email":"you@example.com"}; the email is optional. At most ${CART_LIMITS.lines} items and ${CART_LIMITS.total} pieces.
   The answer is 402 with prices, shipping, tax, the total in satoshis, and a Lightning invoice.
2. Pay the invoice; your wallet gives you the preimage (64 hex characters).
3. Send the same request again with Authorization: L402 <macaroon>:<preimage>. The answer is 200 with claimPageUrl, which holds the claim token.
4. POST ${base}/claim with the body
   {"claimToken":"...","email":"you@example.com","shippingAddress":{"firstName":"...","lastName":"...","address1":"...","address2":"...","city":"...","province":"...","zip":"...","country":"US","phone":"..."}}.
   The answer has the store's order number. A claim is possible for ${integration.claimWindowDays} days after the checkout. A person can do this step at claimPageUrl.
5. GET ${base}/orders/{orderId}?claimToken=... returns the state of the order.
503 means that nothing was charged: wait for Retry-After.

## Endpoints
- GET ${base}/catalog
- POST ${base}/checkout
- POST ${base}/claim
- GET ${base}/orders/{orderId}?claimToken={claimToken}

## Products
${products.length === 0 ? 'None at the moment.' : products.map(productText).join('\n')}${more > 0 ? `\n- and ${more} more in the catalog` : ''}

## Shipping
${shippingText(integration)}
Tax is computed from ${LOCATION_HEADER} and is part of the total.

## Links
- [Catalog](${base}/catalog)
- [Store page](${publicUrl}/storefront/${slug})
- [OpenAPI](${publicUrl}/api/openapi.json)
`
}

function productText({ title, description, variants }: CatalogProduct): string {
  const about = oneLine(description)
  return `- ${oneLine(title)}${about === '' ? '' : `: ${short(about)}`}\n${variants.map(variantText).join('\n')}`
}

function variantText({ variantId, title, priceCents, available }: CatalogVariant): string {
  return `  - variantId ${variantId}: ${oneLine(title)}, ${dollarsText(priceCents)}${available ? '' : ' (not available)'}`
}

function shippingText({ shipping, shopCountry }: Integration): string {
  const { domesticCents, domesticOnly, freeEnabled, freeThresholdCents } = shipping
  const where = domesticOnly ? `Within ${shopCountry ?? "the shop's country"} only.` : 'To every country.'
  const rate = domesticCents === 0 ? 'Shipping is free.' : `Shipping costs ${dollarsText(domesticCents)} an order.`
  const free =
    !freeEnabled || domesticCents === 0
      ? ''
      : freeThresholdCents === null
        ? ' It is free at the moment.'
        : ` It is free from ${dollarsText(freeThresholdCents)} on.`
  return `${where} ${rate}${free}`
}

const LONGEST = 200

function short(text: string): string {
  const characters = [...text]
  return characters.length > LONGEST ? `${characters.slice(0, LONGEST).join('')}…` : text
}
