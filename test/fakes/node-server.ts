import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'

/** What goes wrong with one request; those with `after` have acted before it does. */
export type NodeFault = 'hang' | 'hang after' | 'lost before' | 'lost after' | 'html' | 'server error'

/** One request as it came. */
export interface NodeRequest {
  readonly method: string
  /** Path and query. */
  readonly path: string
  readonly url: URL
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** The client has left, or has its answer. */
  readonly over: AbortSignal
}

/** What a fake answers, an object as JSON and a string as text; or that it answers nothing for hours. */
export type NodeReply = { readonly status: number; readonly body: object | string } | 'nothing'

/** A server that fakes of nodes are made of: it keeps what came and lets requests go wrong. */
export interface NodeServer {
  /** `http://127.0.0.1:port`, or https. */
  readonly url: string
  readonly requests: NodeRequest[]
  /** Called when a request is left unanswered: a test moves its clock here. */
  onHang: () => void
  /** The next request whose `METHOD /path` fits goes wrong. */
  fail(fault: NodeFault, on?: RegExp): void
  close(): Promise<void>
}

/** Starts one on loopback, with TLS where a certificate is given; `handle` is what the kind does. */
export async function startNodeServer(
  handle: (request: NodeRequest) => NodeReply | Promise<NodeReply>,
  {
    port = 0,
    tls = null,
    labelOf,
    upgrade
  }: {
    readonly port?: number
    readonly tls?: { readonly cert: string; readonly key: string } | null
    /** Tells requests apart that all go to one path; it follows `METHOD /path`. */
    readonly labelOf?: (request: NodeRequest) => string
    /** Takes requests for a WebSocket; without it they are answered as others are. */
    readonly upgrade?: (request: IncomingMessage, socket: Socket, head: Buffer) => void
  } = {}
): Promise<NodeServer> {
  const faults: Array<{ readonly fault: NodeFault; readonly on: RegExp }> = []
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    serve(request, response).catch((error: unknown) => {
      response.destroy(error instanceof Error ? error : undefined)
    })
  }
  const server = tls === null ? createServer(listener) : createTlsServer(tls, listener)
  // Node would end idle connections after five seconds, in the middle of a test that makes a thousand invoices.
  server.keepAliveTimeout = 0
  // Node hands out a net.Socket, or a TLSSocket, which is one.
  if (upgrade !== undefined) server.on('upgrade', (request, socket, head) => upgrade(request, socket as Socket, head))

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece as Buffer /* no encoding is set */)
    const url = new URL(request.url ?? '/', made.url)
    const over = new AbortController()
    response.once('close', () => {
      over.abort()
    })
    const seen: NodeRequest = {
      method: request.method ?? '',
      path: request.url ?? '',
      url,
      headers: request.headers,
      text: Buffer.concat(pieces).toString('utf8'),
      over: over.signal
    }
    made.requests.push(seen)
    const name = `${seen.method} ${url.pathname}${labelOf === undefined ? '' : ` ${labelOf(seen)}`}`
    const at = faults.findIndex(({ on }) => on.test(name))
    const fault = at === -1 ? null : (faults.splice(at, 1)[0]?.fault ?? null)
    if (fault === 'hang') return made.onHang()
    if (fault === 'lost before') {
      response.destroy()
      return
    }
    if (fault === 'html' || fault === 'server error') {
      const isPage = fault === 'html'
      response
        .writeHead(isPage ? 502 : 503, { 'content-type': isPage ? 'text/html' : 'application/json' })
        .end(isPage ? '<!DOCTYPE html><html><body>Bad gateway</body></html>' : '{}')
      return
    }
    const reply = await handle(seen)
    if (fault === 'hang after' || reply === 'nothing') return made.onHang()
    const { status, body } = reply
    if (fault === 'lost after') {
      response.destroy()
      return
    }
    const isText = typeof body === 'string'
    response
      .writeHead(status, { 'content-type': isText ? 'text/plain; charset=UTF-8' : 'application/json' })
      .end(isText ? body : JSON.stringify(body))
  }

  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const made: NodeServer = {
    // A server that listens on TCP has an address object.
    url: `${tls === null ? 'http' : 'https'}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: [],
    onHang: () => {},
    fail: (fault, on = /./) => {
      faults.push({ fault, on })
    },
    close: async () => {
      server.closeAllConnections()
      server.close()
    }
  }
  return made
}
