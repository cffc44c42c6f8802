import { UpstreamConnection, type CallHandler, type ConnectionOwner, type QueuedCall } from './connection.ts'
import type { Dialer } from './connector.ts'
import { Deadlines } from './deadlines.ts'
import { requestHead, type UpstreamCall } from './request-head.ts'
import { Round, type ClientShare } from './client-share.ts'

/** How many connections there are, and how long they are kept. */
export interface ConnectionPoolOptions {
  /** Host and port, for requests without a Host. */
  readonly authority: string
  /** Most connections. */
  readonly connections: number
  /** Most connections for requests of one client; as many as there are when left out. */
  readonly perClient?: number
  /** Milliseconds that an idle connection is kept. */
  readonly keepAlive: number
}

/**
 * What is taken off the time for which an upstream says that it keeps a connection: the request may be under way as it
 * closes.
 */
const MARGIN = 2000
/** Ticks after which an idle connection no longer holds the process. */
const LOOSE = 2
/** Ticks for which a client may keep a connection from being used while others wait for one. */
const PATIENCE = 50

/** No connection is made any more. */
class PoolClosed extends Error {
  readonly code = 'POOL_CLOSED'

  constructor() {
    super('the connections of this upstream are closed')
    this.name = 'PoolClosed'
  }
}

/**
 * The connections to one upstream. Requests of one client go out in the order in which they came, those of several take
 * turns, on the connection that was used last, so that those too many fall idle.
 *
 * A connection that carried a request carries no other before the loop has polled once more, and every request waits
 * for the end of its own poll: a close, or a response that nobody asked for, which the kernel has already, is seen
 * before the request is written and not after it (undici does the same since GHSA-35p6-xmwp-9g52).
 */
export class ConnectionPool implements ConnectionOwner {
  readonly #dialer: Dialer
  readonly #options: ConnectionPoolOptions
  readonly #patience: number
  readonly #all = new Set<UpstreamConnection>()
  readonly #idle: UpstreamConnection[] = []
  /** Used in this turn of the loop. */
  readonly #cooling: UpstreamConnection[] = []
  readonly #round: Round
  #opening = 0
  #scheduled = false
  #tick = 0
  #closed = false
  #onEmpty: (() => void) | null = null

  constructor(dialer: Dialer, options: ConnectionPoolOptions) {
    this.#dialer = dialer
    this.#options = options
    this.#patience = Deadlines.ticks(options.keepAlive)
    const { connections, perClient = Number.POSITIVE_INFINITY } = options
    this.#round = new Round(perClient, Math.ceil(connections / 2))
  }

  /** Sends a request as soon as a connection is free. The handler is told of everything that follows, refusals too. */
  dispatch(call: UpstreamCall, handler: CallHandler): void {
    const queued = this.#queued(call, handler)
    if (queued === null) return
    this.#round.add(queued, handler.client)
    this.#schedule()
  }

  /**
   * Sends a request again, on a connection made for it: the one that it was sent on is lost, which leaves room, and
   * others that were kept may be as dead.
   */
  redispatch(call: UpstreamCall, handler: CallHandler): void {
    const queued = this.#queued(call, handler)
    if (queued !== null) this.#open(queued)
  }

