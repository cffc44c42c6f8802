import { percentile, type LatencyCounts } from '../../platform/telemetry/latency.ts'

/** Measured numbers in column order. */
const MEASURED_NUMBERS = [
  'requests',
  'asked',
  'probes',
  'paidRequests',
  'sales',
  'sats',
  'clientErrors',
  'serverErrors',
  'upstreamFailures',
  'unfinished'
] as const

export type MeasuredNumber = (typeof MEASURED_NUMBERS)[number]

/** Sums of a route, or of all routes. */
export interface Measured extends Record<MeasuredNumber, number> {
  readonly latencies: Map<number, number>
}

/** Sums of a step. `route` is empty for all, or a proxy's id. */
export interface MeasuredStep extends Measured {
  /** Start of the step. */
  readonly at: number
  readonly route: string
}

export function nothingMeasured(): Measured {
  return {
    requests: 0,
    asked: 0,
    probes: 0,
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

export function add(
  to: Measured,
  more: Readonly<Record<MeasuredNumber, number>> & { readonly latencies: LatencyCounts }
): void {
  for (const name of MEASURED_NUMBERS) to[name] += more[name]
  for (const [bucket, count] of more.latencies) to.latencies.set(bucket, (to.latencies.get(bucket) ?? 0) + count)
}

/** Latency percentile, to three digits; null without requests. */
export function percentileMs({ latencies }: { readonly latencies: LatencyCounts }, share: number): number | null {
  const seconds = percentile(latencies, share)
  return seconds === null ? null : Number((seconds * 1000).toPrecision(3))
}

/** Aggregates by route and longer steps. `beginOf` maps a time to its step. */
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

export function totalOf(rows: readonly MeasuredStep[]): Measured {
  const total = nothingMeasured()
  for (const row of rows) add(total, row)
  return total
}
