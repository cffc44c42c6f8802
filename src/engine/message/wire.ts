import type { Readable } from 'node:stream'

/** What a tunnel (WebSocket or another upgraded protocol) is connected to. */
export interface TunnelTarget {
  /** Scheme, host and port of the upstream. */
  readonly origin: string
  /** Raw path and query, exactly as they go on the upstream's request line. */
  readonly path: string
  /** `[name, value, …]`, already cleaned by the header policy; the upgrade headers are added by the tunnel itself. */
  readonly headers: readonly string[]
  /** The checked address to connect to instead of resolving the name again, or null to resolve. */
  readonly address: string | null
  /** TLS options of the upstream, when it is https. */
  readonly tls: { readonly ca?: string; readonly servername?: string } | null
  /** Milliseconds until the upstream must have answered the upgrade; then the longest pause in a response other than 101. */
  readonly timeout: number
  /** Most bytes of the body of a response other than 101. */
  readonly responseLimit: number
}

/** The upstream's response to an upgrade, before it is passed on. */
export interface TunnelResponse {
  readonly status: number
  readonly headers: string[]
}

/** Whether the process is about to stop; `cut` once it has ended the connections that were still open. */
export type Stopping = boolean | 'cut'

/** Told about the client's side of the connection. */
export interface WireListener {
  /** The connection takes bytes again after a `write` that returned false. */
  drained(): void
  /** The process is about to stop: a response without an end of its own should end now. */
  stopping(): void
  /** The connection is finished with this response: `complete` when all of it was handed over. */
  closed(complete: boolean): void
}

/**
 * The client's side of one request, as the engine sees it. `http/` implements it over the bare socket and over Node's
 * response; tests implement it over an array. After `end` or `destroy` every call is ignored.
 */
export interface Wire {
  /** Set once by the engine before anything is written. */
  listener: WireListener | null
  /** The client is gone; nothing more will be delivered. */
  readonly gone: boolean
  /** From the beginning on the listener is told by `stopping`. */
  readonly stopping: Stopping
  /**
   * Some of the response has been given to the connection. False for a head that waits here for the end of the turn:
   * when the response is broken off before that, nobody has received any of it.
   */
  readonly begun: boolean
  /** Bytes of response body handed over so far. */
  readonly bytesOut: number
  /**
   * Before the head: finds out whether a client that has ended its side still reads. Null when it has not ended it, or
   * cannot be asked.
   */
  stillReads(): Promise<boolean> | null
  /** Passes on a 102 or 103. */
  interim(status: number, headers: readonly string[]): void
  /** Writes the head. `headers` is a flat list and may be kept. */
  head(status: number, headers: string[]): void
  /** Hands over a piece of the body; false asks the caller to wait for `drained`. */
  write(bytes: Uint8Array): boolean
  /** Ends the response, with a last piece and trailers where there are any. */
  end(last: string | Uint8Array | null, trailers: readonly string[] | null): void
  /** Breaks the connection off so that the client sees an error, never a clean end. */
  destroy(): void
  /**
   * Connects an upgrade request to its upstream. `accepted` may change the response's headers before the 101 is
   * written. Resolves when the tunnel has closed; rejects with a `GatewayError` when the upstream did not switch
   * protocols and nothing has been written yet. A response other than 101 is resolved with `refused` and left to the
   * caller.
   */
  tunnel(target: TunnelTarget, accepted: (response: TunnelResponse) => void | Promise<void>): Promise<TunnelResult>
}

/** How a tunnel ended. */
export type TunnelResult =
  | { readonly kind: 'closed'; readonly bytesIn: number; readonly bytesOut: number }
  | { readonly kind: 'refused'; readonly response: TunnelResponse; readonly body: Readable }
