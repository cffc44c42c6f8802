import type { Readable } from 'node:stream'
import { isToken, NameTable } from '../message/header-names.ts'

export interface UpstreamCall {
  readonly method: string
  readonly path: string
  readonly headers: readonly string[]
  readonly body: Uint8Array | Readable | null
}

/** Serialized, with the empty line. */
export interface RequestHead {
  readonly text: string
  /** Content-Length; -1 for a chunked body. */
  readonly length: number
  readonly last: boolean
}

/** A request that readers could interpret differently. Nothing of it was sent. */
export class RequestRefused extends Error {
  /** Why the path is not valid, which is the client's fault; null for a plugin's. */
  readonly pathFault: string | null

  constructor(why: string, pathFault: string | null = null) {
    super(`the request cannot be sent: ${why}`)
    this.name = 'RequestRefused'
    this.pathFault = pathFault
  }
}

const SENT = 0
const HOST = 1
const LENGTH = 2
/** Frames the message or the connection, which is decided here. */
const HOP = 3
const INVALID = 4
/** Must be listed in Connection too (RFC 9110 10.1.4). */
const TE = 5
const KINDS: ReadonlyMap<string, number> = new Map([
  ['host', HOST],
  ['content-length', LENGTH],
  ['expect', HOP],
  ['upgrade', HOP],
  ['connection', HOP],
  ['keep-alive', HOP],
  ['te', TE],
  ['transfer-encoding', HOP]
])
interface Line {
  readonly kind: number
  readonly start: string
}

const lines = new NameTable((name): Line => ({
  kind: isToken(name) ? (KINDS.get(name.toLowerCase()) ?? SENT) : INVALID,
  start: `\r\n${name}: `
}))

/** Invalid characters of a field value (RFC 9110 5.5). Characters beyond Latin-1 would be truncated to other bytes. */
const NO_VALUE = /[^\t\x20-\x7e\x80-\xff]/

/** Methods that announce even an empty body (RFC 9110 8.6). */
const PAYLOAD = new Set(['POST', 'PUT', 'PATCH', 'QUERY', 'PROPFIND', 'PROPPATCH'])
/** The longest number of bytes that is exact. */
const MAX_DIGITS = 15

/**
 * Serializes the head of a request, of which an `upstream` hook may have changed anything. Only this function decides the framing: one Content-Length, or chunks (RFC 9112 6).
 * `authority` is the default Host.
 * @throws RequestRefused for whatever could split or smuggle a request
 */
export function requestHead(call: UpstreamCall, authority: string): RequestHead {
  const { method, path, headers, body } = call
  if (method === 'CONNECT' || !isToken(method)) throw new RequestRefused('the method is not valid')
  const fault = pathFault(path)
  if (fault !== null) throw new RequestRefused(fault, fault)
  let sent = ''
  let host: string | null = null
  let announced = -1
  let listed = ''
  for (let at = 0; at < headers.length; at += 2) {
    // An even flat list: both exist.
    const name = headers[at] as string
    const value = headers[at + 1] as string
    const { kind, start } = lines.of(name)
    if (kind === INVALID) throw new RequestRefused('the name of a header is not valid')
    if (NO_VALUE.test(value)) throw new RequestRefused('the value of a header is not valid')
    // Two pieces per line: see the lane's head.
    if (kind === SENT) sent = sent + start + value
    else if (kind === TE) {
      sent = sent + start + value
      listed = ', TE'
    } else if (kind === HOST) {
      if (host !== null) throw new RequestRefused('there is more than one Host')
      host = value
    } else if (kind === LENGTH) {
      if (announced >= 0) throw new RequestRefused('there is more than one Content-Length')
      if (value.length > MAX_DIGITS || !/^\d+$/.test(value)) throw new RequestRefused('Content-Length is not a number')
      announced = Number(value)
    } else throw new RequestRefused(`${name.toLowerCase()} cannot be set on a forwarded request`)
  }
  let length = 0
  let framing = ''
  if (body !== null && body instanceof Uint8Array) {
    length = body.byteLength
    if (length > 0 && announced >= 0 && announced !== length)
      throw new RequestRefused('Content-Length is not the length of the body')
  } else if (body !== null) length = announced
  const payload = PAYLOAD.has(method)
  if (length < 0) framing = '\r\ntransfer-encoding: chunked'
  else if (length > 0 || payload) framing = `\r\ncontent-length: ${length}`
  // A body after HEAD, or one that a server leaves unread, would desynchronize the next request.
  const last = method === 'HEAD' || (length !== 0 && !payload)
  return {
    text: `${method} ${path} HTTP/1.1\r\nhost: ${host ?? authority}${last ? '\r\nconnection: close' : '\r\nconnection: keep-alive'}${listed}${sent}${framing}\r\n\r\n`,
    length,
    last
  }
}

const NO_PATH = /[^\x21-\xff]/

function pathFault(path: string): string | null {
  if (!path.startsWith('/')) return 'the path does not begin with a slash'
  return NO_PATH.test(path) ? 'the path holds a space, a control character or one beyond Latin-1' : null
}
