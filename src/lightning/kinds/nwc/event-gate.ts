import type { Clock } from '../../../platform/system/clock.ts'
import { isGenuine, type NostrEvent } from './event.ts'

/** Messages, events and characters that one relay may send in a second, and events of one author. */
const PER_SECOND = Object.freeze({ messages: 1_000, events: 200, chars: 4 * 1024 * 1024, ofAuthor: 20 })
const SECOND = 1_000
/** What a request of ours allows on top: its answer, and what the relay says around it; at most for so many requests. */
const PER_REQUEST = Object.freeze({ messages: 4, events: 1, most: 1_000 })
/** Events that are not genuine, on one connection. */
const MAX_FORGED = 20
/** Signatures that are verified in one turn of the loop; each takes about a millisecond. */
const PER_TURN = 10

/**
 * Limits the work that one connection to a relay can cause. A relay is chosen by a merchant, so it may send anything:
 * events are counted before they are parsed, and few signatures are verified in each turn of the loop.
 */
export class EventGate {
  readonly #clock: Clock
  /** The relay floods or forges: the connection must end. */
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

  /** Counts a message; false when it must not be read. */
  takes(text: string): boolean {
    if (this.#isClosed) return false
    const now = this.#clock.monotonic()
    if (now - this.#since >= SECOND) {
      this.#since = now
      this.#chars = 0
      // What requests allowed is kept until it is used.
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

  /** A request goes out, which will be answered. */
  asked(): void {
    const { messages, events, most } = PER_REQUEST
    this.#messages = Math.max(this.#messages - messages, -messages * most)
    this.#events = Math.max(this.#events - events, -events * most)
  }

  /** Counts an event of an author; false when it has sent too many in this second. */
  takesFrom(author: string): boolean {
    const count = (this.#authors.get(author) ?? 0) + 1
    this.#authors.set(author, count)
    return count <= PER_SECOND.ofAuthor
  }

  /** Calls `genuine` if the event is genuine and still wanted by then. */
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

  /** Verifies nothing any more. */
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
