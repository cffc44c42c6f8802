import { NothingSent } from '../../provider-calls/errors.ts'
import { KeyUnusable } from '../../provider-calls/keyed-calls.ts'
import { jsonOrUndefined } from '../../../platform/system/json.ts'
import { WebSocketConnection, type WebSocketOptions } from '../../provider-calls/web-socket.ts'
import { KINDS, readNostrEvent, type NostrEvent } from './event.ts'
import { EventGate, firstOf } from './news.ts'
import { abusedBy, lateResponse, lateRelay, responseLost, relayRefusal, relayUnavailable, unreached } from './faults.ts'

interface Ends<T> {
  readonly resolve: (value: T) => void
  readonly reject: (error: Error) => void
}

interface Waiting extends Ends<NostrEvent> {
  readonly event: NostrEvent
  readonly wallet: string
  readonly since: number
  isSent: boolean
  /** Taken by the relay, so the wallet may have it. */
  isTaken: boolean
}

interface Query extends Ends<readonly NostrEvent[]> {
  readonly wallet: string
  readonly found: NostrEvent[]
}

interface Listener extends Ends<void> {
  /** Sender's and receiver's public keys. */
  readonly wallet: string
  readonly client: string
  heard(event: NostrEvent): void
}

/** Followed connections; the others are polled. */
const MAX_LISTENERS = 250
/** Response subscriptions per connection, and requests in each: relays allow about 20 of 100 entries. */
const MAX_SUBSCRIPTIONS = 12
const MAX_REQUESTS = 50
/** Milliseconds before an idle connection is closed. */
const IDLE = 60_000
/** Milliseconds of backoff after a second failed connection, first and longest. */
const FIRST_REST = 1_000
const LONGEST_REST = 30_000
/** Milliseconds without calls to an abusive relay. */
const ABUSE_REST = 60_000
const MAX_FOUND = 4
/** Subscription to notifications; responses use r1, r2 …, stored events q1, q2 … */
const NEWS = 'news'

/**
 * One relay over one WebSocket that all its connections share (NIP-01), opened on demand. Subscriptions precede
 * requests, since relays store no responses. They filter by author and request only, since wallets may omit our key.
 * Requests of one turn share a subscription. A disconnect rejects all: callers repeat what is safe.
 */
export class Relay {
  readonly #options: WebSocketOptions
  readonly #waiting = new Map<string, Waiting>()
  #fresh: Waiting[] = []
  readonly #subscriptions = new Map<string, Set<Waiting>>()
  readonly #queries = new Map<string, Query>()
  readonly #listeners = new Set<Listener>()
  #connection: WebSocketConnection | null = null
  #gate: EventGate | null = null
  #count = 0
  #isPlanned = false
  #isNewsStale = false
  #isClosed = false
  #failures = 0
  #restsUntil = 0
  #fault: Error | null = null
  #idleSince = 0

  constructor(options: Omit<WebSocketOptions, 'unreached'>) {
    this.#options = { ...options, unreached }
  }

  get isIdle(): boolean {
    return this.#waiting.size === 0 && this.#queries.size === 0 && this.#listeners.size === 0
  }

