import type { Clock } from '../../../platform/system/clock.ts'
import { type NostrEvent, isGenuine } from './event.ts'

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
