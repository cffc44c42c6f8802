import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { Pieces } from '../message/pieces.ts'
import type { RequestHead } from './request-head.ts'

/** Bytes that may wait for the loop; a complete body would never yield otherwise. */
const HELD = 64 * 1024

/** Nothing follows `done` or `failed`. */
interface UploadEvents {
  sent(): void
  done(): void
  failed(error: Error): void
}

/**
 * Sends a streamed request body with the upstream's back-pressure. Each piece but the first waits for one poll of all
 * sockets. The kernel then has the response of an upstream that refuses early and closes; the next write would break
 * the connection before it is read (RFC 9112 9.5).
 */
export class UpstreamUpload {
  readonly #socket: Socket
  readonly #body: Readable
  readonly #head: RequestHead
  readonly #events: UploadEvents
  #sent = 0
  #over = false
  readonly #waiting = new Pieces()
  #look: NodeJS.Immediate | null = null
  #hasEnded = false
  #hasBegun = false

  constructor(socket: Socket, body: Readable, head: RequestHead, events: UploadEvents) {
    this.#socket = socket
    this.#body = body
    this.#head = head
    this.#events = events
  }

  start(): void {
    const socket = this.#socket
    const body = this.#body
    // The head leaves with the first piece if that is ready, and does not wait for a later one.
    socket.cork()
    socket.write(this.#head.text, 'latin1')
    if (body.readableEnded) this.#onEnd()
    else {
      // The sender of the request handles its errors.
      body.on('data', this.#onData)
      body.on('end', this.#onEnd)
      body.on('close', this.#onClose)
      if (body.closed) this.#onClose()
      else body.resume()
    }
    process.nextTick(uncork, socket)
  }

  drained(): void {
    if (!this.#over) this.#body.resume()
  }

  /** The response, or its failure, came first: stops sending. */
  stop(): void {
    if (this.#leave()) this.#body.destroy()
  }

  readonly #onData = (piece: Uint8Array | string): void => {
    const bytes = typeof piece === 'string' ? Buffer.from(piece) : piece
    const size = bytes.byteLength
    if (size === 0 || this.#over) return
    const { length } = this.#head
    this.#sent += size
    if (length >= 0 && this.#sent > length) {
      // Every further byte would start an unchecked request.
      this.#fail(new Error('the body is longer than its Content-Length'))
      return
    }
    if (this.#hasBegun) {
      this.#waiting.add(bytes)
      if (this.#waiting.size >= HELD) this.#body.pause()
      this.#look ??= setImmediate(this.#onLooked)
      return
    }
    this.#hasBegun = true
    if (!this.#write(bytes)) this.#body.pause()
    this.#events.sent()
  }

  #write(bytes: Uint8Array): boolean {
    const socket = this.#socket
    if (this.#head.length >= 0) return socket.write(bytes)
    socket.cork()
    socket.write(`${bytes.byteLength.toString(16)}\r\n`, 'latin1')
    socket.write(bytes)
    const free = socket.write('\r\n', 'latin1')
    socket.uncork()
    return free
  }

  readonly #onLooked = (): void => {
    this.#look = null
    const socket = this.#socket
    const wasFull = this.#waiting.size >= HELD
    socket.cork()
    let isFree = true
    for (let bytes = this.#waiting.shift(); bytes !== null; bytes = this.#waiting.shift()) isFree = this.#write(bytes)
    socket.uncork()
    if (!isFree) this.#body.pause()
    else if (wasFull) this.#body.resume()
    this.#events.sent()
    if (this.#hasEnded) this.#finish()
  }

  readonly #onEnd = (): void => {
    const { length } = this.#head
    if (length >= 0 && this.#sent < length) {
      this.#fail(new Error('the body is shorter than its Content-Length'))
      return
    }
    this.#hasEnded = true
    if (this.#look === null) this.#finish()
  }

  #finish(): void {
    if (!this.#leave()) return
    if (this.#head.length < 0) this.#socket.write('0\r\n\r\n', 'latin1')
    this.#events.done()
  }

  /** Not emitted to this listener after an end or an error. */
  readonly #onClose = (): void => {
    if (this.#hasEnded) return
    this.#fail(new Error('the body of the request broke off'))
  }

  #fail(error: Error): void {
    if (!this.#leave()) return
    this.#body.destroy()
    this.#events.failed(error)
  }

  #leave(): boolean {
    if (this.#over) return false
    this.#over = true
    if (this.#look !== null) clearImmediate(this.#look)
    this.#waiting.clear()
    this.#body.off('data', this.#onData)
    this.#body.off('end', this.#onEnd)
    this.#body.off('close', this.#onClose)
    return true
  }
}

function uncork(socket: Socket): void {
  socket.uncork()
}
