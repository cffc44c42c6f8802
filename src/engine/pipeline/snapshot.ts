import { Chain } from './chain.ts'
import { type Context, NO_ROUTE, type RouteInfo } from '../message/context.ts'
import { GatewayError, methodNotAllowed, notFound } from '../operations/errors.ts'
import { Exchange, type ExchangeEvents } from './exchange.ts'
import { replyInProcess, type InternalContext } from './in-process.ts'
import type { InternalUpstream } from './internal.ts'
import { type Load, OVERLOADED } from './load.ts'
import { announcedMethod } from '../message/caller.ts'
import { hostName, type Match, type Router } from './router.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { isTracing, RequestTrace } from '../../platform/telemetry/tracing.ts'
import type { Outcome, WholeReply } from '../message/reply.ts'
import type { Wire } from '../message/wire.ts'

export interface CompiledRoute {
  readonly info: RouteInfo
  readonly chain: Chain
  readonly operations: InternalUpstream | null
}

interface ProxyHost {
  readonly host: string
  readonly router: Router<CompiledRoute>
}

function take(ctx: Context, { params, value: { chain, info } }: Match<CompiledRoute>): Chain {
  ctx.route = info
  ctx.params = params
  if (chain.slotCount > 0) ctx.slots = chain.emptySlots.slice()
  return chain
}

/** Null also where a compared value is unreadable, which the chain without a route answers. */
function find(router: Router<CompiledRoute>, ctx: Context, method: string): Match<CompiledRoute> | null {
  try {
    return router.find(ctx.host, method, ctx.path, ctx)
  } catch (error) {
    if (error instanceof GatewayError) return null
    throw error
  }
}

/**
 * Answers unmatched requests: 404, 405 with Allow for another method of a served path, and 204 with Allow for a plain
 * OPTIONS on own operations (decision 6). Catch-all routes leave nothing to it.
 */
function withoutRoute(routerOf: (host: string) => Router<CompiledRoute>): Chain {
  return new Chain(
    [
      {
        handle(ctx) {
          const routes = routerOf(ctx.host).methodsAt(ctx.host, ctx.path, ctx)
          if (routes.size === 0) throw notFound()
          const allowed = [...routes.keys()]
          const own = [...routes.values()].some(route => route.info.config?.upstream.kind === 'internal')
          if (own) allowed.push('OPTIONS')
          allowed.sort()
          if (own && ctx.method === 'OPTIONS')
            return { status: 204, headers: ['Allow', allowed.join(', ')], body: null }
          throw methodNotAllowed(ctx.method, allowed)
        }
      }
    ],
    0
  )
}

/**
 * One immutable generation of the configuration. A request keeps the snapshot it began with; a replaced snapshot closes
 * its plugins after its last request.
 */
export class Snapshot implements ExchangeEvents {
  readonly generation: number
  readonly mode: 'development' | 'production'
  readonly isStrict: boolean
  readonly #router: Router<CompiledRoute>
  readonly #apart: ProxyHost | null
  readonly #chains: readonly Chain[]
  readonly #noRoute: CompiledRoute
  readonly #clock: Clock
  readonly #log: Log
  readonly #load: Load | null
  #active = 0
  #retired = false
  readonly #closed = Promise.withResolvers<void>()

  constructor(options: {
    readonly generation: number
    readonly mode: 'development' | 'production'
    readonly isStrict?: boolean
    readonly router: Router<CompiledRoute>
    /** The host name of `server.proxyUrl`, which serves merchants' proxies only; null without one. */
    readonly apart: ProxyHost | null
    readonly chains: readonly Chain[]
    readonly clock: Clock
    readonly log: Log
    /** Null sheds nothing. */
    readonly load: Load | null
  }) {
    this.generation = options.generation
    this.mode = options.mode
    this.isStrict = options.isStrict === true
    this.#router = options.router
    this.#apart = options.apart
    this.#chains = options.chains
    this.#noRoute = { info: NO_ROUTE, chain: withoutRoute(host => this.#routerOf(host)), operations: null }
    this.#clock = options.clock
    this.#log = options.log
    this.#load = options.load
  }

