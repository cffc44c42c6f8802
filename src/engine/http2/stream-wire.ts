import { constants, type ServerHttp2Stream } from 'node:http2'
import { EMPTY, FRAMED, frameReply } from '../lane/reply-framing.ts'
import type { WireBody } from '../message/request-body.ts'
import type { Stopping, Wire, WireListener } from '../message/wire.ts'
import { streamHeaders } from './stream-head.ts'
import type { StreamSource } from './stream-source.ts'

const { NGHTTP2_INTERNAL_ERROR, NGHTTP2_NO_ERROR } = constants

/** The client's side of one request over HTTP/2. */
export class StreamWire implements Wire {
  listener: WireListener | null = null
  readonly tunnel = null
  readonly body: WireBody
  readonly stream: ServerHttp2Stream
  readonly #host: { readonly draining: Stopping }
  readonly #withoutBody: boolean
  #isSilent: boolean
  #hasHead = false
  #isOver = false
  #closed = false
  #trailers: readonly string[] = []
  #bytesOut = 0

  /** `upload` is null for a request that ended with its head. `ended` is called once, when the stream is closed. */
  constructor(
    stream: ServerHttp2Stream,
    host: { readonly draining: Stopping },
    upload: StreamSource | null,
    body: WireBody,
    method: string,
    ended: () => void
  ) {
    this.stream = stream
    this.#host = host
    this.body = body
    this.#withoutBody = this.#isSilent = method === 'HEAD'
    stream.on('drain', () => this.listener?.drained())
    stream.on('wantTrailers', () => {
      stream.sendTrailers(streamHeaders(this.#trailers))
    })
    // The rest of an upload is not wanted (RFC 9113, section 8.1).
    stream.on('finish', () => {
      if (upload?.complete === false) stream.close(NGHTTP2_NO_ERROR)
      else stream.resume()
    })
    stream.on('close', () => {
      this.#closed = true
      body.done()
      ended()
      this.listener?.closed(this.#isOver && stream.rstCode === NGHTTP2_NO_ERROR)
    })
  }

  get gone(): boolean {
    return this.#closed || this.stream.destroyed || this.stream.closed
  }

  get stopping(): Stopping {
    return this.#host.draining
  }

  get begun(): boolean {
    return this.#hasHead
  }

  get bytesOut(): number {
    return this.#bytesOut
  }

  get taken(): number {
    return this.#bytesOut - this.stream.writableLength
  }

  stillReads(): null {
    return null
  }

  probe(): boolean {
    return false
  }

  interim(status: number, headers: readonly string[]): void {
    if (this.#hasHead || this.gone || (status !== 102 && status !== 103)) return
    this.stream.additionalHeaders({ ...streamHeaders(headers), ':status': status })
  }

  head(status: number, headers: string[]): void {
    if (this.#hasHead || this.gone) return
    const isSilent = this.#withoutBody || status === 204 || status === 304
    const seen = frameReply(headers, status, isSilent, false)
    this.#isSilent = isSilent || (seen & EMPTY) !== 0
    const fields = streamHeaders(headers)
    fields[':status'] = status
    const waitForTrailers = !this.#isSilent && (seen & FRAMED) === 0
    this.stream.respond(fields, { endStream: this.#isSilent, waitForTrailers })
    this.#hasHead = true
  }

  write(bytes: Uint8Array): boolean {
    if (!this.#hasHead || this.#isOver || this.gone || this.#isSilent || bytes.byteLength === 0) return true
    this.#bytesOut += bytes.byteLength
    return this.stream.write(bytes)
  }

  end(last: string | Uint8Array | null, trailers: readonly string[] | null): void {
    if (this.#isOver || this.gone) return
    if (!this.#hasHead) throw new TypeError('a response cannot end before its head')
    this.#isOver = true
    if (this.#isSilent) return
    this.#trailers = trailers ?? []
    const bytes = typeof last === 'string' ? Buffer.from(last) : last
    this.#bytesOut += bytes?.byteLength ?? 0
    this.stream.end(bytes ?? undefined)
  }

  destroy(): void {
    if (!this.#isOver && !this.gone) this.stream.close(NGHTTP2_INTERNAL_ERROR)
    this.#isOver = true
  }
}
