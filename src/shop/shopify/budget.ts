import { LRUCache } from 'lru-cache'
import type { Clock } from '../../platform/system/clock.ts'

/** Stores whose bucket is remembered. */
const MOST = 10_000

interface Bucket {
  available: number
  maximum: number
  /** Points that come back in a second. */
  restoreRate: number
  /** In the clock's monotonic milliseconds. */
  at: number
}

/** What the platform says of a bucket with each answer. */
export interface ThrottleStatus {
  readonly maximumAvailable: number
  readonly currentlyAvailable: number
  readonly restoreRate: number
}

/**
 * The points that each store's calls have left, as the last answer told, filled up by time. Points of calls under way
 * are taken at once, so that many at a time do not all count on the same ones.
 */
export class CostBudgets {
  readonly #clock: Clock
  readonly #buckets = new LRUCache<string, Bucket>({ max: MOST })

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Milliseconds until `cost` points are there; 0 when they are, or nothing is known yet. */
  waitFor(key: string, cost: number): number {
    const bucket = this.#filled(key)
    if (bucket === null) return 0
    // More than the bucket can hold would never be there; the platform judges that itself.
    const missing = Math.min(cost, bucket.maximum) - bucket.available
    return missing <= 0 ? 0 : Math.ceil((missing / bucket.restoreRate) * 1000)
  }

  /** A call of this cost goes out. */
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
