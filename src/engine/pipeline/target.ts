import type { ProxyScope } from '../message/proxy-scope.ts'

/** Where a request is forwarded to: constant for an operator's route, looked up for a merchant's proxy. */
export interface UpstreamTarget {
  readonly origin: string
  readonly path: string
  /** Flat list; replaces the client's headers of the same names. */
  readonly requestHeaders: readonly string[]
  /** Flat list, set only on the upstream's own responses. */
  readonly responseHeaders: readonly string[]
  /** Milliseconds to the response head; then the longest pause between two pieces (decision 97). */
  readonly timeout: number
  /** Bytes of response body; Infinity for no limit (decision 96). */
  readonly responseLimit: number
  readonly underscoreHeaders?: boolean
  /** Connections are never shared between tenants. */
  readonly tenant: string
  /**
   * The scope of a merchant's proxy: its address is checked at connect, it gets no credentials, and its responses are
   * sandboxed (decisions 92, 100 and 322). Null for an operator's upstream.
   */
  readonly untrusted: ProxyScope | null
  readonly tls: { readonly ca?: string; readonly servername?: string } | null
  /** Members that error bodies carry besides error and message, such as `proxy_id`. */
  readonly errorMembers: Readonly<Record<string, unknown>>
}
