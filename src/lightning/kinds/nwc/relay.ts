import type { Timer } from '../../../platform/system/clock.ts'
import { NothingSent } from '../../provider-calls/errors.ts'
import { KeyUnusable } from '../../provider-calls/keyed-calls.ts'
import { parseJson } from '../../provider-calls/responses.ts'
import { WebSocketConnection, type WebSocketOptions } from '../../provider-calls/web-socket.ts'
import { KINDS, readNostrEvent, type NostrEvent } from './event.ts'
import { EventGate } from './event-gate.ts'
import { abusedBy, lateResponse, lateRelay, lostResponse, relayRefusal, relayAway, unreached } from './faults.ts'

/** Who is told of notifications of a wallet. */
export interface NewsListener {
  /** Public keys, of whom it comes and for whom it is. */
  readonly wallet: string
  readonly client: string
  /** It is genuine, of this wallet and for this client. */
  heard(event: NostrEvent): void
}

/** Asked for an answer to a request. */
interface Waiting {
  readonly event: NostrEvent
  readonly wallet: string
  readonly since: number
  /** It went out on the present connection, on any. */
  isOut: boolean
  isSent: boolean
  /** It went out on an earlier connection, whose relay may have passed it on before it broke. */
  mayBeOut: boolean
  /** The relay said that it has it, so that the wallet may have it too. */
  isTaken: boolean
  /** The first connection broke before the relay had taken it: there is no third. */
  isAgain: boolean
  resolve(event: NostrEvent): void
  reject(error: Error): void
}

/** Asks for stored events of one kind and author. */
export interface StoredFilter {
  readonly kinds: readonly [number]
  readonly authors: readonly [string]
  readonly limit: number
}

interface Query {
  readonly filter: StoredFilter
  readonly found: NostrEvent[]
  isAgain: boolean
  resolve(events: readonly NostrEvent[]): void
  reject(error: Error): void
}

/** Subscriptions to answers on one connection, and requests in one of them: relays allow about twenty of 100 entries. */
const MAX_SUBSCRIPTIONS = 12
const MAX_REQUESTS = 50
/** Connections of one relay whose notifications are heard at once; the payments of others are asked for. */
const MAX_LISTENERS = 250
/** Milliseconds after which a relay that nobody asks is left. */
const IDLE = 60_000
/** Milliseconds of the first and the longest rest after two attempts to connect in a row have failed. */
const FIRST_REST = 1_000
const LONGEST_REST = 30_000
/** Milliseconds for which a relay is left alone that floods us or forges events. */
const ABUSE_REST = 60_000
/** Events that are read of one query. */
const MAX_FOUND = 4
/** The subscription to notifications; those to answers are r1, r2 …, those to what is kept q1, q2 … */
const NEWS = 'news'

/**
 * One relay, over one WebSocket that all its wallets and connections share (NIP-01). It is opened when somebody asks and
 * closed a minute after nobody does. A request is subscribed to before it is sent, since relays keep no answers, and by
 * its author and itself alone, since wallets need not name us. What one turn of the loop brings shares a subscription.
 *
 * A request whose connection broke before the relay had taken it goes out once more, as it is: signed once, it is one
 * request for every wallet, however often it comes.
 */
export class Relay {
  readonly #options: WebSocketOptions
  readonly #waiting = new Map<string, Waiting>()
  /** Those that no subscription covers yet. */
  #fresh: Waiting[] = []
  readonly #subscriptions = new Map<string, Set<Waiting>>()
  readonly #queries = new Map<string, Query>()
  readonly #listeners = new Map<string, NewsListener>()
  #connection: WebSocketConnection | null = null
  #gate: EventGate | null = null
  #count = 0
  #isPlanned = false
  #isNewsStale = false
  #isClosed = false
  #failures = 0
  #restsUntil = 0
  /** What broke or prevented the last connection. */
  #fault: Error | null = null
  #idleSince = 0
  #retry: Timer | null = null

  constructor(options: Omit<WebSocketOptions, 'unreached'>) {
    this.#options = { ...options, unreached }
  }

