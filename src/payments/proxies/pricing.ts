import { isOfPrice, type PriceGrace } from '../../selling/offers/price-grace.ts'
import { amountOf } from '../../selling/offers/request-price.ts'
import type { MeterConfig } from '../../engine/checks/meter.ts'
import { meterOf } from './meter.ts'
import { amountsIn, amountOfText, sameRequestIn, type ChosenAmount, type ProxyPriceText } from './price.ts'
import type { ProxyEndpoint, FormerPrices } from './schema.ts'

/** Of a former price nobody asks for how long its tokens were good. */
type PricedEndpoint = FormerPrices['endpoints'][number] & Partial<Pick<ProxyEndpoint, 'tokenValiditySeconds' | 'meter'>>

// Each is evaluated for a request that was paid at another price than that of now, and every process reads all of them
// every few seconds with the proxies that it holds.
const MOST_FORMER = 50
const MOST_FORMER_PRICES = 500
const LONGEST_GRACE = 30 * 86_400_000

/** What a request to a proxy costs and for which path its token is good. */
export interface ProxyPrice {
  /** Where `price` says what it costs, the most that it may. */
  readonly amountSats: number
  readonly price: ProxyPriceText | null
  /** The endpoint's pattern when it sells the whole of it; null when the token is good for the request's own path. */
  readonly pattern: string | null
  /** Seconds for which its token is good; null where the proxy says it. */
  readonly tokenValiditySeconds: number | null
  /** Where the price buys a balance. */
  readonly meter: MeterConfig | null
}

/** `/a/*` takes what begins with `/a/`, and not `/a` itself (decision 114); other patterns take the very path. */
export function matches(pattern: string, path: string): boolean {
  return pattern.endsWith('/*') ? path.startsWith(pattern.slice(0, -1)) : path === pattern
}

/**
 * The price of a request: a pattern with a method goes before one without, then the longest goes first; where none
 * fits, the default (decision 91). `path` is the path within the proxy, made comparable. HEAD has the prices of GET,
 * and of two that fit as well its own. 0 is free.
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
  // Only HEAD fits two methods, and there the later one is not always the narrower.
  if (candidate.pathPattern === than.pathPattern) return candidate.method === 'HEAD'
  // `/a/bc` and `/a/b/*` can be as long: the exact one is the narrower.
  return !candidate.pathPattern.endsWith('/*') && than.pathPattern.endsWith('/*')
}

/**
 * Whether the lists of a proxy let a path through: blocked ones never, else those allowed, or all when none is named.
 */
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
 * The dearer of two spellings of a path that upstreams may take for the same, `path` and `merged` (decision 91): a
 * request that could be either costs that, and buys no pattern. Null where which is dearer cannot be told, since one
 * of them is no plain number of satoshis.
 */
export function priceOfEither(prices: Priced, method: string, path: string, merged: string): ProxyPrice | null {
  const price = priceOf(prices, method, path)
  if (merged === path) return price
  const other = priceOf(prices, method, merged)
  if (JSON.stringify(price.price) !== JSON.stringify(other.price)) return null
  return { ...(other.amountSats > price.amountSats ? other : price), pattern: null }
}

/** What else than its price of now a request's payment may be of: null where the merchant gives no grace. */
export function graceOf(
  former: readonly FormerPrices[],
  graceSeconds: number,
  { method, path, merged }: { readonly method: string; readonly path: string; readonly merged: string },
  chosen: ChosenAmount
): PriceGrace | null {
  if (graceSeconds === 0) return null
  return {
    duration: graceSeconds * 1000,
    // The latest comes first.
    until: paid =>
      former.find(prices => {
        const price = priceOfEither(prices, method, path, merged)
        if (price === null) return false
        const amount = price.price === null ? price.amountSats : sameRequestIn(price.price, chosen)
        return amount !== null && isOfPrice(amountOf(amount), paid.amountSats, paid.fiat)
      })?.until ?? null
  }
}

type Prices = Pick<FormerPrices, 'endpoints' | 'defaultPriceSats' | 'defaultPrice'>

/**
 * The list of former prices after a change at `now`, latest first; the same list where no price has changed. It holds
 * at most 50 lists with 500 prices together, but always the last; prices that were asked more than once stand where
 * they were asked last.
 */
export function withFormer(
  former: readonly FormerPrices[],
  before: Prices,
  after: Prices,
  now: number
): readonly FormerPrices[] {
  const old = pricesIn(before)
  if (isSame(old, after)) return former
  const others = former.filter(prices => prices.until > now - LONGEST_GRACE && !isSame(prices, old))
  let room = MOST_FORMER_PRICES - countOf(old)
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
