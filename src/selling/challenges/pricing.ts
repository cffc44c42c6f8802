import {
  callPlace,
  routeCallPrices,
  audienceWords,
  isFree,
  isTable,
  priceWords,
  type PriceConfig
} from '../../engine/checks/price.ts'
import { freeWords } from '../../engine/checks/route-words.ts'
import { meterWords, sessionWords } from '../../engine/checks/meter.ts'
import { routePrice, type Priced } from '../../engine/checks/sale.ts'
import { routePlace } from '../offers/offer.ts'
import { choicePlace } from '../offers/request-price.ts'
import type { PriceList } from './schema.ts'
import { DEFAULT_PRICE } from '../../engine/sections/payment.ts'

const PROXIES = '/l402/proxy/*'

const VARIES = 'varies'

/**
 * Prices of the operator's routes by place. Each value of a price table has its own place, and each call inside
 * messages its own line.
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
 * The price list (contract, Pay-per-request gating: /api/l402/pricing; decision 127): the operator's priced routes and
 * calls, the ping, and one line for all proxies of merchants. Prices that are no number of satoshis say `varies`;
 * `price` explains.
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
    defaultPriceSats: DEFAULT_PRICE,
    serviceName: payment.serviceName,
    endpoints,
    tokenValiditySeconds: Math.floor(payment.tokenValidity / 1000)
  }
}

function sellsMore({ meter, sessions, free, audience }: Priced['routes'][number]): boolean {
  return audience !== undefined || meter !== undefined || sessions !== undefined || free !== undefined
}

function pricedWords(price: PriceConfig, { meter, sessions, free, audience }: Priced['routes'][number]): string {
  return [
    meter === undefined ? priceWords(price) : `${priceWords(price)} for ${meterWords(meter)}`,
    ...(audience === undefined ? [] : [audienceWords(audience)]),
    ...(free === undefined ? [] : [freeWords(free)]),
    ...(sessions === undefined ? [] : [sessionWords(sessions, meter !== undefined)])
  ].join('. ')
}

function listed(price: PriceConfig): Pick<PriceList['endpoints'][number], 'priceSats' | 'price'> {
  return typeof price === 'number' ? { priceSats: price } : { priceSats: VARIES, price: priceWords(price) }
}
