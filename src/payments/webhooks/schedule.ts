/**
 * Milliseconds that one attempt may take, from resolving the name on (contract, Events 5 and Limits: Outbound webhook).
 */
export const ATTEMPT_TIMEOUT = 10_000

/** Milliseconds from the end of the first, second … failed attempt to the next (contract, Events 5; decision 160). */
export const BACKOFF: readonly number[] = Object.freeze([30_000, 60_000, 120_000, 240_000, 480_000])

/**
 * When the attempt after the failed ones so far is due, in milliseconds since the epoch; null when there is none: the
 * event is permanently failed. `failed` counts the one that ended at `endedAt`.
 */
export function nextAttemptAt(failed: number, endedAt: number, backoff: readonly number[] = BACKOFF): number | null {
  const pause = backoff[failed - 1]
  return pause === undefined ? null : endedAt + pause
}
