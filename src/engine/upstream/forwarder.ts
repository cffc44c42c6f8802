import type { Readable } from 'node:stream'
import { allAddressesOf, type UrlUpstreamConfig } from '../sections/upstream.ts'
import type { Context, UpstreamTarget } from '../message/context.ts'
import type { Responder, UpstreamRequest } from '../pipeline/plugin.ts'
import { HeaderList } from '../message/headers.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { UpstreamBreakers } from './breakers.ts'
import { Deadlines } from './deadlines.ts'
import { badGateway, upstreamFailure } from './failure.ts'
import { AddressGuard, type ResolveName } from './guard.ts'
import { circular, requestHeaders } from './header-policy.ts'
import { Pools, type PoolSettings, type Upstream } from './pool.ts'
import {
  Attempts,
  Balancer,
  IDEMPOTENT,
  readTls,
  routePath,
  withModel,
  withoutSlash,
  type RouteUpstream,
  type UpstreamEntry
} from './route-upstream.ts'
import { requestHead, RequestRefused, type UpstreamCall } from './request-head.ts'
import { Sink } from './sink.ts'
import { UpgradePolicy } from './response-policy.ts'

declare module '../pipeline/plugin.ts' {
  interface Services {
    readonly forwarder: Forwarder
  }
}

interface ForwarderOptions {
  readonly clock: Clock
  /** In production merchants cannot target this machine (decision 162). */
  readonly production: boolean
  readonly resolve?: ResolveName
  /** Most pools of merchants' targets. */
  readonly poolCap?: number
  /** Milliseconds after which an unused pool is closed. */
  readonly poolIdle?: number
}

/** Connections to a merchant's target: few, so that none takes all of the gateway's. */
const DYNAMIC = 64

/** Largest body collected for a retry, and for fallbacks: that of requests that a meter reads. */
const REPLAYED = 64 * 1024
const REPLAYED_TO_FALLBACK = 1024 * 1024

/** What differs between the addresses of one upstream. */
interface OwnOfEntry extends Pick<PoolSettings, 'health' | 'tls'>, Pick<UpstreamEntry, 'model'> {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly isPooled: boolean
  readonly says: readonly string[]
}

/**
 * Forwards requests to upstreams: selects the connections, cleans the head, and streams the response. One per process;
 * configuration generations share its pools.
 */
export class Forwarder {
  readonly guard: AddressGuard
  readonly breakers: UpstreamBreakers
  readonly #pools: Pools
  readonly #deadlines: Deadlines

