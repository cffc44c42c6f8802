import { Readable } from 'node:stream'
import type { RequestBody } from '../message/body.ts'
import { Context } from '../message/context.ts'
import { PayloadTooLarge } from '../operations/errors.ts'
import { HeaderList } from '../message/headers.ts'
import { NO_ROUTE } from './route.ts'
import type { Wire, WireListener } from '../message/wire.ts'

/** What a page asks of the API. */
export interface LoopbackRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Raw path and query. */
  readonly target: string
  /** Sent as JSON; left out for none. */
  readonly body?: unknown
  /** Further headers, flat. */
  readonly headers?: readonly string[]
}

/** What the API said, whole. */
export interface LoopbackResponse {
  readonly status: number
  readonly headers: HeaderList
  readonly text: string
}

/** Most bytes of a response that a page takes. */
const MOST = 8 * 1024 * 1024

/**
 * Asks this gateway itself in the name of whoever asked for `page`: by the route, the chain and the plugins that the
 * same request from outside would meet, within the process and with the session of the page. Only limits, metrics and
 * the access log leave it out (`Context.internal`): they have the page's own request. A page that only reads
 * may not change anything, since a link can lead to it; one that changes something was asked for by another page of
 * this gateway, which the plugin `auth` has seen to (decision 322).
 * @throws TypeError for a change that a page asks for which only reads
 */
export function askWithin(
  handle: (ctx: Context, wire: Wire) => void,
  page: Context,
  { method, target, body, headers = [] }: LoopbackRequest
): Promise<LoopbackResponse> {
  if (method !== 'GET' && (page.method === 'GET' || page.method === 'HEAD'))
    throw new TypeError(`a page that is only read asks for ${method} ${target}`)
  const bytes = body === undefined ? null : Buffer.from(JSON.stringify(body))
  const cookie = page.headers.all('cookie').flatMap(value => ['Cookie', value])
  const ctx = new InternalContext(
    {
      method,
      target,
      headers: new HeaderList([
        'Host',
        page.host,
        'Accept',
        'application/json',
        'Sec-Fetch-Site',
        'same-origin',
        ...cookie,
        ...(bytes === null ? [] : ['Content-Type', 'application/json', 'Content-Length', String(bytes.byteLength)]),
        ...headers
      ]),
      host: page.host,
      body: new KnownBody(bytes),
      peerAddress: page.peerAddress,
      clientAddress: page.clientAddress,
      secure: page.secure,
      httpVersion: '1.1',
      upgrade: null,
      expectsContinue: false,
      correlationId: page.correlationId,
      now: page.now,
      startedAt: page.startedAt
    },
    NO_ROUTE
  )
  return new Promise((resolve, reject) => {
    handle(ctx, new CollectingWire(resolve, reject))
  })
}

/** The context of a page's own request; a connection's is never one. */
class InternalContext extends Context {
  override get internal(): boolean {
    return true
  }
}

/** A body that is all there. */
class KnownBody implements RequestBody {
  readonly length: number
  readonly collected: Uint8Array
  readonly received: number
  readonly pieces = 1
  readonly unfinished = false
  limit = Infinity
  ofStranger = false

  constructor(bytes: Uint8Array | null) {
    this.collected = bytes ?? new Uint8Array()
    this.length = this.received = this.collected.byteLength
  }

  async bytes(): Promise<Uint8Array> {
    if (this.length > this.limit) throw new PayloadTooLarge(this.limit)
    return this.collected
  }

  stream(): Readable {
    return Readable.from(this.length === 0 ? [] : [this.collected])
  }

  async each(take: (piece: Uint8Array) => void): Promise<void> {
    take(await this.bytes())
  }

  gather(): null {
    return null
  }
}

/** A client that takes all of a response, up to `MOST` bytes. */
class CollectingWire implements Wire {
  listener: WireListener | null = null
  readonly gone = false
  readonly stopping = false
  bytesOut = 0
  readonly #resolve: (response: LoopbackResponse) => void
  readonly #reject: (error: Error) => void
  readonly #pieces: Uint8Array[] = []
  #status = 0
  #headers: string[] = []
  #over = false

  constructor(resolve: (response: LoopbackResponse) => void, reject: (error: Error) => void) {
    this.#resolve = resolve
    this.#reject = reject
  }

  get begun(): boolean {
    return this.#status !== 0
  }

  stillReads(): null {
    return null
  }

  interim(): void {}

  head(status: number, headers: string[]): void {
    this.#status = status
    this.#headers = headers
  }

  write(bytes: Uint8Array): boolean {
    if (this.#over) return true
    this.bytesOut += bytes.byteLength
    if (this.bytesOut > MOST) {
      this.#end(new Error(`a response within the gateway is larger than ${MOST} bytes`))
      return true
    }
    // A piece may be used again once this returns.
    this.#pieces.push(bytes.slice())
    return true
  }

  end(last: string | Uint8Array | null): void {
    if (last !== null && last.length > 0) this.write(typeof last === 'string' ? Buffer.from(last) : last)
    this.#end(null)
  }

  destroy(): void {
    this.#end(new Error('a response within the gateway was broken off'))
  }

  tunnel(): Promise<never> {
    return Promise.reject(new Error('there are no upgrades within the gateway'))
  }

  /** The engine is told in a later turn, as by a connection. */
  #end(fault: Error | null): void {
    if (this.#over) return
    this.#over = true
    setImmediate(() => {
      this.listener?.closed(fault === null)
      if (fault !== null) this.#reject(fault)
      else
        this.#resolve({
          status: this.#status,
          headers: new HeaderList(this.#headers),
          text: Buffer.concat(this.#pieces).toString('utf8')
        })
    })
  }
}
