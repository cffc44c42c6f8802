import type { RunResult } from '../measure/run.ts'
import { spreadOf, type Spread } from '../measure/statistics.ts'
import { cell, grouped, milliseconds, one, plain, times } from './figures.ts'
import { summarize, type AtRate, type RowSummary } from './summary.ts'

/** Share of one core that other programs may take before the report says that the machine was not quiet. */
const QUIET = 0.1

function nameOf(row: RowSummary): string {
  return `${row.label}${row.version === '' ? '' : ` ${row.version}`}`
}

function line(row: RowSummary): string {
  const name = nameOf(row)
  if (row.absent !== null) return `| ${name} | ${plain(row.absent)} | | | |`
  const peak = row.peak === null ? '–' : `${row.saturated ? '' : '≥ '}${cell(row.peak, grouped)}`
  return `| ${name} | ${cell(row.cpu, one)} | ${times(row.timesUndici)} | ${times(row.timesNginx)} | ${peak} |`
}

/** Latencies beyond those of the upstream alone, in milliseconds, for each rate. */
function latencyTable(run: RunResult, rows: readonly RowSummary[]): string {
  if (run.rates.length === 0) return ''
  const shown = rows.filter(
    row => row.absent === null && row.latencies.some(({ p50, missing }) => p50 !== null || missing !== null)
  )
  const figures = (at: AtRate): string => {
    if (at.p50 === null) return `${at.missing ?? '–'} | – | –`
    const { added } = at
    return added === null
      ? [at.p50, at.p99, at.p999].map(part => (part === null ? 'void' : `(${milliseconds(part.median)})`)).join(' | ')
      : [added.p50, added.p99, added.p999].map(part => (part === null ? 'void' : milliseconds(part))).join(' | ')
  }
  return `
| added latency, ms | ${run.rates.map(rate => `p50 at ${grouped(rate)}/s | p99 | p99.9`).join(' | ')} |
|---|${'---|'.repeat(run.rates.length * 3)}
${shown.map(row => `| ${nameOf(row)} | ${row.latencies.map(figures).join(' | ')} |`).join('\n')}

Latencies are those of an open loop, counted from the time at which a request was meant to be sent, less the median of what the upstream has by
itself at the same rate, which is in parentheses. The rates are ${run.effort.loads.map(load => `${Math.round(load * 100)} %`).join(', ')} of what boltgate took in the closed loop, the same for every target.
"not held": the target did not take that rate; "void": no window counts, see below.
`
}

function windowsOf(run: RunResult, id: string): number {
  const row = run.rows.find(candidate => candidate.id === id)
  return row === undefined ? 0 : row.closed.length + row.open.flat().length
}

/** Reasons that differ only in their figures are reported once. */
function reasons(all: readonly string[]): string {
  return [...new Map(all.map(reason => [reason.replace(/\d+/g, '#'), reason])).values()].join('; ')
}

/** How loud the rest of the machine was, over all windows. */
export function foreignOf(run: RunResult): Spread | null {
  return spreadOf(run.rows.flatMap(row => [...row.closed, ...row.open.flat()]).map(sample => sample.foreign))
}

/** The whole report in Markdown. */
export function renderMarkdown(run: RunResult, command: string): string {
  const summaries = summarize(run)
  const foreign = foreignOf(run)
  const percent = (value: number): string => `${Math.round(value * 100)} %`
  const voids = summaries.filter(row => row.void.length > 0)
  const { machine, effort } = run
  const { once } = run
  return `# ${run.scenario.title}

${run.scenario.text}

![CPU for each request](${run.scenario.id}-cpu.svg)
${run.rates.length === 0 ? '' : `\n![Latency against load](${run.scenario.id}-latency.svg)\n`}
| | CPU µs per request | to bare undici | to nginx | requests/s, target on one core |
|---|---|---|---|---|
${summaries.map(row => line(row)).join('\n')}
${latencyTable(run, summaries)}
Each figure is the **median** of ${run.rounds} interleaved rounds of ${once === null ? `${effort.window} s` : `${grouped(once)} requests`} (lowest–highest). CPU is what the target's processes used in user and
kernel mode, from /proc (nanoseconds of each thread), while ${effort.connections} connections asked as fast as they were answered (${run.closedBy}). "≥" marks a target that did not fill
its core, so that it could do more: the generator and the upstream on theirs were the limit, or other programs took its time.${voids.length === 0 ? ' No round was void.' : ''}
${voids.map(row => `\n- ${row.label}: ${row.void.length} of ${windowsOf(run, row.id)} windows void, or void in their tail, and left out: ${reasons(row.void)}`).join('')}${voids.length === 0 ? '' : '\n'}
${run.remarks.map(remark => `- ${remark}\n`).join('')}- Made by \`${command}\` (${effort.name}) at ${run.at}.
- ${machine.processor}, ${machine.cores} cores, ${grouped(machine.memoryMiB)} MiB, ${machine.kernel}, Node ${machine.node}; load average before the run ${machine.load.join(', ')}.
- ${run.cores === null ? 'Nothing was pinned: `taskset` or a second core is missing, so the peaks say little.' : `Proxies on core ${run.cores.proxy}, generator and upstream on core ${run.cores.generator}.`} Upstream: ${run.upstream}.
- ${foreign === null ? 'How loud the machine was is not known.' : `What is no part of this run (other programs, the kernel's own work, the host) took ${percent(foreign.median)} of one core at the median window, ${percent(foreign.high)} at the loudest${foreign.median > QUIET ? ': **the machine was not quiet**; read the CPU column and the ratios, not the latencies' : ''}.`}
`
}
