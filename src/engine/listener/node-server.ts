import { createServer, IncomingMessage, type Server } from 'node:http'
import type { Socket } from 'node:net'
import { Pieces } from '../message/pieces.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Connection } from './connection.ts'
import type { Admission } from './front-door.ts'
import type { ResponseWire } from './response-wire.ts'
import { openTunnel } from './upgrade.ts'

/** A message whose pieces are joined while nothing reads them: Node limits their bytes, not their number. */
class WireRequest extends IncomingMessage {
  readonly #waiting = new Pieces()

  override push(piece: Buffer | null): boolean {
    const waiting = this.#waiting
    if (piece === null || (this.readableFlowing === true && this.readableLength === 0 && waiting.size === 0)) {
      this.#deliver()
      return super.push(piece)
    }
    waiting.add(piece)
    return this.readableLength + waiting.size < this.readableHighWaterMark
  }

  /** Size 0 asks for more from the socket and takes nothing. */
  override read(size?: number): unknown {
    if (size !== 0) this.#deliver()
    return super.read(size)
  }

  #deliver(): void {
    for (let piece = this.#waiting.shift(); piece !== null; piece = this.#waiting.shift()) super.push(piece)
  }
}

/** Upgrades to another HTTP version or to TLS, ignored as RFC 9110, section 7.8, allows. */
const IGNORED_UPGRADE = /(?:^|,)[ \t]*(?:h2c?|h3|tls\/|http\/)/i

/** node:http as a reader of sockets that others accept. `ignored` receives requests whose upgrade is ignored. */
export function nodeServer(
  maxHeaderSize: number,
  ignored: (req: IncomingMessage) => void
): { readonly server: Server; readonly read: (socket: Socket) => void } {
  // Node's timers cover the whole request and would end long uploads. The sweep replaces them.
  const server = createServer({
    IncomingMessage: WireRequest,
    requireHostHeader: false,
    insecureHTTPParser: false,
    maxHeaderSize,
    headersTimeout: 0,
    requestTimeout: 0,
    keepAliveTimeout: 0,
    noDelay: true,
    shouldUpgradeCallback: req => {
      if (req.httpVersion === '1.1' && !IGNORED_UPGRADE.test(req.headers.upgrade ?? '')) return true
      ignored(req)
      return false
    }
  })
  // Node would silently drop lines above its limit; the front door counts them instead.
  server.maxHeadersCount = 0
  // Node would end our side with the client's, which may wait for its response. Documented for net, not for http, so
  // it has no type.
  Object.assign(server, { httpAllowHalfOpen: true })
  // Its only listener so far is its own reader, which receives its connections from us.
  const [read] = server.listeners('connection')
  if (read === undefined) throw new TypeError('node:http has no reader of connections')
  server.removeAllListeners('connection')
  return {
    server,
    read: socket => {
      read.call(server, socket)
    }
  }
}

/** Lets the wire of an upgrade become a tunnel. Node has detached its parser from the socket. */
export function becomesTunnel(wire: ResponseWire, connection: Connection, admission: Admission, clock: Clock): void {
  const { socket } = connection
  // Reading without consuming is the only way to see the client leave.
  const onReadable = (): void => {
    if (socket.readableLength === 0) socket.read()
  }
  const onEnd = (): void => {
    socket.destroy()
  }
  socket.on('readable', onReadable)
  socket.on('end', onEnd)
  wire.tunnel = (target, accepted) =>
    openTunnel(
      {
        socket,
        method: admission.method,
        protocol: admission.headers.all('upgrade').join(', '),
        opening: () => {
          socket.off('readable', onReadable)
          socket.off('end', onEnd)
          connection.tunnelling = true
          wire.handOver()
        },
        closed: clean => {
          wire.closed(clean)
        }
      },
      target,
      accepted,
      clock
    )
}
