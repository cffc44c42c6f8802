import { Readable } from 'node:stream'
import { Allowance } from '../message/allowance.ts'
import { IncomingBody } from '../message/request-body.ts'
import type { Wire, WireListener } from '../message/wire.ts'

const unlimited = { each: 0, slow: new Allowance(Infinity), shared: new Allowance(Infinity) }

/** A body as a client would send it; `isChunked` without a length, as one that comes in pieces. */
export function fakeBody(
  body: string | Uint8Array | AsyncIterable<Uint8Array> | null,
  isChunked: boolean
): IncomingBody {
  const whole = typeof body === 'string' ? Buffer.from(body) : body
  const isWhole = whole === null || whole instanceof Uint8Array
  const readable = Readable.from(isWhole ? (whole === null ? [] : [whole]) : whole)
  const source = Object.defineProperty(readable, 'complete', { get: () => readable.readableEnded })
  const incoming = new IncomingBody(
    source as Readable & { readonly complete: boolean } /* defined above */,
    null,
    isWhole && !isChunked ? (whole?.byteLength ?? 0) : null,
    unlimited
  )
  readable.on('error', error => {
    incoming.fail(error)
  })
  return incoming
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
