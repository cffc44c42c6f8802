import { RATE_LIMITED } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import type { Clock } from '../../platform/system/clock.ts'

/** Maximum concurrent requests of one balance, and maximum requests that wait for a place. */
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
 * Bounds the requests of one balance whose cost is known only at their end. A reservation is an estimate: images, files
 * and earlier responses are not in the body. What they cost beyond it can be lost once for each request under way.
 */
export class RequestsUnderWay {
  readonly #clock: Clock
  readonly #balances = new Map<string, Under>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Takes a place, or waits for one. Returns null when a place is free. Resolves with false, without a place, when an
   * earlier request cost more than the balance had.
   * @throws LongError 429 when there is no place within 30 seconds, or 64 requests wait already
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

  /** Gives a place back. `isShort`: its request cost more than the balance had. */
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
