import type { Socket } from 'node:net'
import { detectDisconnect, Watch } from '../listener/deadlines.ts'
import { type Admission, admit, type DoorRules, FrontDoorRefusal } from '../listener/front-door.ts'
import { HttpConnection, type HttpHost } from '../listener/http-connection.ts'
import { type PlainHead, readPlainHead } from './plain-head.ts'
import { IncomingBody, WholeBody, type WireBody, type BodySource } from '../message/request-body.ts'
import { Pieces } from '../message/pieces.ts'
import { EventEmitter } from 'node:events'

export interface LaneHost extends HttpHost {
  readonly laneHead: number
  readonly rules: DoorRules
  /** Serves an admitted request; sets `lane.current` before it returns. */
  serve(lane: Lane, admission: Admission, body: WireBody, last: boolean): void
  /**
   * Moves the connection to node:http for good, with all unread bytes. `behind`: they arrived while the request before
   * them was unanswered.
   */
  handOver(lane: Lane, bytes: Buffer, behind: boolean): void
}

/** Bytes that may wait for their reader before reading pauses. */
const HELD = 64 * 1024

/**
 * A client connection on the fast lane: served without node:http while its requests are plain. A request that is not
 * plain, or that is refused, moves to node:http unchanged, with the connection. So each refusal and rare form has one
 * implementation.
 */
export class Lane extends HttpConnection implements UploadValve {
  readonly watch: Watch
  readonly tunnelling = false
  readonly #host: LaneHost
  /** The body of the last request, until it has arrived and its response is over. */
  #upload: RequestUpload | null = null
  #held: Buffer | null = null
  #holding = false
  #left = false
  #last = false

  constructor(socket: Socket, peerAddress: string, trusted: boolean, host: LaneHost) {
    super(socket, peerAddress, trusted, host)
    this.#host = host
    this.watch = new Watch(host.monotonic())
  }

  get leftover(): boolean {
    return this.#upload !== null && !this.#upload.complete
  }

  protected override get isLast(): boolean {
    return this.#last
  }

