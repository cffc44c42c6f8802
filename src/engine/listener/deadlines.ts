import type { Socket } from 'node:net'
import type { WireBody } from '../message/request-body.ts'

/** Limits per client; `server.limits` sets `drainTimeout`. Milliseconds and bytes. */
export interface ListenerLimits {
  /** From the first byte of a request head to its last. */
  readonly headerDeadline: number
  /** Longest pause between two pieces of a request body. */
  readonly idleReadDeadline: number
  /** Longest time a client may leave written bytes unread. */
  readonly idleWriteDeadline: number
  readonly keepAlive: number
  readonly headerSize: number
  readonly headerCount: number
  readonly connectionsPerAddress: number
  /** Slowest upload in bytes per second over `floorWindow`; 0 disables it. */
  readonly uploadFloor: number
  readonly downloadFloor: number
  readonly floorWindow: number
  /** For one slow client, and for all of them together. */
  readonly buffer: number
  readonly buffers: number
  readonly drainTimeout: number
}

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

/** Milliseconds. Above the 600 seconds of cloud load balancers: a proxy whose idle connection is closed answers 502. */
const PROXY_KEEP_ALIVE = 650_000

/** Milliseconds that an idle connection is kept: as long as a first head may take, then until the next request. */
export function idleTime(
  { trusted }: { readonly trusted: boolean },
  hasServed: boolean,
  limits: ListenerLimits
): number {
  if (!hasServed) return limits.headerDeadline
  return trusted ? Math.max(PROXY_KEEP_ALIVE, limits.keepAlive) : limits.keepAlive
}

/** How long a connection stays open for the client to read its last response. */
const LINGER = 2000

/** How long a half-closed client gets no data before it is probed. */
const SILENCE = 400

/**
 * Often enough for the shortest deadline, at most 100 times a second. One sweep over all connections replaces timers
 * set and cleared per request.
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

/** State of one connection at earlier sweeps. Times are monotonic milliseconds. */
export class Watch {
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
  /** When a half-closed client was last written to, and the bytes sent by then. */
  spokenAt: number | null = null
  spoken = 0
  awaited: object | null = null
  received = 0
  receivedAt: number | null = null
  windowReceived = 0
  windowAt = 0

  constructor(now: number) {
    this.idleSince = now
  }

  idle(now: number, bytesRead: number): void {
    this.idleSince = now
    this.bytesAtIdle = bytesRead
    this.headSince = null
    this.receivedAt = null
    this.spokenAt = null
    this.awaited = null
  }
}

export interface Watched {
  readonly socket: Socket
  readonly watch: Watch
  readonly current: { readonly body: WireBody; probe(): boolean } | null
  /** The last response is sent, or nothing more is read. */
  readonly closing: boolean
  readonly tunnelling: boolean
  readonly served: boolean
  readonly trusted: boolean
  /** The last answered request has not arrived completely. */
  readonly leftover: boolean
  /** Bytes that the system has accepted for sending. */
  readonly taken: number
  refuse(status: number, message: string): void
  failBody(status: number, message: string): void
}

/**
 * The client half-closed its side during a request: it has left, which only a write shows, or it still reads. After a
 * long wait it is probed now, since a response to a departed client is unpaid. A client that half-closes with its
 * request, as `nc` does, is probed by `enforce` later.
 */
export function detectDisconnect({ current, watch }: Pick<Watched, 'current' | 'watch'>): void {
  if (current !== null && watch.awaited === current) current.probe()
}

/**
 * Bytes of what was written that the system has accepted. Node keeps both numbers for its own timeouts and types
 * neither.
 */
export function takenBytes(socket: Socket): number {
  // `_handle` is Node's own; without it only whole writes count as progress.
  const handle = (socket as { _handle?: { bytesWritten?: number; writeQueueSize?: number } | null })._handle
  return handle?.bytesWritten === undefined
    ? socket.bytesWritten - socket.writableLength
    : handle.bytesWritten - (handle.writeQueueSize ?? 0)
}

export function enforce(connection: Watched, now: number, limits: ListenerLimits): void {
  const watch = connection.watch
  if (stalled(connection, watch, now, limits)) {
    cut(connection.socket)
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
    // The response is out, the rest of its upload is not: it gets the deadline of a head.
    if (now - watch.idleSince >= limits.headerDeadline) connection.socket.destroy()
    return
  }
  if (read === watch.bytesAtIdle) {
    if (now - watch.idleSince >= idleTime(connection, connection.served, limits)) connection.socket.destroy()
    return
  }
  if (watch.headSince === null) watch.headSince = now
  else if (now - watch.headSince >= limits.headerDeadline)
    connection.refuse(408, 'The request head did not arrive in time.')
}

export function stalled(
  connection: Pick<Watched, 'taken' | 'tunnelling'> & { readonly socket: Pick<Socket, 'writableLength'> },
  watch: Watch,
  now: number,
  limits: ListenerLimits
): boolean {
  if (connection.socket.writableLength === 0) {
    watch.unreadSince = null
    return false
  }
  // The unsent bytes also grow with every piece of a stream; only accepted bytes show that the client reads.
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
  // A tunnel's upstream may be silent for long, and its client reads at its own rate.
  return slow && !connection.tunnelling
}

/** The upload pauses for too long, or is too slow. Time without a reader does not count. */
export function upload(
  connection: Pick<Watched, 'current' | 'failBody'>,
  watch: Watch,
  now: number,
  limits: ListenerLimits
): void {
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
 * The client half-closed its side. It may wait for its response (RFC 9112, section 9.6), or have left: only a failing
 * write tells. An interim response probes it before the head; later the pieces do, and a silent response is cut.
 */
function listen(connection: Watched, current: { probe(): boolean }, watch: Watch, now: number): void {
  const { socket } = connection
  if (watch.spokenAt !== null && now - watch.spokenAt < SILENCE) return
  const silent = watch.spokenAt !== null && socket.bytesWritten === watch.spoken && socket.writableLength === 0
  if (!current.probe() && silent) cut(socket)
  watch.spokenAt = now
  watch.spoken = socket.bytesWritten
}

function linger(connection: Watched, watch: Watch, now: number): void {
  if (watch.closingSince === null) {
    watch.closingSince = now
    watch.bytesAtClosing = connection.socket.bytesRead
    return
  }
  // 4 MiB: many times what a client can have in flight when the response reaches it.
  if (now - watch.closingSince >= LINGER || connection.socket.bytesRead - watch.bytesAtClosing > 4 * 1024 * 1024)
    connection.socket.destroy()
}

/** Cuts a response off so that the client notices: by a reset, or by the missing close_notify of TLS. */
export function cut(socket: Socket): void {
  if ('encrypted' in socket) socket.destroy()
  else socket.resetAndDestroy()
}
