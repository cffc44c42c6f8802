import type { HeaderList } from './headers.ts'

/**
 * A whole response given by a plugin or an operation. Constant replies can be shared between requests: nothing changes
 * them.
 */
export interface Reply {
  readonly status: number
  /** `[name, value, …]`; Content-Length is added by the writer where the body is whole. */
  readonly headers: readonly string[]
  readonly body: string | Uint8Array | StreamBody | null
}

/** A reply whose bytes are all there. */
export type WholeReply = Reply & { readonly body: string | Uint8Array | null }

/** A body that is written piece by piece, such as server-sent events. A reply with one belongs to one request. */
export interface StreamBody {
  /**
   * Called once, after the plugins have seen the head; never for HEAD, nor when the client has left by then. Answers
   * what is called exactly once when the stream is over, in every ending there is. What it throws before the first
   * piece is answered as an error; after it, the connection is broken off.
   */
  open(sink: StreamSink): () => void
}

/** Where the pieces of a stream go. Everything is ignored once the stream is over. */
export interface StreamSink {
  /** Called when the client takes pieces again after `write` answered false. */
  onDrain: (() => void) | null
  /** Called when the process is about to stop: end soon, before the connection is cut. */
  onStopping: (() => void) | null
  /** False asks to wait: a client that does not read must not fill our memory. Also false when the stream is over. */
  write(piece: string | Uint8Array): boolean
  /** Ends the response cleanly. */
  end(): void
  /** Breaks the response off, so that the client sees a fault; before the first piece the error is answered. */
  fail(error: Error): void
}

/** Whether a reply's body is written piece by piece. */
export function isStreamBody(body: unknown): body is StreamBody {
  return typeof body === 'object' && body !== null && 'open' in body && typeof body.open === 'function'
}

/**
 * Who made the response: the upstream, a plugin or an operation of the gateway itself (whole, or as a stream), or the
 * error table.
 */
export type HeadSource = 'upstream' | 'reply' | 'stream' | 'error'

/** The head of the response on its way up the chain; plugins may change it until it is written. */
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
  /**
   * The head was given to the connection. False too for one that waited for its first piece and was broken off with it.
   */
  readonly headSent: boolean
  /** The whole response was handed to the connection and the connection was still there. */
  readonly delivered: boolean
  readonly bytesIn: number
  readonly bytesOut: number
  /** Milliseconds from the accepted head to the end. */
  readonly duration: number
  /** Why it ended early, or why it was answered with an error; null when all went well. */
  readonly error: Error | null
}
