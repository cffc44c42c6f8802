import type { GatewayConfig } from '../../engine/config/schema.ts'
import { titleOf } from '../../engine/sections/suite.ts'
import { priceWords } from '../../engine/checks/price.ts'
import type { PricedRoute } from '../../engine/openapi/paid.ts'
import { schemaOf } from '../../engine/openapi/schemas.ts'
import type { PriceList } from '../../selling/challenges/schema.ts'

/** What of the configuration is published. */
export type PublishedConfig = Pick<
  GatewayConfig,
  'payment' | 'routes' | 'chains' | 'discovery' | 'pages' | 'lightning' | 'mode'
>

export interface SaleFacts {
  readonly config: PublishedConfig
  readonly publicUrl: string
  /** Of the configuration and of merchants' APIs. */
  readonly pricedRoutes: readonly PricedRoute[]
}

/**
 * `/.well-known/l402.json`: offers in the form of L402 clients (`service`, `l402`, `endpoints` with
 * `pricing.base_price_sats`). A dynamic price has no `base_price_sats`: clients must not budget with a guess.
 */
export function l402Manifest({ config, publicUrl, pricedRoutes }: SaleFacts, prices: PriceList): string {
  return JSON.stringify({
    service: {
      name: titleOf(config),
      description: aboutOf(config),
      base_url: publicUrl,
      documentation_url: `${publicUrl}/llms.txt`,
      categories: config.discovery.categories
    },
    l402: {
      // Only where something costs it: clients budget with it.
      ...(pricedRoutes.some(({ price }) => price === prices.defaultPriceSats)
        ? { default_price_sats: prices.defaultPriceSats }
        : {}),
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

const PAYMENT =
  'Pay-per-request access over Lightning: L402 and the HTTP Payment scheme on the same 402, backed by one invoice.'
const X402 = 'Single requests are sold by x402 version 2 too, scheme exact on lnbtc, for the same invoice.'

/** What the operator says of the service, then how it is paid. */
export function aboutOf({ discovery, payment }: Pick<GatewayConfig, 'discovery' | 'payment'>): string {
  return [discovery.description, PAYMENT, payment.schemes.includes('x402') ? X402 : ''].filter(Boolean).join(' ')
}

/**
 * Each paid address and method. A route's examples are the addresses that can be called as they are; without one, its
 * pattern.
 */
export function soldServices(publicUrl: string, pricedRoutes: readonly PricedRoute[]) {
  return pricedRoutes.flatMap(({ description, examples, methods, path, price }) => {
    const service = (target: string, method: string, body?: unknown) => ({
      endpoint: `${publicUrl}${target}`,
      method: method.toUpperCase(),
      description,
      sats: typeof price === 'number' ? price : null,
      body
    })
    if (examples.length > 0) return examples.map(({ target, method, body }) => service(target, method, body))
    return (methods.length === 0 ? ['get'] : methods).map(method => service(path, method))
  })
}

/** `/.well-known/l402-services`, which directories read. A price that varies has no `base_cost_sats`. */
export function l402Services({ config, publicUrl, pricedRoutes }: SaleFacts): string {
  return JSON.stringify({
    version: '1',
    name: titleOf(config),
    description: aboutOf(config),
    services: soldServices(publicUrl, pricedRoutes).map(({ endpoint, method, description, sats, body }) => ({
      endpoint,
      method,
      content_type: 'application/json',
      description,
      pricing: sats === null ? {} : { base_cost_sats: sats },
      ...(body === undefined ? {} : { request_schema: schemaOf(body) })
    }))
  })
}
