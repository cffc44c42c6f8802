/** What a scenario asks, the same for every target but for the Host and, where they differ, the credentials. */
export interface LoadRequest {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** Body, sent with Content-Length; null for none. Latin-1, since the generators read it from JSON. */
  readonly body: string | null
  /** How requests differ from one another; null where all are alike. */
  readonly varied: Varied | null
  /** The status that says that the work was done. */
  readonly status: number
}

/**
 * How each request differs from those before it: by the next line of a file as the value of a header (with `again` from
 * the first line on after the last), or by a number of ten digits instead of `{n}` in path and body.
 */
export type Varied = { readonly header: string; readonly file: string; readonly again?: boolean } | 'number'

/** A request without a body, always the same, answered with 200. */
export function plainGet(path: string, headers: Readonly<Record<string, string>> = {}): LoadRequest {
  return { method: 'GET', path, headers, body: null, varied: null, status: 200 }
}

/** What a generator saw. Latencies in microseconds. */
export interface LoadResult {
  readonly requests: number
  readonly seconds: number
  /** Answers with another status than the one asked for. */
  readonly refused: number
  /** Connections that broke, requests that were never answered. */
  readonly broken: number
  readonly latency: Latency
  /** Requests sent in all, counted or not: so many of the variations are used. */
  readonly sent: number
  /**
   * Open loop only: how late requests were sent, at the median and at the 99th percentile, in microseconds, and how
   * many were still waiting at the end.
   */
  readonly lateMedian?: number
  readonly late?: number
  readonly unsent?: number
}

/** Percentiles in microseconds. */
export interface Latency {
  readonly p50: number
  readonly p99: number
  readonly p999: number
}
