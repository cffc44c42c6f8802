import { Readable } from 'node:stream'
import type { RequestBody } from './context.ts'
import { ClientGone, PayloadTooLarge, Unavailable } from '../operations/errors.ts'
import { keepFor, type Keeping } from './allowance.ts'
import { Pieces } from './pieces.ts'

const EMPTY = new Uint8Array(0)

function ignore(): void {
  return undefined
}

type Consumer = (chunk: Buffer) => void

/** Source of a body's bytes: Node's message, or an upload on the fast lane. Starts paused. */
export interface BodySource {
  readonly complete: boolean
  readonly destroyed: boolean
  on(event: 'data', listener: Consumer): unknown
  on(event: 'end' | 'close', listener: () => void): unknown
  off(event: 'data', listener: Consumer): unknown
  off(event: 'end' | 'close', listener: () => void): unknown
  resume(): unknown
  pause(): unknown
}

export interface WireBody extends RequestBody {
  /** A reader waits for the client's next piece; only then do the read deadlines run. */
  readonly waiting: boolean
  /** No 100 and no response was sent to a client that expects one. */
  readonly unasked: boolean
  fail(error: Error): void
  /** The response is given: reads up to `most` bytes of the remaining upload. */
  discard(most: number): void
  done(): void
}

/** The body as the upstream reads it, with back-pressure; errors when it cannot be complete. */
class BodyStream extends Readable {
  readonly #body: IncomingBody

  constructor(body: IncomingBody) {
    // Takes one piece that its reader does not want: in pieces of one byte, Node's 64 KiB take 6 MiB of memory.
    super({ highWaterMark: 1 })
    this.#body = body
  }

  override _read(): void {
    this.#body.flow()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#body.leave()
    done(error)
  }
}

/** The body of one request over its source. Reads nothing, and sends no 100, before a reader asks. */
export class IncomingBody implements WireBody {
  readonly length: number | null
  collected: Uint8Array | null = null
  received = 0
  pieces = 0
  limit = Number.POSITIVE_INFINITY
  isAnonymous = false
  waiting = false
  readonly #req: BodySource
  #invite: (() => void) | null
  #promise: Promise<Uint8Array> | null = null
  #stream: Readable | null = null
  #reject: ((error: Error) => void) | null = null
  #fault: Error | null = null
  #consumer: Consumer | null = null
  #onEnd: (() => void) | null = null
  readonly #keeping: Keeping
  #gathered: Buffer[] | null = null
  /** Counted against the budgets of slow clients and of unauthenticated senders. */
  #slow = 0
  #sharedBytes = 0

  /** `invite`: the client waits for the 100 that it sends, unless a response has begun. */
  constructor(req: BodySource, invite: (() => void) | null, length: number | null, keeping: Keeping) {
    this.#req = req
    this.#invite = invite
    this.#keeping = keeping
    this.length = length
  }

  get unfinished(): boolean {
    return this.length !== 0 && !this.#req.complete
  }

  get unasked(): boolean {
    return this.#invite !== null
  }

  bytes(): Promise<Uint8Array> {
    this.#promise ??= this.#collect()
    return this.#promise
  }

