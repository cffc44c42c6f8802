import type { MeterConfig } from '../checks/meter.ts'
import type { FiatText } from '../checks/money-text.ts'
import type { RequestBody } from './body.ts'
import type { Tally } from '../../platform/telemetry/tallies.ts'
import type { ReadonlyHeaders } from './headers.ts'
import type { Idempotency } from './idempotency.ts'
import type { RouteInfo } from '../pipeline/route.ts'
import type { UpstreamTarget } from '../pipeline/target.ts'
import type { BodyLimit } from './unpaid-body.ts'

/**
 * The kinds of caller that a chain can establish. Domains add theirs by declaration merging, so that the engine knows
 * none of them: `declare module '…/gateway/context.ts' { interface PrincipalKinds { merchant: … } }`.
 */
// oxlint-disable-next-line typescript/no-empty-object-type -- filled by declaration merging
export interface PrincipalKinds {}

/** Who the request acts for, once an authentication plugin has said so. */
export type Principal = PrincipalKinds[keyof PrincipalKinds] & { readonly kind: string; readonly id: string }

/** What was paid for this request, once a credential has been verified. */
export interface RequestPayment {
  readonly scheme: 'l402' | 'payment' | 'payment-legacy' | 'session'
  /** 64 lower-case hex characters; of a session its id, which is the hash of its first deposit. */
  readonly paymentHash: string
  /** What was paid; of a session what one unit costs. */
  readonly amountSats: number
}

/**
 * What the request would buy, once a route's price or a merchant's proxy has said so. `challenges/` adds the members by
 * declaration merging; the engine knows only that there is a price.
 */
export interface RequestOffer {
  /** Satoshis, 0 for what is free; null where the price is `fiat`, which becomes satoshis with the challenge. */
  readonly amountSats: number | null
  /** The price where it is no bitcoin. */
  readonly fiat: FiatText | null
  /** Where the payment buys a balance, how the request takes from it; null where it buys the request. */
  readonly meter: MeterConfig | null
}

/** The place of a plugin's own value on the context; made by `scope.slot` when the chain is built. */
export interface Slot<T> {
  readonly index: number
  readonly name: string
  /** Never set; it ties the slot to the type of its value. */
  readonly value?: T
}

/** What the front door knows about a request when it makes its context. */
export interface RequestFacts {
  readonly method: string
  readonly target: string
  readonly headers: ReadonlyHeaders
  readonly host: string
  readonly body: RequestBody
  readonly peerAddress: string
  readonly clientAddress: string
  readonly secure: boolean
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
 * Stands between an upstream's body and the client. It may hold pieces back and add its own, and keeps a piece only as
 * a copy: the connection uses its memory again.
 */
export interface BodyFilter {
  /** A promise asks the upstream to wait until it has resolved; what rejects or is thrown breaks the response off. */
  write(bytes: Uint8Array): void | Promise<void>
  /** The upstream's body is over: the response ends once this is done, by a promise when it has resolved. */
  end(): void | Promise<void>
}

/** A response that flows, or is about to. */
export interface RunningResponse {
  /**
   * Lets the body of an upstream's response go through a filter, which writes with `out` what the client gets; watchers
   * see that. From a `response` hook alone, by one plugin, and never where Content-Length is announced.
   */
  filter(make: (out: (bytes: Uint8Array) => void) => BodyFilter): void
  /**
   * Ends it before its end. Without `last` the connection is broken off, so that nobody takes what came for the whole;
   * before the head the error is answered. With `last` that is the end, for a body which says by itself that more would
   * have come; only from a plugin that has a `last` hook, and it is broken off where Content-Length was announced. A
   * response that is over stays as it is.
   */
  cut(error: Error, last: Uint8Array | null): void
}

/**
 * One request on its way: the only thing that plugins and domains see of it. Node's own request and response stay in
 * `http/`, so that the listener can be replaced without touching a plugin.
 */
export class Context {
  readonly method: string
  /** The request target as it came: path and query, byte for byte. */
  readonly target: string
  /** The raw path, without the query. */
  readonly path: string
  /** The raw query without its question mark; empty when there is none. */
  readonly query: string
  readonly headers: ReadonlyHeaders
  /** Host and port as the client named them, lower case; empty where an HTTP/1.0 client named none. */
  readonly host: string
  readonly body: RequestBody
  /** The address of the connection's other end. */
  readonly peerAddress: string
  /** The client's address after the rules for trusted proxies. */
  readonly clientAddress: string
  /** The client's side speaks TLS, here or at a trusted proxy in front. */
  readonly secure: boolean
  readonly httpVersion: '1.0' | '1.1'
  /** The protocol asked for in Upgrade, lower case; null on a plain request. */
  readonly upgrade: string | null
  /** The client waits for 100 before it sends the body. */
  readonly expectsContinue: boolean
  readonly correlationId: string
  /** Wall-clock milliseconds since the epoch when the head was accepted. */
  readonly now: number
  /** Monotonic milliseconds when the head was accepted. */
  readonly startedAt: number

  route: RouteInfo
  /** Route parameters, decoded; for identifiers only. */
  params: Readonly<Record<string, string>>
  /**
   * Of a CORS preflight whether the request that it announces comes to this route (`own`), or goes elsewhere or nowhere
   * (`strange`), so that nothing may be granted here; null for any other request.
   */
  preflight: 'own' | 'strange' | null
  principal: Principal | null
  payment: RequestPayment | null
  /** The idempotency key under which the request runs; null for none, and where the chain has no `idempotency`. */
  idempotency: Idempotency | null
  /** What this request would buy; null on what is free or not priced yet. */
  offer: RequestOffer | null
  /** A part of the payment's balance is reserved for this request; the plugin `meter` says so. */
  isReserved: boolean
  /** Where `forward` sends the request; null takes the route's own upstream. */
  upstreamTarget: UpstreamTarget | null
  /** Where `metrics` counts this request beside its route; null for nowhere. */
  tally: Tally | null
  /** What the engine lets a plugin do with the response while it flows; null where no engine runs the request. */
  response: RunningResponse | null
  /** Rate limits that count bodies; each `throttle` of the chain adds its own. */
  bodyLimits: readonly BodyLimit[]
  /** Units of the body that its limits count at the end of the request unless it is paid; null until it is read. */
  bodyUnits: number | null
  /** The values of plugins' slots; use `get` and `set`. */
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
    this.httpVersion = facts.httpVersion
    this.upgrade = facts.upgrade
    this.expectsContinue = facts.expectsContinue
    this.correlationId = facts.correlationId
    this.now = facts.now
    this.startedAt = facts.startedAt
    this.route = noRoute
    this.params = NO_PARAMS
    this.preflight = null
    this.principal = null
    this.payment = null
    this.idempotency = null
    this.offer = null
    this.isReserved = false
    this.upstreamTarget = null
    this.tally = null
    this.response = null
    this.bodyLimits = NO_LIMITS
    this.bodyUnits = null
    this.slots = NO_SLOTS
  }

  /** Whether a page of this gateway asks in-process (`InternalContext`); its own request was counted and logged. */
  get internal(): boolean {
    return false
  }

  /** The value of a plugin's slot, or undefined when it was not set for this request. */
  get<T>(slot: Slot<T>): T | undefined {
    // Only `set` writes here, with the slot's own type.
    return this.slots[slot.index] as T | undefined
  }

  set<T>(slot: Slot<T>, value: T): void {
    this.slots[slot.index] = value
  }
}
