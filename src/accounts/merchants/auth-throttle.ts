import type { Clock } from '../../platform/system/clock.ts'
import { MemoryState } from '../../platform/state/memory.ts'
import { StateUnavailable, type State } from '../../platform/state/state.ts'

declare module '../../engine/pipeline/services.ts' {
  interface Services {
    readonly authThrottle: AuthThrottle
  }
}

/**
 * "More than 20 failures": with the 21st the address is blocked, and that one is the last to be answered 401 (decision
 * 27).
 */
const allowedFailures = 20
const windowMs = 60_000

/**
 * The failed-authentication throttle (contract, Authentication 6; decisions 27 and 28): 21 failures get their 401, and
 * then every key route answers 429 for that address until 60 s after the first failure. Addresses are `clientNetwork`s.
 *
 * When the shared state is away each process counts by itself, so that neither does the state's fault lock merchants
 * out nor does it open the door to guessing; an address may then fail 21 times at each process.
 */
export class AuthThrottle {
  readonly #state: State
  readonly #local: MemoryState

  constructor(state: State, clock: Clock) {
    this.#state = state
    this.#local = new MemoryState(clock, { counters: 50_000, replayBytes: 1, cached: 1 })
  }

  /** Milliseconds for which the address is still blocked; 0 when it is not. */
  blockedFor(address: string): Promise<number> {
    return this.#ask(state => state.blockedFor(keyOf(address), allowedFailures))
  }

  /**
   * Counts a failure, in one step, so that of many guesses sent at once only those within the limit learn a verdict.
   * @returns 0 when the failure is to be told (401); else milliseconds for which the address is blocked, which is all
   *   that may be told (429)
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
