import { METHODS } from 'node:http'
import { HeaderList } from '../message/headers.ts'
import { authorizationFault } from './authorization-lines.ts'
import {
  AUTHORIZATION,
  CONTENT_LENGTH,
  CORRELATION,
  EXPECT,
  HOST,
  headerKind,
  NOT_A_TOKEN,
  OTHER,
  SINGLE,
  TRANSFER_ENCODING,
  UPGRADE
} from './header-kinds.ts'
import { hostFault } from './host.ts'
import { DOT_SEGMENT_REFUSAL, readTarget } from './request-target.ts'

/** Longest path. Each reader of it looks at every character, and those of routes and prices at every escape. */
const MAX_PATH = 8192

/** The head of a request as the parser gives it. */
export interface RawHead {
  readonly method?: string | undefined
  readonly url?: string | undefined
  /** `1.1`, or whatever the request line said. */
  readonly httpVersion: string
  /** `[name, value, …]` in the order of the wire. */
  readonly rawHeaders: string[]
}

/** What the front door asks of a head. */
export interface DoorRules {
  /** Most header lines. */
  readonly headerCount: number
  /** The connection is about to be handed over to another protocol (Connection: upgrade). */
  readonly upgrading: boolean
  /**
   * Whether what serves this path takes a segment for a text and never resolves it, as our own operations do (decision
   * 52). Only such paths may hide a dot segment. `path` is raw, without the query.
   */
  takesAnySegment(method: string, host: string, path: string): boolean
}

/** Why a request is refused before any plugin runs. `message` says what was wrong and what would be right. */
export class FrontDoorRefusal {
  readonly status: number
  readonly message: string

  constructor(status: number, message: string) {
    this.status = status
    this.message = message
  }
}

/** A head that was let in, and what was learnt on the way. */
export class Admission {
  readonly method: string
  /** Origin-form, byte for byte. */
  readonly target: string
  /** Lower case, with its port where one was named; empty where an HTTP/1.0 client named none. */
  readonly host: string
  readonly httpVersion: '1.0' | '1.1'
  readonly headers: HeaderList
  /** Bytes of the body; 0 without one, null when it is chunked. */
  readonly length: number | null
  /** The client sent Expect: 100-continue, with a body or without. */
  readonly expectsContinue: boolean
  /** Protocol asked for, lower case; null on a plain request. */
  readonly upgrade: string | null
  /** The client's own X-Correlation-Id, unchecked; null when there is none or more than one. */
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

/** The parser also knows the methods of RTSP and ICE, and takes their versions for HTTP's. */
const SERVED: ReadonlySet<string> = new Set(
  METHODS.filter(method => method !== 'TRACE' && method !== 'CONNECT' && method !== 'SOURCE')
)
const DIGITS = /^[0-9]{1,15}$/
const bad = (message: string): FrontDoorRefusal => new FrontDoorRefusal(400, message)

/**
 * Lets a request in or refuses it. The parser has already refused most attacks on framing; this catches the rest, so
 * that router, plugins and upstream all see the one reading that is possible. Walks the headers once.
 */
export function admit(head: RawHead, rules: DoorRules): Admission | FrontDoorRefusal {
  const { method = '', url = '', httpVersion, rawHeaders } = head
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return bad('Only HTTP/1.1 and HTTP/1.0 are spoken here.')
  // Nothing here reflects requests: the method is known, and no resource has it (RFC 9110, 9.3.8).
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
  // RFC 9112, section 3.2, asks for Host from HTTP/1.1 on: probes that speak 1.0 have the routes of any host.
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

  // An HTTP/1.0 client cannot be sent a 100, whatever it expects (RFC 9110, section 10.1.1).
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
