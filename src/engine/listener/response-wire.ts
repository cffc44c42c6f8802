import { type IncomingMessage, ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { INTERNAL } from '../operations/error-kinds.ts'
import { LongError } from '../operations/errors.ts'
import type { Stopping, TunnelResponse, TunnelResult, TunnelTarget, Wire, WireListener } from '../message/wire.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { keepFor, type Keeping } from './allowance.ts'
import { CLOSES, EMPTY, FRAMED, frameReply, headerLine } from '../lane/reply-framing.ts'
import type { IncomingBody, WireBody } from './request-body.ts'
import { cut } from './deadlines.ts'

export interface WireConnection {
  readonly socket: Socket
  readonly closing: boolean
  readonly draining: Stopping
  readonly clock: Clock
  readonly keeping: Keeping
  lastResponse(): void
  settled(wire: ResponseWire): void
}

export type TunnelOpener = (
  target: TunnelTarget,
  accepted: (response: TunnelResponse) => void | Promise<void>,
  wire: ResponseWire
) => Promise<TunnelResult>

/** Most bytes of an upload read after its response. */
export const DISCARD = 256 * 1024
/** Most unread bytes of an answered upload for the connection to be reused. */
const KEEP = 64 * 1024

/** A first piece up to this size is kept until the turn's end, to leave in one string with its head. */
export const SMALL_PIECE_BYTES = 16 * 1024

const FRESH = 0
const HEAD = 1
const OVER = 2

/** Node's response with a reference to its wire. Overriding `emit` saves adding four listeners per response. */
export class WireResponse<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
  wire: ResponseWire | null = null

  override emit(event: string | symbol, argument?: unknown): boolean {
    const { wire } = this
    // A write to a connection that has just broken; its close follows and is handled.
    if (wire !== null && event === 'error') return true
    // Node's own listeners detach the socket first.
    const heard = super.emit(event, argument)
    if (wire !== null) {
      if (event === 'finish') wire.finished()
      else if (event === 'close') wire.closed()
      else if (event === 'drain') wire.drained()
    }
    return heard
  }
}

function flushHead(wire: ResponseWire): void {
  wire.flush()
}

export class ResponseWire implements Wire {
  listener: WireListener | null = null
  readonly body: IncomingBody
  readonly #res: WireResponse
  readonly #connection: WireConnection
  readonly #old: boolean
  readonly #withoutBody: boolean
  readonly #opener: TunnelOpener | null
  #stage = FRESH
  #silent: boolean
  #begun = false
  #wrote = false
  #kept: Buffer | null = null
  #bytesOut = 0
  /** Bytes buffered for a slow client, counted against the listener's allowance. */
  #keeps = 0
  #finished = false
  #broken = false
  /** A tunnel owns the connection; aborting it still happens here. */
  #isTunnel = false
  #closed = false

