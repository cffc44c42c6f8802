import type { PriceList } from '../../selling/challenges/schema.ts'
import { priceWords } from '../../engine/checks/price.ts'
import type { PricedRoute } from '../../engine/openapi/paid.ts'

/** What the manifest tells of. */
export interface ManifestFacts {
  readonly serviceName: string
  readonly description: string
  readonly publicUrl: string
  readonly categories: readonly string[]
  readonly prices: PriceList
  readonly pricedRoutes: readonly PricedRoute[]
}

/**
 * `/.well-known/l402.json`: what is for sale, in the form that L402 clients look for (`service`, `l402`, `endpoints`
 * with `pricing.base_price_sats`). A price that depends on the request has no `base_price_sats`: a client must not
 * budget with a guess.
 */
export function l402Manifest(facts: ManifestFacts): string {
  const { serviceName, description, publicUrl, categories, prices, pricedRoutes } = facts
  return JSON.stringify({
    service: {
      name: serviceName,
      description,
      base_url: publicUrl,
      documentation_url: `${publicUrl}/llms.txt`,
      categories
    },
    l402: {
      default_price_sats: prices.defaultPriceSats,
      token_validity_seconds: prices.tokenValiditySeconds,
      payment_flow: '402 with an invoice, pay, send the request again with Authorization: L402 <macaroon>:<preimage>',
      capabilities: { preimage_in_response: false, supported_currencies: ['sat'] }
    },
    openapi_url: `${publicUrl}/openapi.json`,
    endpoints: pricedRoutes.flatMap(route =>
      (route.methods.length === 0 ? ['any'] : route.methods).map(method => ({
        id: `${method} ${route.path}`,
        path: route.path,
        method: method === 'any' ? 'ANY' : method.toUpperCase(),
        summary: route.description,
        l402_enabled: true,
        pricing:
          typeof route.price === 'number'
            ? { model: route.meter === undefined ? 'per-request' : 'balance', base_price_sats: route.price }
            : { model: 'varies', ...(route.price === null ? {} : { price: priceWords(route.price) }) }
      }))
    )
  })
}
