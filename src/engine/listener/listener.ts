import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Context, NO_ROUTE } from '../message/context.ts'
import type { Stopping, Wire } from '../message/wire.ts'
import type { Clock, Timer } from '../../platform/system/clock.ts'
import type { ListenAddress } from '../config/listen-address.ts'
import { Allowance, ClientCounts, type Keeping } from '../message/allowance.ts'
import { TrustedProxies, acceptedCorrelationId, offeredCorrelation } from './client-address.ts'
import { Connection } from './connection.ts'
import { enforce, sweepInterval } from './deadlines.ts'
import { Entrance, type ListenerOptions } from './entrance.ts'
import { type Admission, admit, type DoorRules, FrontDoorRefusal } from './front-door.ts'
import { Http2Connection, PREFACE, type Http2Host } from '../http2/connection.ts'
import { UnreadUploads } from '../http2/stream-source.ts'
import { Lane, type LaneHost } from '../lane/lane.ts'
import { becomesTunnel, nodeServer } from './node-server.ts'
import { parseFault, rawReply, type RefusalEvent, ToHttps } from './refusals.ts'
import { IncomingBody, type WireBody } from '../message/request-body.ts'
import { ResponseWire } from './response-wire.ts'
import { clientCertificateOf } from './tls.ts'

/** Most bytes of a head on the fast lane. A retained header value is a slice that keeps the whole head alive. */
const LANE_HEAD = 8 * 1024

/**
 * Accepts connections, refuses malformed requests, and hands each admitted one on with its `Context`. Connections begin
 * on the fast lane and move to node:http with the first request that is not plain.
 */
export class Listener implements LaneHost, Http2Host {
  draining: Stopping = false
  readonly clock: Clock
  readonly laneHead: number
  readonly rules: DoorRules
  readonly keeping: Keeping
  readonly unread: UnreadUploads
  readonly requests = new ClientCounts()
  readonly #options: ListenerOptions
  readonly #proxies: TrustedProxies
  readonly #upgrading: DoorRules
  readonly #entrance: Entrance
  readonly #toHttps: ToHttps | null
  readonly #server: Server
  readonly #readByNode: (socket: Socket) => void
  readonly #connections = new Map<Socket, Connection | Lane | Http2Connection>()
  /** The connection whose bytes, now being read by node:http, arrived while the request before them was unanswered. */
  #behind: Connection | null = null
  #second = Number.NaN
  #dateLine = ''
  #sweep: Timer | null = null
  #drained: Promise<void> | null = null

