import type { Context, UpstreamTarget } from '../message/context.ts'
import { NameTable } from '../message/header-names.ts'
import { HeaderList, trimmed } from '../message/headers.ts'
import { setsOwnCookie } from '../message/own-cookies.ts'
import type { ProxyScope } from '../message/proxy-scope.ts'
import { LongError } from '../operations/errors.ts'
import type { TunnelPolicy } from '../pipeline/plugin.ts'
import type { UpstreamBreakers } from './breakers.ts'
import { isUnreachable, upstreamFailure } from './failure.ts'
import { HOP_BY_HOP, OURS_ON_RESPONSES, stripListed, VIA } from './header-policy.ts'

type HeaderFate = 'strip' | 'connection' | 'encoding' | 'length' | 'cookie' | 'challenge' | 'link' | 'trusted' | 'keep'

const STRIPPED: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  'te',
  'trailer',
  'x-correlation-id',
  ...OURS_ON_RESPONSES
])

/**
 * Fields that only an operator's upstream may send: those that apply to the whole origin (cached policies, reporting,
 * client hints, sessions, storage), those reserved by the contract, those of x402, whose credentials merchants' upstreams
 * never get, and X-Content-Type-Options, set below.
 */
const TRUSTED_NAMES: ReadonlySet<string> = new Set([
  'accept-ch',
  'accept-ch-lifetime',
  'activate-storage-access',
  'alt-svc',
  'alternate-protocol',
  'clear-site-data',
  'critical-ch',
  'expect-ct',
  'nel',
  'observe-browsing-topics',
  'origin-agent-cluster',
  'payment-required',
  'payment-response',
  'public-key-pins',
  'public-key-pins-report-only',
  'report-to',
  'reporting-endpoints',
  'service-worker-allowed',
  'set-cookie2',
  'set-login',
  'shared-storage-write',
  'speculation-rules',
  'strict-transport-security',
  'supports-loading-mode',
  'use-as-dictionary',
  'x-api-deprecation',
  'x-api-version',
  'x-content-type-options',
  'x-payment-response'
])
/**
 * The same by prefix: device-bound sessions, ad attribution, and instructions to a proxy in front to serve another
 * file, path or ESI, or to purge its cache. X-Accel-Buffering concerns one response alone.
 */
const TRUSTED_PREFIXES =
  /^(?:(?:sec|secure)-session-|attribution-reporting-|ad-auction-|x-accel-(?!buffering$)|x-sendfile|x-lighttpd-|x-litespeed-|x-reproxy-|x-esi|surrogate-control$|edge-control$)/

const RESPONSE = new NameTable<HeaderFate>(name => {
  const lower = name.toLowerCase()
  if (STRIPPED.has(lower) || lower.startsWith('x-l402-')) return 'strip'
  if (TRUSTED_NAMES.has(lower) || TRUSTED_PREFIXES.test(lower)) return 'trusted'
  switch (lower) {
    case 'connection':
      return 'connection'
    case 'transfer-encoding':
      return 'encoding'
    case 'content-length':
      return 'length'
    case 'set-cookie':
      return 'cookie'
    case 'www-authenticate':
      return 'challenge'
    case 'link':
      return 'link'
    default:
      return 'keep'
  }
})

/**
 * A payment challenge in WWW-Authenticate. A client that pays an upstream's own challenge loses its money: payment
 * credentials are never forwarded, and the gateway does not know the invoice.
 */
const PAYMENT_CHALLENGE = /(?:^|,)[ \t]*(?:l402|lsat|payment)(?:[ \t,]|$)/i

/**
 * Gives a document of an untrusted upstream an opaque origin (CSP Level 3, 6.3.2), so that its scripts cannot use the
 * gateway's cookies. Set on every response: browsers also render documents with a missing, malformed or unexpected
 * Content-Type, and ignore the policy elsewhere.
 */
const SANDBOX =
  'sandbox allow-downloads allow-forms allow-modals allow-popups allow-popups-to-escape-sandbox allow-presentation allow-scripts allow-top-navigation-by-user-activation'

