import { METHODS } from 'node:http'
import { HeaderList } from '../message/headers.ts'
import { paymentScheme, schemeValue } from '../message/payment-headers.ts'
import { isToken, NameTable } from '../message/header-names.ts'

/** The origin-form of a request target, or why it is refused. */
type TargetReading =
  | {
      readonly target: string
      readonly authority: string | null
      /** The path has an obfuscated dot segment. */ readonly hidesDots: boolean
    }
  | { readonly refusal: string }

const DOT_SEGMENT_REFUSAL = 'The path contains a dot segment; resolve it before sending.'

const ABSOLUTE = /^https?:\/\/([^/?]*)(.*)$/is
const PLAIN_DOT_SEGMENT = /(?:^|\/)\.{1,2}(?:$|\/)/
/**
 * A dot segment in any spelling. An encoded slash or backslash ends a segment too: `..%2f` climbs out on every upstream
 * that decodes before it resolves. So do `..;x`, where servlet containers drop parameters first, and `..%00`, where a C
 * string ends.
 */
const DOT_SEGMENT = /(?:^|\/|%2f|%5c)(?:\.|%2e){1,2}(?:$|[/;]|%2f|%5c|%3b|%00)/i

/**
 * Reads the target once: routes match and upstreams receive exactly the returned slice. Absolute-form becomes
 * origin-form, its authority in lower case for comparison with Host (RFC 9112, section 3.2.2). Other bytes stay
 * unchanged. The caller refuses a path that hides dot segments with `DOT_SEGMENT_REFUSAL`, except where it is never
 * resolved (decision 52).
 */
function readTarget(method: string, url: string): TargetReading {
  if (url.charCodeAt(0) === 0x2f) return read(url, null)
  if (url === '*')
    return { refusal: `The asterisk-form is not served, for ${method} or any other method; name a path.` }
  const match = ABSOLUTE.exec(url)
  if (match === null)
    return { refusal: 'The request target must be a path that begins with a slash, or an http address.' }
  const rest = match[2] ?? ''
  return read(rest.charCodeAt(0) === 0x2f ? rest : `/${rest}`, (match[1] ?? '').toLowerCase())
}

