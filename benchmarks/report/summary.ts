import { UNSENT, type Sample } from '../measure/round.ts'
import type { RowResult, RunResult } from '../measure/run.ts'
import { spreadOf, type Spread } from '../measure/statistics.ts'

/** Latencies at one rate, in microseconds from the intended time. */
export interface AtRate {
  /** Requests a second. */
  readonly rate: number
  readonly p50: Spread | null
  readonly p99: Spread | null
  readonly p999: Spread | null
  /** Why there are none: the target did not take that rate, or all windows were void for another reason. */
  readonly missing: 'not held' | 'void' | null
  /**
   * Beyond what the upstream alone had at this rate: the difference of the medians. The tail is null where the generator
   * was late itself.
   */
  readonly added: { readonly p50: number; readonly p99: number | null; readonly p999: number | null } | null
}

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
  /** Requests a second with the target on one core. */
  readonly peak: Spread | null
  /** Whether `peak` is the target's own limit; otherwise it could do more. */
  readonly saturated: boolean
  readonly latencies: readonly AtRate[]
  /** Windows that do not count, or whose tail does not, with their reasons. */
  readonly void: readonly string[]
}

const valid = (samples: readonly Sample[]): Sample[] => samples.filter(sample => sample.void === undefined)

function cpuOf(row: RowResult | undefined): Spread | null {
  return spreadOf(
    valid(row?.closed ?? []).flatMap(({ cpuPerRequest }) => (cpuPerRequest === null ? [] : [cpuPerRequest]))
  )
}

function latenciesOf(run: RunResult, row: RowResult): AtRate[] {
  const direct = run.rows.find(({ id }) => id === 'direct')
  return run.rates.map((rate, at) => {
    const spreads = (of: RowResult | undefined): Pick<AtRate, 'p50' | 'p99' | 'p999'> => {
      const samples = valid(of?.open[at] ?? [])
      const whole = samples.filter(({ tailVoid }) => tailVoid === undefined)
      return {
        p50: spreadOf(samples.map(({ latency }) => latency.p50)),
        p99: spreadOf(whole.map(({ latency }) => latency.p99)),
        p999: spreadOf(whole.map(({ latency }) => latency.p999))
      }
    }
    const own = spreads(row)
    const alone = spreads(direct)
    const beyond = (name: 'p50' | 'p99' | 'p999'): number | null =>
      own[name] === null || alone[name] === null ? null : own[name].median - alone[name].median
    const [p50, p99, p999] = [beyond('p50'), beyond('p99'), beyond('p999')]
    const lost = (row.open[at] ?? []).map(sample => sample.void ?? '')
    const missing =
      own.p50 !== null || lost.length === 0 ? null : lost.some(reason => reason.includes(UNSENT)) ? 'not held' : 'void'
    return {
      rate,
      ...own,
      missing,
      added: row.id === 'direct' || p50 === null ? null : { p50, p99, p999 }
    }
  })
}

/** Medians over the rounds that count, and ratios within the run. */
export function summarize(run: RunResult): RowSummary[] {
  const base = (id: string): number | null => cpuOf(run.rows.find(row => row.id === id))?.median ?? null
  const bareUndici = base('undici')
  const nginx = base('nginx')
  return run.rows.map(row => {
    const closed = valid(row.closed)
    const cpu = cpuOf(row)
    const times = (other: number | null): number | null => (cpu === null || other === null ? null : cpu.median / other)
    const windows = [
      ...row.closed.map(sample => ({ kind: 'peak', sample })),
      ...row.open.flat().map(sample => ({ kind: 'latency', sample }))
    ]
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
      latencies: latenciesOf(run, row),
      void: windows.flatMap(({ kind, sample }) => {
        const reason = sample.void ?? sample.tailVoid
        return reason === undefined ? [] : [`${kind}: ${reason}`]
      })
    }
  })
}
