import { UpstreamConnection, type CallHandler, type ConnectionOwner, type QueuedCall } from './connection.ts'
import type { Dialer } from './connector.ts'
import { Deadlines } from './deadlines.ts'
import { requestHead, type UpstreamCall } from './request-head.ts'

/** How many connections there are, and how long they are kept. */
export interface ConnectionPoolOptions {
  /** Host and port, for requests without a Host. */
  readonly authority: string
  /** Most connections. */
  readonly connections: number
  /** Milliseconds that an idle connection is kept. */
  readonly keepAlive: number
}

/** What is taken off the time for which an upstream says that it keeps a connection: the request may be under way as it closes. */
const MARGIN = 2000
/** Ticks after which an idle connection no longer holds the process. */
const LOOSE = 2
/** Places at the beginning of the queue that may stay behind. */
const COMPACT = 256

/** No connection is made any more. */
class PoolClosed extends Error {
  readonly code = 'POOL_CLOSED'

  constructor () {
    super('the connections of this upstream are closed')
    this.name = 'PoolClosed'
  }
}

/**
 * The connections to one upstream. Requests go out in the order in which they came, on the connection that was used last,
 * so that those too many fall idle.
 *
 * A connection that carried a request carries no other before the loop has polled once more, and every request waits for the
 * end of its own poll: a close, or an answer that nobody asked for, which the kernel has already, is seen before the request
 * is written and not after it (undici does the same since GHSA-35p6-xmwp-9g52).
 */
export class ConnectionPool implements ConnectionOwner {
  readonly #dialer: Dialer
  readonly #options: ConnectionPoolOptions
  readonly #patience: number
  readonly #all = new Set<UpstreamConnection>()
  readonly #idle: UpstreamConnection[] = []
  /** Used in this turn of the loop. */
  readonly #cooling: UpstreamConnection[] = []
  #queue: Array<QueuedCall | null> = []
  /** Where the queue begins; what stood before is null. */
  #first = 0
  #opening = 0
  #scheduled = false
  #tick = 0
  #closed = false
  #onEmpty: (() => void) | null = null

  constructor (dialer: Dialer, options: ConnectionPoolOptions) {
    this.#dialer = dialer
    this.#options = options
    this.#patience = Deadlines.ticks(options.keepAlive)
  }

  /** Sends a request as soon as a connection is free. The handler is told of everything that follows, refusals too. */
  dispatch (call: UpstreamCall, handler: CallHandler): void {
    let head
    try {
      if (this.#closed) throw new PoolClosed()
      head = requestHead(call, this.#options.authority)
    } catch (error) {
      handler.onResponseError(null, error instanceof Error ? error : new Error(String(error)))
      return
    }
    this.#queue.push({ call, head, handler })
    this.#schedule()
  }

  /** Finishes what runs and what waits, then closes; `done` is called after that. */
  close (done: () => void): void {
    this.#closed = true
    this.#onEmpty = done
    this.#schedule()
  }

  /** Closes everything at once. What runs or waits is told of it. */
  destroy (): void {
    this.#closed = true
    const waiting = this.#queue.slice(this.#first)
    this.#queue = []
    this.#first = 0
    for (const connection of this.#all) connection.destroy()
    for (const call of waiting) if (call !== null && !call.handler.over) call.handler.onResponseError(null, new PoolClosed())
    this.#empty()
  }

  /** One tick of the clock: lets go of connections that were idle for long. */
  look (tick: number): void {
    this.#tick = tick
    for (let at = this.#idle.length - 1; at >= 0; at--) {
      const connection = this.#idle[at]
      if (connection === undefined) continue
      const idle = tick - connection.idleSince
      if (idle >= this.#limit(connection)) connection.destroy()
      else if (idle >= LOOSE) connection.unref()
    }
  }

  /** Ticks that a connection may be idle. */
  #limit (connection: UpstreamConnection): number {
    const { keepAlive } = connection
    return keepAlive < 0 ? this.#patience : Math.min(this.#patience, Deadlines.ticks(keepAlive - MARGIN))
  }

  release (connection: UpstreamConnection): void {
    if (this.#limit(connection) <= 0) {
      connection.destroy()
      return
    }
    connection.idleSince = this.#tick
    this.#cooling.push(connection)
    this.#schedule()
  }

  lost (connection: UpstreamConnection): void {
    if (!this.#all.delete(connection)) return
    remove(this.#idle, connection)
    remove(this.#cooling, connection)
    this.#schedule()
  }

  #schedule (): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(flush, this)
  }

  flush (): void {
    this.#scheduled = false
    let call = this.#next()
    while (call !== null) {
      const connection = this.#idle.pop()
      if (connection === undefined) break
      this.#shift()
      connection.start(call)
      call = this.#next()
    }
    for (const connection of this.#cooling) this.#idle.push(connection)
    this.#cooling.length = 0
    if (call !== null) this.#wait()
    else if (this.#closed) this.#empty()
  }

  /** The first request that somebody still waits for; it stays in the queue. */
  #next (): QueuedCall | null {
    while (this.#first < this.#queue.length) {
      const call = this.#queue[this.#first]
      if (call !== undefined && call !== null && !call.handler.over) return call
      this.#shift()
    }
    this.#queue.length = 0
    this.#first = 0
    return null
  }

  /** Takes the first request out of the queue, which is not moved up for each. */
  #shift (): void {
    // Its place may stay for long, when nothing but streams follows: the request must not, nor its body.
    this.#queue[this.#first++] = null
    if (this.#first < COMPACT) return
    this.#queue = this.#queue.slice(this.#first)
    this.#first = 0
  }

  /** Requests are left: for those that no idle or opening connection will take, more are opened. */
  #wait (): void {
    if (this.#idle.length > 0) this.#schedule()
    const wanted = this.#queue.length - this.#first - this.#idle.length - this.#opening
    const room = this.#options.connections - this.#all.size
    for (let count = Math.min(wanted, room); count > 0; count--) this.#open()
  }

  #open (): void {
    const connection = new UpstreamConnection(this, this.#dialer.secure)
    this.#all.add(connection)
    this.#opening++
    this.#dialer.dial(connection.onread, result => {
      this.#opening--
      if (result instanceof Error) {
        this.lost(connection)
        this.#refuse(result)
        return
      }
      connection.attach(result)
      // The pool was closed meanwhile.
      if (this.#all.has(connection)) this.#opened(connection)
      else result.destroy()
    })
  }

  #opened (connection: UpstreamConnection): void {
    const waited = this.#queue.length > this.#first
    const call = this.#next()
    if (call !== null) {
      this.#shift()
      connection.start(call)
    } else if (waited || this.#closed) connection.destroy()
    else {
      connection.idleSince = this.#tick
      this.#idle.push(connection)
    }
  }

  /** A connection could not be made: the request that has waited longest is told. */
  #refuse (error: Error): void {
    const call = this.#next()
    if (call === null) return
    this.#shift()
    call.handler.onResponseError(null, error)
  }

  /** Closes what is idle; tells that the last connection has gone. */
  #empty (): void {
    for (const connection of this.#idle.slice()) connection.destroy()
    if (this.#all.size > 0 || this.#onEmpty === null) return
    const done = this.#onEmpty
    this.#onEmpty = null
    done()
  }
}

function flush (pool: ConnectionPool): void {
  pool.flush()
}

function remove (from: UpstreamConnection[], connection: UpstreamConnection): void {
  const at = from.indexOf(connection)
  if (at >= 0) from.splice(at, 1)
}