/** Anything that needs a check; most targets have none of it. */
const ODD = /[\0-\x20\x7f#\\.%]/

function read(target: string, authority: string | null): TargetReading {
  if (!ODD.test(target)) return { target, authority, hidesDots: false }
  let pathEnd = -1
  let suspicious = false
  for (let at = 0; at < target.length; at++) {
    const code = target.charCodeAt(at)
    if (code <= 0x20 || code === 0x7f)
      return { refusal: 'The request target contains a control character or a space; encode it with a percent sign.' }
    if (code === 0x23)
      return { refusal: 'The request target contains a fragment; leave out the # and what follows it.' }
    if (code === 0x5c) return { refusal: 'The request target contains a backslash; encode it as %5C.' }
    if (code === 0x3f) {
      if (pathEnd < 0) pathEnd = at
    } else if ((code === 0x2e || code === 0x25) && pathEnd < 0) suspicious = true
  }
  if (!suspicious) return { target, authority, hidesDots: false }
  const path = pathEnd < 0 ? target : target.slice(0, pathEnd)
  return PLAIN_DOT_SEGMENT.test(path)
    ? { refusal: DOT_SEGMENT_REFUSAL }
    : { target, authority, hidesDots: DOT_SEGMENT.test(path) }
}

/**
 * Name or address in brackets, then an optional port; RFC 9110, section 7.2, without sub-delims, escapes, userinfo or
 * an empty name.
 */
const HOST_AND_PORT = /^(?:\[[0-9a-f:.]+\]|[a-z0-9_-][a-z0-9._-]*)(?::([0-9]{1,5}))?$/

/**
 * Returns why a Host value (lower case) is refused, or null. Allowed are one name or address and a port from 1 to
 * 65535.
 */
function hostFault(host: string): string | null {
  const match = HOST_AND_PORT.exec(host)
  if (match === null)
    return host === ''
      ? 'The Host header is empty.'
      : 'The Host header must be one host name or address with an optional port.'
  const port = match[1]
  if (port === undefined) return null
  const number = Number(port)
  return number >= 1 && number <= 65535 ? null : 'The port in the Host header is out of range; ports are 1 to 65535.'
}

/** Bounds the work per path: each reader scans every character. */
const MAX_PATH = 8192

interface RawHead {
  readonly method?: string | undefined
  readonly url?: string | undefined
  readonly httpVersion: string
  readonly rawHeaders: string[]
}

export interface DoorRules {
  readonly headerCount: number
  /** The connection will switch protocols (Connection: upgrade). */
  readonly upgrading: boolean
  /**
   * Whether what serves this path treats a segment as text and never resolves it (decision 52). Only such paths may
   * hide a dot segment. `path` is raw, without the query.
   */
  takesAnySegment(method: string, host: string, path: string): boolean
}

/** Why a request is refused before any plugin runs. `message` names the fault and what is allowed. */
export class FrontDoorRefusal {
  readonly status: number
  readonly message: string

  constructor(status: number, message: string) {
    this.status = status
    this.message = message
  }
}

export class Admission {
  readonly method: string
  readonly target: string
  /** Lower case, with the port where one was given; empty for an HTTP/1.0 client without Host. */
  readonly host: string
  readonly httpVersion: '1.0' | '1.1'
  readonly headers: HeaderList
  /** Bytes of the body; 0 without one, null when chunked. */
  readonly length: number | null
  readonly expectsContinue: boolean
  readonly upgrade: string | null
  /** X-Correlation-Id, unchecked; null for none or several. */
  readonly correlation: string | null

  constructor(
    method: string,
    rawHeaders: string[],
    target: string,
    host: string,
    httpVersion: '1.0' | '1.1',
    length: number | null,
    expectsContinue: boolean,
    upgrade: string | null,
    correlation: string | null
  ) {
    this.method = method
    this.target = target
    this.host = host
    this.httpVersion = httpVersion
    this.headers = new HeaderList(rawHeaders)
    this.length = length
    this.expectsContinue = expectsContinue
    this.upgrade = upgrade
    this.correlation = correlation
  }
}

/** The parser also accepts the methods and versions of RTSP and ICE. */
const SERVED: ReadonlySet<string> = new Set(
  METHODS.filter(method => method !== 'TRACE' && method !== 'CONNECT' && method !== 'SOURCE')
)
const DIGITS = /^[0-9]{1,15}$/
const bad = (message: string): FrontDoorRefusal => new FrontDoorRefusal(400, message)

/**
 * Admits or refuses a request. The parser refuses most attacks on framing; this refuses the rest, so that router,
 * plugins and upstream share one reading.
 */
export function admit(head: RawHead, rules: DoorRules): Admission | FrontDoorRefusal {
  const { method = '', url = '', httpVersion, rawHeaders } = head
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return bad('Only HTTP/1.1 and HTTP/1.0 are spoken here.')
  // The method is known, and no resource has it (RFC 9110, 9.3.8).
  if (method === 'TRACE') return new FrontDoorRefusal(405, 'The method TRACE is not served.')
  if (!SERVED.has(method)) return bad(`The method ${method} is not served.`)
  if (rawHeaders.length > rules.headerCount * 2)
    return new FrontDoorRefusal(431, `The request has more than ${rules.headerCount} header lines.`)

  let host: string | null = null
  let contentLength: string | null = null
  let coding: string | null = null
  let authorization: string | null = null
  let authorizations: string[] | null = null
  let expectation: string | null = null
  let upgrade: string | null = null
  let correlation: string | null = null
  let correlations = 0
  let singles: string[] | null = null

  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    const kind = headerKind(name)
    if (kind === OTHER) continue
    const value = rawHeaders[at + 1] ?? ''
    switch (kind) {
      case HOST:
        if (host !== null) return bad('More than one Host header; send one.')
        host = value.toLowerCase()
        break
      case CONTENT_LENGTH:
        if (contentLength !== null) return bad('More than one Content-Length header; send one.')
        contentLength = value
        break
      case TRANSFER_ENCODING:
        if (coding !== null) return bad('More than one Transfer-Encoding header; send one.')
        coding = value
        break
      case AUTHORIZATION:
        if (authorization === null) authorization = value
        else if (authorizations === null) authorizations = [authorization, value]
        else authorizations.push(value)
        break
      case EXPECT:
        if (value.toLowerCase() !== '100-continue')
          return new FrontDoorRefusal(417, 'The only expectation that can be met is 100-continue.')
        expectation = value
        break
      case UPGRADE:
        upgrade = upgrade === null ? value : `${upgrade}, ${value}`
        break
      case CORRELATION:
        correlation = value
        correlations++
        break
      case SINGLE: {
        const lower = name.toLowerCase()
        if (singles === null) singles = [lower]
        else if (singles.includes(lower)) return bad(`More than one ${name} header; send one.`)
        else singles.push(lower)
        break
      }
      case NOT_A_TOKEN:
        return bad('A header name contains a character that is not allowed in names.')
    }
  }

  if (host === null) {
    if (httpVersion !== '1.0') return bad('The Host header is missing.')
  } else {
    const fault = hostFault(host)
    if (fault !== null) return bad(fault)
  }

  if (url.length > MAX_PATH && pathOf(url).length > MAX_PATH)
    return new FrontDoorRefusal(414, `The path is longer than ${MAX_PATH} characters.`)
  const reading = readTarget(method, url)
  if ('refusal' in reading) return bad(reading.refusal)
  // RFC 9112, section 3.2, requires Host from HTTP/1.1 on. HTTP/1.0 probes without it match the routes of any host.
  const authority = host ?? reading.authority ?? ''
  if (reading.authority !== null && (reading.authority !== authority || hostFault(authority) !== null))
    return bad('The authority of the request target differs from the Host header.')

  if (reading.hidesDots && !rules.takesAnySegment(method, authority, pathOf(reading.target)))
    return bad(DOT_SEGMENT_REFUSAL)

  let length: number | null = 0
  if (coding !== null) {
    if (httpVersion === '1.0') return bad('HTTP/1.0 has no Transfer-Encoding; send Content-Length.')
    if (contentLength !== null) return bad('Content-Length and Transfer-Encoding contradict each other; send one.')
    if (coding.toLowerCase() !== 'chunked') return bad('The only transfer coding accepted is chunked.')
    length = null
  } else if (contentLength !== null) {
    if (!DIGITS.test(contentLength)) return bad('Content-Length must be a number of bytes.')
    length = Number(contentLength)
  }

  if (authorizations !== null) {
    const refusal = authorizationFault(authorizations)
    if (refusal !== null) return bad(refusal)
  }
  if (rules.upgrading && length !== 0) return bad('A request that asks for an upgrade must not have a body.')

  // An HTTP/1.0 client cannot be sent a 100 (RFC 9110, section 10.1.1).
  const expectsContinue = expectation !== null && httpVersion === '1.1'
  return new Admission(
    method,
    rawHeaders,
    reading.target,
    authority,
    httpVersion,
    length,
    expectsContinue,
    rules.upgrading ? (upgrade ?? '').toLowerCase() : null,
    correlations === 1 ? correlation : null
  )
}

