import { connect as connectSocket, isIP, type OnReadOpts, type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { buildConnector } from 'undici'
import { normalAddress } from '../message/addresses.ts'
import { AddressRefused, type AddressGuard } from './guard.ts'
import { overInterim } from '../../platform/system/interim-responses.ts'

/** TLS towards an upstream; certificates and key as PEM text. */
export interface UpstreamTls {
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
  /** The name to ask for and to check, where it is not the host of the address. */
  readonly servername?: string
}

/** How connections to one upstream are opened. */
export interface ConnectOptions {
  readonly tls: UpstreamTls | null
  /** Milliseconds to open one connection, TLS included. */
  readonly timeout: number
}

/** Opens a connection for undici. */
export type Connector = buildConnector.connector

/** Attempts on further addresses of one name; more would only stretch the wait. */
const MAX_ATTEMPTS = 3

/**
 * The SNI and certificate name. undici would take it from the Host header of the first request, so that a client's Host
 * chose the name that is checked; here the upstream's own address decides.
 */
function servername(options: buildConnector.Options, tls: UpstreamTls | null): string | undefined {
  return tls?.servername ?? (isIP(options.hostname) === 0 ? options.hostname : undefined)
}

function base(options: ConnectOptions, more: { onread?: OnReadOpts; session?: Buffer } = {}): Connector {
  const { ca, cert, key } = options.tls ?? {}
  return buildConnector({
    allowH2: false,
    timeout: options.timeout,
    ...more,
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key })
  })
}

/** The request for a connection to `hostname`, under the upstream's own name. */
function aimed(options: buildConnector.Options, hostname: string, tls: UpstreamTls | null): buildConnector.Options {
  const name = options.protocol === 'https:' ? servername(options, tls) : undefined
  return {
    hostname,
    protocol: options.protocol,
    port: options.port,
    // Without a name the connector falls back on `host`; an address there gives no SNI, as it must.
    host: options.hostname,
    ...(name === undefined ? {} : { servername: name })
  }
}

/** Connections to an operator's own upstream: any address, resolved by the system. */
export function plainConnector(options: ConnectOptions): Connector {
  const connect = overInterim(base(options))
  return (wanted, callback) => {
    connect(aimed(wanted, wanted.hostname, options.tls), callback)
  }
}

/**
 * Connections to an address that a user gave. The name is resolved here, all its addresses are checked, and the
 * connection goes to a checked one, so that no second resolution can lead elsewhere; literals, for which undici skips
 * its lookup hook, are checked too (decision 92). Fails with `AddressRefused` or `NameUnresolved`.
 */
export function guardedConnector(guard: AddressGuard, options: ConnectOptions): Connector {
  const connect = overInterim(base(options))
  return (wanted, callback) => {
    void open(guard, connect, wanted, options.tls, callback)
  }
}

/** No connection was made in time, or every address was tried in vain and one of them for too long. */
class ConnectTimeout extends Error {
  readonly code = 'ETIMEDOUT'

  constructor(cause?: Error) {
    super('no connection was made in time', { cause })
    this.name = 'ConnectTimeout'
  }
}

/** Milliseconds of silence after which the system asks whether the other side is still there. */
const PROBE_AFTER = 60_000

/**
 * Connections without TLS. undici's connector would do too, but one must be made for each connection, whose bytes are
 * read by a callback of its own, and its cache of TLS sessions, its timer and its closures stay as long as the socket
 * does: about 1 KB of every stream.
 */
function plain(onread: OnReadOpts, timeout: number): Connector {
  return (wanted, callback) => {
    const socket = connectSocket({
      host: wanted.hostname,
      port: wanted.port === '' ? 80 : Number(wanted.port),
      onread,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: PROBE_AFTER
    })
    const leave = (): void => {
      clearTimeout(timer)
      socket.off('connect', connected)
      socket.off('error', failed)
    }
    const connected = (): void => {
      leave()
      callback(null, socket)
    }
    const failed = (error: Error): void => {
      leave()
      const tookLong =
        error instanceof AggregateError &&
        error.errors.some(one => one instanceof Error && 'code' in one && one.code === 'ETIMEDOUT')
      callback(tookLong ? new ConnectTimeout(error) : error, null)
    }
    // Not the socket's own, which it would keep after it is cleared.
    const timer = setTimeout(() => {
      socket.destroy(new ConnectTimeout())
    }, timeout)
    socket.on('connect', connected)
    socket.on('error', failed)
  }
}

