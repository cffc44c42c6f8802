import { isOfPrice, type PriceGrace } from '../../selling/offers/price-grace.ts'
import { amountOf } from '../../selling/offers/request-price.ts'
import type { MeterConfig } from '../../engine/checks/meter.ts'
import { meterOf } from './meter.ts'
import { amountsIn, amountOfText, sameRequestIn, type ChosenAmount, type ProxyPriceText } from './price.ts'
import type { ProxyEndpoint, PreviousPrices } from './schema.ts'

/** Former prices need no token validity. */
type PricedEndpoint = PreviousPrices['endpoints'][number] &
  Partial<Pick<ProxyEndpoint, 'tokenValiditySeconds' | 'meter'>>

// Bounds evaluation per request and the size of each refresh.
const MOST_FORMER = 50
const MAX_PREVIOUS_PRICES = 500
const LONGEST_GRACE = 30 * 86_400_000

export interface ProxyPrice {
  readonly amountSats: number
  readonly price: ProxyPriceText | null
  /** The endpoint's pattern when it sells all of it; null when the token covers only the request's path. */
  readonly pattern: string | null
  readonly tokenValiditySeconds: number | null
  readonly meter: MeterConfig | null
}

/** `/a/*` matches below `/a/`, not `/a` itself (decision 114); other patterns match exactly. */
export function matches(pattern: string, path: string): boolean {
  return pattern.endsWith('/*') ? path.startsWith(pattern.slice(0, -1)) : path === pattern
}

/**
 * The price of a request: patterns with a method first, then the longest, else the default (decision 91). `path` is the
 * normalized path within the proxy. HEAD has the prices of GET, and its own first. 0 is free.
 */
export function priceOf(
  { endpoints, defaultPriceSats, defaultPrice = null }: Priced,
  method: string,
  path: string
): ProxyPrice {
  let best: PricedEndpoint | null = null
  for (const endpoint of endpoints) {
    if (endpoint.method !== null && endpoint.method !== method && !(method === 'HEAD' && endpoint.method === 'GET'))
      continue
    if (!matches(endpoint.pathPattern, path)) continue
    if (best === null || isMoreSpecific(endpoint, best)) best = endpoint
  }
  if (best === null)
    return {
      amountSats: defaultPriceSats,
      price: defaultPrice,
      pattern: null,
      tokenValiditySeconds: null,
      meter: null
    }
  const { price = null } = best
  return {
    amountSats: best.priceSats,
    price,
    pattern: best.tokenPath === 'pattern' ? best.pathPattern : null,
    tokenValiditySeconds: best.tokenValiditySeconds ?? null,
    meter:
      best.meter === undefined
        ? null
        : meterOf(best.meter, typeof price === 'string' ? amountOfText(price) : best.priceSats)
  }
}

function isMoreSpecific(candidate: PricedEndpoint, than: PricedEndpoint): boolean {
  if ((candidate.method === null) !== (than.method === null)) return candidate.method !== null
  if (candidate.pathPattern.length !== than.pathPattern.length)
    return candidate.pathPattern.length > than.pathPattern.length
  // HEAD fits two methods, and the later one is not always narrower.
  if (candidate.pathPattern === than.pathPattern) return candidate.method === 'HEAD'
  // `/a/bc` and `/a/b/*` have equal length; the exact one is narrower.
  return !candidate.pathPattern.endsWith('/*') && than.pathPattern.endsWith('/*')
}

/** Whether the lists let a path through: never a blocked one, else an allowed one, or any without a list. */
export function pathAllowed(allowed: readonly string[], blocked: readonly string[], path: string): boolean {
  if (blocked.some(pattern => matches(pattern, path))) return false
  return allowed.length === 0 || allowed.some(pattern => matches(pattern, path))
}

interface Priced {
  readonly defaultPriceSats: number
  readonly defaultPrice?: ProxyPriceText | null
  readonly endpoints: readonly PricedEndpoint[]
}

/**
 * The higher price of `path` and `merged`, which upstreams may treat as equal (decision 91); it covers no pattern. Null
 * where the two cannot be compared.
 */
export function priceOfEither(prices: Priced, method: string, path: string, merged: string): ProxyPrice | null {
  const price = priceOf(prices, method, path)
  if (merged === path) return price
  const other = priceOf(prices, method, merged)
  if (JSON.stringify(price.price) !== JSON.stringify(other.price)) return null
  return { ...(other.amountSats > price.amountSats ? other : price), pattern: null }
}

/** Former prices that a payment may still be of; null without a grace period. */
export function graceOf(
  former: readonly PreviousPrices[],
  graceSeconds: number,
  { method, path, merged }: { readonly method: string; readonly path: string; readonly merged: string },
  chosen: ChosenAmount
): PriceGrace | null {
  if (graceSeconds === 0) return null
  return {
    duration: graceSeconds * 1000,
    // Latest first.
    until: paid =>
      former.find(prices => {
        const price = priceOfEither(prices, method, path, merged)
        if (price === null) return false
        const amount = price.price === null ? price.amountSats : sameRequestIn(price.price, chosen)
        return amount !== null && isOfPrice(amountOf(amount), paid.amountSats, paid.fiat)
      })?.until ?? null
  }
}

type Prices = Pick<PreviousPrices, 'endpoints' | 'defaultPriceSats' | 'defaultPrice'>

/**
 * Former prices after a change at `now`, latest first; the same list without a price change. At most 50 lists with 500
 * prices in total, but always the last one. A repeated price keeps its last place.
 */
export function withPrevious(
  former: readonly PreviousPrices[],
  before: Prices,
  after: Prices,
  now: number
): readonly PreviousPrices[] {
  const old = pricesIn(before)
  if (isSame(old, after)) return former
  const others = former.filter(prices => prices.until > now - LONGEST_GRACE && !isSame(prices, old))
  let room = MAX_PREVIOUS_PRICES - countOf(old)
  const tooMany = others.findIndex(prices => (room -= countOf(prices)) < 0)
  return [{ until: now, ...old }, ...(tooMany < 0 ? others : others.slice(0, tooMany))].slice(0, MOST_FORMER)
}

function isSame(one: Prices, other: Prices): boolean {
  return JSON.stringify(pricesIn(one)) === JSON.stringify(pricesIn(other))
}

function countOf({ defaultPrice, endpoints }: Prices): number {
  return endpoints.reduce((count, { price }) => count + amountsIn(price), amountsIn(defaultPrice))
}

function pricesIn({ defaultPriceSats, defaultPrice = null, endpoints }: Prices): Prices {
  return {
    defaultPriceSats,
    ...(defaultPrice === null ? {} : { defaultPrice }),
    endpoints: endpoints.map(({ method, pathPattern, priceSats, price, tokenPath }) => ({
      method,
      pathPattern,
      priceSats,
      ...(price === undefined ? {} : { price }),
      tokenPath
    }))
  }
}
