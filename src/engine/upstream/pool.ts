import { ConnectionPool } from './connection-pool.ts'
import { Dialer, type UpstreamTls } from './connector.ts'
import type { AddressGuard } from './guard.ts'

/** Everything that makes two requests share connections, and how the connections behave. */
export interface PoolSettings {
  /** Scheme, host and port. */
  readonly origin: string
  /** Connections are never shared between two tenants. */
  readonly tenant: string
  readonly untrusted: boolean
  readonly tls: UpstreamTls | null
  /** Most connections. */
  readonly connections: number
  /** Most of them for one client. */
  readonly perClient: number
  /** Milliseconds to open a connection. */
  readonly connectTimeout: number
  /** Milliseconds that an idle connection is kept. */
  readonly keepAlive: number
}

/** An upstream and its connections. */
export class Upstream {
  readonly origin: string
  /** Host and port as they stand in Host. */
  readonly authority: string
  readonly pool: ConnectionPool
  /** How many configurations hold it; one that is held is never evicted. */
  holders = 0
  /** The tick of its last use. */
  usedAt = 0

  /** With a `guard` every address is checked before it is connected to. */
  constructor(settings: PoolSettings, guard: AddressGuard | null) {
    const url = new URL(settings.origin)
    const { tls, connectTimeout: timeout, connections, perClient, keepAlive } = settings
    this.origin = settings.origin
    this.authority = url.host
    this.pool = new ConnectionPool(new Dialer(url, guard, { tls, timeout }), {
      authority: url.host,
      connections,
      perClient,
      keepAlive
    })
  }
}

/** Bounds of the store of pools. */
export interface PoolBounds {
  /** Most pools that nobody holds. */
  readonly cap: number
  /** Ticks after which an unused pool is closed. */
  readonly idle: number
}

/**
 * All pools: those of merchants' targets come and go by use, those of the configuration are held by its generations and
 * survive a reload that does not change them.
 */
export class Pools {
  readonly #guard: AddressGuard
  readonly #bounds: PoolBounds
  readonly #byKey = new Map<string, Upstream>()
  /** Pools that are no longer handed out but still finish their requests. */
  readonly #retiring = new Set<Upstream>()

  constructor(guard: AddressGuard, bounds: PoolBounds) {
    this.#guard = guard
    this.#bounds = bounds
  }

  /** How many pools there are. */
  get size(): number {
    return this.#byKey.size
  }

  /** The pool for these settings, made when there is none. */
  take(settings: PoolSettings, tick: number): Upstream {
    const key = keyOf(settings)
    let upstream = this.#byKey.get(key)
    if (upstream === undefined) {
      if (this.#byKey.size >= this.#bounds.cap) this.#evictOldest()
      upstream = new Upstream(settings, settings.untrusted ? this.#guard : null)
      this.#byKey.set(key, upstream)
    }
    upstream.usedAt = tick
    return upstream
  }

  /** Like `take`, and kept until `release`. */
  hold(settings: PoolSettings, tick: number): Upstream {
    const upstream = this.take(settings, tick)
    upstream.holders++
    return upstream
  }

  /** Gives up what `hold` gave; the pool closes after a while without use. */
  release(upstream: Upstream, tick: number): void {
    upstream.holders--
    upstream.usedAt = tick
  }

  /** One tick of the clock. */
  look(tick: number): void {
    for (const upstream of this.#byKey.values()) upstream.pool.look(tick)
    for (const upstream of this.#retiring) upstream.pool.look(tick)
  }

  /** Closes the pools that were not used for the idle time. */
  sweep(tick: number): void {
    for (const [key, upstream] of this.#byKey) {
      if (upstream.holders === 0 && tick - upstream.usedAt > this.#bounds.idle) this.#retire(key, upstream)
    }
  }

  #evictOldest(): void {
    let oldest: [string, Upstream] | null = null
    for (const entry of this.#byKey) {
      if (entry[1].holders === 0 && (oldest === null || entry[1].usedAt < oldest[1].usedAt)) oldest = entry
    }
    if (oldest !== null) this.#retire(oldest[0], oldest[1])
  }

  /** Requests that run are finished. */
  #retire(key: string, upstream: Upstream): void {
    this.#byKey.delete(key)
    this.#retiring.add(upstream)
    upstream.pool.close(() => {
      this.#retiring.delete(upstream)
    })
  }

  /** Ends every connection at once, running requests included. */
  close(): void {
    const all = [...this.#byKey.values(), ...this.#retiring]
    this.#byKey.clear()
    for (const upstream of all) upstream.pool.destroy()
  }
}

function keyOf(settings: PoolSettings): string {
  const base = `${settings.tenant}\n${settings.origin}\n${settings.untrusted ? 'guarded' : 'plain'}\n${settings.connections}\n${settings.perClient}\n${settings.connectTimeout}\n${settings.keepAlive}`
  const tls = settings.tls
  return tls === null ? base : `${base}\n${tls.servername ?? ''}\n${tls.ca ?? ''}\n${tls.cert ?? ''}\n${tls.key ?? ''}`
}
