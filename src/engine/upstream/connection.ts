import type { OnReadOpts, Socket } from 'node:net'
import type { Readable } from 'node:stream'
import type { RequestHead, UpstreamCall } from './request-head.ts'
import type { ClientShare } from './client-share.ts'
import { ResponseFault } from './response-head.ts'
import { MAX_PIECE, ResponseParser, type ResponseReader } from './response-parser.ts'
import { UpstreamUpload } from './upload.ts'

export interface CallController {
  /** Flat list of the current head; empty after its callback. */
  readonly rawHeaders: readonly string[]
  readonly httpVersion: '1.0' | '1.1'
  readonly rawTrailers: readonly string[]
  /**
   * The connection was reused and no byte of the response has come: the upstream may have closed it before the request
   * arrived (RFC 9112 9.3.1).
   */
  readonly isStale: boolean
  pause(): void
  resume(): void
  /** Drops the request and its connection without further callbacks. */
  abort(): void
}

export interface CallHandler {
  /** The response is no longer needed; such a request is not sent. */
  readonly over: boolean
  /** An address, or the network that counts as one client. Empty for none. */
  readonly client: string
  /** Ticks for which its client has stalled the connection; 0 while it does not. */
  readonly stalledTicks: number
  /** The request must end, since its client stalls a connection that others wait for. */
  giveUp(): void
  onRequestStart(controller: CallController): void
  onBodySent(): void
  onRequestSent(): void
  /** A head: interim below 200, then that of the response. */
  onResponseStart(controller: CallController, status: number): void
  onResponseData(controller: CallController, piece: Uint8Array): void
  onResponseEnd(controller: CallController): void
  /** Final. `controller` is null when nothing was sent. */
  onResponseError(controller: CallController | null, error: Error): void
}

export interface QueuedCall {
  readonly call: UpstreamCall
  readonly head: RequestHead
  readonly handler: CallHandler
}

export interface ConnectionOwner {
  release(connection: UpstreamConnection): void
  lost(connection: UpstreamConnection): void
}

const RECORD = 16 * 1024
/**
 * One buffer for all plain connections: no other code runs between the kernel's read and the callback, and retained
 * bytes are copied. Not on Windows, which starts reads ahead of time, and not for TLS, whose reads may happen in a
 * write.
 */
const SHARED = process.platform === 'win32' ? null : Buffer.allocUnsafeSlow(MAX_PIECE)

const NONE: readonly string[] = []

export class UpstreamConnection implements CallController, ResponseReader {
  rawHeaders: readonly string[] = NONE
  rawTrailers: readonly string[] = NONE
  isStale = false
  /** Ticks of its pool. */
  idleSince = 0
  openedAt = 0
  /** The owner's share while it carries a request; set by its pool. */
  share: ClientShare | null = null
  /** Passed to the socket's constructor. */
  readonly onread: OnReadOpts
  readonly #owner: ConnectionOwner
  readonly #parser: ResponseParser
  readonly #buffer: Buffer
  #socket: Socket | null = null
  #handler: CallHandler | null = null
  #upload: UpstreamUpload | null = null
  #busy = false
  #last = false
  #isUsed = false
  /** The socket is paused: a piece came while the handler had paused. */
  #held = false
  #ended = false
  #dead = false
  #unreferenced = false

  constructor(owner: ConnectionOwner, secure: boolean) {
    this.#owner = owner
    this.#parser = new ResponseParser(this)
    this.#buffer = secure ? Buffer.allocUnsafeSlow(RECORD) : (SHARED ?? Buffer.allocUnsafeSlow(MAX_PIECE))
    this.onread = {
      buffer: this.#buffer,
      callback: size => {
        this.#take(size)
        return true
      }
    }
  }

  get httpVersion(): '1.0' | '1.1' {
    return this.#parser.httpVersion
  }

  get keepAlive(): number {
    return this.#parser.keepAlive
  }

