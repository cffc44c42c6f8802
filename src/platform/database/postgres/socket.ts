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
 * Lets the sockets of one pool end the way that postgres.js handles: error and close in one moment, a close that says
 * nothing of an error, and all that are lost at once together.
 *
 * postgres.js 3.4 gives a statement that arrives between a socket's error and its close to that dead connection and
 * then forgets it, because the close says that there had been an error. Once the connection has been made anew the
 * forgotten statement is *resolved*, with no rows: an INSERT that never ran would count as done. A statement whose
 * bytes were not yet written at the close leaves the connection unable to write. And a server that accepts and closes
 * without a word, as a load balancer without a backend does, is tried again for ever while the statement waits.
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
      // In one go: what is rejected here is repeated by its callers only afterwards, and must not meet another dead
      // socket.
      this.#dying.forEach(end => {
        end()
      })
      return true
    }
    return socket
  }
}

/**
 * The `socket` option of postgres.js: opens its connections, plain or with TLS, so that they end as `PlainEndings`
 * says; `secure` is null for plain. When the server cannot be reached in `timeout` milliseconds, or does not speak TLS where it must, the socket
 * that is answered fails soon: a rejection would cost postgres.js the connection's place in its pool, for good.
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
          // `happened` had it read, and asking paused it.
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

/** What `tls.connect` needs. Files are read anew each time, so that renewed ones are used. Throws what reading does. */
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
 * Lets every write say that more may follow. postgres.js 3.4 forgets to give a transaction its connection when the
 * write that holds its `begin` says otherwise; and what it keeps back then it keeps in memory all the same.
 */
function neverFull<S extends net.Socket>(socket: S): S {
  const write = socket.write.bind(socket) as (...given: unknown[]) => boolean /* it has two forms */
  socket.write = (...given: unknown[]) => {
    write(...given)
    return true
  }
  return socket
}

/** Ends the socket soon: not before postgres.js has written to it, which would leave the connection unable to write. */
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
  // SSLRequest: its length, and the number that stands for it (PostgreSQL, Message Formats).
  raw.write(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]))
  const [answer] = await happened(raw, 'data')
  raw.pause()
  // Nothing may follow the one byte before TLS has begun: it would not be protected (CVE-2021-23222).
  return Buffer.isBuffer(answer) && answer.length === 1 && answer[0] === 0x53
}

/** The arguments of an event; rejects when the socket fails or closes first. */
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
