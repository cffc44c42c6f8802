import type { Sample } from '../measure/round.ts'
import type { RowResult, RunResult } from '../measure/run.ts'
import { spreadOf, type Spread } from '../measure/statistics.ts'

/** A row reduced to what the table shows; null where no round counted. */
export interface RowSummary {
  readonly id: string
  readonly label: string
  readonly version: string
  readonly absent: string | null
  /** CPU microseconds for each request. */
  readonly cpu: Spread | null
  /** Times the CPU of bare undici and of nginx, in this run. */
  readonly timesUndici: number | null
  readonly timesNginx: number | null
  /** Requests a second with the proxy on one core. */
  readonly peak: Spread | null
  /** Whether `peak` is the proxy's own limit; otherwise it could do more. */
  readonly saturated: boolean
  /** Open loop, in microseconds from the intended time. */
  readonly p50: Spread | null
  readonly p99: Spread | null
  readonly p999: Spread | null
  /** Rounds that do not count, with their reasons. */
  readonly void: readonly string[]
}

const valid = (samples: readonly Sample[]): Sample[] => samples.filter(sample => sample.void === undefined)

function cpuOf (row: RowResult | undefined): Spread | null {
  return spreadOf(valid(row?.closed ?? []).flatMap(({ cpuPerRequest }) => cpuPerRequest === null ? [] : [cpuPerRequest]))
}

/** Medians over the rounds that count, and ratios within the run. */
export function summarise (run: RunResult): RowSummary[] {
  const base = (id: string): number | null => cpuOf(run.rows.find(row => row.id === id))?.median ?? null
  const bareUndici = base('undici')
  const nginx = base('nginx')
  return run.rows.map(row => {
    const closed = valid(row.closed)
    const open = valid(row.open)
    const cpu = cpuOf(row)
    const times = (other: number | null): number | null => cpu === null || other === null ? null : cpu.median / other
    return {
      id: row.id,
      label: row.label,
      version: row.version,
      absent: row.absent,
      cpu,
      timesUndici: times(bareUndici),
      timesNginx: times(nginx),
      peak: spreadOf(closed.map(({ requests, seconds }) => requests / seconds)),
      saturated: closed.filter(sample => sample.saturated).length * 2 > closed.length,
      p50: spreadOf(open.map(({ latency }) => latency.p50)),
      p99: spreadOf(open.map(({ latency }) => latency.p99)),
      p999: spreadOf(open.map(({ latency }) => latency.p999)),
      void: [...row.closed.map(sample => ({ kind: 'peak', sample })), ...row.open.map(sample => ({ kind: 'latency', sample }))]
        .flatMap(({ kind, sample }) => sample.void === undefined ? [] : [`${kind}: ${sample.void}`])
    }
  })
}
