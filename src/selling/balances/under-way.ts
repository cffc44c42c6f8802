import { RATE_LIMITED } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import type { Clock } from '../../platform/system/clock.ts'

const MOST = 16
const MOST_WAITING = 64
/** Milliseconds. */
const WAIT = 30_000

interface Waiter {
  readonly resolve: (isBorne: boolean) => void
}

interface Under {
  count: number
  waiting: Waiter[]
}

/**
 * Bounds concurrent requests of a balance whose cost is known only at their end. Images, files and earlier responses
 * escape the estimate; each request in flight can lose their cost.
 */
export class RequestsUnderWay {
  readonly #clock: Clock
  readonly #balances = new Map<string, Under>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Returns null if a slot is free, else waits for one. Resolves with false, without a slot, if an earlier request
   * overran the balance.
   * @throws LongError 429 after 30 seconds, or if 64 requests wait
   */
  enter(balanceId: string): Promise<boolean> | null {
    let under = this.#balances.get(balanceId)
    if (under === undefined) this.#balances.set(balanceId, (under = { count: 0, waiting: [] }))
    if (under.count < MOST) {
      under.count++
      return null
    }
    return under.waiting.length < MOST_WAITING ? this.#wait(under) : Promise.reject(busy())
  }

  /** Frees a slot. `isShort`: the request overran the balance. */
  leave(balanceId: string, isShort: boolean): void {
    const under = this.#balances.get(balanceId)
    if (under === undefined) return
    if (isShort) for (const { resolve } of under.waiting.splice(0)) resolve(false)
    const next = under.waiting.shift()
    if (next !== undefined) next.resolve(true)
    else if (--under.count === 0) this.#balances.delete(balanceId)
  }

  async #wait(under: Under): Promise<boolean> {
    const { promise, resolve, reject } = Promise.withResolvers<boolean>()
    const waiter = { resolve }
    under.waiting.push(waiter)
    const timer = this.#clock.after(WAIT, () => {
      under.waiting = under.waiting.filter(each => each !== waiter)
      reject(busy())
    })
    try {
      return await promise
    } finally {
      timer.cancel()
    }
  }
}

function busy(): LongError {
  return new LongError(
    RATE_LIMITED,
    'Balance busy',
    `More than ${MOST} requests of this balance are under way. Nothing was charged; send the request again.`,
    { retryAfter: 5 },
    ['Retry-After', '5']
  )
}
