import type { Readable } from 'node:stream'

/**
 * The body of a request, read only when somebody wants it. It is either collected once (`bytes`) or streamed once
 * (`stream`); after `bytes` the collected form can be forwarded any number of times.
 */
export interface RequestBody {
  /** Bytes announced by Content-Length; 0 when there is no body; null when the length is not known (chunked). */
  readonly length: number | null
  /** What `bytes` has collected, once it has. */
  readonly collected: Uint8Array | null
  /** Bytes that have arrived so far. */
  readonly received: number
  /** Pieces in which they came: chunks, or what single reads of the connection took. */
  readonly pieces: number
  /** Some of it has not arrived yet. */
  readonly unfinished: boolean
  /** The most bytes that will be taken, set by the `body-limit` plugin. Infinity when no plugin set it. */
  limit: number
  /**
   * Nobody is known to stand behind it: what is collected of it counts against what all such bodies may hold together.
   */
  ofStranger: boolean
  /**
   * Collects the whole body. Answers the same promise when called again. Throws `PayloadTooLarge` above `limit`, and
   * `ClientGone` when the connection closes first, and `Unavailable` where bodies of strangers hold too much already.
   */
  bytes(): Promise<Uint8Array>
  /** The body as a stream, with `limit` enforced: it errors with `PayloadTooLarge` as soon as one byte more arrives. */
  stream(): Readable
  /**
   * Reads the whole body and keeps nothing of it, as for a digest. It cannot be had again, unless it was collected
   * before.
   */
  each(take: (piece: Uint8Array) => void): Promise<void>
  /**
   * Waits until as much has come of a body of known length as may be kept for a slow client, or all of it; null where
   * there is nothing to wait for. What has come is then the beginning of `stream`, or `collected`.
   */
  gather(): Promise<void> | null
}
