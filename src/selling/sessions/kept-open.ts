import { keptHeaders } from '../../engine/message/own-cookies.ts'
import type { Head, Outcome } from '../../engine/message/reply.ts'
import type { ReplayRecord, State } from '../../platform/state/state.ts'
import type { Log } from '../../platform/telemetry/log.ts'

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