  /**
   * Opens nothing before `listen`.
   * @throws TypeError when an entry of `trustedProxies` is no address or range
   * @throws CodedError when a certificate cannot be used
   */
  constructor(options: ListenerOptions) {
    const { limits } = options
    this.#options = options
    this.clock = options.clock
    this.keeping = {
      each: limits.buffer,
      slow: new Allowance(limits.buffers),
      shared: new Allowance(limits.buffers)
    }
    this.unread = new UnreadUploads(limits.buffers)
    this.#proxies = new TrustedProxies(options.trustedProxies)
    // node:http counts fewer bytes for a head than it has, so this admits nothing above the limit.
    this.laneHead = options.fastLane === false ? 0 : Math.min(LANE_HEAD, limits.headerSize)
    const takesAnySegment = options.takesAnySegment ?? (() => false)
    this.rules = { headerCount: limits.headerCount, upgrading: false, takesAnySegment }
    this.#upgrading = { headerCount: limits.headerCount, upgrading: true, takesAnySegment: () => false }
    this.#toHttps = options.toHttps === undefined ? null : new ToHttps(options.toHttps)
    this.#entrance = new Entrance(options, this.#proxies, (socket, peerAddress, trusted) => {
      if ('alpnProtocol' in socket && socket.alpnProtocol === 'h2') this.#speakHttp2(socket, peerAddress, trusted)
      else {
        const lane = new Lane(socket, peerAddress, trusted, this)
        this.#connections.set(socket, lane)
        lane.open()
      }
      // `once` would wrap each listener, and the wrapper lives as long as the connection.
      socket.on('close', () => {
        this.#connections.delete(socket)
      })
    })
    const { server, read } = nodeServer(limits.headerSize, req => {
      // Node drops the bytes behind this request.
      const connection = this.#read(req.socket)
      if (connection !== null) connection.lastRequest = req
    })
    this.#server = server
    this.#readByNode = read
    const arrive = (req: IncomingMessage, res: ServerResponse): void => {
      this.#read(req.socket)?.arrive(req, res)
    }
    this.#server.on('request', arrive)
    this.#server.on('checkContinue', arrive)
    this.#server.on('checkExpectation', arrive)
    this.#server.on('upgrade', (req, socket, head) => {
      this.#upgrade(req, socket, head)
    })
    // Node has detached its parser from the socket, so the response is written by hand.
    this.#server.on('connect', (req, socket) => {
      socket.on('error', ignore)
      this.#read(socket as Socket /* a net server accepts nothing else */)?.refuse(
        400,
        'The method CONNECT is not served.',
        offeredCorrelation(req.rawHeaders)
      )
      // Reading is the only way to see the client leave.
      socket.resume()
    })
    this.#server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
      this.#malformed(error, socket as Socket /* as above */)
    })
  }

  /**
   * Port 0 takes any free one.
   * @throws CodedError; what else the system says
   */
  async listen(...addresses: readonly ListenAddress[]): Promise<void> {
    await this.#entrance.open(addresses)
    const { clock, limits } = this.#options
    this.#sweep = clock.every(sweepInterval(limits), () => {
      this.#enforce()
    })
  }

  /** With the ports taken; empty before `listen`. */
  get addresses(): readonly ListenAddress[] {
    return this.#entrance.addresses
  }

  get connections(): number {
    return this.#connections.size
  }

  /**
   * Stops accepting, closes idle connections, makes each response the last of its connection, and cuts the rest after
   * `timeoutMs`. Resolves when the last connection is closed. A second call joins the first.
   */
  drain(timeoutMs = this.#options.limits.drainTimeout): Promise<void> {
    this.#drained ??= this.#drain(timeoutMs)
    return this.#drained
  }

  now(): number {
    return this.#options.clock.now()
  }

  monotonic(): number {
    return this.#options.clock.monotonic()
  }

  correlationId(offered: string | null): string {
    return acceptedCorrelationId(offered, this.#options.freshId)
  }

  refused(event: RefusalEvent): void {
    this.#options.refused?.(event)
  }

  take(connection: Connection, req: IncomingMessage, { shouldKeepAlive }: ServerResponse): void {
    if (req === connection.lastRequest) connection.closing = true
    const admission = admit(req, this.rules)
    if (admission instanceof FrontDoorRefusal) {
      const { status, message } = admission
      const correlationId = this.correlationId(offeredCorrelation(req.rawHeaders))
      this.refused({ status, message, peerAddress: connection.peerAddress, correlationId })
      const reply = rawReply(status, message, correlationId)
      const body = new IncomingBody(req, null, null, this.keeping)
      const wire = (connection.current = new ResponseWire(connection, body, req.method ?? '', false, true))
      wire.head(status, reply.headers)
      wire.end(reply.body, null)
    } else this.#answer(connection, admission, req, !shouldKeepAlive)
  }

  serve(lane: Lane, admission: Admission, body: WireBody, last: boolean): void {
    const wire = new ResponseWire(lane, body, admission.method, false, last)
    lane.current = wire
    this.#handle(lane, admission, body, wire)
  }

  handOver(lane: Lane, bytes: Buffer, behind: boolean): void {
    const { socket } = lane
    const paused = socket.isPaused()
    lane.leave()
    // In the clear only a proxy begins with HTTP/2.
    if (this.#options.http2 === true && lane.trusted && !lane.served && bytes.indexOf(PREFACE) === 0) {
      socket.pause()
      socket.unshift(bytes)
      this.#speakHttp2(socket, lane.peerAddress, true)
      return
    }
    const connection = new Connection(lane, this)
    this.#connections.set(socket, connection)
    socket.destroySoon = () => {
      connection.finishSoon()
    }
    this.#readByNode(socket)
    // After Node's own listener, which starts reading: bytes held in the socket must be parsed before new ones.
    socket.on('resume', connection.resumed)
    socket.on('end', connection.ended)
    this.#behind = behind ? connection : null
    // Bytes unshifted to the socket would reach its new reader only in the next turn.
    socket.emit('data', bytes)
    this.#behind = null
    // The same for an end that came before.
    if (socket.readableEnded) socket.emit('end')
    if (paused && !connection.crowded) socket.resume()
  }

  dateLine(): string {
    const second = Math.floor(this.now() / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#dateLine = `\r\nDate: ${new Date(second * 1000).toUTCString()}`
    }
    return this.#dateLine
  }

  receive(connection: Http2Connection, admission: Admission, body: WireBody, wire: Wire): void {
    this.#handle(connection, admission, body, wire)
  }

  #speakHttp2(socket: Socket, peerAddress: string, trusted: boolean): void {
    this.#connections.set(socket, new Http2Connection(socket, peerAddress, trusted, this, this.#options.limits))
  }

  #read(socket: Socket): Connection | null {
    const connection = this.#connections.get(socket)
    return connection instanceof Connection ? connection : null
  }

  #answer(connection: Connection, admission: Admission, req: IncomingMessage, isLast: boolean): void {
    const { method, httpVersion, length, expectsContinue } = admission
    const invite = expectsContinue ? (): void => void connection.current?.probe() : null
    const body = new IncomingBody(req, invite, length, this.keeping)
    const wire = new ResponseWire(connection, body, method, httpVersion === '1.0', isLast)
    connection.current = wire
    if (admission.upgrade !== null) becomesTunnel(wire, connection, admission, this.#options.clock)
    this.#handle(connection, admission, body, wire)
  }

  #handle(
    connection: Pick<Lane, 'socket' | 'peerAddress' | 'trusted'>,
    admission: Admission,
    body: WireBody,
    wire: Wire
  ): void {
    const { clock, handle, tls } = this.#options
    const { method, target, headers, host, httpVersion, upgrade, expectsContinue } = admission
    const { peerAddress, socket } = connection
    let clientAddress = peerAddress
    // A TLSSocket has this member; a plain socket has none.
    let secure = (socket as { encrypted?: boolean }).encrypted === true
    if (connection.trusted) ({ address: clientAddress, secure } = this.#proxies.client(peerAddress, headers, secure))
    const ctx = new Context(
      {
        method,
        target,
        headers,
        host,
        body,
        peerAddress,
        clientAddress,
        secure,
        clientCertificate: tls?.clientCa === undefined || connection.trusted ? null : clientCertificateOf(socket),
        httpVersion,
        upgrade,
        expectsContinue: expectsContinue && admission.length !== 0,
        correlationId: this.correlationId(admission.correlation),
        now: clock.now(),
        startedAt: clock.monotonic()
      },
      NO_ROUTE
    )
    if (!secure && this.#toHttps?.takes(ctx, connection.trusted) === true) this.#toHttps.answer(ctx, wire)
    else handle(ctx, wire)
  }

  #upgrade(req: IncomingMessage, stream: unknown, head: Buffer): void {
    const socket = stream as Socket /* a net server accepts nothing else */
    socket.on('error', ignore)
    const connection = this.#read(socket)
    if (connection === null) return
    if (connection.current !== null || connection === this.#behind) {
      connection.refuse(
        400,
        'An upgrade cannot be asked for behind an unanswered request.',
        offeredCorrelation(req.rawHeaders)
      )
      socket.resume()
      return
    }
    connection.upgraded()
    if (connection.closing) {
      socket.destroySoon()
      return
    }
    const admission = admit(req, this.#upgrading)
    if (admission instanceof FrontDoorRefusal) {
      connection.refuse(admission.status, admission.message, offeredCorrelation(req.rawHeaders))
      socket.resume()
      return
    }
    if (head.byteLength > 0) socket.unshift(head)
    this.#answer(connection, admission, req, true)
  }

  #malformed(error: NodeJS.ErrnoException, socket: Socket): void {
    const connection = this.#read(socket)
    const code = error.code
    if (connection === null || code === undefined || !code.startsWith('HPE_')) {
      socket.destroy()
      return
    }
    // What follows a request with Connection: close is not a request (RFC 9112, section 9.6).
    if (code === 'HPE_CLOSED_CONNECTION') return
    if (code === 'HPE_INVALID_EOF_STATE' && connection.current?.body.unfinished === true) {
      // The client ended its side during its upload: it has left.
      socket.destroy()
      return
    }
    const { status, message } = parseFault(code)
    connection.malformed(status, message)
  }

  #enforce(): void {
    const now = this.monotonic()
    for (const connection of this.#connections.values())
      if (connection instanceof Http2Connection) connection.enforce(now)
      else enforce(connection, now, this.#options.limits)
  }

  async #drain(timeoutMs: number): Promise<void> {
    this.draining = true
    // Unread connections and the clock's timers do not keep the process alive until the drain ends.
    const hold = setInterval(() => {
      /* nothing to do */
    }, 60_000)
    const cut = this.#options.clock.after(timeoutMs, () => {
      this.draining = 'cut'
      for (const [socket, connection] of this.#connections)
        if (connection instanceof Http2Connection) connection.cut()
        else socket.destroy()
    })
    const closed = this.#entrance.close()
    for (const connection of this.#connections.values()) {
      if (connection instanceof Http2Connection) {
        connection.drain()
        continue
      }
      connection.current?.drain()
      if (
        connection.current === null &&
        !connection.closing &&
        connection.socket.bytesRead === connection.watch.bytesAtIdle
      )
        connection.socket.destroy()
    }
    await closed
    // A TLS socket closes some turns after its connection.
    await Promise.all([...this.#connections.keys()].map(socket => new Promise(resolve => socket.on('close', resolve))))
    clearInterval(hold)
    cut.cancel()
    this.#sweep?.cancel()
  }
}

export function createListener(options: ListenerOptions): Listener {
  return new Listener(options)
}

/** The socket's close follows its error and is handled. */
function ignore(): void {
  return undefined
}