  attach(socket: Socket): void {
    this.#socket = socket
    socket.on('error', (error: Error) => {
      if (!this.#ended) this.#fail(error)
    })
    socket.on('end', () => {
      this.#finish()
    })
    socket.on('close', () => {
      this.#closed()
    })
    socket.on('drain', () => {
      this.#upload?.drained()
    })
  }

  /** The connection must be idle. */
  start({ call, head, handler }: QueuedCall): void {
    const socket = this.#socket
    if (socket === null) throw new Error('a connection that is not open was given a request')
    if (this.#unreferenced) {
      this.#unreferenced = false
      socket.ref()
    }
    this.#handler = handler
    this.#busy = true
    this.#last = head.last
    this.isStale = this.#isUsed
    this.#isUsed = true
    this.#parser.begin(call.method === 'HEAD')
    handler.onRequestStart(this)
    const { body } = call
    if (body === null || (body instanceof Uint8Array && body.byteLength === 0)) socket.write(head.text, 'latin1')
    else if (body instanceof Uint8Array) {
      socket.cork()
      socket.write(head.text, 'latin1')
      socket.write(body)
      socket.uncork()
      handler.onBodySent()
    } else {
      this.#send(socket, head, body, handler)
      return
    }
    handler.onRequestSent()
  }

  #send(socket: Socket, head: RequestHead, body: Readable, handler: CallHandler): void {
    const upload = new UpstreamUpload(socket, body, head, {
      sent: () => {
        handler.onBodySent()
      },
      done: () => {
        this.#upload = null
        handler.onRequestSent()
      },
      failed: error => {
        this.#fail(error)
      }
    })
    this.#upload = upload
    upload.start()
  }

  pause(): void {
    if (this.#handler !== null) this.#parser.pause()
  }

  resume(): void {
    if (this.#handler === null) return
    try {
      this.#parser.resume()
    } catch (error) {
      this.#fail(asError(error))
      return
    }
    this.#read()
  }

  abort(): void {
    if (this.#handler === null) return
    this.#handler = null
    this.destroy()
  }

  get stalledTicks(): number {
    return this.#handler?.stalledTicks ?? 0
  }

  giveUp(): void {
    this.#handler?.giveUp()
  }

  unref(): void {
    if (this.#unreferenced) return
    this.#unreferenced = true
    this.#socket?.unref()
  }

  destroy(): void {
    if (this.#dead) return
    this.#dead = true
    const handler = this.#handler
    this.#handler = null
    this.#parser.stop()
    const upload = this.#upload
    this.#upload = null
    this.#socket?.destroy()
    this.#owner.lost(this)
    upload?.stop()
    handler?.onResponseError(this, new ResponseFault('UPSTREAM_CLOSED', 'the connection was closed here'))
  }

  responseHead(status: number, pairs: string[]): void {
    this.rawHeaders = pairs
    this.#handler?.onResponseStart(this, status)
    // The parser keeps the list up to its next head, and each slice keeps the whole text alive: too long for a stream.
    pairs.length = 0
    this.rawHeaders = NONE
  }

  responseBody(bytes: Buffer, from: number, to: number): void {
    const piece = Buffer.allocUnsafe(to - from)
    bytes.copy(piece, 0, from, to)
    this.#handler?.onResponseData(this, piece)
  }

  responseEnd(trailers: readonly string[]): void {
    this.rawTrailers = trailers
    this.#handler?.onResponseEnd(this)
    this.#handler = null
  }

  #take(size: number): void {
    // Unsolicited bytes.
    if (this.#handler === null) {
      this.destroy()
      return
    }
    this.isStale = false
    const parser = this.#parser
    if (parser.paused && !this.#held) {
      // Pauses the socket only when bytes arrive during a pause: most pauses are shorter.
      this.#held = true
      this.#socket?.pause()
    }
    try {
      parser.push(this.#buffer, 0, size)
    } catch (error) {
      this.#fail(asError(error))
      return
    }
    this.#read()
  }

  #read(): void {
    if (this.#dead) return
    if (this.#handler === null) {
      this.#settle()
      return
    }
    if (this.#held && !this.#parser.paused) this.#flow()
  }

  #flow(): void {
    this.#held = false
    this.#socket?.resume()
  }

  #settle(): void {
    // A handler that resumes inside a callback comes here twice; a connection given back twice would carry two
    // requests.
    if (!this.#busy) return
    this.#busy = false
    const parser = this.#parser
    this.rawTrailers = NONE
    // An upstream that answers early would read the rest of this request as the next one.
    const unsent = this.#upload !== null || (this.#socket?.writableLength ?? 0) > 0
    if (unsent || this.#last || this.#ended || !parser.reusable || parser.surplus) {
      this.destroy()
      return
    }
    if (this.#held) this.#flow()
    this.#owner.release(this)
  }

  #finish(): void {
    this.#ended = true
    if (this.#handler === null) {
      this.destroy()
      return
    }
    try {
      this.#parser.finish()
    } catch (error) {
      this.#fail(asError(error))
      return
    }
    this.#read()
  }

  #closed(): void {
    // What came before the end is still being delivered.
    if (this.#ended && this.#handler !== null) return
    this.#fail(new ResponseFault('UPSTREAM_CLOSED', 'the connection closed'))
  }

  #fail(error: Error): void {
    const handler = this.#handler
    this.#handler = null
    this.destroy()
    handler?.onResponseError(this, error)
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}
