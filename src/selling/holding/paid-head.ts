import { NameTable } from '../../engine/message/header-names.ts'
import { trimmed, type HeaderList } from '../../engine/message/headers.ts'
import type { Head } from '../../engine/message/reply.ts'
import type { Offer } from '../offers/offer.ts'

/**
 * Whether a response is what was paid for (decision 124). An upstream's own 2xx to 4xx is, less what the route
 * releases; an operation's reply is when it is no refusal; an error of ours never is.
 */
export function isDelivered(head: Head, releaseOn: Offer['releaseOn']): boolean {
  if (head.source === 'error') return false
  if (head.source === 'reply') return head.status < 400
  if (head.status >= 500) return !releaseOn.includes('5xx')
  return head.status < 400 || !releaseOn.includes('4xx')
}

/** `must-understand` is among them because caches that know it ignore `no-store` (RFC 9111 5.2.2.3). */
const SHARED = /^(?:public|s-maxage|private|must-understand)\b/i

/**
 * Fields that shared caches prefer to Cache-Control: targeted ones, which end in `-Cache-Control` by convention (RFC 9213
 * 2), and those of reverse proxies. They would show one client's paid response to all.
 */
const OF_SHARED_CACHES = new NameTable(name =>
  /^(?:[\w-]+-cache-control|surrogate-control|edge-control|x-accel-expires)$/i.test(name)
)

/**
 * Keeps what was paid for out of shared caches: `private` in the place of `public` and `s-maxage`, and nothing that is
 * said to such caches alone; `no-store` stays (decision 130).
 */
export function keepPrivate(headers: HeaderList): void {
  const { pairs } = headers
  for (let at = pairs.length - 2; at >= 0; at -= 2)
    // An even flat list: both exist.
    if (OF_SHARED_CACHES.of(pairs[at] as string)) pairs.splice(at, 2)
  if (!headers.has('cache-control')) {
    headers.set('Cache-Control', 'private')
    return
  }
  // Commas inside quotes do not separate directives.
  const directives =
    headers
      .all('cache-control')
      .join(',')
      .match(/(?:[^,"]|"(?:[^"\\]|\\.)*"?)+/g) ?? []
  const kept = directives.map(trimmed).filter(directive => directive !== '' && !SHARED.test(directive))
  headers.set(
    'Cache-Control',
    kept.some(directive => /^no-store$/i.test(directive)) ? kept.join(', ') : ['private', ...kept].join(', ')
  )
}
