import type { Latency } from '../load/request.ts'

/** The middle of several rounds, with the lowest and highest beside it. */
export interface Spread {
  readonly median: number
  readonly low: number
  readonly high: number
}

/** Median, lowest and highest; null of no values at all. */
export function spreadOf(values: readonly number[]): Spread | null {
  const sorted = values.toSorted((a, b) => a - b)
  const [low] = sorted
  const high = sorted.at(-1)
  if (low === undefined || high === undefined) return null
  const middle = sorted.length / 2
  const upper = sorted[Math.floor(middle)] ?? high
  const lower = sorted[Math.ceil(middle) - 1] ?? low
  return { median: (lower + upper) / 2, low, high }
}

/** Percentiles by nearest rank: a value that was really measured. All zero of no samples. */
export function percentiles(samples: readonly number[]): Latency {
  const sorted = Float64Array.from(samples).sort()
  const at = (share: number): number => sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0
  return { p50: at(0.5), p99: at(0.99), p999: at(0.999) }
}
