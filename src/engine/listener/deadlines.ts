import type { Socket } from 'node:net'
import type { WireBody } from './request-body.ts'

/** What a single client may take from the listener (`server.limits`). Times in milliseconds, sizes in bytes. */
export interface ListenerLimits {
  /** For a request head to arrive completely, from its first byte. */
  readonly headerDeadline: number
  /** Longest pause between two pieces of a request body. */
  readonly idleReadDeadline: number
  /** Longest time a client may leave written bytes unread. */
  readonly idleWriteDeadline: number
  /** How long an idle connection is kept between two requests. */
  readonly keepAlive: number
  readonly headerSize: number
  readonly headerCount: number
  readonly connectionsPerAddress: number
  /** Slowest upload in bytes a second, measured over `floorWindow`; 0 switches it off. */
  readonly uploadFloor: number
  /** Slowest reading of what waits to be read, as `uploadFloor`. */
  readonly downloadFloor: number
  readonly floorWindow: number
  /** Kept for one slow client, and for all of them together. */
  readonly buffer: number
  readonly buffers: number
  /** How long running requests may go on once the listener drains. */
  readonly drainTimeout: number
}

/** The values of the configuration's defaults, for tests and embedding. */
export const defaultLimits: ListenerLimits = Object.freeze({
  headerDeadline: 10_000,
  idleReadDeadline: 60_000,
  idleWriteDeadline: 60_000,
  keepAlive: 75_000,
  headerSize: 80 * 1024,
  headerCount: 200,
  connectionsPerAddress: 1024,
  uploadFloor: 64,
  downloadFloor: 64,
  floorWindow: 20_000,
  buffer: 256 * 1024,
  buffers: 64 * 1024 * 1024,
  drainTimeout: 30_000
})

/** How long a connection that had its last response is kept open for the client to read it. */
const LINGER = 2000

/** How long a client that has ended its side is sent nothing before it is found out whether it is still there. */
const SILENCE = 400

/**
 * How often connections are looked at: often enough for the shortest deadline, never more than a hundred times a
 * second. One round over all connections replaces timers that would be set and cleared for each request.
 */
export function sweepInterval(limits: ListenerLimits): number {
  const shortest = Math.min(
    limits.headerDeadline,
    limits.idleReadDeadline,
    limits.idleWriteDeadline,
    Math.max(limits.keepAlive, 40),
    LINGER
  )
  return Math.min(1000, Math.max(10, Math.floor(shortest / 4)))
}

/** What was seen of one connection at earlier rounds. Times are monotonic milliseconds. */
export class Watch {
  /** Since when nothing is being answered. */
  idleSince: number
  /** `bytesRead` at that moment; more means that a head has begun. */
  bytesAtIdle = 0
  headSince: number | null = null
  closingSince: number | null = null
  bytesAtClosing = 0
  taken = 0
  unreadSince: number | null = null
  windowTaken = 0
  unreadWindowAt = 0
  /** When a client that has ended its side was last written to, and how much it was sent by then. */
  spokenAt: number | null = null
  spoken = 0
  /** The request that was being answered at the last round. */
  awaited: object | null = null
  received = 0
  receivedAt: number | null = null
  windowReceived = 0
  windowAt = 0

  constructor(now: number) {
    this.idleSince = now
  }

  /** A response is over; the connection waits for the next request. */
  idle(now: number, bytesRead: number): void {
    this.idleSince = now
    this.bytesAtIdle = bytesRead
    this.headSince = null
    this.receivedAt = null
    this.spokenAt = null
    this.awaited = null
  }
}

/** A client connection as its deadlines see it, whoever reads it. */
export interface Watched {
  readonly socket: Socket
  readonly watch: Watch
  /** The request that is being answered. */
  readonly current: { readonly body: WireBody; probe(): boolean } | null
  /** Its last response is given, or nothing more is taken from it. */
  readonly closing: boolean
  readonly tunnelling: boolean
  /** It has had a response. */
  readonly served: boolean
  /** The request that was answered last has not arrived completely. */
  readonly leftover: boolean
  /** Bytes that the system has taken to send them. */
  readonly taken: number
  /** Answers on the bare socket and takes nothing more from it. */
  refuse(status: number, message: string): void
  /** The bytes of the request that is being answered are wrong or late. */
  failBody(status: number, message: string): void
}

/**
 * The client has ended its side while a request of it is being answered: it may have left, which only a write tells, or it
 * reads on. Where it has waited for a while it is asked at once, since what is sent to one that has left is sold to
 * nobody; who ends its side with its request, as `nc` does, is left in peace until `enforce` asks.
 */
export function askWhetherGone({ current, watch }: Pick<Watched, 'current' | 'watch'>): void {
  if (current !== null && watch.awaited === current) current.probe()
}

/**
 * Bytes that the system has taken of what was written; Node keeps both numbers for its own timeouts and types neither.
 */
