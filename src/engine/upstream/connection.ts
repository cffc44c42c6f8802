import type { OnReadOpts, Socket } from 'node:net'
import type { Readable } from 'node:stream'
import type { RequestHead, UpstreamCall } from './request-head.ts'
import type { ClientShare } from './client-share.ts'
import { ResponseFault } from './response-fault.ts'
import { MAX_PIECE, ResponseParser, type ResponseReader } from './response-parser.ts'
import { UpstreamUpload } from './upload.ts'

/** What the one who sent a request holds of its connection, until the response is whole. */
export interface CallController {
  /** Flat list of the head that is being handed over; empty after that. */
  readonly rawHeaders: readonly string[]
  /** Of the head that is being handed over. */
  readonly httpVersion: '1.0' | '1.1'
  /** Flat list of the trailers, once the response is whole. */
  readonly rawTrailers: readonly string[]
  /**
   * An earlier request had used the connection, and no byte of a response to this one has come: the upstream may have
   * closed it before the request arrived (RFC 9112 9.3.1).
   */
  readonly isStale: boolean
  /** Hands nothing over until `resume`. */
  pause(): void
  resume(): void
  /** Gives the request up, its connection with it. The handler is told nothing more. */
  abort(): void
}

/** Takes what becomes of one request. */
export interface CallHandler {
  /** Nobody waits for the response any more; a request that is over is not sent. */
  readonly over: boolean
  /** Whose request it is: an address, or the network that counts as one client. Empty for nobody's in particular. */
  readonly client: string
  /**
   * Ticks for which its client has kept the connection from being used, by taking or sending next to nothing; 0 while
   * it does not.
   */
  readonly dawdling: number
  /** Others wait for a connection, and its client keeps this one: it must be given up. */
  giveUp(): void
  /** A connection was found; the request goes out now. */
  onRequestStart(controller: CallController): void
  /** A piece of the body has gone out. */
  onBodySent(): void
  /** The whole request has gone out. */
  onRequestSent(): void
  /** A head: interim below 200, then that of the response. */
  onResponseStart(controller: CallController, status: number): void
  onResponseData(controller: CallController, piece: Uint8Array): void
  onResponseEnd(controller: CallController): void
  /** It failed; `controller` is null when nothing was sent. Nothing follows. */
  onResponseError(controller: CallController | null, error: Error): void
}

/** One request that waits for a connection. */
export interface QueuedCall {
  readonly call: UpstreamCall
  readonly head: RequestHead
  readonly handler: CallHandler
}

/** Where a connection belongs to. */
export interface ConnectionOwner {
  /** The connection may carry another request. */
  release(connection: UpstreamConnection): void
  /** The connection is gone. */
  lost(connection: UpstreamConnection): void
}

/** The most that one TLS record carries. */
const RECORD = 16 * 1024
/**
 * One buffer for all plain connections: between the kernel's read and the callback nothing else runs, and what is kept
 * is copied. Not where reads are begun ahead of time (Windows), and not for TLS, whose reads may come out of a write.
 */
const SHARED = process.platform === 'win32' ? null : Buffer.allocUnsafeSlow(MAX_PIECE)

const NONE: readonly string[] = []

/** One HTTP/1.1 connection to an upstream. It carries one request at a time. */
export class UpstreamConnection implements CallController, ResponseReader {
  rawHeaders: readonly string[] = NONE
  rawTrailers: readonly string[] = NONE
  isStale = false
  /** The tick since which it is idle. */
  idleSince = 0
  /** Whose connection it is while it carries a request; its pool's. */
  share: ClientShare | null = null
  /** How its bytes are read; given to the socket when that is made. */
  readonly onread: OnReadOpts
  readonly #owner: ConnectionOwner
  readonly #parser: ResponseParser
  readonly #buffer: Buffer
  #socket: Socket | null = null
  #handler: CallHandler | null = null
  #upload: UpstreamUpload | null = null
  /** It carries a request and has not been given back. */
  #busy = false
  /** The request was one that no other may follow. */
  #last = false
  #isUsed = false
  /** The socket does not read: a piece came while the handler had paused. */
  #held = false
  /** The upstream has closed its side. */
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

  /** Milliseconds for which the upstream says that it keeps an idle connection, or -1. */
  get keepAlive(): number {
    return this.#parser.keepAlive
  }

  /** The connection is open. */
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

  /** Sends a request. The connection must be idle. */
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

  /** Ticks for which the client whose request it carries has kept it from being used. */
  get dawdling(): number {
    return this.#handler?.dawdling ?? 0
  }

  /** Is freed, for somebody who would use it. */
  giveUp(): void {
    this.#handler?.giveUp()
  }

  /** Does not hold the process while nobody waits for it. */
  unref(): void {
    if (this.#unreferenced) return
    this.#unreferenced = true
    this.#socket?.unref()
  }

  /** Closes it at once, with the request that runs on it. */
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
    // The parser keeps the list up to its next head, and each of its slices keeps the whole text: for a stream that is
    // long.
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
    // Bytes that nobody asked for.
    if (this.#handler === null) {
      this.destroy()
      return
    }
    this.isStale = false
    const parser = this.#parser
    if (parser.paused && !this.#held) {
      // Only what comes in spite of a pause holds the socket: most pauses are over before that.
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

  /** Some of the response was read: lets more come, or gives the connection back. */
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

  /** The response is whole. */
  #settle(): void {
    // A handler that resumes while it is handed something comes here twice; given back twice it would carry two
    // requests at once.
    if (!this.#busy) return
    this.#busy = false
    const parser = this.#parser
    this.rawTrailers = NONE
    // An upstream that answers before it has read the request would take what is still to come for the next one.
    const unsent = this.#upload !== null || (this.#socket?.writableLength ?? 0) > 0
    if (unsent || this.#last || this.#ended || !parser.reusable || parser.surplus) {
      this.destroy()
      return
    }
    if (this.#held) this.#flow()
    this.#owner.release(this)
  }

  /** The upstream has closed its side. */
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
    // What came before the end is still being handed over.
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
