import { once } from 'node:events'
import net from 'node:net'
import { setImmediate } from 'node:timers/promises'

/** A request as it came off the wire. */
export interface RawRequest {
  /** Request line and header lines, without the empty one. */
  readonly head: string
  /** Decoded body. */
  readonly body: Buffer
  /** The body as it was framed. */
  readonly framed: Buffer
}

/** One connection of a raw upstream, as a script drives it. */
export class RawConnection {
  readonly socket: net.Socket
  /** Number of the connection, from 1. */
  readonly number: number
  readonly closed: Promise<void>
  #buffer = Buffer.alloc(0)
  #over = false
  #wake: (() => void) | null = null

  constructor(socket: net.Socket, number: number) {
    this.socket = socket
    this.number = number
    socket.on('data', piece => {
      this.#buffer = Buffer.concat([this.#buffer, piece])
      this.#stir()
    })
    // A reset by the gateway is often what a test is about.
    socket.on('error', () => {
      this.#over = true
    })
    socket.on('end', () => {
      this.#over = true
      this.#stir()
    })
    this.closed = new Promise(resolve => {
      socket.on('close', () => {
        this.#over = true
        this.#stir()
        resolve()
      })
    })
  }

  #stir(): void {
    this.#wake?.()
    this.#wake = null
  }

  /** Waits until the buffer holds what `find` looks for; -1 means not yet. Null when the connection ended before. */
  async #until(find: (buffer: Buffer) => number): Promise<Buffer | null> {
    for (;;) {
      const end = find(this.#buffer)
      if (end >= 0) {
        const found = this.#buffer.subarray(0, end)
        this.#buffer = this.#buffer.subarray(end)
        return found
      }
      if (this.#over) return null
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
    }
  }

  /** The head of the next request, or null when the connection ended. */
  async head(): Promise<string | null> {
    const found = await this.#until(buffer => {
      const at = buffer.indexOf('\r\n\r\n')
      return at < 0 ? -1 : at + 4
    })
    return found === null ? null : found.subarray(0, -4).toString('latin1')
  }

  /** The next whole request, or null when the connection ended. */
  async request(): Promise<RawRequest | null> {
    const head = await this.head()
    if (head === null) return null
    const length = /^content-length: *(\d+)/im.exec(head)?.[1]
    if (/^transfer-encoding: *chunked/im.test(head)) {
      const framed = await this.#until(buffer => {
        const at = buffer.indexOf('0\r\n\r\n')
        return at < 0 ? -1 : at + 5
      })
      return framed === null ? null : { head, body: unchunk(framed), framed }
    }
    const body =
      length === undefined
        ? Buffer.alloc(0)
        : await this.#until(buffer => (buffer.length < Number(length) ? -1 : Number(length)))
    return body === null ? null : { head, body, framed: body }
  }

  /** Writes bytes as they are. */
  send(bytes: string | Buffer): boolean {
    return this.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
  }

  /** Writes and waits until the bytes have left the process, so that the next ones come in a piece of their own. */
  async flush(bytes: string | Buffer): Promise<void> {
    await new Promise<void>(resolve => {
      this.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes, () => {
        resolve()
      })
    })
    await setImmediate()
  }

  end(): void {
    this.socket.end()
  }

  /** Breaks the connection off with a reset. */
  reset(): void {
    this.socket.resetAndDestroy()
  }
}

function unchunk(framed: Buffer): Buffer {
  const pieces: Buffer[] = []
  let at = 0
  for (;;) {
    const line = framed.indexOf('\r\n', at)
    const size = Number.parseInt(framed.subarray(at, line).toString('latin1'), 16)
    if (!(size > 0)) return Buffer.concat(pieces)
    pieces.push(framed.subarray(line + 2, line + 2 + size))
    at = line + 2 + size + 2
  }
}

/** A TCP server on loopback whose every byte is the test's own; `script` runs for each connection. */
export class RawUpstream {
  readonly server: net.Server
  readonly connections: RawConnection[] = []
  /** Heads and bodies of the requests that `serve` has read. */
  readonly requests: RawRequest[] = []
  port = 0

  constructor(script: (connection: RawConnection, upstream: RawUpstream) => Promise<void> | void) {
    this.server = net.createServer({ noDelay: true }, socket => {
      const connection = new RawConnection(socket, this.connections.length + 1)
      this.connections.push(connection)
      void script(connection, this)
    })
  }

  /** A server that answers every request on every connection with the same bytes. */
  static serve(answer: string): RawUpstream {
    return new RawUpstream(async (connection, upstream) => {
      for (;;) {
        const request = await connection.request()
        if (request === null) {
          connection.end()
          return
        }
        upstream.requests.push(request)
        connection.send(answer)
      }
    })
  }

  get origin(): string {
    return `http://127.0.0.1:${this.port}`
  }

  async listen(): Promise<this> {
    this.server.listen(0, '127.0.0.1')
    await once(this.server, 'listening')
    // A server that listens on TCP has an address object.
    this.port = (this.server.address() as net.AddressInfo).port
    return this
  }

  async close(): Promise<void> {
    for (const connection of this.connections) connection.socket.destroy()
    await new Promise<void>(resolve => {
      this.server.close(() => {
        resolve()
      })
    })
  }
}
