const ESCAPE = /%[0-9a-fA-F]{2}/g
const UNRESERVED = /[A-Za-z0-9._~-]/

function normalized(escape: string): string {
  const character = String.fromCharCode(Number.parseInt(escape.slice(1), 16))
  return UNRESERVED.test(character) ? character : escape.toUpperCase()
}

/**
 * The raw path with percent-encoded unreserved characters decoded and the other escapes in upper case (RFC 3986,
 * 6.2.2.1 and 6.2.2.2): an upstream takes `/%61` for `/a` and `%c3` for `%C3`, so it must have the price and the
 * plugins of `/a`. Everything else stays as it is written.
 */
export function comparablePath(path: string): string {
  return path.includes('%') ? path.replace(ESCAPE, normalized) : path
}

/**
 * The path as the router compares it: percent-encoding undone except for reserved characters; where it is not UTF-8,
 * only for unreserved ones. For whatever decides by the path of a request beside the router.
 */
export function routedPath(path: string): string {
  if (!path.includes('%')) return path
  try {
    return decodeURI(path)
  } catch {
    // Legal all the same: the octets are the upstream's affair.
    return comparablePath(path)
  }
}

/**
 * Where a raw path goes on behind `prefix`, a whole number of its segments, compared as the router compares; -1 where it
 * does not begin with it.
 */
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
 * A comparable path as upstreams read it that decode `%2F` or take several slashes for one, which both are common. The
 * same text where there is neither. For prices and locks, which must not be passed by another spelling.
 */
export function mergedPath(path: string): string {
  if (!path.includes('//') && !path.includes('%2')) return path
  return path.replaceAll('%2F', '/').replace(/\/{2,}/g, '/')
}

/**
 * How many segments a route's pattern has before its rest: `/l402/proxy/:proxyId/*` has 3. Throws when `param` is not
 * the last of them.
 */
export function prefixSegments(pattern: string, param: string): number {
  const parts = pattern.replace(/\/\*$/, '').split('/').slice(1)
  if (parts.at(-1) !== `:${param}`)
    throw new TypeError(`the path ${pattern} must end with :${param} or with :${param}/*`)
  return parts.length
}