interface CleanHead {
  readonly pairs: string[]
  /** Content-Length in bytes, or -1. */
  readonly length: number
  /** The body has a Transfer-Encoding other than chunked, which cannot be passed on. */
  readonly undecodable: boolean
}

/**
 * The flat list of the client's response headers, as Latin-1. `status` decides whether Content-Length is allowed (RFC
 * 9110 8.6). `untrusted`: the scope that confines a merchant's upstream; null for an operator's. `version`: of the
 * response, for Via.
 */
export function responseHeaders(
  raw: readonly string[],
  status: number,
  untrusted: ProxyScope | null,
  version: Context['httpVersion'] = '1.1'
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
      case 'trusted':
        if (untrusted === null) out.push(name, value)
        break
      case 'link':
        // A browser preloads what a 103 names before it sees the sandbox, as the gateway's own origin.
        if (untrusted === null || status >= 200) out.push(name, value)
        break
      case 'cookie': {
        const cookie = untrusted === null ? (setsOwnCookie(value) ? null : value) : untrusted.setCookie(value)
        if (cookie !== null) out.push(name, cookie)
        break
      }
      case 'challenge':
        if (!PAYMENT_CHALLENGE.test(value)) out.push(name, value)
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
        undecodable ||= encodings > 1 || trimmed(value).toLowerCase() !== 'chunked'
        break
      default:
        break
    }
  }
  if (listed !== '') stripListed(out, listed)
  // From here on the upstream's Connection list cannot remove anything.
  if (status >= 200) {
    if (untrusted !== null) out.push('Content-Security-Policy', SANDBOX, 'X-Content-Type-Options', 'nosniff')
    out.push('Via', VIA[version])
  }
  return { pairs: out, length, undecodable }
}

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
/** Prefixes of private names that change how a response is read. */
const GUARDED_PREFIXES = ['x-forwarded', 'x-frame-options', 'x-accel']

/**
 * Trailers that may be passed on: the list, and private `x-` names that are not the gateway's. A trailer must never
 * replace what the head decided (RFC 9110 6.5.1). Null for none.
 */
export function responseTrailers(raw: readonly string[]): string[] | null {
  if (raw.length === 0) return null
  const out: string[] = []
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at] as string
    const lower = name.toLowerCase()
    const allowed =
      TRAILERS.has(lower) ||
      (lower.startsWith('x-') &&
        RESPONSE.of(name) === 'keep' &&
        !GUARDED_PREFIXES.some(prefix => lower.startsWith(prefix)))
    if (allowed) out.push(name, raw[at + 1] as string)
  }
  return out.length === 0 ? null : out
}

export class UpgradePolicy implements TunnelPolicy {
  readonly #ctx: Context
  readonly #target: UpstreamTarget
  readonly #breakers: UpstreamBreakers

  constructor(ctx: Context, target: UpstreamTarget, breakers: UpstreamBreakers) {
    this.#ctx = ctx
    this.#target = target
    this.#breakers = breakers
  }

  headers(status: number, raw: readonly string[]): HeaderList {
    this.#breakers.answered(this.#ctx, this.#target)
    const headers = new HeaderList(responseHeaders(raw, status, this.#target.untrusted).pairs)
    const set = this.#target.responseHeaders
    for (let at = 0; at < set.length; at += 2) headers.set(set[at] ?? '', set[at + 1] ?? '')
    return headers
  }

  failure(error: Error): Error {
    this.#breakers.left(this.#ctx, this.#target)
    if (error instanceof LongError && (error.status === 502 || error.status === 504)) {
      this.#breakers.failed(this.#ctx, this.#target, error.cause instanceof Error && isUnreachable(error.cause))
      if (error.cause instanceof Error) return upstreamFailure(error.cause, this.#target)
      return new LongError(
        error.kind,
        error.error,
        error.message,
        { ...this.#target.errorMembers, ...error.more, details: error.message },
        error.headers
      )
    }
    return error
  }
}
