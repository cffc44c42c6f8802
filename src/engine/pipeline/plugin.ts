import type { Static, TSchema } from 'typebox'
import type { Context, Slot } from '../message/context.ts'
import type { Head, Outcome, Reply } from '../message/reply.ts'
import type { RouteInfo } from './route.ts'
import type { Services } from './services.ts'
import type { Responder } from './responder.ts'
import type { HeaderList } from '../message/headers.ts'

/** Go on (nothing), answer now (a reply), or either of them later. */
export type HookResult = void | Reply | Promise<void | Reply>

/** The request as it will go to the upstream. Plugins may change it just before it leaves. */
export interface UpstreamRequest {
  readonly method: string
  /** As it will stand in the request line, with its query. */
  path: string
  readonly headers: HeaderList
  /** Sent instead of the request's own body, which must have been collected. */
  body?: Uint8Array
}

/**
 * What a plugin does at each point of a request's way. All hooks are optional; those left out cost nothing.
 *
 * `request` runs down the chain in the order of the file. `response` runs up the chain, in reverse, for the plugins
 * that were entered, before the head is written; it also sees replies and errors. `done` runs for the same plugins
 * exactly once in every ending: delivered, refused, upstream failed, client gone.
 */
export interface Hooks {
  request?(ctx: Context): HookResult
  /**
   * Stands in for `request` where the entry has `mode: observe`, for a plugin that makes something or waits for
   * somebody to find its response: it decides the same and does nothing. What it answers is logged; only its status is
   * looked at.
   */
  observe?(ctx: Context): HookResult
  /** Just before forwarding; synchronous. */
  upstream?(ctx: Context, out: UpstreamRequest): void
  response?(ctx: Context, head: Head): void | Promise<void>
  /**
   * Watches the bytes of the response; must neither keep nor change them. A promise lets these bytes go on and asks the
   * upstream to wait until it has resolved; one that rejects breaks the response off, as does what is thrown.
   */
  chunk?(ctx: Context, bytes: Uint8Array): void | Promise<void>
  /**
   * Bytes that follow the last piece of an upstream's response; asked once, of those that were entered, and nothing is
   * added where Content-Length has been announced.
   */
  last?(ctx: Context): Uint8Array | null
  done?(ctx: Context, outcome: Outcome): void
  /** This generation of the configuration retires: end timers, give back pools. */
  close?(): void | Promise<void>
  /**
   * Its `request` answers whatever has `preflight`: a CORS preflight comes to the route of the request that it
   * announces, where that route's chain has such a plugin. Its `response` also gets the 503 of requests that an
   * overloaded gateway refuses before any `request` hook.
   */
  answersPreflights?: boolean
  /** The kind of principal that every request has which went past here; for what an operation behind it needs. */
  establishes?: string
  /** Terminal plugins only: answers with a reply, or takes over `responder` and returns nothing. */
  handle?(ctx: Context, responder: Responder): HookResult
}

/** What a plugin gets when its place in a chain is built. */
export interface Scope<K extends keyof Services = keyof Services> {
  readonly services: Pick<Services, K>
  readonly route: RouteInfo
  readonly mode: 'development' | 'production'
  /** Reserves a place on the context for a value of this plugin. */
  slot<T>(name: string): Slot<T>
}

/** A plugin: its name, the schema of its configuration, what it needs, and how it is set up for a route. */
export interface Plugin<S extends TSchema = TSchema, K extends keyof Services = keyof Services> {
  readonly name: string
  readonly config: S
  /** One paragraph for the generated reference. */
  readonly description?: string
  /** Services it uses; only these are in its scope. */
  readonly uses?: readonly K[]
  /** Facts that an earlier plugin of the chain must provide. */
  readonly needs?: readonly string[]
  readonly provides?: readonly string[]
  /** Plugins that must not stand later in the chain: `challenge` says `after: ['throttle']`. */
  readonly after?: readonly string[]
  /** Ends a chain: has `handle`, stands last. */
  readonly terminal?: boolean
  setup(config: Static<S>, scope: Scope<K>): Hooks | Promise<Hooks>
}

/** Declares a plugin; only there so that the types of configuration and services are inferred. */
export function definePlugin<const S extends TSchema, const K extends keyof Services = never>(
  plugin: Plugin<S, K>
): Plugin<S, K> {
  return plugin
}
