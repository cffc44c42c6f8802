import type { Readable } from 'node:stream'
import type { Chain, ChainProgress } from './chain.ts'
import type { BodyFilter, Context, RunningResponse } from '../message/context.ts'
import {
  asGatewayError,
  ClientGone,
  PayloadTooLarge,
  Unavailable,
  type GatewayError,
  API_VERSION
} from '../operations/errors.ts'
import { errorResponse } from '../operations/error-page.ts'
import { HeaderList } from '../message/headers.ts'
import type { Load } from './load.ts'
import type { UpstreamRequest, Responder, TunnelPolicy } from './plugin.ts'
import { ReplyStream } from '../message/reply-stream.ts'
import {
  type Head,
  type HeadSource,
  isStreamBody,
  type Outcome,
  type Reply,
  type StreamBody,
  type WholeReply
} from '../message/reply.ts'
import type { TunnelResult, TunnelTarget, Wire, WireListener } from '../message/wire.ts'

export interface ExchangeEvents {
  readonly mode: 'development' | 'production'
  /** Own responses over TLS tell browsers to use nothing else (RFC 6797). */
  readonly isStrict?: boolean
  now(): number
  monotonic(): number
  /** An error that the contract answers with 5xx, or a plugin's `done` that threw. */
  fault(ctx: Context, error: Error): void
  finished(exchange: Exchange, outcome: Outcome): void
}

const EMPTY_BODY_STATUS = new Set([204, 205, 304])

/** The head of a reply as a mutable list, with Content-Length where known. The reply stays unchanged. */
function replyHeaders({ status, headers: given, body }: Reply): HeaderList {
  const headers = new HeaderList(given.slice())
  if (!EMPTY_BODY_STATUS.has(status) && !isStreamBody(body))
    headers.set('Content-Length', String(body === null ? 0 : Buffer.byteLength(body)))
  return headers
}

/**
 * One request and its response: runs the chain down, takes the response up, and reports the outcome to every plugin
 * once.
 *
 * `done` never runs while a plugin still works on the request. When the client leaves during an asynchronous hook,
 * `onClose` runs immediately and `done` after the hook has settled. So a late lease is still released, and
 * `idempotency` keeps the response of an operation whose client left.
 */
export class Exchange implements Responder, RunningResponse, WireListener {
  readonly ctx: Context
  onDrain: (() => void) | null = null
  onClose: (() => void) | null = null
  readonly #wire: Wire
  readonly #chain: Chain
  readonly #events: ExchangeEvents
  readonly #progress: ChainProgress = { next: 0, stopped: false }
  #status = 0
  #source: HeadSource = 'reply'
  #headSent = false
  /** The body has an announced length, or there is none. */
  #isMeasured = false
  #leaving = false
  #ended = false
  /** The connection is done with this response; `#complete` says whether it sent all of it. */
  #closed = false
  #isFull = false
  /** Watchers that back-pressure the upstream. */
  #waits = 0
  #complete = false
  #working = 0
  #settled = false
  #isQueued = false
  #error: Error | null = null
  #tunnelled: TunnelResult | null = null
  #stream: ReplyStream | null = null
  #filter: BodyFilter | null = null
  #isFiltered = false

  constructor(ctx: Context, wire: Wire, chain: Chain, events: ExchangeEvents) {
    this.ctx = ctx
    this.#wire = wire
    this.#chain = chain
    this.#events = events
    wire.listener = this
    ctx.response = this
  }

  get gone(): boolean {
    return this.#closed || this.#wire.gone
  }

