import type { Endpoint } from './schema.ts'

/** What a request to a proxy costs and for which path its token is good. */
export interface Price {
  readonly amountSats: number
  /** The endpoint's pattern when it sells the whole of it; null when the token is good for the request's own path. */
  readonly pattern: string | null
}

/** `/a/*` takes what begins with `/a/`, and not `/a` itself (decision 114); other patterns take the very path. */
export function matches (pattern: string, path: string): boolean {
  return pattern.endsWith('/*') ? path.startsWith(pattern.slice(0, -1)) : path === pattern
}

/**
 * The price of a request: a pattern with a method goes before one without, then the longest goes first; where none fits,
 * the default (decision 91). `path` is the path within the proxy, made comparable. HEAD has the prices of GET, and of two
 * that fit as well its own. 0 is free.
 */
export function priceOf (endpoints: readonly Endpoint[], defaultPriceSats: number, method: string, path: string): Price {
  let best: Endpoint | null = null
  for (const endpoint of endpoints) {
    if (endpoint.method !== null && endpoint.method !== method && !(method === 'HEAD' && endpoint.method === 'GET')) continue
    if (!matches(endpoint.pathPattern, path)) continue
    if (best === null || isMoreSpecific(endpoint, best)) best = endpoint
  }
  if (best === null) return { amountSats: defaultPriceSats, pattern: null }
  return { amountSats: best.priceSats, pattern: best.tokenPath === 'pattern' ? best.pathPattern : null }
}

function isMoreSpecific (candidate: Endpoint, than: Endpoint): boolean {
  if ((candidate.method === null) !== (than.method === null)) return candidate.method !== null
  if (candidate.pathPattern.length !== than.pathPattern.length) return candidate.pathPattern.length > than.pathPattern.length
  // Only HEAD fits two methods, and there the later one is not always the narrower.
  if (candidate.pathPattern === than.pathPattern) return candidate.method === 'HEAD'
  // `/a/bc` and `/a/b/*` can be as long: the exact one is the narrower.
  return !candidate.pathPattern.endsWith('/*') && than.pathPattern.endsWith('/*')
}

/** Whether the lists of a proxy let a path through: blocked ones never, else those allowed, or all when none is named. */
export function pathAllowed (allowed: readonly string[], blocked: readonly string[], path: string): boolean {
  if (blocked.some(pattern => matches(pattern, path))) return false
  return allowed.length === 0 || allowed.some(pattern => matches(pattern, path))
}