  /** Whether nobody asks or listens. */
  get isIdle(): boolean {
    return this.#waiting.size === 0 && this.#queries.size === 0 && this.#listeners.size === 0
  }

  /**
   * Sends a request to a wallet; resolves with the wallet's answer, genuine and still encrypted.
   * @throws NothingSent where the wallet certainly never gets it, ProviderUnavailable where it may
   */
  async ask(event: NostrEvent, wallet: string, limit: AbortSignal): Promise<NostrEvent> {
    return await this.#within<NostrEvent>(limit, (resolve, reject) => {
      const waiting: Waiting = {
        event,
        wallet,
        since: this.#options.clock.monotonic(),
        isOut: false,
        isSent: false,
        mayBeOut: false,
        isTaken: false,
        isAgain: false,
        resolve: response => {
          this.#forget(waiting)
          resolve(response)
        },
        reject: error => {
          this.#forget(waiting)
          reject(error)
        }
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

  /** The events that the relay keeps, genuine ones only. @throws ProviderUnavailable */
  async stored(filter: StoredFilter, limit: AbortSignal): Promise<readonly NostrEvent[]> {
    return await this.#within<readonly NostrEvent[]>(limit, (resolve, reject) => {
      const name = `q${++this.#count}`
      const since = this.#options.clock.monotonic()
      const end = (): void => {
        if (this.#queries.delete(name)) this.#send(['CLOSE', name])
        this.#rest()
      }
      const query: Query = {
        filter,
        found: [],
        isAgain: false,
        resolve: events => {
          end()
          resolve(events)
        },
        reject: error => {
          end()
          reject(error)
        }
      }
      this.#queries.set(name, query)
      if (this.#ensure()) this.#send(['REQ', name, filter])
      return () => {
        query.reject(lateRelay())
        // Its connection was given up before: the present one is new.
        if (!query.isAgain) this.#suspect(since)
      }
    })
  }

  /** Has a listener hear notifications, in the place of one for the same two; false where there are too many. */
  listen(listener: NewsListener): boolean {
    const name = `${listener.wallet} ${listener.client}`
    if (this.#listeners.size >= MAX_LISTENERS && !this.#listeners.has(name)) return false
    this.#listeners.set(name, listener)
    this.#isNewsStale = true
    this.#plan()
    return true
  }

  /** Ends that; one that does not listen is passed over. */
  unlisten({ wallet, client }: NewsListener): void {
    if (!this.#listeners.delete(`${wallet} ${client}`)) return
    this.#isNewsStale = true
    this.#rest()
    this.#plan()
  }

  /** Ends the connection; whoever waits is told that it is lost. */
  close(): void {
    this.#isClosed = true
    this.#listeners.clear()
    this.#retry?.cancel()
    this.#connection?.end()
    this.#lost(lostResponse(), true)
  }

  /** Runs what settles by itself, or is given up with the time limit by what `begin` gives back. */
  async #within<T>(
    limit: AbortSignal,
    begin: (resolve: (value: T) => void, reject: (error: Error) => void) => () => void
  ): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    if (limit.aborted || this.#isClosed) throw new NothingSent(undefined, undefined, undefined, 'timeout')
    const giveUp = begin(resolve, reject)
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

  /** What was asked for in this turn of the loop goes out together, at its end. */
  #plan(): void {
    if (this.#isPlanned) return
    this.#isPlanned = true
    setImmediate(() => {
      this.#isPlanned = false
      if (this.#isClosed || (this.#fresh.length === 0 && !this.#isNewsStale)) return
      // An end of listening opens no connection.
      if (this.isIdle && this.#connection === null) return
      if (this.#ensure()) this.#go()
    })
  }

  /** Whether messages can be sent; else a connection is being opened, or whoever waits was told why none is. */
  #ensure(): boolean {
    if (this.#connection !== null) return this.#connection.isOpen
    const left = this.#restsUntil - this.#options.clock.monotonic()
    if (left > 0) {
      // What is wrong with a key stays wrong while the relay rests.
      this.#refuse(this.#fault instanceof KeyUnusable ? this.#fault : relayAway(Math.ceil(left / 1000)))
      return false
    }
    const gate = new EventGate(this.#options.clock, () => {
      if (connection !== this.#connection) return
      connection.end()
      this.#restsUntil = this.#options.clock.monotonic() + ABUSE_REST
      this.#lost(abusedBy(), false)
    })
    const connection = new WebSocketConnection(this.#options, {
      opened: () => {
        if (connection !== this.#connection) return
        this.#go()
        for (const [name, { filter }] of this.#queries) this.#send(['REQ', name, filter])
      },
      said: text => {
        if (connection !== this.#connection) return
        this.#failures = 0
        if (gate.takes(text)) this.#hear(text)
      },
      ended: (fault, wasOpen) => {
        if (connection === this.#connection) this.#lost(fault, !wasOpen)
      },
      looked: () => {
        const idle = this.#options.clock.monotonic() - this.#idleSince
        if (connection !== this.#connection || !this.isIdle || idle < IDLE) return
        this.#connection = null
        connection.end()
      }
    })
    this.#connection = connection
    this.#gate = gate
    this.#rest()
    return false
  }

  /** Subscribes to the answers to what was not sent yet; it goes out when the relay has said that it listens. */
  #go(): void {
    while (this.#fresh.length > 0) {
      const place = this.#place()
      if (place === null) break
      const [name, covered] = place
      for (const waiting of this.#fresh.splice(0, MAX_REQUESTS - covered.size)) covered.add(waiting)
      const all = [...covered]
      this.#send([
        'REQ',
        name,
        {
          kinds: [KINDS.response],
          authors: [...new Set(all.map(({ wallet }) => wallet))],
          '#e': all.map(({ event }) => event.id)
        }
      ])
    }
    if (!this.#isNewsStale) return
    this.#isNewsStale = false
    const listeners = [...this.#listeners.values()]
    if (listeners.length === 0) this.#send(['CLOSE', NEWS])
    else
      this.#send([
        'REQ',
        NEWS,
        {
          kinds: [KINDS.notification, KINDS.oldNotification],
          authors: [...new Set(listeners.map(({ wallet }) => wallet))],
          '#p': [...new Set(listeners.map(({ client }) => client))]
        }
      ])
  }

  /** A new subscription, or the emptiest where there are as many as relays allow; null where all are full. */
  #place(): readonly [string, Set<Waiting>] | null {
    if (this.#subscriptions.size < MAX_SUBSCRIPTIONS) {
      const made = [`r${++this.#count}`, new Set<Waiting>()] as const
      this.#subscriptions.set(...made)
      return made
    }
    const [emptiest] = [...this.#subscriptions].toSorted(([, one], [, other]) => one.size - other.size)
    return emptiest !== undefined && emptiest[1].size < MAX_REQUESTS ? emptiest : null
  }

  #send(message: readonly unknown[]): void {
    this.#connection?.send(JSON.stringify(message))
  }

  #hear(text: string): void {
    const message = parseJson(text)
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
      const { found, filter } = query
      const isWanted = () => found.length < MAX_FOUND && this.#queries.get(name) === query
      if (filter.kinds[0] === event.kind && filter.authors[0] === event.pubkey && isWanted())
        gate.verify(event, isWanted, () => found.push(event))
      return
    }
    const waiting = firstOf(event, 'e', id => this.#waiting.get(id))
    if (waiting?.isSent !== true || event.kind !== KINDS.response || event.pubkey !== waiting.wallet) return
    gate.verify(
      event,
      () => this.#waiting.get(waiting.event.id) === waiting,
      () => {
        waiting.resolve(event)
      }
    )
  }

  #heardNews(event: NostrEvent, gate: EventGate): void {
    const nameOf = (client: string): string => `${event.pubkey} ${client}`
    const listener = firstOf(event, 'p', client => this.#listeners.get(nameOf(client)))
    if (listener === undefined || (event.kind !== KINDS.notification && event.kind !== KINDS.oldNotification)) return
    // A wallet that floods is polled instead: the others of this relay must not suffer from it.
    if (!gate.takesFrom(event.pubkey)) return this.unlisten(listener)
    gate.verify(
      event,
      () => this.#listeners.get(nameOf(listener.client)) === listener,
      () => {
        listener.heard(event)
      }
    )
  }

  /** The relay listens: what waits for that goes out. */
  #listening(name: string): void {
    const query = this.#queries.get(name)
    if (query !== undefined) return query.resolve(query.found)
    for (const waiting of this.#subscriptions.get(name) ?? []) {
      if (waiting.isOut) continue
      waiting.isOut = true
      waiting.isSent = true
      this.#gate?.asked()
      this.#send(['EVENT', waiting.event])
    }
  }

  #taken(id: string, isAccepted: boolean, reason: string): void {
    const waiting = this.#waiting.get(id)
    if (waiting === undefined) return
    if (isAccepted || reason.startsWith('duplicate:')) waiting.isTaken = true
    else waiting.reject(waiting.mayBeOut ? lostResponse() : relayRefusal(reason))
  }

  /** The relay ends a subscription, or never began it. */
  #refused(name: string, reason: string): void {
    const query = this.#queries.get(name)
    if (query !== undefined) return query.reject(relayRefusal(reason))
    for (const waiting of this.#subscriptions.get(name) ?? [])
      waiting.reject(waiting.isSent ? lostResponse() : relayRefusal(reason))
  }

  /** The connection broke, or none came about (`isUnreached`): what the relay has not taken may go out once more. */
  #lost(fault: Error, isUnreached: boolean): void {
    this.#connection = null
    this.#gate?.close()
    this.#fault = fault
    this.#subscriptions.clear()
    this.#isNewsStale = true
    // Set back by the first word of a relay.
    const rest = this.#failures === 0 ? 0 : FIRST_REST * 2 ** Math.min(this.#failures - 1, 10)
    this.#failures++
    this.#restsUntil = Math.max(this.#restsUntil, this.#options.clock.monotonic() + Math.min(rest, LONGEST_REST))
    if (isUnreached) this.#refuse(fault)
    else this.#askAgain()
    if (this.#isClosed || this.isIdle) return
    if (this.#listeners.size > 0) this.#listenAgain()
    if (this.#waiting.size > 0 || this.#queries.size > 0) this.#ensure()
  }

  #askAgain(): void {
    const waiting = [...this.#waiting.values()]
    this.#fresh = waiting.filter(({ isTaken, isAgain }) => !isTaken && !isAgain)
    for (const one of waiting) {
      if (one.isTaken || one.isAgain) one.reject(one.isSent ? lostResponse() : unreached('it breaks every connection'))
      one.isAgain = true
      one.mayBeOut = one.isSent
      one.isOut = false
    }
    for (const query of this.#queries.values()) {
      if (query.isAgain) query.reject(lostResponse())
      query.isAgain = true
    }
  }

  /** Whoever listens without asking waits until the relay may be called again. */
  #listenAgain(): void {
    this.#retry?.cancel()
    const wait = Math.max(FIRST_REST, this.#restsUntil - this.#options.clock.monotonic())
    this.#retry = this.#options.clock.after(wait, () => {
      if (!this.#isClosed && this.#listeners.size > 0) this.#ensure()
    })
  }

  /** No connection is to be had: everybody is told. What went out on an earlier one may have arrived. */
  #refuse(fault: Error): void {
    for (const waiting of this.#waiting.values()) waiting.reject(waiting.isSent ? lostResponse() : fault)
    for (const query of this.#queries.values()) query.reject(fault)
  }

  /** A relay that said nothing since it was asked is taken for dead; the others who wait do not wait in vain. */
  #suspect(since: number): void {
    const connection = this.#connection
    if (connection === null || connection.heardAt > since) return
    connection.end()
    this.#lost(lostResponse(), false)
  }
}

/** What is kept under the first value of a tag that names something. */
function firstOf<T>(event: NostrEvent, tag: string, find: (value: string) => T | undefined): T | undefined {
  for (const [name, value = ''] of event.tags) {
    const found = name === tag ? find(value) : undefined
    if (found !== undefined) return found
  }
  return undefined
}
