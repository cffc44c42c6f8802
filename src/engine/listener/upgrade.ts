import { trimmed } from '../message/headers.ts'
import { type ClientRequest, IncomingMessage } from 'node:http'
import { type Socket, isIPv6 } from 'node:net'
import { Duplex } from 'node:stream'
import httpProxy from 'http-proxy-3'
import { UPSTREAM_FAILED, UPSTREAM_TIMEOUT } from '../operations/error-kinds.ts'
import { ClientGone, LongError } from '../operations/errors.ts'
import type { TunnelResponse, TunnelResult, TunnelTarget } from '../message/wire.ts'
import type { Clock, Timer } from '../../platform/system/clock.ts'
import { headerLine } from '../lane/reply-framing.ts'
import { refusedBody } from './refused-upgrade.ts'
import { cut } from './deadlines.ts'

interface TunnelClient {
  readonly socket: Socket
  readonly method: string
  readonly protocol: string
  /** The 101 follows: the HTTP response must detach from the socket. */
  opening(): void
  closed(clean: boolean): void
}

/** Milliseconds that a half-closed tunnel waits for the other side's end. */
const HALF_OPEN = 30_000
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings'
])

type Phase = 'waiting' | 'open' | 'shut'

/**
 * The client's socket as http-proxy-3 sees it. Holds everything back until the upstream switches protocols, so that
 * another response remains possible. `open` replaces the 101 that http-proxy-3 writes first.
 */
class ClientEnd extends Duplex {
  phase: Phase = 'waiting'
  bytesIn = 0
  bytesOut = 0
  readonly #socket: Socket
  readonly #open: () => Promise<void>

  constructor(socket: Socket, open: () => Promise<void>) {
    super()
    this.#socket = socket
    this.#open = open
  }

  join(): void {
    this.phase = 'open'
    const socket = this.#socket
    socket.on('data', (chunk: Buffer) => {
      this.bytesIn += chunk.byteLength
      if (!this.push(chunk)) socket.pause()
    })
    socket.on('end', () => {
      this.push(null)
    })
  }

  override _read(): void {
    if (this.phase === 'open') this.#socket.resume()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    if (this.phase === 'shut') {
      done()
      return
    }
    if (this.phase === 'waiting') {
      void this.#start(done)
      return
    }
    this.bytesOut += chunk.byteLength
    this.#socket.write(chunk, done)
  }

  async #start(done: (error?: Error | null) => void): Promise<void> {
    let failure: Error | null = null
    try {
      await this.#open()
    } catch (error) {
      failure = error instanceof Error ? error : new Error(String(error))
    }
    done(failure)
  }

  override _final(done: (error?: Error | null) => void): void {
    if (this.phase === 'open' && this.#socket.writable)
      this.#socket.end(() => {
        done()
      })
    else done()
  }

  // Called by http-proxy-3 besides a stream's own methods.
  setTimeout(): this {
    return this
  }
  setNoDelay(): this {
    return this
  }
  setKeepAlive(): this {
    return this
  }
  destroySoon(): void {
    if (this.writableFinished) this.destroy()
    else
      this.end(() => {
        this.destroy()
      })
  }
}

/**
 * Carries an upgrade request to its upstream through http-proxy-3, which joins the two sockets. Headers and path are
 * exactly the caller's, who also owns the 101's headers and other responses.
 *
 * Resolves when the tunnel has closed, or with the upstream's refusal, whose body follows.
 * @throws LongError 502 or 504 before the 101; ClientGone when the client left; the error of `accepted`
 */
