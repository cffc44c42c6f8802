import { constants, type ServerHttp2Stream } from 'node:http2'
import type { BodySource } from '../message/request-body.ts'
import { Pieces, sizeKept } from '../message/pieces.ts'

const { NGHTTP2_ENHANCE_YOUR_CALM } = constants
const { NGHTTP2_STREAM_STATE_HALF_CLOSED_REMOTE, NGHTTP2_STREAM_STATE_CLOSED } = constants

/**
 * Memory of uploads that have arrived and are not read, over all connections: a connection may have 100 of them. Above
 * `most`, the one that was not read for the longest time is reset.
 */
export class UnreadUploads {
  used = 0
  readonly #most: number
  /** Least recently read first. */
  readonly #held = new Map<StreamSource, number>()

  constructor(most: number) {
    this.#most = most
  }

  arrived(source: StreamSource, size: number): void {
    this.used += size
    this.#held.set(source, (this.#held.get(source) ?? 0) + size)
    if (this.used <= this.#most) return
    for (const longest of this.#held.keys()) {
      this.closed(longest)
      longest.cut()
      if (this.used <= this.#most) return
    }
  }

  read(source: StreamSource, size: number): void {
    const held = this.#held.get(source)
    if (held === undefined) return
    this.closed(source)
    if (held > size) {
      this.#held.set(source, held - size)
      this.used += held - size
    }
  }

  closed(source: StreamSource): void {
    this.used -= this.#held.get(source) ?? 0
    this.#held.delete(source)
  }
}

/** The request body of a stream. */
export class StreamSource implements BodySource {
  readonly #stream: ServerHttp2Stream
  readonly #unread: UnreadUploads
  #reader: ((piece: Buffer) => void) | null = null
  /** Size of the pieces that the reader has and cannot pass on. */
  #kept = 0
  /** Arrived while nothing is read. Node would keep each piece: a window of 64 KiB in pieces of one byte takes 6 MiB. */
  readonly #waiting = new Pieces()

  constructor(stream: ServerHttp2Stream, unread: UnreadUploads) {
    this.#stream = stream
    this.#unread = unread
    const waiting = this.#waiting
    const push = stream.push.bind(stream)
    const read = stream.read.bind(stream)
    const early = pieceWithHead(stream)
    if (early > 0) unread.arrived(this, sizeKept(early))
    const deliver = (): void => {
      for (let piece = waiting.shift(); piece !== null; piece = waiting.shift()) push(piece)
    }
    // Node reports nothing that arrives while it is not read.
    stream.push = (piece: Buffer | null) => {
      if (piece === null || stream.closed) {
        deliver()
        return push(piece)
      }
      const isRead = stream.readableFlowing === true && stream.readableLength === 0 && waiting.size === 0
      unread.arrived(this, isRead ? sizeKept(piece.byteLength) : waiting.add(piece))
      return isRead && push(piece)
    }
    // Size 0 asks the session for more and takes nothing.
    stream.read = (size?: number): unknown => {
      if (size !== 0) deliver()
      return read(size)
    }
    stream.on('close', () => {
      unread.closed(this)
    })
  }

  /** The client has sent all of it. Node also ends a stream that the client has reset, or whose connection broke. */
  get complete(): boolean {
    if (this.#stream.aborted) return false
    const { state } = this.#stream.state
    return (
      this.#stream.readableEnded ||
      state === NGHTTP2_STREAM_STATE_HALF_CLOSED_REMOTE ||
      state === NGHTTP2_STREAM_STATE_CLOSED
    )
  }

  get destroyed(): boolean {
    return this.#stream.destroyed
  }

  on(event: 'data' | 'end' | 'close', listener: (piece: Buffer) => void): void {
    if (event !== 'data') this.#stream.on(event, listener)
    else {
      this.#reader = listener
      this.#stream.on('data', this.#give)
    }
  }

  off(event: 'data' | 'end' | 'close', listener: (piece: Buffer) => void): void {
    this.#stream.off(event, event === 'data' ? this.#give : listener)
  }

  resume(): void {
    this.#taken()
    this.#stream.resume()
  }

  pause(): void {
    this.#stream.pause()
  }

  cut(): void {
    this.#stream.close(NGHTTP2_ENHANCE_YOUR_CALM)
  }

  readonly #give = (piece: Buffer): void => {
    this.#kept += sizeKept(piece.byteLength)
    this.#reader?.(piece)
    if (!this.#stream.isPaused()) this.#taken()
  }

  #taken(): void {
    if (this.#kept > 0) this.#unread.read(this, this.#kept)
    this.#kept = 0
  }
}

/**
 * Joins the pieces that came with the head, before anything here saw them; returns their size. By Node's own buffer,
 * since a `read` would change how the stream closes.
 */
function pieceWithHead(stream: ServerHttp2Stream): number {
  const { readableBuffer } = stream as unknown as { readonly readableBuffer: Buffer[] } // Not in its types.
  if (readableBuffer.length > 1) readableBuffer.splice(0, readableBuffer.length, Buffer.concat(readableBuffer))
  return stream.readableLength
}
