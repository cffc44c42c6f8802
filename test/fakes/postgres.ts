import { EventEmitter, on, once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import type { Test as T } from 'tap'

/** A statement as the server ran it. */
export interface Ran {
  readonly text: string
  /** Counts connections from 1. */
  readonly connection: number
  /** Whether a transaction was open when it came. */
  readonly inTransaction: boolean
  /** OIDs that the client named for its parameters; 0 for those that it left to the server. */
  readonly types: readonly number[]
}

/** How the server misbehaves; may be changed at any time. */
interface Behavior {
  /** What it does with a new connection. */
  atStart: 'answer' | 'say nothing' | 'close' | 'reset'
  /** A Terminate message is read and ignored. */
  ignoresGoodbye: boolean
  /** Resets the connection at a statement that has this. */
  resetsAt: string
  /** Refuses a statement that has this, as a standby does. */
  refuses: string | null
}

/**
 * A stand-in for a PostgreSQL that fails at a moment of the test's choice. It speaks the protocol 3.0 (PostgreSQL,
 * Frontend/Backend Protocol) as far as the client does, answers every statement with no rows, knows which session is in
 * a transaction, and throws at what a real one would refuse. A statement with the word `hang` is never answered.
 */
export interface FakePostgres extends Behavior {
  readonly url: string
  readonly port: number
  readonly ran: readonly Ran[]
  /** Connections that have begun so far. */
  readonly connections: number
  /** When a statement that contains this has arrived; immediately if one already has. */
  heard(part: string): Promise<void>
  /** When so many connections have begun. */
  connected(count: number): Promise<void>
  /** When a client has sent Terminate. */
  readonly terminated: Promise<void>
  /** Answers the start-ups that `say nothing` held back. */
  greet(): void
  /** Resets every connection. */
  reset(): void
}

const SSL_REQUEST = 80_877_103
const CANCEL_REQUEST = 80_877_102
const VERSION_3 = 196_608

function message(type: string, body: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(5, type, 'latin1')
  head.writeUInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

function uint(value: number, size: 2 | 4): Buffer {
  const bytes = Buffer.alloc(size)
  bytes.writeUIntBE(value, 0, size)
  return bytes
}

const ready = (inTransaction: boolean): Buffer => message('Z', Buffer.from(inTransaction ? 'T' : 'I'))

/** Starts one on a free port of loopback; it ends with the test. */
export async function startPostgres(t: T): Promise<FakePostgres> {
  const sockets = new Set<Socket>()
  const waiting = new Set<() => void>()
  const ran: Ran[] = []
  const events = new EventEmitter()
  const terminated = Promise.withResolvers<void>()
  let connections = 0

  const session = (socket: Socket, connection: number): void => {
    let unread = Buffer.alloc(0)
    let started = false
    let inTransaction = false
    let parsed: Pick<Ran, 'text' | 'types'> = { text: '', types: [] }
    const prepared = new Map<string, typeof parsed>()
    /** False where the statement is never answered. */
    const run = ({ text, types }: typeof parsed): boolean => {
      ran.push({ text, connection, inTransaction, types })
      events.emit('ran')
      if (text.includes(fake.resetsAt)) socket.resetAndDestroy()
      if (text.includes('hang') || socket.destroyed) return false
      if (fake.refuses !== null && text.includes(fake.refuses)) {
        socket.write(message('E', Buffer.from('SERROR\0C25006\0Mcannot be executed during recovery\0\0')))
        return true
      }
      const [word = ''] = text.trim().split(/\s/)
      if (/^(begin|savepoint)$/i.test(word)) inTransaction = true
      if (/^(commit|rollback)$/i.test(word) && !/^rollback to/i.test(text)) inTransaction = false
      socket.write(message('C', Buffer.from(`${word.toUpperCase()}\0`)))
      return true
    }
    const start = (): void => {
      socket.write(
        Buffer.concat([
          message('R', uint(0, 4)),
          message('K', Buffer.concat([uint(connection, 4), uint(1, 4)])),
          ready(false)
        ])
      )
    }
    const hear = (type: string, body: Buffer): void => {
      const [name = '', text = ''] = body.toString('utf8').split('\0')
      switch (type) {
        case 'Q':
          if (run({ text: name, types: [] })) socket.write(ready(inTransaction))
          return
        case 'P': {
          const at = Buffer.byteLength(name) + Buffer.byteLength(text) + 2
          const types = Array.from({ length: body.readUInt16BE(at) }, (_, i) => body.readUInt32BE(at + 2 + i * 4))
          prepared.set(name, { text, types })
          socket.write(message('1'))
          return
        }
        case 'D': {
          const statement = prepared.get(name.slice(1))
          if (statement === undefined) throw new Error(`there is no statement ${name} to describe`)
          // What the client left open is text here.
          const types = statement.types.map(type => uint(type === 0 ? 25 : type, 4))
          socket.write(Buffer.concat([message('t', Buffer.concat([uint(types.length, 2), ...types])), message('n')]))
          return
        }
        case 'B': {
          const statement = prepared.get(text)
          if (statement === undefined) throw new Error(`there is no statement ${text} to bind`)
          parsed = statement
          socket.write(message('2'))
          return
        }
        case 'E':
          if (!run(parsed)) socket.pause()
          return
        case 'S':
          socket.write(ready(inTransaction))
          return
        case 'H':
          return
        case 'X':
          terminated.resolve()
          if (!fake.ignoresGoodbye) socket.end()
          return
        default:
          throw new Error(`a client does not say ${type}`)
      }
    }
    const read = (bytes: Buffer): void => {
      unread = Buffer.concat([unread, bytes])
      for (;;) {
        const head = started ? 1 : 0
        if (unread.length < head + 4) return
        const length = unread.readUInt32BE(head)
        if (unread.length < head + length) return
        const body = unread.subarray(head + 4, head + length)
        const type = String.fromCharCode(unread[0] ?? 0)
        unread = unread.subarray(head + length)
        if (started) hear(type, body)
        else if (body.readUInt32BE(0) === SSL_REQUEST) socket.write('N')
        else if (body.readUInt32BE(0) === CANCEL_REQUEST) socket.end()
        else if (body.readUInt32BE(0) === VERSION_3) {
          started = true
          if (fake.atStart === 'say nothing') waiting.add(start)
          else start()
        } else throw new Error('a start-up of another version')
        if (socket.isPaused()) return
      }
    }
    socket.on('data', read)
  }

  const server = createServer({ allowHalfOpen: true, noDelay: true }, socket => {
    connections++
    events.emit('connected')
    sockets.add(socket)
    socket
      .on('error', () => {})
      .on('close', () => {
        sockets.delete(socket)
      })
      .on('end', () => {
        if (!fake.ignoresGoodbye) socket.end()
      })
    if (fake.atStart === 'close') socket.resume().end()
    else if (fake.atStart === 'reset') socket.resetAndDestroy()
    else session(socket, connections)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { port } = server.address() as AddressInfo /* it listens on TCP */
  const until = async (event: string, met: () => boolean): Promise<void> => {
    if (met()) return
    for await (const _ of on(events, event)) if (met()) return
  }
  const fake: FakePostgres = {
    atStart: 'answer',
    ignoresGoodbye: false,
    resetsAt: 'reset',
    refuses: null,
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    port,
    ran,
    get connections() {
      return connections
    },
    heard: part => until('ran', () => ran.some(({ text }) => text.includes(part))),
    connected: count => until('connected', () => connections >= count),
    terminated: terminated.promise,
    greet() {
      fake.atStart = 'answer'
      for (const start of waiting) start()
      waiting.clear()
    },
    reset() {
      for (const socket of sockets) socket.resetAndDestroy()
    }
  }
  return fake
}