  /** Answers before the chain is entered, and without a fault: the load reports what it sheds. */
  shed(error: GatewayError): void {
    this.#error = error
    const reply = this.#bytes(error)
    const head: Head = { status: reply.status, headers: replyHeaders(reply), source: 'error' }
    this.#chain.permitPages(this.ctx, head, fault => {
      this.#fault(fault)
    })
    void this.#head(head, reply)
  }

  enter(load: Load): void {
    this.#isQueued = true
    load.enter(this.#chain.queue)
  }

  #leaveQueue(): void {
    if (!this.#isQueued) return
    this.#isQueued = false
    this.#chain.queue.leave()
  }

  /** Never throws. */
  start(): void {
    try {
      const step = this.#chain.enter(this.ctx, this.#progress)
      if (step === undefined) this.#handle()
      else if ('then' in step) void this.#later(step, true)
      else this.#reply(step, 'reply')
    } catch (error) {
      this.#refuse(error)
    }
  }

  #handle(): void {
    if (this.#closed) return
    const step = this.#chain.handle(this.ctx, this)
    if (step === undefined) return
    if ('then' in step) void this.#later(step, false)
    else this.#reply(step, 'reply')
  }

  /**
   * Continues once an asynchronous step has settled: with its reply, else (`entering`) with the terminal plugin. Never
   * rejects.
   */
  async #later(step: Promise<void | Reply>, entering: boolean): Promise<void> {
    this.#working++
    try {
      const reply = await step
      if (reply !== undefined) this.#reply(reply, 'reply')
      else if (entering) this.#handle()
    } catch (error) {
      this.#refuse(error)
    } finally {
      this.#worked()
    }
  }

  #worked(): void {
    this.#working--
    if (this.#closed) this.#settle()
  }

  forwarding(out: UpstreamRequest): void {
    this.#leaveQueue()
    this.#chain.forwarding(this.ctx, out)
  }

  interim(status: number, headers: readonly string[]): void {
    if (!this.#headSent && !this.#closed) this.#wire.interim(status, headers)
  }

  head(status: number, headers: HeaderList): void | Promise<void> {
    if (this.#closed || this.#leaving) return
    // A failing hook's error is answered there; the terminal plugin sees the end in `onClose`.
    return this.#head({ status, headers, source: 'upstream' }, null)
  }

  filter(make: (out: (bytes: Uint8Array) => void) => BodyFilter): void {
    if (this.#filter !== null || this.#headSent) throw new TypeError('a response has one filter, before its head')
    this.#filter = make(bytes => {
      if (!this.#closed && !this.#ended && this.#headSent) this.#pass(bytes)
    })
  }

  write(bytes: Uint8Array): boolean {
    if (this.#closed || this.#ended || !this.#headSent) return true
    if (this.#filter === null) return this.#pass(bytes)
    try {
      const pending = this.#filter.write(bytes)
      if (pending !== undefined) void this.#wait(pending)
    } catch (error) {
      this.#refuse(error)
      return true
    }
    return !this.#isFull && this.#waits === 0
  }

  #pass(bytes: Uint8Array): boolean {
    let pending: void | Promise<void> = undefined
    if (this.#chain.watchesChunks) {
      try {
        pending = this.#chain.chunk(this.ctx, bytes, this.#progress)
      } catch (error) {
        // The caller reads the upstream and could not tell a watcher's fault from its own.
        this.#refuse(error)
        return true
      }
    }
    this.#isFull = !this.#wire.write(bytes)
    if (pending !== undefined) void this.#wait(pending)
    return !this.#isFull && this.#waits === 0
  }

  /** Never rejects. */
  async #wait(pending: Promise<void>): Promise<void> {
    this.#waits++
    try {
      await pending
    } catch (error) {
      this.#refuse(error)
    } finally {
      this.#waits--
    }
    if (this.#waits === 0 && !this.#isFull && !this.#closed && !this.#ended) this.onDrain?.()
  }

  cut(error: Error, last: Uint8Array | null): void {
    if (this.#closed || this.#ended) return
    const isFramed = this.#headSent && this.#chain.hasLast && !this.#isMeasured && this.ctx.upgrade === null
    if (last === null || !isFramed) {
      this.#refuse(error)
      return
    }
    this.#error ??= error
    this.#ended = true
    // Releases the upstream first: a client that does not read must not hold it.
    const close = this.onClose
    this.onClose = null
    this.#wire.end(last, null)
    try {
      close?.()
    } catch (fault) {
      this.#fault(fault)
    }
  }

  end(trailers: readonly string[] | null): void {
    if (this.#closed || this.#ended || !this.#headSent) return
    if (this.#filter !== null && !this.#isFiltered) {
      this.#isFiltered = true
      try {
        const pending = this.#filter.end()
        if (pending !== undefined) {
          void this.#endLater(pending, trailers)
          return
        }
      } catch (error) {
        this.#refuse(error)
        return
      }
      // The filter may have ended the response.
      if (this.#closed || this.#ended) return
    }
    const last = this.#lastWord()
    this.#ended = true
    this.#wire.end(last, trailers)
  }

  /** Never rejects. */
  async #endLater(pending: Promise<void>, trailers: readonly string[] | null): Promise<void> {
    try {
      await pending
    } catch (error) {
      this.#refuse(error)
      return
    }
    this.end(trailers)
  }

  /** A fault here must not damage the upstream's response. */
  #lastWord(): Uint8Array | null {
    if (!this.#chain.hasLast || this.#source !== 'upstream') return null
    try {
      const last = this.#chain.last(this.ctx, this.#progress)
      return this.#isMeasured ? null : last
    } catch (error) {
      this.#fault(error)
      return null
    }
  }

  fail(error: Error): void {
    if (this.#closed || this.#ended) return
    this.#refuse(error)
  }

  async tunnel(target: TunnelTarget, policy: TunnelPolicy): Promise<void> {
    this.#working++
    try {
      const wire = this.#wire
      if (wire.tunnel === null) throw new TypeError('only a request that asks for an upgrade becomes a tunnel')
      const result = await wire.tunnel(target, async response => {
        this.#leaving = true
        const head: Head = {
          status: response.status,
          headers: policy.headers(response.status, response.headers),
          source: 'upstream'
        }
        await this.#chain.leave(this.ctx, head, this.#progress)
        this.#stamp(head)
        response.headers.splice(0, response.headers.length, ...head.headers.pairs)
        this.#status = head.status
        this.#source = 'upstream'
        this.#headSent = true
      })
      this.#tunnelled = result
      if (result.kind === 'refused') {
        await this.head(result.response.status, policy.headers(result.response.status, result.response.headers))
        await this.#relay(result.body, policy)
      }
    } catch (error) {
      this.#refuse(policy.failure(error instanceof Error ? error : new Error(String(error))))
    } finally {
      this.#worked()
    }
  }

  /** Passes on the body of a refused upgrade. Never rejects. */
  async #relay(body: Readable, policy: TunnelPolicy): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.onDrain = () => {
      body.resume()
    }
    this.onClose = () => {
      body.destroy()
    }
    body.on('error', (error: Error) => {
      this.fail(policy.failure(error))
    })
    body.on('close', resolve)
    body.on('end', () => {
      this.end(null)
    })
    body.on('data', (piece: Buffer) => {
      if (!this.write(piece)) body.pause()
    })
    // The client is gone, or a hook has answered instead.
    if (this.gone || this.#ended || !this.#headSent) body.destroy()
    await promise
  }

  drained(): void {
    this.#isFull = false
    if (this.#waits === 0) this.onDrain?.()
  }

  stopping(): void {
    this.#stream?.stopping()
  }

  closed(complete: boolean): void {
    if (this.#closed) return
    this.#closed = true
    this.#complete = complete
    this.#progress.stopped = true
    try {
      this.onClose?.()
    } catch (error) {
      this.#fault(error)
    }
    this.#settle()
  }

  #settle(): void {
    if (this.#settled || this.#working > 0) return
    this.#settled = true
    this.#leaveQueue()
    // A head that never left this process sold nothing: its payment must be restored (decision 124).
    const headSent = this.#headSent && this.#wire.begun
    const delivered = this.#complete && headSent
    const tunnelled = this.#tunnelled?.kind === 'closed' ? this.#tunnelled : null
    const outcome: Outcome = {
      status: headSent ? this.#status : 499,
      source: this.#source,
      headSent,
      delivered,
      bytesIn: tunnelled?.bytesIn ?? this.ctx.body.received,
      bytesOut: tunnelled?.bytesOut ?? this.#wire.bytesOut,
      duration: this.#events.monotonic() - this.ctx.startedAt,
      error: this.#error ?? (delivered ? null : this.#brokenOff())
    }
    this.#chain.settle(this.ctx, outcome, this.#progress, fault => {
      this.#fault(fault)
    })
    this.#events.finished(this, outcome)
  }

  #brokenOff(): GatewayError {
    // A slow client would not have received everything in time either.
    if (this.#wire.stopping !== 'cut' || this.#isFull) return new ClientGone()
    return new Unavailable('Service unavailable', 'The gateway stopped before the response was whole.')
  }

  #fault(error: unknown): void {
    this.#events.fault(this.ctx, error instanceof Error ? error : new Error(String(error)))
  }

  #refuse(cause: unknown): void {
    if (this.#settled) return
    const error = this.#named(asGatewayError(cause))
    // The outcome covers what the client's departure causes; a fault of ours is always reported.
    if (error.status >= 500) this.#fault(error)
    if (this.#closed) {
      if (error.status >= 500) this.#error ??= error
      return
    }
    // The response is complete: a later failure must not abort it.
    if (this.#ended) return
    this.#error ??= error
    if (error instanceof ClientGone || this.#headSent) {
      this.#ended = true
      this.#wire.destroy()
      return
    }
    const reply = this.#bytes(error)
    if (this.#leaving) this.#bare(reply)
    else this.#reply(reply, 'error')
  }

  /** The body's reader knows no target; its refusal must name the proxy like any other (contract, Errors). */
  #named(error: GatewayError): GatewayError {
    const target = this.ctx.upstreamTarget
    if (target === null || !(error instanceof PayloadTooLarge)) return error
    return new PayloadTooLarge(error.limit, { ...error.more, ...target.errorMembers })
  }

  /** Answers without running the chain or the watchers again, after a hook failed on the way up. */
  #bare(reply: WholeReply): void {
    this.#write({ status: reply.status, headers: replyHeaders(reply), source: 'error' })
    this.#ended = true
    this.#wire.end(reply.body, null)
  }

  #bytes(error: GatewayError): WholeReply {
    return errorResponse(this.ctx, error, {
      correlationId: this.ctx.correlationId,
      now: this.#events.now(),
      mode: this.#events.mode
    })
  }

  #reply(reply: Reply, source: HeadSource): void {
    if (this.#settled || this.#headSent || this.#leaving) return
    void this.#head(
      { status: reply.status, headers: replyHeaders(reply), source: isStreamBody(reply.body) ? 'stream' : source },
      reply
    )
  }

  /**
   * Runs the response hooks and writes the head, with its reply if any. Neither throws nor rejects: a hook's error is
   * answered.
   */
  #head(head: Head, reply: Reply | null): void | Promise<void> {
    this.#source = head.source
    this.#leaving = true
    // A response to a departed client would be unpaid.
    const reads = head.source === 'upstream' || this.ctx.payment !== null ? this.#wire.stillReads() : null
    if (reads !== null) return this.#headIf(reads, head, reply)
    return this.#leave(head, reply)
  }

  async #headIf(reads: Promise<boolean>, head: Head, reply: Reply | null): Promise<void> {
    this.#working++
    try {
      if (!(await reads)) this.#wire.destroy()
      else if (!this.#closed && !this.#ended) await this.#leave(head, reply)
    } finally {
      this.#worked()
    }
  }

  #leave(head: Head, reply: Reply | null): void | Promise<void> {
    try {
      const pending = this.#chain.leave(this.ctx, head, this.#progress)
      if (pending !== undefined) return this.#headLater(pending, head, reply)
      if (reply === null) this.#write(head)
      else this.#finish(reply, head)
    } catch (error) {
      this.#refuse(error)
    }
  }

  async #headLater(pending: Promise<void>, head: Head, reply: Reply | null): Promise<void> {
    this.#working++
    try {
      await pending
      if (reply === null) this.#write(head)
      else this.#finish(reply, head)
    } catch (error) {
      this.#refuse(error)
    } finally {
      this.#worked()
    }
  }

  /** Skips the head when an error was answered while hooks still ran. */
  #write(head: Head): void {
    if (this.#closed || this.#headSent) return
    this.#leaveQueue()
    this.#stamp(head)
    this.#source = head.source
    this.#status = head.status
    // Throws on an invalid header before writing anything, so that the error can still be answered.
    this.#wire.head(head.status, head.headers.pairs)
    if (this.#chain.hasLast)
      this.#isMeasured =
        this.ctx.method === 'HEAD' || EMPTY_BODY_STATUS.has(head.status) || head.headers.has('content-length')
    this.#headSent = true
  }

  #finish({ body }: Reply, head: Head): void {
    const empty = EMPTY_BODY_STATUS.has(head.status)
    if (isStreamBody(body) && !empty && this.ctx.method !== 'HEAD') {
      this.#open(body, head)
      return
    }
    this.#write(head)
    if (this.#settled || this.#ended) return
    const whole = empty || isStreamBody(body) ? null : body
    if (this.#chain.watchesChunks && whole !== null) {
      const bytes = typeof whole === 'string' ? Buffer.from(whole) : whole
      const pending = this.#chain.chunk(this.ctx, bytes, this.#progress)
      // The body is complete: there is nothing to back-pressure.
      if (pending !== undefined)
        pending.catch((error: unknown) => {
          this.#fault(error)
        })
    }
    if (this.#closed) return
    this.#ended = true
    this.#wire.end(whole, null)
  }

  /** Streams the body, unless the client is gone or an error was answered while hooks ran. */
  #open(body: StreamBody, head: Head): void {
    if (this.gone || this.#ended || this.#headSent) return
    const stream = new ReplyStream({
      gone: () => this.gone,
      head: () => {
        this.#write(head)
      },
      write: bytes => this.write(bytes),
      end: () => {
        this.end(null)
      },
      fail: error => {
        this.fail(error)
      },
      fault: error => {
        this.#fault(error)
      }
    })
    this.onDrain = () => {
      stream.drained()
    }
    this.onClose = () => {
      stream.close()
    }
    stream.open(body)
    this.#stream = stream
    if (this.#wire.stopping !== false) stream.stopping()
  }

  /**
   * Sets the two headers of every response (contract, Versioning; decisions 13 and 14), Strict-Transport-Security, and `no-store` on own responses
   * without Cache-Control. Shared caches cannot tell keys or sessions apart (RFC 9111 3.5 covers Authorization only)
   * and cache a 404 heuristically (decision 405).
   */
  #stamp(head: Head): void {
    if (head.source !== 'upstream' && !head.headers.has('cache-control')) head.headers.set('Cache-Control', 'no-store')
    head.headers.set('X-Correlation-Id', this.ctx.correlationId)
    if (head.source !== 'upstream' || this.ctx.route.own || !head.headers.has('x-api-version'))
      head.headers.set('X-API-Version', API_VERSION)
    if (this.#events.isStrict === true && head.source !== 'upstream' && this.ctx.secure)
      head.headers.set('Strict-Transport-Security', 'max-age=31536000')
  }
}
