import type { RequestTrace } from '../../platform/telemetry/tracing.ts'
import type { MeterConfig } from '../checks/meter.ts'
import type { FiatText } from '../checks/money-text.ts'
import type { Tally } from '../../platform/telemetry/tallies.ts'
import type { ReadonlyHeaders } from './headers.ts'
import type { Idempotency } from './idempotency.ts'
import type { BodyLimit } from './unpaid-body.ts'
import type { RouteConfig } from '../config/schema.ts'
import type { ProxyScope } from './proxy-scope.ts'
import type { Readable } from 'node:stream'

/**
 * The kinds of caller that a chain can establish. Domains add theirs by declaration merging, so that the engine knows
 * none of them: `declare module '…/gateway/context.ts' { interface PrincipalKinds { merchant: … } }`.
 */
// oxlint-disable-next-line typescript/no-empty-object-type -- filled by declaration merging
export interface PrincipalKinds {}

export type Principal = PrincipalKinds[keyof PrincipalKinds] & { readonly kind: string; readonly id: string }

export interface RequestPayment {
  readonly scheme: 'l402' | 'payment' | 'payment-legacy' | 'session' | 'x402'
  /** For a session its id, the hash of its first deposit. */
  readonly paymentHash: string
  /** The payment; for a session the price of one unit. */
  readonly amountSats: number
  /** What the holder of a key to a balance narrowed it to; absent or null for none. */
  readonly limits?: PaymentLimits | null
}

/** Limits of a key to a balance. `msat` is in all, or per calendar day or month (UTC). */
export interface PaymentLimits {
  readonly budgets: ReadonlyArray<{
    readonly id: string
    readonly msat: number
    readonly period: 'day' | 'month' | null
  }>
  /** Null: all. */
  readonly models: readonly string[] | null
}

/** What the request would buy. `challenges/` adds members by declaration merging; the engine knows only the price. */
export interface RequestOffer {
  /** Satoshis, 0 when free; null where the price is `fiat`, converted with the challenge. */
  readonly amountSats: number | null
  readonly fiat: FiatText | null
  /** Where the payment buys a balance, how the request draws from it; null where it buys the request. */
  readonly meter: MeterConfig | null
}

/** The place of a plugin's value on the context, from `scope.slot`. */
export interface Slot<T> {
  readonly index: number
  readonly name: string
  /** Never set; ties the slot to the type of its value. */
  readonly value?: T
}

/** What the client presented in a TLS handshake with this gateway. */
export interface ClientCertificate {
  /** Its subject's common name; `sha256:` and the fingerprint where there is not exactly one. */
  readonly name: string
  /** Why the handshake could not verify it; null when it did. */
  readonly fault: string | null
  /** End of validity in wall-clock milliseconds: a connection or a resumed session may outlast it. */
  readonly until: number
}

export interface RequestFacts {
  readonly method: string
  readonly target: string
  readonly headers: ReadonlyHeaders
  readonly host: string
  readonly body: RequestBody
  readonly peerAddress: string
  readonly clientAddress: string
  readonly secure: boolean
  readonly clientCertificate?: ClientCertificate | null
  readonly httpVersion: '1.0' | '1.1'
  readonly upgrade: string | null
  readonly expectsContinue: boolean
  readonly correlationId: string
  readonly now: number
  readonly startedAt: number
}

const NO_PARAMS: Readonly<Record<string, string>> = Object.freeze(Object.create(null) as Record<string, string>)
const NO_SLOTS: unknown[] = []
const NO_LIMITS: readonly BodyLimit[] = Object.freeze([])

/**
 * Transforms an upstream's body on its way to the client. Must copy what it retains: the connection reuses the memory.
 */
export interface BodyFilter {
  /** A promise back-pressures the upstream; an exception or a rejection aborts the response. */
  write(bytes: Uint8Array): void | Promise<void>
  /** The response ends when this returns or resolves. */
  end(): void | Promise<void>
}

export interface RunningResponse {
  /**
   * Filters an upstream's body; watchers see what `out` writes. Only from a `response` hook, by one plugin, and without
   * Content-Length.
   */
  filter(make: (out: (bytes: Uint8Array) => void) => BodyFilter): void
  /**
   * Ends the response early. Without `last` the connection is aborted, so that the part cannot pass for the whole;
   * before the head the error is answered. With `last`, for a body that marks its own truncation, the response ends
   * cleanly. `last` requires a plugin with a `last` hook and no announced Content-Length. Ignored after the end.
   */
  cut(error: Error, last: Uint8Array | null): void
}

/**
 * One request as plugins and domains see it. Node's request and response stay in `listener/`, so that it can be
 * replaced without touching a plugin.
 */
