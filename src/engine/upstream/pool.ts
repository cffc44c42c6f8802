import { ConnectionPool } from './connection-pool.ts'
import { Dialer, type UpstreamTls } from './connector.ts'
import type { AddressGuard } from './guard.ts'
import { HealthCheck } from './health.ts'
import { outboundCall } from './outbound.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { HealthConfig } from '../sections/upstream.ts'

export interface PoolSettings {
  readonly origin: string
  readonly tenant: string
  readonly untrusted: boolean
  readonly tls: UpstreamTls | null
  readonly health: HealthConfig | null
  readonly connections: number
}

const CONNECT_MS = 5000

export class Upstream {
  readonly origin: string
  readonly authority: string
  readonly pool: ConnectionPool
  /** Runs while held. */
  readonly health: HealthCheck | null
  /** Configurations that hold it; a held one is never evicted. */
  holders = 0
  usedAt = 0

  /** With a `guard` every address is checked at connect. */
  constructor(settings: PoolSettings, guard: AddressGuard | null, clock: Clock) {
    const url = new URL(settings.origin)
    const { tls, health, connections } = settings
    this.health = health === null ? null : new HealthCheck(health, url.origin, outboundCall(null, tls), clock)
    this.origin = settings.origin
    this.authority = url.host
    this.pool = new ConnectionPool(new Dialer(url, guard, { tls, timeout: CONNECT_MS }), url.host, connections)
  }
}

interface PoolBounds {
  readonly cap: number
  /** Ticks after which an unused pool is closed. */
  readonly idle: number
}

/**
 * All pools. Merchants' targets come and go by use; configuration generations hold theirs, which survive a reload
 * without changes.
 */
export class Pools {
  readonly #guard: AddressGuard
  readonly #bounds: PoolBounds
  readonly #clock: Clock
  readonly #byKey = new Map<string, Upstream>()
  readonly #retiring = new Set<Upstream>()

  constructor(guard: AddressGuard, bounds: PoolBounds, clock: Clock) {
    this.#guard = guard
    this.#clock = clock
    this.#bounds = bounds
  }

  get size(): number {
    return this.#byKey.size
  }

  take(settings: PoolSettings, tick: number): Upstream {
    const key = keyOf(settings)
    let upstream = this.#byKey.get(key)
    if (upstream === undefined) {
      if (this.#byKey.size >= this.#bounds.cap) this.#evictOldest()
      upstream = new Upstream(settings, settings.untrusted ? this.#guard : null, this.#clock)
      this.#byKey.set(key, upstream)
    }
    upstream.usedAt = tick
    return upstream
  }

  /** Like `take`, and kept until `release`. */
  hold(settings: PoolSettings, tick: number): Upstream {
    const upstream = this.take(settings, tick)
    if (upstream.holders++ === 0) upstream.health?.start()
    return upstream
  }

  release(upstream: Upstream, tick: number): void {
    if (--upstream.holders === 0) upstream.health?.stop()
    upstream.usedAt = tick
  }

  look(tick: number): void {
    for (const upstream of this.#byKey.values()) upstream.pool.look(tick)
    for (const upstream of this.#retiring) upstream.pool.look(tick)
  }

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

  /** Running requests finish. */
  #retire(key: string, upstream: Upstream): void {
    this.#byKey.delete(key)
    this.#retiring.add(upstream)
    upstream.pool.close(() => {
      this.#retiring.delete(upstream)
    })
  }

  /** Aborts running requests. */
  close(): void {
    const all = [...this.#byKey.values(), ...this.#retiring]
    this.#byKey.clear()
    for (const upstream of all) {
      upstream.health?.stop()
      upstream.pool.destroy()
    }
  }
}

function keyOf(settings: PoolSettings): string {
  const health = settings.health === null ? '' : JSON.stringify(settings.health)
  const base = `${health}\n${settings.tenant}\n${settings.origin}\n${settings.untrusted ? 'guarded' : 'plain'}\n${settings.connections}`
  const tls = settings.tls
  return tls === null ? base : `${base}\n${tls.servername ?? ''}\n${tls.ca ?? ''}\n${tls.cert ?? ''}\n${tls.key ?? ''}`
}
