import { routePrice, type Priced } from '../../config/sale.ts'
import type { RouteConfig } from '../../config/schema.ts'
import type { Json } from './errors.ts'
import type { AnyOperation } from '../operation.ts'
import { Router } from '../router.ts'

/** What a request costs, as agents look for it (Payment discovery draft). */
export interface DocumentedPrice {
  /** Satoshis; null when it depends on the request. */
  readonly amountSats: number | null
  readonly description: string
}

/** A route that costs something. */
export interface PricedRoute extends DocumentedPrice {
  /** OpenAPI path: parameters in braces. */
  readonly path: string
  /** Lower-case methods; empty means all. */
  readonly methods: readonly string[]
  /** Operations of the gateway itself stand behind it, and say more than the route can; false unless said. */
  readonly own?: boolean
}

/** find-my-way's `/a/:id/*` as OpenAPI's `/a/{id}/{path}`. */
export function openApiPath(path: string): string {
  return path.replaceAll(/:([A-Za-z_][A-Za-z0-9_]*)/g, '{$1}').replace(/\*$/, '{path}')
}

function priceOf(config: Priced, route: RouteConfig): number | null {
  return route.upstream.kind === 'proxy' ? null : (routePrice(config, route) ?? 0)
}

/** The routes of a configuration that cost something, in the form of the document. */
export function pricedRoutes(config: Priced): PricedRoute[] {
  const out: PricedRoute[] = []
  for (const route of config.routes) {
    const amountSats = priceOf(config, route)
    if (amountSats === 0) continue
    for (const path of route.match.path) {
      out.push({
        path: openApiPath(path),
        methods: (route.match.method ?? []).map(name => name.toLowerCase()),
        amountSats,
        description: route.description ?? route.name,
        own: route.upstream.kind === 'internal'
      })
    }
  }
  return out
}

/** Tells what the route that an operation is reached by costs; null where it is free. */
export function operationPrices(config: Priced): (operation: AnyOperation) => DocumentedPrice | null {
  const router = new Router<RouteConfig>()
  for (const route of config.routes) {
    for (const path of route.match.path)
      router.add({ host: route.match.host ?? null, methods: route.match.method ?? [], path }, route)
  }
  return operation => {
    const path = operation.path.replaceAll(/:[A-Za-z_][A-Za-z0-9_]*/g, 'x')
    const route = router.find('', operation.method, path)?.value
    if (route === undefined) return null
    const amountSats = priceOf(config, route)
    return amountSats === 0 ? null : { amountSats, description: operation.summary }
  }
}

/** `x-payment-info` of a priced operation; the amount is null where it depends on the request. */
export function paymentInfo({ amountSats, description }: DocumentedPrice): Json {
  const amount = amountSats === null ? null : String(amountSats)
  return { offers: [{ intent: 'charge', method: 'lightning', amount, currency: 'sat', description }] }
}
