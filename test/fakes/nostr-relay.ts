import { hash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { schnorr } from '@noble/curves/secp256k1.js'
import { WebSocketServer, type RawData, type WebSocket } from 'ws'
import { isGenuine, type NostrEvent } from '../../src/lightning/kinds/nwc/event.ts'

/** A filter of NIP-01, as far as clients of wallets use them. */
interface Filter {
  readonly kinds?: readonly number[]
  readonly authors?: readonly string[]
  readonly '#e'?: readonly string[]
  readonly '#p'?: readonly string[]
  readonly limit?: number
}

/** A fake relay. */
export interface FakeRelay {
  /** `ws://127.0.0.1:port`, or wss. */
  readonly url: string
  /** How many connections there are, and were in all. */
  readonly connections: { now: number; ever: number }
  /** Concurrent subscriptions on one connection; beyond them it says CLOSED. */
  most: number
  /** The most there ever were on one connection. */
  peak: number
  /** With what it refuses the next events of clients; null where it takes them. */
  refuses: string | null
  /** With what it refuses subscriptions. */
  closes: string | null
  /** It no longer says anything. */
  isMute: boolean
  /** Whether each of the next events of clients breaks its connection before it was taken. */
  readonly breaks: boolean[]
  /** Events that it took, duplicates among them. */
  readonly taken: NostrEvent[]
  /** What it keeps, of kinds that are replaced. */
  readonly kept: NostrEvent[]
  /** Sends an event to everybody who has subscribed to it. */
  publish(event: NostrEvent): void
  /** Sends an event to everybody who has subscribed to anything. */
  force(event: unknown): void
  /** Breaks all connections. */
  drop(): void
  close(): Promise<void>
}

/** Outcome of a received event: it is taken, and what follows is done once the client has read that it was. */
export type Take = (event: NostrEvent, then: { drop(): void }) => void

const HEX = /^[0-9a-f]{64}$/
const MEMBERS = ['content', 'created_at', 'id', 'kind', 'pubkey', 'sig', 'tags']

/** Starts a relay on loopback, strict in what it takes (NIP-01); it keeps nothing of ephemeral kinds. */
export async function startFakeRelay(take: Take, { port = 0 }: { readonly port?: number } = {}): Promise<FakeRelay> {
  const listening = createServer()
  const server = new WebSocketServer({ server: listening, maxPayload: 128 * 1024 })
  const subscriptions = new Map<WebSocket, Map<string, readonly Filter[]>>()
  const read = new Map<string, () => void>()

  function handle(socket: WebSocket, data: RawData): void {
    if (relay.isMute) return
    // A test's client sends text alone.
    const message = JSON.parse((data as Buffer).toString()) as readonly [string, ...unknown[]]
    const [type, first] = message
    const open = subscriptions.get(socket)
    if (open === undefined) return
    if (type === 'REQ' && typeof first === 'string') {
      // Each is looked at below.
      const filters = message.slice(2) as readonly Filter[]
      if (first.length > 64 || filters.length === 0) throw new Error('no subscription')
      for (const filter of filters) requireFilter(filter)
      const refusal =
        relay.closes ?? (open.size >= relay.most && !open.has(first) ? 'error: too many subscriptions' : null)
      if (refusal !== null) {
        send(socket, ['CLOSED', first, refusal])
        return
      }
      open.set(first, filters)
      relay.peak = Math.max(relay.peak, open.size)
      for (const event of relay.kept)
        if (filters.some(filter => fits(filter, event))) send(socket, ['EVENT', first, event])
      send(socket, ['EOSE', first])
    } else if (type === 'CLOSE' && typeof first === 'string') open.delete(first)
    else if (type === 'EVENT') accept(socket, requireEvent(first, relay.taken.length % 16 === 0))
    else throw new Error(`a message of type ${type}`)
  }

  function accept(socket: WebSocket, event: NostrEvent): void {
    const refusal = relay.refuses
    if (refusal !== null) {
      send(socket, ['OK', event.id, false, refusal])
      return
    }
    if (relay.breaks.shift() === true) {
      socket.terminate()
      return
    }
    relay.taken.push(event)
    send(socket, ['OK', event.id, true, ''])
    // The pong comes when the client has read it.
    read.set(event.id, () => {
      take(event, { drop: () => socket.terminate() })
    })
    socket.ping(event.id)
  }

  server.on('connection', socket => {
    relay.connections.now++
    relay.connections.ever++
    subscriptions.set(socket, new Map())
    socket.on('close', () => {
      relay.connections.now--
      subscriptions.delete(socket)
    })
    socket.on('pong', data => {
      const id = data.toString()
      read.get(id)?.()
      read.delete(id)
    })
    socket.on('message', data => {
      try {
        handle(socket, data)
      } catch (error) {
        send(socket, ['NOTICE', `invalid: ${String(error)}`])
        socket.close(1008)
      }
    })
  })
  listening.listen(port, '127.0.0.1')
  await once(listening, 'listening')
  const relay: FakeRelay = {
    // A server that listens on TCP has an address object.
    url: `ws://127.0.0.1:${(listening.address() as AddressInfo).port}`,
    connections: { now: 0, ever: 0 },
    most: 20,
    peak: 0,
    refuses: null,
    closes: null,
    isMute: false,
    breaks: [],
    taken: [],
    kept: [],
    publish: event => {
      for (const [socket, open] of subscriptions)
        for (const [name, filters] of open)
          if (filters.some(filter => fits(filter, event))) send(socket, ['EVENT', name, event])
    },
    force: event => {
      for (const [socket, open] of subscriptions) for (const name of open.keys()) send(socket, ['EVENT', name, event])
    },
    drop: () => {
      for (const socket of server.clients) socket.terminate()
    },
    close: async () => {
      for (const socket of server.clients) socket.terminate()
      await new Promise<void>(resolve => {
        server.close()
        listening.close(() => {
          resolve()
        })
      })
    }
  }
  return relay
}

function send(socket: WebSocket, message: readonly unknown[]): void {
  socket.send(JSON.stringify(message))
}

function fits(filter: Filter, event: NostrEvent): boolean {
  const tagged = (name: string, wanted: readonly string[] | undefined): boolean =>
    wanted === undefined || event.tags.some(([tag, value = '']) => tag === name && wanted.includes(value))
  return (
    (filter.kinds?.includes(event.kind) ?? true) &&
    (filter.authors?.includes(event.pubkey) ?? true) &&
    tagged('e', filter['#e']) &&
    tagged('p', filter['#p'])
  )
}

function requireFilter(filter: Filter): void {
  for (const [name, value] of Object.entries(filter) as ReadonlyArray<[string, unknown]>) {
    if (name === 'limit' || name === 'since') continue
    if (!Array.isArray(value) || value.length === 0 || value.length > 300) throw new Error(`the filter ${name}`)
    if (name === 'kinds' ? !value.every(Number.isInteger) : !value.every(one => HEX.test(String(one))))
      throw new Error(`the filter ${name}`)
    if (!['kinds', 'authors', '#e', '#p', 'ids'].includes(name)) throw new Error(`the filter ${name}`)
  }
}

/** Checks form and id, and the signature of some with a library that is not the gateway's and slow. */
function requireEvent(value: unknown, isDoubted: boolean): NostrEvent {
  // Looked at below.
  const event = value as NostrEvent
  if (Object.keys(event).toSorted().join() !== MEMBERS.join()) throw new Error('an event of other members')
  const { id, pubkey, created_at, kind, tags, content, sig } = event
  const serialised = JSON.stringify([0, pubkey, created_at, kind, tags, content])
  if (hash('sha256', serialised, 'hex') !== id) throw new Error('an event of another id')
  const isSigned = isDoubted
    ? schnorr.verify(Buffer.from(sig, 'hex'), Buffer.from(id, 'hex'), Buffer.from(pubkey, 'hex'))
    : isGenuine(event)
  if (!isSigned) throw new Error('an event with a bad signature')
  return event
}
