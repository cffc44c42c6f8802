import { createHmac, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'

/** A webhook as it came in. */
export interface Received {
  readonly path: string
  readonly method: string
  readonly headers: IncomingHttpHeaders
  /** The raw bytes: what was signed. */
  readonly body: Buffer
  /** The body as text. */
  readonly text: string
  /** When it was whole, in milliseconds since the epoch. */
  readonly at: number
}

/** What a receiver answers. `hang`: nothing, ever; `reset`: the connection is broken off. */
export type ReceiverAnswer =
  | {
      readonly status: number
      readonly headers?: Readonly<Record<string, string>>
      readonly body?: string | Uint8Array
    }
  | 'hang'
  | 'reset'

/** How a receiver behaves. */
export interface ReceiverOptions {
  /** PageRequest for each webhook; 200 unless said. */
  readonly answer?: (received: Received) => ReceiverAnswer
}

/** A merchant's webhook endpoint on this machine. */
export interface Receiver {
  /** Its address, without a slash at the end. */
  readonly url: string
  /** Everything that came in, in order. */
  readonly received: readonly Received[]
  /** Resolves when at least so many have come in. */
  until(count: number): Promise<void>
  /** Behaves otherwise from now on. */
  answer(how: (received: Received) => ReceiverAnswer): void
  close(): Promise<void>
}

/** Starts a receiver on a free port of the loopback address. */
export async function startReceiver(options: ReceiverOptions = {}): Promise<Receiver> {
  let answer = options.answer ?? ((): ReceiverAnswer => ({ status: 200 }))
  const received: Received[] = []
  const waiting = new Set<() => void>()
  const server = createServer((req, res) => {
    const pieces: Buffer[] = []
    req.on('data', (piece: Buffer) => {
      pieces.push(piece)
    })
    // The gateway drops connections that hang; that is what some tests are about.
    req.on('error', () => {})
    req.on('end', () => {
      const body = Buffer.concat(pieces)
      const one: Received = {
        path: req.url ?? '',
        method: req.method ?? '',
        headers: req.headers,
        body,
        text: body.toString('utf8'),
        at: Date.now()
      }
      received.push(one)
      const how = answer(one)
      if (how === 'reset') req.socket.destroy()
      else if (how !== 'hang') res.writeHead(how.status, how.headers ?? {}).end(how.body ?? '')
      for (const look of waiting) look()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the receiver has no port')
  return {
    url: `http://127.0.0.1:${address.port}`,
    received,
    until: count =>
      new Promise(resolve => {
        const look = (): void => {
          if (received.length < count) return
          waiting.delete(look)
          resolve()
        }
        waiting.add(look)
        look()
      }),
    answer: how => {
      answer = how
    },
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    }
  }
}

/**
 * Whether a webhook is authentic, as a merchant would check it from the contract alone: over the raw bytes, in constant
 * time, and not older than five minutes at `now`, in milliseconds since the epoch.
 */
export function isAuthentic(
  { headers, body }: Pick<Received, 'headers' | 'body'>,
  secret: string,
  now: number
): boolean {
  const match = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(headers['x-service-signature']))
  if (match?.[1] === undefined || match[2] === undefined) return false
  const expected = createHmac('sha256', Buffer.from(secret, 'utf8'))
    .update(Buffer.concat([Buffer.from(`${match[1]}.`, 'ascii'), body]))
    .digest()
  return timingSafeEqual(expected, Buffer.from(match[2], 'hex')) && Math.abs(now / 1000 - Number(match[1])) <= 300
}
