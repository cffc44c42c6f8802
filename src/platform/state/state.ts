import { defineError } from '../system/errors.ts'

const STATE_AWAY = defineError('BG_STATE_AWAY', {
  cause: 'Redis is unreachable or sent an unusable reply. Until it recovers, each worker counts its limits alone.',
  fix: 'Check Redis and `state.url`; the gateway reconnects.'
})
/** A value or a promise of it. Test for a promise before awaiting: the hot path must not wait for a present value. */
export type Maybe<T> = T | Promise<T>

export interface LimitVerdict {
  readonly allowed: boolean
  /** Upper bound of further requests; with Redis as this worker last heard. */
  readonly remaining: number
  /** Milliseconds until the next one could pass; 0 when allowed. */
  readonly retryAfterMs: number
}

export interface ReplayRecord {
  readonly status: number
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: Uint8Array
}

/**
 * What `begin` found: a free key, to run and then `finish` or `abandon` with the token; the response; another
 * fingerprint (decision 18); or a running request (decision 19: `waitFor` it).
 */
export type Begun =
  | { readonly kind: 'run'; readonly token: string }
  | { readonly kind: 'replay'; readonly record: ReplayRecord }
  | { readonly kind: 'conflict' }
  | { readonly kind: 'running' }

/** The response; nothing kept, so that the waiter may `begin` itself; or a timeout. */
export type Waited =
  | { readonly kind: 'replay'; readonly record: ReplayRecord }
  | { readonly kind: 'gone' }
  | { readonly kind: 'timeout' }

export interface Bucket {
  /** Capacity, and initial tokens. */
  readonly burst: number
  readonly perMinute: number
}

export interface Taken {
  readonly allowed: boolean
  readonly left: number
  /** Milliseconds until they are available without other takers; 0 when allowed. */
  readonly retryAfterMs: number
}

/**
 * What workers share and may lose: rate counters, idempotent replays, caches. Never the record of money or of spent
 * credentials. Every operation is atomic, also between workers. Keys are free text; counters, failures, replays and
 * cache have separate namespaces. Memory is synchronous; Redis may return a promise that rejects with
 * `StateUnavailable`, and the caller decides on allow, deny or a local state.
 */
export interface State {
  readonly kind: 'memory' | 'redis'
  /**
   * Counts a request in a window that starts with the key's first counted one; refused ones do not count (decision 33).
   *
   * Over any number of workers exactly `limit` pass in one window. On Redis a worker takes permits for busy keys in
   * batches, fewer near the limit, and returns unused ones within 250 ms; a request that finds none left while some may
   * still be returned waits that long.
   */
  takeFixed(key: string, limit: number, windowMs: number): Maybe<LimitVerdict>
  /**
   * Counts a request in a sliding window of `segments` parts: allowed while they hold fewer than `limit` (decision 34).
   * Parts are aligned to multiples of `windowMs / segments`.
   */
  takeSliding(key: string, limit: number, windowMs: number, segments: number): Maybe<LimitVerdict>
  /**
   * Counts a failure (a wrong key) in a window that starts with the first one.
   * @returns the result of `blockedFor`.
   */
  recordFailure(key: string, limit: number, windowMs: number): Maybe<number>
  /**
   * Milliseconds for which the key is blocked: above 0 once its window has more than `limit` failures, until it ends
   * (decisions 27, 28).
   */
  blockedFor(key: string, limit: number): Maybe<number>
  /**
   * Takes `cost` tokens where at least `keep` remain, and the bucket does not rest; else none. A cost of 0 only reads.
   */
  takeTokens(key: string, bucket: Bucket, cost: number, keep: number): Maybe<Taken>
  /** Empties a bucket and blocks it for `ms`. It refills meanwhile. */
  restBucket(key: string, bucket: Bucket, ms: number): Maybe<void>
  /**
   * Adds to a count that halves in each `halfLifeMs`, at least 0.
   * @returns the previous value
   */
  tally(key: string, add: number, halfLifeMs: number): Maybe<number>
  /**
   * Claims an idempotency key for one request. The claim lapses after `lockMs` unless extended, so that a dead worker
   * does not hold it.
   */
  begin(key: string, fingerprint: string, lockMs: number): Maybe<Begun>
  /** Extends a claim to `lockMs` from now. False when it had lapsed. */
  extend(key: string, token: string, lockMs: number): Maybe<boolean>
  /**
   * Keeps the response for `ttlMs` and wakes the waiters. Keeps nothing and returns false when the claim had lapsed.
   */
  finish(key: string, token: string, record: ReplayRecord, ttlMs: number): Maybe<boolean>
  /** Releases the claim without a response; a waiter may begin. False when it had lapsed. */
  abandon(key: string, token: string): Maybe<boolean>
  /** Waits until the key's running request ends, at most `timeoutMs`. */
  waitFor(key: string, timeoutMs: number): Promise<Waited>
  get(key: string): Maybe<string | undefined>
  /** Caches a text for `ttlMs`; may be evicted earlier. */
  set(key: string, value: string, ttlMs: number): Maybe<void>
  delete(key: string): Maybe<void>
  /** Never rejects. */
  healthy(): Promise<boolean>
  /** Reads the server's eviction policy and clock (milliseconds since the epoch). Rejects if it is unreachable. */
  inspect(): Promise<{ readonly policy: string; readonly at: number }>
  close(): Promise<void>
}

export class StateUnavailable extends Error {
  override name = 'StateUnavailable'
  readonly code = STATE_AWAY.code
}

/** Undefined while the state is down: for hints to people, which must fail no request. */
export async function quietly<T>(pending: T | Promise<T>): Promise<T | undefined> {
  try {
    return await pending
  } catch (error) {
    if (error instanceof StateUnavailable) return undefined
    throw error
  }
}
