import type { Clock, Timer } from '../../platform/system/clock.ts'

export interface Waiting {
  touched: number
  /** Timeout in ticks. */
  readonly patience: number
  /** It waits for its own side, so its time does not run. */
  readonly suspended: boolean
  /** Index in `Deadlines`, or -1. */
  place: number
  expire(): void
}

/** Milliseconds per tick; a deadline fires at most two ticks late. */
const RESOLUTION = 100
/** Ticks between two calls of `sweep`. */
const SWEEP_EVERY = 50

/**
 * One timer for the deadlines of all running requests. Activity costs one copied number instead of a timer that is
 * moved with every piece.
 */
export class Deadlines {
  tick = 0
  readonly #clock: Clock
  readonly #sweep: (tick: number) => void
  readonly #each: (tick: number) => void
  /**
   * Not a Set: its table is replaced every few dozen requests, and V8 keeps the old ones linked to the new with
   * everything alive. Once one is old, every request survives until the next full collection: a sixth of the CPU.
   */
  readonly #waiting: Waiting[] = []
  #timer: Timer | null = null

  /** Calls `sweep` every five seconds and `each` at every tick. */
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

  get size(): number {
    return this.#waiting.length
  }

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

  close(): void {
    this.#timer?.cancel()
    this.#timer = null
    for (const item of this.#waiting) item.place = -1
    this.#waiting.length = 0
  }

  #look(): void {
    const tick = ++this.tick
    // Backwards: an entry that replaces an expired one was already checked.
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
