import type { Socket } from 'node:net'
import { isIP } from 'node:net'
import { Client, Pool, type Dispatcher } from 'undici'
import { guardedConnector, plainConnector, type Connector, type UpstreamTls } from './connector.ts'
import type { AddressGuard } from './guard.ts'

/** A handler that says whether the client refused its request before sending anything. */
export interface SlotHandler extends Dispatcher.DispatchHandler {
  rejected: boolean
  /** The connection that the request was given to. */
  connection: Connection | null
}

/** What a handler may know of its connection. */
export interface Connection {
  /** The connection broke; an answer that ends with it is not whole. */
  readonly broken: boolean
}

/** What undici is given for one request. Its types leave `servername` out, which it reads all the same. */
export interface DispatchRequest extends Dispatcher.DispatchOptions {
  servername: string
}

/**
 * One connection of a pool, with two traps of undici closed.
 *
 * A request that is refused before it starts makes `dispatch` answer false. The pool then waits for a `drain` that never
 * comes, and the connection's slot is lost for ever; so the refusal is answered with true.
 *
 * A reset in the middle of an answer without a length counts as its end. The connection remembers the reset, so that the
 * handler can tell a cut from an end.
 */
class SlotClient extends Client implements Connection {
  broken = false

  constructor (origin: URL, options: Client.Options, connect: Connector) {
    super(origin, {
      ...options,
      connect: (wanted, callback) => {
        connect(wanted, (...result) => {
          const [error, socket] = result
          if (error !== null) {
            callback(error, null)
            return
          }
          this.#watch(socket)
          callback(null, socket)
        })
      }
    })
  }

  #watch (socket: Socket): void {
    this.broken = false
    socket.prependListener('error', () => { this.broken = true })
  }

  override dispatch (options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    // Pools of this module are only given handlers of this kind.
    const slot = handler as SlotHandler
    slot.connection = this
    return super.dispatch(options, handler) || slot.rejected
  }
}

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
  /** Milliseconds to open a connection. */
  readonly connectTimeout: number
  /** Milliseconds that an idle connection is kept. */
  readonly keepAlive: number
}

/** The largest head of an answer, in bytes. */
const MAX_ANSWER_HEAD = 64 * 1024

/** An upstream and its connections. */
export class Upstream {
  readonly origin: string
  /** Host and port as they stand in Host. */
  readonly authority: string
  /** Host alone, without brackets. */
  readonly hostname: string
  readonly tls: UpstreamTls | null
  readonly pool: Pool
  /** How many configurations hold it; one that is held is never evicted. */
  holders = 0
  /** The tick of its last use. */
  usedAt = 0

  constructor (settings: PoolSettings, connect: Connector) {
    const url = new URL(settings.origin)
    this.origin = settings.origin
    this.authority = url.host
    this.hostname = url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname
    this.tls = settings.tls
    this.pool = new Pool(url, {
      connections: settings.connections,
      pipelining: 1,
      allowH2: false,
      keepAliveTimeout: Math.max(1, settings.keepAlive),
      keepAliveMaxTimeout: Math.max(1, settings.keepAlive),
      // The deadlines of the sink cover the wait for a connection too, which these do not.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: MAX_ANSWER_HEAD,
      connect,
      factory: (origin, options) => new SlotClient(origin, options, connect)
    })
  }

  /** Constant, whatever Host the request carries: undici would open a new connection each time it changed. */
  get servername (): string {
    return this.tls?.servername ?? (isIP(this.hostname) === 0 ? this.hostname : 'address')
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

  constructor (guard: AddressGuard, bounds: PoolBounds) {
    this.#guard = guard
    this.#bounds = bounds
  }

  /** How many pools there are. */
  get size (): number {
    return this.#byKey.size
  }

  /** The pool for these settings, made when there is none. */
  take (settings: PoolSettings, tick: number): Upstream {
    const key = keyOf(settings)
    let upstream = this.#byKey.get(key)
    if (upstream === undefined) {
      if (this.#byKey.size >= this.#bounds.cap) this.#evictOldest()
      const { tls, connectTimeout: timeout } = settings
      upstream = new Upstream(settings, settings.untrusted ? guardedConnector(this.#guard, { tls, timeout }) : plainConnector({ tls, timeout }))
      this.#byKey.set(key, upstream)
    }
    upstream.usedAt = tick
    return upstream
  }

  /** Like `take`, and kept until `release`. */
  hold (settings: PoolSettings, tick: number): Upstream {
    const upstream = this.take(settings, tick)
    upstream.holders++
    return upstream
  }

  /** Gives up what `hold` gave; the pool closes after a while without use. */
  release (upstream: Upstream, tick: number): void {
    upstream.holders--
    upstream.usedAt = tick
  }

  /** Closes the pools that were not used for the idle time. */
  sweep (tick: number): void {
    for (const [key, upstream] of this.#byKey) {
      if (upstream.holders === 0 && tick - upstream.usedAt > this.#bounds.idle) this.#retire(key, upstream)
    }
  }

  #evictOldest (): void {
    let oldest: [string, Upstream] | null = null
    for (const entry of this.#byKey) {
      if (entry[1].holders === 0 && (oldest === null || entry[1].usedAt < oldest[1].usedAt)) oldest = entry
    }
    if (oldest !== null) this.#retire(oldest[0], oldest[1])
  }

  /** Requests that run are finished; undici closes the connections after them. */
  #retire (key: string, upstream: Upstream): void {
    this.#byKey.delete(key)
    this.#retiring.add(upstream)
    upstream.pool.close(() => { this.#retiring.delete(upstream) })
  }

  /** Ends every connection at once, running requests included. */
  async close (): Promise<void> {
    const all = [...this.#byKey.values(), ...this.#retiring]
    this.#byKey.clear()
    await Promise.all(all.map(async upstream => { await upstream.pool.destroy() }))
  }
}

function keyOf (settings: PoolSettings): string {
  const base = `${settings.tenant}\n${settings.origin}\n${settings.untrusted ? 'guarded' : 'plain'}\n${settings.connections}\n${settings.connectTimeout}\n${settings.keepAlive}`
  const tls = settings.tls
  return tls === null ? base : `${base}\n${tls.servername ?? ''}\n${tls.ca ?? ''}\n${tls.cert ?? ''}\n${tls.key ?? ''}`
}
