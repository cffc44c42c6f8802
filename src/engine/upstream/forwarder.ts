import { readFile } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import type { UrlUpstreamConfig } from '../sections/upstream.ts'
import type { Context, UpstreamTarget } from '../message/context.ts'
import { REQUEST_MALFORMED } from '../operations/error-kinds.ts'
import { LongError } from '../operations/errors.ts'
import { endOfPrefix } from '../message/path.ts'
import type { UpstreamRequest, Responder, TunnelPolicy } from '../pipeline/plugin.ts'
import { HeaderList } from '../message/headers.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { UpstreamTls } from './connector.ts'
import { UpstreamBreakers } from './breakers.ts'
import { Deadlines } from './deadlines.ts'
import { badGateway, isUnreachable, upstreamFailure } from './failure.ts'
import { AddressGuard, type ResolveName } from './guard.ts'
import { circular, refusedByClient, requestHeaders } from './header-policy.ts'
import { Pools, type PoolSettings, type Upstream } from './pool.ts'
import type { UpstreamCall } from './request-head.ts'
import { responseHeaders } from './response-policy.ts'
import { IDEMPOTENT, Sink } from './sink.ts'

declare module '../pipeline/services.ts' {
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

/** Per merchant's target: few, so that none takes all of the gateway's. */
const DYNAMIC = { connections: 64, perClient: shareOf(64) } as const
/** Milliseconds. Servers close an idle connection after 5 seconds or later (Node's default). */
const TIMES = { connectTimeout: 5000, keepAlive: 4000 } as const

/** Largest body collected for a retry. */
const REPLAYED = 64 * 1024

/** An operator's upstream of one configuration generation; `release` gives it back. */
export interface RouteUpstream {
  readonly target: UpstreamTarget
  readonly upstream: Upstream
  readonly preserveHost: boolean
  /** Path of the configured address, without a trailing slash. */
  readonly basePath: string
  /** Prefix removed from the request's path; empty for none. */
  readonly stripPrefix: string
  release(): void
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
    this.#pools = new Pools(this.guard, {
      cap: options.poolCap ?? 1000,
      idle: Deadlines.ticks(options.poolIdle ?? 60_000)
    })
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

  /** Reads the certificate files. Throws when one is unreadable, or for an invalid address. */
  async open(config: UrlUpstreamConfig): Promise<RouteUpstream> {
    const url = new URL(config.url)
    if (url.protocol !== 'http:' && url.protocol !== 'https:')
      throw new TypeError(`upstream ${config.url}: the address must begin with http:// or https://`)
    const tls = config.tls === undefined ? null : await readTls(config.tls)
    const settings: PoolSettings = {
      origin: url.origin,
      tenant: '',
      untrusted: false,
      tls,
      connections: config.connections,
      perClient: config.connectionsPerClient ?? shareOf(config.connections),
      ...TIMES
    }
    const upstream = this.#pools.hold(settings, this.#deadlines.tick)
    const target: UpstreamTarget = {
      origin: url.origin,
      path: '',
      requestHeaders: Object.entries(config.headers).flat(),
      responseHeaders: [],
      timeout: config.timeout,
      responseLimit: config.responseLimit ?? Infinity,
      tenant: '',
      untrusted: null,
      underscoreHeaders: config.underscoreHeaders,
      tls,
      errorMembers: {}
    }
    let held = true
    return {
      target,
      upstream,
      preserveHost: config.preserveHost,
      basePath: withoutSlash(url.pathname),
      stripPrefix: withoutSlash(config.stripPrefix ?? ''),
      release: () => {
        if (held) this.#pools.release(upstream, this.#deadlines.tick)
        held = false
      }
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
    return this.#send(
      ctx,
      responder,
      route.target,
      route.upstream,
      routePath(ctx, route),
      route.preserveHost && ctx.host !== '' ? ctx.host : route.upstream.authority,
      body
    )
  }

  /** Forwards to a target that was looked up for this request, such as a merchant's. */
  forward(ctx: Context, responder: Responder, target: UpstreamTarget): void | Promise<void> {
    const upstream = this.#pools.take(
      {
        origin: target.origin,
        tenant: target.tenant,
        untrusted: target.untrusted !== null,
        tls: target.tls,
        ...DYNAMIC,
        ...TIMES
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
    body: Uint8Array | null = null
  ): void | Promise<void> {
    if (responder.gone) return
    const headers = new HeaderList(
      requestHeaders(ctx, host, target.untrusted, target.requestHeaders, target.underscoreHeaders)
    )
    if (circular(headers.get('via')))
      throw badGateway(target, 'The request runs in a circle.', 'the upstream leads back to this gateway')
    if (body !== null) describe(body, headers)
    const gathering = body !== null || ctx.upgrade !== null ? null : isKept(ctx) ? ctx.body.bytes() : ctx.body.gather()
    if (gathering === null) return this.#leave(ctx, responder, target, upstream, wanted, headers, body)
    // An unsendable request need not wait for a connection.
    refuseUnsendable(wanted, headers, target)
    return this.#gathered(gathering, ctx, responder, target, upstream, wanted, headers)
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
    headers: HeaderList
  ): Promise<void> {
    await gathering
    if (!responder.gone) await this.#leave(ctx, responder, target, upstream, wanted, headers, null)
  }

  #leave(
    ctx: Context,
    responder: Responder,
    target: UpstreamTarget,
    upstream: Upstream,
    wanted: string,
    headers: HeaderList,
    body: Uint8Array | null
  ): void | Promise<void> {
    const out: UpstreamRequest = { method: ctx.method, path: wanted, headers }
    responder.forwarding(out)
    const { path } = out
    if (out.body !== undefined) describe(out.body, headers)
    refuseUnsendable(path, headers, target)
    this.breakers.enter(ctx, target)
    if (ctx.upgrade !== null) return this.#tunnel(ctx, responder, target, upstream, path, headers)
    this.#dispatch(ctx, responder, target, upstream, path, headers, out.body ?? body)
  }

  #dispatch(
    ctx: Context,
    responder: Responder,
    target: UpstreamTarget,
    upstream: Upstream,
    path: string,
    headers: HeaderList,
    other: Uint8Array | null
  ): void {
    const body = other ?? bodyOf(ctx)
    const request: UpstreamCall = { method: ctx.method, path, headers: headers.pairs, body }
    const stream = isStream(body) ? body : null
    new Sink(ctx, responder, target, upstream, this.#deadlines, request, stream, this.breakers).start()
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
    if (target.untrusted !== null) {
      try {
        address = (await this.guard.connectable(upstream.origin))[0] ?? null
      } catch (error) {
        this.breakers.failed(ctx, target, true)
        throw upstreamFailure(error instanceof Error ? error : new Error(String(error)), target)
      }
    }
    if (responder.gone) {
      this.breakers.left(ctx, target)
      return
    }
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

/** Throws for what must not be sent: 400 for a path, which is the client's fault, and 500 for headers. */
function refuseUnsendable(path: string, headers: HeaderList, target: UpstreamTarget): void {
  const refusal = refusedByClient(path, headers)
  if (refusal === null) return
  if (refusal.startsWith('the path'))
    throw new LongError(
      REQUEST_MALFORMED,
      'Bad request',
      `The request cannot be forwarded: ${refusal}.`,
      target.errorMembers
    )
  throw new Error(`the request cannot be forwarded: ${refusal}`)
}

class UpgradePolicy implements TunnelPolicy {
  readonly #ctx: Context
  readonly #target: UpstreamTarget
  readonly #breakers: UpstreamBreakers

  constructor(ctx: Context, target: UpstreamTarget, breakers: UpstreamBreakers) {
    this.#ctx = ctx
    this.#target = target
    this.#breakers = breakers
  }

  headers(status: number, raw: readonly string[]): HeaderList {
    this.#breakers.answered(this.#ctx, this.#target)
    const headers = new HeaderList(responseHeaders(raw, status, this.#target.untrusted).pairs)
    const set = this.#target.responseHeaders
    for (let at = 0; at < set.length; at += 2) headers.set(set[at] ?? '', set[at + 1] ?? '')
    return headers
  }

  failure(error: Error): Error {
    this.#breakers.left(this.#ctx, this.#target)
    if (error instanceof LongError && (error.status === 502 || error.status === 504)) {
      this.#breakers.failed(this.#ctx, this.#target, error.cause instanceof Error && isUnreachable(error.cause))
      if (error.cause instanceof Error) return upstreamFailure(error.cause, this.#target)
      return new LongError(
        error.kind,
        error.error,
        error.message,
        { ...this.#target.errorMembers, ...error.more, details: error.message },
        error.headers
      )
    }
    return error
  }
}

function isKept({ method, body: { length, collected } }: Context): boolean {
  return length !== null && length > 0 && length <= REPLAYED && collected === null && IDEMPOTENT.has(method)
}

function bodyOf(ctx: Context): Uint8Array | Readable | null {
  const body = ctx.body
  if (body.length === 0) return null
  return body.collected ?? body.stream()
}

/** Header fields that describe the body's bytes, for a replaced body. */
function describe(body: Uint8Array, headers: HeaderList): void {
  for (const name of ['content-digest', 'repr-digest', 'digest', 'content-md5']) headers.delete(name)
  headers.set('Content-Length', String(body.byteLength))
}

/** A quarter, so that one client leaves most of them to the others. */
function shareOf(connections: number): number {
  return Math.ceil(connections / 4)
}

function isStream(body: Uint8Array | Readable | null): body is Readable {
  return body !== null && !(body instanceof Uint8Array)
}

function withoutSlash(path: string): string {
  return path.endsWith('/') ? path.slice(0, -1) : path
}

function routePath(ctx: Context, route: RouteUpstream): string {
  const prefix = route.stripPrefix
  const target = ctx.target
  const end = prefix === '' ? -1 : endOfPrefix(ctx.path, prefix)
  if (end < 0) return route.basePath === '' ? target : route.basePath + target
  const rest = target.slice(end)
  return rest.startsWith('/') ? route.basePath + rest : `${route.basePath}/${rest}`
}

async function readTls(tls: NonNullable<UrlUpstreamConfig['tls']>): Promise<UpstreamTls> {
  const [ca, cert, key] = await Promise.all(
    [tls.ca, tls.cert, tls.key].map(async file => (file === undefined ? undefined : await readFile(file, 'utf8')))
  )
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(tls.servername === undefined ? {} : { servername: tls.servername })
  }
}
