import { ClientGone } from '../../engine/operations/errors.ts'
import type { Responder, TunnelPolicy, UpstreamRequest } from '../../engine/pipeline/plugin.ts'
import type { HeaderList } from '../../engine/message/headers.ts'
import type { TunnelTarget } from '../../engine/message/wire.ts'
import type { CallsUnderWay } from './calls.ts'
import { encodeEvent } from '../../engine/formats/event-stream.ts'
import { EventLines, withData, type StreamPiece } from './event-lines.ts'

interface RpcResponseOptions {
  readonly calls: CallsUnderWay
  /** Responses to calls of a batch that were not forwarded. */
  readonly own: readonly string[]
  /** Called with the head of what was sold, to keep it out of shared caches. */
  paidHead(headers: HeaderList): void
}

/** Bytes of a message that is read for its receipt. A longer one passes without, and counts as sold. */
const MESSAGE_LIMIT = 4 * 1024 * 1024
/** Header fields that a changed body invalidates. */
const BODY_FIELDS = ['content-length', 'content-digest', 'repr-digest', 'digest', 'content-md5', 'etag']
const NO_BODY = new Set([202, 204])
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** `passing`: byte for byte. `whole`: buffered, then changed. `events`: each event is changed as it completes. */
type Mode = 'passing' | 'whole' | 'events'

/**
 * Passes the upstream's response on with receipts. Buffers a JSON body until it is whole, or an event until its end.
 */
export class RpcResponder implements Responder {
  onDrain: (() => void) | null = null
  readonly #real: Responder
  readonly #options: RpcResponseOptions
  readonly #events: EventLines
  #mode: Mode = 'passing'
  #status = 200
  #headers: HeaderList | null = null
  #kept: Uint8Array[] = []
  #size = 0
  /** Pending payment and all output behind it; null if idle. */
  #busy: Promise<void> | null = null
  /** Back-pressure from the client. */
  #isFull = false

  constructor(real: Responder, options: RpcResponseOptions) {
    this.#real = real
    this.#options = options
    this.#events = new EventLines(MESSAGE_LIMIT)
    real.onDrain = () => {
      this.#isFull = false
      if (this.#busy === null) this.onDrain?.()
    }
  }

  get gone(): boolean {
    return this.#real.gone
  }

  get onClose(): (() => void) | null {
    return this.#real.onClose
  }

  set onClose(closed: (() => void) | null) {
    this.#real.onClose = closed
  }

  /** The rest of the response may be fetched elsewhere. */
  get isResumable(): boolean {
    return this.#events.isResumable
  }

  forwarding(out: UpstreamRequest): void {
    this.#real.forwarding(out)
    // We must read what we change.
    out.headers.set('Accept-Encoding', 'identity')
  }

  interim(status: number, headers: readonly string[]): void {
    this.#real.interim(status, headers)
  }

  head(status: number, headers: HeaderList): void | Promise<void> {
    const { calls, own } = this.#options
    const [type = ''] = (headers.get('content-type') ?? '').toLowerCase().split(';')
    const coding = headers.get('content-encoding')?.toLowerCase() ?? 'identity'
    const isReadable = status === 200 && coding === 'identity'
    this.#status = status
    if ((isReadable && type.trim() === 'application/json') || (own.length > 0 && isEmpty(status, headers))) {
      this.#mode = 'whole'
      this.#headers = headers
      return
    }
    if (isReadable && type.trim() === 'text/event-stream') {
      this.#mode = 'events'
      for (const name of BODY_FIELDS) headers.delete(name)
      this.#options.paidHead(headers)
      const pending = this.#real.head(status, headers)
      const begin = (): void => {
        for (const text of own) this.#real.write(Buffer.from(encodeEvent({ data: text })))
      }
      return pending === undefined ? begin() : pending.then(begin)
    }
    if (calls.isIdle) return this.#real.head(status, headers)
    if (status < 300) this.#options.paidHead(headers)
    return (status < 300 ? calls.sellAll() : calls.returnAll()).then(() => this.#real.head(status, headers))
  }

  write(bytes: Uint8Array): boolean {
    if (this.#mode === 'whole' && this.#busy === null) {
      this.#kept.push(bytes)
      this.#size += bytes.byteLength
      if (this.#size > MESSAGE_LIMIT) this.#inTurn(() => this.#tooLong())
    } else if (this.#mode === 'passing' && this.#busy === null) this.#write(bytes)
    else this.#inTurn(() => (this.#mode === 'events' ? this.#pass(this.#events.feed(bytes), 0) : this.#write(bytes)))
    return this.#busy === null && !this.#isFull
  }

  end(trailers: readonly string[] | null): void {
    this.#inTurn(() => {
      if (this.#mode === 'passing') this.#real.end(trailers)
      else return this.#finish(trailers)
    })
  }

  fail(reason: Error): void {
    // The end of the request decides the payments of a client that left.
    if (this.#options.calls.isIdle || reason instanceof ClientGone) this.#real.fail(reason)
    else this.#inTurn(() => this.#broken(reason))
  }

  tunnel(target: TunnelTarget, policy: TunnelPolicy): Promise<void> {
    return this.#real.tunnel(target, policy)
  }

  #write(bytes: Uint8Array): void {
    if (!this.#real.write(bytes)) this.#isFull = true
  }

  /** Runs a step in order. An exception aborts the response. */
  #inTurn(step: () => void | Promise<void>): void {
    if (this.#busy !== null) {
      this.#wait(this.#busy.then(step))
      return
    }
    try {
      const pending = step()
      if (pending !== undefined) this.#wait(pending)
    } catch (error) {
      this.#real.fail(error instanceof Error ? error : new Error(String(error)))
    }
  }

  #wait(pending: Promise<void>): void {
    const busy = this.#settled(pending, () => this.#busy === busy)
    this.#busy = busy
  }

  /** Never rejects. `isLast`: nothing waits behind it. */
  async #settled(pending: Promise<void>, isLast: () => boolean): Promise<void> {
    try {
      await pending
    } catch (error) {
      this.#real.fail(error instanceof Error ? error : new Error(String(error)))
    }
    if (!isLast()) return
    this.#busy = null
    if (!this.#isFull) this.onDrain?.()
  }

  async #finish(trailers: readonly string[] | null): Promise<void> {
    if (this.#mode === 'whole') await this.#whole()
    else await this.#lastEvents()
    this.#real.end(trailers)
  }

  async #broken(reason: Error): Promise<void> {
    await this.#options.calls.finish(this.isResumable)
    this.#real.fail(reason)
  }

  /** Passes events in order from `at`; a promise once one waits for a payment. */
  #pass(pieces: readonly StreamPiece[], at: number): void | Promise<void> {
    const { calls } = this.#options
    for (let index = at; index < pieces.length; index++) {
      // The index is within the list.
      const piece = pieces[index] as StreamPiece
      const { raw, data, isLong } = piece
      const passed = isLong ? calls.sellAll().then(() => null) : data === null ? null : calls.pass(data)
      if (passed instanceof Promise)
        return passed.then(text => {
          this.#event(raw, data, text)
          return this.#pass(pieces, index + 1)
        })
      this.#event(raw, data, passed)
    }
  }

