import cluster from 'node:cluster'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { CodedError, defineError, hasCode } from '../../platform/system/errors.ts'

const LISTEN_FAILED = defineError('BG_LISTEN_FAILED', {
  cause:
    'The gateway cannot listen at `server.listen`: another program uses the port, ports below 1024 need privileges, or the address is not of this machine.',
  fix: 'Stop the other program or choose another port, from 1024 up without CAP_NET_BIND_SERVICE; use 0.0.0.0 for all addresses, 127.0.0.1 for local clients.'
})

/** Explains errors that the address causes; returns others unchanged. */
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

/** Beyond the backlog a client retries its SYN only after 1, 3, 7 … seconds. The system may lower it. */
const BACKLOG = 4096

/**
 * Listening sockets per port. libuv accepts one connection per socket and turn: one socket at turns of 50 ms takes 20 a
 * second.
 */
const SOCKETS = 32

export class Acceptors {
  readonly #accept: (socket: Socket) => void
  readonly #failed: (error: Error) => void
  #servers: Server[] = []

  constructor(accept: (socket: Socket) => void, failed: (error: Error) => void) {
    this.#accept = accept
    this.#failed = failed
  }

  /**
   * `port` 0 takes any free one.
   * @throws CodedError; what else the system says
   */
  async listen(host: string, port: number): Promise<void> {
    try {
      // The primary accepts for its workers.
      if (cluster.isWorker) await this.#open(host, port, false)
      else await this.#openShared(host, port)
    } catch (cause) {
      await this.close()
      throw cause instanceof Error ? listenError(host, port, cause) : cause
    }
  }

  get address(): { readonly host: string; readonly port: number } | null {
    const address = this.#servers[0]?.address() ?? null
    return isPort(address) ? { host: address.address, port: address.port } : null
  }

  /** Stops accepting; resolves when the last connection is closed. */
  async close(): Promise<void> {
    const closing = this.#servers.map(server => new Promise(resolve => server.close(resolve)))
    await Promise.all(closing)
    this.#servers = []
  }

  async #openShared(host: string, port: number): Promise<void> {
    // Binds exclusively first: a shared socket would also share the port with other processes.
    await this.#open(host, port, false)
    const taken = this.address?.port ?? port
    await this.close()
    while (this.#servers.length < SOCKETS) {
      try {
        await this.#open(host, taken, true)
      } catch (error) {
        // macOS and Windows cannot share a port.
        if (!hasCode(error, 'ENOTSUP')) throw error
        await this.#open(host, taken, false)
        return
      }
    }
  }

  async #open(host: string, port: number, reusePort: boolean): Promise<void> {
    // As in node:http, which ends our side independently of the client's.
    const server = createServer({ allowHalfOpen: true, noDelay: true }, this.#accept)
    server.listen({ host, port, backlog: BACKLOG, reusePort })
    await once(server, 'listening')
    // An unhandled error event would end the process.
    server.on('error', this.#failed)
    this.#servers.push(server)
  }
}

function isPort(address: AddressInfo | string | null): address is AddressInfo {
  return typeof address === 'object' && address !== null
}
