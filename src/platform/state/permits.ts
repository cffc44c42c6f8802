import { pause, type Clock } from '../system/clock.ts'
import type { LimitVerdict, Maybe } from './state.ts'

/** Permits of one fixed window held by this worker. */
interface Permits {
  left: number
  beyond: number
  /** Expiry in monotonic milliseconds. */
  until: number
  /** Redis has none left in this window, and none can be returned. */
  spent: boolean
  limit: number
  size: number
  /** Monotonic milliseconds when unused permits expire. */
  holdUntil: number
  window: string
}

// At most a tenth of the limit at a time.
const batches = 10
// Unused permits are returned after this time; a key that uses its own up within it gets twice as many.
const holdMs = 250
// Latest return in Redis, after this many further milliseconds.
const givingBackMs = 100
const sweepEvery = 10_000

interface WindowGrant {
  readonly granted: number
  readonly beyond: number
  /** Milliseconds to the end of the window. */
  readonly left: number
  /** Milliseconds for which other workers may still return some. */
  readonly back: number
  readonly window: string
}

interface SharedWindows {
  /** Asks for up to `want` permits, which other workers may get back after `heldMs`. */
  take(key: string, limit: number, windowMs: number, want: number, heldMs: number): Promise<WindowGrant>
  giveBack(key: string, window: string, count: number): Promise<void>
}

/** Fixed windows that workers share: a busy key takes its permits in batches, and returns the unused ones. */
export class HeldPermits {
  readonly #clock: Clock
  readonly #shared: SharedWindows
  readonly #permits = new Map<string, Permits>()
  readonly #asking = new Map<string, Promise<void>>()
  #untilSweep = sweepEvery

  constructor(clock: Clock, shared: SharedWindows) {
    this.#clock = clock
    this.#shared = shared
  }

  take(key: string, limit: number, windowMs: number): Maybe<LimitVerdict> {
    return this.#takeHeld(key, limit) ?? this.#takeAsking(key, limit, windowMs)
  }

  async close(): Promise<void> {
    await Promise.all([...this.#permits].map(([key, held]) => this.#giveBack(key, held)))
  }

  #takeHeld(key: string, limit: number): LimitVerdict | null {
    const held = this.#permits.get(key)
    if (held === undefined) return null
    const now = this.#clock.monotonic()
    // Another limit means that a reload changed the policy: held permits were cut for the old one.
    if (now >= held.until || held.limit !== limit) {
      void this.#giveBack(key, held)
      this.#permits.delete(key)
      return null
    }
    if (held.left > 0 && now >= held.holdUntil) {
      void this.#giveBack(key, held)
      return null
    }
    if (held.left > 0) {
      held.left--
      return { allowed: true, remaining: held.left + held.beyond, retryAfterMs: 0 }
    }
    return held.spent ? { allowed: false, remaining: 0, retryAfterMs: Math.max(1, Math.ceil(held.until - now)) } : null
  }

  async #takeAsking(key: string, limit: number, windowMs: number): Promise<LimitVerdict> {
    for (;;) {
      // Requests share a pending batch, and query again when it is used up.
      const asking = this.#asking.get(key) ?? this.#ask(key, limit, windowMs)
      await asking
      const verdict = this.#takeHeld(key, limit)
      if (verdict !== null) return verdict
    }
  }

  #ask(key: string, limit: number, windowMs: number): Promise<void> {
    const asking = this.#askNow(key, limit, windowMs).finally(() => {
      this.#asking.delete(key)
    })
    this.#asking.set(key, asking)
    return asking
  }

  async #askNow(key: string, limit: number, windowMs: number): Promise<void> {
    const last = this.#permits.get(key)
    const isBusy = last !== undefined && last.limit === limit && this.#clock.monotonic() < last.holdUntil
    const want = isBusy ? Math.max(1, Math.min(last.size * 2, Math.ceil(limit / batches))) : 1
    for (;;) {
      // Measured before the query, so that permits end before their window in Redis.
      const startedAt = this.#clock.monotonic()
      const { granted, beyond, left, back, window } = await this.#shared.take(
        key,
        limit,
        windowMs,
        want,
        holdMs + givingBackMs
      )
      if (granted === 0 && back > 0) {
        await pause(this.#clock, back)
        continue
      }
      const held: Permits = {
        left: granted,
        beyond,
        until: startedAt + Math.max(left, 1),
        spent: granted === 0,
        limit,
        size: granted,
        holdUntil: startedAt + holdMs,
        window
      }
      this.#permits.set(key, held)
      if (granted > 1)
        this.#clock.after(holdMs, () => {
          void this.#giveBack(key, held)
        })
      if (--this.#untilSweep <= 0) this.#sweep()
      return
    }
  }

  async #giveBack(key: string, held: Permits): Promise<void> {
    const { left, window } = held
    if (left === 0) return
    held.left = 0
    // A key that is not busy queries singly next.
    if (this.#permits.get(key) === held) this.#permits.delete(key)
    await this.#shared.giveBack(key, window, left)
  }

  #sweep(): void {
    this.#untilSweep = sweepEvery
    const now = this.#clock.monotonic()
    for (const [key, held] of this.#permits) {
      if (now >= held.until) this.#permits.delete(key)
    }
  }
}
