import type { HeaderList } from '../gateway/headers.ts'
import type { Head } from '../gateway/reply.ts'
import type { Offer } from './offer.ts'

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

const ACTIVE = /^(?:text\/html|text\/xml|application\/xml|[\w.+-]+\/[\w.+-]+\+xml)\b/i

/**
 * What a browser shows that was paid on a page is another's for each cookie, and where it is a merchant's it may run
 * nothing as this gateway: pages of the gateway's own, where people are signed in, have the same origin (decision 312).
 */
export function keepApart(headers: HeaderList, isForeign: boolean): void {
  headers.addToken('Vary', 'Cookie')
  if (!isForeign) return
  headers.set('X-Content-Type-Options', 'nosniff')
  if (ACTIVE.test(headers.get('content-type') ?? 'text/html'))
    headers.append(
      'Content-Security-Policy',
      'sandbox allow-scripts allow-forms allow-popups allow-downloads allow-modals'
    )
}

const SHARED = /^(?:public|s-maxage|private)\b/i

/**
 * Keeps what was paid for out of shared caches: `private` in the place of `public` and `s-maxage`; `no-store` stays
 * (decision 130).
 */
export function keepPrivate(headers: HeaderList): void {
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
  const kept = directives
    .map(directive => directive.trim())
    .filter(directive => directive !== '' && !SHARED.test(directive))
  headers.set(
    'Cache-Control',
    kept.some(directive => /^no-store$/i.test(directive)) ? kept.join(', ') : ['private', ...kept].join(', ')
  )
}
