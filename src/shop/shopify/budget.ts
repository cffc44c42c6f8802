import { LRUCache } from 'lru-cache'
import type { Clock } from '../../platform/system/clock.ts'

/** Stores whose bucket is remembered. */
const MOST = 10_000

interface Bucket {
  available: number
  maximum: number
  /** Points per second. */
  restoreRate: number
  /** Monotonic milliseconds. */
  at: number
}

export interface ThrottleStatus {
  readonly maximumAvailable: number
  readonly currentlyAvailable: number
  readonly restoreRate: number
}

/**
 * Points left for each store's calls, as of its last response, refilled by time. Calls in flight are deducted
 * immediately, so that concurrent ones do not count the same points.
 */
export class CostBudgets {
  readonly #clock: Clock
  readonly #buckets = new LRUCache<string, Bucket>({ max: MOST })

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Milliseconds until `cost` points are available; 0 when unknown. */
  waitFor(key: string, cost: number): number {
    const bucket = this.#filled(key)
    if (bucket === null) return 0
    // A cost above the maximum would wait forever; the platform judges it.
    const missing = Math.min(cost, bucket.maximum) - bucket.available
    return missing <= 0 ? 0 : Math.ceil((missing / bucket.restoreRate) * 1000)
  }

  spend(key: string, cost: number): void {
    const bucket = this.#filled(key)
    if (bucket !== null) bucket.available -= cost
  }

  learn(key: string, status: ThrottleStatus): void {
    this.#buckets.set(key, {
      available: status.currentlyAvailable,
      maximum: status.maximumAvailable,
      restoreRate: status.restoreRate,
      at: this.#clock.monotonic()
    })
  }

  #filled(key: string): Bucket | null {
    const bucket = this.#buckets.get(key)
    if (bucket === undefined) return null
    const now = this.#clock.monotonic()
    bucket.available = Math.min(bucket.maximum, bucket.available + ((now - bucket.at) / 1000) * bucket.restoreRate)
    bucket.at = now
    return bucket
  }
}
