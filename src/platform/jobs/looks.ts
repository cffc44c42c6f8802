import { isConnectionFault } from '../database/errors.ts'
import type { Log } from '../telemetry/log.ts'

/** When the jobs of a queue are due. */
export interface Due {
  readonly name: string
  /** Whether one is due now. */
  readonly isDue: boolean
  /** Milliseconds from now, by the database's clock, to the first that is not; null where there is none. */
  readonly inMs: number | null
}

/** What the looks work with. */
export interface LooksParts {
  readonly log: Log
  /** Milliseconds within which it looks again, whatever it found. */
  readonly most: number
  /** The waiting jobs of each queue that has some. */
  due(): Promise<readonly Due[]>
  /** A queue has a job that is due. */
  wake(name: string): void
}

/**
 * Timers fire a little early, and clocks of two machines are not the same: a look that comes too soon costs another.
 */
const LEAST = 5
/** Milliseconds between looks while the database is away. */
const AWAY_REST = 2_000

/**
 * Finds the jobs whose time has come, for all queues of a process: one small statement when the next one is due.
 * Nothing is asked in between, so that a gateway at rest is at rest. Its timers are the machine's: what is due is
 * decided by the database's clock.
 */
export class JobLooks {
  readonly #parts: LooksParts
  #timer: NodeJS.Timeout | null = null
  /** When the timer fires, by the machine's steady clock. */
  #at = Infinity
  #looking: Promise<void> | null = null
  #away = false
  #stopped = false

  constructor(parts: LooksParts) {
    this.#parts = parts
  }

  /** A job becomes due in `ms`: looks no later than that. */
  soon(ms: number): void {
    if (this.#stopped) return
    const wait = Math.max(Math.min(ms, this.#parts.most), LEAST)
    const at = performance.now() + wait
    if (at >= this.#at) return
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#at = at
    this.#timer = setTimeout(() => {
      this.#begin()
    }, wait)
    this.#timer.unref()
  }

  /** Ends the looks; resolves when none is under way. */
  async close(): Promise<void> {
    this.#stopped = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    await this.#looking
  }

  #begin(): void {
    this.#timer = null
    this.#at = Infinity
    // The one under way plans the next when it is done.
    this.#looking ??= this.#look().finally(() => {
      this.#looking = null
    })
  }

  async #look(): Promise<void> {
    const { due, log, most, wake } = this.#parts
    try {
      let next = most
      for (const { name, isDue, inMs } of await due()) {
        if (isDue) wake(name)
        // Also of a queue that was woken: one claims what is due, and not what becomes so a moment later.
        next = Math.min(next, inMs ?? most)
      }
      this.#away = false
      this.soon(next)
    } catch (error) {
      if (!this.#away || !isConnectionFault(error))
        log.warn({ err: error }, 'no jobs could be looked for; it is tried again')
      this.#away = true
      this.soon(Math.max(AWAY_REST, most))
    }
  }
}
