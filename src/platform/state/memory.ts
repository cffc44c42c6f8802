import { LRUCache } from 'lru-cache'
import type { Clock } from '../system/clock.ts'
import type { Begun, Bucket, ReplayRecord, State, Taken, LimitVerdict, Waited } from './state.ts'

interface FixedWindow {
  count: number
  until: number
}

interface SlidingWindow {
  newest: number
  counts: number[]
}

interface Tokens {
  left: number
  at: number
  restsUntil: number
}

interface Tally {
  count: number
  at: number
}

interface Running {
  fingerprint: string
  token: string
  until: number
  waiters: Set<(waited: Waited) => void>
}

interface Kept {
  fingerprint: string
  record: ReplayRecord
  until: number
}

interface Cached {
  value: string
  until: number
}

interface MemoryStateLimits {
  /** Most keys per kind of counter. Eviction starts a new window, so keep this above the clients of a window. */
  counters?: number
  replayBytes?: number
  cached?: number
}

const passed = 0
// Estimated overhead of a kept response: keys, headers, objects. Bounds many tiny ones too.
const recordOverhead = 512

/** At most `most` entries. With `max` the cache would preallocate: 100 ms of every start and 20 MB. */
function growing(most: number): { readonly maxSize: number; sizeCalculation(): number } {
  return { maxSize: most, sizeCalculation: () => 1 }
}

/** In-process state; everything but `waitFor` is synchronous. Time is the Clock's. */
export class MemoryState implements State {
  readonly kind = 'memory'
  readonly #clock: Clock
  readonly #fixed: LRUCache<string, FixedWindow>
  readonly #sliding: LRUCache<string, SlidingWindow>
  readonly #failures: LRUCache<string, FixedWindow>
  readonly #tokens: LRUCache<string, Tokens>
  readonly #tallies: LRUCache<string, Tally>
  readonly #kept: LRUCache<string, Kept>
  readonly #cached: LRUCache<string, Cached>
  /** Unbounded itself: each entry is a running request, and those are bounded. */
  readonly #running = new Map<string, Running>()
  #claims = 0

