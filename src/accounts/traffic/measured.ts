import { percentile, type LatencyCounts } from '../../platform/telemetry/latency.ts'

/** What is counted of requests, in the order of its columns. */
export const MEASURED_NUMBERS = [
  'requests',
  'asked',
  'paidRequests',
  'sales',
  'sats',
  'clientErrors',
  'serverErrors',
  'upstreamFailures',
  'unfinished'
] as const

/** One of the numbers that are kept by minute. */
export type MeasuredNumber = (typeof MEASURED_NUMBERS)[number]

/** What was counted in some time of a route, or of all together. */
export interface Measured extends Record<MeasuredNumber, number> {
  readonly latencies: Map<number, number>
}

/** What was counted in a step of time. `route` is empty for all of them, and of a proxy its id. */
export interface MeasuredStep extends Measured {
  /** Begin of the step, in milliseconds since the epoch. */
  readonly at: number
  readonly route: string
}

/** Nothing yet. */
export function nothingMeasured(): Measured {
  return {
    requests: 0,
    asked: 0,
    paidRequests: 0,
    sales: 0,
    sats: 0,
    clientErrors: 0,
    serverErrors: 0,
    upstreamFailures: 0,
    unfinished: 0,
    latencies: new Map()
  }
}

/** Adds what was counted elsewhere, or at another time. */
export function add(
  to: Measured,
  more: Readonly<Record<MeasuredNumber, number>> & { readonly latencies: LatencyCounts }
): void {
  for (const name of MEASURED_NUMBERS) to[name] += more[name]
  for (const [bucket, count] of more.latencies) to.latencies.set(bucket, (to.latencies.get(bucket) ?? 0) + count)
}

/** Milliseconds that a share of the requests did not exceed, to three digits; null for no requests. */
export function percentileMs({ latencies }: { readonly latencies: LatencyCounts }, share: number): number | null {
  const seconds = percentile(latencies, share)
  return seconds === null ? null : Number((seconds * 1000).toPrecision(3))
}

/** The same summed up by route and longer steps. `beginOf` says in which one a moment is. */
export function summed(rows: readonly MeasuredStep[], beginOf: (at: number) => number): MeasuredStep[] {
  const sums = new Map<string, MeasuredStep>()
  for (const row of rows) {
    const at = beginOf(row.at)
    const key = `${at} ${row.route}`
    let sum = sums.get(key)
    if (sum === undefined) sums.set(key, (sum = { at, route: row.route, ...nothingMeasured() }))
    add(sum, row)
  }
  return [...sums.values()]
}
