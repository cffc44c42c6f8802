import type { GrowthResult } from '../balances/ledger.ts'
import type { HeldStream } from '../balances/metered-charge.ts'
import type { BodyFilter } from '../../engine/message/context.ts'
import { Unavailable } from '../../engine/operations/errors.ts'
import { EventReader, type Boundary } from '../../engine/formats/event-reader.ts'
import { encodeEvent } from '../../engine/formats/event-stream.ts'
import { receiptEvent, shortageEvent } from '../../lightning/payment-scheme/session-challenge.ts'
import type { Clock, Timer } from '../../platform/system/clock.ts'
import type { SessionCounters } from './open.ts'
import type { SessionNews } from './news.ts'
import type { PrepaidSession } from './store.ts'

interface SessionStreamDependencies {
  readonly id: string
  readonly held: HeldStream
  readonly clock: Clock
  readonly news: SessionNews
  readonly counters: SessionCounters
  standing(): Promise<PrepaidSession | null>
}

/** Milliseconds that a stream waits for a deposit (draft-lightning-session-00, Streaming). */
const WAIT = 60_000
/** Polling interval, since notifications may be lost. */
const LOOK = 5_000
/** A longer event passes in pieces and counts at its end. */
const LONGEST_EVENT = 1_048_576

interface Piece {
  readonly bytes: Buffer
  readonly kind: Boundary
}

/** OpenAI clients read this member of every chat chunk, so our events need it. */
const CHOICES = Buffer.from('"choices"')

/**
 * An event stream that a session pays for event by event: each goes out once covered. If the balance is too low, the
 * client is notified and the stream waits for a deposit. The receipt comes last, before a `[DONE]`.
 */
export class SessionStream implements BodyFilter {
  readonly #dependencies: SessionStreamDependencies
  readonly #out: (bytes: Uint8Array) => void
  readonly #reader: EventReader
  /** Start of an event, as copies. */
  #rest: Buffer[] = []
  #size = 0
  /** Bytes being read, and the offset of those not kept yet. */
  #piece: Buffer = Buffer.alloc(0)
  #from = 0
  /** Events that wait for the one before. */
  readonly #queue: Piece[] = []
  #running: Promise<void> | null = null
  /** A `[DONE]`, held back until after the receipt. */
  #done: Buffer | null = null
  /** The events are chat chunks; null before the first. */
  #isChat: boolean | null = null
  #timer: Timer | null = null
  #wake: (() => void) | null = null
  /** The client has left, or the stream ended without a deposit. */
  #isOver = false

