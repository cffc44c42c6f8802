import { constants, type ServerHttp2Stream } from 'node:http2'
import { sizeKept } from '../listener/allowance.ts'
import type { BodySource } from '../listener/request-body.ts'

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
    const left = (this.#held.get(source) ?? size) - size
    if (!this.#held.delete(source)) return
    this.used -= size
    if (left > 0) this.#held.set(source, left)
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

  constructor(stream: ServerHttp2Stream, unread: UnreadUploads) {
    this.#stream = stream
    this.#unread = unread
    // Node reports nothing that arrives while it is not read. In pieces of one byte, a window of 64 KiB takes 6 MiB.
    const push = stream.push.bind(stream)
    stream.push = (piece: Buffer | null) => {
      if (piece === null || stream.closed) return push(piece)
      unread.arrived(this, sizeKept(piece.byteLength))
      return push(piece)
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