  open(): void {
    const { socket } = this
    socket.on('close', this.#onClose)
    socket.on('error', ignore)
    socket.on('end', this.#onEnd)
    socket.on('drain', this.drained)
    socket.on('data', this.#onData)
  }

  leave(): void {
    const { socket } = this
    this.#left = true
    socket.off('close', this.#onClose)
    socket.off('error', ignore)
    socket.off('end', this.#onEnd)
    socket.off('drain', this.drained)
    socket.off('data', this.#onData)
  }

  readonly #onData = (bytes: Buffer): void => {
    let rest = bytes
    if (this.#upload !== null && !this.#upload.complete) {
      const upload = this.#upload
      const count = upload.take(bytes)
      if (upload.complete && this.current === null && !this.closing) {
        this.#upload = null
        this.#next(count === bytes.length ? null : bytes.subarray(count), false)
        return
      }
      if (count === bytes.length) return
      rest = bytes.subarray(count)
    }
    // What follows a request with Connection: close is not a request (RFC 9112, section 9.6).
    if (this.closing || this.#last) return
    if (this.current === null) {
      this.#begin(rest, false)
      return
    }
    this.#held = this.#held === null ? rest : Buffer.concat([this.#held, rest])
    if (this.#held.length >= HELD) this.hold()
  }

  #begin(bytes: Buffer, behind: boolean): void {
    const head = readPlainHead(bytes, this.#host.laneHead)
    const admission = head === null ? null : admit(head, this.#host.rules)
    if (head === null || admission === null || admission instanceof FrontDoorRefusal || admission.length === null) {
      this.#host.handOver(this, bytes, behind)
      return
    }
    this.#last = head.last
    this.#host.serve(this, admission, this.#body(bytes, head, admission.length), head.last)
  }

  #body(bytes: Buffer, head: PlainHead, length: number): WireBody {
    let { end } = head
    let body: WireBody
    if (length === 0) body = new WholeBody()
    else {
      const upload = new RequestUpload(length, this)
      this.#upload = upload
      if (end < bytes.length) end += upload.take(bytes.subarray(end))
      body = new IncomingBody(upload, null, length, this.keeping)
    }
    if (end < bytes.length && !head.last) {
      this.#held = bytes.subarray(end)
      if (this.#held.length >= HELD) this.hold()
    }
    return body
  }

  #next(bytes: Buffer | null, behind: boolean): void {
    const { socket } = this
    this.#holding = false
    this.#held = null
    if (bytes !== null) {
      this.#begin(bytes, behind)
      // Its end came before this request was known to be cut short.
      if (socket.readableEnded && !this.#left && this.leftover) this.#onEnd()
    } else if (this.draining !== false || socket.readableEnded) this.finishSoon()
    if (!this.#left && !this.#holding && socket.isPaused()) socket.resume()
  }

  readonly #onEnd = (): void => {
    if (this.leftover) {
      // It ended its side during its upload: it has left.
      if (this.current !== null) this.socket.destroy()
      else this.refuse(400, 'The request is malformed.')
      return
    }
    // It may still read: pending requests are answered first.
    if (this.current === null) this.socket.end()
    else detectDisconnect(this)
  }

  readonly #onClose = (): void => {
    this.closed()
    this.#upload?.destroy()
  }

  override lastResponse(): void {
    this.closing = true
    this.#held = null
  }

  override settled(): void {
    this.rest()
    if (this.socket.destroyed || this.closing || this.leftover) return
    this.#upload = null
    this.#next(this.#held, true)
  }

  override refuse(status: number, message: string): void {
    if (this.closing) return
    this.lastResponse()
    this.writeRefusal(status, message, null)
  }

  hold(): void {
    this.#holding = true
    this.socket.pause()
  }

  release(): void {
    if (!this.#holding) return
    this.#holding = false
    this.socket.resume()
  }
}

/** The socket's close follows its error and is handled. */
function ignore(): void {
  return undefined
}

export interface UploadValve {
  hold(): void
  release(): void
}

/**
 * The body of a request on the fast lane, of Content-Length bytes, buffered until read. Emits `data`, `end`, and
 * `close` when the client left before that.
 */
export class RequestUpload extends EventEmitter implements BodySource {
  destroyed = false
  readonly #valve: UploadValve
  #left: number
  readonly #waiting = new Pieces()
  #flowing = false
  #scheduled = false
  #holding = false
  #ended = false

  constructor(length: number, valve: UploadValve) {
    super()
    this.#left = length
    this.#valve = valve
  }

  get complete(): boolean {
    return this.#left === 0
  }

  /** Takes its share from the start of `bytes`; returns the number taken. */
  take(bytes: Buffer): number {
    const count = Math.min(bytes.length, this.#left)
    if (count === 0) return 0
    this.#left -= count
    const piece = count === bytes.length ? bytes : bytes.subarray(0, count)
    if (this.#flowing && !this.#scheduled && this.#waiting.size === 0) {
      this.emit('data', piece)
      this.#finish()
      return count
    }
    this.#waiting.add(piece)
    if (this.#waiting.size >= HELD && !this.complete && !this.#holding) {
      this.#holding = true
      this.#valve.hold()
    }
    return count
  }

  /** Delivers pieces in the next tick, waiting ones first. */
  resume(): void {
    if (this.#flowing) return
    this.#flowing = true
    this.#schedule()
  }

  pause(): void {
    this.#flowing = false
  }

  destroy(): void {
    if (this.destroyed) return
    this.destroyed = true
    if (!this.#ended) this.emit('close')
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    process.nextTick(flow, this)
  }

  flow(): void {
    this.#scheduled = false
    while (this.#flowing) {
      const piece = this.#waiting.shift()
      if (piece === null) break
      this.emit('data', piece)
    }
    if (this.#holding && this.#waiting.size < HELD) {
      this.#holding = false
      this.#valve.release()
    }
    this.#finish()
  }

  #finish(): void {
    if (!this.complete || this.#ended || !this.#flowing || this.#waiting.size > 0) return
    this.#ended = true
    this.emit('end')
  }
}

function flow(upload: RequestUpload): void {
  upload.flow()
}
