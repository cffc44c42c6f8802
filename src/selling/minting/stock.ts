import type { Clock, Timer } from '../../platform/system/clock.ts'

export interface Perishable {
  readonly handOutUntil: number
}

interface StockRequest<T extends Perishable> {
  readonly key: string
  readonly maker: string
  readonly most: number
  /** Milliseconds during which a new item can be handed out. */
  readonly keeps: number
  make(): Promise<T>
}

/** `unused`: items that expired or were discarded. */
export type StockResult = 'hit' | 'miss' | 'unused'

interface StockDependencies {
  readonly clock: Clock
  counted(result: StockResult, count: number): void
  /** Milliseconds of back-off after a failure. */
  pauseAfter(error: unknown): number
}

interface StockEntry<T> {
  /** Oldest first. */
  readonly ready: T[]
  making: number
  /** Target of ready and pending items. */
  size: number
  /** Monotonic milliseconds, as `restsUntil`. */
  requestedAt: number
  restsUntil: number
  /** Evicted: pending items are discarded too. */
  isGone: boolean
}

/** Least recently used keys beyond these are evicted. */
const MOST_KEYS = 200
/** Maximum ready and pending items of all keys, about 2 KB each. */
const MOST = 2_000
/** Concurrent calls: fewer than connections per host, so that waiting requests are not delayed. */
const AT_ONCE = 24
const AT_ONCE_OF_MAKER = 16
/** Back-off if items expire too soon to be kept: a retry would get the same. */
const LONG_PAUSE = 600_000
/** Maximum gap within a burst, and how long a burst postpones refills above this fill level. */
const BURST_GAP = 50
const BURST = 1_000
const BURST_LEAVES = 1 / 4

/**
 * Items made ahead, each handed out once. Follows demand without a forecast. A miss raises its key's target by one,
 * unless it is the first within an item's lifetime. An item that expired unused or failed lowers it by one. Each taken
 * item is replaced, so a key makes no more calls than it had requests.
 * During a burst, refills wait up to a second: creating an invoice costs more CPU than handing one out, also at a local
 * provider.
 */
export class Stock<T extends Perishable> {
  readonly #dependencies: StockDependencies
  /** Least recently used first. */
  readonly #shelves = new Map<string, StockEntry<T>>()
  readonly #makers = new Map<string, number>()
  #ready = 0
  #making = 0
  readonly #postponed = new Map<StockEntry<T>, StockRequest<T>>()
  #timer: Timer | null = null
  #burstSince = -Infinity
  #takenAt = -Infinity
  #isClosed = false

  constructor(dependencies: StockDependencies) {
    this.#dependencies = dependencies
  }

  get level(): number {
    this.#sweep()
    return this.#ready
  }

  /** Null on a miss. */
  take(request: StockRequest<T>): T | null {
    if (this.#isClosed) return null
    const { clock, counted } = this.#dependencies
    const now = clock.monotonic()
    const shelf = this.#shelf(request.key)
    this.#dropOld(shelf)
    const taken = shelf.ready.shift() ?? null
    if (taken !== null) this.#ready--
    else if (now - shelf.requestedAt <= request.keeps && shelf.size < request.most) shelf.size++
    shelf.requestedAt = now
    if (now - this.#takenAt >= BURST_GAP) this.#burstSince = now
    this.#takenAt = now
    counted(taken === null ? 'miss' : 'hit', 1)
    // After the caller's own call on a miss: a waiting request goes first.
    queueMicrotask(() => {
      this.#fill(shelf, request)
    })
    return taken
  }

  clear(): void {
    for (const shelf of this.#shelves.values()) this.#throw(shelf)
    this.#shelves.clear()
    this.#postponed.clear()
  }

  /** Discards everything for good. Does not wait for pending items. */
  close(): void {
    this.#isClosed = true
    this.#timer?.cancel()
    this.clear()
  }

  #shelf(key: string): StockEntry<T> {
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
    const shelf: StockEntry<T> = {
      ready: [],
      making: 0,
      size: 0,
      requestedAt: -Infinity,
      restsUntil: -Infinity,
      isGone: false
    }
    this.#shelves.set(key, shelf)
    return shelf
  }

  #throw(shelf: StockEntry<T>): void {
    shelf.isGone = true
    this.#unused(shelf.ready.length)
    this.#ready -= shelf.ready.length
    shelf.ready.length = 0
  }

  #dropOld(shelf: StockEntry<T>): void {
    const now = this.#dependencies.clock.now()
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
    if (count > 0) this.#dependencies.counted('unused', count)
  }

  #fill(shelf: StockEntry<T>, request: StockRequest<T>): void {
    if (shelf.isGone || shelf.ready.length + shelf.making >= Math.min(shelf.size, request.most)) return
    const burst = shelf.ready.length > shelf.size * BURST_LEAVES ? this.#burstLasts() : 0
    if (burst > 0) {
      this.#postponed.set(shelf, request)
      this.#timer ??= this.#dependencies.clock.after(burst, () => {
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
      shelf.ready.length + shelf.making < Math.min(shelf.size, request.most) &&
      this.#dependencies.clock.monotonic() >= shelf.restsUntil &&
      this.#ready + this.#making < MOST &&
      this.#making < AT_ONCE &&
      (this.#makers.get(request.maker) ?? 0) < AT_ONCE_OF_MAKER
    )
      void this.#make(shelf, request)
  }

  /** Milliseconds until the burst may end; 0 without one. */
  #burstLasts(): number {
    if (this.#takenAt === this.#burstSince) return 0
    const now = this.#dependencies.clock.monotonic()
    return Math.max(0, Math.min(this.#takenAt + BURST_GAP, this.#burstSince + BURST) - now)
  }

  async #make(shelf: StockEntry<T>, request: StockRequest<T>): Promise<void> {
    const { clock, pauseAfter } = this.#dependencies
    this.#count(request.maker, 1)
    shelf.making++
    try {
      const created = await request.make()
      if (shelf.isGone) this.#unused(1)
      else if (created.handOutUntil - clock.now() < request.keeps / 10) {
        this.#unused(1)
        shelf.size--
        shelf.restsUntil = clock.monotonic() + LONG_PAUSE
      } else {
        const at = shelf.ready.findLastIndex(({ handOutUntil }) => handOutUntil <= created.handOutUntil) + 1
        shelf.ready.splice(at, 0, created)
        this.#ready++
      }
    } catch (error) {
      shelf.size--
      shelf.restsUntil = clock.monotonic() + pauseAfter(error)
    } finally {
      shelf.making--
      this.#count(request.maker, -1)
    }
    this.#fill(shelf, request)
  }

  #count(maker: string, change: 1 | -1): void {
    this.#making += change
    const making = (this.#makers.get(maker) ?? 0) + change
    if (making === 0) this.#makers.delete(maker)
    else this.#makers.set(maker, making)
  }
}
