import type { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { MalformedBody } from '../operations/errors.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Keeping } from './allowance.ts'
import { askWhetherGone, takenBytes, type Watch, type Watched } from './deadlines.ts'
import type { Lane } from '../lane/lane.ts'
import { rawReply, rawReplyBytes } from './raw-reply.ts'
import type { Stopping } from '../message/wire.ts'
import { DISCARD, type ResponseWire, type WireConnection, type WireResponse } from './response-wire.ts'

/** A refusal of the front door, for the log and the measurements. */
export interface RefusalEvent {
  readonly status: number
  readonly message: string
  readonly peerAddress: string
  readonly correlationId: string
}

/** What a connection needs of its listener. */
export interface ConnectionHost {
  readonly draining: Stopping
  readonly clock: Clock
  /** What may be kept in memory for slow clients, and of bodies. */
  readonly keeping: Keeping
  /** Wall-clock milliseconds. */
  now(): number
  monotonic(): number
  /** The offered id where it is a good one, else a fresh one. */
  correlationId(offered: string | null): string
  refused(event: RefusalEvent): void
  /** Takes the next request of the connection: lets it in or refuses it. */
  take(connection: Connection, req: IncomingMessage, res: WireResponse): void
}

interface Waiting {
  readonly req: IncomingMessage
  readonly res: WireResponse
}

/** So many requests may wait behind the one being answered before the connection is read no further. */
const PIPELINE = 8

/**
 * One client connection. Its requests are answered one after the other, so that a request behind the one that closes
 * the connection is never looked at.
 */
export class Connection implements WireConnection, Watched {
  readonly socket: Socket
  readonly peerAddress: string
  /** The other end is a proxy that is believed. */
  readonly trusted: boolean
  readonly watch: Watch
  current: ResponseWire | null = null
  closing = false
  tunnelling = false
  served: boolean
  /** The request after which the parser lost bytes: its response closes the connection, so that none is misattributed. */
  lastRequest: IncomingMessage | null = null
  readonly #host: ConnectionHost
  readonly #waiting: Waiting[] = []
  #request: IncomingMessage | null = null
  #verdict: { readonly status: number; readonly message: string; readonly offered: string | null } | null = null

  /** Goes on with what `lane` has read and answered so far. */
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

  /** It is read no further until some of its requests are answered. */
  get crowded(): boolean {
    return this.#waiting.length >= PIPELINE
  }

  /** A request has come: it is taken now, or when those before it are answered. */
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

  /** The socket reads again. The parser lets it with each request that it has read to its end, however many wait. */
  readonly resumed = (): void => {
    if (this.crowded) this.socket.pause()
  }

  /** The client has ended its side. */
  readonly ended = (): void => {
    askWhetherGone(this)
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
    // What is wrong was found in the body of this one, when it had no reader yet.
    if (verdict !== null && this.#waiting.length === 0 && this.leftover) this.failBody(verdict.status, verdict.message)
  }

  /**
   * Answers on the bare socket, in its turn behind the responses that are under way, and takes nothing more from this
   * connection. `offered` is the client's own correlation id, where its head could be read.
   */
  refuse(status: number, message: string, offered: string | null = null): void {
    if (this.closing || this.#verdict !== null) return
    if (this.current === null && this.#waiting.length === 0) this.#write(status, message, offered)
    else this.#verdict = { status, message, offered }
  }

  /** The bytes of the request that is being answered are wrong or late: its reader is told, and it is the last. */
  failBody(status: number, message: string): void {
    this.closing = true
    this.current?.body.fail(new MalformedBody(status, message))
  }

  /** The other side of what the parser refuses: in the body of the current request, or in a head behind it. */
  malformed(status: number, message: string): void {
    if (this.current?.body.unfinished === true) this.failBody(status, message)
    else this.refuse(status, message)
  }

  /**
   * Takes the place of the socket's own `destroySoon`, which closes at once: with unread bytes of an upload that would
   * be a reset, and the client would lose the response. The deadlines end what stays.
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

/** What the refusal on a bare socket needs of the listener. */
export type RefusalHost = Pick<ConnectionHost, 'now' | 'correlationId' | 'refused'>

/** Tells of a refusal, answers it on the bare socket, and ends the connection. */
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

/** Refuses a request that Node has parsed, in its turn among the responses of its connection. */
export function refuseRequest(
  connection: Connection,
  req: IncomingMessage,
  res: WireResponse,
  reply: { readonly status: number; readonly headers: string[]; readonly body: string }
): void {
  connection.lastResponse()
  if (!req.complete) {
    let left = DISCARD
    req.on('data', (chunk: Buffer) => {
      left -= chunk.byteLength
      if (left < 0) req.pause()
    })
  }
  res.writeHead(reply.status, reply.headers)
  res.end(reply.body)
}
