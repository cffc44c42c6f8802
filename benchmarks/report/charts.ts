import type { RunResult } from '../measure/run.ts'
import { spreadOf } from '../measure/statistics.ts'
import type { Study, StudyResult } from '../scenarios/scenario.ts'
import { summarize } from './summary.ts'
import { barChart, lineChart } from './svg.ts'

/** The pictures of a scenario, by the end of their file's name. */
export function chartsOf(run: RunResult): ReadonlyMap<string, string> {
  const rows = summarize(run)
  const charts = new Map<string, string>()
  charts.set(
    'cpu',
    barChart(
      `${run.scenario.title}: CPU for each request`,
      'µs',
      rows.flatMap(({ id, label, cpu }) =>
        cpu === null ? [] : [{ label, value: cpu.median, low: cpu.low, high: cpu.high, own: id.startsWith('boltgate') }]
      )
    )
  )
  if (run.rates.length === 0) return charts
  charts.set(
    'latency',
    lineChart(
      `${run.scenario.title}: added latency against load, 99th percentile`,
      'requests a second',
      'ms',
      rows.flatMap(({ id, label, latencies }) => {
        const points = latencies.flatMap(({ rate, added }) =>
          added === null || added.p99 === null ? [] : [[rate, Math.max(0, added.p99 / 1000)] as const]
        )
        return points.length === 0 ? [] : [{ label, points, own: id === 'boltgate' }]
      })
    )
  )
  return charts
}

/** The picture of a study. */
export function chartOfStudy(study: Study, result: StudyResult): string {
  return barChart(
    `${study.title}: ${study.charted}`,
    result.rows.find(row => row.figures[study.charted] !== undefined)?.figures[study.charted]?.unit ?? '',
    result.rows.flatMap(({ id, label, figures }) => {
      const spread = spreadOf(figures[study.charted]?.values ?? [])
      return spread === null
        ? []
        : [{ label, value: spread.median, low: spread.low, high: spread.high, own: id.startsWith('boltgate') }]
    })
  )
}