/** Told how the opening of a connection went: the socket, or why there is none. */
export type Opened = (result: Socket | Error) => void

/**
 * Opens the connections of one upstream, whose bytes are read without a stream between. With a `guard` every address is
 * checked, as by `guardedConnector`; without one it is the operator's own.
 */
export class Dialer {
  readonly #wanted: buildConnector.Options
  readonly #guard: AddressGuard | null
  readonly #options: ConnectOptions
  /** The last TLS session, which saves the next connection half its handshake. */
  #session: Buffer | null = null

  /** `origin`: scheme, host and port. */
  constructor(origin: URL, guard: AddressGuard | null, options: ConnectOptions) {
    const { hostname, host, protocol, port } = origin
    this.#wanted = { hostname: hostname.startsWith('[') ? hostname.slice(1, -1) : hostname, host, protocol, port }
    this.#guard = guard
    this.#options = options
  }

  get secure(): boolean {
    return this.#wanted.protocol === 'https:'
  }

  dial(onread: OnReadOpts, opened: Opened): void {
    const { tls, timeout } = this.#options
    const connect = this.secure
      ? base(this.#options, { onread, ...(this.#session === null ? {} : { session: this.#session }) })
      : plain(onread, timeout)
    const callback: buildConnector.Callback = (...result) => {
      const [error, socket] = result
      if (error !== null) {
        opened(error)
        return
      }
      if (socket instanceof TLSSocket) this.#remember(socket)
      opened(socket)
    }
    if (this.#guard === null) begin(connect, aimed(this.#wanted, this.#wanted.hostname, tls), callback)
    else void open(this.#guard, connect, this.#wanted, tls, callback)
  }

  #remember(socket: TLSSocket): void {
    // TLS 1.3 gives its tickets after the handshake.
    if (socket.getProtocol() === 'TLSv1.3')
      socket.on('session', (session: Buffer) => {
        this.#session = session
      })
    else this.#session = socket.getSession() ?? null
  }
}

/**
 * Begins to connect. A certificate or key that cannot be used is thrown by Node at once; it is a fault like any other.
 */
function begin(connect: Connector, wanted: buildConnector.Options, callback: buildConnector.Callback): void {
  try {
    connect(wanted, callback)
  } catch (error) {
    callback(error instanceof Error ? error : new Error(String(error)), null)
  }
}

async function open(
  guard: AddressGuard,
  connect: Connector,
  wanted: buildConnector.Options,
  tls: UpstreamTls | null,
  callback: buildConnector.Callback
): Promise<void> {
  let addresses: readonly string[]
  try {
    addresses = await guard.connectable(
      `${wanted.protocol}//${isIP(wanted.hostname) === 6 ? `[${wanted.hostname}]` : wanted.hostname}:${wanted.port}`
    )
  } catch (error) {
    callback(error instanceof Error ? error : new Error(String(error)), null)
    return
  }
  attempt(connect, wanted, tls, addresses, 0, callback)
}

/** Tries one address after the other. */
function attempt(
  connect: Connector,
  wanted: buildConnector.Options,
  tls: UpstreamTls | null,
  addresses: readonly string[],
  index: number,
  callback: buildConnector.Callback
): void {
  const address = addresses[index] ?? ''
  begin(connect, aimed(wanted, address, tls), (...result) => {
    const [error, socket] = result
    if (error !== null) {
      if (index + 1 < Math.min(addresses.length, MAX_ATTEMPTS))
        attempt(connect, wanted, tls, addresses, index + 1, callback)
      else callback(error, null)
      return
    }
    if (reached(socket, address)) callback(null, socket)
    else {
      socket.destroy()
      callback(new AddressRefused('range', 'The connection did not reach the address that was checked.'), null)
    }
  })
}

function reached(socket: Socket, address: string): boolean {
  return socket.remoteAddress !== undefined && normalAddress(socket.remoteAddress) === normalAddress(address)
}
