import { percentile, type LatencyCounts } from '../../platform/telemetry/latency.ts'

export const REQUEST_NUMBERS = [
  'requests',
  'asked',
  'paidRequests',
  'clientErrors',
  'serverErrors',
  'upstreamFailures',
  'unfinished'
] as const
export const MEASURED_NUMBERS = [...REQUEST_NUMBERS, 'probes', 'sales', 'sats'] as const
export type MeasuredNumber = (typeof MEASURED_NUMBERS)[number]

export function eachNumber<N extends MeasuredNumber, T>(names: readonly N[], valueOf: (name: N) => T): Record<N, T> {
  // Each name has just got its value.
  return Object.fromEntries(names.map(name => [name, valueOf(name)])) as Record<N, T>
}

export interface Measured extends Record<MeasuredNumber, number> {
  readonly latencies: Map<number, number>
}

/** Sums of a step. `route` is empty for all, or a proxy's id. */
export interface MeasuredStep extends Measured {
  readonly at: number
  readonly route: string
}

export function nothingMeasured(): Measured {
  return { ...eachNumber(MEASURED_NUMBERS, () => 0), latencies: new Map() }
}

export function add(
  to: Measured,
  more: Readonly<Partial<Record<MeasuredNumber, number>>> & { readonly latencies: LatencyCounts }
): void {
  for (const name of MEASURED_NUMBERS) to[name] += more[name] ?? 0
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
