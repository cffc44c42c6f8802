import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { jsonOrUndefined } from '../../src/platform/system/json.ts'

/** What goes wrong with one request; those with `after` have acted before it does. */
export type NodeFault =
  | 'hang'
  | 'hang after'
  | 'lost before'
  | 'lost after'
  | 'html'
  | 'html as 200'
  | 'html as 200 after'
  | 'html as 403'
  | 'html as 404'
  | 'server error'
  | 'server error after'
  | 'rate limit'
  | 'empty'
  | 'empty after'
  | 'huge'
  | 'redirect'
  | 'cut after'

/** One request as it came. */
export interface NodeRequest {
  readonly method: string
  /** Path and query. */
  readonly path: string
  readonly url: URL
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** Null for what is no JSON. */
  readonly body: unknown
  /** The client has left, or has its answer. */
  readonly over: AbortSignal
}

/**
 * Response of a fake: an object as JSON, a string as text, silence for hours, or one that its handler writes.
 */
export type NodeReply =
  | { readonly status: number; readonly body: object | string; readonly headers?: Readonly<Record<string, string>> }
  | 'nothing'
  | ((response: ServerResponse) => void)

const HTML = '<!DOCTYPE html><html><head><title>Just a moment...</title></head><body>Bad gateway</body></html>'

/** What goes out instead of an answer. */
function spoil(response: ServerResponse, fault: NodeFault, server: string): void {
  const page = (status: number): void => {
    response.writeHead(status, { 'content-type': 'text/html' }).end(HTML)
  }
  if (fault.startsWith('lost')) response.destroy()
  else if (fault.startsWith('html as')) page(Number(fault.split(' ')[2]))
  else if (fault === 'html') page(502)
  else if (fault === 'empty') response.writeHead(503, { 'retry-after': '17' }).end()
  else if (fault === 'empty after') response.writeHead(201).end()
  else if (fault === 'huge') response.writeHead(200).end(`"${'x'.repeat(2 * 1024 * 1024)}"`)
  else if (fault === 'redirect') response.writeHead(302, { location: `${server}/elsewhere` }).end()
  else {
    const [status, headers] = fault === 'rate limit' ? [429, { 'retry-after': '7' }] : [503, {}]
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end('{}')
  }
}

/** Breaks off in the middle of the answer. */
function cut(response: ServerResponse, body: object | string): void {
  const text = JSON.stringify(body)
  response
    .writeHead(200, { 'content-type': 'application/json', 'content-length': text.length + 100 })
    .write(text.slice(0, -5), () => {
      response.destroy()
    })
}

/** A server that fakes of nodes are made of: it keeps what came and lets requests go wrong. */
export interface NodeServer<Fault extends string = NodeFault> {
  /** `http://127.0.0.1:port`, or https. */
  readonly url: string
  readonly requests: NodeRequest[]
  /** Called when a request is left unanswered: a test moves its clock here. */
  onHang: () => void
  /** The next request whose name fits, `METHOD /path` by default, goes wrong. */
  fail(fault: Fault, on?: RegExp): void
  close(): Promise<void>
}

/** Starts one on loopback, with TLS where a certificate is given; `handle` is what the kind does. */
export async function startNodeServer<Own extends string = never>(
  handle: (request: NodeRequest) => NodeReply | Promise<NodeReply>,
  {
    port = 0,
    tls = null,
    nameOf = ({ method, url }) => `${method} ${url.pathname}`,
    upgrade,
    faults: own
  }: {
    readonly port?: number
    readonly tls?: { readonly cert: string; readonly key: string } | null
    /** What tells requests apart for `fail`. */
    readonly nameOf?: (request: NodeRequest) => string
    /** Takes requests for a WebSocket; without it they are answered as others are. */
    readonly upgrade?: (request: IncomingMessage, socket: Socket, head: Buffer) => void
    /** Faults of this server: what it answers, without an act unless the name ends in `after`. */
    readonly faults?: Readonly<Record<Own, Exclude<NodeReply, 'nothing'>>>
  } = {}
): Promise<NodeServer<NodeFault | Own>> {
  const faults: Array<{ readonly fault: NodeFault | Own; readonly on: RegExp }> = []
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
    const text = Buffer.concat(pieces).toString('utf8')
    const seen: NodeRequest = {
      method: request.method ?? '',
      path: request.url ?? '',
      url,
      headers: request.headers,
      text,
      body: jsonOrUndefined(text) ?? null,
      over: over.signal
    }
    made.requests.push(seen)
    const name = nameOf(seen)
    const at = faults.findIndex(({ on }) => on.test(name))
    const fault = at === -1 ? null : (faults.splice(at, 1)[0]?.fault ?? null)
    if (fault !== null && !fault.endsWith('after')) return answer(response, fault)
    const reply = await handle(seen)
    if (fault === 'cut after' && typeof reply === 'object') return cut(response, reply.body)
    if (fault !== null || reply === 'nothing') answer(response, fault ?? 'hang')
    else send(response, reply)
  }

  function answer(response: ServerResponse, fault: NodeFault | Own): void {
    const reply = own !== undefined && isOwn(fault) ? own[fault] : undefined
    if (reply !== undefined) send(response, reply)
    else if (fault.startsWith('hang')) made.onHang()
    // Not one of this server's own.
    else spoil(response, fault as NodeFault, made.url)
  }

  function isOwn(fault: string): fault is Own {
    return own !== undefined && Object.hasOwn(own, fault)
  }

  function send(response: ServerResponse, reply: Exclude<NodeReply, 'nothing'>): void {
    if (typeof reply === 'function') return reply(response)
    const { status, body, headers } = reply
    const isText = typeof body === 'string'
    response
      .writeHead(status, { 'content-type': isText ? 'text/plain; charset=UTF-8' : 'application/json', ...headers })
      .end(isText ? body : JSON.stringify(body))
  }

  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const made: NodeServer<NodeFault | Own> = {
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
      await once(server, 'close')
    }
  }
  return made
}
