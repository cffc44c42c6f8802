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
import type { KeptResponse } from '../../engine/message/kept-response.ts'

/** Milliseconds to keep the response to an open for repetitions. */
const KEPT = 300_000

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
  kept: KeptResponse | null = null
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
    if (held === null && head.status <= 499 && head.source !== 'error' && head.source !== 'stream')
      this.kept?.head(head, true)
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
    this.kept?.done(outcome, KEPT)
    this.#dependencies.metered.done(outcome)
    this.#dependencies.used()
  }
}
