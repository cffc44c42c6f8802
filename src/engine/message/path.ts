const ESCAPE = /%[0-9a-fA-F]{2}/g
const UNRESERVED = /[A-Za-z0-9._~-]/

function normalized(escape: string): string {
  const character = String.fromCharCode(Number.parseInt(escape.slice(1), 16))
  return UNRESERVED.test(character) ? character : escape.toUpperCase()
}

/**
 * The raw path with percent-encoded unreserved characters decoded and other escapes in upper case (RFC 3986, 6.2.2.1
 * and 6.2.2.2). An upstream treats `/%61` as `/a` and `%c3` as `%C3`, so price and plugins must match.
 */
export function comparablePath(path: string): string {
  return path.includes('%') ? path.replace(ESCAPE, normalized) : path
}

/**
 * The path as the router compares it: decoded except for reserved characters; where it is not UTF-8, only unreserved
 * ones. For every decision by path outside the router.
 */
export function routedPath(path: string): string {
  if (!path.includes('%')) return path
  try {
    return decodeURI(path)
  } catch {
    // Still legal: only the upstream interprets the octets.
    return comparablePath(path)
  }
}

/** Where a raw path continues after `prefix`, whole segments, compared like the router; -1 without the prefix. */
export function endOfPrefix(path: string, prefix: string): number {
  if (path.startsWith(prefix)) return path.length === prefix.length || path[prefix.length] === '/' ? prefix.length : -1
  if (!path.includes('%')) return -1
  let end = 0
  for (let slash = prefix.indexOf('/'); slash >= 0 && end >= 0; slash = prefix.indexOf('/', slash + 1))
    end = path.indexOf('/', end + 1)
  if (end < 0) end = path.length
  return routedPath(path.slice(0, end)) === prefix ? end : -1
}

/**
 * A comparable path for upstreams that decode `%2F` or merge slashes, both common. For prices and locks, which another
 * spelling must not bypass.
 */
export function mergedPath(path: string): string {
  if (!path.includes('//') && !path.includes('%2')) return path
  return path.replaceAll('%2F', '/').replace(/\/{2,}/g, '/')
}

/**
 * Segments of a route's pattern before its rest: 3 for `/l402/proxy/:proxyId/*`. Throws when `param` is not the last of
 * them.
 */
export function prefixSegments(pattern: string, param: string): number {
  const parts = pattern.replace(/\/\*$/, '').split('/').slice(1)
  if (parts.at(-1) !== `:${param}`)
    throw new TypeError(`the path ${pattern} must end with :${param} or with :${param}/*`)
  return parts.length
}

/**
 * Replaces the path's beginning by the pattern's literals. An encoded spelling matches the same route, but its token
 * would not cover the pattern. Other paths are unchanged.
 */
export function withinPattern(path: string, pattern: string): string {
  if (!pattern.endsWith('/*')) return routedPath(path) === pattern ? pattern : path
  const prefix = pattern.slice(0, -1)
  if (path.startsWith(prefix)) return path
  // The router ignores encoded slashes, so both have the same segments up to the rest.
  let at = 0
  for (let slash = prefix.indexOf('/', 1); slash >= 0; slash = prefix.indexOf('/', slash + 1))
    at = path.indexOf('/', at + 1)
  return at >= 0 && routedPath(path.slice(0, at + 1)) === prefix ? prefix + path.slice(at + 1) : path
}
