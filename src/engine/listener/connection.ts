import type { IncomingMessage, ServerResponse } from 'node:http'
import { detectDisconnect, type Watch } from './deadlines.ts'
import { HttpConnection, type HttpHost } from './http-connection.ts'
import type { Lane } from '../lane/lane.ts'

interface ConnectionHost extends HttpHost {
  take(connection: Connection, req: IncomingMessage, res: ServerResponse): void
}

interface Waiting {
  readonly req: IncomingMessage
  /** Node's place for the response; it takes up the next request with its `finish`. */
  readonly res: ServerResponse
}

/** Requests that may wait behind the current one before reading pauses. */
const PIPELINE = 8

/**
 * One client connection that node:http reads. Serves its requests in order, so that a request behind the one that closes
 * the connection is never read.
 */
export class Connection extends HttpConnection {
  readonly watch: Watch
  tunnelling = false
  /**
   * The request after which the parser lost bytes: its response closes the connection, so later responses cannot be misattributed.
   */
  lastRequest: IncomingMessage | null = null
  readonly #host: ConnectionHost
  readonly #waiting: Waiting[] = []
  #serving: Waiting | null = null
  #verdict: { readonly status: number; readonly message: string; readonly offered: string | null } | null = null

  /** Continues from what `lane` has read and answered. */
  constructor(lane: Lane, host: ConnectionHost) {
    super(lane.socket, lane.peerAddress, lane.trusted, host)
    this.watch = lane.watch
    this.served = lane.served
    this.#host = host
    this.socket.on('drain', this.drained)
    this.socket.on('close', () => {
      this.closed()
    })
  }

  get leftover(): boolean {
    return this.#serving?.req.complete === false
  }

  /** Reading pauses until some requests are answered. */
  get crowded(): boolean {
    return this.#waiting.length >= PIPELINE
  }

  arrive(req: IncomingMessage, res: ServerResponse): void {
    if (this.closing || this.#verdict !== null) return
    if (this.lastRequest !== null && this.lastRequest !== req) return
    if (this.current === null && this.#waiting.length === 0) this.#serve({ req, res })
    else {
      this.#waiting.push({ req, res })
      if (this.crowded) this.socket.pause()
    }
  }

  #serve(next: Waiting): void {
    this.#serving = next
    this.#host.take(this, next.req, next.res)
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
    this.#serving = null
  }

  override lastResponse(): void {
    this.closing = true
    this.#waiting.length = 0
  }

  protected override get isLast(): boolean {
    return this.#serving?.res.shouldKeepAlive !== true
  }

  protected override finished(): void {
    this.#serving?.res.emit('finish')
  }

  override settled(): void {
    this.rest()
    if (this.socket.destroyed || this.closing) return
    const next = this.#waiting.shift()
    const verdict = this.#verdict
    if (next === undefined) {
      if (verdict !== null) this.#write(verdict.status, verdict.message, verdict.offered)
      else if (this.draining !== false && !this.leftover) this.socket.destroySoon()
      return
    }
    if (!this.crowded && this.socket.isPaused()) this.socket.resume()
    this.#serve(next)
    // The fault was in this request's body, found before it had a reader.
    if (verdict !== null && this.#waiting.length === 0 && this.leftover) this.failBody(verdict.status, verdict.message)
  }

  /**
   * Answers on the bare socket after the responses in flight, and reads no further request. `offered` is the client's
   * correlation id, where its head was readable.
   */
  override refuse(status: number, message: string, offered: string | null = null): void {
    if (this.closing || this.#verdict !== null) return
    if (this.current === null && this.#waiting.length === 0) this.#write(status, message, offered)
    else this.#verdict = { status, message, offered }
  }

  /** A parser error in the current request's body, or in a head behind it. */
  malformed(status: number, message: string): void {
    if (this.current?.body.unfinished === true) this.failBody(status, message)
    else this.refuse(status, message)
  }

  #write(status: number, message: string, offered: string | null): void {
    this.lastResponse()
    this.writeRefusal(status, message, offered)
  }
}