  get active(): number {
    return this.#active
  }

  handle(ctx: Context, wire: Wire): void {
    this.#active++
    const found = this.#find(ctx)
    if (found === null) {
      ctx.route = NO_ROUTE
      this.#run(ctx, wire, this.#noRoute.chain)
      return
    }
    this.#run(ctx, wire, take(ctx, found))
  }

  async ask(ctx: InternalContext): Promise<WholeReply> {
    this.#active++
    const found = find(this.#routerOf(ctx.host), ctx, ctx.method)
    if (found !== null) take(ctx, found)
    try {
      return await replyInProcess(ctx, found?.value ?? this.#noRoute, this)
    } finally {
      this.finished()
    }
  }

  #run(ctx: Context, wire: Wire, chain: Chain): void {
    if (!isTracing) {
      this.#start(ctx, wire, chain)
      return
    }
    const trace = (ctx.trace = new RequestTrace(ctx))
    trace.within(() => {
      this.#start(ctx, wire, chain)
    })
  }

  #start(ctx: Context, wire: Wire, chain: Chain): void {
    const exchange = new Exchange(ctx, wire, chain, this)
    // A refused preflight would hide the 503 from the page.
    const isPreflight = ctx.preflight === 'own' && chain.answersPreflights
    if (!isPreflight && this.#load?.sheds(ctx, chain.queue) === true) exchange.shed(OVERLOADED)
    else {
      // A client that still sends its body occupies none of our resources.
      if (this.#load !== null && !ctx.body.unfinished) exchange.enter(this.#load)
      exchange.start()
    }
  }

  /**
   * Matches a preflight to a route that names OPTIONS, else to that of the announced request if pages may call it. Any
   * other match must not grant what the announced route does not (decision 6).
   */
  #find(ctx: Context): Match<CompiledRoute> | null {
    const router = this.#routerOf(ctx.host)
    const found = find(router, ctx, ctx.method)
    const announced = announcedMethod(ctx)
    if (announced === null) return found
    const target = find(router, ctx, announced)
    const namesOptions = found?.value.info.config?.match.method?.includes('OPTIONS') === true
    if (!namesOptions && target?.value.chain.answersPreflights === true) {
      ctx.preflight = 'own'
      return target
    }
    ctx.preflight = namesOptions || (target !== null && target.value === found?.value) ? 'own' : 'strange'
    return found
  }

  #routerOf(host: string): Router<CompiledRoute> {
    return this.#apart !== null && hostName(host) === this.#apart.host ? this.#apart.router : this.#router
  }

  /** Whether only own operations serve this path, whatever the request's values. `path` is raw, without a query. */
  answersItself(method: string, host: string, path: string): boolean {
    const router = this.#routerOf(host)
    return !router.isNarrowed && router.find(host, method, path)?.value.info.config?.upstream.kind === 'internal'
  }

  retire(): Promise<void> {
    if (!this.#retired) {
      this.#retired = true
      this.#closeWhenIdle()
    }
    return this.#closed.promise
  }

  now(): number {
    return this.#clock.now()
  }

  monotonic(): number {
    return this.#clock.monotonic()
  }

  fault(ctx: Context, error: Error): void {
    this.#log.error({ err: error, correlationId: ctx.correlationId, route: ctx.route.name }, 'request failed')
  }

  finished(exchange?: Exchange, { status, error }: Partial<Outcome> = {}): void {
    exchange?.ctx.trace?.end(exchange.ctx.route.name, status ?? 0, error ?? null)
    this.#active--
    this.#closeWhenIdle()
  }

  #closeWhenIdle(): void {
    if (this.#retired && this.#active === 0) void this.#close()
  }

  /** Never rejects: errors of closing plugins are logged. */
  async #close(): Promise<void> {
    for (const result of await Promise.allSettled(this.#chains.map(chain => chain.close()))) {
      if (result.status === 'rejected') this.#log.error({ err: result.reason as unknown }, 'a plugin failed to close')
    }
    this.#closed.resolve()
  }
}
