import { setImmediate } from 'node:timers/promises'
import type { Timer } from '../../src/platform/system/clock.ts'
import { ManualClock } from './manual-clock.ts'

/** Turns of the event loop that count as quiet: what was sent on loopback has come by then. */
const TURNS = 30

/**
 * A clock that a test moves, but for the pause after which a stream has said all: it is over when nothing comes for
 * some turns of the event loop.
 */
export class QuietClock extends ManualClock {
  readonly #quiet: number

  /** `quiet` in milliseconds, as it is asked for. */
  constructor(quiet: number) {
    super()
    this.#quiet = quiet
  }

  override after(ms: number, run: () => void): Timer {
    if (ms !== this.#quiet) return super.after(ms, run)
    let isCancelled = false
    const wait = async (): Promise<void> => {
      for (let turn = 0; turn < TURNS; turn++) await setImmediate()
      if (!isCancelled) run()
    }
    void wait()
    return {
      cancel: () => {
        isCancelled = true
      }
    }
  }
}
