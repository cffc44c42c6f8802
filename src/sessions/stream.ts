import type { Grown } from '../balances/ledger.ts'
import type { MeteredRequest } from '../balances/metered-request.ts'
import type { BodyFilter } from '../gateway/context.ts'
import { Unavailable } from '../gateway/errors.ts'
import { encodeEvent } from '../gateway/event-stream.ts'
import { receiptEvent, shortageEvent } from '../lightning/session-messages.ts'
import type { Clock, Timer } from '../system/clock.ts'
import { isDone } from '../usage/events.ts'
import type { SessionCounters } from './counters.ts'
import type { SessionNews } from './news.ts'
import type { PrepaidSession } from './store.ts'

/** What a stream is paid from. */
export interface SessionStreamParts {
  readonly id: string
  readonly metered: MeteredRequest
  readonly clock: Clock
  readonly news: SessionNews
  readonly counters: SessionCounters
  standing(): Promise<PrepaidSession | null>
}

/** How long a stream waits for a deposit (draft-lightning-session-00, Streaming). */
const WAIT = 60_000
/** How often it looks by itself, since news may be lost. */
const LOOK = 5_000
/** An event that is longer is let through in pieces; it counts when it ends. */
const LONGEST_EVENT = 1_048_576

/** How an event ends; lines may end in three ways (WHATWG HTML, 9.2.6). */
const ENDS = ['\n\n', '\n\r\n', '\r\r'].map(text => Buffer.from(text))
const LONGEST_END = 3

/**
 * An event stream that a session pays for event by event: each goes out once it is covered. Where the balance does not
 * bear the next one the client is told, and the stream waits for a deposit, for a minute. The receipt comes last, before
 * a `[DONE]`.
 */
export class SessionStream implements BodyFilter {
  readonly #parts: SessionStreamParts
  readonly #out: (bytes: Uint8Array) => void
  /** Bytes of the event that is not whole yet. */
  #rest: Buffer = Buffer.alloc(0)
  /** From where on an end of the event has to be looked for. */
  #looked = 0
  /** Whole events that wait for the one before them. */
  readonly #queue: Buffer[] = []
  #running: Promise<void> | null = null
  /** A `[DONE]`, which goes out behind the receipt, if nothing else comes. */
  #done: Buffer | null = null
  #timer: Timer | null = null
  #wake: (() => void) | null = null
  /** Nothing more goes out: the client has left, or the stream has ended for want of a deposit. */
  #isOver = false

  constructor(parts: SessionStreamParts, out: (bytes: Uint8Array) => void) {
    this.#parts = parts
    this.#out = out
  }

