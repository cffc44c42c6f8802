import type { Socket } from 'node:net'
import type { ListenAddress } from '../config/listen-address.ts'
import { clientNetwork, normalAddress } from '../message/addresses.ts'
import { Acceptors } from './acceptors.ts'
import { ClientCounts } from '../message/allowance.ts'
import type { TrustedProxies } from './client-address.ts'
import type { Context } from '../message/context.ts'
import type { Wire } from '../message/wire.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { RefusalEvent } from './refusals.ts'
import type { ListenerLimits } from './deadlines.ts'
import { awaitProxyHeader } from './proxy-header.ts'
import { Tls, type TlsOptions } from './tls.ts'

export interface ListenerOptions {
  readonly limits: ListenerLimits
  /** Addresses and ranges whose X-Forwarded-* headers are trusted. */
  readonly trustedProxies: readonly string[]
  /** Null serves plain HTTP. */
  readonly tls?: Omit<TlsOptions, 'clock' | 'http2'> | null
  /** Offers HTTP/2 in TLS, and takes it from trusted proxies in the clear. Default false. */
  readonly http2?: boolean
  /** HTTPS origins, to which plain requests of other machines are sent (308); the first is for unknown hosts. Default none. */
  readonly toHttps?: readonly [string, ...string[]] | undefined
  readonly clock: Clock
  /** Makes a correlation id for a request without one (decision 14). */
  readonly freshId: () => string
  /** Receives each admitted request. Must not throw. */
  readonly handle: (ctx: Context, wire: Wire) => void
  /** Whether a path may hide a dot segment (`DoorRules.takesAnySegment`); default none. */
  readonly takesAnySegment?: (method: string, host: string, path: string) => boolean
  readonly refused?: (event: RefusalEvent) => void
  /** Whether plain requests bypass node:http (default true); responses are the same. */
  readonly fastLane?: boolean
  /**
   * Called when the system cannot accept a connection, for example without file descriptors; the listener continues.
   */
  readonly failed?: (error: Error) => void
}

/** A proxy sends its header with the connection. */
const HEADER_MS = 10_000

type Admitted = (socket: Socket, peerAddress: string, trusted: boolean) => void

/**
 * Accepts connections at all addresses, counts them by client, and hands each on when it can carry HTTP: after the
 * PROXY header of a trusted proxy, and after the TLS handshake.
 */
export class Entrance {
  readonly #options: ListenerOptions
  readonly #proxies: TrustedProxies
  readonly #admitted: Admitted
  readonly #tls: Tls | null
  readonly #acceptors: Acceptors[] = []
  readonly #counts = new ClientCounts()
  /** Connections of proxies that have not named their client. */
  readonly #arriving = new Set<Socket>()

  /** @throws CodedError when a certificate cannot be used */
  constructor(options: ListenerOptions, proxies: TrustedProxies, admitted: Admitted) {
    this.#options = options
    this.#proxies = proxies
    this.#admitted = admitted
    this.#tls =
      options.tls === undefined || options.tls === null
        ? null
        : new Tls({ ...options.tls, clock: options.clock, http2: options.http2 === true }, (secure, peerAddress) => {
            admitted(secure, peerAddress, proxies.has(peerAddress))
          })
  }

  /** With the ports taken; empty before `open`. */
  get addresses(): readonly ListenAddress[] {
    return this.#acceptors.map(({ address }) => address)
  }

  /** @throws CodedError; what else the system says */
  async open(addresses: readonly ListenAddress[]): Promise<void> {
    try {
      for (const address of addresses) {
        const acceptors = new Acceptors(
          address,
          socket => {
            this.#accept(socket, address)
          },
          error => {
            this.#options.failed?.(error)
          }
        )
        await acceptors.listen()
        this.#acceptors.push(acceptors)
      }
    } catch (error) {
      await this.close()
      throw error
    }
    this.#tls?.open()
  }

  /** Stops accepting and cuts what is not admitted; resolves when the last connection is closed. */
  async close(): Promise<void> {
    const closing = this.#acceptors.splice(0).map(acceptors => acceptors.close())
    this.#tls?.close()
    for (const socket of this.#arriving) socket.destroy()
    await Promise.all(closing)
  }

  #accept(socket: Socket, address: ListenAddress): void {
    const isUnix = address.kind === 'unix'
    const isPlain = isUnix || address.isPlain
    // The permissions of its file decide who may connect to a Unix socket: a local proxy.
    const peerAddress = isUnix ? '127.0.0.1' : normalAddress(socket.remoteAddress ?? '')
    if (!isUnix && !this.#proxies.has(peerAddress)) {
      this.#admit(socket, peerAddress, false, isPlain)
      return
    }
    this.#arriving.add(socket)
    const late = this.#options.clock.after(HEADER_MS, () => socket.destroy())
    const arrived = (): void => {
      late.cancel()
      this.#arriving.delete(socket)
    }
    socket.on('close', arrived)
    awaitProxyHeader(socket, client => {
      socket.off('close', arrived)
      arrived()
      this.#admit(socket, client ?? peerAddress, client === null || this.#proxies.has(client), isPlain)
    })
  }

  #admit(socket: Socket, peerAddress: string, trusted: boolean, isPlain: boolean): void {
    const network = clientNetwork(peerAddress)
    // A trusted proxy carries many clients. For others a response would cost more than the flood it answers.
    if (!this.#counts.take(network, trusted ? Infinity : this.#options.limits.connectionsPerAddress)) {
      socket.resetAndDestroy()
      return
    }
    if (this.#tls === null || isPlain) {
      this.#admitted(socket, peerAddress, trusted)
      if (socket.isPaused()) socket.resume()
    } else this.#tls.handshake(socket, peerAddress)
    // `once` would wrap each listener, and the wrapper lives as long as the connection.
    socket.on('close', () => {
      this.#counts.give(network)
    })
  }
}
