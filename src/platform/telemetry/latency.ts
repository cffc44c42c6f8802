/** Prometheus buckets of latencies in seconds: from a cached response to a long poll. */
export const LATENCY_BOUNDS: readonly number[] = Object.freeze([
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30
])

/**
 * Parts counted per bucket, for percentiles within about a sixth. Hidden from Prometheus, which would keep four times
 * as many series.
 */
export const LATENCY_PARTS = 4

/**
 * Ascending upper bounds of the parts in seconds: each bucket is cut into parts of geometric growth, the first into
 * equal ones. A latency's counts have one more for values above them all.
 */
export const LATENCY_PART_BOUNDS: readonly number[] = LATENCY_BOUNDS.flatMap((upper, at) => {
  const lower = LATENCY_BOUNDS[at - 1]
  return Array.from({ length: LATENCY_PARTS }, (_, part) => {
    const share = (part + 1) / LATENCY_PARTS
    if (share === 1) return upper
    return lower === undefined ? upper * share : lower * (upper / lower) ** share
  })
})

/** Index of a value's part; the last, one more than bounds, is above them all. */
export function partOf(value: number): number {
  let bucket = 0
  while (bucket < LATENCY_BOUNDS.length && value > (LATENCY_BOUNDS[bucket] as number) /* below its length */) bucket++
  let at = bucket * LATENCY_PARTS
  if (bucket < LATENCY_BOUNDS.length) {
    const last = at + LATENCY_PARTS - 1
    while (at < last && value > (LATENCY_PART_BOUNDS[at] as number) /* one of the bucket's */) at++
  }
  return at
}

/** Non-zero counts by index in `LATENCY_PART_BOUNDS`. */
export type LatencyCounts = ReadonlyMap<number, number>

/**
 * The quantile `share` (0.5 for the median) in seconds, interpolated within a bucket; null without requests. Values
 * above every bound count as the highest.
 */
export function percentile(counts: LatencyCounts, share: number): number | null {
  let all = 0
  for (const count of counts.values()) all += count
  if (all === 0) return null
  const wanted = share * all
  let below = 0
  for (const bucket of [...counts.keys()].sort((a, b) => a - b)) {
    const count = counts.get(bucket) ?? 0
    if (below + count >= wanted) {
      const lower = LATENCY_PART_BOUNDS[bucket - 1] ?? 0
      const upper = LATENCY_PART_BOUNDS[bucket] ?? lower
      return lower + (upper - lower) * ((wanted - below) / count)
    }
    below += count
  }
  return null
}
