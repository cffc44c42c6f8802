import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { clientNetwork, normalAddress } from '../gateway/addresses.ts'
import { Context } from '../gateway/context.ts'
import { NO_ROUTE } from '../gateway/route.ts'
import type { Wire } from '../gateway/wire.ts'
import type { Clock, Timer } from '../platform/clock.ts'
import { TrustedProxies } from './client-address.ts'
import { Connection, type ConnectionHost, type RefusalEvent, refuseRequest } from './connection.ts'
import { correlationId, offeredCorrelation } from './correlation.ts'
import { enforce, type ListenerLimits, sweepInterval } from './deadlines.ts'
import { type Admission, admit, type DoorRules, Refusal } from './front-door.ts'
import { parseFault, rawReply } from './raw-reply.ts'
import { IncomingBody } from './request-body.ts'
import { ResponseWire, type TunnelOpener, WireResponse } from './response-wire.ts'
import { openTunnel } from './upgrade.ts'

/** What a listener is made of. */
export interface ListenerOptions {
  readonly limits: ListenerLimits
  /** Addresses and ranges whose X-Forwarded-* headers are believed. */
  readonly trustedProxies: readonly string[]
  readonly clock: Clock
  /** Makes a correlation id for a request that brought none (decision 14). */
  readonly freshId: () => string
  /** Takes each request that was let in. Must not throw. */
  readonly handle: (ctx: Context, wire: Wire) => void
  /** Whether a path may hide a dot segment (`DoorRules.takesAnySegment`); none may unless this says so. */
  readonly takesAnySegment?: (method: string, host: string, path: string) => boolean
  /** Told of each request that was refused before it had a context. */
  readonly refused?: (event: RefusalEvent) => void
  /** Told when the system cannot accept a connection, such as for want of file descriptors; the listener goes on. */
  readonly failed?: (error: Error) => void
}

/** Upgrades to another version of HTTP or to TLS may be ignored (RFC 9110, section 7.8): those requests are answered as plain ones. */
const IGNORED_UPGRADE = /^(?:h2c?|h3|tls\/|http\/)/i

/**
 * The listener over node:http. It accepts, refuses what is malformed, makes one `Context` for each request, and hands it
 * on; nothing behind it sees Node's own request and response.
 */
export class Listener implements ConnectionHost {
  draining = false
  readonly #options: ListenerOptions
  readonly #proxies: TrustedProxies
  readonly #plain: DoorRules
  readonly #upgrading: DoorRules
  readonly #server: Server<typeof IncomingMessage, typeof WireResponse>
  readonly #connections = new Map<Socket, Connection>()
  readonly #counts = new Map<string, number>()
  #sweep: Timer | null = null
  #drained: Promise<void> | null = null

