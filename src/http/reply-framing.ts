import { validateHeaderName, validateHeaderValue } from 'node:http'

/** What was learnt of the headers of an answer; any number of these in one number. */
export const FRAMED = 1
/** The headers ask for the connection to end. */
export const CLOSES = 2
export const DATED = 4
/** It has no body, whatever comes behind its head. */
export const EMPTY = 8

const CLOSE = /(?:^|,)\s*close\s*(?:,|$)/i

/**
 * Takes out of an answer's headers what is the connection's own matter, so that the wire alone decides on framing and
 * persistence; answers what was seen. `silent`: the answer has no body. `old`: the client speaks HTTP/1.0.
 */
export function frameReply (headers: string[], status: number, silent: boolean, old: boolean): number {
  let seen = 0
  let announces = false
  for (let at = 0; at < headers.length;) {
    const name = headers[at] ?? ''
    const length = name.length
    // Only names of these lengths matter here: date, trailer, connection, content-length, transfer-encoding.
    if (length === 4 || length === 7 || length === 10 || length === 14 || length === 17) {
      const lower = name.toLowerCase()
      if (lower === 'transfer-encoding' || (lower === 'content-length' && status === 204) || (lower === 'trailer' && (silent || old))) {
        headers.splice(at, 2)
        continue
      }
      if (lower === 'connection') {
        if (CLOSE.test(headers[at + 1] ?? '')) seen |= CLOSES
        headers.splice(at, 2)
        continue
      }
      if (lower === 'content-length') seen |= FRAMED
      else if (lower === 'trailer') announces = true
      else if (lower === 'date') seen |= DATED
    }
    at += 2
  }
  if (status === 205 && (seen & FRAMED) === 0) {
    headers.push('Content-Length', '0')
    // RFC 9110 15.3.6. An upstream may send a body all the same, which would be read as the next answer.
    seen |= FRAMED | EMPTY
  }
  // Trailers cannot follow a body that has a length.
  if (announces && (seen & FRAMED) !== 0) dropTrailer(headers)
  return seen
}

/** A header line as text. Throws as Node does on what would break the line. */
export function headerLine (name: string, value: string): string {
  validateHeaderName(name)
  validateHeaderValue(name, value)
  return `${name}: ${value}\r\n`
}

function dropTrailer (headers: string[]): void {
  for (let at = headers.length - 2; at >= 0; at -= 2) {
    if (headers[at]?.length === 7 && headers[at]?.toLowerCase() === 'trailer') headers.splice(at, 2)
  }
}
