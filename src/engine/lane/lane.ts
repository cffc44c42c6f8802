import { Socket } from 'node:net'
import { MalformedBody } from '../operations/errors.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Keeping } from '../listener/allowance.ts'
import { writeRefusal, type RefusalHost } from '../listener/connection.ts'
import { detectDisconnect, takenBytes, Watch, type Watched } from '../listener/deadlines.ts'
import { type Admission, admit, type DoorRules, FrontDoorRefusal } from '../listener/front-door.ts'
import type { Stopping } from '../message/wire.ts'
import type { LaneWire } from './lane-wire.ts'
import { type PlainHead, readPlainHead } from './plain-head.ts'
import { IncomingBody, EmptyBody, type WireBody, type BodySource } from '../listener/request-body.ts'
import { Pieces } from '../message/pieces.ts'
import { EventEmitter } from 'node:events'

export interface LaneHost extends RefusalHost {
  readonly draining: Stopping
  readonly clock: Clock
  readonly keeping: Keeping
  readonly laneHead: number
  readonly rules: DoorRules
  monotonic(): number
  dateLine(): string
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
export class Lane implements Watched, UploadValve {
  readonly socket: Socket
  readonly peerAddress: string
  readonly trusted: boolean
  readonly watch: Watch
  current: LaneWire | null = null
  closing = false
  readonly tunnelling = false
  served = false
  readonly #host: LaneHost
  /** The body of the last request, until it has arrived and its response is over. */
  #upload: RequestUpload | null = null
  #held: Buffer | null = null
  #holding = false
  #left = false
  #last = false

  constructor(socket: Socket, peerAddress: string, trusted: boolean, host: LaneHost) {
    this.socket = socket
    this.peerAddress = peerAddress
    this.trusted = trusted
    this.#host = host
    this.watch = new Watch(host.monotonic())
  }

  get draining(): Stopping {
    return this.#host.draining
  }

  get clock(): Clock {
    return this.#host.clock
  }

  get keeping(): Keeping {
    return this.#host.keeping
  }

  get taken(): number {
    return takenBytes(this.socket)
  }

  get leftover(): boolean {
    return this.#upload !== null && !this.#upload.complete
  }

  dateLine(): string {
    return this.#host.dateLine()
  }

  open(): void {
    const { socket } = this
    socket.on('close', this.#onClose)
    socket.on('error', ignore)
    socket.on('end', this.#onEnd)
    socket.on('drain', this.#onDrain)
    socket.on('data', this.#onData)
  }

  leave(): void {
    const { socket } = this
    this.#left = true
    socket.off('close', this.#onClose)
    socket.off('error', ignore)
    socket.off('end', this.#onEnd)
    socket.off('drain', this.#onDrain)
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
    if (length === 0) body = new EmptyBody()
    else {
      const upload = new RequestUpload(length, this)
      this.#upload = upload
      if (end < bytes.length) end += upload.take(bytes.subarray(end))
      body = new IncomingBody(upload, null, length, false, this.#host.keeping)
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

  readonly #onDrain = (): void => {
    this.current?.drained()
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
    this.current?.closed(false)
    this.#upload?.destroy()
  }

  readonly written = (error?: Error | null): void => {
    const wire = this.current
    // The connection's close reports failures.
    if (wire === null || (error ?? null) !== null || this.socket.errored !== null) return
    if (this.closing || this.#last) this.finishSoon()
    wire.closed(true)
  }

  lastResponse(): void {
    this.closing = true
    this.#held = null
  }

  settled(): void {
    this.current = null
    this.served = true
    this.watch.idle(this.#host.monotonic(), this.socket.bytesRead)
    if (this.socket.destroyed || this.closing || this.leftover) return
    this.#upload = null
    this.#next(this.#held, true)
  }

  /** See `Connection.finishSoon`. */
  finishSoon(): void {
    this.lastResponse()
    if (this.leftover) this.socket.end()
    else this.socket.destroySoon()
  }

  refuse(status: number, message: string): void {
    if (this.closing) return
    this.lastResponse()
    writeRefusal(this.socket, this.peerAddress, this.#host, status, message, null)
  }

  failBody(status: number, message: string): void {
    this.closing = true
    this.current?.body.fail(new MalformedBody(status, message))
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
