import type { Readable } from 'node:stream'
import type { Context, UpstreamTarget } from '../message/context.ts'
import { clientNetwork } from '../message/addresses.ts'
import { ClientGone, type GatewayError, ResponseTooLarge } from '../operations/errors.ts'
import type { Responder } from '../pipeline/plugin.ts'
import { HeaderList } from '../message/headers.ts'
import { Deadlines, type Waiting } from './deadlines.ts'
import type { UpstreamBreakers } from './breakers.ts'
import {
  faultCode,
  gatewayTimeout,
  isOfUpstream,
  isUnreachable,
  tooSlow,
  unusable,
  upstreamFailure
} from './failure.ts'
import { responseHeaders, responseTrailers } from './response-policy.ts'
import type { CallController, CallHandler } from './connection.ts'
import type { Upstream } from './pool.ts'
import { CLOSED, IDEMPOTENT, type Attempts, type Trouble } from './route-upstream.ts'
import type { UpstreamCall } from './request-head.ts'

/** Most interim responses passed on; more mean a broken upstream. */
const MAX_INTERIM = 32
/** Least bytes per tick that a client must send while others wait for its connection: 10 KB a second. */
const LEAST_PIECE = 1000
/**
 * Ticks, consecutive and total, that the upstream waited for the client before breaking off: servers give up on slow
 * clients.
 */
const LONG_PAUSE = 10
const LONG_PAUSES = 50
/** Largest announced body of a paid response held until complete, so that its failure can be answered. */
const HELD_BODY = 16 * 1024

