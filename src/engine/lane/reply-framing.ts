import { validateHeaderName, validateHeaderValue } from 'node:http'
import { tableOf } from '../message/header-names.ts'

export const FRAMED = 1
export const CLOSES = 2
export const DATED = 4
export const EMPTY = 8

const KEPT = 0
const LENGTH = 1
const CODING = 2
const CONNECTION = 3
const TRAILER = 4
const DATE = 5
const kinds = tableOf(
  new Map<string, number>([
    ['content-length', LENGTH],
    ['transfer-encoding', CODING],
    ['connection', CONNECTION],
    ['trailer', TRAILER],
    ['date', DATE]
  ]),
  KEPT
)

const CLOSE = /(?:^|,)[ \t]*close[ \t]*(?:,|$)/i

/**
 * Removes the connection's own headers from a response, so that the wire alone decides framing and persistence; returns
 * what was seen. `silent`: no body. `old`: the client speaks HTTP/1.0.
 */
export function frameReply(headers: string[], status: number, silent: boolean, old: boolean): number {
  let seen = 0
  let announces = false
  for (let at = 0; at < headers.length;) {
    const kind = kinds.of(headers[at] ?? '')
    if (kind !== KEPT) {
      if (
        kind === CODING ||
        kind === CONNECTION ||
        (kind === LENGTH && status === 204) ||
        (kind === TRAILER && (silent || old))
      ) {
        if (kind === CONNECTION && CLOSE.test(headers[at + 1] ?? '')) seen |= CLOSES
        headers.splice(at, 2)
        continue
      }
      if (kind === LENGTH) seen |= FRAMED
      else if (kind === TRAILER) announces = true
      else seen |= DATED
    }
    at += 2
  }
  if (status === 205 && (seen & FRAMED) === 0) {
    headers.push('Content-Length', '0')
    // RFC 9110 15.3.6. A body sent anyway would be read as the next response.
    seen |= FRAMED | EMPTY
  }
  // Trailers cannot follow a body that has a length.
  if (announces && (seen & FRAMED) !== 0) dropTrailer(headers)
  return seen
}

/** Throws, like Node, on an invalid header. */
export function headerLine(name: string, value: string): string {
  validateHeaderName(name)
  validateHeaderValue(name, value)
  return `${name}: ${value}\r\n`
}

function dropTrailer(headers: string[]): void {
  for (let at = headers.length - 2; at >= 0; at -= 2) {
    if (kinds.of(headers[at] ?? '') === TRAILER) headers.splice(at, 2)
  }
}
