import type { Clock } from '../../platform/system/clock.ts'
import { MemoryState } from '../../platform/state/memory.ts'
import { StateUnavailable, type State } from '../../platform/state/state.ts'

declare module '../../engine/pipeline/services.ts' {
  interface Services {
    readonly authThrottle: AuthThrottle
  }
}

/** "More than 20 failures": the 21st is answered 401 and blocks the address (decision 27). */
const allowedFailures = 20
const windowMs = 60_000

/**
 * Throttle of failed authentication (contract, Authentication 6; decisions 27 and 28): after 21 failures every key
 * route answers 429 for that address until 60 s after the first failure. Addresses are `clientNetwork`s. Without the
 * shared state each process counts alone, so an address may fail 21 times at each.
 */
export class AuthThrottle {
  readonly #state: State
  readonly #local: MemoryState

  constructor(state: State, clock: Clock) {
    this.#state = state
    this.#local = new MemoryState(clock, { counters: 50_000, replayBytes: 1, cached: 1 })
  }

  /** Remaining block in milliseconds; 0: not blocked. */
  blockedFor(address: string): Promise<number> {
    return this.#ask(state => state.blockedFor(keyOf(address), allowedFailures))
  }

  /**
   * Counts a failure atomically, so that concurrent guesses cannot exceed the limit.
   * @returns 0 to answer 401; else the remaining block in milliseconds, to answer 429 without a verdict
   */
  failed(address: string): Promise<number> {
    return this.#ask(state => state.recordFailure(keyOf(address), allowedFailures + 1, windowMs))
  }

  async #ask(question: (state: State) => number | Promise<number>): Promise<number> {
    try {
      return await question(this.#state)
    } catch (error) {
      if (!(error instanceof StateUnavailable)) throw error
      return question(this.#local)
    }
  }
}

function keyOf(address: string): string {
  return `auth:${address}`
}
