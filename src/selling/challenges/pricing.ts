import { callPlace, routeCallPrices } from '../../engine/checks/call-prices.ts'
import { freeWords } from '../../engine/checks/free-words.ts'
import { meterWords } from '../../engine/checks/meter.ts'
import { sessionWords } from '../../engine/checks/sessions.ts'
import { isFree, isTable, priceWords, type PriceConfig } from '../../engine/checks/price.ts'
import { routePrice, type Priced } from '../../engine/checks/sale.ts'
import { routePlace } from '../offers/offer.ts'
import { choicePlace } from '../offers/request-price.ts'
import type { PriceList } from './schema.ts'

const PROXIES = '/l402/proxy/*'

/** Of a place whose price hangs on the request. */
const VARIES = 'varies'

/**
 * What the operator's routes cost, by place; of a table each value has a place of its own besides, and of calls inside
 * messages each line of the price list.
 */
export function routePrices(config: Priced): ReadonlyMap<string, string> {
  return new Map(
    config.routes.flatMap((route): Array<readonly [string, string]> => {
      const price = routePrice(config, route)
      const place = routePlace(route)
      if (price === null)
        return (routeCallPrices(config, route) ?? []).map(
          ({ operation, amount }) => [callPlace(place, operation), String(amount)] as const
        )
      if (typeof price !== 'object') return [[place, String(price)]]
      if (!isTable(price)) return [[place, VARIES]]
      const values = Object.entries(price.of).map(
        ([value, amount]) => [choicePlace(place, value), String(amount)] as const
      )
      return [
        [place, VARIES],
        ...values,
        ...(price.else === 'refuse' ? [] : [[choicePlace(place, null), String(price.else)] as const])
      ]
    })
  )
}

/**
 * The price list (contract, Pay-per-request gating: /api/l402/pricing; decision 127): what the operator's routes cost,
 * each call that has one, the ping among them, and one line for all proxies of merchants, whose prices are theirs. Free
 * routes are left out. What is no number of satoshis says `varies`, and `price` says how.
 */
export function priceList(config: Priced): PriceList {
  const { payment, routes } = config
  const endpoints: PriceList['endpoints'] = []
  for (const route of routes) {
    for (const { operation, amount } of routeCallPrices(config, route) ?? []) {
      for (const pathPattern of route.match.path)
        endpoints.push({
          pathPattern,
          ...listed(amount),
          description: `${operation}: ${route.description ?? route.name}`
        })
    }
    const price = routePrice(config, route)
    if (price === null || isFree(price)) continue
    for (const pathPattern of route.match.path) {
      endpoints.push({
        pathPattern,
        ...listed(price),
        ...(sellsMore(route) ? { price: pricedWords(price, route) } : {}),
        description: route.description ?? route.name
      })
    }
  }
  const proxies = routes.find(route => route.upstream.kind === 'proxy')
  if (proxies !== undefined)
    endpoints.push({
      pathPattern: PROXIES,
      priceSats: VARIES,
      description: proxies.description ?? 'APIs of merchants'
    })
  return {
    defaultPriceSats: payment.defaultPrice,
    serviceName: payment.serviceName,
    endpoints,
    tokenValiditySeconds: Math.floor(payment.tokenValidity / 1000)
  }
}

/** Whether a route has more to tell than the price of one request. */
function sellsMore({ meter, sessions, free }: Priced['routes'][number]): boolean {
  return meter !== undefined || sessions !== undefined || free !== undefined
}

/** What a route sells or gives beside single requests, in words. */
function pricedWords(price: PriceConfig, { meter, sessions, free }: Priced['routes'][number]): string {
  return [
    meter === undefined ? priceWords(price) : `${priceWords(price)} for ${meterWords(meter)}`,
    ...(free === undefined ? [] : [freeWords(free)]),
    ...(sessions === undefined ? [] : [sessionWords(sessions, meter !== undefined)])
  ].join('. ')
}

function listed(price: PriceConfig): Pick<PriceList['endpoints'][number], 'priceSats' | 'price'> {
  return typeof price === 'number' ? { priceSats: price } : { priceSats: VARIES, price: priceWords(price) }
}
