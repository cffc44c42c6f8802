/** Upper bounds of latencies as Prometheus is told them, in seconds: from a cached response to a long poll. */
export const LATENCY_BOUNDS: readonly number[] = Object.freeze([
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30
])

/**
 * Parts of each of these that are counted apart, so that a percentile is known to about a sixth. Prometheus is not told
 * them: it would keep four times as many series.
 */
export const LATENCY_PARTS = 4

/**
 * Upper bounds of the parts of buckets, ascending: each bucket is cut into `parts` that grow alike, the first one into
 * equal ones. The last bound of each bucket's parts is its own.
 */
export function boundsOfParts(bounds: readonly number[], parts: number): number[] {
  return bounds.flatMap((upper, at) => {
    const lower = bounds[at - 1]
    return Array.from({ length: parts }, (_, part) => {
      const share = (part + 1) / parts
      if (share === 1) return upper
      return lower === undefined ? upper * share : lower * (upper / lower) ** share
    })
  })
}

/** Upper bounds of buckets, ascending, and of the parts that each is counted in. */
export interface Split {
  readonly whole: readonly number[]
  readonly parts: number
  readonly ofParts: readonly number[]
}

/** Each bucket of `bounds` in so many parts. */
export function splitOf(bounds: readonly number[], parts: number): Split {
  return { whole: [...bounds], parts, ofParts: boundsOfParts(bounds, parts) }
}

/** Number of the part that a value falls into; the last one, of which there is one more than bounds, is above them all. */
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

/** How latencies are counted. */
export const LATENCY_SPLIT: Split = Object.freeze(splitOf(LATENCY_BOUNDS, LATENCY_PARTS))

/** Upper bounds in seconds of what a latency's `counts` counts; one more count is above them all. */
export const LATENCY_PART_BOUNDS: readonly number[] = LATENCY_SPLIT.ofParts

/** Observations by the number of their bucket among those of `LATENCY_PART_BOUNDS`; buckets without any are left out. */
export type LatencyCounts = ReadonlyMap<number, number>

/**
 * The latency that a share of requests (0.5 for the median) did not exceed, in seconds, as if those of a bucket lay
 * evenly in it; null for no requests. What is above every bound counts as the highest.
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
