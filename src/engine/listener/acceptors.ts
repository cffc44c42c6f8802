import cluster from 'node:cluster'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { defineError, CodedError } from '../../platform/system/errors.ts'

const LISTEN_FAILED = defineError('BG_LISTEN_FAILED', {
  cause:
    'The gateway cannot listen at `server.listen`: another program uses the port, ports below 1024 need privileges, or the address is not of this machine.',
  fix: 'Stop the other program or choose another port, from 1024 up without CAP_NET_BIND_SERVICE; use 0.0.0.0 for all addresses, 127.0.0.1 for local clients.'
})

/** What the system says of an address in words of ours; what the address has no part in stays as it is. */
function listenError(host: string, port: number, cause: Error): Error {
  const reason = 'code' in cause ? String(cause.code) : ''
  const text = words(host, `${host.includes(':') ? `[${host}]` : host}:${port}`, reason)
  return text === null ? cause : new CodedError(LISTEN_FAILED, `server.listen: ${text} (${reason})`, { cause })
}

function words(host: string, at: string, reason: string): string | null {
  switch (reason) {
    case 'EADDRINUSE':
      return `another program listens at ${at}; stop it, or choose another port, which is the variable PORT for the file that comes with boltgate`
    case 'EACCES':
    case 'EPERM':
      return `the user of this process may not listen at ${at}; choose a port from 1024 up, or give the process CAP_NET_BIND_SERVICE`
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the name ${host} has no address here; use an address of this machine, 127.0.0.1 for itself alone or 0.0.0.0 for all of its addresses`
    case 'EADDRNOTAVAIL':
    case 'EAFNOSUPPORT':
    case 'EINVAL':
      return `${host} is no address of this machine; use one that is, 127.0.0.1 for itself alone or 0.0.0.0 for all of its addresses`
    default:
      return null
  }
}

/**
 * Connections that the system keeps until they are accepted, as far as it allows: beyond that a client's try again
 * comes after 1, 3, 7 … seconds, so that a burst of a thousand strangers would keep everybody else waiting that long.
 */
const BACKLOG = 4096

/**
 * Sockets that listen at one port. libuv accepts one connection of each in a turn of the event loop: with a single one,
 * turns of 50 ms would accept 20 connections a second and keep all others in the backlog.
 */
const SOCKETS = 32

/** Accepts the connections of one port. */
export class Acceptors {
  readonly #accept: (socket: Socket) => void
  readonly #failed: (error: Error) => void
  #servers: Server[] = []

  /** `failed` is called when the system cannot accept a connection. */
  constructor(accept: (socket: Socket) => void, failed: (error: Error) => void) {
    this.#accept = accept
    this.#failed = failed
  }

  /** Opens the port; `port` 0 takes any free one. @throws CodedError; what else the system says */
  async listen(host: string, port: number): Promise<void> {
    try {
      // Workers get their connections from the primary, which does nothing else.
      if (cluster.isWorker) await this.#open(host, port, false)
      else await this.#openShared(host, port)
    } catch (cause) {
      await this.close()
      throw cause instanceof Error ? listenError(host, port, cause) : cause
    }
  }

  /** Where it listens, or null when it does not. */
  get address(): { readonly host: string; readonly port: number } | null {
    const address = this.#servers[0]?.address() ?? null
    return isPort(address) ? { host: address.address, port: address.port } : null
  }

  /** Stops accepting; resolves when the last connection is gone. */
  async close(): Promise<void> {
    const closing = this.#servers.map(server => new Promise(resolve => server.close(resolve)))
    await Promise.all(closing)
    this.#servers = []
  }

  async #openShared(host: string, port: number): Promise<void> {
    // Sockets that share a port do so with those of other processes too, so one that does not comes first.
    await this.#open(host, port, false)
    const taken = this.address?.port ?? port
    await this.close()
    while (this.#servers.length < SOCKETS) {
      try {
        await this.#open(host, taken, true)
      } catch (error) {
        // macOS and Windows cannot share a port.
        if (!isUnsupported(error)) throw error
        await this.#open(host, taken, false)
        return
      }
    }
  }

  async #open(host: string, port: number, reusePort: boolean): Promise<void> {
    // As node:http makes its own: it ends our side itself, and not with the client's.
    const server = createServer({ allowHalfOpen: true, noDelay: true }, this.#accept)
    server.listen({ host, port, backlog: BACKLOG, reusePort })
    await once(server, 'listening')
    // Without a listener a failed accept would end the process.
    server.on('error', this.#failed)
    this.#servers.push(server)
  }
}

function isUnsupported(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOTSUP'
}

function isPort(address: AddressInfo | string | null): address is AddressInfo {
  return typeof address === 'object' && address !== null
}
