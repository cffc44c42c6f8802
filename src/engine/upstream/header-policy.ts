import type { Context } from '../message/context.ts'
import { NameTable } from '../message/header-names.ts'
import { trimmed } from '../message/headers.ts'
import { withoutOwnCookies } from '../message/own-cookies.ts'
import type { ProxyScope } from '../message/proxy-scope.ts'
import { MACAROON_FIELDS, mayCarryPreimage, paidKey, paymentScheme, X402_FIELD } from '../message/payment-headers.ts'

/**
 * Which request header fields cross the gateway (RFC 9110 7.6; contract, Reverse proxy), in one walk over the flat
 * list. Responses: response-policy.ts.
 */

type HeaderFate =
  | 'strip'
  | 'connection'
  | 'authorization'
  | 'macaroon'
  | 'te'
  | 'forwarding'
  | 'via'
  | 'credential'
  | 'key'
  | 'x402'
  | 'referer'
  | 'cookie'
  | 'keep'

/** Fields that end at the next hop, in either direction. */
export const HOP_BY_HOP = [
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'upgrade',
  'http2-settings'
]

/** Fields that the gateway sets on responses. Clients must not take an upstream's for ours. */
export const OURS_ON_RESPONSES = [
  'payment-receipt',
  'x-charged-msat',
  'x-last-charged-msat',
  'x-balance-msat',
  'x-free-calls-remaining',
  'x-free-calls-reset',
  'x-idempotency-replayed',
  'x-fallback'
]

/** Tells the upstream about the payment; a client's own fields are dropped. */
const PAID_HASH = 'X-L402-Payment-Hash'
const PAID_AMOUNT = 'X-L402-Amount-Sats'
const PAID_SCHEME = 'X-L402-Scheme'
const PAID_NAMES: ReadonlySet<string> = new Set([PAID_HASH, PAID_AMOUNT, PAID_SCHEME].map(name => name.toLowerCase()))

/**
 * Gateway keys, and identity proofs of an authenticating proxy in front (Cloudflare Access, IAP, AWS ALB, oauth2-proxy,
 * Azure, Envoy). Merchants' upstreams get none of them.
 */
const CREDENTIALS = [
  'x-api-key',
  'x-admin-key',
  'cf-access-jwt-assertion',
  'x-goog-iap-jwt-assertion',
  'x-amzn-oidc-data',
  'x-amzn-oidc-accesstoken',
  'x-forwarded-access-token',
  'x-auth-request-access-token',
  'x-ms-token-aad-access-token',
  'x-ms-token-aad-id-token',
  'x-forwarded-client-cert'
]

const REQUEST_NAMES: Readonly<Record<Exclude<HeaderFate, 'keep'>, readonly string[]>> = {
  connection: ['connection'],
  te: ['te'],
  authorization: ['authorization'],
  macaroon: MACAROON_FIELDS,
  via: ['via'],
  // Expect was answered here; request trailers are dropped (RFC 9110 6.5.1 allows it).
  strip: [
    ...HOP_BY_HOP,
    'transfer-encoding',
    'trailer',
    'expect',
    'host',
    'accept-payment',
    'payment-authorization',
    'x-correlation-id',
    'x-l402-proxy',
    'x-l402-proxy-id',
    'x-l402-error',
    ...OURS_ON_RESPONSES
  ],
  forwarding: [
    'x-forwarded-for',
    'x-forwarded-proto',
    'x-forwarded-host',
    'x-forwarded-port',
    'x-forwarded-server',
    'x-forwarded-prefix',
    'x-forwarded-ssl',
    'x-real-ip',
    'forwarded'
  ],
  credential: CREDENTIALS,
  key: ['api-key'],
  x402: [X402_FIELD],
  referer: ['referer'],
  cookie: ['cookie']
}
const FATES = new Map<string, HeaderFate>()
for (const [fate, names] of Object.entries(REQUEST_NAMES))
  // The keys are fates; Object.entries forgets it.
  for (const name of names) FATES.set(name, fate as HeaderFate)
/** Upstreams that read headers as CGI variables cannot tell "_" from "-" (RFC 3875, 4.1.18), so names with "_" end here. */
const REQUEST = new NameTable<HeaderFate>(name => {
  const lower = name.toLowerCase()
  return name.includes('_') || PAID_NAMES.has(lower) ? 'strip' : (FATES.get(lower) ?? 'keep')
})

/** Fields that a Connection list cannot remove: they frame the message. */
const FRAMING = new Set(['content-length', 'host'])

/** Name of the gateway in Via (RFC 9110 7.6.3). */
const PSEUDONYM = 'boltgate'
type HttpVersion = Context['httpVersion']
export const VIA: Readonly<Record<HttpVersion, string>> = { '1.0': `1.0 ${PSEUDONYM}`, '1.1': `1.1 ${PSEUDONYM}` }
const MAX_PASSES = 8

/**
 * Detects a loop, as when a merchant's free proxy targets the gateway itself. Each turn would hold one more connection.
 */
export function circular(via: string | undefined): boolean {
  if (via === undefined) return false
  let passes = 0
  for (let at = via.indexOf(PSEUDONYM); at >= 0; at = via.indexOf(PSEUDONYM, at + PSEUDONYM.length)) passes++
  return passes > MAX_PASSES
}

/** Removes the fields that a Connection list names (RFC 9110 7.6.1). */
export function stripListed(pairs: string[], listed: string): void {
  // These common values name no field.
  if (listed === 'keep-alive' || listed === 'close') return
  const names = new Set<string>()
  for (const item of listed.split(',')) {
    const name = trimmed(item).toLowerCase()
    if (name !== '' && name !== 'close' && name !== 'keep-alive' && !FRAMING.has(name)) names.add(name)
  }
  // One walk, however many names: a head full of them would otherwise cost seconds.
  let kept = 0
  for (let at = 0; at < pairs.length; at += 2) {
    // An even flat list: both exist.
    const name = pairs[at] as string
    if (names.has(name.toLowerCase())) continue
    pairs[kept++] = name
    pairs[kept++] = pairs[at + 1] as string
  }
  pairs.length = kept
}