  stream(): Readable {
    if (this.collected !== null || this.length === 0) return streamOf(this.collected ?? EMPTY)
    if (this.#promise !== null || this.#stream !== null) throw new TypeError('the request body is already being read')
    const stream = new BodyStream(this)
    // The client may leave before the reader listens; an unhandled error would end the process.
    stream.on('error', ignore)
    this.#stream = stream
    this.#reject = error => {
      stream.destroy(error)
    }
    const gathered = this.#gathered
    this.#gathered = null
    if (gathered !== null) for (const chunk of gathered) stream.push(chunk)
    const early = this.#early()
    if (early === null)
      this.#begin(
        chunk => {
          if (!stream.push(chunk)) this.#hold()
        },
        () => {
          stream.push(null)
        }
      )
    else stream.destroy(early)
    return stream
  }

  each(take: (piece: Uint8Array) => void): Promise<void> {
    if (this.collected !== null || this.#promise !== null) return this.bytes().then(take)
    const early = this.length === 0 ? null : this.#unread()
    if (early !== null) return Promise.reject(early)
    if (this.length === 0) return Promise.resolve()
    const reading = new Promise<void>((resolve, reject) => {
      this.#reject = reject
      this.#begin(take, resolve)
    })
    this.#promise = reading.then(() => {
      throw new TypeError('the request body was read and not kept')
    })
    this.#promise.catch(ignore)
    return reading
  }

  gather(): Promise<void> | null {
    const { length } = this
    if (
      length === null ||
      length === 0 ||
      this.#req.complete ||
      this.#promise !== null ||
      this.#keeping.each === 0 ||
      this.#unread() !== null
    )
      return null
    const gathered: Buffer[] = []
    this.#gathered = gathered
    return new Promise((resolve, reject) => {
      this.#reject = reject
      this.#begin(
        chunk => {
          gathered.push(chunk)
          const size = keepFor(this.#keeping, this.#slow, chunk.byteLength)
          this.#slow += size
          if (size > 0) return
          this.leave()
          resolve()
        },
        () => {
          this.#gathered = null
          this.collected = Buffer.concat(gathered)
          this.#promise = Promise.resolve(this.collected)
          resolve()
        }
      )
    })
  }

  done(): void {
    this.#keeping.slow.give(this.#slow)
    this.#keeping.shared.give(this.#sharedBytes)
    this.#slow = this.#sharedBytes = 0
  }

  /** Later readers get the error too. */
  fail(error: Error): void {
    if (this.#fault !== null || (this.#promise !== null && this.collected !== null)) return
    this.#fault = error
    const reject = this.#reject
    this.leave()
    reject?.(error)
  }

  flow(): void {
    if (this.#consumer === null) return
    this.waiting = true
    this.#req.resume()
  }

  /** The reader is gone; what still arrives stays unread until the response is over. */
  leave(): void {
    if (this.#consumer === null) return
    this.waiting = false
    this.#req.off('data', this.#consumer)
    if (this.#onEnd !== null) this.#req.off('end', this.#onEnd)
    this.#req.off('close', this.#gone)
    this.#consumer = null
    this.#onEnd = null
    this.#reject = null
    this.#req.pause()
  }

  /** Reads up to `most` bytes, so that the client gets to reading the response. */
  discard(most: number): void {
    if (!this.unfinished || this.#req.destroyed) return
    if (this.#consumer !== null) this.fail(new ClientGone())
    let left = most
    this.#req.on('data', (chunk: Buffer) => {
      this.received += chunk.byteLength
      left -= chunk.byteLength
      if (left < 0) this.#req.pause()
    })
    this.#req.resume()
  }

  #collect(): Promise<Uint8Array> {
    if (this.length === 0) {
      this.collected = EMPTY
      return Promise.resolve(EMPTY)
    }
    const early = this.#unread()
    if (early !== null) return Promise.reject(early)
    return new Promise((resolve, reject) => {
      const chunks = new Pieces()
      this.#reject = reject
      this.#begin(
        chunk => {
          const size = chunks.add(chunk)
          if (this.isAnonymous) this.#countShared(size)
        },
        () => {
          this.collected = chunks.joined()
          resolve(this.collected)
        }
      )
    })
  }

  #countShared(size: number): void {
    if (this.#keeping.shared.take(size)) this.#sharedBytes += size
    else this.fail(new Unavailable('Service unavailable', 'Too many request bodies are being read at the moment.', 5))
  }

  /** Why it cannot be read any more, or at all. */
  #unread(): Error | null {
    return this.#stream !== null || this.#gathered !== null
      ? new TypeError('the request body is already being read')
      : this.#early()
  }

  /** Faults known before the first byte, so that no 100 invites the body. */
  #early(): Error | null {
    if (this.#fault !== null) return this.#fault
    if (this.length !== null && this.length > this.limit) return new PayloadTooLarge(this.limit)
    if (this.#req.destroyed && !this.#req.complete) return new ClientGone()
    return null
  }

  #begin(take: Consumer, ended: () => void): void {
    const req = this.#req
    this.#consumer = chunk => {
      this.received += chunk.byteLength
      this.pieces++
      if (this.received > this.limit) this.fail(new PayloadTooLarge(this.limit))
      else take(chunk)
    }
    this.#onEnd = () => {
      if (!req.complete) {
        this.#gone()
        return
      }
      this.leave()
      ended()
    }
    req.on('data', this.#consumer)
    req.on('end', this.#onEnd)
    req.on('close', this.#gone)
    req.resume()
    this.waiting = true
    this.#invite?.()
    this.#invite = null
  }

  #hold(): void {
    this.waiting = false
    this.#req.pause()
  }

  readonly #gone = (): void => {
    this.fail(new ClientGone())
  }
}

/** A body that is there: none, or that of a request of our own. */
export class WholeBody implements WireBody {
  readonly collected: Uint8Array
  readonly length: number
  readonly received: number
  readonly pieces = 1
  readonly waiting = false
  readonly unfinished = false
  readonly unasked = false
  limit = Number.POSITIVE_INFINITY
  isAnonymous = false

  constructor(bytes: Uint8Array = EMPTY) {
    this.collected = bytes
    this.length = this.received = bytes.byteLength
  }

  async bytes(): Promise<Uint8Array> {
    if (this.length > this.limit) throw new PayloadTooLarge(this.limit)
    return this.collected
  }

  stream(): Readable {
    return streamOf(this.collected)
  }

  async each(take: (piece: Uint8Array) => void): Promise<void> {
    take(await this.bytes())
  }

  gather(): null {
    return null
  }

  fail(): void {}
  discard(): void {}
  done(): void {}
}

function streamOf(bytes: Uint8Array): Readable {
  return Readable.from(bytes.byteLength === 0 ? [] : [bytes], { objectMode: false })
}
