import type { Offer } from '../offers/offer.ts'

/** Methods that ask for nothing to be done (RFC 9110, 9.2.1): repeating one harms nobody. */
const SAFE: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])
/** How often a credential of an unsafe method comes back for a client that left (decision 184). */
const MOST_RETURNS = 2

/** Whether a request with this method may be repeated without harm. */
export function isSafe(method: string): boolean {
  return SAFE.has(method)
}

/**
 * Whether a lease counts as spent when its gateway died while the request was under way (decision 183): nobody can then
 * say whether the upstream has acted and the client has its response.
 */
export function isSpentByCrash({ afterCrash, method }: Pick<Offer, 'afterCrash' | 'method'>): boolean {
  return afterCrash === 'by-method' ? !isSafe(method) : afterCrash === 'spend'
}

/**
 * Whether a credential comes back for a client that left before the head: its upstream may have acted all the same, so
 * unsafe methods come back twice and no more (decision 184). `returns` is how often that has been already.
 */
export function comesBack({ releaseOn, method }: Pick<Offer, 'releaseOn' | 'method'>, returns: number): boolean {
  return releaseOn.includes('client-gone') && (isSafe(method) || returns < MOST_RETURNS)
}
