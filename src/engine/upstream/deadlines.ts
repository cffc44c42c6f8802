import type { Clock, Timer } from '../../platform/system/clock.ts'

/** Something that is given up when nothing happens for a while. */
export interface Waiting {
  /** The tick of the last sign of life. */
  touched: number
  /** Ticks without one that are allowed. */
  readonly patience: number
  /** It does not wait for the other side just now, but for its own: its time does not run. */
  readonly suspended: boolean
  /** Where it stands among those that wait; kept by `Deadlines`, -1 while it is not among them. */
  place: number
  /** The time is over. */
  expire(): void
}

/** Milliseconds between two looks; a deadline is met at most two of them late. */
const RESOLUTION = 100
/** The looks between two calls of `sweep`. */
const SWEEP_EVERY = 50

/**
 * One timer for the deadlines of all running requests. A timer for each would be started, moved with every piece and
 * cancelled again; here a sign of life is the copy of a number.
 */
export class Deadlines {
  /** Counts the looks. */
  tick = 0
  readonly #clock: Clock
  readonly #sweep: (tick: number) => void
  readonly #each: (tick: number) => void
  /**
   * Not a Set: its table is replaced every few dozen requests, and V8 leaves the old ones linked to the new, with all
   * that ran at the time. Once one of them is old, every request lives on until the next full collection: a sixth of
   * the CPU.
   */
  readonly #waiting: Waiting[] = []
  #timer: Timer | null = null

  /** `sweep` is called every five seconds and `each` at every tick, for what else has to be tidied. */
  constructor(
    clock: Clock,
    sweep: (tick: number) => void,
    each: (tick: number) => void = () => {
      /* nothing to tidy */
    }
  ) {
    this.#clock = clock
    this.#sweep = sweep
    this.#each = each
  }

  /** How many wait. */
  get size(): number {
    return this.#waiting.length
  }

  /** Ticks for a time in milliseconds. */
  static ticks(ms: number): number {
    return Math.ceil(ms / RESOLUTION)
  }

  add(item: Waiting): void {
    this.#timer ??= this.#clock.every(RESOLUTION, () => {
      this.#look()
    })
    if (item.place < 0) item.place = this.#waiting.push(item) - 1
  }

  delete(item: Waiting): void {
    const { place } = item
    if (place < 0) return
    item.place = -1
    const last = this.#waiting.pop()
    if (last === undefined || last === item) return
    this.#waiting[place] = last
    last.place = place
  }

  /** Stops the timer. */
  close(): void {
    this.#timer?.cancel()
    this.#timer = null
    for (const item of this.#waiting) item.place = -1
    this.#waiting.length = 0
  }

  #look(): void {
    const tick = ++this.tick
    // From the end: whatever takes the place of one that expires has been looked at.
    for (let at = this.#waiting.length - 1; at >= 0; at--) {
      const item = this.#waiting[at]
      if (item === undefined) continue
      if (item.suspended) item.touched = tick
      else if (tick - item.touched > item.patience) item.expire()
    }
    this.#each(tick)
    if (tick % SWEEP_EVERY === 0) this.#sweep(tick)
  }
}
