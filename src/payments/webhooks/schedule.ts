/** Milliseconds of one attempt including DNS (contract, Events 5 and Limits: Outbound webhook). */
export const ATTEMPT_TIMEOUT = 10_000

/** Milliseconds from the end of each failed attempt to the next (contract, Events 5; decision 160). */
export const BACKOFF: readonly number[] = Object.freeze([30_000, 60_000, 120_000, 240_000, 480_000])

/**
 * Due time of the next attempt in milliseconds since the epoch; null when the event has permanently failed. `failed`
 * counts the one that ended at `endedAt`.
 */
export function nextAttemptAt(failed: number, endedAt: number, backoff: readonly number[] = BACKOFF): number | null {
  const pause = backoff[failed - 1]
  return pause === undefined ? null : endedAt + pause
}
