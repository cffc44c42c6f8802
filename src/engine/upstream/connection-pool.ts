import { UpstreamConnection, type CallHandler, type ConnectionOwner, type QueuedCall } from './connection.ts'
import type { Dialer } from './connector.ts'
import { Deadlines } from './deadlines.ts'
import { requestHead, type UpstreamCall } from './request-head.ts'
import { Round, type ClientShare } from './client-share.ts'

/** Ticks for which an idle connection is kept: servers close one after 5 seconds or later (Node's default). */
const KEPT = Deadlines.ticks(4000)
/** Subtracted from the upstream's keep-alive time: a request may be in flight as it closes. */
const MARGIN = 2000
/** Ticks for which a connection is used: a minute. Later ones go to what the name's addresses are then. */
const LIFETIME = 600
/** Ticks after which an idle connection is unreferenced. */
const LOOSE = 2
/** Ticks for which a client may stall a connection while others wait. */
const PATIENCE = 50

class PoolClosed extends Error {
  readonly code = 'POOL_CLOSED'

  constructor() {
    super('the connections of this upstream are closed')
    this.name = 'PoolClosed'
  }
}

/**
 * The connections to one upstream. Clients take turns, each one's requests in order, on the most recently used
 * connection, so that surplus ones fall idle.
 *
 * A used connection, and every request, waits for one more poll of the loop. So a close or an unsolicited response that
 * the kernel already has is seen before the request is written (undici does the same since GHSA-35p6-xmwp-9g52).
 */
export class ConnectionPool implements ConnectionOwner {
  readonly #dialer: Dialer
  readonly #authority: string
  readonly #connections: number
  readonly #hasName: boolean
  readonly #all = new Set<UpstreamConnection>()
  readonly #idle: UpstreamConnection[] = []
  readonly #cooling: UpstreamConnection[] = []
  readonly #round: Round
  #opening = 0
  #scheduled = false
  #tick = 0
  #closed = false
  #onEmpty: (() => void) | null = null

  constructor(dialer: Dialer, authority: string, connections: number) {
    this.#dialer = dialer
    this.#authority = authority
    this.#connections = connections
    this.#hasName = dialer.hasName
    // A quarter for one client, so that it leaves most of them to the others.
    this.#round = new Round(Math.ceil(connections / 4), Math.ceil(connections / 2))
  }

  /** Connections that carry a request, or are opened for one. */
  get busy(): number {
    return this.#all.size - this.#idle.length - this.#cooling.length
  }

  /** Sends a request once a connection is free. The handler receives every outcome, refusals too. */
  dispatch(call: UpstreamCall, handler: CallHandler): void {
    const queued = this.#queued(call, handler)
    if (queued === null) return
    this.#round.add(queued, handler.client)
    this.#schedule()
  }

  /** Resends a request on a new connection: the failed one leaves room, and other idle ones may be dead too. */
  redispatch(call: UpstreamCall, handler: CallHandler): void {
    const queued = this.#queued(call, handler)
    if (queued !== null) this.#open(queued)
  }

  #queued(call: UpstreamCall, handler: CallHandler): QueuedCall | null {
    try {
      if (this.#closed) throw new PoolClosed()
      return { call, head: requestHead(call, this.#authority), handler }
    } catch (error) {
      handler.onResponseError(null, error instanceof Error ? error : new Error(String(error)))
      return null
    }
  }

  close(done: () => void): void {
    this.#closed = true
    this.#onEmpty = done
    this.#schedule()
  }

  destroy(): void {
    this.#closed = true
    const waiting = this.#round.clear()
    for (const connection of this.#all) connection.destroy()
    for (const call of waiting) if (!call.handler.over) call.handler.onResponseError(null, new PoolClosed())
    this.#empty()
  }

  /** One tick of the clock: closes connections idle for too long. */
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

  /** Takes connections from clients that stall them while others wait, repeat offenders first. */
  #reclaim(): void {
    const all = this.#all.size
    const full = this.#idle.length === 0 && all >= this.#connections
    if (!full && !this.#round.isQueueFull) return
    const wanted = (full ? this.#round.wanted(all) : 0) + (this.#round.isQueueFull ? this.#round.wantedBehind(all) : 0)
    if (wanted === 0) return
    const kept = [...this.#all].filter(
      connection => connection.stalledTicks > PATIENCE && (full || hasStalled(connection))
    )
    kept.sort(
      (one, other) => Number(hasStalled(other)) - Number(hasStalled(one)) || other.stalledTicks - one.stalledTicks
    )
    for (const connection of kept.slice(0, wanted)) {
      if (connection.share !== null) this.#round.noteStall(connection.share)
      connection.giveUp()
    }
  }

  #limit(connection: UpstreamConnection): number {
    const { keepAlive } = connection
    return keepAlive < 0 ? KEPT : Math.min(KEPT, Deadlines.ticks(keepAlive - MARGIN))
  }

  release(connection: UpstreamConnection): void {
    this.#left(connection)
    if (this.#limit(connection) <= 0 || (this.#hasName && this.#tick - connection.openedAt > LIFETIME)) {
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

  #start(connection: UpstreamConnection, share: ClientShare): void {
    const call = this.#round.take(share)
    connection.share = share
    if (call !== undefined) connection.start(call)
  }

  #left(connection: UpstreamConnection): void {
    const { share } = connection
    if (share === null) return
    connection.share = null
    this.#round.release(share)
  }

  /** Opens connections for requests that no idle or opening one will take. */
  #wait(): void {
    if (this.#idle.length > 0) this.#schedule()
    const room = this.#connections - this.#all.size
    if (room <= 0) return
    const spare = this.#idle.length + this.#opening
    for (let count = this.#round.wanted(spare + room) - spare; count > 0; count--) this.#open()
  }

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
      connection.openedAt = this.#tick
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

  /** A connection failed: fails the request that has waited longest. */
  #refuse(error: Error): void {
    const share = this.#round.first()
    if (share === null) return
    const call = this.#round.take(share)
    this.#round.release(share)
    call?.handler.onResponseError(null, error)
  }

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

function hasStalled({ share }: UpstreamConnection): boolean {
  return share !== null && share.stalledAt !== null
}

function remove(from: UpstreamConnection[], connection: UpstreamConnection): void {
  const at = from.indexOf(connection)
  if (at >= 0) from.splice(at, 1)
}
