import { Readable } from 'node:stream'
import type { RequestBody } from '../message/context.ts'
import { PayloadTooLarge } from '../operations/errors.ts'
import type { Wire, WireListener } from '../message/wire.ts'

export class FakeBody implements RequestBody {
  isAnonymous = false
  readonly length: number | null
  collected: Uint8Array | null = null
  received = 0
  pieces = 0
  readonly unfinished = false
  limit = Infinity
  readonly #pieces: AsyncIterable<Uint8Array>
  #bytes: Promise<Uint8Array> | null = null

  constructor(body: string | Uint8Array | AsyncIterable<Uint8Array> | null, chunked: boolean) {
    const whole = typeof body === 'string' ? Buffer.from(body) : body
    if (whole === null || whole instanceof Uint8Array) {
      this.length = chunked ? null : (whole?.byteLength ?? 0)
      this.#pieces = Readable.from(whole === null ? [] : [whole])
    } else {
      this.length = null
      this.#pieces = whole
    }
  }

  bytes(): Promise<Uint8Array> {
    this.#bytes ??= this.#collect()
    return this.#bytes
  }

  stream(): Readable {
    return Readable.from(this.#limited())
  }

  async each(take: (piece: Uint8Array) => void): Promise<void> {
    for await (const piece of this.#limited()) take(piece)
  }

  gather(): null {
    return null
  }

  async #collect(): Promise<Uint8Array> {
    const pieces: Uint8Array[] = []
    for await (const piece of this.#limited()) pieces.push(piece)
    this.collected = Buffer.concat(pieces)
    return this.collected
  }

  async *#limited(): AsyncGenerator<Uint8Array> {
    if (this.length !== null && this.length > this.limit) throw new PayloadTooLarge(this.limit)
    if (this.collected !== null) {
      yield this.collected
      return
    }
    for await (const piece of this.#pieces) {
      this.received += piece.byteLength
      this.pieces++
      if (this.received > this.limit) throw new PayloadTooLarge(this.limit)
      yield piece
    }
  }
}

/** The client's side over an array. Ends in a later turn, like a real connection. */
export class FakeWire implements Wire {
  listener: WireListener | null = null
  readonly tunnel = null
  gone = false
  readonly stopping = false
  bytesOut = 0
  status = 0
  headers: string[] = []
  destroyed = false
  readonly pieces: Uint8Array[] = []
  #over = false

  get begun(): boolean {
    return this.status !== 0
  }

  stillReads(): null {
    return null
  }

  interim(): void {}

  head(status: number, headers: string[]): void {
    if (this.#over) return
    if (this.status !== 0) throw new Error('a second head was written')
    this.status = status
    this.headers = headers
  }

  write(bytes: Uint8Array): boolean {
    if (this.#over) return true
    if (this.status === 0) throw new Error('a body was written before its head')
    this.pieces.push(bytes.slice())
    this.bytesOut += bytes.byteLength
    return true
  }

  end(last: string | Uint8Array | null): void {
    if (this.#over) return
    if (last !== null && last.length > 0) this.write(typeof last === 'string' ? Buffer.from(last) : last)
    this.#over = true
    setImmediate(() => {
      this.listener?.closed(!this.gone)
    })
  }

  destroy(): void {
    if (this.#over) return
    this.#over = true
    this.destroyed = true
    setImmediate(() => {
      this.listener?.closed(false)
    })
  }

  leave(): void {
    this.gone = true
    this.#over = true
    this.listener?.closed(false)
  }
}
