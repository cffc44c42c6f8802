import type { Context } from '../gateway/context.ts'
import { NameTable, tableOf } from '../gateway/header-names.ts'
import type { HeaderList } from '../gateway/headers.ts'
import { setsOwnCookie, withoutOwnCookies } from '../gateway/own-cookies.ts'
import { MACAROON_FIELDS, mayCarryPreimage, paymentScheme } from '../lightning/payment-headers.ts'
import { pathFault } from './request-head.ts'

/**
 * Which header fields cross the gateway, in each direction (RFC 9110 7.6; contract, Reverse proxy). Each walk goes once
 * over the flat list.
 */

/** What a field is to the policy. */
type Fate =
  | 'strip'
  | 'connection'
  | 'authorization'
  | 'macaroon'
  | 'te'
  | 'forwarding'
  | 'via'
  | 'own-key'
  | 'cookie'
  | 'encoding'
  | 'length'
  | 'underscore'
  | 'operator'
  | 'keep'

function fatesOf(fates: Readonly<Partial<Record<Fate, readonly string[]>>>): NameTable<Fate> {
  const byName = new Map<string, Fate>()
  for (const [fate, names] of Object.entries(fates)) {
    // The keys of the literal are fates; Object.entries forgets it.
    for (const name of names) byName.set(name, fate as Fate)
  }
  return tableOf(byName, 'keep')
}

const HOP_BY_HOP = [
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'upgrade',
  'http2-settings'
]

/** Fields that the gateway sets on responses; one from anybody else would be taken for ours. */
const OURS_ON_RESPONSES = [
  'x-l402-proxy',
  'x-l402-proxy-id',
  'x-l402-error',
  'payment-receipt',
  'x-charged-msat',
  'x-balance-msat',
  'x-free-calls-remaining',
  'x-free-calls-reset',
  'x-idempotency-replayed'
]

/**
 * What a response may not say where its upstream is not trusted: what has a proxy in front serve a file or another path
 * of its own, and what a browser keeps for all pages of this origin, where people pay and are signed in.
 */
const OF_OPERATORS = [
  'x-accel-redirect',
  'x-accel-limit-rate',
  'x-accel-charset',
  'x-accel-expires',
  'x-sendfile',
  'x-lighttpd-send-file',
  'x-lighttpd-send-tempfile',
  'x-litespeed-location',
  'x-reproxy-url',
  'x-reproxy-file',
  'nel',
  'report-to',
  'reporting-endpoints',
  'clear-site-data',
  'strict-transport-security',
  'public-key-pins',
  'expect-ct',
  'alt-svc',
  'service-worker-allowed',
  'accept-ch',
  'critical-ch',
  'use-as-dictionary',
  'origin-agent-cluster',
  'set-login'
]

/** What an upstream is told of the payment for a request; a client's own are never believed, nor sent on. */
const PAID_HASH = 'X-L402-Payment-Hash'
const PAID_AMOUNT = 'X-L402-Amount-Sats'
const PAID_SCHEME = 'X-L402-Scheme'
const PAID_NAMES: ReadonlySet<string> = new Set([PAID_HASH, PAID_AMOUNT, PAID_SCHEME].map(name => name.toLowerCase()))