export function openTunnel(
  client: TunnelClient,
  target: TunnelTarget,
  accepted: (response: TunnelResponse) => void | Promise<void>,
  clock: Clock
): Promise<TunnelResult> {
  return new Promise((resolve, reject) => {
    const { socket } = client
    if (socket.destroyed) {
      reject(new ClientGone())
      return
    }
    let settled = false
    let upstream: ClientRequest | null = null
    let far: Socket | null = null
    let switched: IncomingMessage | null = null
    let failure: Error | null = null
    const settle = (): boolean => {
      if (settled) return false
      settled = true
      timer.cancel()
      return true
    }
    const refuse = (error: Error): void => {
      if (!settle()) return
      near.phase = 'shut'
      socket.off('close', onClientClose)
      near.destroy()
      far?.destroy()
      upstream?.destroy()
      reject(error)
    }
    let halfOpen: Timer | null = null
    const onEnd = (): void => {
      halfOpen ??= clock.after(HALF_OPEN, () => {
        socket.destroy()
      })
    }
    const onClientClose = (): void => {
      halfOpen?.cancel()
      if (near.phase === 'open') {
        near.destroy()
        far?.destroySoon()
        if (settle()) resolve({ kind: 'closed', bytesIn: near.bytesIn, bytesOut: near.bytesOut })
        client.closed(failure === null && socket.errored === null)
      } else {
        refuse(new ClientGone())
      }
    }
    const open = async (): Promise<void> => {
      timer.cancel()
      if (switched === null) throw new TypeError('http-proxy-3 wrote before the upstream answered')
      const headers = endToEnd(switched.rawHeaders)
      // Without this header Node would see a response and no upgrade.
      const protocol = switched.headers.upgrade ?? client.protocol
      try {
        if (!isRequested(protocol, client.protocol))
          throw badGateway('The upstream switched to a protocol that was not asked for.')
        await accepted({ status: 101, headers })
        let head = 'HTTP/1.1 101 Switching Protocols\r\n'
        for (let at = 0; at < headers.length; at += 2) head += headerLine(headers[at] ?? '', headers[at + 1] ?? '')
        head += `${headerLine('Connection', 'Upgrade')}${headerLine('Upgrade', protocol)}\r\n`
        if (settled || socket.destroyed) throw new ClientGone()
        client.opening()
        near.join()
        socket.on('end', onEnd)
        socket.write(head, 'latin1')
      } catch (error) {
        const cause = error instanceof Error ? error : new Error(String(error))
        refuse(cause)
        throw cause
      }
    }

    const near = new ClientEnd(socket, open)
    const timer = clock.after(target.timeout, () => {
      refuse(new LongError(UPSTREAM_TIMEOUT, 'Gateway timeout', 'The upstream did not answer the upgrade in time.'))
    })
    socket.on('close', onClientClose)

    const proxy = httpProxy.createProxyServer({})
    // The callback below gets the same errors; without a listener they would be thrown here.
    proxy.on('error', () => undefined)
    proxy.on('proxyReqWs', request => {
      upstream = request
      request.path = target.path
      request.setHeader('Connection', 'Upgrade')
      request.setHeader('Upgrade', client.protocol)
      // These listeners run before http-proxy-3's own, which are added next.
      request.on('upgrade', (response: IncomingMessage, remote: Socket) => {
        switched = response
        far = remote
        remote.on('end', onEnd)
        remote.on('close', () => {
          if (near.phase === 'open') socket.destroySoon()
        })
      })
      request.on('response', (response: IncomingMessage) => {
        near.phase = 'shut'
        if (response.statusCode === 101) {
          refuse(badGateway('The upstream switched protocols without naming one.'))
          return
        }
        if (Number(response.headers['content-length'] ?? 0) > target.responseLimit) {
          refuse(badGateway("The upstream's answer to the upgrade is too large."))
          return
        }
        if (!settle()) return
        socket.off('close', onClientClose)
        resolve({
          kind: 'refused',
          response: { status: response.statusCode ?? 502, headers: endToEnd(response.rawHeaders) },
          // In this turn: http-proxy-3 resumes the response and discards it.
          body: refusedBody(response, target, clock)
        })
      })
    })

    const { address } = target
    // The address was checked; a second resolution could differ.
    const lookup = address === null ? {} : { lookup: pinned(address) }
    const servername = target.tls?.servername === undefined ? {} : { servername: target.tls.servername }
    proxy.ws(
      outgoing(socket, target),
      near as unknown as Socket /* has all that http-proxy-3 uses of a socket */,
      Buffer.alloc(0),
      {
        target: new URL(target.origin),
        ignorePath: true,
        secure: true,
        method: client.method,
        ssl: { ...lookup, ...servername },
        ...(target.tls?.ca === undefined ? {} : { ca: target.tls.ca })
      },
      (error: Error) => {
        failure = error
        if (near.phase === 'open') cut(socket)
        else if (near.phase === 'waiting')
          refuse(badGateway('The upstream could not be reached or broke off the upgrade.', error))
      }
    )
  })
}

function badGateway(message: string, cause?: unknown): LongError {
  return new LongError(UPSTREAM_FAILED, 'Bad gateway', message, {}, [], cause)
}

/** A server may switch to nothing else (RFC 9110 7.8). */
function isRequested(protocol: string, requested: string): boolean {
  const members = new Set(requested.split(',').map(member => trimmed(member).toLowerCase()))
  return protocol.split(',').every(each => members.has(trimmed(each).toLowerCase()))
}

type Found = (error: Error | null, address: string | { address: string; family: number }[], family?: number) => void

function pinned(address: string): (name: string, options: { all?: boolean }, found: Found) => void {
  const family = isIPv6(address) ? 6 : 4
  return (_name, options, found) => {
    if (options.all === true) found(null, [{ address, family }])
    else found(null, address, family)
  }
}

/**
 * The request as http-proxy-3 expects it, with only the caller's data. It accepts WebSocket only; the real protocol and
 * method are set later.
 */
function outgoing(socket: Socket, target: TunnelTarget): IncomingMessage {
  const message = new IncomingMessage(socket)
  const fields: Record<string, string | string[]> = Object.create(null)
  for (let at = 0; at < target.headers.length; at += 2) {
    const name = target.headers[at] ?? ''
    const value = target.headers[at + 1] ?? ''
    const lower = name.toLowerCase()
    // An Expect would send the head before the path is set.
    if (HOP_BY_HOP.has(lower) || lower === 'expect' || lower === 'content-length') continue
    const present = fields[lower]
    if (present === undefined) fields[lower] = value
    else if (Array.isArray(present)) present.push(value)
    else fields[lower] = [present, value]
  }
  fields['connection'] = 'Upgrade'
  fields['upgrade'] = 'websocket'
  message.headers = fields
  message.method = 'GET'
  message.url = '/'
  message.httpVersion = '1.1'
  message.httpVersionMajor = 1
  message.httpVersionMinor = 1
  return message
}

function endToEnd(rawHeaders: readonly string[]): string[] {
  const named = new Set<string>()
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() !== 'connection') continue
    for (const token of (rawHeaders[at + 1] ?? '').split(',')) named.add(trimmed(token).toLowerCase())
  }
  const kept: string[] = []
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    const lower = name.toLowerCase()
    if (!HOP_BY_HOP.has(lower) && !named.has(lower)) kept.push(name, rawHeaders[at + 1] ?? '')
  }
  return kept
}
