import type { Maybe, ReplayRecord, State } from '../../platform/state/state.ts'
import { keptHeaders } from './own-cookies.ts'
import type { Head, Outcome } from './reply.ts'

/** Bytes of the largest response that is kept. A larger one runs again. */
const LARGEST = 1_048_576

interface ResponseClaim {
  readonly state: Pick<State, 'finish' | 'abandon'>
  readonly key: string
  readonly token: string
  /** Called when the response or its claim could not be written. */
  failed(error: unknown): void
}

/** The response to a request that holds a claim, kept for its repetitions. */
export class KeptResponse {
  readonly #claim: ResponseClaim
  #head: Pick<ReplayRecord, 'status' | 'headers'> | null = null
  /** It was complete before sending, so the record is complete even when the client left. */
  #isWhole = false
  #pieces: Uint8Array[] = []
  #size = 0

  constructor(claim: ResponseClaim) {
    this.#claim = claim
  }

  /** Call for a response that may be given again; where `isPaid` by its delivery, only then. */
  head({ status, headers, source }: Head, isPaid = false): void {
    this.#head = { status, headers: keptHeaders(headers.pairs) }
    this.#isWhole = source === 'reply' && !isPaid
  }

  chunk(bytes: Uint8Array): void {
    if (this.#head === null) return
    this.#size += bytes.byteLength
    if (this.#size <= LARGEST) this.#pieces.push(bytes.slice())
    else this.#pieces = []
  }

  /** Keeps the response for `ms`, or frees its claim. */
  done({ delivered, source }: Outcome, ms: number): void {
    const { state, key, token, failed } = this.#claim
    const head = this.#head
    // An outer plugin may have failed since: the client got something else.
    const isKept = head !== null && source !== 'error' && this.#size <= LARGEST && (this.#isWhole || delivered)
    const ended = isKept ? state.finish(key, token, { ...head, body: Buffer.concat(this.#pieces) }, ms) : this.abandon()
    if (ended instanceof Promise) ended.catch(failed)
  }

  abandon(): Maybe<boolean> {
    const { state, key, token } = this.#claim
    return state.abandon(key, token)
  }
}
