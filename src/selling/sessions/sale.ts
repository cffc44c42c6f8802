import type { MeteredRequest } from '../balances/metered-request.ts'
import { keepPrivate } from '../holding/paid-responses.ts'
import type { Context } from '../../engine/message/context.ts'
import type { UpstreamRequest } from '../../engine/pipeline/plugin.ts'
import type { Head, Outcome } from '../../engine/message/reply.ts'
import { encodeSessionReceipt } from '../../lightning/payment-scheme/session-challenge.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { SessionCounters } from './open.ts'
import type { SessionNews } from './news.ts'
import type { PrepaidSession } from './store.ts'
import { SessionStream } from './stream.ts'
import { keptHeaders } from '../../engine/message/own-cookies.ts'
import type { ReplayRecord, State } from '../../platform/state/state.ts'
import type { Log } from '../../platform/telemetry/log.ts'

interface SessionSaleDependencies {
  readonly ctx: Context
  readonly id: string
  readonly metered: MeteredRequest
  readonly clock: Clock
  readonly news: SessionNews
  readonly counters: SessionCounters
  standing(): Promise<PrepaidSession | null>
  used(): void
}

export class SessionSale {
  kept: KeptOpen | null = null
  readonly #dependencies: SessionSaleDependencies
  #stream: SessionStream | null = null

  constructor(dependencies: SessionSaleDependencies) {
    this.#dependencies = dependencies
  }

  forwarding(out: UpstreamRequest): void {
    this.#dependencies.metered.forwarding(out)
  }

  head(head: Head): void | Promise<void> {
    const pending = this.#dependencies.metered.head(head)
    if (pending !== undefined) return pending.then(() => this.#head(head))
    this.#head(head)
  }

  #head(head: Head): void {
    const { ctx, id, clock, metered } = this.#dependencies
    keepPrivate(head.headers)
    if (head.status <= 299)
      head.headers.set('Payment-Receipt', encodeSessionReceipt(id, Math.floor(clock.now() / 1000)))
    const { held } = metered
    this.kept?.head(head, held !== null)
    if (held === null || ctx.response === null) return
    // Events are added.
    head.headers.delete('content-length')
    ctx.response.filter(out => {
      this.#stream = new SessionStream({ ...this.#dependencies, held }, out)
      return this.#stream
    })
  }

  chunk(bytes: Uint8Array): void | Promise<void> {
    this.kept?.chunk(bytes)
    return this.#dependencies.metered.chunk(bytes)
  }

  last(): Uint8Array | null {
    return this.#dependencies.metered.last()
  }

  done(outcome: Outcome): void {
    this.#stream?.close()
    this.kept?.done(outcome)
    this.#dependencies.metered.done(outcome)
    this.#dependencies.used()
  }
}

/** Milliseconds to keep the response to an open for repetitions. */
const KEPT = 300_000
/** Maximum response size, as for idempotency keys. */
const LARGEST = 1_048_576

export class KeptOpen {
  readonly #state: State
  readonly #key: string
  readonly #token: string
  readonly #log: Log
  #head: { readonly status: number; readonly headers: ReplayRecord['headers'] } | null = null
  #pieces: Uint8Array[] = []
  #size = 0

  constructor(state: State, key: string, token: string, log: Log) {
    this.#state = state
    this.#key = key
    this.#token = token
    this.#log = log
  }

  head(head: Head, isStream: boolean): void {
    if (isStream || head.status >= 500 || head.source === 'error' || head.source === 'stream') return
    this.#head = { status: head.status, headers: keptHeaders(head.headers.pairs) }
  }

  chunk(bytes: Uint8Array): void {
    this.#size += bytes.byteLength
    if (this.#head === null || this.#size > LARGEST) this.#pieces = []
    else this.#pieces.push(bytes.slice())
  }

  done({ delivered, source }: Outcome): void {
    const head = this.#head
    const isGood = head !== null && source !== 'error' && delivered && this.#size <= LARGEST
    const ended = isGood
      ? this.#state.finish(this.#key, this.#token, { ...head, body: Buffer.concat(this.#pieces) }, KEPT)
      : this.#state.abandon(this.#key, this.#token)
    if (ended instanceof Promise)
      ended.catch((error: unknown) => {
        this.#log.warn({ err: error }, 'The response to the opening of a session could not be kept')
      })
  }

  async abandon(): Promise<void> {
    await this.#state.abandon(this.#key, this.#token)
  }
}
