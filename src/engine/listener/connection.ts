import type { Context } from '../message/context.ts'
import { isLocalCaller } from '../message/caller.ts'
import { type IncomingMessage, STATUS_CODES } from 'node:http'
import { Socket } from 'node:net'
import { MalformedBody, API_VERSION } from '../operations/errors.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Keeping } from './allowance.ts'
import { detectDisconnect, takenBytes, type Watch, type Watched } from './deadlines.ts'
import type { Lane } from '../lane/lane.ts'
import type { Stopping, Wire } from '../message/wire.ts'
import { DISCARD, type ResponseWire, type WireConnection, type WireResponse } from './response-wire.ts'

export interface RefusalEvent {
  readonly status: number
  readonly message: string
  readonly peerAddress: string
  readonly correlationId: string
}

export interface ConnectionHost {
  readonly draining: Stopping
  readonly clock: Clock
  readonly keeping: Keeping
  /** Wall-clock milliseconds. */
  now(): number
  monotonic(): number
  /** The offered id where it is acceptable, else a fresh one. */
  correlationId(offered: string | null): string
  refused(event: RefusalEvent): void
  take(connection: Connection, req: IncomingMessage, res: WireResponse): void
}

interface Waiting {
  readonly req: IncomingMessage
  readonly res: WireResponse
}

/** Requests that may wait behind the current one before reading pauses. */
const PIPELINE = 8

/**
 * One client connection. Serves its requests in order, so that a request behind the one that closes the connection is
 * never read.
 */
export class Connection implements WireConnection, Watched {
  readonly socket: Socket
  readonly peerAddress: string
  readonly trusted: boolean
  readonly watch: Watch
  current: ResponseWire | null = null
  closing = false
  tunnelling = false
  served: boolean
  /**
   * The request after which the parser lost bytes: its response closes the connection, so later responses cannot be misattributed.
   */
  lastRequest: IncomingMessage | null = null
  readonly #host: ConnectionHost
  readonly #waiting: Waiting[] = []
  #request: IncomingMessage | null = null
  #verdict: { readonly status: number; readonly message: string; readonly offered: string | null } | null = null

  /** Continues from what `lane` has read and answered. */
  constructor(lane: Lane, host: ConnectionHost) {
    this.socket = lane.socket
    this.peerAddress = lane.peerAddress
    this.trusted = lane.trusted
    this.watch = lane.watch
    this.served = lane.served
    this.#host = host
  }

  get draining(): Stopping {
    return this.#host.draining
  }

  get clock(): Clock {
    return this.#host.clock
  }

  get keeping(): Keeping {
    return this.#host.keeping
  }

  get leftover(): boolean {
    return this.#request !== null && !this.#request.complete
  }

  get taken(): number {
    return takenBytes(this.socket)
  }

  /** Reading pauses until some requests are answered. */
  get crowded(): boolean {
    return this.#waiting.length >= PIPELINE
  }