export class Context {
  readonly method: string
  /** Path and query, byte for byte. */
  readonly target: string
  /** Raw, without the query. */
  readonly path: string
  readonly query: string
  readonly headers: ReadonlyHeaders
  /** As the client sent it, lower case, with port; empty for an HTTP/1.0 client without Host. */
  readonly host: string
  readonly body: RequestBody
  readonly peerAddress: string
  /** After the rules for trusted proxies. */
  readonly clientAddress: string
  /** The client's side uses TLS, here or at a trusted proxy. */
  readonly secure: boolean
  /** Null without `server.clientCa`, and on connections of trusted proxies, whose certificate is not the client's. */
  readonly clientCertificate: ClientCertificate | null
  readonly httpVersion: '1.0' | '1.1'
  /** Requested protocol, lower case; null on a plain request. */
  readonly upgrade: string | null
  readonly expectsContinue: boolean
  readonly correlationId: string
  /** Wall-clock milliseconds when the head was accepted. */
  readonly now: number
  /** Monotonic milliseconds when the head was accepted. */
  readonly startedAt: number

  route: RouteInfo
  /** Decoded; for identifiers only. */
  params: Readonly<Record<string, string>>
  /**
   * For a CORS preflight whether the announced request comes to this route (`own`), or not (`strange`), in which case
   * nothing may be granted. Null for other requests.
   */
  preflight: 'own' | 'strange' | null
  /** Its spans; null without an OpenTelemetry SDK. */
  trace: RequestTrace | null
  principal: Principal | null
  payment: RequestPayment | null
  /** The request's idempotency key; null for none, and without the `idempotency` plugin. */
  idempotency: Idempotency | null
  offer: RequestOffer | null
  /** Part of the payment's balance is reserved for this request; set by the plugin `meter`. */
  isReserved: boolean
  /** An upstream was sent the beginning of the request, so it may act. */
  isSent: boolean
  /** Its 402 is no lost sale: a directory's crawler that names itself, HEAD, a quote, or the operator's own test. */
  isProbe: boolean
  /** Null for the route's own upstream. */
  upstreamTarget: UpstreamTarget | null
  /** Where `metrics` counts this request besides its route. */
  tally: Tally | null
  response: RunningResponse | null
  /** Rate limits that count bodies; each `throttle` of the chain adds its own. */
  bodyLimits: readonly BodyLimit[]
  /** Units counted against the body limits at the end unless the request is paid; null until the body is read. */
  bodyUnits: number | null
  slots: unknown[]

  constructor(facts: RequestFacts, noRoute: RouteInfo) {
    const mark = facts.target.indexOf('?')
    this.method = facts.method
    this.target = facts.target
    this.path = mark < 0 ? facts.target : facts.target.slice(0, mark)
    this.query = mark < 0 ? '' : facts.target.slice(mark + 1)
    this.headers = facts.headers
    this.host = facts.host
    this.body = facts.body
    this.peerAddress = facts.peerAddress
    this.clientAddress = facts.clientAddress
    this.secure = facts.secure
    this.clientCertificate = facts.clientCertificate ?? null
    this.httpVersion = facts.httpVersion
    this.upgrade = facts.upgrade
    this.expectsContinue = facts.expectsContinue
    this.correlationId = facts.correlationId
    this.now = facts.now
    this.startedAt = facts.startedAt
    this.route = noRoute
    this.params = NO_PARAMS
    this.preflight = null
    this.trace = null
    this.principal = null
    this.payment = null
    this.idempotency = null
    this.offer = null
    this.isReserved = false
    this.isSent = false
    this.isProbe = false
    this.upstreamTarget = null
    this.tally = null
    this.response = null
    this.bodyLimits = NO_LIMITS
    this.bodyUnits = null
    this.slots = NO_SLOTS
  }

  /** An in-process API call by a page (`InternalContext`), whose own request was already counted and logged. */
  get internal(): boolean {
    return false
  }

  get<T>(slot: Slot<T>): T | undefined {
    // Only `set` writes here, with the slot's own type.
    return this.slots[slot.index] as T | undefined
  }

  set<T>(slot: Slot<T>, value: T): void {
    this.slots[slot.index] = value
  }
}

export interface RouteInfo {
  /**
   * Label for logs and metrics: the route's name, else its method and path pattern. Never made from a request's path.
   */
  readonly name: string
  readonly config: RouteConfig | null
  /** The service itself answers (internal operations, merchants' proxies): its own X-API-Version replaces any other. */
  readonly own: boolean
}

export const NO_ROUTE: RouteInfo = Object.freeze({ name: 'none', config: null, own: true })

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
  /** What its health checks say; null without. */
  readonly health?: {
    readonly isHealthy: boolean
    /** Milliseconds between checks. */
    readonly every: number
    readonly failures: number
    readonly since: number
    readonly lastAt: number
  } | null
  /** One of several: answers of 502, 503 and 504 count as failures. */
  readonly isPooled?: boolean
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
  isAnonymous: boolean
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
