import cluster from 'node:cluster'
import { once } from 'node:events'
import { lstatSync, rmSync } from 'node:fs'
import { connect, createServer, type AddressInfo, type ListenOptions, type Server, type Socket } from 'node:net'
import { hostAndPort, listenText, type HostAndPort, type ListenAddress } from '../config/listen-address.ts'
import { CodedError, defineError, hasCode } from '../../platform/system/errors.ts'

const LISTEN_FAILED = defineError('BG_LISTEN_FAILED', {
  cause:
    'The gateway cannot listen at `server.listen`: another program uses the port, ports below 1024 need privileges, or the address is not of this machine.',
  fix: 'Stop the other program or choose another port, from 1024 up without CAP_NET_BIND_SERVICE; use 0.0.0.0 for all addresses, 127.0.0.1 for local clients.'
})

/** Explains errors that the address causes; returns others unchanged. */
function listenError(address: ListenAddress, cause: Error): Error {
  const reason = 'code' in cause ? String(cause.code) : ''
  const text =
    address.kind === 'unix'
      ? socketWords(listenText(address), reason)
      : words(address.host, hostAndPort(address), reason)
  return text === null ? cause : new CodedError(LISTEN_FAILED, `server.listen: ${text} (${reason})`, { cause })
}

function socketWords(at: string, reason: string): string | null {
  switch (reason) {
    case 'EADDRINUSE':
      return `another program listens at ${at}, or there is another file; stop it, or choose another path`
    case 'EACCES':
    case 'EPERM':
    case 'ENOENT':
    case 'EINVAL':
      return `the user of this process may not make a socket at ${at}; use a path of at most 107 bytes in a folder that exists and that it may write`
    default:
      return null
  }
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
  readonly #address: ListenAddress
  readonly #accept: (socket: Socket) => void
  readonly #failed: (error: Error) => void
  #servers: Server[] = []

  constructor(address: ListenAddress, accept: (socket: Socket) => void, failed: (error: Error) => void) {
    this.#address = address
    this.#accept = accept
    this.#failed = failed
  }

  async listen(): Promise<void> {
    const address = this.#address
    try {
      if (!cluster.isWorker) await removeUnserved(address)
      if (address.kind === 'unix') await this.#open({ path: address.path })
      // The primary accepts for its workers.
      else if (cluster.isWorker) await this.#open(address)
      else await this.#openShared(address)
    } catch (cause) {
      await this.close()
      throw cause instanceof Error ? listenError(address, cause) : cause
    }
  }

  /** With the port taken. */
  get address(): ListenAddress {
    const taken = this.#servers[0]?.address() ?? null
    return this.#address.kind === 'tcp' && isPort(taken) ? { ...this.#address, port: taken.port } : this.#address
  }

  async close(): Promise<void> {
    const closing = this.#servers.map(server => new Promise(resolve => server.close(resolve)))
    await Promise.all(closing)
    this.#servers = []
  }

  async #openShared({ host, port }: HostAndPort): Promise<void> {
    // Binds exclusively first: a shared socket would also share the port with other processes.
    await this.#open({ host, port })
    const taken = this.address.kind === 'tcp' ? this.address.port : port
    await this.close()
    while (this.#servers.length < SOCKETS) {
      try {
        await this.#open({ host, port: taken, reusePort: true })
      } catch (error) {
        // macOS and Windows cannot share a port.
        if (!hasCode(error, 'ENOTSUP')) throw error
        await this.#open({ host, port: taken })
        return
      }
    }
  }

  async #open(where: ListenOptions): Promise<void> {
    // As in node:http, which ends our side independently of the client's.
    const server = createServer({ allowHalfOpen: true, noDelay: true }, this.#accept)
    server.listen({ ...where, backlog: BACKLOG })
    await once(server, 'listening')
    // An unhandled error event would end the process.
    server.on('error', this.#failed)
    this.#servers.push(server)
  }
}

/** A gateway that was killed leaves the file of its socket. */
export async function removeUnserved(address: ListenAddress): Promise<void> {
  if (address.kind === 'unix' && isSocket(address.path) && !(await isServed(address.path))) rmSync(address.path)
}

function isSocket(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSocket() === true
}

async function isServed(path: string): Promise<boolean> {
  const socket = connect(path)
  try {
    await once(socket, 'connect')
    return true
  } catch (error) {
    return !hasCode(error, 'ECONNREFUSED')
  } finally {
    socket.destroy()
  }
}

function isPort(address: AddressInfo | string | null): address is AddressInfo {
  return typeof address === 'object' && address !== null
}