  write(bytes: Uint8Array): void | Promise<void> {
    if (this.#isOver) return
    // A copy: the connection uses its memory again, and what waits is written later.
    this.#rest = Buffer.concat([this.#rest, bytes])
    for (let end = this.#eventEnd(); end > 0; end = this.#eventEnd()) this.#take(end)
    if (this.#rest.byteLength > LONGEST_EVENT) this.#take(this.#rest.byteLength)
    return this.#run()
  }

  async end(): Promise<void> {
    if (this.#rest.byteLength > 0) this.#take(this.#rest.byteLength)
    await this.#run()
    if (!this.#isOver) await this.#finish(true)
  }

  /** The response is over, however it ended. */
  close(): void {
    this.#isOver = true
    this.#wakeUp()
  }

  #take(length: number): void {
    this.#queue.push(this.#rest.subarray(0, length))
    this.#rest = this.#rest.subarray(length)
    this.#looked = 0
  }

  /** Where the first event ends: behind an empty line, whichever way its lines end; 0 where it is not whole. */
  #eventEnd(): number {
    const from = Math.max(0, this.#looked - LONGEST_END)
    const ends = ENDS.flatMap(end => {
      const at = this.#rest.indexOf(end, from)
      return at < 0 ? [] : [at + end.byteLength]
    })
    this.#looked = this.#rest.byteLength
    return ends.length === 0 ? 0 : Math.min(...ends)
  }

  /** Lets out what waits, as far as it is covered at once; a promise for the rest. */
  #run(): void | Promise<void> {
    if (this.#running !== null) return this.#running
    while (this.#queue.length > 0 && !this.#isOver) {
      const [event] = this.#queue
      if (event === undefined) break
      const grown = this.#admit(event)
      if (grown !== 'grown') {
        this.#running = this.#later(event, grown)
        return this.#running
      }
      this.#queue.shift()
      this.#pass(event)
    }
  }

  async #later(first: Buffer, asked: Grown | Promise<Grown>): Promise<void> {
    try {
      let [event, grown] = [first, asked]
      while (!this.#isOver) {
        if (!(await this.#isCovered(await grown))) return
        this.#queue.shift()
        this.#pass(event)
        const [next] = this.#queue
        if (next === undefined) return
        ;[event, grown] = [next, this.#admit(next)]
      }
    } finally {
      this.#running = null
    }
  }

  #admit(event: Buffer): Grown | Promise<Grown> {
    return this.#parts.metered.admit(event)
  }

  #pass(event: Buffer): void {
    if (this.#isOver) return
    if (this.#done !== null) this.#out(this.#done)
    this.#done = null
    if (isDone(event)) this.#done = event
    else this.#out(event)
  }

  /** Waits until what was admitted is covered; false where the stream has ended meanwhile. */
  async #isCovered(first: Grown): Promise<boolean> {
    if (first === 'grown') return true
    const { clock, metered, counters, standing, id } = this.#parts
    const until = clock.monotonic() + WAIT
    let isTold = false
    for (let grown: Grown = first; ; grown = await metered.cover()) {
      if (this.#isOver) return false
      if (grown === 'grown') return true
      if (grown === 'away')
        throw new Unavailable('Balance unavailable', 'The balance of the session could not be asked.', 5)
      // Before anybody is told: a deposit that comes from now on is heard of.
      const news = this.#news(Math.min(LOOK, until - clock.monotonic()))
      const session = await standing()
      if (session === null || session.closedAt !== null) {
        await this.#finish(false)
        return false
      }
      const shortage = {
        sessionId: id,
        balanceSpent: Math.ceil((session.depositedMsat - metered.leftMsat) / 1000),
        balanceRequired: Math.ceil(metered.lackingMsat / 1000)
      }
      if (!isTold) {
        isTold = true
        counters.paused()
        this.#write(shortageEvent('payment-need-topup', shortage))
      } else if (clock.monotonic() >= until) {
        counters.timedOut()
        this.#write(shortageEvent('session-timeout', shortage))
        await this.#settled(false)
        this.#over()
        return false
      }
      await news
    }
  }

  /** Resolves at the next news of the session, or when the time is over. */
  async #news(ms: number): Promise<void> {
    const { clock, news, id } = this.#parts
    const { promise, resolve } = Promise.withResolvers<void>()
    const unwait = news.wait(id, resolve)
    this.#timer = clock.after(Math.max(1, ms), resolve)
    this.#wake = resolve
    if (this.#isOver) resolve()
    await promise
    unwait()
    this.#timer.cancel()
    this.#wake = null
  }

  #wakeUp(): void {
    this.#timer?.cancel()
    this.#wake?.()
  }

  /** The receipt, and behind it the `[DONE]` that was held back. */
  async #finish(isWhole: boolean): Promise<void> {
    const { clock, id } = this.#parts
    const { units, msat } = await this.#settled(isWhole)
    this.#write(receiptEvent(id, Math.floor(clock.now() / 1000), Math.ceil(msat / 1000), units))
    if (isWhole && this.#done !== null) this.#out(this.#done)
    if (!isWhole) this.#over()
    this.#isOver = true
  }

  async #settled(isWhole: boolean) {
    return await this.#parts.metered.finish(isWhole)
  }

  #write(event: { readonly event: string; readonly data: string }): void {
    if (!this.#isOver) this.#out(Buffer.from(encodeEvent(event)))
  }

  /** Ends the response between two events; the upstream is let go. */
  #over(): void {
    this.#isOver = true
    this.#queue.length = 0
    this.#parts.metered.cut()
  }
}
