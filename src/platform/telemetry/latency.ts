/** Prometheus buckets of latencies in seconds: from a cached response to a long poll. */
export const LATENCY_BOUNDS: readonly number[] = Object.freeze([
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30
])

/**
 * Parts counted per bucket, for percentiles within about a sixth. Hidden from Prometheus, which would keep four times
 * as many series.
 */
const LATENCY_PARTS = 4

/**
 * Ascending upper bounds of the parts: each bucket is cut into `parts` of geometric growth, the first into equal ones.
 * Each bucket's last part ends at its bound.
 */
function boundsOfParts(bounds: readonly number[], parts: number): number[] {
  return bounds.flatMap((upper, at) => {
    const lower = bounds[at - 1]
    return Array.from({ length: parts }, (_, part) => {
      const share = (part + 1) / parts
      if (share === 1) return upper
      return lower === undefined ? upper * share : lower * (upper / lower) ** share
    })
  })
}

export interface Split {
  readonly whole: readonly number[]
  readonly parts: number
  readonly ofParts: readonly number[]
}

function splitOf(bounds: readonly number[], parts: number): Split {
  return { whole: [...bounds], parts, ofParts: boundsOfParts(bounds, parts) }
}

/** Index of a value's part; the last, one more than bounds, is above them all. */
export function partOf({ whole, parts, ofParts }: Split, value: number): number {
  let bucket = 0
  while (bucket < whole.length && value > (whole[bucket] as number) /* below its length */) bucket++
  let at = bucket * parts
  if (bucket < whole.length) {
    const last = at + parts - 1
    while (at < last && value > (ofParts[at] as number) /* one of the bucket's */) at++
  }
  return at
}

export const LATENCY_SPLIT: Split = Object.freeze(splitOf(LATENCY_BOUNDS, LATENCY_PARTS))

/** Upper bounds in seconds of a latency's `counts`, which has one more for values above them all. */
export const LATENCY_PART_BOUNDS: readonly number[] = LATENCY_SPLIT.ofParts

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
