import type { HeaderList } from './headers.ts'

/** A whole answer given by a plugin or an operation. Constant replies can be shared between requests: nothing changes them. */
export interface Reply {
  readonly status: number
  /** `[name, value, …]`; Content-Length is added by the writer. */
  readonly headers: readonly string[]
  readonly body: string | Uint8Array | null
}

/** Who made the answer: the upstream, a plugin or an operation of the gateway itself, or the error table. */
export type HeadSource = 'upstream' | 'reply' | 'error'

/** The head of the answer on its way up the chain; plugins may change it until it is written. */
export interface Head {
  status: number
  readonly headers: HeaderList
  readonly source: HeadSource
}

/** How a request ended; given to every `done` hook exactly once. */
export interface Outcome {
  /** The status that was written, or would have been when the client left before the head (then 499). */
  readonly status: number
  readonly source: HeadSource
  /** The head was handed to the connection. */
  readonly headSent: boolean
  /** The whole answer was handed to the connection and the connection was still there. */
  readonly delivered: boolean
  readonly bytesIn: number
  readonly bytesOut: number
  /** Milliseconds from the accepted head to the end. */
  readonly duration: number
  /** Why it ended early, or why it was answered with an error; null when all went well. */
  readonly error: Error | null
}
