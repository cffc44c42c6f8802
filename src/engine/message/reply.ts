import type { HeaderList } from './headers.ts'

/** A whole response from a plugin or an operation. Never mutated, so constant replies can be shared. */
export interface Reply {
  readonly status: number
  /** Flat list; the writer adds Content-Length to a whole body. */
  readonly headers: readonly string[]
  readonly body: string | Uint8Array | StreamBody | null
}

export type WholeReply = Reply & { readonly body: string | Uint8Array | null }

/** A streamed body, such as server-sent events. Belongs to one request. */
export interface StreamBody {
  /**
   * Called once, after the plugins have seen the head; never for HEAD or after the client has left. The returned
   * function is called exactly once in every outcome. An exception before the first piece is answered as an error;
   * later it aborts the connection.
   */
  open(sink: StreamSink): () => void
}

/** Ignores calls after the end. */
export interface StreamSink {
  /** Called when the client reads again after `write` returned false. */
  onDrain: (() => void) | null
  /** Called on shutdown: end soon, before the connection is cut. */
  onStopping: (() => void) | null
  /** False asks to wait for `onDrain`, or means that the stream is over. */
  write(piece: string | Uint8Array): boolean
  end(): void
  /** Aborts the response; before the first piece the error is answered. */
  fail(error: Error): void
}

export function isStreamBody(body: unknown): body is StreamBody {
  return typeof body === 'object' && body !== null && 'open' in body && typeof body.open === 'function'
}

/** The upstream, the gateway itself (whole or as a stream), or the error table. */
export type HeadSource = 'upstream' | 'reply' | 'stream' | 'error'

export interface Head {
  status: number
  readonly headers: HeaderList
  readonly source: HeadSource
}

export interface Outcome {
  /** 499 when the client left before the head. */
  readonly status: number
  readonly source: HeadSource
  /** False too for a head that was aborted together with its first piece. */
  readonly headSent: boolean
  /** The whole response was handed to a connection that was still open. */
  readonly delivered: boolean
  readonly bytesIn: number
  readonly bytesOut: number
  /** Milliseconds from the accepted head to the end. */
  readonly duration: number
  /** Why it ended early or with an error; null on success. */
  readonly error: Error | null
}
