import type { Static, TSchema } from 'typebox'
import type { Context, Slot, RouteInfo } from '../message/context.ts'
import type { Head, Outcome, Reply } from '../message/reply.ts'
import type { HeaderList } from '../message/headers.ts'
import type { TunnelTarget } from '../message/wire.ts'
import type { PolicyConfig } from '../sections/policy.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import type { State } from '../../platform/state/state.ts'

/**
 * Services for `uses`. Domains add theirs by declaration merging (`declare module '…/pipeline/plugin.ts' { interface
 * Services { challenges: … } }`), so that the engine imports none.
 */
export interface Services {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  /** Counters, replays and caches that workers share. */
  readonly state: State
  readonly policies: Readonly<Record<string, PolicyConfig>>
}

export type HookResult = void | Reply | Promise<void | Reply>

/** The request as it goes to the upstream. Plugins may change it in `upstream`. */
export interface UpstreamRequest {
  readonly method: string
  path: string
  readonly headers: HeaderList
  /** Replaces the request's own body, which must have been collected. */
  body?: Uint8Array
  /** The model that a fallback is asked for instead of the request's own. */
  readonly model?: string | undefined
  /** Origin of the upstream where it has several or fallbacks. */
  readonly origin?: string | undefined
}

/**
 * What a plugin does in each phase of a request. All hooks are optional; omitted ones cost nothing.
 *
 * `request` runs down the chain in the order of the file. `response` runs in reverse for the entered plugins, before
 * the head is written; it also sees replies and errors. `done` runs for the same plugins exactly once in every outcome:
 * delivered, refused, upstream failed, client gone.
 */
export interface Hooks {
  request?(ctx: Context): HookResult
  /**
   * Replaces `request` in an entry with `mode: observe`, for a plugin with side effects: decides the same without them.
   * The status of its reply is logged.
   */
  observe?(ctx: Context): HookResult
  /** Just before forwarding; synchronous. Called again for each further address that gets the request. */
  upstream?(ctx: Context, out: UpstreamRequest): void
  response?(ctx: Context, head: Head): void | Promise<void>
  /**
   * Watches the bytes of the response; must neither keep nor change them. A promise passes these bytes on and pauses
   * the upstream until it resolves. A rejection or an exception aborts the response.
   */
  chunk?(ctx: Context, bytes: Uint8Array): void | Promise<void>
  /**
   * Bytes after the last piece of an upstream's response; called once per entered plugin. Ignored where Content-Length
   * was announced.
   */
  last?(ctx: Context): Uint8Array | null
  done?(ctx: Context, outcome: Outcome): void
  /** This generation of the configuration retires: end timers, release pools. */
  close?(): void | Promise<void>
  /**
   * Its `request` answers CORS preflights, which come to the route of the request they announce. Its `response` also
   * gets the 503 of requests shed before any `request` hook.
   */
  answersPreflights?: boolean
  /** The kind of principal that every request has after this plugin, for operations that require it. */
  establishes?: string
  /** Terminal plugins only: returns a reply, or takes over `responder` and returns nothing. */
  handle?(ctx: Context, responder: Responder): HookResult
}

export interface Scope<K extends keyof Services = keyof Services> {
  readonly services: Pick<Services, K>
  readonly route: RouteInfo
  readonly mode: 'development' | 'production'
  slot<T>(name: string): Slot<T>
}

export interface Plugin<S extends TSchema = TSchema, K extends keyof Services = keyof Services> {
  readonly name: string
  readonly config: S
  readonly description?: string
  readonly uses?: readonly K[]
  /** Facts that an earlier plugin of the chain must provide. */
  readonly needs?: readonly string[]
  readonly provides?: readonly string[]
  /** Plugins that must not come later in the chain: `challenge` has `after: ['throttle']`. */
  readonly after?: readonly string[]
  readonly terminal?: boolean
  setup(config: Static<S>, scope: Scope<K>): Hooks | Promise<Hooks>
}

/** Infers the types of configuration and services. */
export function definePlugin<const S extends TSchema, const K extends keyof Services = never>(
  plugin: Plugin<S, K>
): Plugin<S, K> {
  return plugin
}

/** How the terminal plugin streams a response through the chain to the client. */
export interface Responder {
  readonly gone: boolean
  /** Called when the client reads again after `write` returned false. */
  onDrain: (() => void) | null
  /** Called once when the response is over, also when the client left. */
  onClose: (() => void) | null
  forwarding(out: UpstreamRequest): void
  interim(status: number, headers: readonly string[]): void
  /** Runs the response hooks and writes the head. If it returns a promise, write nothing before it resolves. */
  head(status: number, headers: HeaderList): void | Promise<void>
  /** False asks to wait for `onDrain`. */
  write(bytes: Uint8Array): boolean
  end(trailers: readonly string[] | null): void
  /** Answers with the error before the head. After it, aborts the connection so that the client sees a fault. */
  fail(error: Error): void
  /** Joins an upgrade to its upstream; the response's head, 101 or another, goes up the chain. */
  tunnel(target: TunnelTarget, policy: TunnelPolicy): Promise<void>
}

export interface TunnelPolicy {
  /** The headers of the upstream's response that may be passed on; `raw` is flat. */
  headers(status: number, raw: readonly string[]): HeaderList
  failure(error: Error): Error
}
