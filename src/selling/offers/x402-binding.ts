import type { Context } from '../../engine/message/context.ts'
import { trimmed } from '../../engine/message/headers.ts'
import { EMPTY_BODY_HASH, httpBinding, mcpBinding, type RequestBinding } from '../../lightning/codecs/x402.ts'
import { hasBoundBody, type Offer } from './offer.ts'
import type { ChallengeSettings } from './settings.ts'

/**
 * Binding of an x402 invoice to this request. Null if x402 cannot sell it: prepaid balances, JSON-RPC calls other than
 * tool calls, hosts other than the public one, and bodies without a known digest.
 * @param digest `sha-256=:…:` of the body, or null
 */
export function x402Binding(
  ctx: Context,
  offer: Offer,
  { x402Origin }: Pick<ChallengeSettings, 'x402Origin'>,
  digest: string | null
): RequestBinding | null {
  if (x402Origin === null || offer.meter !== null || offer.deposit !== undefined) return null
  const url = x402Origin + ctx.target
  if (!isForOrigin(ctx, x402Origin) || !URI.test(url)) return null
  if (offer.callDigest !== undefined)
    return offer.tool === undefined ? null : mcpBinding({ server: url, ...offer.tool })
  const hasBody = ctx.body.length !== 0
  if (hasBody && (digest === null || !hasBoundBody(ctx, offer))) return null
  return httpBinding({
    method: ctx.method,
    url,
    bodyHash: digest === null ? EMPTY_BODY_HASH : Buffer.from(digest.slice(9, -1), 'base64').toString('hex'),
    headers: hasBody ? [['content-type', contentType(ctx)]] : []
  })
}

/** As RFC 9421, 2.1 combines lines; null without one. */
function contentType({ headers }: Context): string | null {
  return headers.has('content-type') ? headers.all('content-type').map(trimmed).join(', ') : null
}

/** ASCII without a fragment, and with whole percent escapes. */
const URI = /^(?:[!-"$&-~]|%[0-9A-Fa-f]{2})+$/
const AUTHORITY = /^(?:\[[0-9a-f:.]+\]|[a-z0-9_-][a-z0-9._-]*)(?::([0-9]{1,5}))?$/
const PROTOCOL = /^[a-z][a-z0-9+.-]*$/

/** Only compares: what a request says of its host is never hashed. A proxy may have put the public one into a field. */
function isForOrigin({ headers, host }: Context, origin: string): boolean {
  const authority = origin.slice(origin.indexOf('//') + 2)
  const withPort = authority + (origin.startsWith('https:') ? ':443' : ':80')
  const hosts = hops(headers, 'x-forwarded-host')
  if (!hosts.every(hop => isAuthority(hop)) || !hops(headers, 'x-forwarded-proto').every(hop => PROTOCOL.test(hop)))
    return false
  return [host, ...hosts].some(name => name === authority || name === withPort)
}

function isAuthority(hop: string): boolean {
  const found = AUTHORITY.exec(hop)
  return found !== null && Number(found[1] ?? 0) <= 65_535
}

function hops(headers: Context['headers'], name: string): readonly string[] {
  return headers.has(name) ? headers.all(name).join(',').toLowerCase().split(',').map(trimmed) : []
}
