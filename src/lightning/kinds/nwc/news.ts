import type { Clock, Timer } from '../../../platform/system/clock.ts'
import { JsonRecord } from '../../provider-calls/errors.ts'
import { jsonOrUndefined } from '../../../platform/system/json.ts'
import { readResponse } from '../../../engine/formats/response-schema.ts'
import { readNwcTransaction } from './responses.ts'
import type { NwcWallet } from './calls.ts'
import { type NostrEvent, KINDS, isGenuine } from './event.ts'
import { UndecryptableError, type Conversation } from './conversation.ts'
import type { Relay } from './relay.ts'

interface Expecting {
  readonly listener: NewsListener
  readonly relays: readonly Relay[]
  /** End of each by payment hash. */
  readonly ends: Map<string, number>
  timer: Timer | null
}

/** Invoices per connection, and connections; the others are polled. */
const MAX_INVOICES = 1000
const MAX_CONNECTIONS = 5000
/** Milliseconds of listening after an invoice's end, for payments in its last second. */
const AFTER_END = 5_000

/**
 * Listens for `payment_received`, which many wallets send, while invoices are open, so idle relays can be closed.
 * Notifications are signed by the wallet, as look-ups are. The stored keys decrypt and sign nothing.
 */
export class News {
  readonly #clock: Clock
  readonly #settled: (paymentHash: string) => Promise<void>
  readonly #connections = new Map<string, Expecting>()

  /** `settled` is called once per payment and never rejects. */
  constructor(clock: Clock, settled: (paymentHash: string) => Promise<void>) {
    this.#clock = clock
    this.#settled = settled
  }

  /** Listens for an invoice's payment. */
  expect({ key, client, conversation, relays }: NwcWallet, paymentHash: string, until: number): void {
    const name = `${key.wallet} ${client}`
    const known = this.#connections.get(name)
    if (known !== undefined) {
      if (known.ends.size < MAX_INVOICES) known.ends.set(paymentHash, until + AFTER_END)
      return
    }
    if (this.#connections.size >= MAX_CONNECTIONS) return
    const created: Expecting = {
      listener: {
        wallet: key.wallet,
        client,
        heard: event => {
          this.#heard(name, created, conversation, event)
        }
      },
      relays,
      ends: new Map([[paymentHash, until + AFTER_END]]),
      timer: null
    }
    if (!relays.map(relay => relay.listen(created.listener)).includes(true)) return
    this.#connections.set(name, created)
    this.#wait(name, created)
  }

  close(): void {
    for (const { timer } of this.#connections.values()) timer?.cancel()
    this.#connections.clear()
  }

  #heard(name: string, made: Expecting, conversation: Conversation, { content }: NostrEvent): void {
    let text: string
    try {
      text = conversation.decrypt(content)
    } catch (error) {
      if (!(error instanceof UndecryptableError)) throw error
      return
    }
    const message = readResponse(JsonRecord, jsonOrUndefined(text))
    const payment = readNwcTransaction(message?.['notification'], this.#clock.now())
    if (message?.['notification_type'] !== 'payment_received' || payment === null) return
    if (payment.type === 'outgoing' || payment.state !== 'settled' || !made.ends.delete(payment.paymentHash)) return
    if (made.ends.size === 0) this.#stop(name, made)
    void this.#settled(payment.paymentHash)
  }

  #wait(name: string, made: Expecting): void {
    made.timer = this.#clock.after(Math.max(...made.ends.values()) - this.#clock.now(), () => {
      const now = this.#clock.now()
      for (const [paymentHash, end] of made.ends) if (end <= now) made.ends.delete(paymentHash)
      if (made.ends.size === 0) this.#stop(name, made)
      else this.#wait(name, made)
    })
  }

  #stop(name: string, { listener, relays, timer }: Expecting): void {
    timer?.cancel()
    this.#connections.delete(name)
    for (const relay of relays) relay.unlisten(listener)
  }
}

export interface NewsListener {
  /** Sender's and receiver's public keys. */
  readonly wallet: string
  readonly client: string
  /** The event is verified and from this wallet to this client. */
  heard(event: NostrEvent): void
}

/** Connections per relay with notifications; the others are polled. */
const MAX_LISTENERS = 250

export class NewsListeners {
  readonly #all = new Map<string, NewsListener>()

  get size(): number {
    return this.#all.size
  }