  /** Throws `TypeError` when an entry of `trustedProxies` is no address or range. Opens nothing; `listen` does. */
  constructor (options: ListenerOptions) {
    const { limits } = options
    this.#options = options
    this.#proxies = new TrustedProxies(options.trustedProxies)
    const takesAnySegment = options.takesAnySegment ?? (() => false)
    this.#plain = { headerCount: limits.headerCount, upgrading: false, takesAnySegment }
    this.#upgrading = { headerCount: limits.headerCount, upgrading: true, takesAnySegment: () => false }
    // Node's own timers are off: they cover the whole request, so that long uploads would die. The sweep has ours.
    this.#server = createServer<typeof IncomingMessage, typeof WireResponse>({
      ServerResponse: WireResponse,
      requireHostHeader: false,
      insecureHTTPParser: false,
      maxHeaderSize: limits.headerSize,
      headersTimeout: 0,
      requestTimeout: 0,
      keepAliveTimeout: 0,
      noDelay: true,
      shouldUpgradeCallback: req => req.httpVersion === '1.1' && !IGNORED_UPGRADE.test(req.headers.upgrade ?? '')
    })
    // Node would leave out the lines above its limit without a word; the front door counts them instead.
    this.#server.maxHeadersCount = 0
    const arrive = (req: IncomingMessage, res: WireResponse): void => { this.#connections.get(req.socket)?.arrive(req, res) }
    this.#server.on('request', arrive)
    this.#server.on('checkContinue', arrive)
    this.#server.on('checkExpectation', arrive)
    // Without a listener a failed accept would end the process.
    this.#server.on('error', error => { options.failed?.(error) })
    this.#server.on('connection', socket => { this.#accept(socket) })
    this.#server.on('upgrade', (req, socket, head) => { this.#upgrade(req, socket, head) })
    // Node has taken its parser off the socket, so the answer is written by hand.
    this.#server.on('connect', (req, socket) => {
      socket.on('error', ignore)
      this.#connections.get(socket as Socket /* a net server accepts nothing else */)?.refuse(400, 'The method CONNECT is not served.', offeredCorrelation(req.rawHeaders))
      // Nobody wants what follows, but only who reads learns that the client has left.
      socket.resume()
    })
    this.#server.on('clientError', (error: NodeJS.ErrnoException, socket) => { this.#malformed(error, socket as Socket /* as above */) })
  }

  /** Opens the port; `port` 0 takes any free one. Rejects with the system's error when it cannot. */
  listen (host: string, port: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen({ host, port }, () => {
        this.#server.off('error', reject)
        const { clock, limits } = this.#options
        this.#sweep = clock.every(sweepInterval(limits), () => { this.#enforce() })
        resolve()
      })
    })
  }

  /** Where it listens, or null when it does not. */
  get address (): { readonly host: string, readonly port: number } | null {
    const address = this.#server.address()
    return isPort(address) ? { host: address.address, port: address.port } : null
  }

  /** Open client connections. */
  get connections (): number {
    return this.#connections.size
  }

  /**
   * Stops accepting, closes what is idle, tells what runs, lets it finish (each answer from now on is the last of its
   * connection), and cuts the rest after `timeoutMs`. Resolves when the last connection is gone. A second call joins the first.
   */
  drain (timeoutMs = this.#options.limits.drainTimeout): Promise<void> {
    this.#drained ??= this.#drain(timeoutMs)
    return this.#drained
  }

  now (): number {
    return this.#options.clock.now()
  }

  monotonic (): number {
    return this.#options.clock.monotonic()
  }

  correlationId (offered: string | null): string {
    return correlationId(offered, this.#options.freshId)
  }

  refused (event: RefusalEvent): void {
    this.#options.refused?.(event)
  }

  take (connection: Connection, req: IncomingMessage, res: WireResponse): void {
    const admission = admit(req, this.#plain)
    if (admission instanceof Refusal) {
      const { status, message } = admission
      const id = this.correlationId(offeredCorrelation(req.rawHeaders))
      this.refused({ status, message, peerAddress: connection.peerAddress, correlationId: id })
      refuseRequest(connection, req, res, rawReply(status, message, id))
      return
    }
    this.#serve(connection, admission, req, res, null)
  }

  #serve (connection: Connection, admission: Admission, req: IncomingMessage, res: WireResponse, opener: TunnelOpener | null): void {
    const { clock, handle } = this.#options
    const { method, target, headers, host, httpVersion, upgrade, expectsContinue, length } = admission
    const { peerAddress, socket } = connection
    let clientAddress = peerAddress
    // A TLSSocket says so; a plain socket has no such member.
    let secure = (socket as { encrypted?: boolean }).encrypted === true
    if (connection.trusted) ({ address: clientAddress, secure } = this.#proxies.client(peerAddress, headers, secure))
    const body = new IncomingBody(req, res, length, expectsContinue)
    const wire = new ResponseWire(res, connection, body, method, httpVersion, opener)
    connection.current = wire
    const ctx = new Context({
      method,
      target,
      headers,
      host,
      body,
      peerAddress,
      clientAddress,
      secure,
      httpVersion,
      upgrade,
      expectsContinue: expectsContinue && length !== 0,
      correlationId: this.correlationId(admission.correlation),
      now: clock.now(),
      startedAt: clock.monotonic()
    }, NO_ROUTE)
    handle(ctx, wire)
  }

  #accept (socket: Socket): void {
    const peerAddress = normalAddress(socket.remoteAddress ?? '')
    const trusted = this.#proxies.has(peerAddress)
    const key = clientNetwork(peerAddress)
    const count = (this.#counts.get(key) ?? 0) + 1
    // A trusted proxy carries everybody's requests. For the rest an answer would cost more than the flood it answers.
    if (count > this.#options.limits.connectionsPerAddress && !trusted) {
      socket.resetAndDestroy()
      return
    }
    this.#counts.set(key, count)
    const connection = new Connection(socket, peerAddress, key, trusted, this)
    this.#connections.set(socket, connection)
    socket.destroySoon = () => { connection.finishSoon() }
    socket.once('close', () => {
      this.#connections.delete(socket)
      const left = (this.#counts.get(key) ?? 1) - 1
      if (left === 0) this.#counts.delete(key)
      else this.#counts.set(key, left)
    })
  }

  #upgrade (req: IncomingMessage, stream: unknown, head: Buffer): void {
    const socket = stream as Socket /* a net server accepts nothing else */
    socket.on('error', ignore)
    const connection = this.#connections.get(socket)
    if (connection === undefined) return
    if (connection.current !== null) {
      // The parser has let go of the socket, with it of the answer that is still being written.
      const { current } = connection
      socket.on('drain', () => { current.drained() })
      connection.refuse(400, 'An upgrade cannot be asked for behind an unanswered request.', offeredCorrelation(req.rawHeaders))
      socket.resume()
      return
    }
    connection.upgraded()
    if (connection.closing) {
      socket.destroySoon()
      return
    }
    const admission = admit(req, this.#upgrading)
    if (admission instanceof Refusal) {
      connection.refuse(admission.status, admission.message, offeredCorrelation(req.rawHeaders))
      socket.resume()
      return
    }
    if (head.byteLength > 0) socket.unshift(head)
    const res = new WireResponse(req)
    res.shouldKeepAlive = false
    res.assignSocket(socket)
    const onDrain = (): void => { res.emit('drain') }
    socket.on('drain', onDrain)
    res.on('finish', () => { socket.destroySoon() })
    // Reading on, without taking anything, is the only way to learn that the client has left.
    const onReadable = (): void => {
      if (socket.readableLength === 0) socket.read()
    }
    const onEnd = (): void => { socket.destroy() }
    socket.on('readable', onReadable)
    socket.on('end', onEnd)
    const opener: TunnelOpener = (target, accepted, wire) => openTunnel({
      socket,
      method: admission.method,
      protocol: admission.headers.all('upgrade').join(', '),
      opening: () => {
        socket.off('drain', onDrain)
        socket.off('readable', onReadable)
        socket.off('end', onEnd)
        connection.tunnelling = true
        wire.handOver()
      },
      passed: (bytesIn, bytesOut) => {
        wire.body.tunnelled(bytesIn)
        wire.tunnelled(bytesOut)
      },
      closed: clean => { wire.closed(clean) }
    }, target, accepted, this.#options.clock)
    this.#serve(connection, admission, req, res, opener)
  }

  #malformed (error: NodeJS.ErrnoException, socket: Socket): void {
    const connection = this.#connections.get(socket)
    const code = error.code
    if (connection === undefined || code === undefined || !code.startsWith('HPE_')) {
      socket.destroy()
      return
    }
    // What follows a request with Connection: close is not a request (RFC 9112, section 9.6).
    if (code === 'HPE_CLOSED_CONNECTION') return
    if (code === 'HPE_INVALID_EOF_STATE' && connection.current?.body.unfinished === true) {
      // The client ended its side in the middle of its upload: it has left.
      socket.destroy()
      return
    }
    const { status, message } = parseFault(code)
    connection.malformed(status, message)
  }

  #enforce (): void {
    const now = this.monotonic()
    for (const connection of this.#connections.values()) enforce(connection, now, this.#options.limits)
  }

  #drain (timeoutMs: number): Promise<void> {
    this.draining = true
    return new Promise(resolve => {
      const cut = this.#options.clock.after(timeoutMs, () => {
        for (const socket of this.#connections.keys()) socket.destroy()
      })
      this.#server.close(() => {
        cut.cancel()
        this.#sweep?.cancel()
        resolve()
      })
      for (const connection of this.#connections.values()) {
        connection.current?.drain()
        if (connection.current === null && !connection.closing && connection.socket.bytesRead === connection.watch.bytesAtIdle) connection.socket.destroy()
      }
    })
  }
}

/** Makes a listener; it opens nothing before `listen`. */
export function createListener (options: ListenerOptions): Listener {
  return new Listener(options)
}

function isPort (address: AddressInfo | string | null): address is AddressInfo {
  return typeof address === 'object' && address !== null
}

/** An error of a socket is followed by its close, and that is what is acted upon. */
function ignore (): void {
  return undefined
}