  constructor(options: ForwarderOptions) {
    this.guard = new AddressGuard({
      production: options.production,
      ...(options.resolve === undefined ? {} : { resolve: options.resolve })
    })
    this.breakers = new UpstreamBreakers(options.clock)
    const idle = Deadlines.ticks(options.poolIdle ?? 60_000)
    this.#pools = new Pools(this.guard, { cap: options.poolCap ?? 1000, idle }, options.clock)
    this.#deadlines = new Deadlines(
      options.clock,
      tick => {
        this.#pools.sweep(tick)
      },
      tick => {
        this.#pools.look(tick)
      }
    )
  }

  get load(): { readonly requests: number; readonly pools: number } {
    return { requests: this.#deadlines.size, pools: this.#pools.size }
  }

  /**
   * Reads the certificate files. Throws when one is unreadable, or for an invalid address. `name` is the route's, for
   * reports.
   */
  async open(config: UrlUpstreamConfig, name = ''): Promise<RouteUpstream> {
    const tls = config.tls === undefined ? null : await readTls(config.tls)
    const { fallback = [] } = config
    const urls = allAddressesOf(config)
    const wrong = urls.find(url => !/^https?:/i.test(url))
    if (wrong !== undefined) throw new TypeError(`upstream ${wrong}: the address must begin with http:// or https://`)
    const isAlone = urls.length === 1
    const entries = config.url.map(url =>
      this.#entry(config, {
        url,
        tls,
        model: null,
        headers: config.headers,
        health: config.health ?? null,
        isPooled: !isAlone,
        says: []
      })
    )
    const fallbacks = fallback.map(({ url, model = null, headers }, at) => {
      // The name of a model may have any character, a header may not.
      const says = ['X-Fallback', encodeURI(model ?? String(at + 1))]
      return this.#entry(config, { url, tls: null, model, headers, health: null, isPooled: true, says })
    })
    const [first] = entries
    if (first === undefined) throw new TypeError('an upstream has an address')
    const balancer = isAlone ? null : new Balancer(entries, fallbacks, config, this.breakers)
    const sellable = balancer?.on.has('connect') === true ? [...entries, ...fallbacks] : entries
    const targets = sellable.map(({ target }) => target)
    this.breakers.know(config, name, targets)
    let held = true
    return {
      ...first,
      balancer,
      release: () => {
        if (!held) return
        held = false
        this.breakers.forget(config, targets)
        for (const { upstream } of [...entries, ...fallbacks]) this.#pools.release(upstream, this.#deadlines.tick)
      }
    }
  }

  #entry(config: UrlUpstreamConfig, own: OwnOfEntry): UpstreamEntry {
    const url = new URL(own.url)
    const settings: PoolSettings = {
      origin: url.origin,
      tenant: '',
      untrusted: false,
      tls: own.tls,
      health: own.health,
      connections: config.connections
    }
    const upstream = this.#pools.hold(settings, this.#deadlines.tick)
    const target: UpstreamTarget = {
      origin: url.origin,
      path: '',
      requestHeaders: Object.entries(own.headers).flat(),
      responseHeaders: own.says,
      timeout: config.timeout,
      responseLimit: config.responseLimit ?? Infinity,
      tenant: '',
      untrusted: null,
      health: upstream.health,
      isPooled: own.isPooled,
      tls: own.tls,
      errorMembers: {}
    }
    return {
      target,
      upstream,
      // A fallback is another service.
      preserveHost: config.preserveHost && own.says.length === 0,
      basePath: withoutSlash(url.pathname),
      stripPrefix: withoutSlash(config.stripPrefix ?? ''),
      model: own.model
    }
  }

  /**
   * Forwards to an operator's upstream: its base path, then the raw target (decision 100 on credentials). `body` goes
   * instead of the request's own, which must have been collected.
   */
  forwardTo(
    ctx: Context,
    responder: Responder,
    route: RouteUpstream,
    body: Uint8Array | null = null
  ): void | Promise<void> {
    const { balancer } = route
    if (balancer === null) return this.#forwardTo(ctx, responder, route, body, null)
    const begin = (): void | Promise<void> => {
      const attempts: Attempts = new Attempts(route, balancer, this.breakers, ctx, body, () =>
        this.#forwardTo(ctx, responder, attempts.entry, body, attempts)
      )
      return attempts.send()
    }
    const isReplayed = balancer.fallbacks.length > 0 && ctx.upgrade === null && fits(ctx, REPLAYED_TO_FALLBACK)
    return isReplayed ? ctx.body.bytes().then(begin) : begin()
  }

  #forwardTo(
    ctx: Context,
    responder: Responder,
    entry: UpstreamEntry,
    body: Uint8Array | null,
    attempts: Attempts | null
  ): void | Promise<void> {
    const host = entry.preserveHost && ctx.host !== '' ? ctx.host : entry.upstream.authority
    return this.#send(ctx, responder, entry.target, entry.upstream, routePath(ctx, entry), host, body, attempts)
  }

  /** Forwards to a target that was looked up for this request, such as a merchant's. */
  forward(ctx: Context, responder: Responder, target: UpstreamTarget): void | Promise<void> {
    const upstream = this.#pools.take(
      {
        origin: target.origin,
        tenant: target.tenant,
        untrusted: target.untrusted !== null,
        tls: target.tls,
        health: null,
        connections: DYNAMIC
      },
      this.#deadlines.tick
    )
    return this.#send(ctx, responder, target, upstream, target.path, upstream.authority)
  }

  async close(): Promise<void> {
    this.#deadlines.close()
    this.#pools.close()
  }

  #send(
    ctx: Context,
    responder: Responder,
    target: UpstreamTarget,
    upstream: Upstream,
    wanted: string,
    host: string,
    body: Uint8Array | null = null,
    attempts: Attempts | null = null
  ): void | Promise<void> {
    if (responder.gone) return
    const headers = new HeaderList(requestHeaders(ctx, host, target.untrusted, target.requestHeaders))
    if (circular(headers.get('via')))
      throw badGateway(target, 'The request runs in a circle.', 'the upstream leads back to this gateway')
    if (body !== null) describe(body, headers)
    const isThere = body !== null || ctx.upgrade !== null || attempts?.body !== undefined
    const gathering = isThere ? null : isKept(ctx) ? ctx.body.bytes() : ctx.body.gather()
    if (gathering === null) return this.#leave(ctx, responder, target, upstream, wanted, headers, body, attempts)
    return this.#gathered(gathering, ctx, responder, target, upstream, wanted, headers, attempts)
  }

  /**
   * The client still sends: takes no connection, and runs no `upstream` hook, before as much has come as may be
   * buffered.
   */
  async #gathered(
    gathering: Promise<unknown>,
    ctx: Context,
    responder: Responder,
    target: UpstreamTarget,
    upstream: Upstream,
    wanted: string,
    headers: HeaderList,
    attempts: Attempts | null
  ): Promise<void> {
    await gathering
    if (!responder.gone) await this.#leave(ctx, responder, target, upstream, wanted, headers, null, attempts)
  }

  #leave(
    ctx: Context,
    responder: Responder,
    target: UpstreamTarget,
    upstream: Upstream,
    wanted: string,
    headers: HeaderList,
    body: Uint8Array | null,
    attempts: Attempts | null
  ): void | Promise<void> {
    const given = body ?? ctx.body.collected
    const model = given === null || given.byteLength === 0 ? null : (attempts?.entry.model ?? null)
    const origin = attempts === null ? undefined : target.origin
    const out: UpstreamRequest = { method: ctx.method, path: wanted, headers, model: model ?? undefined, origin }
    responder.forwarding(out)
    ctx.trace?.forwarding(ctx.method, target.origin, headers)
    const { path } = out
    if (model !== null && given !== null) {
      const changed = withModel(out.body ?? given, model)
      // It would be served at another model's price.
      if (changed === null) throw badGateway(target, 'The request cannot go to another model.', 'its body is not JSON')
      out.body = changed
    }
    if (out.body !== undefined) describe(out.body, headers)
    this.breakers.enter(ctx, target)
    if (ctx.upgrade !== null) return this.#tunnel(ctx, responder, target, upstream, path, headers)
    this.#dispatch(ctx, responder, target, upstream, path, headers, out.body ?? body, attempts)
  }

  #dispatch(
    ctx: Context,
    responder: Responder,
    target: UpstreamTarget,
    upstream: Upstream,
    path: string,
    headers: HeaderList,
    other: Uint8Array | null,
    attempts: Attempts | null
  ): void {
    const body = other ?? (attempts === null ? bodyOf(ctx) : (attempts.body ??= bodyOf(ctx)))
    const request: UpstreamCall = { method: ctx.method, path, headers: headers.pairs, body }
    const stream = isStream(body) ? body : null
    new Sink(ctx, responder, target, upstream, this.#deadlines, request, stream, this.breakers, attempts).start()
  }

  async #tunnel(
    ctx: Context,
    responder: Responder,
    target: UpstreamTarget,
    upstream: Upstream,
    path: string,
    headers: HeaderList
  ): Promise<void> {
    let address: string | null = null
    try {
      requestHead({ method: ctx.method, path, headers: headers.pairs, body: null }, upstream.authority)
      if (target.untrusted !== null) address = (await this.guard.connectable(upstream.origin))[0] ?? null
    } catch (error) {
      if (error instanceof RequestRefused) this.breakers.left(ctx, target)
      else this.breakers.failed(ctx, target, true)
      throw upstreamFailure(error instanceof Error ? error : new Error(String(error)), target)
    }
    if (responder.gone) {
      this.breakers.left(ctx, target)
      return
    }
    ctx.isSent = true
    await responder.tunnel(
      {
        origin: target.origin,
        path,
        headers: headers.pairs,
        address,
        tls: target.tls,
        timeout: target.timeout,
        responseLimit: target.responseLimit
      },
      new UpgradePolicy(ctx, target, this.breakers)
    )
  }
}

function isKept(ctx: Context): boolean {
  return IDEMPOTENT.has(ctx.method) && fits(ctx, REPLAYED)
}

/** Not yet collected, and small enough for that. */
function fits({ body: { length, collected } }: Context, most: number): boolean {
  return length !== null && length > 0 && length <= most && collected === null
}

function bodyOf(ctx: Context): Uint8Array | Readable | null {
  const body = ctx.body
  if (body.length === 0) return null
  return body.collected ?? body.stream()
}

function describe(body: Uint8Array, headers: HeaderList): void {
  for (const name of ['content-digest', 'repr-digest', 'digest', 'content-md5']) headers.delete(name)
  headers.set('Content-Length', String(body.byteLength))
}

function isStream(body: Uint8Array | Readable | null): body is Readable {
  return body !== null && !(body instanceof Uint8Array)
}