export function takenBytes(socket: Socket): number {
  // `_handle` is Node's own; without it only whole writes count as progress.
  const handle = (socket as { _handle?: { bytesWritten?: number; writeQueueSize?: number } | null })._handle
  return handle?.bytesWritten === undefined
    ? socket.bytesWritten - socket.writableLength
    : handle.bytesWritten - (handle.writeQueueSize ?? 0)
}

/** Looks at one connection and ends it where a deadline has passed. */
export function enforce(connection: Watched, now: number, limits: ListenerLimits): void {
  const watch = connection.watch
  if (stalled(connection, watch, now, limits)) {
    connection.socket.resetAndDestroy()
    return
  }
  const current = connection.current
  if (current !== null) {
    if (connection.tunnelling) return
    watch.awaited = current
    upload(connection, watch, now, limits)
    if (connection.socket.readableEnded) listen(connection, current, watch, now)
    return
  }
  if (connection.closing) {
    linger(connection, watch, now)
    return
  }
  const read = connection.socket.bytesRead
  if (connection.leftover) {
    // The response is out, the small rest of its upload is not: it has as long as a head has.
    if (now - watch.idleSince >= limits.headerDeadline) connection.socket.destroy()
    return
  }
  if (read === watch.bytesAtIdle) {
    const allowed = connection.served ? limits.keepAlive : limits.headerDeadline
    if (now - watch.idleSince >= allowed) connection.socket.destroy()
    return
  }
  if (watch.headSince === null) watch.headSince = now
  else if (now - watch.headSince >= limits.headerDeadline)
    connection.refuse(408, 'The request head did not arrive in time.')
}

/** The client leaves the same bytes unread for too long, or takes them in a trickle. */
function stalled(connection: Watched, watch: Watch, now: number, limits: ListenerLimits): boolean {
  if (connection.socket.writableLength === 0) {
    watch.unreadSince = null
    return false
  }
  // What is still to be sent also grows, with every piece of a stream; only what has been taken shows that the client
  // reads.
  const { taken } = connection
  if (watch.unreadSince === null) {
    watch.taken = watch.windowTaken = taken
    watch.unreadSince = watch.unreadWindowAt = now
    return false
  }
  if (taken !== watch.taken) {
    watch.taken = taken
    watch.unreadSince = now
  } else if (now - watch.unreadSince >= limits.idleWriteDeadline) return true
  const elapsed = now - watch.unreadWindowAt
  if (elapsed < limits.floorWindow) return false
  const slow = ((taken - watch.windowTaken) * 1000) / elapsed < limits.downloadFloor
  watch.unreadWindowAt = now
  watch.windowTaken = taken
  // A tunnel's other side may have nothing to say for long, and its client reads what it likes.
  return slow && !connection.tunnelling
}

/** The upload pauses for too long, or trickles. Time in which nobody wanted bytes does not count. */
function upload(connection: Watched, watch: Watch, now: number, limits: ListenerLimits): void {
  const body = connection.current?.body
  if (body === undefined || !body.waiting || !body.unfinished) {
    watch.receivedAt = null
    return
  }
  if (watch.receivedAt === null) {
    watch.receivedAt = watch.windowAt = now
    watch.received = watch.windowReceived = body.received
    return
  }
  if (body.received !== watch.received) {
    watch.received = body.received
    watch.receivedAt = now
  } else if (now - watch.receivedAt >= limits.idleReadDeadline) {
    connection.failBody(408, 'The request body stopped arriving.')
    return
  }
  const elapsed = now - watch.windowAt
  if (elapsed < limits.floorWindow) return
  const rate = ((body.received - watch.windowReceived) * 1000) / elapsed
  if (rate < limits.uploadFloor)
    connection.failBody(408, `The request body arrives more slowly than ${limits.uploadFloor} bytes a second.`)
  watch.windowAt = now
  watch.windowReceived = body.received
}

/**
 * The client has ended its side. It may wait for its response (RFC 9112, section 9.6), or have left: only a write that
 * fails tells. Before the response that is an interim one, which costs nothing; in the middle of it the pieces
 * themselves are, and who leaves a response that has fallen silent is not waited for.
 */
function listen(connection: Watched, current: { probe(): boolean }, watch: Watch, now: number): void {
  const { socket } = connection
  if (watch.spokenAt !== null && now - watch.spokenAt < SILENCE) return
  const silent = watch.spokenAt !== null && socket.bytesWritten === watch.spoken && socket.writableLength === 0
  if (!current.probe() && silent) socket.resetAndDestroy()
  watch.spokenAt = now
  watch.spoken = socket.bytesWritten
}

function linger(connection: Watched, watch: Watch, now: number): void {
  if (watch.closingSince === null) {
    watch.closingSince = now
    watch.bytesAtClosing = connection.socket.bytesRead
    return
  }
  // 4 MiB: many times what a client can have had in flight when the response reached it.
  if (now - watch.closingSince >= LINGER || connection.socket.bytesRead - watch.bytesAtClosing > 4 * 1024 * 1024)
    connection.socket.destroy()
}
