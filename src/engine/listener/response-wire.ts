import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { isToken, NameTable } from '../message/header-names.ts'
import type { Stopping, Tunnel, Wire, WireListener } from '../message/wire.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { CLOSES, DATED, EMPTY, FRAMED, frameReply, headerLine } from '../lane/reply-framing.ts'
import { keepFor, type Keeping } from '../message/allowance.ts'
import type { WireBody } from '../message/request-body.ts'
import { cut } from './deadlines.ts'

export interface WireConnection {
  readonly socket: Socket
  readonly closing: boolean
  readonly draining: Stopping
  readonly clock: Clock
  readonly keeping: Keeping
  dateLine(): string
  lastResponse(): void
  /** Called when the system has accepted the whole response. */
  readonly written: (error?: Error | null) => void
  settled(): void
}

/** Most bytes of an upload read after its response. */
const DISCARD = 256 * 1024
/** Most unread bytes of an answered upload for the connection to be reused. */
const KEEP = 64 * 1024

/** A first piece up to this size is kept until the turn's end, to leave in one string with its head. */
const SMALL_PIECE_BYTES = 16 * 1024

const FRESH = 0
const HEAD = 1
const OVER = 2

const LINE_BREAKER = /[^\t\x20-\x7e\x80-\xff]/

const statusLines = new Map<number, string>()

const starts = new NameTable(name => (isToken(name) ? `\r\n${name}: ` : ''))

