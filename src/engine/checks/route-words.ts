import { routeCallPrices, isFree, priceWords } from './price.ts'
import type { GatewayConfig, RouteConfig, FreeCallsConfig } from '../config/schema.ts'
import { formatDuration } from '../config/units.ts'

export function routePriceWords(config: GatewayConfig, route: RouteConfig): string | null {
  if (routeCallPrices(config, route) !== null) return 'by call'
  if (route.upstream.kind === 'proxy') return 'varies'
  if (route.price === undefined || isFree(route.price)) return null
  return `${priceWords(route.price)}${route.meter === undefined ? '' : ' per prepaid balance'}`
}

export function routeUpstreamWords({ upstream }: RouteConfig): string {
  if (upstream.kind === 'internal') return upstream.name
  if (upstream.kind === 'files') return upstream.path
  return upstream.kind === 'proxy' ? `proxy :${upstream.param}` : upstream.url.join(', ')
}

export function routeOrigin(config: GatewayConfig, route: RouteConfig): string {
  return route.at.file === config.file ? `line ${route.at.line}` : `use: ${route.at.file}`
}

/** `The first 20 calls of an address in 1d are free`. */
export function freeWords({ calls, per, by }: FreeCallsConfig): string {
  const whose =
    typeof by === 'string' ? `${by === 'address' ? 'an' : 'a'} ${by}` : `each value of the header ${by.header}`
  const first = calls === 1 ? 'The first call' : `The first ${calls} calls`
  return `${first} of ${whose} in ${formatDuration(per)} ${calls === 1 ? 'is' : 'are'} free`
}