  arrive(req: IncomingMessage, res: WireResponse): void {
    if (this.closing || this.#verdict !== null) return
    if (this.lastRequest !== null && this.lastRequest !== req) return
    if (this.current === null && this.#waiting.length === 0) {
      this.#request = req
      this.#host.take(this, req, res)
      return
    }
    this.#waiting.push({ req, res })
    if (this.#waiting.length >= PIPELINE) this.socket.pause()
  }

  /** The parser resumes the socket after each complete request, however many wait. */
  readonly resumed = (): void => {
    if (this.crowded) this.socket.pause()
  }

  readonly ended = (): void => {
    detectDisconnect(this)
  }

  /** The socket no longer belongs to the parser, so no message of it can be unfinished. */
  upgraded(): void {
    this.#request = null
  }

  lastResponse(): void {
    this.closing = true
    this.#waiting.length = 0
  }

  settled(wire: ResponseWire): void {
    if (this.current !== wire) return
    this.current = null
    this.served = true
    this.watch.idle(this.#host.monotonic(), this.socket.bytesRead)
    if (this.socket.destroyed) return
    if (this.closing) return
    const next = this.#waiting.shift()
    if (next === undefined) {
      const verdict = this.#verdict
      if (verdict !== null) this.#write(verdict.status, verdict.message, verdict.offered)
      else if (this.draining !== false && !this.leftover) this.socket.destroySoon()
      return
    }
    if (this.#waiting.length < PIPELINE && this.socket.isPaused()) this.socket.resume()
    this.#request = next.req
    this.#host.take(this, next.req, next.res)
    const verdict = this.#verdict
    // The fault was in this request's body, found before it had a reader.
    if (verdict !== null && this.#waiting.length === 0 && this.leftover) this.failBody(verdict.status, verdict.message)
  }

  /**
   * Answers on the bare socket after the responses in flight, and reads no further request. `offered` is the client's
   * correlation id, where its head was readable.
   */
  refuse(status: number, message: string, offered: string | null = null): void {
    if (this.closing || this.#verdict !== null) return
    if (this.current === null && this.#waiting.length === 0) this.#write(status, message, offered)
    else this.#verdict = { status, message, offered }
  }

  /** Fails the current request's body as malformed or late; that request is the last. */
  failBody(status: number, message: string): void {
    this.closing = true
    this.current?.body.fail(new MalformedBody(status, message))
  }

  /** A parser error in the current request's body, or in a head behind it. */
  malformed(status: number, message: string): void {
    if (this.current?.body.unfinished === true) this.failBody(status, message)
    else this.refuse(status, message)
  }

  /**
   * Replaces the socket's `destroySoon`. With unread bytes of an upload that would send a reset, and the client would
   * lose the response. The deadlines close what remains.
   */
  finishSoon(): void {
    this.lastResponse()
    if (!this.leftover) {
      Socket.prototype.destroySoon.call(this.socket)
      return
    }
    this.socket.end()
  }

  #write(status: number, message: string, offered: string | null): void {
    this.closing = true
    this.#waiting.length = 0
    writeRefusal(this.socket, this.peerAddress, this.#host, status, message, offered)
  }
}

export type RefusalHost = Pick<ConnectionHost, 'now' | 'correlationId' | 'refused'>

export function writeRefusal(
  socket: Socket,
  peerAddress: string,
  host: RefusalHost,
  status: number,
  message: string,
  offered: string | null
): void {
  const correlationId = host.correlationId(offered)
  host.refused({ status, message, peerAddress, correlationId })
  if (socket.writable) socket.end(rawReplyBytes(rawReply(status, message, correlationId), host.now()))
  else socket.destroy()
}

export function refuseRequest(
  connection: Connection,
  req: IncomingMessage,
  res: WireResponse,
  reply: { readonly status: number; readonly headers: string[]; readonly body: string }
): void {
  connection.lastResponse()
  let left = DISCARD
  req.on('data', (chunk: Buffer) => {
    left -= chunk.byteLength
    if (left < 0) req.pause()
  })
  res.writeHead(reply.status, reply.headers)
  res.end(reply.body)
}

/** A response given before there is a context, always the last on its connection. */
interface RawReply {
  readonly status: number
  readonly headers: string[]
  readonly body: string
}

/**
 * `{error, message}` with the two headers of every response (contract, Errors and Versioning; decision 13). `error` is
 * the name of the status.
 */
export function rawReply(status: number, message: string, correlationId: string): RawReply {
  const notAllowed = status === 405
  const error = notAllowed ? 'Method not allowed' : (STATUS_CODES[status] ?? 'Error')
  const body = JSON.stringify({ error, message })
  return {
    status,
    headers: [
      'Content-Type',
      'application/json; charset=utf-8',
      'Content-Length',
      String(Buffer.byteLength(body)),
      'X-API-Version',
      API_VERSION,
      'X-Correlation-Id',
      correlationId,
      'Cache-Control',
      'no-store',
      'Connection',
      'close',
      // No route was matched yet, so these are the methods a route can have.
      ...(notAllowed ? ['Allow', 'DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT'] : [])
    ],
    body
  }
}

/** The response as bytes, for a connection whose parser has failed. `now` in wall-clock milliseconds. */
export function rawReplyBytes(reply: RawReply, now: number): string {
  let text = `HTTP/1.1 ${reply.status} ${STATUS_CODES[reply.status] ?? 'Unknown'}\r\nDate: ${new Date(now).toUTCString()}\r\n`
  for (let at = 0; at < reply.headers.length; at += 2) text += `${reply.headers[at]}: ${reply.headers[at + 1]}\r\n`
  return `${text}\r\n${reply.body}`
}

export function parseFault(code: string | undefined): { readonly status: number; readonly message: string } {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return { status: 431, message: 'The request head is too large.' }
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return { status: 413, message: 'The chunk extensions of the request body are too large.' }
    case 'HPE_INVALID_VERSION':
    case 'HPE_PAUSED_H2_UPGRADE':
      return { status: 400, message: 'Only HTTP/1.1 and HTTP/1.0 are spoken here.' }
    case 'HPE_INVALID_METHOD':
      return { status: 400, message: 'The request method is not known.' }
    case 'HPE_INVALID_URL':
      return { status: 400, message: 'The request target is malformed.' }
    case 'HPE_INVALID_HEADER_TOKEN':
      return { status: 400, message: 'A header line is malformed.' }
    case 'HPE_INVALID_CONTENT_LENGTH':
    case 'HPE_UNEXPECTED_CONTENT_LENGTH':
      return { status: 400, message: 'Content-Length is malformed or contradicts another header.' }
    case 'HPE_INVALID_TRANSFER_ENCODING':
      return { status: 400, message: 'Transfer-Encoding is malformed or contradicts another header.' }
    case 'HPE_INVALID_CHUNK_SIZE':
      return { status: 400, message: 'The chunked request body is malformed.' }
    default:
      return { status: 400, message: 'The request is malformed.' }
  }
}

/** Redirects requests in the clear to HTTPS with their method (308). */
export class ToHttps {
  readonly #first: string
  readonly #origins: ReadonlyMap<string, string>

  /** The first of the origins is for hosts of none. */
  constructor(origins: readonly [string, ...string[]]) {
    this.#first = origins[0]
    this.#origins = new Map(origins.map(origin => [new URL(origin).hostname, origin]))
  }

  /** Serves this machine, and a proxy's own requests, such as health checks, which have no X-Forwarded-Proto. */
  takes(ctx: Context, isTrusted: boolean): boolean {
    return !isLocalCaller(ctx) && !(isTrusted && !ctx.headers.has('x-forwarded-proto'))
  }

  answer({ host, target, correlationId }: Context, wire: Wire): void {
    const origin = this.#origins.get(host.replace(/:\d*$/, '').toLowerCase()) ?? this.#first
    const { status, headers, body } = rawReply(308, `This address is served at ${origin}.`, correlationId)
    wire.listener = UNINTERESTED
    wire.head(status, ['Location', `${origin}${target}`, ...headers])
    wire.end(body, null)
  }
}

const nothing = (): void => undefined
const UNINTERESTED = Object.freeze({ drained: nothing, stopping: nothing, closed: nothing })