function asksForTrailers(te: string): boolean {
  return te.split(',').some(item => trimmed(item).toLowerCase() === 'trailers')
}

/**
 * The flat list of the upstream's request headers, starting with Host. `untrusted`: the scope of a merchant's proxy,
 * which gets no credentials of the gateway's clients (decision 100); null for an operator's upstream. `set` replaces
 * the client's fields. A paid request names its payment, amount and scheme.
 */
export function requestHeaders(
  ctx: Context,
  host: string,
  untrusted: ProxyScope | null,
  set: readonly string[]
): string[] {
  const from = ctx.headers.pairs
  const out: string[] = ['Host', host]
  // The client differs from the peer only behind a trusted proxy, whose claims about the client are then believed.
  const behindProxy = ctx.clientAddress !== ctx.peerAddress
  let listed = ''
  let trailers = false
  let forwardedFor = ''
  let forwarded = ''
  let forwardedHost = ''
  let via = ''
  for (let at = 0; at < from.length; at += 2) {
    // An even flat list: both exist.
    const name = from[at] as string
    const value = from[at + 1] as string
    switch (REQUEST.of(name)) {
      case 'keep':
        out.push(name, value)
        break
      case 'connection':
        listed = listed === '' ? value : `${listed},${value}`
        break
      case 'te':
        trailers ||= asksForTrailers(value)
        break
      case 'authorization':
        if (untrusted === null && paymentScheme(value) === null && paidKey(value) === null) out.push(name, value)
        break
      case 'macaroon':
        if (untrusted === null && !mayCarryPreimage(value)) out.push(name, value)
        break
      case 'credential':
        if (untrusted === null && paidKey(value) === null) out.push(name, value)
        break
      case 'key':
        if (paidKey(value) === null) out.push(name, value)
        break
      case 'x402':
        if (untrusted === null && ctx.payment?.scheme !== 'x402') out.push(name, value)
        break
      case 'cookie': {
        const others = untrusted === null ? withoutOwnCookies(value) : untrusted.cookies(value)
        if (others !== null) out.push(name, others)
        break
      }
      case 'referer':
        out.push(name, untrusted === null ? value : untrusted.referer(value))
        break
      case 'via':
        via = via === '' ? value : `${via}, ${value}`
        break
      case 'forwarding':
        if (behindProxy) {
          const lower = name.toLowerCase()
          if (lower === 'x-forwarded-for') forwardedFor = forwardedFor === '' ? value : `${forwardedFor}, ${value}`
          else if (lower === 'forwarded') forwarded = forwarded === '' ? value : `${forwarded}, ${value}`
          else if (lower === 'x-forwarded-host') forwardedHost = value
          else if (lower !== 'x-forwarded-proto') out.push(name, value)
        }
        break
      default:
        break
    }
  }
  if (listed !== '') stripListed(out, listed)
  // From here on a client's Connection list cannot remove anything. TE must be listed in Connection (RFC 9110 10.1.4).
  if (trailers) out.push('TE', 'trailers')
  const proto = ctx.secure ? 'https' : 'http'
  out.push(
    'X-Forwarded-For',
    behindProxy ? chainOf(forwardedFor, ctx.clientAddress, ctx.peerAddress) : ctx.peerAddress,
    'X-Forwarded-Proto',
    proto,
    'Forwarded',
    forwarded === '' ? element(ctx.clientAddress, ctx.host, proto) : `${forwarded}, for=${node(ctx.peerAddress)}`,
    'Via',
    via === '' ? VIA[ctx.httpVersion] : `${via}, ${VIA[ctx.httpVersion]}`,
    'X-Correlation-Id',
    ctx.correlationId
  )
  const { payment } = ctx
  if (payment !== null)
    out.push(PAID_HASH, payment.paymentHash, PAID_AMOUNT, String(payment.amountSats), PAID_SCHEME, payment.scheme)
  // An HTTP/1.0 client may name no host.
  const named = forwardedHost === '' ? ctx.host : forwardedHost
  if (named !== '') out.push('X-Forwarded-Host', named)
  if (set.length > 0) replace(out, set)
  return out
}

/** X-Forwarded-For behind a trusted proxy, from the client on. The client itself wrote what precedes its address. */
function chainOf(chain: string, client: string, peer: string): string {
  const items = chain.split(',')
  let at = items.length - 1
  while (at >= 0 && trimmed(items[at] ?? '') !== client) at--
  return at < 0 ? `${client}, ${peer}` : `${items.slice(at).map(trimmed).join(', ')}, ${peer}`
}

/** A node name of RFC 7239 6; an IPv6 address is bracketed and quoted. */
function node(address: string): string {
  return address.includes(':') ? `"[${address}]"` : address
}

function element(address: string, host: string, proto: string): string {
  return `for=${node(address)};${host === '' ? '' : `host="${host.replaceAll('"', '')}";`}proto=${proto}`
}

function replace(pairs: string[], set: readonly string[]): void {
  for (let at = 0; at < set.length; at += 2) {
    const name = (set[at] ?? '').toLowerCase()
    for (let found = pairs.length - 2; found >= 0; found -= 2) {
      const candidate = pairs[found]
      if (candidate !== undefined && candidate.length === name.length && candidate.toLowerCase() === name)
        pairs.splice(found, 2)
    }
  }
  for (const item of set) pairs.push(item)
}