  /** `method` and `httpVersion` decide whether a response has a body and how it is framed. */
  constructor(
    res: WireResponse,
    connection: WireConnection,
    body: IncomingBody,
    method: string,
    httpVersion: '1.0' | '1.1',
    opener: TunnelOpener | null
  ) {
    this.#res = res
    this.#connection = connection
    this.body = body
    this.#old = httpVersion === '1.0'
    this.#withoutBody = method === 'HEAD'
    this.#silent = this.#withoutBody
    this.#opener = opener
    // Node would send chunks to an HTTP/1.0 client with TE: chunked; such clients may not understand them.
    if (this.#old) res.useChunkedEncodingByDefault = false
    res.wire = this
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
    let text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n`
    for (let at = 0; at < headers.length; at += 2) text += headerLine(headers[at] ?? '', headers[at + 1] ?? '')
    // Responses of one connection are serial, so no other write can be in progress.
    this.#connection.socket.write(`${text}\r\n`, 'latin1')
  }

  head(status: number, headers: string[]): void {
    if (this.#stage !== FRESH || this.gone) return
    const connection = this.#connection
    const silent = this.#withoutBody || status === 204 || status === 304
    const seen = frameReply(headers, status, silent, this.#old)
    this.#silent = silent || (seen & EMPTY) !== 0
    let close = connection.closing || connection.draining !== false || (seen & CLOSES) !== 0 || cutsUpload(this.body)
    if ((seen & FRAMED) === 0 && !silent && this.#old) close = true
    if (close) {
      headers.push('Connection', 'close')
      connection.lastResponse()
    }
    // Throws on an invalid header before writing anything: another head may follow.
    this.#res.writeHead(status, headers)
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
      if (bytes.byteLength <= SMALL_PIECE_BYTES && Buffer.isBuffer(bytes)) {
        this.#kept = bytes
        return true
      }
    }
    this.#release()
    this.#begun = true
    return this.#res.write(bytes) || this.#keep(bytes.byteLength)
  }

  #keep(bytes: number): boolean {
    const size = keepFor(this.#connection.keeping, this.#keeps, bytes)
    this.#keeps += size
    return size > 0
  }

  #caughtUp(): void {
    this.#connection.keeping.slow.give(this.#keeps)
    this.#keeps = 0
  }

  #release(): void {
    const kept = this.#kept
    if (kept === null) return
    this.#kept = null
    this.#begun = true
    this.#res.write(kept)
  }

  end(last: string | Uint8Array | null, trailers: readonly string[] | null): void {
    if (this.#stage === OVER || this.gone) return
    if (this.#stage === FRESH) throw new TypeError('a response cannot end before its head')
    this.#stage = OVER
    this.#begun = true
    const res = this.#res
    if (this.body.unfinished) this.body.discard(DISCARD)
    if (trailers !== null && trailers.length > 0 && !this.#silent && res.chunkedEncoding) {
      const pairs: [string, string][] = []
      for (let at = 0; at < trailers.length; at += 2) pairs.push([trailers[at] ?? '', trailers[at + 1] ?? ''])
      res.addTrailers(pairs)
    }
    if (last === null || last.length === 0 || this.#silent) {
      const kept = this.#kept
      this.#kept = null
      if (kept === null) res.end()
      else endWhole(res, kept)
      return
    }
    this.#release()
    this.#bytesOut += typeof last === 'string' ? Buffer.byteLength(last) : last.byteLength
    res.end(last)
  }

  destroy(): void {
    if (this.#closed || (this.#stage === OVER && !this.#isTunnel)) return
    this.#stage = OVER
    this.#broken = true
    // A reset, not a FIN: an HTTP/1.0 client would take the close for the end of the body.
    cut(this.#connection.socket)
  }

  tunnel(target: TunnelTarget, accepted: (response: TunnelResponse) => void | Promise<void>): Promise<TunnelResult> {
    if (this.#opener === null || this.#stage !== FRESH)
      return Promise.reject(
        new LongError(INTERNAL, 'Internal server error', 'Only a request that asks for an upgrade can become a tunnel.')
      )
    return this.#opener(target, accepted, this)
  }

  /** HTTP/1.0 clients know no interim responses (RFC 9110, section 15.2) and are not probed. */
  probe(): boolean {
    if (this.#stage !== FRESH || this.gone) return false
    if (!this.#old) this.#connection.socket.write(PROBE, 'latin1')
    return true
  }

  flush(): void {
    if (this.#stage !== HEAD || this.gone) return
    if (!this.#wrote) {
      // Later pieces have no head to leave with.
      this.#wrote = true
      this.#begun = true
      this.#res.flushHeaders()
    } else this.#release()
  }

  /**
   * Detaches the response from the connection so that the tunnel can write its 101. The tunnel must then call `closed`.
   */
  handOver(): void {
    this.#stage = OVER
    this.#isTunnel = true
    this.#begun = true
    this.#res.detachSocket(this.#connection.socket)
  }

  tunnelled(bytes: number): void {
    this.#bytesOut += bytes
  }

  drained(): void {
    if (this.#keeps > 0) this.#caughtUp()
    if (!this.#closed) this.listener?.drained()
  }

  drain(): void {
    if (!this.#closed) this.listener?.stopping()
  }

  finished(): void {
    this.#finished = this.#connection.socket.errored === null
  }

  /** The response has ended, complete or not; counts once. Only a tunnel passes `complete`. */
  closed(complete = this.#finished): void {
    if (this.#closed) return
    this.#closed = true
    this.#stage = OVER
    if (this.#keeps > 0) this.#caughtUp()
    this.body.done()
    this.listener?.closed(complete && !this.#broken)
    this.#connection.settled(this)
  }
}

/** The response precedes the upload's end, and too much is left to be worth reading. */
export function cutsUpload(body: WireBody): boolean {
  // Node closes after a response that leaves an Expect without its 100; the head must say so.
  if (body.unasked) return true
  if (!body.unfinished) return false
  return body.length === null || body.length - body.received > KEEP
}

/**
 * Ends a response with an unsent head and a body of one piece. Both leave as one Latin-1 string of the same bytes: Node
 * would gather them into a list for `writev`.
 */
function endWhole(res: ServerResponse, body: Buffer): void {
  res.end(body.toString('latin1'), 'latin1')
}

/** An interim response; every HTTP/1.1 client must ignore it, however many come (RFC 9110, section 15.2). */
export const PROBE = 'HTTP/1.1 100 Continue\r\n\r\n'

/** Milliseconds for the reset of a closed connection to arrive: the round trip to most clients. */
const ROUND_TRIP = 50

/**
 * Whether a half-closed client still reads. A closed connection accepts the first write and answers with a reset, so
 * only a second write fails.
 */
export async function stillReads(socket: Socket, clock: Clock): Promise<boolean> {
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
