import { defineError } from '../system/errors.ts'

const STATE_AWAY = defineError('BG_STATE_AWAY', {
  cause:
    'Redis is unreachable or sent an unusable reply. Until it recovers, limits are inexact, or requests are rejected where `onError: deny` is set.',
  fix: 'Check Redis and `state.url`; the gateway reconnects.'
})
/**
 * A value that is there already, or a promise of it. Test for a promise before awaiting: the hot path must not wait for
 * what it has.
 */
export type Maybe<T> = T | Promise<T>

/** Whether a counted request may pass. */
export interface LimitVerdict {
  readonly allowed: boolean
  /** How many more may pass before the limit; with Redis what this worker last heard, so at most this. */
  readonly remaining: number
  /** Milliseconds until the next one could pass: 0 when allowed, else more than 0. */
  readonly retryAfterMs: number
}

/** A response that is kept to be given again, byte for byte. */
export interface ReplayRecord {
  readonly status: number
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: Uint8Array
}

/**
 * What `begin` found: nobody has the key, run and then `finish` or `abandon` with the token; the response is there; the
 * key was used with another fingerprint (decision 18); or another request with it is running (decision 19: `waitFor`
 * it).
 */
export type Begun =
  | { readonly kind: 'run'; readonly token: string }
  | { readonly kind: 'replay'; readonly record: ReplayRecord }
  | { readonly kind: 'conflict' }
  | { readonly kind: 'running' }

/** How waiting ended: with the response; with nothing kept, so that the waiter may `begin` itself; or too late. */
export type Waited =
  | { readonly kind: 'replay'; readonly record: ReplayRecord }
  | { readonly kind: 'gone' }
  | { readonly kind: 'timeout' }

/** A budget that refills steadily: a token bucket. */
export interface Bucket {
  /** Tokens that it holds at most, all of them at first. */
  readonly burst: number
  readonly perMinute: number
}

/** What came of asking a bucket for tokens. */
export interface Taken {
  readonly allowed: boolean
  /** Tokens that are there now; whole ones and parts. */
  readonly left: number
  /** Milliseconds until they could be had, if nobody else takes any: 0 when allowed. */
  readonly retryAfterMs: number
}

/**
 * What workers share and may lose: rate counters, idempotent replays, caches. Never the record of money or of spent
 * credentials. Every operation is atomic, also between workers. Keys are free text; those of counters, failures,
 * replays and cache do not meet. Memory answers at once; Redis may answer with a promise that rejects with
 * `StateUnavailable`, and the caller decides whether that means allow, deny or a local state.
 */
export interface State {
  readonly kind: 'memory' | 'redis'
  /**
   * Counts one request in a window of `windowMs` that begins with the key's first counted request; a refused one is not
   * counted (decision 33).
   *
   * Over any number of workers exactly `limit` pass in one window. On Redis a worker takes permits for busy keys some
   * at a time, fewer the nearer the limit is, and gives back what it has not used within a quarter of a second; a
   * request that finds none left while others may still give some back waits that long for the answer.
   */
  takeFixed(key: string, limit: number, windowMs: number): Maybe<LimitVerdict>
  /**
   * Counts one request in a window of `segments` parts: allowed while the current and the parts before it hold fewer
   * than `limit` (decision 34). Parts stand at multiples of `windowMs / segments` of the clock.
   */
  takeSliding(key: string, limit: number, windowMs: number, segments: number): Maybe<LimitVerdict>
  /** How many a fixed window has counted (on Redis: given out to workers), without counting. 0 when none is open. */
  count(key: string): Maybe<number>
  /**
   * Counts a failure (a wrong key) in a window that begins with the first one.
   * @returns what `blockedFor` would say now.
   */
  recordFailure(key: string, limit: number, windowMs: number): Maybe<number>
  /**
   * Milliseconds for which the key is blocked: more than 0 once more than `limit` failures stand in its window, until
   * that ends (decisions 27, 28).
   */
  blockedFor(key: string, limit: number): Maybe<number>
  /**
   * Takes `cost` tokens where at least `keep` stay behind, and the bucket does not rest; else none. A cost of 0 only
   * looks.
   */
  takeTokens(key: string, bucket: Bucket, cost: number, keep: number): Maybe<Taken>
  /** Empties a bucket and lets nobody take from it for `ms`. It fills meanwhile. */
  restBucket(key: string, bucket: Bucket, ms: number): Maybe<void>
  /**
   * Adds to a count that decays, halving in each `halfLifeMs`; less than nothing is nothing.
   * @returns what it was before
   */
  tally(key: string, add: number, halfLifeMs: number): Maybe<number>
  /**
   * Claims an idempotency key for one running request. The claim lapses after `lockMs`, so that a dead worker does not hold it,
   * unless it is extended.
   */
  begin(key: string, fingerprint: string, lockMs: number): Maybe<Begun>
  /** Makes a claim last for another `lockMs` from now. False when it had lapsed. */
  extend(key: string, token: string, lockMs: number): Maybe<boolean>
  /**
   * Keeps the response for `ttlMs` and lets the waiters have it. False when the claim had fallen: then nothing is kept.
   */
  finish(key: string, token: string, record: ReplayRecord, ttlMs: number): Maybe<boolean>
  /** Gives the claim up and keeps nothing; a waiter may begin. False when it had fallen. */
  abandon(key: string, token: string): Maybe<boolean>
  /** Waits until the request that runs under the key ends, at most `timeoutMs`. */
  waitFor(key: string, timeoutMs: number): Promise<Waited>
  /** The cached text, or undefined. */
  get(key: string): Maybe<string | undefined>
  /** Caches a text for `ttlMs`. It may be dropped earlier. */
  set(key: string, value: string, ttlMs: number): Maybe<void>
  delete(key: string): Maybe<void>
  /** Whether the state can be reached; never rejects. */
  healthy(): Promise<boolean>
  close(): Promise<void>
}

/** The state cannot be reached or did not answer in time. */
export class StateUnavailable extends Error {
  override name = 'StateUnavailable'
  readonly code = STATE_AWAY.code
}
