import { lookup as systemLookup } from 'node:dns'
import { connect as connectSocket, isIP, type LookupFunction, type OnReadOpts, type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { buildConnector } from 'undici'
import { normalAddress } from '../message/addresses.ts'
import { AddressRefused, type AddressGuard } from './guard.ts'
import { hasCode } from '../../platform/system/errors.ts'
import { overInterim } from '../../platform/system/interim-responses.ts'

/** PEM text. */
export interface UpstreamTls {
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
  /** The name for SNI and verification, where it differs from the address's host. */
  readonly servername?: string
}

interface ConnectOptions {
  readonly tls: UpstreamTls | null
  /** Milliseconds to open one connection, TLS included. */
  readonly timeout: number
}

export type Connector = buildConnector.connector

/** Attempts on further addresses of one name; more would only add latency. */
const MAX_ATTEMPTS = 3

/**
 * The SNI and certificate name. undici would use the first request's Host header, so that a client could choose the
 * verified name; here the upstream's own address decides.
 */
function servername(options: buildConnector.Options, tls: UpstreamTls | null): string | undefined {
  return tls?.servername ?? (isIP(options.hostname) === 0 ? options.hostname : undefined)
}

function base(
  options: ConnectOptions,
  more: { onread?: OnReadOpts; session?: Buffer; lookup?: LookupFunction } = {}
): Connector {
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

/** For an operator's upstream: any address, resolved by the system. */
export function plainConnector(options: ConnectOptions): Connector {
  const connect = overInterim(base(options))
  return (wanted, callback) => {
    connect(aimed(wanted, wanted.hostname, options.tls), callback)
  }
}

/**
 * For an address that a user gave. Resolves the name, checks all addresses and connects to a checked one, so that no
 * second resolution can differ. Also checks literals, for which undici skips its lookup hook (decision 92).
 * @throws AddressRefused or NameUnresolved
 */
export function guardedConnector(guard: AddressGuard, options: ConnectOptions): Connector {
  const connect = overInterim(base(options))
  return (wanted, callback) => {
    void open(guard, connect, wanted, options.tls, callback)
  }
}

/** No connection in time, or every address failed and one of them timed out. */
class ConnectTimeout extends Error {
  readonly code = 'ETIMEDOUT'

  constructor(cause?: Error) {
    super('no connection was made in time', { cause })
    this.name = 'ConnectTimeout'
  }
}

/** Milliseconds of silence until TCP keep-alive probes. */
const PROBE_AFTER = 60_000

/**
 * Connections without TLS. undici's connector would be needed per connection, for its read callback, and would keep its
 * TLS session cache, timer and closures alive: about 1 KB per stream.
 */
function plain(onread: OnReadOpts, lookup: LookupFunction, timeout: number): Connector {
  return (wanted, callback) => {
    const socket = connectSocket({
      host: wanted.hostname,
      port: wanted.port === '' ? 80 : Number(wanted.port),
      onread,
      lookup,
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
      const tookLong = error instanceof AggregateError && error.errors.some(one => hasCode(one, 'ETIMEDOUT'))
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

export type Opened = (result: Socket | Error) => void

/**
 * Opens an upstream's connections, which are read without a stream. `guard` checks every address, as in
 * `guardedConnector`; an operator's upstream has none.
 */
export class Dialer {
  readonly #wanted: buildConnector.Options
  readonly #guard: AddressGuard | null
  readonly #options: ConnectOptions
  /** Begins with another of a name's addresses each time; the rest are for when it fails. */
  readonly #lookup: LookupFunction
  #turn = 0
  /** The last TLS session: resumption saves half a handshake. */
  #session: Buffer | null = null

  constructor(
    origin: URL,
    guard: AddressGuard | null,
    options: ConnectOptions,
    resolve: typeof systemLookup = systemLookup
  ) {
    this.#lookup = (hostname, lookup, callback) => {
      resolve(hostname, { ...lookup, all: true }, (error, found) => {
        if (error !== null) {
          callback(error, [])
          return
        }
        // Within the family that the system prefers: the other one may lead nowhere.
        const same = found.filter(({ family }) => family === found[0]?.family)
        const from = this.#turn++ % Math.max(1, same.length)
        const all = [...same.slice(from), ...same.slice(0, from), ...found.filter(one => !same.includes(one))]
        if (lookup.all === true) callback(null, all)
        else callback(null, all[0]?.address ?? '', all[0]?.family)
      })
    }
    const { hostname, host, protocol, port } = origin
    this.#wanted = { hostname: hostname.startsWith('[') ? hostname.slice(1, -1) : hostname, host, protocol, port }
    this.#guard = guard
    this.#options = options
  }

  get secure(): boolean {
    return this.#wanted.protocol === 'https:'
  }

  /** The address is a name, whose addresses may change. */
  get hasName(): boolean {
    return isIP(this.#wanted.hostname) === 0
  }

  dial(onread: OnReadOpts, opened: Opened): void {
    const { tls, timeout } = this.#options
    const connect = this.secure
      ? base(this.#options, {
          onread,
          lookup: this.#lookup,
          ...(this.#session === null ? {} : { session: this.#session })
        })
      : plain(onread, this.#lookup, timeout)
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
    // TLS 1.3 issues its tickets after the handshake.
    if (socket.getProtocol() === 'TLSv1.3')
      socket.on('session', (session: Buffer) => {
        this.#session = session
      })
    else this.#session = socket.getSession() ?? null
  }
}

/** Node throws synchronously for an unusable certificate or key; that counts as a failure like any other. */
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