function pathOf(target: string): string {
  return target.split('?', 1)[0] ?? target
}

/**
 * Returns why the Authorization lines are refused, or null. At most one payment credential and one of another scheme
 * (decision 125). LSAT and L402 lines with the same credential count as one.
 */
export function authorizationFault(lines: readonly string[]): string | null {
  let others = 0
  let payments = 0
  let lsat: string | null = null
  let l402: string | null = null
  for (const line of lines) {
    const scheme = paymentScheme(line)
    if (scheme === null) others++
    else if (scheme === 'lsat' && lsat === null) lsat = schemeValue(line, scheme)
    else if (scheme === 'l402' && l402 === null) l402 = schemeValue(line, scheme)
    else payments++
  }
  if (lsat !== null && l402 !== null && spelled(lsat) !== spelled(l402))
    return 'The LSAT and the L402 credential differ; send one, or the same in both.'
  if (lsat !== null || l402 !== null) payments++
  if (payments > 1) return 'More than one payment credential in Authorization; send one.'
  if (others > 1) return 'More than one Authorization header; send one.'
  return null
}

/** Normalizes Base64: either alphabet, with or without padding, is the same credential. */
function spelled(credential: string): string {
  return credential.split(':').map(withoutPadding).join(':').replaceAll('+', '-').replaceAll('/', '_')
}

/** Trims by index: a regular expression anchored at the end is quadratic in the number of `=`. */
function withoutPadding(text: string): string {
  let end = text.length
  while (text.charCodeAt(end - 1) === 0x3d) end--
  return text.slice(0, end)
}

type HeaderKind = number

export const OTHER = 0
export const HOST = 1
const CONTENT_LENGTH = 2
const TRANSFER_ENCODING = 3
export const AUTHORIZATION = 4
const EXPECT = 5
export const UPGRADE = 6
const CORRELATION = 7
/** May appear once, because two readers would take two different values. */
const SINGLE = 8
const NOT_A_TOKEN = 9

const KINDS: ReadonlyMap<string, HeaderKind> = new Map<string, HeaderKind>([
  ['host', HOST],
  ['content-length', CONTENT_LENGTH],
  ['transfer-encoding', TRANSFER_ENCODING],
  ['authorization', AUTHORIZATION],
  ['expect', EXPECT],
  ['upgrade', UPGRADE],
  ['x-correlation-id', CORRELATION],
  ['content-type', SINGLE],
  ['x-payment', SINGLE],
  ['payment', SINGLE],
  ['macaroon', SINGLE],
  ['grpc-metadata-macaroon', SINGLE],
  ['x-api-key', SINGLE],
  ['idempotency-key', SINGLE],
  ['x-idempotency-key', SINGLE]
])

const table = new NameTable(decide)

function headerKind(name: string): HeaderKind {
  return table.of(name)
}

function decide(name: string): HeaderKind {
  if (!isToken(name)) return NOT_A_TOKEN
  const lower = name.toLowerCase()
  return KINDS.get(lower) ?? (lower.startsWith('payment-') ? SINGLE : OTHER)
}
