import { readFileSync } from 'node:fs'
import net from 'node:net'
import tls, { type ConnectionOptions } from 'node:tls'
import type { PostgresTls } from '../../system/postgres-url.ts'
import type { PostgresAddress } from './inside.ts'
import type { Silence } from './silence.ts'

class ConnectionClosed extends Error {
  readonly code = 'CONNECTION_CLOSED'

  constructor() {
    super('The connection to the database was closed')
  }
}

/**
 * Ends the sockets of one pool as postgres.js can handle: error and close in one turn, a close without the error flag,
 * and all lost ones together.
 *
 * postgres.js 3.4 gives a statement between a socket's error and its close to that dead connection and then forgets it,
 * because the close reports an error. After a reconnect the forgotten statement is *resolved*, with no rows: an INSERT
 * that never ran would count as done. A statement with unwritten bytes at the close leaves the connection unable to
 * write. And a server that accepts and closes without a byte, as a load balancer without a backend does, is retried
 * forever.
 */
class PlainEndings {
  readonly #dying = new Map<net.Socket, () => void>()

  of<S extends net.Socket>(socket: S): S {
    const emit = socket.emit.bind(socket)
    let fault: unknown = null
    let over = false
    const finish = (): void => {
      this.#dying.delete(socket)
      if (over) return
      over = true
      if (socket.listenerCount('error') > 0) emit('error', fault ?? new ConnectionClosed())
      emit('close', false)
    }
    socket.emit = (event: string | symbol, ...args: unknown[]): boolean => {
      if (event === 'error') {
        fault ??= args[0]
        this.#dying.set(socket, finish)
        return true
      }
      // A close follows, and those of others that have heard it as well.
      if (event === 'end') this.#dying.set(socket, finish)
      if (event !== 'close') return emit(event, ...args)
      this.#dying.set(socket, finish)
      // In one turn: rejected callers retry only afterwards, and must not meet another dead socket.
      this.#dying.forEach(end => {
        end()
      })
      return true
    }
    return socket
  }
}

/**
 * The `socket` option of postgres.js: opens connections, plain or with TLS, that end as `PlainEndings` describes;
 * `secure` is null for plain. When the server is unreachable in `timeout` milliseconds, or lacks required TLS, returns
 * a socket that fails soon: a rejection would leak the pool slot.
 */
export function postgresSocket(
  secure: PostgresTls | null,
  timeout: number,
  silence: Silence
): (address: PostgresAddress) => Promise<net.Socket> {
  const endings = new PlainEndings()
  const ready = <S extends net.Socket>(socket: S): S => {
    silence.watch(socket)
    return endings.of(neverFull(socket))
  }
  let attempts = 0
  return async address => {
    const index = attempts++ % address.host.length
    const host = address.host[index] ?? 'localhost'
    const raw =
      typeof address.path === 'string' ? net.connect(address.path) : net.connect(address.port[index] ?? 5432, host)
    raw.setNoDelay(true)
    const timer = setTimeout(() => {
      raw.destroy(
        Object.assign(new Error('The database did not accept the connection in time'), { code: 'CONNECT_TIMEOUT' })
      )
    }, timeout)
    try {
      await happened(raw, 'connect')
      // As with libpq, a Unix socket has no TLS.
      if (secure === null || typeof address.path === 'string') return ready(raw)
      if (!secure.direct && !(await speaksTls(raw))) {
        if (secure.mode === 'prefer' || secure.mode === 'allow') {
          // `happened` had it read, and the SSL request paused it.
          raw.resume()
          return ready(raw)
        }
        throw new Error('The database does not speak TLS, which sslmode asks for')
      }
      const wrapped = tls.connect({
        socket: raw,
        // Without it the certificate of an IP address would have to be that of localhost.
        host,
        ...(net.isIP(host) === 0 ? { servername: host } : {}),
        ...(secure.direct ? { ALPNProtocols: ['postgresql'] } : {}),
        ...tlsOptions(secure)
      })
      await happened(wrapped, 'secureConnect')
      return ready(wrapped)
    } catch (error) {
      raw.destroy()
      return failing(endings.of(new net.Socket()), error instanceof Error ? error : new Error(String(error)))
    } finally {
      clearTimeout(timer)
    }
  }
}

/** Options for `tls.connect`. Reads files each time, so that renewed ones are used. Throws read errors. */
function tlsOptions({ mode, rootCert, cert, key, passphrase }: PostgresTls): ConnectionOptions {
  return {
    rejectUnauthorized: mode === 'verify-ca' || mode === 'verify-full',
    ...(mode === 'verify-ca' ? { checkServerIdentity: () => undefined } : {}),
    ...(rootCert === null ? {} : { ca: readFileSync(rootCert) }),
    ...(cert === null ? {} : { cert: readFileSync(cert) }),
    ...(key === null ? {} : { key: readFileSync(key) }),
    ...(passphrase === null ? {} : { passphrase })
  }
}

/**
 * Makes every write report free space: otherwise postgres.js 3.4 does not give a transaction its connection when the
 * write with its `begin` reports back-pressure.
 */
function neverFull<S extends net.Socket>(socket: S): S {
  const write = socket.write.bind(socket) as (...given: unknown[]) => boolean /* it has two forms */
  socket.write = (...given: unknown[]) => {
    write(...given)
    return true
  }
  return socket
}

/**
 * Fails the socket only after postgres.js has written to it, which would otherwise leave the connection unable to
 * write.
 */
function failing(socket: net.Socket, error: Error): net.Socket {
  setImmediate(() => {
    setImmediate(() => {
      socket.destroy(error)
    })
  })
  socket.write = () => false
  return socket
}

async function speaksTls(raw: net.Socket): Promise<boolean> {
  // SSLRequest: its length and code (PostgreSQL, Message Formats).
  raw.write(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]))
  const [answer] = await happened(raw, 'data')
  raw.pause()
  // Nothing may follow the one byte before TLS has begun: it would be unprotected (CVE-2021-23222).
  return Buffer.isBuffer(answer) && answer.length === 1 && answer[0] === 0x53
}

function happened(socket: net.Socket, event: string): Promise<unknown[]> {
  return new Promise((resolve, reject) => {
    const settle = (run: () => void): void => {
      socket.off(event, done).off('error', failed).off('close', closed)
      run()
    }
    const done = (...args: unknown[]): void => {
      settle(() => {
        resolve(args)
      })
    }
    const failed = (error: Error): void => {
      settle(() => {
        reject(error)
      })
    }
    const closed = (): void => {
      settle(() => {
        reject(new ConnectionClosed())
      })
    }
    socket.on(event, done).on('error', failed).on('close', closed)
  })
}