/**
 * Streams one response from an upstream to the client, piece by piece. Only the client's back-pressure pauses the
 * upstream.
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
  /** Null where no other address may serve. */
  readonly #attempts: Attempts | null
  /** The head waits for the first byte of the body. */
  #holdsHead = false
  #isFailing = false
  /** A small paid body is complete before its head is sent. */
  #isHeldWhole = false
  /** Null once answered: a long response would keep its headers and body alive. */
  #request: UpstreamCall | null
  readonly #body: Readable | null
  #controller: CallController | null = null
  #sent = false
  #headSeen = false
  /** A hook delays the head; the connection is paused until it is written. */
  #waiting = false
  /** The held head of a paid response, until a small body is complete or the turn ends. */
  #heldHead: { readonly status: number; readonly headers: HeaderList } | null = null
  #held: Uint8Array[] = []
  #trailers: string[] | null = null
  #failed: Error | null = null
  #paused = false
  /** The tick in which the request was sent, and that since which the client takes nothing. */
  #startedAt = 0
  #pausedAt = 0
  /** Ticks that the upstream waited for the client: longest and total. */
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
    breakers: UpstreamBreakers | null = null,
    attempts: Attempts | null = null
  ) {
    this.#ctx = ctx
    this.#responder = responder
    this.#target = target
    this.#upstream = upstream
    this.#deadlines = deadlines
    this.#breakers = breakers
    this.#attempts = attempts
    this.#request = request
    this.#body = body
    this.touched = deadlines.tick
    this.patience = Deadlines.ticks(target.timeout)
  }

  start(): void {
    // The one closure that the responder's contract asks of each request.
    this.#responder.onClose = () => {
      this.#close()
    }
    // An unhandled error while the request is queued would end the process.
    this.#body?.on('error', (error: Error) => {
      this.#stop(error)
    })
    this.#deadlines.add(this)
    if (this.#request !== null) this.#upstream.pool.dispatch(this.#request, this)
  }

  /**
   * The head's time does not run while the client sends and the upstream reads, nor the body's while the client applies
   * back-pressure.
   */
  get suspended(): boolean {
    if (this.#headSeen) return this.#paused || this.#waiting
    return this.#body !== null && this.#controller !== null && !this.#sent && !this.#body.isPaused()
  }

  expire(): void {
    const error = gatewayTimeout(
      this.#target,
      this.#headSeen ? 'the upstream fell silent in the middle of its answer' : 'no answer came in time'
    )
    if (!this.#move('idle', error)) this.#stop(error)
  }

  get over(): boolean {
    return this.#over
  }

  get client(): string {
    return clientNetwork(this.#ctx.clientAddress)
  }

  get stalledTicks(): number {
    const { tick } = this.#deadlines
    if (this.#headSeen) return this.#paused ? tick - this.#pausedAt : 0
    if (this.#body === null || this.#sent || this.#body.isPaused()) return 0
    const ticks = tick - this.#startedAt
    return this.#ctx.body.received < ticks * LEAST_PIECE ? ticks : 0
  }

  giveUp(): void {
    this.#stop(tooSlow(this.#target))
  }

  onRequestStart(controller: CallController): void {
    this.#controller = controller
    this.#ctx.isSent = true
    if (!controller.isStale && this.#attempts === null) this.#request = null
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
    this.#ctx.trace?.answered(status)
    this.#isFailing = this.#target.isPooled === true && status >= 502 && status <= 504
    if (this.#isFailing) this.#breakers?.failed(this.#ctx, this.#target, false)
    else if (this.#attempts?.hasFallbacks !== true) this.#breakers?.answered(this.#ctx, this.#target)
    this.touched = this.#deadlines.tick
    if (status === 429 && this.#move('429', null)) return
    if (status >= 500 && this.#move('5xx', null)) return
    if (head.undecodable) {
      this.#stop(unusable(this.#target, 'its answer has a transfer coding other than chunked'))
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
    this.#holdsHead = this.#body === null && this.#attempts?.holdsHead === true
    if (this.#ctx.payment === null && !this.#holdsHead) {
      const pending = this.#responder.head(status, headers)
      if (pending !== undefined) void this.#await(pending, controller)
      return
    }
    this.#heldHead = { status, headers }
    if (this.#ctx.payment !== null && head.length >= 0 && head.length <= HELD_BODY) this.#isHeldWhole = true
    else if (!this.#holdsHead)
      process.nextTick(() => {
        this.#sendHead(controller)
      })
  }

  /** Writes the held head and its buffered body. `controller`: null at the end of the response. */
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
      this.#stop(unusable(this.#target, 'it sent too many interim answers'))
      return
    }
    // HTTP/1.0 has no interim responses (RFC 9110 15.2), and another upstream might answer otherwise.
    const isPassedOn = (status === 102 || status === 103) && this.#ctx.httpVersion === '1.1' && this.#attempts === null
    if (isPassedOn) this.#responder.interim(status, headers)
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
    else if (controller === null) this.#finish()
    else if (free) controller.resume()
    else this.#pause(controller)
  }

  onResponseData(controller: CallController, piece: Uint8Array): void {
    if (this.#over) return
    this.touched = this.#deadlines.tick
    if (this.#received === 0) this.#hasBegun()
    this.#received += piece.byteLength
    if (this.#received > this.#target.responseLimit) {
      this.#stop(this.#tooLarge())
      return
    }
    if (this.#heldHead !== null) {
      this.#held.push(piece)
      if (this.#holdsHead && !this.#isHeldWhole) this.#sendHead(controller)
    } else if (!this.#responder.write(piece)) this.#pause(controller)
  }

  /** Before fallbacks a head alone proves nothing. */
  #hasBegun(): void {
    if (this.#attempts?.hasFallbacks === true && !this.#isFailing) this.#breakers?.answered(this.#ctx, this.#target)
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
    if (this.#received === 0) this.#hasBegun()
    // From here on the connection may carry another request.
    this.#controller = null
    this.#trailers = this.#ctx.httpVersion === '1.1' ? responseTrailers(controller.rawTrailers) : null
    if (this.#heldHead !== null) this.#sendHead(null)
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
    const code = faultCode(error)
    const isRepeatable = this.#body === null && IDEMPOTENT.has(this.#ctx.method)
    if (request === null) {
      if (!this.#move('unanswered', error)) this.#stop(error)
    } else if (isRepeatable && !this.#retried && controller?.isStale === true && CLOSED.has(code)) {
      this.#retried = true
      this.#upstream.pool.redispatch(request, this)
    } else if (this.#move(controller === null ? 'connect' : 'unanswered', error)) return
    else if (isRepeatable && !this.#retried && controller === null && code === 'ECONNREFUSED') {
      this.#retried = true
      this.#upstream.pool.dispatch(request, this)
    } else this.#stop(error)
  }

  /** Sends the request to another address, if there is one and the client got nothing. `error`: null for a response. */
  #move(trouble: Trouble, error: Error | null): boolean {
    const attempts = this.#attempts
    if (attempts === null || this.#over || this.#waiting || this.#received > 0 || this.#responder.gone) return false
    if (this.#headSeen && this.#heldHead === null && error !== null) return false
    if ((trouble !== 'connect' && this.#body !== null) || !attempts.next(trouble, error)) return false
    this.#leave()
    if (error !== null) this.#breakers?.failed(this.#ctx, this.#target, trouble === 'connect')
    this.#controller?.abort()
    attempts.sendAgain(this.#responder)
    return true
  }

  /** Ends both sides: before the head the client gets the error, after it an aborted connection. */
  #stop(error: Error): void {
    if (this.#over) return
    if (this.#waiting) {
      // The head is on its way up the chain and cannot be replaced; the abort follows it.
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
        : upstreamFailure(error, this.#target, this.#ctx.payment !== null)
    if (!this.#headSeen || (this.#attempts?.hasFallbacks === true && this.#received === 0))
      if (!isOfClient && isOfUpstream(error)) this.#breakers?.failed(this.#ctx, this.#target, isUnreachable(error))
      else this.#breakers?.left(this.#ctx, this.#target)
    this.#responder.fail(failure)
    this.#controller?.abort()
  }

  /**
   * Whether the client may have caused the failure: its request is incomplete, or it made the upstream wait. Restoring
   * the payment would make the rest free. The error itself decides for a body that is too large.
   */
  #heldUp(error: Error): boolean {
    if (this.#body !== null && !this.#sent) return true
    if (this.#paused) this.#endPause()
    return !(error instanceof ResponseTooLarge) && (this.#longestPause >= LONG_PAUSE || this.#pauses >= LONG_PAUSES)
  }

  #close(): void {
    if (this.#over) return
    if (this.#received === 0) this.#breakers?.left(this.#ctx, this.#target)
    this.#leave()
    this.#controller?.abort()
  }

  #leave(): void {
    this.#over = true
    this.#held = []
    this.#deadlines.delete(this)
  }
}