  constructor(dependencies: SessionStreamDependencies, out: (bytes: Uint8Array) => void) {
    this.#dependencies = dependencies
    this.#out = out
    this.#reader = new EventReader({
      boundary: (end, kind) => {
        this.#boundary(end, kind)
      }
    })
  }

  write(bytes: Uint8Array): void | Promise<void> {
    if (this.#isOver) return
    // A copy: the connection reuses its memory.
    this.#piece = Buffer.from(bytes)
    this.#from = 0
    this.#reader.feed(this.#piece)
    this.#keep(this.#piece.byteLength)
    if (this.#size > LONGEST_EVENT) this.#take('data')
    return this.#run()
  }

  async end(): Promise<void> {
    // After an event without its blank line, the receipt would become a part of it.
    this.#piece = Buffer.from(this.#reader.isBetween ? '' : '\n\n')
    this.#from = 0
    this.#reader.feed(this.#piece)
    if (this.#size > 0) this.#take('none')
    await this.#run()
    if (this.#isOver) return
    await this.#receipt(true)
    if (this.#done !== null) this.#out(this.#done)
  }

  close(): void {
    this.#isOver = true
    this.#wakeUp()
  }

  #boundary(end: number, kind: Boundary): void {
    this.#keep(end)
    this.#take(kind)
  }

  #keep(end: number): void {
    const part = this.#piece.subarray(this.#from, end)
    if (part.byteLength > 0) this.#rest.push(part)
    this.#size += part.byteLength
    this.#from = end
  }

  #take(kind: Boundary): void {
    const [first] = this.#rest
    const bytes = this.#rest.length === 1 && first !== undefined ? first : Buffer.concat(this.#rest)
    if (kind === 'data') this.#isChat ??= bytes.includes(CHOICES)
    this.#queue.push({ bytes, kind })
    this.#rest = []
    this.#size = 0
  }

  /** Releases what is covered now; returns a promise for the rest. */
  #run(): void | Promise<void> {
    if (this.#running !== null) return this.#running
    while (this.#queue.length > 0 && !this.#isOver) {
      const [piece] = this.#queue
      if (piece === undefined) break
      const [isHidden, grown] = this.#admit(piece)
      if (grown !== 'grown') {
        this.#running = this.#later(piece, isHidden, grown)
        return this.#running
      }
      this.#queue.shift()
      if (!isHidden) this.#pass(piece)
    }
  }

  async #later(first: Piece, isFirstHidden: boolean, growth: GrowthResult | Promise<GrowthResult>): Promise<void> {
    try {
      let [piece, isHidden, grown] = [first, isFirstHidden, growth]
      while (!this.#isOver) {
        if (!(await this.#isCovered(await grown))) return
        this.#queue.shift()
        if (!isHidden) this.#pass(piece)
        const [next] = this.#queue
        if (next === undefined) return
        piece = next
        ;[isHidden, grown] = this.#admit(next)
      }
    } finally {
      this.#running = null
    }
  }

  /** Whether the client gets it, and whether it is covered. */
  #admit({ bytes }: Piece): [isHidden: boolean, grown: GrowthResult | Promise<GrowthResult>] {
    const { held } = this.#dependencies
    const grown = held.admit(bytes)
    return [held.isHidden, grown]
  }

  #pass({ bytes, kind }: Piece): void {
    if (this.#isOver) return
    // The rest of a line ending must not release it before the receipt.
    if (this.#done !== null && kind === 'none') {
      this.#done = Buffer.concat([this.#done, bytes])
      return
    }
    if (this.#done !== null) this.#out(this.#done)
    this.#done = kind === 'done' ? bytes : null
    if (kind !== 'done') this.#out(bytes)
  }

  /** Waits for coverage; false if the stream ended meanwhile. */
  async #isCovered(first: GrowthResult): Promise<boolean> {
    const { clock, held, counters, standing, id } = this.#dependencies
    const until = clock.monotonic() + WAIT
    let isTold = false
    for (let grown = first; ;) {
      if (this.#isOver) return false
      if (grown === 'grown') return true
      if (grown === 'away')
        throw new Unavailable('Balance unavailable', 'The balance of the session could not be asked.', 5)
      // Subscribe before asking again and before notifying the client, so that no deposit is missed.
      const news = this.#news(Math.min(LOOK, until - clock.monotonic()))
      grown = await held.cover()
      if (grown !== 'refused') {
        this.#wakeUp()
        await news
        continue
      }
      const session = await standing()
      if (session === null || session.closedAt !== null) {
        await this.#receipt(false)
        this.#over()
        return false
      }
      const shortage = {
        sessionId: id,
        balanceSpent: Math.ceil((session.depositedMsat - held.leftMsat) / 1000),
        balanceRequired: Math.ceil(held.lackingMsat / 1000)
      }
      if (!isTold) {
        isTold = true
        counters.paused()
        this.#write(shortageEvent('payment-need-topup', shortage))
      } else if (clock.monotonic() >= until) {
        counters.timedOut()
        this.#write(shortageEvent('session-timeout', shortage))
        await held.finish(false)
        this.#over()
        return false
      }
      await news
    }
  }

  /** Resolves at the session's next change or after `ms`. */
  async #news(ms: number): Promise<void> {
    const { clock, news, id } = this.#dependencies
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

  async #receipt(isWhole: boolean): Promise<void> {
    const { clock, id, held } = this.#dependencies
    const { units, msat } = await held.finish(isWhole)
    this.#write(receiptEvent(id, Math.floor(clock.now() / 1000), Math.ceil(msat / 1000), units))
  }

  #write({ event, data }: { readonly event: string; readonly data: string }): void {
    const own = this.#isChat === true ? `{"choices":[],${data.slice(1)}` : data
    if (!this.#isOver) this.#out(Buffer.from(encodeEvent({ event, data: own })))
  }

  /** Ends the response between events and releases the upstream. */
  #over(): void {
    this.#isOver = true
    this.#queue.length = 0
    this.#dependencies.held.cut()
  }
}