  #queued(call: UpstreamCall, handler: CallHandler): QueuedCall | null {
    try {
      if (this.#closed) throw new PoolClosed()
      return { call, head: requestHead(call, this.#options.authority), handler }
    } catch (error) {
      handler.onResponseError(null, error instanceof Error ? error : new Error(String(error)))
      return null
    }
  }

  /** Finishes what runs and what waits, then closes; `done` is called after that. */
  close(done: () => void): void {
    this.#closed = true
    this.#onEmpty = done
    this.#schedule()
  }

  /** Closes everything at once. What runs or waits is told of it. */
  destroy(): void {
    this.#closed = true
    const waiting = this.#round.clear()
    for (const connection of this.#all) connection.destroy()
    for (const call of waiting) if (!call.handler.over) call.handler.onResponseError(null, new PoolClosed())
    this.#empty()
  }

  /** One tick of the clock: lets go of connections that were idle for long. */
  look(tick: number): void {
    this.#tick = tick
    for (let at = this.#idle.length - 1; at >= 0; at--) {
      const connection = this.#idle[at]
      if (connection === undefined) continue
      const idle = tick - connection.idleSince
      if (idle >= this.#limit(connection)) connection.destroy()
      else if (idle >= LOOSE) connection.unref()
    }
    this.#round.look(tick)
    this.#reclaim()
  }

  /**
   * Somebody waits because every connection is taken, or all that those may have who kept others waiting before: takes
   * them from the clients that have kept theirs from being used for too long, first from those who did it before.
   */
  #reclaim(): void {
    const all = this.#all.size
    const full = this.#idle.length === 0 && all >= this.#options.connections
    if (!full && !this.#round.crowdedBehind) return
    const wanted =
      (full ? this.#round.wanted(all) : 0) + (this.#round.crowdedBehind ? this.#round.wantedBehind(all) : 0)
    if (wanted === 0) return
    const kept = [...this.#all].filter(connection => connection.dawdling > PATIENCE && (full || hasDawdled(connection)))
    kept.sort((one, other) => Number(hasDawdled(other)) - Number(hasDawdled(one)) || other.dawdling - one.dawdling)
    for (const connection of kept.slice(0, wanted)) {
      if (connection.share !== null) this.#round.dawdled(connection.share)
      connection.giveUp()
    }
  }

  /** Ticks that a connection may be idle. */
  #limit(connection: UpstreamConnection): number {
    const { keepAlive } = connection
    return keepAlive < 0 ? this.#patience : Math.min(this.#patience, Deadlines.ticks(keepAlive - MARGIN))
  }

  release(connection: UpstreamConnection): void {
    this.#left(connection)
    if (this.#limit(connection) <= 0) {
      connection.destroy()
      return
    }
    connection.idleSince = this.#tick
    this.#cooling.push(connection)
    this.#schedule()
  }

  lost(connection: UpstreamConnection): void {
    if (!this.#all.delete(connection)) return
    this.#left(connection)
    remove(this.#idle, connection)
    remove(this.#cooling, connection)
    this.#schedule()
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(flush, this)
  }

  flush(): void {
    this.#scheduled = false
    let share = this.#round.first()
    while (share !== null) {
      const connection = this.#idle.pop()
      if (connection === undefined) break
      this.#start(connection, share)
      share = this.#round.first()
    }
    for (const connection of this.#cooling) this.#idle.push(connection)
    this.#cooling.length = 0
    if (share !== null) this.#wait()
    else if (this.#closed) this.#empty()
  }

  /** Sends the first request of a share, whose turn it is. */
  #start(connection: UpstreamConnection, share: ClientShare): void {
    const call = this.#round.take(share)
    connection.share = share
    if (call !== undefined) connection.start(call)
  }

  /** The connection carries no request any more. */
  #left(connection: UpstreamConnection): void {
    const { share } = connection
    if (share === null) return
    connection.share = null
    this.#round.release(share)
  }

  /** Requests are left: for those that no idle or opening connection will take, more are opened. */
  #wait(): void {
    if (this.#idle.length > 0) this.#schedule()
    const room = this.#options.connections - this.#all.size
    if (room <= 0) return
    const spare = this.#idle.length + this.#opening
    for (let count = this.#round.wanted(spare + room) - spare; count > 0; count--) this.#open()
  }

  /** Opens a connection for the request whose turn it is, or for `own` alone. */
  #open(own: QueuedCall | null = null): void {
    const connection = new UpstreamConnection(this, this.#dialer.secure)
    this.#all.add(connection)
    if (own === null) this.#opening++
    else connection.share = this.#round.claim(own.handler.client)
    this.#dialer.dial(connection.onread, result => {
      if (own === null) this.#opening--
      if (result instanceof Error) {
        this.lost(connection)
        if (own === null) this.#refuse(result)
        else own.handler.onResponseError(null, result)
        return
      }
      connection.attach(result)
      // The pool was closed meanwhile.
      if (!this.#all.has(connection)) {
        result.destroy()
        own?.handler.onResponseError(null, new PoolClosed())
      } else if (own === null) this.#opened(connection)
      else if (own.handler.over) this.release(connection)
      else connection.start(own)
    })
  }

  #opened(connection: UpstreamConnection): void {
    const waited = this.#round.occupied
    const share = this.#round.first()
    if (share !== null) this.#start(connection, share)
    else if (waited || this.#closed) connection.destroy()
    else {
      connection.idleSince = this.#tick
      this.#idle.push(connection)
    }
  }

  /** A connection could not be made: the request that has waited longest is told. */
  #refuse(error: Error): void {
    const share = this.#round.first()
    if (share === null) return
    const call = this.#round.take(share)
    this.#round.release(share)
    call?.handler.onResponseError(null, error)
  }

  /** Closes what is idle; tells that the last connection has gone. */
  #empty(): void {
    for (const connection of this.#idle.slice()) connection.destroy()
    if (this.#all.size > 0 || this.#onEmpty === null) return
    const done = this.#onEmpty
    this.#onEmpty = null
    done()
  }
}

function flush(pool: ConnectionPool): void {
  pool.flush()
}

/** Its client has lost a connection lately because it kept others waiting. */
function hasDawdled({ share }: UpstreamConnection): boolean {
  return share !== null && share.dawdledAt !== null
}

function remove(from: UpstreamConnection[], connection: UpstreamConnection): void {
  const at = from.indexOf(connection)
  if (at >= 0) from.splice(at, 1)
}
