import { oneLine } from '../web/mail/plain-text.ts'
import { dollarsText } from '../web/kit/amounts.ts'
import { CART_LIMITS } from './cart.ts'
import { LOCATION_HEADER } from './location.ts'
import type { Catalog, CatalogProduct, CatalogVariant } from './platform.ts'
import type { Integration } from './schema.ts'

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
5. GET ${base}/orders/{orderId}?claimToken=... says how far the order is.
A 503 means that nothing was charged: wait as long as Retry-After says.

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