  add(listener: NewsListener): boolean {
    const name = nameOf(listener.wallet, listener.client)
    if (this.#all.size >= MAX_LISTENERS && !this.#all.has(name)) return false
    this.#all.set(name, listener)
    return true
  }

  remove({ wallet, client }: NewsListener): boolean {
    return this.#all.delete(nameOf(wallet, client))
  }

  clear(): void {
    this.#all.clear()
  }

  filter(): object {
    const listeners = [...this.#all.values()]
    return {
      kinds: [KINDS.notification, KINDS.oldNotification],
      authors: [...new Set(listeners.map(({ wallet }) => wallet))],
      '#p': [...new Set(listeners.map(({ client }) => client))]
    }
  }

  /** Dispatches a verified event. Returns the listener of a flooding wallet. */
  heard(event: NostrEvent, gate: EventGate): NewsListener | undefined {
    const find = (client: string) => this.#all.get(nameOf(event.pubkey, client))
    const listener = firstOf(event, 'p', find)
    if (listener === undefined || (event.kind !== KINDS.notification && event.kind !== KINDS.oldNotification))
      return undefined
    if (!gate.takesFrom(event.pubkey)) return listener
    gate.verify(
      event,
      () => find(listener.client) === listener,
      genuine => {
        listener.heard(genuine)
      }
    )
    return undefined
  }
}

function nameOf(wallet: string, client: string): string {
  return `${wallet} ${client}`
}

/** Looks up by the first known value of a tag. */
export function firstOf<T>(event: NostrEvent, tag: string, find: (value: string) => T | undefined): T | undefined {
  for (const [name, value = ''] of event.tags) {
    const found = name === tag ? find(value) : undefined
    if (found !== undefined) return found
  }
  return undefined
}

/** Messages, events and characters per relay and second, and events per author. */
const PER_SECOND = Object.freeze({ messages: 1_000, events: 200, chars: 4 * 1024 * 1024, ofAuthor: 20 })
const SECOND = 1_000
/** Extra allowance per pending request, up to a maximum. */
const PER_REQUEST = Object.freeze({ messages: 4, events: 1, most: 1_000 })
const MAX_FORGED = 20
/** Signatures verified per event loop turn; each takes about 1 ms. */
const PER_TURN = 10

/**
 * Limits the work that a relay can cause, since merchants choose relays. Counts events before parsing and verifies few
 * signatures per turn.
 */
export class EventGate {
  readonly #clock: Clock
  /** The relay floods or forges: close the connection. */
  readonly #abused: () => void
  #since = -Infinity
  #messages = 0
  #events = 0
  #chars = 0
  readonly #authors = new Map<string, number>()
  #forged = 0
  #verified = 0
  readonly #queue: Array<() => void> = []
  #isPlanned = false
  #isClosed = false

  constructor(clock: Clock, abused: () => void) {
    this.#clock = clock
    this.#abused = abused
  }

  takes(text: string): boolean {
    if (this.#isClosed) return false
    const now = this.#clock.monotonic()
    if (now - this.#since >= SECOND) {
      this.#since = now
      this.#chars = 0
      // Allowances persist until used.
      this.#messages = Math.min(this.#messages, 0)
      this.#events = Math.min(this.#events, 0)
      this.#authors.clear()
    }
    this.#messages++
    this.#chars += text.length
    if (text.startsWith('["EVENT"')) this.#events++
    const isFlood =
      this.#messages > PER_SECOND.messages || this.#events > PER_SECOND.events || this.#chars > PER_SECOND.chars
    if (isFlood) this.#end()
    return !isFlood
  }

  onRequest(): void {
    const { messages, events, most } = PER_REQUEST
    this.#messages = Math.max(this.#messages - messages, -messages * most)
    this.#events = Math.max(this.#events - events, -events * most)
  }

  /** Counts an author's event; false when over the limit for this second. */
  takesFrom(author: string): boolean {
    const count = (this.#authors.get(author) ?? 0) + 1
    this.#authors.set(author, count)
    return count <= PER_SECOND.ofAuthor
  }

  /** Calls `genuine` if the event is valid and still wanted. */
  verify(event: NostrEvent, isWanted: () => boolean, genuine: (event: NostrEvent) => void): void {
    const check = (): void => {
      if (this.#isClosed || !isWanted()) return
      this.#verified++
      if (isGenuine(event)) genuine(event)
      else if (++this.#forged > MAX_FORGED) this.#end()
    }
    if (this.#verified < PER_TURN && this.#queue.length === 0) check()
    else this.#queue.push(check)
    this.#plan()
  }

  close(): void {
    this.#isClosed = true
    this.#queue.length = 0
  }

  #plan(): void {
    if (this.#isPlanned) return
    this.#isPlanned = true
    setImmediate(() => {
      this.#isPlanned = false
      this.#verified = 0
      while (this.#verified < PER_TURN) {
        const next = this.#queue.shift()
        if (next === undefined) break
        next()
      }
      if (this.#queue.length > 0) this.#plan()
    })
  }

  #end(): void {
    this.close()
    this.#abused()
  }
}
