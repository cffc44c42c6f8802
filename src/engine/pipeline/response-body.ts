import type { Readable } from 'node:stream'
import type { BodyFilter, Context } from '../message/context.ts'
import type { HeadSource, Outcome } from '../message/reply.ts'
import type { Wire } from '../message/wire.ts'
import type { Chain, ChainProgress } from './chain.ts'
import type { TunnelPolicy } from './plugin.ts'

export interface ExchangeEvents {
  readonly mode: 'development' | 'production'
  /** Own responses over TLS tell browsers to use nothing else (RFC 6797). */
  readonly isStrict?: boolean
  now(): number
  monotonic(): number
  /** An error that the contract answers with 5xx, or a plugin's `done` that threw. */
  fault(ctx: Context, error: Error): void
  finished(ctx: Context, outcome: Outcome): void
}

/** The body of a response on its way to the client: through a filter, past the watchers, with back-pressure. */
export abstract class ResponseBody {
  readonly ctx: Context
  onDrain: (() => void) | null = null
  onClose: (() => void) | null = null
  protected readonly wire: Wire
  protected readonly chain: Chain
  protected readonly events: ExchangeEvents
  protected readonly progress: ChainProgress = { next: 0, stopped: false }
  protected source: HeadSource = 'reply'
  protected headSent = false
  /** The body has an announced length, or there is none. */
  protected isMeasured = false
  protected ended = false
  /** The connection is done with this response, whether it sent all of it or not. */
  protected isClosed = false
  protected isFull = false
  /** Watchers that back-pressure the upstream. */
  protected waits = 0
  protected error: Error | null = null
  #filter: BodyFilter | null = null
  #isFiltered = false

  constructor(ctx: Context, wire: Wire, chain: Chain, events: ExchangeEvents) {
    this.ctx = ctx
    this.wire = wire
    this.chain = chain
    this.events = events
  }

  /** Answers an error, or breaks the response off. */
  protected abstract refuse(cause: unknown): void

  abstract fail(error: Error): void

  get gone(): boolean {
    return this.isClosed || this.wire.gone
  }

  filter(make: (out: (bytes: Uint8Array) => void) => BodyFilter): void {
    if (this.#filter !== null || this.headSent) throw new TypeError('a response has one filter, before its head')
    this.#filter = make(bytes => {
      if (!this.isClosed && !this.ended && this.headSent) this.#pass(bytes)
    })
  }

  write(bytes: Uint8Array): boolean {
    if (this.isClosed || this.ended || !this.headSent) return true
    if (this.#filter === null) return this.#pass(bytes)
    try {
      const pending = this.#filter.write(bytes)
      if (pending !== undefined) void this.#wait(pending)
    } catch (error) {
      this.refuse(error)
      return true
    }
    return !this.isFull && this.waits === 0
  }

  #pass(bytes: Uint8Array): boolean {
    let pending: void | Promise<void> = undefined
    if (this.chain.watchesChunks) {
      try {
        pending = this.chain.chunk(this.ctx, bytes, this.progress)
      } catch (error) {
        // The caller reads the upstream and could not tell a watcher's fault from its own.
        this.refuse(error)
        return true
      }
    }
    this.isFull = !this.wire.write(bytes)
    if (pending !== undefined) void this.#wait(pending)
    return !this.isFull && this.waits === 0
  }

  /** Never rejects. */
  async #wait(pending: Promise<void>): Promise<void> {
    this.waits++
    try {
      await pending
    } catch (error) {
      this.refuse(error)
    } finally {
      this.waits--
    }
    if (this.waits === 0 && !this.isFull && !this.isClosed && !this.ended) this.onDrain?.()
  }

  cut(error: Error, last: Uint8Array | null): void {
    if (this.isClosed || this.ended) return
    const isFramed = this.headSent && this.chain.hasLast && !this.isMeasured && this.ctx.upgrade === null
    if (last === null || !isFramed) {
      this.refuse(error)
      return
    }
    this.error ??= error
    this.ended = true
    // Releases the upstream first: a client that does not read must not hold it.
    const close = this.onClose
    this.onClose = null
    this.wire.end(last, null)
    try {
      close?.()
    } catch (fault) {
      this.fault(fault)
    }
  }

  end(trailers: readonly string[] | null): void {
    if (this.isClosed || this.ended || !this.headSent) return
    if (this.#filter !== null && !this.#isFiltered) {
      this.#isFiltered = true
      try {
        const pending = this.#filter.end()
        if (pending !== undefined) {
          void this.#endLater(pending, trailers)
          return
        }
      } catch (error) {
        this.refuse(error)
        return
      }
      // The filter may have ended the response.
      if (this.isClosed || this.ended) return
    }
    const last = this.#lastWord()
    this.ended = true
    this.wire.end(last, trailers)
  }

  /** Never rejects. */
  async #endLater(pending: Promise<void>, trailers: readonly string[] | null): Promise<void> {
    try {
      await pending
    } catch (error) {
      this.refuse(error)
      return
    }
    this.end(trailers)
  }

  /** A fault here must not damage the upstream's response. */
  #lastWord(): Uint8Array | null {
    if (!this.chain.hasLast || this.source !== 'upstream') return null
    try {
      const last = this.chain.last(this.ctx, this.progress)
      return this.isMeasured ? null : last
    } catch (error) {
      this.fault(error)
      return null
    }
  }

  /** Passes on the body of a refused upgrade. Never rejects. */
  protected async relay(body: Readable, policy: TunnelPolicy): Promise<void> {
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
    if (this.gone || this.ended || !this.headSent) body.destroy()
    await promise
  }

  drained(): void {
    this.isFull = false
    if (this.waits === 0) this.onDrain?.()
  }

  protected fault(error: unknown): void {
    this.events.fault(this.ctx, error instanceof Error ? error : new Error(String(error)))
  }
}
