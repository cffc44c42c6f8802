import type { RunResult } from '../measure/run.ts'
import { spreadOf, type Spread } from '../measure/statistics.ts'
import { summarise, type RowSummary } from './summary.ts'

/** Share of one core that other programs may take before the report says that the machine was not quiet. */
const QUIET = 0.1

const grouped = (value: number): string => Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ',')
const one = (value: number): string => value.toFixed(1)

function cell (spread: Spread | null, format: (value: number) => string): string {
  return spread === null ? '–' : `**${format(spread.median)}** (${format(spread.low)}–${format(spread.high)})`
}

const milliseconds = (value: number): string => (value / 1000).toFixed(2)
const times = (value: number | null): string => value === null ? '–' : `${value.toFixed(2)}×`

function line (row: RowSummary): string {
  const name = `${row.label}${row.version === '' ? '' : ` ${row.version}`}`
  if (row.absent !== null) return `| ${name} | ${row.absent.replaceAll('|', '/')} | | | | | | |`
  const peak = row.peak === null ? '–' : `${row.saturated ? '' : '≥ '}${cell(row.peak, grouped)}`
  return `| ${name} | ${cell(row.cpu, one)} | ${times(row.timesUndici)} | ${times(row.timesNginx)} | ${peak} | ${cell(row.p50, milliseconds)} | ${cell(row.p99, milliseconds)} | ${cell(row.p999, milliseconds)} |`
}

function windowsOf (run: RunResult, id: string): number {
  const row = run.rows.find(candidate => candidate.id === id)
  return row === undefined ? 0 : row.closed.length + row.open.length
}

/** Reasons that differ in their figures only are told once. */
function reasons (all: readonly string[]): string {
  return [...new Map(all.map(reason => [reason.replace(/\d+/g, '#'), reason])).values()].join('; ')
}

/** How loud the rest of the machine was, over all windows. */
export function foreignOf (run: RunResult): Spread | null {
  return spreadOf(run.rows.flatMap(row => [...row.closed, ...row.open]).map(sample => sample.foreign))
}

/** The whole report in Markdown. */
export function renderMarkdown (run: RunResult, command: string): string {
  const summaries = summarise(run)
  const foreign = foreignOf(run)
  const percent = (value: number): string => `${Math.round(value * 100)} %`
  const voids = summaries.filter(row => row.void.length > 0)
  const { machine, effort } = run
  return `# ${run.scenario.title}

${run.scenario.text}

| | CPU µs per request | to bare undici | to nginx | requests/s, proxy on one core | p50 ms | p99 ms | p99.9 ms |
|---|---|---|---|---|---|---|---|
${summaries.map(line).join('\n')}

Each figure is the **median** of ${effort.rounds} interleaved rounds of ${effort.window} s (lowest–highest). CPU is what the proxy's processes used in user and
kernel mode, from /proc, while ${effort.connections} connections asked as fast as they were answered (${run.closedBy}). "≥" marks a proxy that did not fill
its core, so that it could do more: the generator and the upstream on theirs were the limit, or other programs took its time. Latencies are those of an open loop at ${grouped(run.rate)} requests/s for every target,
counted from the time at which a request was meant to be sent.${voids.length === 0 ? ' No round was void.' : ''}
${voids.map(row => `\n- ${row.label}: ${row.void.length} of ${windowsOf(run, row.id)} windows void and left out: ${reasons(row.void)}`).join('')}${voids.length === 0 ? '' : '\n'}
${run.remarks.map(remark => `- ${remark}\n`).join('')}- Made by \`${command}\` (${effort.name}) at ${run.at}.
- ${machine.processor}, ${machine.cores} cores, ${grouped(machine.memoryMiB)} MiB, ${machine.kernel}, Node ${machine.node}; load average before the run ${machine.load.join(', ')}.
- ${run.cores === null ? 'Nothing was pinned: `taskset` or a second core is missing, so the peaks say little.' : `Proxies on core ${run.cores.proxy}, generator and upstream on core ${run.cores.generator}.`} Upstream: ${run.upstream}.
- ${foreign === null ? 'How loud the machine was is not known.' : `Other programs took ${percent(foreign.median)} of one core at the median window, ${percent(foreign.high)} at the loudest${foreign.median > QUIET ? ': **the machine was not quiet**; read the CPU column and the ratios, not the latencies' : ''}.`}
`
}
