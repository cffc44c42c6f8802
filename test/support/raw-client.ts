import { connect, type Socket } from 'node:net'
import { connect as connectSecurely } from 'node:tls'

/** One answer as it came over the wire. */
export interface RawResponse {
  readonly version: string
  readonly status: number
  readonly reason: string
  /** `[name, value, …]`. */
  readonly headers: string[]
  readonly body: string
  readonly trailers: string[]
  /** The first value under `name` (lower case). */
  header(name: string): string | undefined
}

/** How the server ended a connection. */
export interface Ending {
  /** `end` for a FIN, else the code of the error, such as ECONNRESET. */
  readonly how: string
}

/** Milliseconds without a byte after which a test ends. */
const SILENCE = 120_000

/** `allowHalfOpen` is documented for net alone and has no type here. */
const SELF_SIGNED = { servername: 'localhost', rejectUnauthorized: false, allowHalfOpen: true }

interface Parsed {
  readonly response: RawResponse
  readonly rest: number
}

/**
 * A client that speaks bytes: what it sends is exactly what it is given, and what it reads is parsed by a reader of its
 * own, so that neither Node's client nor its leniency is between a test and the wire.
 */
export class RawClient {
  readonly socket: Socket
  /** Everything received so far, as latin1. */
  received = ''
  #at = 0
  #ending: Ending | null = null
  #wake: (() => void)[] = []

  constructor(socket: Socket) {
    this.socket = socket
    socket.on('data', chunk => {
      this.received += chunk.toString('latin1')
      this.#changed()
    })
    socket.on('end', () => {
      this.#over('end')
    })
    socket.on('error', (error: NodeJS.ErrnoException) => {
      this.#over(error.code ?? error.message)
    })
    socket.on('close', () => {
      this.#over('close')
    })
  }

  /** Connects to a port on loopback; `secure` over TLS, whatever the certificate. */
  static connect(port: number, host = '127.0.0.1', secure = false): Promise<RawClient> {
    return new Promise((resolve, reject) => {
      const connected = (): void => {
        socket.off('error', reject)
        resolve(new RawClient(socket))
      }
      const socket: Socket = secure
        ? connectSecurely({ ...SELF_SIGNED, port, host }, connected)
        : connect({ port, host, allowHalfOpen: true }, connected)
      socket.once('error', reject)
    })
  }

  /** Sends text as latin1, each character one byte. */
  send(bytes: string | Uint8Array): void {
    this.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
  }

  /**
   * The next answer, complete; interim ones count. `method` is that of its request. Rejects when the connection ends
   * first.
   */
  async response(method = 'GET'): Promise<RawResponse> {
    for (;;) {
      const parsed = parseResponse(this.received.slice(this.#at), method, this.#ending !== null)
      if (parsed !== null) {
        this.#at += parsed.rest
        return parsed.response
      }
      if (this.#ending !== null)
        throw new Error(
          `the connection ended (${this.#ending.how}) in the middle of an answer: ${JSON.stringify(this.received.slice(this.#at))}`
        )
      await this.#change('a whole response')
    }
  }

  /** Waits until `text` has been received after what was parsed. */
  async until(text: string): Promise<void> {
    while (!this.received.slice(this.#at).includes(text)) {
      if (this.#ending !== null)
        throw new Error(`the connection ended (${this.#ending.how}) without ${JSON.stringify(text)}`)
      await this.#change(JSON.stringify(text))
    }
  }

  /** Waits for the server's end of the connection. */
  async ending(): Promise<Ending> {
    while (this.#ending === null) await this.#change('the end of the connection')
    return this.#ending
  }

  /** What came after the last parsed answer. */
  get unparsed(): string {
    return this.received.slice(this.#at)
  }

  close(): void {
    this.socket.destroy()
  }

  #over(how: string): void {
    this.#ending ??= { how }
    this.#changed()
  }

  #changed(): void {
    const waiting = this.#wake
    this.#wake = []
    for (const wake of waiting) wake()
  }

  /** Resolves with the next bytes or the end; rejects after two minutes of neither, with `what` is waited for. */
  #change(what: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new Error(`${what} did not come; received: ${JSON.stringify(this.unparsed)}`))
      }, SILENCE).unref()
      this.#wake.push(() => {
        clearTimeout(timer)
        resolve()
      })
    })
  }
}

function fields(lines: readonly string[]): string[] {
  return lines.flatMap(line => {
    const colon = line.indexOf(':')
    return [line.slice(0, colon), line.slice(colon + 1).trim()]
  })
}

function find(headers: readonly string[], name: string): string | undefined {
  const at = headers.findIndex((value, index) => index % 2 === 0 && value.toLowerCase() === name)
  return at < 0 ? undefined : headers[at + 1]
}

/** Reads one answer from the start of `text`; null when it is not complete. `ended`: nothing more will come. */
export function parseResponse(text: string, method: string, ended: boolean): Parsed | null {
  const headEnd = text.indexOf('\r\n\r\n')
  if (headEnd < 0) return null
  const lines = text.slice(0, headEnd).split('\r\n')
  const start = /^HTTP\/(\d\.\d) (\d{3}) (.*)$/.exec(lines[0] ?? '')
  if (start === null) throw new Error(`no status line: ${JSON.stringify(lines[0])}`)
  const headers = fields(lines.slice(1))
  const status = Number(start[2])
  const make = (body: string, trailers: string[], rest: number): Parsed => ({
    response: {
      version: start[1] ?? '',
      status,
      reason: start[3] ?? '',
      headers,
      body,
      trailers,
      header: name => find(headers, name)
    },
    rest
  })
  const bodyAt = headEnd + 4
  if (status < 200 || status === 204 || status === 304 || method === 'HEAD') return make('', [], bodyAt)
  const length = find(headers, 'content-length')
  if (length !== undefined) {
    const end = bodyAt + Number(length)
    return text.length < end ? null : make(text.slice(bodyAt, end), [], end)
  }
  if (find(headers, 'transfer-encoding') !== 'chunked') return ended ? make(text.slice(bodyAt), [], text.length) : null
  let at = bodyAt
  let body = ''
  for (;;) {
    const lineEnd = text.indexOf('\r\n', at)
    if (lineEnd < 0) return null
    const size = Number.parseInt(text.slice(at, lineEnd), 16)
    at = lineEnd + 2
    if (size === 0) {
      const trailerEnd = text.slice(at - 2).indexOf('\r\n\r\n')
      if (trailerEnd < 0) return null
      const trailers = text.slice(at, at - 2 + trailerEnd)
      return make(body, trailers === '' ? [] : fields(trailers.split('\r\n')), at + trailerEnd + 2)
    }
    if (text.length < at + size + 2) return null
    body += text.slice(at, at + size)
    at += size + 2
  }
}