  constructor(clock: Clock, limits: MemoryStateLimits = {}) {
    this.#clock = clock
    const counters = limits.counters ?? 200_000
    this.#fixed = new LRUCache(growing(counters))
    this.#sliding = new LRUCache(growing(counters))
    this.#failures = new LRUCache(growing(counters))
    this.#tokens = new LRUCache(growing(counters))
    this.#tallies = new LRUCache(growing(counters))
    this.#cached = new LRUCache(growing(limits.cached ?? 50_000))
    const replayBytes = limits.replayBytes ?? 64 * 1024 * 1024
    this.#kept = new LRUCache({
      maxSize: replayBytes,
      sizeCalculation: (kept, key) => recordOverhead + key.length + kept.record.body.byteLength
    })
  }

  takeFixed(key: string, limit: number, windowMs: number): LimitVerdict {
    const now = this.#clock.now()
    const window = this.#fixed.get(key)
    if (window === undefined || now >= window.until) {
      if (limit < 1) return { allowed: false, remaining: 0, retryAfterMs: windowMs }
      this.#fixed.set(key, { count: 1, until: now + windowMs })
      return { allowed: true, remaining: limit - 1, retryAfterMs: passed }
    }
    if (window.count >= limit) return { allowed: false, remaining: 0, retryAfterMs: window.until - now }
    window.count++
    return { allowed: true, remaining: limit - window.count, retryAfterMs: passed }
  }

  takeSliding(key: string, limit: number, windowMs: number, segments: number): LimitVerdict {
    const now = this.#clock.now()
    const length = windowMs / segments
    const newest = Math.floor(now / length)
    let window = this.#sliding.get(key)
    if (window === undefined || window.counts.length !== segments) {
      window = { newest, counts: Array.from({ length: segments }, () => 0) }
      this.#sliding.set(key, window)
    }
    // A clock that was set back keeps counting in the newest segment it has seen.
    for (let steps = Math.min(newest - window.newest, segments); steps > 0; steps--)
      window.counts[(newest - steps + 1) % segments] = 0
    if (newest > window.newest) window.newest = newest
    let count = 0
    for (const part of window.counts) count += part
    if (count >= limit)
      return { allowed: false, remaining: 0, retryAfterMs: Math.max(1, Math.ceil((window.newest + 1) * length - now)) }
    const slot = window.newest % segments
    window.counts[slot] = (window.counts[slot] ?? 0) + 1
    return { allowed: true, remaining: limit - count - 1, retryAfterMs: passed }
  }

  recordFailure(key: string, limit: number, windowMs: number): number {
    const now = this.#clock.now()
    const window = this.#failures.get(key)
    if (window === undefined || now >= window.until) this.#failures.set(key, { count: 1, until: now + windowMs })
    else window.count++
    return this.blockedFor(key, limit)
  }

  blockedFor(key: string, limit: number): number {
    const window = this.#failures.get(key)
    if (window === undefined || window.count <= limit) return 0
    return Math.max(0, window.until - this.#clock.now())
  }

  takeTokens(key: string, bucket: Bucket, cost: number, keep: number): Taken {
    const now = this.#clock.now()
    const before = this.#tokens.get(key)
    const left = before === undefined ? bucket.burst : filled(before, bucket, now)
    const restsUntil = before?.restsUntil ?? 0
    const wait = Math.max(0, restsUntil - now, msUntil(keep + cost - left, bucket))
    const after = wait === 0 ? left - cost : left
    this.#tokens.set(key, { left: after, at: now, restsUntil })
    return { allowed: wait === 0, left: after, retryAfterMs: wait }
  }

  restBucket(key: string, _bucket: Bucket, ms: number): void {
    const now = this.#clock.now()
    this.#tokens.set(key, { left: 0, at: now, restsUntil: Math.max(now + ms, this.#tokens.get(key)?.restsUntil ?? 0) })
  }

  tally(key: string, add: number, halfLifeMs: number): number {
    const now = this.#clock.now()
    const before = this.#tallies.get(key)
    const count = before === undefined ? 0 : before.count * 2 ** (-Math.max(0, now - before.at) / halfLifeMs)
    this.#tallies.set(key, { count: Math.max(0, count + add), at: now })
    return count
  }

  begin(key: string, fingerprint: string, lockMs: number): Begun {
    const now = this.#clock.now()
    const kept = this.#kept.get(key)
    if (kept !== undefined && now < kept.until) {
      return kept.fingerprint === fingerprint ? { kind: 'replay', record: kept.record } : { kind: 'conflict' }
    }
    const running = this.#running.get(key)
    if (running !== undefined && now < running.until) {
      return running.fingerprint === fingerprint ? { kind: 'running' } : { kind: 'conflict' }
    }
    const token = String(++this.#claims)
    // Waiters of a lapsed claim continue to wait for the new one.
    this.#running.set(key, { fingerprint, token, until: now + lockMs, waiters: running?.waiters ?? new Set() })
    return { kind: 'run', token }
  }

  extend(key: string, token: string, lockMs: number): boolean {
    const running = this.#running.get(key)
    if (running?.token !== token) return false
    running.until = this.#clock.now() + lockMs
    return true
  }

  finish(key: string, token: string, record: ReplayRecord, ttlMs: number): boolean {
    const running = this.#running.get(key)
    if (running?.token !== token) return false
    this.#running.delete(key)
    this.#kept.set(key, { fingerprint: running.fingerprint, record, until: this.#clock.now() + ttlMs })
    for (const tell of running.waiters) tell({ kind: 'replay', record })
    return true
  }

  abandon(key: string, token: string): boolean {
    const running = this.#running.get(key)
    if (running?.token !== token) return false
    this.#running.delete(key)
    for (const tell of running.waiters) tell({ kind: 'gone' })
    return true
  }

  waitFor(key: string, timeoutMs: number): Promise<Waited> {
    const now = this.#clock.now()
    const kept = this.#kept.get(key)
    if (kept !== undefined && now < kept.until) return Promise.resolve({ kind: 'replay', record: kept.record })
    const running = this.#running.get(key)
    if (running === undefined || now >= running.until) return Promise.resolve({ kind: 'gone' })
    return new Promise(resolve => {
      const { waiters } = running
      const end = (waited: Waited): void => {
        timer.cancel()
        waiters.delete(end)
        resolve(waited)
      }
      const timer = this.#clock.after(timeoutMs, () => {
        end({ kind: 'timeout' })
      })
      waiters.add(end)
    })
  }

  get(key: string): string | undefined {
    const cached = this.#cached.get(key)
    if (cached === undefined) return undefined
    if (this.#clock.now() < cached.until) return cached.value
    this.#cached.delete(key)
    return undefined
  }

  set(key: string, value: string, ttlMs: number): void {
    this.#cached.set(key, { value, until: this.#clock.now() + ttlMs })
  }

  delete(key: string): void {
    this.#cached.delete(key)
  }

  healthy(): Promise<boolean> {
    return Promise.resolve(true)
  }

  inspect(): ReturnType<State['inspect']> {
    return Promise.resolve({ policy: 'noeviction', at: this.#clock.now() })
  }

  close(): Promise<void> {
    for (const running of this.#running.values()) {
      for (const tell of running.waiters) tell({ kind: 'gone' })
    }
    this.#running.clear()
    return Promise.resolve()
  }
}

function filled({ left, at }: Tokens, { burst, perMinute }: Bucket, now: number): number {
  return Math.min(burst, left + (Math.max(0, now - at) * perMinute) / 60_000)
}

function msUntil(missing: number, { perMinute }: Bucket): number {
  // Ignores floating-point error of fractional tokens.
  return missing < 1e-6 ? 0 : Math.ceil((missing * 60_000) / perMinute)
}
