import { routePrice, type Priced } from '../config/sale.ts'
import { routePlace } from './offer.ts'
import type { PriceList } from './schema.ts'

const PROXIES = '/l402/proxy/*'

/** What the operator's routes cost, by place. */
export function routePrices(config: Priced): ReadonlyMap<string, number> {
  const prices = config.routes.map(route => [routePlace(route), routePrice(config, route)] as const)
  return new Map(prices.filter((entry): entry is readonly [string, number] => entry[1] !== null))
}

/**
 * The price list (contract, Pay-per-request gating: /api/l402/pricing; decision 127): what the operator's routes cost,
 * the ping among them, and one line for all proxies of merchants, whose prices are theirs. Free routes are left out.
 */
export function priceList(config: Priced): PriceList {
  const { payment, routes } = config
  const endpoints: PriceList['endpoints'] = []
  for (const route of routes) {
    const priceSats = routePrice(config, route)
    if (priceSats === null || priceSats === 0) continue
    for (const pathPattern of route.match.path) {
      endpoints.push({ pathPattern, priceSats, description: route.description ?? route.name })
    }
  }
  const proxies = routes.find(route => route.upstream.kind === 'proxy')
  if (proxies !== undefined)
    endpoints.push({
      pathPattern: PROXIES,
      priceSats: 'varies',
      description: proxies.description ?? 'APIs of merchants'
    })
  return {
    defaultPriceSats: payment.defaultPrice,
    serviceName: payment.serviceName,
    endpoints,
    tokenValiditySeconds: Math.floor(payment.tokenValidity / 1000)
  }
}
