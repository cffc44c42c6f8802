import type { Clock, Timer } from '../../platform/system/clock.ts'

/** What may lie in a stock. */
export interface Perishable {
  /** Until when it may be handed out, in milliseconds since the epoch. */
  readonly handOutUntil: number
}

/** What is taken from a stock, and how more of it is made. */
export interface StockWish<T extends Perishable> {
  /** Names what is wanted: what has the same key can stand for each other. */
  readonly key: string
  /** Who makes it; how many are made at once is counted by it. */
  readonly maker: string
  /** How many of this key may lie ready. */
  readonly most: number
  /** For how long something that is made now can be handed out, in milliseconds. */
  readonly keeps: number
  make(): Promise<T>
}

/** What became of a request: it was served from the stock or was not, or something was made for nobody. */
export type StockResult = 'hit' | 'miss' | 'unused'

/** What a stock is kept with. */
export interface StockParts {
  readonly clock: Clock
  counted(result: StockResult, count: number): void
  /** How long nothing is made of a key after a making of it has failed, in milliseconds. */
  pauseAfter(error: unknown): number
}

/** Everything of one key. */
interface Shelf<T> {
  /** The oldest first. */
  readonly ready: T[]
  making: number
  /** How many are to lie ready or be in the making. */
  size: number
  /** When it was asked for last, in the clock's monotonic milliseconds, as the next. */
  askedAt: number
  restsUntil: number
  /** Was thrown away: what is still made for it is too. */
  isGone: boolean
}

/** Keys that are remembered; the one that was asked for longest ago is let go, with all of it. */
const MOST_KEYS = 200
/** Of all keys together, ready or in the making: some 2 KB each. */
const MOST = 2_000
/** That are made at once: fewer than the connections to one host, so that those who wait are not held up. */
const AT_ONCE = 24
const AT_ONCE_OF_MAKER = 16
/** How long nothing is made of a key of which what came could not be kept: asking again would bring the same. */
const LONG_PAUSE = 600_000
/**
 * Milliseconds between two requests that belong to one burst, and for how long nothing is made in it while more than this
 * part of a shelf lies ready.
 */
const BURST_GAP = 50
const BURST = 1_000
const BURST_LEAVES = 1 / 4

/**
 * Things that are made before anybody asks for them, and handed out once each: an invoice takes its provider a while.
 *
 * It follows demand without a forecast. A request that finds nothing makes its shelf larger by one, unless it is the
 * first in as long as a thing keeps; one that nobody took in time, or that could not be made, makes it smaller by one.
 * What was taken is made anew, one for one. So of each key no more is begun than was asked for, whoever asks and
 * however. Nothing is begun but after a request.
 *
 * In a burst nothing is made for a second while enough lies ready: a making takes more of the processor than handing out
 * does, and of its maker's too where that runs beside us. So a burst is served from what lies ready, which is made good
 * behind it.
 */
export class Stock<T extends Perishable> {
  readonly #parts: StockParts
  /** The one that was asked for longest ago first. */
  readonly #shelves = new Map<string, Shelf<T>>()
  readonly #makers = new Map<string, number>()
  #ready = 0
  #making = 0
  /** What is to be made once a burst is over or has lasted long enough. */
  readonly #postponed = new Map<Shelf<T>, StockWish<T>>()
  #timer: Timer | null = null
  #burstSince = -Infinity
  #takenAt = -Infinity
  #isClosed = false

  constructor(parts: StockParts) {
    this.#parts = parts
  }

  /** How many lie ready and may still be handed out. */
  get level(): number {
    this.#sweep()
    return this.#ready
  }

