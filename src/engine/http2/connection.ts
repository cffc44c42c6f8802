import { constants, performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { MalformedBody } from '../operations/errors.ts'
import type { ClientCounts, Keeping } from '../message/allowance.ts'
import { rawReply, type RefusalHost } from '../listener/refusals.ts'
import { offeredCorrelation } from '../listener/client-address.ts'
import { idleTime, stalled, upload, Watch, type ListenerLimits } from '../listener/deadlines.ts'
import { type Admission, admit, type DoorRules, FrontDoorRefusal } from '../listener/front-door.ts'
import { WholeBody, IncomingBody, type WireBody } from '../message/request-body.ts'
import type { Stopping, Wire } from '../message/wire.ts'
import { clientNetwork } from '../message/addresses.ts'
import { readStreamHead } from './stream-head.ts'
import { StreamSource, type UnreadUploads } from './stream-source.ts'
import { StreamWire } from './stream-wire.ts'

const { NGHTTP2_FLAG_END_STREAM, NGHTTP2_ENHANCE_YOUR_CALM, NGHTTP2_REFUSED_STREAM } = constants

/** Requests of one connection at a time. */
const STREAMS = 100
/** Unread bytes of one upload. */
const STREAM_WINDOW = 64 * 1024
/** Bytes on their way. Node gives this window back as bytes arrive, so it limits none that are unread. */
const CONNECTION_WINDOW = 1024 * 1024
/** Resets that a client may send together, and for each second (CVE-2023-44487). */
const RESETS = { streamResetBurst: 200, streamResetRate: 33 }

/** Begins every HTTP/2 connection (RFC 9113, section 3.4). */
export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')

export interface Http2Host extends RefusalHost {
  readonly draining: Stopping
  readonly keeping: Keeping
  readonly rules: DoorRules
  readonly unread: UnreadUploads
  /** Over all HTTP/2 connections of a client. */
  readonly requests: ClientCounts
  monotonic(): number
  /** Handles an admitted request. */
  receive(connection: Http2Connection, admission: Admission, body: WireBody, wire: Wire): void
}

/** A client connection that speaks HTTP/2, with its requests in flight. */
export class Http2Connection {
  readonly socket: Socket
  readonly peerAddress: string
  readonly trusted: boolean
  readonly #network: string
  readonly #host: Http2Host
  readonly #limits: ListenerLimits
  readonly #session: ServerHttp2Session
  readonly #streams = new Map<StreamWire, Watch>()
  #idleSince: number
  #hasServed = false

  /** `socket` is paused, its preface unread. */
  constructor(socket: Socket, peerAddress: string, trusted: boolean, host: Http2Host, limits: ListenerLimits) {
    this.socket = socket
    this.peerAddress = peerAddress
    this.trusted = trusted
    this.#network = clientNetwork(peerAddress)
    this.#host = host
    this.#limits = limits
    this.#idleSince = host.monotonic()
    // Each fault of the connection ends it; the close of the socket is what is waited for.
    socket.on('error', ignore)
    // The socket may be half open for HTTP/1.1. Over HTTP/2 a client that ends its side has left.
    socket.on('end', () => socket.destroy())
    const session = (this.#session = performServerHandshake(socket, {
      ...RESETS,
      // Above the front door's limit, which answers 431 instead of a reset.
      maxHeaderListPairs: 2 * limits.headerCount,
      maxSessionInvalidFrames: 100,
      settings: {
        enablePush: false,
        initialWindowSize: STREAM_WINDOW,
        maxConcurrentStreams: STREAMS,
        maxHeaderListSize: limits.headerSize
      }
    }))
    session.on('error', ignore)
    session.on('connect', () => {
      session.setLocalWindowSize(CONNECTION_WINDOW)
    })
    session.on('stream', (stream, _headers, flags, raw) => {
      this.#take(stream, raw, (flags & NGHTTP2_FLAG_END_STREAM) === 0)
    })
  }

  enforce(now: number): void {
    for (const [wire, watch] of this.#streams) {
      const watched = {
        socket: wire.stream,
        taken: wire.taken,
        tunnelling: false,
        current: wire,
        failBody(status: number, message: string) {
          wire.body.fail(new MalformedBody(status, message))
        }
      }
      if (stalled(watched, watch, now, this.#limits)) wire.stream.close(NGHTTP2_ENHANCE_YOUR_CALM)
      else upload(watched, watch, now, this.#limits)
    }
    if (this.#streams.size > 0) return
    if (now - this.#idleSince < idleTime(this, this.#hasServed, this.#limits)) return
    // After its GOAWAY, one more sweep for a client that does not close.
    if (this.#session.closed) this.#session.destroy()
    else this.#session.close()
  }

  /** Accepts no new requests; those in flight finish. */
  drain(): void {
    this.#session.close()
    for (const wire of this.#streams.keys()) wire.listener?.stopping()
  }

  cut(): void {
    this.#session.destroy()
  }

  #take(stream: ServerHttp2Stream, raw: readonly string[], hasBody: boolean): void {
    stream.on('error', ignore)
    // As many as over HTTP/1.1, where each takes a connection. A client may retry what is refused so.
    if (!this.#host.requests.take(this.#network, this.trusted ? Infinity : this.#limits.connectionsPerAddress)) {
      stream.close(NGHTTP2_REFUSED_STREAM)
      return
    }
    const head = readStreamHead(raw, hasBody)
    const admission = admit(head, this.#host.rules)
    const isRefused = admission instanceof FrontDoorRefusal
    const upload = hasBody ? new StreamSource(stream, this.#host.unread) : null
    const body =
      upload === null || isRefused || admission.length === 0 ? new WholeBody() : this.#body(stream, upload, admission)
    const wire = new StreamWire(stream, this.#host, upload, body, head.method, () => {
      this.#streams.delete(wire)
      this.#host.requests.give(this.#network)
      this.#hasServed = true
      this.#idleSince = this.#host.monotonic()
    })
    this.#streams.set(wire, new Watch(this.#host.monotonic()))
    if (isRefused) this.#refuse(wire, admission, offeredCorrelation(head.rawHeaders))
    else this.#host.receive(this, admission, body, wire)
  }

  #body(stream: ServerHttp2Stream, upload: StreamSource, { length, expectsContinue }: Admission): WireBody {
    const invite = (): void => {
      if (!stream.closed && !stream.headersSent) stream.additionalHeaders({ ':status': 100 })
    }
    return new IncomingBody(upload, expectsContinue ? invite : null, length, this.#host.keeping)
  }

  #refuse(wire: StreamWire, { status, message }: FrontDoorRefusal, offered: string | null): void {
    const correlationId = this.#host.correlationId(offered)
    this.#host.refused({ status, message, peerAddress: this.peerAddress, correlationId })
    const reply = rawReply(status, message, correlationId)
    wire.head(status, reply.headers)
    wire.end(reply.body, null)
  }
}

/** The session or stream closes with its error. */
function ignore(): void {
  return undefined
}
