import type { Readable } from 'node:stream'
import type { Context } from '../message/context.ts'
import { clientNetwork } from '../message/addresses.ts'
import { REQUEST_TIMEOUT } from '../operations/error-kinds.ts'
import { ClientGone, GatewayError, LongError, ResponseTooLarge } from '../operations/errors.ts'
import type { Responder } from '../pipeline/responder.ts'
import { HeaderList } from '../message/headers.ts'
import type { UpstreamTarget } from '../pipeline/target.ts'
import { Deadlines, type Waiting } from './deadlines.ts'
import type { UpstreamBreakers } from './breakers.ts'
import { badGateway, faultCode, gatewayTimeout, isOfUpstream, isUnreachable, upstreamFailure } from './failure.ts'
import { responseHeaders, responseTrailers } from './response-policy.ts'
import type { CallController, CallHandler } from './connection.ts'
import type { Upstream } from './pool.ts'
import type { UpstreamCall } from './request-head.ts'

/** Interim responses that are passed on before the upstream is taken for a broken one. */
const MAX_INTERIM = 32
/** Bytes that a client sends at least in one tick, while others wait for its connection: 10 KB a second. */
const LEAST_PIECE = 1000
/**
 * Ticks that the upstream may have waited for the client, at once and in all, when it breaks off through a fault of its
 * own: servers give up on clients that read slowly.
 */
const LONG_PAUSE = 10
const LONG_PAUSES = 50
/** Largest announced body of a paid response that is held until it is whole, so that a failure of it is answered. */
const HELD_BODY = 16 * 1024
const STILL_GOOD = 'The payment is still good: send the request again with the same credential.'
/** Requests that may be sent twice (RFC 9110 9.2.2). */
export const IDEMPOTENT: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'])
/** Faults of a connection that the upstream has closed. */
const CLOSED: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'UPSTREAM_CLOSED'])

/**
 * Takes one response of an upstream and writes it straight to the client, piece by piece. It waits for nothing but the
 * client: each piece is handed on as it comes, and a client that does not take it pauses the upstream.
 */
export class Sink implements CallHandler, Waiting {
  touched: number
  place = -1
  readonly patience: number
  readonly #ctx: Context
  readonly #responder: Responder
  readonly #target: UpstreamTarget
  readonly #upstream: Upstream
  readonly #deadlines: Deadlines
  readonly #breakers: UpstreamBreakers | null
  /** What is sent; null once it is answered, for a long response would keep its headers and its body as long. */
  #request: UpstreamCall | null
  /** The body of the request, while it is streamed. */
  readonly #body: Readable | null
  /** The connection, from the sending of the request to the end of its response. */
  #controller: CallController | null = null
  #sent = false
  #headSeen = false
  /** A hook takes its time with the head; pieces are kept until it is written. */
  #waiting = false
  /** The head of a paid response waits for a small body, or for what comes in the same turn; pieces are kept. */
  #heldHead: { readonly status: number; readonly headers: HeaderList } | null = null
  #held: Uint8Array[] = []
  #ended = false
  #trailers: string[] | null = null
  #failed: Error | null = null
  #paused = false
  /** The tick in which the request went out, and that since which the client takes nothing. */
  #startedAt = 0
  #pausedAt = 0
  /** Ticks that the upstream waited for the client: the longest time, and in all. */
  #longestPause = 0
  #pauses = 0
  #over = false
  #retried = false
  #interims = 0
  #received = 0

  constructor(
    ctx: Context,
    responder: Responder,
    target: UpstreamTarget,
    upstream: Upstream,
    deadlines: Deadlines,
    request: UpstreamCall,
    body: Readable | null,
    breakers: UpstreamBreakers | null = null
  ) {
    this.#ctx = ctx
    this.#responder = responder
    this.#target = target
    this.#upstream = upstream
    this.#deadlines = deadlines
    this.#breakers = breakers
    this.#request = request
    this.#body = body
    this.touched = deadlines.tick
    this.patience = Deadlines.ticks(target.timeout)
  }

