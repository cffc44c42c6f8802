import type { GatewayConfig } from '../config/schema.ts'
import type { PriceList } from './schema.ts'

const PROXIES = '/l402/proxy/*'

/**
 * The price list (contract, `/api/l402/pricing`; decision 127): what the operator's routes cost, the ping among them, and one
 * line for all proxies of merchants, whose prices are theirs. Free routes are left out.
 */
export function priceList (config: Pick<GatewayConfig, 'payment' | 'routes' | 'chains'>): PriceList {
  const { payment, routes } = config
  const endpoints: PriceList['endpoints'] = []
  for (const route of routes) {
    if (route.upstream.kind === 'proxy') continue
    // A route that names no price has the default one, where its chain asks for payment at all.
    const asks = config.chains[route.chain]?.some(entry => entry.plugin === 'challenge' && !entry.disabled) === true
    const priceSats = route.price ?? (asks ? payment.defaultPrice : 0)
    if (priceSats === 0) continue
    for (const pathPattern of route.match.path) {
      endpoints.push({ pathPattern, priceSats, description: route.description ?? route.name })
    }
  }
  const proxies = routes.find(route => route.upstream.kind === 'proxy')
  if (proxies !== undefined) endpoints.push({ pathPattern: PROXIES, priceSats: 'varies', description: proxies.description ?? 'APIs of merchants' })
  return {
    defaultPriceSats: payment.defaultPrice,
    serviceName: payment.serviceName,
    endpoints,
    tokenValiditySeconds: Math.floor(payment.tokenValidity / 1000)
  }
}
