import { EventEmitter } from 'node:events'
import type { BodySource } from '../listener/request-body.ts'

/** Bytes that may wait for their reader before reading pauses. */
const HELD = 64 * 1024

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
  #waiting: Buffer[] = []
  #size = 0
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
    if (this.#flowing && !this.#scheduled && this.#waiting.length === 0) {
      this.emit('data', piece)
      this.#finish()
      return count
    }
    this.#waiting.push(piece)
    this.#size += count
    if (this.#size >= HELD && !this.complete && !this.#holding) {
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
      if (piece === undefined) break
      this.#size -= piece.length
      this.emit('data', piece)
    }
    if (this.#holding && this.#size < HELD) {
      this.#holding = false
      this.#valve.release()
    }
    this.#finish()
  }

  #finish(): void {
    if (!this.complete || this.#ended || !this.#flowing || this.#waiting.length > 0) return
    this.#ended = true
    this.emit('end')
  }
}

function flow(upload: RequestUpload): void {
  upload.flow()
}
