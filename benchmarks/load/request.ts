/** The one request that a scenario repeats, the same bytes for every target but for the Host. */
export interface LoadRequest {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
}

/** What a generator saw. Latencies in microseconds. */
export interface LoadResult {
  readonly requests: number
  readonly seconds: number
  /** Answers that were not 2xx. */
  readonly refused: number
  /** Connections that broke, requests that were never answered. */
  readonly broken: number
  readonly latency: Latency
  /** Open loop only: how late requests were sent, at the 99th percentile, and how many were still waiting at the end. */
  readonly late?: number
  readonly unsent?: number
}

/** Percentiles in microseconds. */
export interface Latency { readonly p50: number, readonly p99: number, readonly p999: number }
