import { clientNetwork } from '../../engine/message/addresses.ts'
import type { Context } from '../../engine/message/context.ts'
import { AuthThrottled } from '../../engine/operations/errors.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { MemoryState } from '../../platform/state/memory.ts'
import { StateUnavailable, type State } from '../../platform/state/state.ts'

declare module '../../engine/pipeline/plugin.ts' {
  interface Services {
    readonly authThrottle: AuthThrottle
  }
}

type Client = Pick<Context, 'clientAddress'>

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

  /** @throws AuthThrottled if the client is blocked */
  async admit(client: Client): Promise<void> {
    await this.#check(client, (state, key) => state.blockedFor(key, allowedFailures))
  }

  /**
   * Counts a failure atomically, so that concurrent guesses cannot exceed the limit.
   * @throws AuthThrottled if the client is blocked, to answer 429 without a verdict
   */
  async failed(client: Client): Promise<void> {
    await this.#check(client, (state, key) => state.recordFailure(key, allowedFailures + 1, windowMs))
  }

  async #check(
    { clientAddress }: Client,
    question: (state: State, key: string) => number | Promise<number>
  ): Promise<void> {
    const key = `auth:${clientNetwork(clientAddress)}`
    let blockedMs: number
    try {
      blockedMs = await question(this.#state, key)
    } catch (error) {
      if (!(error instanceof StateUnavailable)) throw error
      blockedMs = await question(this.#local, key)
    }
    if (blockedMs > 0) throw new AuthThrottled(blockedMs / 1000)
  }
}
