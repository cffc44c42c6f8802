import type { Readable } from 'node:stream'

export interface TunnelTarget {
  readonly origin: string
  /** Raw path and query, byte for byte. */
  readonly path: string
  /** Flat list, already cleaned by the header policy; the tunnel adds the upgrade headers. */
  readonly headers: readonly string[]
  /** The checked address to connect to; null to resolve the name. */
  readonly address: string | null
  readonly tls: { readonly ca?: string; readonly servername?: string } | null
  /** Milliseconds until the upstream answers the upgrade; then the longest pause in a response other than 101. */
  readonly timeout: number
  readonly responseLimit: number
}

export interface TunnelResponse {
  readonly status: number
  readonly headers: string[]
}

/** Whether the process is about to stop; `cut` once it has closed the remaining connections. */
export type Stopping = boolean | 'cut'

export interface WireListener {
  drained(): void
  /** The process is about to stop: a response without an end of its own should end now. */
  stopping(): void
  /** The connection is done with this response; `complete` when all of it was sent. */
  closed(complete: boolean): void
}

/**
 * The client's side of one request. `listener/` implements it over the bare socket and over Node's response, tests over
 * an array. Ignores calls after `end` or `destroy`.
 */
export interface Wire {
  /** Set once by the engine before anything is written. */
  listener: WireListener | null
  readonly gone: boolean
  /** Changes are reported by `stopping`. */
  readonly stopping: Stopping
  /**
   * Bytes were given to the connection. False for a head held until the end of the turn: if aborted before, nothing was
   * received.
   */
  readonly begun: boolean
  readonly bytesOut: number
  /**
   * Before the head: probes whether a half-closed client still reads. Null when it is not half-closed, or cannot be
   * probed.
   */
  stillReads(): Promise<boolean> | null
  interim(status: number, headers: readonly string[]): void
  /** `headers` is a flat list and may be kept. */
  head(status: number, headers: string[]): void
  /** False asks to wait for `drained`. */
  write(bytes: Uint8Array): boolean
  end(last: string | Uint8Array | null, trailers: readonly string[] | null): void
  /** Aborts the connection so that the client sees an error, never a clean end. */
  destroy(): void
  /** Null for all but upgrade requests. */
  readonly tunnel: Tunnel | null
}

/**
 * Connects an upgrade request to its upstream. `accepted` may change the headers before the 101. Resolves when the
 * tunnel has closed, or with `refused` for the caller to answer. Rejects with a `GatewayError` when the upstream did not
 * switch protocols and nothing was written.
 */
export type Tunnel = (
  target: TunnelTarget,
  accepted: (response: TunnelResponse) => void | Promise<void>
) => Promise<TunnelResult>

export type TunnelResult =
  | { readonly kind: 'closed'; readonly bytesIn: number; readonly bytesOut: number }
  | { readonly kind: 'refused'; readonly response: TunnelResponse; readonly body: Readable }
