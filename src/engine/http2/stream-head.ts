import type { OutgoingHttpHeaders } from 'node:http2'
import { headerLine } from '../lane/reply-framing.ts'

/** A request head as the front door reads it. */
interface StreamHead {
  readonly method: string
  readonly url: string
  readonly httpVersion: '1.1'
  readonly rawHeaders: string[]
}

/**
 * Reads a head as HTTP/1.1 would have it: `:authority` as Host, crumbs of Cookie joined (RFC 9113, sections 8.2.3 and
 * 8.3.1), and Transfer-Encoding for a body of unknown length. nghttp2 has refused malformed pseudo-headers and headers
 * of connections.
 */
export function readStreamHead(raw: readonly string[], hasBody: boolean): StreamHead {
  let method = ''
  let url = ''
  let authority: string | null = null
  let cookie: string | null = null
  let isMeasured = false
  const rawHeaders: string[] = []
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at] ?? ''
    const value = raw[at + 1] ?? ''
    switch (name) {
      case ':method':
        method = value
        break
      case ':path':
        url = value
        break
      case ':authority':
        authority = value
        rawHeaders.push('host', value)
        break
      case ':scheme':
        break
      case 'cookie':
        cookie = cookie === null ? value : `${cookie}; ${value}`
        break
      case 'host':
        // The same again says nothing; another one is refused as a second Host.
        if (value !== authority) rawHeaders.push(name, value)
        break
      case 'content-length':
        isMeasured = true
        rawHeaders.push(name, value)
        break
      default:
        rawHeaders.push(name, value)
    }
  }
  if (cookie !== null) rawHeaders.push('cookie', cookie)
  if (hasBody && !isMeasured) rawHeaders.push('transfer-encoding', 'chunked')
  return { method, url, httpVersion: '1.1', rawHeaders }
}

/** Headers of an HTTP/1.1 connection, which HTTP/2 must not have (RFC 9113, section 8.2.2). */
const OF_CONNECTION: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade'
])

/**
 * Headers or trailers from a flat list.
 * @throws like Node for an invalid name or value
 */
export function streamHeaders(flat: readonly string[]): OutgoingHttpHeaders {
  const headers = Object.create(null) as OutgoingHttpHeaders /* without a prototype, so that no name is inherited */
  for (let at = 0; at < flat.length; at += 2) {
    const name = (flat[at] ?? '').toLowerCase()
    const value = flat[at + 1] ?? ''
    if (OF_CONNECTION.has(name)) continue
    headerLine(name, value)
    const before = headers[name]
    if (before === undefined) headers[name] = value
    else if (Array.isArray(before)) before.push(value)
    else headers[name] = [String(before), value]
  }
  return headers
}
