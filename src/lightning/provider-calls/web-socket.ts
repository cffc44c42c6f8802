import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { Client, ping, WebSocket } from 'undici'
import type { Clock, Timer } from '../../platform/system/clock.ts'
import type { Connector } from '../../engine/upstream/connector.ts'
import { unusableResponse } from './errors.ts'
import { jsonOrUndefined } from '../../platform/system/json.ts'

export interface WebSocketAddress {
  /** `https://host:port`, or http without TLS; always with the port. */
  readonly origin: string
  /** `wss://host:port/path`. */
  readonly url: string
}

export interface WebSocketOptions {
  readonly address: WebSocketAddress
  readonly headers?: Readonly<Record<string, string>>
  /** Throws the kinds' own errors. */
  readonly connect: Connector
  /** Error for a connection without a WebSocket. `cause`: a few words without an address. */
  unreached(cause: string): Error
  readonly clock: Clock
}

/** Message bytes: Nostr relays carry 64 KB of content. */
const MAX_MESSAGE = 192 * 1024
/** Milliseconds between pings; a silent connection is closed. */
const LOOK = 30_000
/** undici's pong channel (its documentation, Diagnostics Channel). */
const PONG = 'undici:websocket:pong'

interface ConnectionEvents {
  opened(): void
  said(text: string): void
  /** `wasOpen`: had been usable. */
  ended(fault: Error, wasOpen: boolean): void
  looked(): void
}

export class WebSocketConnection {
  readonly #events: ConnectionEvents
  readonly #clock: Clock
  readonly #unreached: WebSocketOptions['unreached']
  readonly #client: Client
  readonly #webSocket: WebSocket
  readonly #pong: (message: unknown) => void
  #socket: Socket | TLSSocket | null = null
  #fault: Error | null = null
  #look: Timer | null = null
  #wasOpen = false
  #hasEnded = false
  /** Last data received, in monotonic milliseconds. */
  heardAt: number

  constructor({ address, headers, connect, unreached, clock }: WebSocketOptions, events: ConnectionEvents) {
    this.#events = events
    this.#clock = clock
    this.#unreached = unreached
    this.heardAt = -1
    this.#client = new Client(address.origin, {
      allowH2: false,
      webSocket: { maxPayloadSize: MAX_MESSAGE },
      connect: (wanted, callback) => {
        connect(wanted, (...result) => {
          const [error, socket] = result
          if (error === null) this.#socket = socket
          else this.#fault = error
          if (this.#hasEnded) socket?.destroy()
          callback(...result)
        })
      }
    })
    this.#pong = message => {
      // undici's channel message (Diagnostics Channel).
      if ((message as { readonly websocket: WebSocket }).websocket === this.#webSocket) this.heardAt = clock.monotonic()
    }
    // Follows no redirects.
    this.#webSocket = new WebSocket(address.url, {
      dispatcher: this.#client,
      headers: { 'user-agent': 'boltgate', ...headers }
    })
    subscribe(PONG, this.#pong)
    this.#webSocket.addEventListener('open', () => {
      this.heardAt = clock.monotonic()
      this.#wasOpen = true
      this.#look = clock.every(LOOK, () => {
        this.#lookAt()
      })
      events.opened()
    })
    this.#webSocket.addEventListener('message', ({ data }: { readonly data: unknown }) => {
      this.heardAt = clock.monotonic()
      if (typeof data === 'string') events.said(data)
    })
    this.#webSocket.addEventListener('error', () => {
      // A close event follows, or no connection existed.
      if (!this.#wasOpen) this.#over()
    })
    this.#webSocket.addEventListener('close', () => {
      this.#over()
    })
  }

  get isOpen(): boolean {
    return this.#wasOpen && !this.#hasEnded
  }

  send(text: string): void {
    if (this.isOpen) this.#webSocket.send(text)
  }

  end(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#look?.cancel()
    unsubscribe(PONG, this.#pong)
    this.#webSocket.close()
    this.#socket?.destroy()
    // Waiters were notified.
    void this.#client.destroy()
  }

  #lookAt(): void {
    if (this.heardAt < this.#clock.monotonic() - 2 * LOOK) {
      this.#over()
      return
    }
    ping(this.#webSocket)
    this.#events.looked()
  }

  #over(): void {
    if (this.#hasEnded) return
    this.end()
    this.#events.ended(
      this.#fault ?? this.#unreached(this.#socket === null ? 'the connection failed' : 'no WebSocket is spoken there'),
      this.#wasOpen
    )
  }
}

const MAX_LINE = 1024 * 1024

export interface LinesRead {
  /** Milliseconds until the first byte. */
  readonly first: number
  /** Milliseconds of silence that end the read. */
  readonly quiet: number
  /** Byte limit. */
  readonly most: number
}

interface ReadLines {
  readonly lines: readonly unknown[]
  /** More was left. */
  readonly isCut: boolean
}

/**
 * Leaving the loop closes the connection.
 * @throws ProviderUnavailable for an overlong line
 */
export async function* linesOf(body: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest = ''
  const decoder = new TextDecoder()
  for await (const piece of body) {
    const lines = `${rest}${decoder.decode(piece, { stream: true })}`.split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > MAX_LINE) throw unusableResponse('a line without an end')
    yield* lines
  }
  yield rest
}

/** The first line of a possibly open stream; closes the connection. */
export async function firstLine(body: AsyncIterable<Buffer>): Promise<string> {
  for await (const line of linesOf(body)) return line
  return ''
}

/** Reads until quiet and closes the connection. `began` is called with the first data. */
export async function readLines(
  body: AsyncIterable<Buffer> & { destroy(): unknown },
  { quiet, most }: LinesRead,
  clock: Clock,
  began: () => void
): Promise<ReadLines> {
  const pieces: Buffer[] = []
  let bytes = 0
  let isQuiet = false
  let timer: Timer | null = null
  try {
    for await (const piece of body) {
      began()
      timer?.cancel()
      pieces.push(piece)
      bytes += piece.length
      if (bytes >= most) break
      timer = clock.after(quiet, () => {
        isQuiet = true
        body.destroy()
      })
    }
  } catch (error) {
    // Our own close reads as a broken stream.
    if (!isQuiet) throw error
  } finally {
    timer?.cancel()
  }
  // The last piece is incomplete or empty.
  const lines = Buffer.concat(pieces).toString('utf8').split('\n').slice(0, -1)
  return { lines: lines.filter(line => line.trim() !== '').map(jsonOrUndefined), isCut: bytes >= most }
}