  /** Sends the request. */
  start(): void {
    // The one closure that the responder's contract asks of each request.
    this.#responder.onClose = () => {
      this.#close()
    }
    // Without a listener an error while the request waits in the pool's queue would end the process.
    this.#body?.on('error', (error: Error) => {
      this.#stop(error)
    })
    this.#deadlines.add(this)
    if (this.#request !== null) this.#upstream.pool.dispatch(this.#request, this)
  }

  /**
   * The head's time does not run while the client is still sending and the upstream takes what comes, nor the body's
   * while the client is the one that does not take it.
   */
  get suspended(): boolean {
    if (this.#headSeen) return this.#paused || this.#waiting
    return this.#body !== null && this.#controller !== null && !this.#sent && !this.#body.isPaused()
  }

  expire(): void {
    this.#stop(
      gatewayTimeout(
        this.#target,
        this.#headSeen ? 'the upstream fell silent in the middle of its answer' : 'no answer came in time'
      )
    )
  }

  get over(): boolean {
    return this.#over
  }

  get client(): string {
    return clientNetwork(this.#ctx.clientAddress)
  }

  get dawdling(): number {
    const { tick } = this.#deadlines
    if (this.#headSeen) return this.#paused ? tick - this.#pausedAt : 0
    if (this.#body === null || this.#sent || this.#body.isPaused()) return 0
    const ticks = tick - this.#startedAt
    return this.#ctx.body.received < ticks * LEAST_PIECE ? ticks : 0
  }

  giveUp(): void {
    this.#stop(
      new LongError(
        REQUEST_TIMEOUT,
        'Request Timeout',
        'The request body arrived too slowly while others waited for the upstream.',
        this.#target.errorMembers
      )
    )
  }

  onRequestStart(controller: CallController): void {
    this.#controller = controller
    if (!controller.isStale) this.#request = null
    this.touched = this.#startedAt = this.#deadlines.tick
  }

  onBodySent(): void {
    this.touched = this.#deadlines.tick
  }

  onRequestSent(): void {
    this.#sent = true
  }

  onResponseStart(controller: CallController, status: number): void {
    if (this.#over) return
    this.#request = null
    const head = responseHeaders(controller.rawHeaders, status, this.#target.untrusted, controller.httpVersion)
    if (status < 200) {
      this.#interim(status, head.pairs)
      return
    }
    this.#headSeen = true
    this.#breakers?.answered(this.#ctx, this.#target)
    this.touched = this.#deadlines.tick
    if (head.undecodable) {
      this.#stop(
        badGateway(
          this.#target,
          'The upstream did not give a usable answer.',
          'its answer has a transfer coding other than chunked'
        )
      )
      return
    }
    const limit = this.#target.responseLimit
    if (head.length > limit && this.#ctx.method !== 'HEAD' && status !== 304) {
      this.#stop(this.#tooLarge())
      return
    }
    const headers = new HeaderList(head.pairs)
    const set = this.#target.responseHeaders
    for (let at = 0; at < set.length; at += 2) headers.set(set[at] ?? '', set[at + 1] ?? '')
    if (this.#ctx.payment === null) {
      const pending = this.#responder.head(status, headers)
      if (pending !== undefined) void this.#await(pending, controller)
      return
    }
    this.#heldHead = { status, headers }
    if (head.length < 0 || head.length > HELD_BODY)
      process.nextTick(() => {
        this.#sendHead(controller)
      })
  }

  /** Passes on the head that was held, and what has come of its body. `controller`: null where that is all. */
  #sendHead(controller: CallController | null): void {
    const head = this.#heldHead
    if (head === null || this.#over) return
    this.#heldHead = null
    const pending = this.#responder.head(head.status, head.headers)
    if (pending === undefined) this.#headWritten(controller)
    else void this.#await(pending, controller)
  }

  #interim(status: number, headers: readonly string[]): void {
    if (++this.#interims > MAX_INTERIM) {
      this.#stop(
        badGateway(this.#target, 'The upstream did not give a usable answer.', 'it sent too many interim answers')
      )
      return
    }
    // An HTTP/1.0 client knows none (RFC 9110 15.2).
    if ((status === 102 || status === 103) && this.#ctx.httpVersion === '1.1') this.#responder.interim(status, headers)
  }

  #tooLarge(): GatewayError {
    return new ResponseTooLarge(this.#target.responseLimit, this.#target.errorMembers)
  }

  /** `controller`: null where the response has ended. */
  async #await(pending: Promise<void>, controller: CallController | null): Promise<void> {
    this.#waiting = true
    controller?.pause()
    try {
      await pending
    } catch (error) {
      this.#failed ??= error instanceof Error ? error : new Error(String(error))
    }
    this.#headWritten(controller)
  }

  #headWritten(controller: CallController | null): void {
    this.#waiting = false
    this.touched = this.#deadlines.tick
    if (this.#over) return
    let free = true
    for (const piece of this.#held) free = this.#responder.write(piece)
    this.#held = []
    if (this.#failed !== null) this.#stop(this.#failed)
    else if (this.#ended || controller === null) this.#finish()
    else if (free) controller.resume()
    else this.#pause(controller)
  }

  onResponseData(controller: CallController, piece: Uint8Array): void {
    if (this.#over) return
    this.touched = this.#deadlines.tick
    this.#received += piece.byteLength
    if (this.#received > this.#target.responseLimit) {
      this.#stop(this.#tooLarge())
      return
    }
    if (this.#waiting || this.#heldHead !== null) this.#held.push(piece)
    else if (!this.#responder.write(piece)) this.#pause(controller)
  }

  #pause(controller: CallController): void {
    this.#paused = true
    this.#pausedAt = this.#deadlines.tick
    this.#responder.onDrain ??= () => {
      this.#drained()
    }
    controller.pause()
  }

  #drained(): void {
    if (!this.#paused) return
    this.#paused = false
    this.touched = this.#deadlines.tick
    this.#endPause()
    if (!this.#over) this.#controller?.resume()
  }

  #endPause(): void {
    const pause = this.#deadlines.tick - this.#pausedAt
    this.#longestPause = Math.max(this.#longestPause, pause)
    this.#pauses += pause
  }

  onResponseEnd(controller: CallController): void {
    if (this.#over) return
    // From here on the connection may carry the request of somebody else.
    this.#controller = null
    this.#trailers = this.#ctx.httpVersion === '1.1' ? responseTrailers(controller.rawTrailers) : null
    if (this.#heldHead !== null) this.#sendHead(null)
    else if (this.#waiting) this.#ended = true
    else this.#finish()
  }

  #finish(): void {
    this.#leave()
    this.#responder.end(this.#trailers)
  }

  onResponseError(controller: CallController | null, error: Error): void {
    if (this.#over) return
    this.#controller = null
    const request = this.#request
    if (request === null || this.#retried || this.#body !== null || !IDEMPOTENT.has(this.#ctx.method)) {
      this.#stop(error)
      return
    }
    const { pool } = this.#upstream
    const code = faultCode(error)
    this.#retried = true
    if (controller === null && code === 'ECONNREFUSED') pool.dispatch(request, this)
    else if (controller?.isStale === true && CLOSED.has(code)) pool.redispatch(request, this)
    else this.#stop(error)
  }

  /** Ends both sides with an error: before the head the client gets it as a response, after it as a break. */
  #stop(error: Error): void {
    if (this.#over) return
    if (this.#waiting) {
      // The head is on its way up the chain and cannot be replaced; the break comes behind it.
      this.#failed ??= error
      return
    }
    const isBreak = this.#headSeen && this.#heldHead === null
    const isOfClient = this.#responder.gone || (isBreak && this.#heldUp(error))
    this.#leave()
    const failure = isOfClient
      ? new ClientGone(error)
      : isBreak
        ? upstreamFailure(error, this.#target)
        : this.#failure(error)
    if (!this.#headSeen)
      if (!isOfClient && isOfUpstream(error)) this.#breakers?.failed(this.#ctx, this.#target, isUnreachable(error))
      else this.#breakers?.left(this.#ctx, this.#target)
    this.#responder.fail(failure)
    this.#controller?.abort()
  }

  /** What the client is answered; that of a request that was paid for says what becomes of the payment. */
  #failure(error: Error): GatewayError {
    const failure = upstreamFailure(error, this.#target)
    if (this.#ctx.payment === null || !(failure instanceof LongError) || failure.status < 500) return failure
    const { kind, error: title, message, more, headers, cause } = failure
    return new LongError(kind, title, `${message} ${STILL_GOOD}`, more, headers, cause)
  }

  /**
   * Whether the client can have caused its response to break: it has not sent all of its request, or it let the upstream
   * wait. Giving the payment back would hand it the rest for nothing. What a body that is too large costs is decided by
   * its error.
   */
  #heldUp(error: Error): boolean {
    if (this.#body !== null && !this.#sent) return true
    if (this.#paused) this.#endPause()
    return !(error instanceof ResponseTooLarge) && (this.#longestPause >= LONG_PAUSE || this.#pauses >= LONG_PAUSES)
  }

  /** The client's side is over. */
  #close(): void {
    if (this.#over) return
    if (!this.#headSeen) this.#breakers?.left(this.#ctx, this.#target)
    this.#leave()
    this.#controller?.abort()
  }

  #leave(): void {
    this.#over = true
    this.#held = []
    this.#deadlines.delete(this)
  }
}
