import type { Readable } from 'node:stream'

/**
 * A request body, read lazily. Either collected once (`bytes`), and then forwarded any number of times, or streamed
 * once (`stream`).
 */
export interface RequestBody {
  /** Content-Length; 0 without a body, null for a chunked one. */
  readonly length: number | null
  readonly collected: Uint8Array | null
  readonly received: number
  /** Chunks, or single reads of the connection. */
  readonly pieces: number
  readonly unfinished: boolean
  /** Most bytes accepted, set by the `body-limit` plugin; else Infinity. */
  limit: number
  /** The sender is unauthenticated: collected bytes count against a shared budget. */
  ofStranger: boolean
  /**
   * Collects the whole body; later calls return the same promise.
   * @throws PayloadTooLarge above `limit`; ClientGone when the connection closes first; Unavailable when the shared
   * budget is used up
   */
  bytes(): Promise<Uint8Array>
  /** Errors with `PayloadTooLarge` on the first byte above `limit`. */
  stream(): Readable
  /** Reads the whole body without keeping it, as for a digest. It cannot be read again unless collected before. */
  each(take: (piece: Uint8Array) => void): Promise<void>
  /**
   * Waits until as much of a body of known length has come as may be buffered for a slow client. Null when there is
   * nothing to wait for. `stream` or `collected` then starts with those bytes.
   */
  gather(): Promise<void> | null
}