const REQUEST_NAMES = fatesOf({
  connection: ['connection'],
  te: ['te'],
  authorization: ['authorization'],
  macaroon: MACAROON_FIELDS,
  via: ['via'],
  // Expect was answered here; trailers of a request are not sent on (RFC 9110 6.5.1 lets an intermediary drop them).
  strip: [
    ...HOP_BY_HOP,
    'transfer-encoding',
    'trailer',
    'expect',
    'host',
    'accept-payment',
    'x-correlation-id',
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
  'own-key': ['x-api-key', 'x-admin-key'],
  cookie: ['cookie']
})
/**
 * Upstreams that read headers as CGI variables cannot tell "_" from "-" (RFC 3875, 4.1.18): a name that is one of those
 * above to them is never passed on in that spelling, and any other with an underscore where the upstream is said to
 * take it.
 */
const REQUEST = new NameTable<Fate>(name => {
  const dashed = name.replaceAll('_', '-')
  if (PAID_NAMES.has(dashed.toLowerCase())) return 'strip'
  if (dashed === name) return REQUEST_NAMES.of(name)
  return REQUEST_NAMES.of(dashed) === 'keep' ? 'underscore' : 'strip'
})

const RESPONSE = fatesOf({
  connection: ['connection'],
  encoding: ['transfer-encoding'],
  length: ['content-length'],
  cookie: ['set-cookie'],
  operator: OF_OPERATORS,
  strip: [...HOP_BY_HOP, 'te', 'trailer', 'x-correlation-id', ...OURS_ON_RESPONSES]
})

/** Fields that a Connection list cannot take away: they frame the message. */
const FRAMING = new Set(['content-length', 'host'])

/** Name of the gateway in Via (RFC 9110 7.6.3). */
const PSEUDONYM = 'boltgate'
type HttpVersion = Context['httpVersion']
const VIA: Readonly<Record<HttpVersion, string>> = { '1.0': `1.0 ${PSEUDONYM}`, '1.1': `1.1 ${PSEUDONYM}` }
/** Gateways of this kind that may stand one behind the other. */
const MAX_PASSES = 8

/**
 * Whether a request has come through gateways of this kind so often that it must be running in a circle, as it does
 * when a merchant's free proxy has the gateway itself as its target. Each turn would hold one more connection.
 */
export function circular(via: string | undefined): boolean {
  if (via === undefined) return false
  let passes = 0
  for (let at = via.indexOf(PSEUDONYM); at >= 0; at = via.indexOf(PSEUDONYM, at + PSEUDONYM.length)) passes++
  return passes > MAX_PASSES
}

/** Takes away the fields that a Connection list names (RFC 9110 7.6.1). */
function stripListed(pairs: string[], listed: string): void {
  // What nearly every message says names no field.
  if (listed === 'keep-alive' || listed === 'close') return
  const names = new Set<string>()
  for (const item of listed.split(',')) {
    const name = item.trim().toLowerCase()
    if (name !== '' && name !== 'close' && name !== 'keep-alive' && !FRAMING.has(name)) names.add(name)
  }
  // One walk, however many are named: a head full of names would cost seconds otherwise.
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
  return te.split(',').some(item => item.trim().toLowerCase() === 'trailers')
}

/**
 * The flat list of headers for the upstream's request, beginning with Host. `untrusted` keeps every credential of the
 * gateway's own clients back (decision 100); `set` is a flat list put in the place of what the client sent. A paid
 * request says by which payment, how much and in which scheme. `underscores`: names with an underscore are passed on.
 */
export function requestHeaders(
  ctx: Context,
  host: string,
  untrusted: boolean,
  set: readonly string[],
  underscores = false
): string[] {
  const from = ctx.headers.pairs
  const out: string[] = ['Host', host]
  // A trusted proxy stands in front when the client is not the peer; only then is what it says of the client's side
  // believed.
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
      case 'underscore':
        if (underscores) out.push(name, value)
        break
      case 'connection':
        listed = listed === '' ? value : `${listed},${value}`
        break
      case 'te':
        trailers ||= asksForTrailers(value)
        break
      case 'authorization':
        if (!untrusted && paymentScheme(value) === null) out.push(name, value)
        break
      case 'macaroon':
        if (!untrusted && !mayCarryPreimage(value)) out.push(name, value)
        break
      case 'own-key':
        if (!untrusted) out.push(name, value)
        break
      case 'cookie': {
        const others = withoutOwnCookies(value)
        if (others !== null) out.push(name, others)
        break
      }
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
  // From here on nothing can be stripped by the client. TE stands in its sender's own Connection list (RFC 9110
  // 10.1.4).
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

/**
 * X-Forwarded-For behind a trusted proxy: from the client on. What stands before the client's address was written by
 * the client itself and is left out.
 */
function chainOf(chain: string, client: string, peer: string): string {
  const items = chain.split(',')
  let at = items.length - 1
  while (at >= 0 && items[at]?.trim() !== client) at--
  return at < 0
    ? `${client}, ${peer}`
    : `${items
        .slice(at)
        .map(item => item.trim())
        .join(', ')}, ${peer}`
}

/** A node name of RFC 7239 6; an IPv6 address is bracketed and quoted. */
function node(address: string): string {
  return address.includes(':') ? `"[${address}]"` : address
}

function element(address: string, host: string, proto: string): string {
  return `for=${node(address)};${host === '' ? '' : `host="${host.replaceAll('"', '')}";`}proto=${proto}`
}

/** Sets fields in the place of all of the same name. */
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

/** The upstream's head after the policy. */
export interface CleanHead {
  readonly pairs: string[]
  /** Content-Length in bytes, or -1 when the length is not announced. */
  readonly length: number
  /** The body is coded in a way that cannot be passed on: some Transfer-Encoding other than chunked. */
  readonly undecodable: boolean
}

/**
 * The flat list of headers for the client's response. Bytes are kept: they are read and written as Latin-1. `status`
 * decides whether Content-Length may stand (RFC 9110 8.6). `untrusted`: what only an operator's own upstream may say is
 * left out. `version`: that of the response, for Via.
 */
export function responseHeaders(
  raw: readonly string[],
  status: number,
  untrusted: boolean,
  version: HttpVersion = '1.1'
): CleanHead {
  const out: string[] = []
  let listed = ''
  let length = -1
  let encodings = 0
  let undecodable = false
  for (let at = 0; at < raw.length; at += 2) {
    // An even flat list: both exist.
    const name = raw[at] as string
    const value = raw[at + 1] as string
    switch (RESPONSE.of(name)) {
      case 'keep':
        out.push(name, value)
        break
      case 'operator':
        if (!untrusted) out.push(name, value)
        break
      case 'cookie':
        if (!setsOwnCookie(value)) out.push(name, value)
        break
      case 'connection':
        listed = listed === '' ? value : `${listed},${value}`
        break
      case 'length':
        if (status >= 200 && status !== 204) {
          length = Number(value)
          out.push(name, value)
        }
        break
      case 'encoding':
        encodings++
        undecodable ||= encodings > 1 || value.trim().toLowerCase() !== 'chunked'
        break
      default:
        break
    }
  }
  if (listed !== '') stripListed(out, listed)
  if (status >= 200) out.push('Via', VIA[version])
  return { pairs: out, length, undecodable }
}

/** Trailers that mean the same whoever passes them on. */
const TRAILERS = new Set([
  'grpc-status',
  'grpc-message',
  'grpc-status-details-bin',
  'server-timing',
  'etag',
  'digest',
  'content-digest',
  'repr-digest',
  'content-md5',
  'signature',
  'signature-input'
])
/** Beginnings of names that look private but are the gateway's, or that change how a response is read. */
const GUARDED_PREFIXES = [
  'x-l402',
  'x-correlation-id',
  'x-api-version',
  'x-forwarded',
  'x-frame-options',
  'x-content-type-options',
  'x-accel'
]

/**
 * The trailers that may be passed on: names of the list, and private `x-` names that are not the gateway's own. All
 * others are dropped, for a trailer must never replace what the head decided (RFC 9110 6.5.1). Null when nothing is
 * left.
 */
export function responseTrailers(raw: readonly string[]): string[] | null {
  if (raw.length === 0) return null
  const out: string[] = []
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at] as string
    const lower = name.toLowerCase()
    const allowed =
      TRAILERS.has(lower) || (lower.startsWith('x-') && !GUARDED_PREFIXES.some(prefix => lower.startsWith(prefix)))
    if (allowed) out.push(name, raw[at + 1] as string)
  }
  return out.length === 0 ? null : out
}

const REFUSED = fatesOf({
  strip: ['connection', 'keep-alive', 'transfer-encoding', 'upgrade', 'expect'],
  connection: ['host'],
  length: ['content-length']
})

/**
 * What may not be sent to an upstream, in words, or null: a plugin's `upstream` hook may have put anything into the
 * list. What stands here is a fault of the request or of the plugin, and no upstream's.
 */
export function refusedByClient(path: string, headers: HeaderList): string | null {
  const fault = pathFault(path)
  if (fault !== null) return fault
  const pairs = headers.pairs
  let hosts = 0
  let lengths = 0
  for (let at = 0; at < pairs.length; at += 2) {
    const name = pairs[at] as string
    switch (REFUSED.of(name)) {
      case 'strip':
        return `${name} cannot be set on a forwarded request`
      case 'connection':
        if (++hosts > 1) return 'there is more than one Host'
        break
      case 'length':
        if (++lengths > 1) return 'there is more than one Content-Length'
        break
      default:
        break
    }
  }
  return null
}