/** @throws RangeError, like Node, for an invalid status */
function statusLine(status: number): string {
  const known = statusLines.get(status)
  if (known !== undefined) return known
  if (!Number.isInteger(status) || status < 100 || status > 999) throw new RangeError(`Invalid status code: ${status}`)
  const line = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'unknown'}`
  statusLines.set(status, line)
  return line
}

function flushHead(wire: ResponseWire): void {
  wire.flush()
}

function uncork(socket: Socket): void {
  socket.uncork()
}

/** One Latin-1 string of the same bytes leaves in one write; a list would need `writev`. */
function text(piece: Uint8Array): string {
  return (Buffer.isBuffer(piece) ? piece : Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength)).toString(
    'latin1'
  )
}

/** The client's side of one request over HTTP/1. Writes to the socket itself, also where node:http reads it. */
export class ResponseWire implements Wire {
  listener: WireListener | null = null
  tunnel: Tunnel | null = null
  readonly body: WireBody
  readonly #connection: WireConnection
  readonly #withoutBody: boolean
  readonly #old: boolean
  readonly #last: boolean
  #stage = FRESH
  #silent: boolean
  #chunked = false
  #head = ''
  #begun = false
  #wrote = false
  #kept: Uint8Array | null = null
  #needsDrain = false
  #keeps = 0
  #bytesOut = 0
  #broken = false
  /** A tunnel owns the connection; aborting it still happens here. */
  #isTunnel = false
  #closed = false

  /** `isOld`: HTTP/1.0. `isLast`: the client closes the connection with this request. */
  constructor(connection: WireConnection, body: WireBody, method: string, isOld: boolean, isLast: boolean) {
    this.#connection = connection
    this.body = body
    this.#withoutBody = method === 'HEAD'
    this.#silent = this.#withoutBody
    this.#old = isOld
    this.#last = isLast
  }

  get gone(): boolean {
    return this.#closed || this.#broken || this.#connection.socket.destroyed
  }

  get stopping(): Stopping {
    return this.#connection.draining
  }

  get begun(): boolean {
    return this.#begun
  }

  get bytesOut(): number {
    return this.#bytesOut
  }

  stillReads(): Promise<boolean> | null {
    const { socket, clock } = this.#connection
    const isAsked = socket.readableEnded && this.#stage === FRESH && !this.#old && !this.gone
    return isAsked ? stillReads(socket, clock) : null
  }

  interim(status: number, headers: readonly string[]): void {
    if (this.#stage !== FRESH || this.#old || this.gone || (status !== 102 && status !== 103)) return
    let head = `${statusLine(status)}\r\n`
    for (let at = 0; at < headers.length; at += 2) head += headerLine(headers[at] ?? '', headers[at + 1] ?? '')
    this.#send(`${head}\r\n`)
  }

  head(status: number, headers: string[]): void {
    if (this.#stage !== FRESH || this.gone) return
    const connection = this.#connection
    const silent = this.#withoutBody || status === 204 || status === 304
    const seen = frameReply(headers, status, silent, this.#old)
    this.#silent = silent || (seen & EMPTY) !== 0
    const isFramed = (seen & FRAMED) !== 0
    const close =
      connection.closing ||
      connection.draining !== false ||
      (seen & CLOSES) !== 0 ||
      (this.#old && !isFramed) ||
      cutsUpload(this.body)
    // Each line begins with the end of the one before: two pieces per line instead of four make a smaller string tree
    // to flatten.
    let head = statusLine(status)
    for (let at = 0; at < headers.length; at += 2) {
      const name = headers[at] ?? ''
      const value = headers[at + 1] ?? ''
      const start = starts.of(name)
      // Throws on an invalid header before writing anything; another head may follow.
      if (start === '' || LINE_BREAKER.test(value)) headerLine(name, value)
      head = head + start + value
    }
    if (close) {
      connection.lastResponse()
      head += '\r\nConnection: close'
    }
    if ((seen & DATED) === 0) head += connection.dateLine()
    this.#chunked = !isFramed && !silent && !this.#old
    this.#head =
      head +
      (close ? '' : this.#last ? '\r\nConnection: close' : '\r\nConnection: keep-alive') +
      (this.#chunked ? '\r\nTransfer-Encoding: chunked\r\n\r\n' : '\r\n\r\n')
    this.#stage = HEAD
    // A head must not wait for a later body; a body in the same turn leaves with it in one packet.
    process.nextTick(flushHead, this)
  }

  write(bytes: Uint8Array): boolean {
    if (this.#stage !== HEAD || this.gone) return true
    if (this.#silent || bytes.byteLength === 0) return true
    this.#bytesOut += bytes.byteLength
    if (!this.#wrote) {
      this.#wrote = true
      if (bytes.byteLength <= SMALL_PIECE_BYTES) {
        this.#kept = bytes
        return true
      }
    }
    this.#gather()
    this.#release()
    if (this.#piece(bytes) || this.#keep(bytes.byteLength)) return true
    this.#needsDrain = true
    return false
  }

  /** Buffers for a slow client while there is room, which frees the upstream's connection sooner. */
  #keep(bytes: number): boolean {
    const size = keepFor(this.#connection.keeping, this.#keeps, bytes)
    this.#keeps += size
    return size > 0
  }

  #caughtUp(): void {
    this.#connection.keeping.slow.give(this.#keeps)
    this.#keeps = 0
  }

  end(last: string | Uint8Array | null, trailers: readonly string[] | null): void {
    if (this.#stage === OVER || this.gone) return
    if (this.#stage === FRESH) throw new TypeError('a response cannot end before its head')
    this.#stage = OVER
    if (this.body.unfinished) this.body.discard(DISCARD)
    let tail = ''
    if (this.#chunked) {
      tail = '0\r\n'
      if (trailers !== null)
        for (let at = 0; at < trailers.length; at += 2) tail += headerLine(trailers[at] ?? '', trailers[at + 1] ?? '')
      tail += '\r\n'
    }
    let front = this.#front()
    if (last !== null && last.length > 0 && !this.#silent) {
      const bytes = typeof last === 'string' ? Buffer.from(last) : last
      this.#bytesOut += bytes.byteLength
      if (bytes.byteLength <= SMALL_PIECE_BYTES) front += this.#framed(bytes)
      else {
        this.#gather()
        if (front !== '') this.#send(front)
        this.#piece(bytes)
        front = ''
      }
    }
    this.#finish(front + tail)
  }

  #finish(rest: string): void {
    const { socket, written } = this.#connection
    if (!socket.writable) return
    if (rest === '' && socket.writableLength === 0) process.nextTick(written)
    else socket.write(rest, 'latin1', written)
    while (socket.writableCorked > 0) socket.uncork()
  }

  #front(): string {
    const head = this.#head
    const kept = this.#kept
    this.#begun = true
    this.#head = ''
    this.#kept = null
    return kept === null ? head : head + this.#framed(kept)
  }

  #release(): void {
    const front = this.#front()
    if (front !== '') this.#send(front)
  }

  #framed(piece: Uint8Array): string {
    return this.#chunked ? `${piece.byteLength.toString(16)}\r\n${text(piece)}\r\n` : text(piece)
  }

  #piece(bytes: Uint8Array): boolean {
    const { socket } = this.#connection
    if (!socket.writable) return true
    if (!this.#chunked) return socket.write(bytes)
    if (bytes.byteLength <= SMALL_PIECE_BYTES) return socket.write(this.#framed(bytes), 'latin1')
    socket.write(`${bytes.byteLength.toString(16)}\r\n`, 'latin1')
    socket.write(bytes)
    return socket.write('\r\n', 'latin1')
  }

  #gather(): void {
    const { socket } = this.#connection
    if (socket.writableCorked > 0) return
    socket.cork()
    process.nextTick(uncork, socket)
  }

  #send(bytes: string): void {
    // After the client has ended its side, ours is ended too.
    if (this.#connection.socket.writable) this.#connection.socket.write(bytes, 'latin1')
  }

  destroy(): void {
    if (this.#closed || (this.#stage === OVER && !this.#isTunnel)) return
    this.#stage = OVER
    this.#broken = true
    // A reset, not a FIN: an HTTP/1.0 client would take the close for the end of the body.
    cut(this.#connection.socket)
  }

  /** Lets the tunnel write its 101. It must then call `closed`. */
  handOver(): void {
    this.#stage = OVER
    this.#isTunnel = true
    this.#begun = true
  }

  /**
   * Sends an interim response, which a closed connection refuses; false once the response has begun. HTTP/1.0 clients
   * know none (RFC 9110, section 15.2).
   */
  probe(): boolean {
    if (this.#stage !== FRESH || this.gone) return false
    if (!this.#old) this.#send(PROBE)
    return true
  }

  flush(): void {
    if (this.#stage !== HEAD || this.gone) return
    // Later pieces have no head to leave with.
    this.#wrote = true
    this.#release()
  }

  drained(): void {
    if (this.#keeps > 0) this.#caughtUp()
    if (this.#closed || !this.#needsDrain) return
    this.#needsDrain = false
    this.listener?.drained()
  }

  drain(): void {
    if (!this.#closed) this.listener?.stopping()
  }

  /** The response has ended, complete or not; counts once. */
  closed(complete: boolean): void {
    if (this.#closed) return
    this.#closed = true
    this.#stage = OVER
    if (this.#keeps > 0) this.#caughtUp()
    this.body.done()
    this.listener?.closed(complete && !this.#broken)
    this.#connection.settled()
  }
}

/** The response precedes the upload's end, and too much is left to be worth reading. */
function cutsUpload(body: WireBody): boolean {
  // Whether the body of an Expect without its 100 comes is not known.
  if (body.unasked) return true
  if (!body.unfinished) return false
  return body.length === null || body.length - body.received > KEEP
}

/** An interim response; every HTTP/1.1 client must ignore it, however many come (RFC 9110, section 15.2). */
const PROBE = 'HTTP/1.1 100 Continue\r\n\r\n'

/** Milliseconds for the reset of a closed connection to arrive: the round trip to most clients. */
const ROUND_TRIP = 50

/**
 * Whether a half-closed client still reads. A closed connection accepts the first write and answers with a reset, so
 * only a second write fails.
 */
async function stillReads(socket: Socket, clock: Clock): Promise<boolean> {
  if (!(await accepts(socket))) return false
  await new Promise<void>(resolve => {
    clock.after(ROUND_TRIP, resolve)
  })
  return await accepts(socket)
}

function accepts(socket: Socket): Promise<boolean> {
  return new Promise(resolve => {
    if (socket.writable)
      socket.write(PROBE, 'latin1', error => {
        resolve((error ?? null) === null)
      })
    else resolve(false)
  })
}