  #event(raw: Uint8Array, data: string | null, passed: string | null): void {
    this.#write(passed === null || passed === data ? raw : withData(raw, passed))
  }

  async #lastEvents(): Promise<void> {
    await this.#pass(this.#events.end(), 0)
    await this.#options.calls.finish(this.isResumable)
  }

  /** A JSON body too long to read: forwards what was kept, then the rest. */
  async #tooLong(): Promise<void> {
    const headers = this.#headers
    await this.#options.calls.sellAll()
    this.#mode = 'passing'
    if (headers === null) return
    this.#options.paidHead(headers)
    await this.#real.head(this.#status, headers)
    for (const piece of this.#kept) this.#write(piece)
    this.#kept = []
  }

  async #whole(): Promise<void> {
    const { calls, own } = this.#options
    const headers = this.#headers
    const body = Buffer.concat(this.#kept)
    this.#kept = []
    if (headers === null) return
    let text = decoded(body)
    const passed = text === null || text.trim() === '' ? text : await calls.pass(text)
    // Unreadable data may be the result.
    if (passed === null) await calls.sellAll()
    else await calls.finish(false)
    text = passed
    const out = text === null ? body : Buffer.from(own.length === 0 ? text : merged(text, own))
    if (!out.equals(body)) {
      for (const name of BODY_FIELDS) headers.delete(name)
      if (own.length > 0) {
        this.#status = 200
        headers.set('Content-Type', 'application/json')
      }
      headers.set('Content-Length', String(out.byteLength))
    }
    if (calls.hasSold) this.#options.paidHead(headers)
    await this.#real.head(this.#status, headers)
    if (out.byteLength > 0) this.#real.write(out)
  }
}

function isEmpty(status: number, headers: HeaderList): boolean {
  return NO_BODY.has(status) || (status === 200 && headers.get('content-length') === '0')
}

function decoded(body: Uint8Array): string | null {
  try {
    return utf8.decode(body)
  } catch (error) {
    if (error instanceof TypeError) return null
    throw error
  }
}

function merged(text: string, own: readonly string[]): string {
  const theirs = text.trim()
  if (theirs === '') return `[${own.join(',')}]`
  const inner = theirs.startsWith('[') ? theirs.slice(1, -1) : theirs
  return `[${[...(inner.trim() === '' ? [] : [inner]), ...own].join(',')}]`
}