  /** One that is ready, which is the caller's alone from here on; null where there is none. */
  take(wish: StockWish<T>): T | null {
    if (this.#isClosed) return null
    const { clock, counted } = this.#parts
    const now = clock.monotonic()
    const shelf = this.#shelf(wish.key)
    this.#dropOld(shelf)
    const taken = shelf.ready.shift() ?? null
    if (taken !== null) this.#ready--
    else if (now - shelf.askedAt <= wish.keeps && shelf.size < wish.most) shelf.size++
    shelf.askedAt = now
    if (now - this.#takenAt >= BURST_GAP) this.#burstSince = now
    this.#takenAt = now
    counted(taken === null ? 'miss' : 'hit', 1)
    // Behind what the caller does at once: who waits asks first.
    queueMicrotask(() => {
      this.#fill(shelf, wish)
    })
    return taken
  }

  /** Throws everything away, what is being made too. */
  clear(): void {
    for (const shelf of this.#shelves.values()) this.#throw(shelf)
    this.#shelves.clear()
    this.#postponed.clear()
  }

  /** The same for good. What is being made is not waited for. */
  close(): void {
    this.#isClosed = true
    this.#timer?.cancel()
    this.clear()
  }

  #shelf(key: string): Shelf<T> {
    const known = this.#shelves.get(key)
    if (known !== undefined) {
      this.#shelves.delete(key)
      this.#shelves.set(key, known)
      return known
    }
    const [oldest] = this.#shelves
    if (oldest !== undefined && this.#shelves.size >= MOST_KEYS) {
      this.#shelves.delete(oldest[0])
      this.#throw(oldest[1])
    }
    const shelf: Shelf<T> = {
      ready: [],
      making: 0,
      size: 0,
      askedAt: -Infinity,
      restsUntil: -Infinity,
      isGone: false
    }
    this.#shelves.set(key, shelf)
    return shelf
  }

  #throw(shelf: Shelf<T>): void {
    shelf.isGone = true
    this.#unused(shelf.ready.length)
    this.#ready -= shelf.ready.length
    shelf.ready.length = 0
  }

  #dropOld(shelf: Shelf<T>): void {
    const now = this.#parts.clock.now()
    const old = shelf.ready.findIndex(({ handOutUntil }) => handOutUntil >= now)
    const count = old < 0 ? shelf.ready.length : old
    if (count === 0) return
    shelf.ready.splice(0, count)
    shelf.size -= count
    this.#ready -= count
    this.#unused(count)
  }

  #sweep(): void {
    for (const shelf of this.#shelves.values()) this.#dropOld(shelf)
  }

  #unused(count: number): void {
    if (count > 0) this.#parts.counted('unused', count)
  }

  #fill(shelf: Shelf<T>, wish: StockWish<T>): void {
    if (shelf.isGone || shelf.ready.length + shelf.making >= Math.min(shelf.size, wish.most)) return
    const burst = shelf.ready.length > shelf.size * BURST_LEAVES ? this.#burstLasts() : 0
    if (burst > 0) {
      this.#postponed.set(shelf, wish)
      this.#timer ??= this.#parts.clock.after(burst, () => {
        this.#timer = null
        const postponed = [...this.#postponed]
        this.#postponed.clear()
        for (const [one, its] of postponed) this.#fill(one, its)
      })
      return
    }
    if (this.#ready + this.#making >= MOST) this.#sweep()
    while (
      !shelf.isGone &&
      shelf.ready.length + shelf.making < Math.min(shelf.size, wish.most) &&
      this.#parts.clock.monotonic() >= shelf.restsUntil &&
      this.#ready + this.#making < MOST &&
      this.#making < AT_ONCE &&
      (this.#makers.get(wish.maker) ?? 0) < AT_ONCE_OF_MAKER
    )
      void this.#make(shelf, wish)
  }

  /** Milliseconds until it is to be looked again whether a burst is over; 0 where there is none that is waited for. */
  #burstLasts(): number {
    if (this.#takenAt === this.#burstSince) return 0
    const now = this.#parts.clock.monotonic()
    return Math.max(0, Math.min(this.#takenAt + BURST_GAP, this.#burstSince + BURST) - now)
  }

  async #make(shelf: Shelf<T>, wish: StockWish<T>): Promise<void> {
    const { clock, pauseAfter } = this.#parts
    this.#count(wish.maker, 1)
    shelf.making++
    try {
      const made = await wish.make()
      if (shelf.isGone) this.#unused(1)
      else if (made.handOutUntil - clock.now() < wish.keeps / 10) {
        this.#unused(1)
        shelf.size--
        shelf.restsUntil = clock.monotonic() + LONG_PAUSE
      } else {
        // What took its maker longer is no younger than what lies here.
        const at = shelf.ready.findLastIndex(({ handOutUntil }) => handOutUntil <= made.handOutUntil) + 1
        shelf.ready.splice(at, 0, made)
        this.#ready++
      }
    } catch (error) {
      shelf.size--
      shelf.restsUntil = clock.monotonic() + pauseAfter(error)
    } finally {
      shelf.making--
      this.#count(wish.maker, -1)
    }
    this.#fill(shelf, wish)
  }

  #count(maker: string, change: 1 | -1): void {
    this.#making += change
    const making = (this.#makers.get(maker) ?? 0) + change
    if (making === 0) this.#makers.delete(maker)
    else this.#makers.set(maker, making)
  }
}