  /**
   * Sends a request and resolves with the verified, still encrypted response.
   * @throws NothingSent where the wallet certainly never gets it, ProviderUnavailable where it may
   */
  async ask(event: NostrEvent, wallet: string, limit: AbortSignal): Promise<NostrEvent> {
    return await this.#within<NostrEvent>(limit, ends => {
      const waiting: Waiting = {
        event,
        wallet,
        since: this.#options.clock.monotonic(),
        isSent: false,
        isTaken: false,
        ...after(() => {
          this.#forget(waiting)
        }, ends)
      }
      this.#waiting.set(event.id, waiting)
      this.#fresh.push(waiting)
      this.#plan()
      return () => {
        waiting.reject(lateResponse(waiting))
        this.#suspect(waiting.isTaken ? -1 : waiting.since)
      }
    })
  }

  /**
   * Verified announcements of a wallet that the relay stores.
   * @throws ProviderUnavailable
   */
  async announcements(wallet: string, limit: AbortSignal): Promise<readonly NostrEvent[]> {
    return await this.#within<readonly NostrEvent[]>(limit, ends => {
      const name = `q${++this.#count}`
      const since = this.#options.clock.monotonic()
      const end = (): void => {
        if (this.#queries.delete(name)) this.#send(['CLOSE', name])
        this.#rest()
      }
      const query: Query = { wallet, found: [], ...after(end, ends) }
      this.#queries.set(name, query)
      if (this.#ensure()) this.#query(name, query)
      return () => {
        query.reject(lateRelay())
        this.#suspect(since)
      }
    })
  }

  /**
   * Passes verified notifications of a wallet to a client until `signal` aborts.
   * @throws ProviderUnavailable where the connection ends or the wallet floods
   */
  async follow(wallet: string, client: string, signal: AbortSignal, heard: Listener['heard']): Promise<void> {
    if (this.#listeners.size >= MAX_LISTENERS) throw new NothingSent(undefined, undefined, undefined, 'rate')
    await this.#within<void>(signal, ends => {
      const changed = (): void => {
        this.#isNewsStale = true
        this.#plan()
      }
      const end = (): void => {
        this.#listeners.delete(listener)
        this.#rest()
        changed()
      }
      const listener: Listener = { wallet, client, heard, ...after(end, ends) }
      this.#listeners.add(listener)
      changed()
      return listener.resolve
    })
  }

  close(): void {
    this.#isClosed = true
    this.#connection?.end()
    this.#lost(unreached('it was closed'))
  }

  /** `begin` returns the cleanup for the time limit. */
  async #within<T>(limit: AbortSignal, begin: (ends: Ends<T>) => () => void): Promise<T> {
    if (limit.aborted || this.#isClosed) throw new NothingSent(undefined, undefined, undefined, 'timeout')
    const { promise, ...ends } = Promise.withResolvers<T>()
    const giveUp = begin(ends)
    limit.addEventListener('abort', giveUp)
    try {
      return await promise
    } finally {
      limit.removeEventListener('abort', giveUp)
    }
  }

  #forget(waiting: Waiting): void {
    this.#waiting.delete(waiting.event.id)
    this.#fresh = this.#fresh.filter(one => one !== waiting)
    for (const [name, covered] of this.#subscriptions) {
      if (!covered.delete(waiting) || covered.size > 0) continue
      this.#subscriptions.delete(name)
      this.#send(['CLOSE', name])
    }
    if (this.#fresh.length > 0) this.#plan()
    this.#rest()
  }

  #rest(): void {
    if (this.isIdle) this.#idleSince = this.#options.clock.monotonic()
  }

  #plan(): void {
    if (this.#isPlanned) return
    this.#isPlanned = true
    setImmediate(() => {
      this.#isPlanned = false
      if (this.#isClosed || (this.#fresh.length === 0 && !this.#isNewsStale)) return
      // Removing a listener opens no connection.
      if (this.isIdle && this.#connection === null) return
      if (this.#ensure()) this.#go()
    })
  }

  #ensure(): boolean {
    if (this.#connection !== null) return this.#connection.isOpen
    const left = this.#restsUntil - this.#options.clock.monotonic()
    if (left > 0) {
      // A bad key stays bad during backoff.
      this.#refuse(this.#fault instanceof KeyUnusable ? this.#fault : relayUnavailable(Math.ceil(left / 1000)))
      return false
    }
    const isCurrent = () => connection === this.#connection
    const gate = new EventGate(this.#options.clock, () => {
      if (!isCurrent()) return
      connection.end()
      this.#restsUntil = this.#options.clock.monotonic() + ABUSE_REST
      this.#lost(abusedBy())
    })
    const connection = new WebSocketConnection(this.#options, {
      opened: () => {
        if (!isCurrent()) return
        this.#go()
        for (const [name, query] of this.#queries) this.#query(name, query)
      },
      said: text => {
        if (!isCurrent()) return
        this.#failures = 0
        if (gate.takes(text)) this.#hear(text)
      },
      ended: fault => {
        if (isCurrent()) this.#lost(fault)
      },
      looked: () => {
        const idle = this.#options.clock.monotonic() - this.#idleSince
        if (!isCurrent() || !this.isIdle || idle < IDLE) return
        this.#connection = null
        connection.end()
      }
    })
    this.#connection = connection
    this.#gate = gate
    this.#rest()
    return false
  }

  #go(): void {
    while (this.#fresh.length > 0 && this.#subscriptions.size < MAX_SUBSCRIPTIONS) {
      const covered = this.#fresh.splice(0, MAX_REQUESTS)
      const name = `r${++this.#count}`
      this.#subscriptions.set(name, new Set(covered))
      const authors = [...new Set(covered.map(({ wallet }) => wallet))]
      this.#send(['REQ', name, { kinds: [KINDS.response], authors, '#e': covered.map(({ event }) => event.id) }])
    }
    if (!this.#isNewsStale) return
    this.#isNewsStale = false
    const listeners = [...this.#listeners]
    const filter = {
      kinds: [KINDS.notification, KINDS.oldNotification],
      authors: [...new Set(listeners.map(({ wallet }) => wallet))],
      '#p': [...new Set(listeners.map(({ client }) => client))]
    }
    this.#send(listeners.length === 0 ? ['CLOSE', NEWS] : ['REQ', NEWS, filter])
  }

  #query(name: string, { wallet }: Query): void {
    this.#send(['REQ', name, { kinds: [KINDS.info], authors: [wallet], limit: 1 }])
  }

  #send(message: readonly unknown[]): void {
    this.#connection?.send(JSON.stringify(message))
  }

  #hear(text: string): void {
    const message = jsonOrUndefined(text)
    if (!Array.isArray(message)) return
    const [type, name, value, reason]: readonly unknown[] = message
    if (typeof name !== 'string') return
    if (type === 'EVENT') this.#heardEvent(name, value)
    else if (type === 'EOSE') this.#listening(name)
    else if (type === 'OK') this.#taken(name, value === true, typeof reason === 'string' ? reason : '')
    else if (type === 'CLOSED') this.#refused(name, typeof value === 'string' ? value : '')
  }

  #heardEvent(name: string, value: unknown): void {
    const event = readNostrEvent(value)
    const gate = this.#gate
    if (event === null || gate === null) return
    if (name === NEWS) return this.#heardNews(event, gate)
    const query = this.#queries.get(name)
    if (query !== undefined) {
      const { found, wallet } = query
      const isWanted = () => found.length < MAX_FOUND && this.#queries.get(name) === query
      if (event.kind === KINDS.info && event.pubkey === wallet && isWanted())
        gate.verify(event, isWanted, () => found.push(event))
      return
    }
    const waiting = firstOf(event, 'e', id => this.#waiting.get(id))
    if (waiting?.isSent !== true || event.kind !== KINDS.response || event.pubkey !== waiting.wallet) return
    gate.verify(event, () => this.#waiting.get(waiting.event.id) === waiting, waiting.resolve)
  }

  #heardNews(event: NostrEvent, gate: EventGate): void {
    const isNews = event.kind === KINDS.notification || event.kind === KINDS.oldNotification
    for (const listener of isNews ? this.#listeners : []) {
      if (listener.wallet !== event.pubkey || firstOf(event, 'p', client => client === listener.client) !== true)
        continue
      // A flooding wallet is polled instead, which protects others on this relay.
      if (gate.takesFrom(event.pubkey)) gate.verify(event, () => this.#listeners.has(listener), listener.heard)
      else listener.reject(abusedBy())
    }
  }

  #listening(name: string): void {
    const query = this.#queries.get(name)
    if (query !== undefined) return query.resolve(query.found)
    for (const waiting of this.#subscriptions.get(name) ?? []) {
      if (waiting.isSent) continue
      waiting.isSent = true
      this.#gate?.onRequest()
      this.#send(['EVENT', waiting.event])
    }
  }

  #taken(id: string, isAccepted: boolean, reason: string): void {
    const waiting = this.#waiting.get(id)
    if (waiting === undefined) return
    if (isAccepted || reason.startsWith('duplicate:')) waiting.isTaken = true
    else waiting.reject(relayRefusal(reason))
  }

  #refused(name: string, reason: string): void {
    const query = this.#queries.get(name)
    if (query !== undefined) return query.reject(relayRefusal(reason))
    for (const waiting of this.#subscriptions.get(name) ?? [])
      waiting.reject(waiting.isSent ? responseLost() : relayRefusal(reason))
  }

  #lost(fault: Error): void {
    this.#connection = null
    this.#gate?.close()
    this.#fault = fault
    this.#subscriptions.clear()
    // Reset by a relay's first message.
    const rest = this.#failures === 0 ? 0 : FIRST_REST * 2 ** Math.min(this.#failures - 1, 10)
    this.#failures++
    this.#restsUntil = Math.max(this.#restsUntil, this.#options.clock.monotonic() + Math.min(rest, LONGEST_REST))
    this.#refuse(fault)
  }

  /** Rejects all, which callers repeat where that is safe. What was sent may have arrived. */
  #refuse(fault: Error): void {
    for (const waiting of this.#waiting.values()) waiting.reject(waiting.isSent ? responseLost() : fault)
    for (const one of [...this.#queries.values(), ...this.#listeners]) one.reject(fault)
  }

  /** Treats a relay silent since `since` as dead, so that requests are retried. */
  #suspect(since: number): void {
    const connection = this.#connection
    if (connection === null || connection.heardAt > since) return
    connection.end()
    this.#lost(unreached('it fell silent'))
  }
}

function after<T>(done: () => void, { resolve, reject }: Ends<T>): Ends<T> {
  return {
    resolve(value) {
      done()
      resolve(value)
    },
    reject(error) {
      done()
      reject(error)
    }
  }
}
