import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import type { RunResult } from '../measure/run.ts'
import { spreadOf } from '../measure/statistics.ts'
import type { StudyResult } from '../scenarios/scenario.ts'
import { cell, grouped, milliseconds, one, plain, times } from './figures.ts'
import type { RowSummary } from './summary.ts'

const BEGIN = '<!-- bench:begin -->'
const END = '<!-- bench:end -->'
/** The scenario whose whole table and pictures are shown. */
const MAIN = 'verified-l402'

/** What bench.ts writes of a scenario. */
export type ScenarioFile = RunResult & { readonly command: string; readonly summary: readonly RowSummary[] }
/** What bench.ts writes of a study. */
export type StudyFile = StudyResult & {
  readonly id: string
  readonly title: string
  readonly charted: string
  /** ISO 8601. */
  readonly at: string
}

/** What bench.ts writes of a whole run. */
export interface RunFile {
  readonly command: string
  /** When it ended, ISO 8601. */
  readonly at: string
  readonly seconds: number
}

const dayOf = ({ at }: { readonly at: string }): string => at.slice(0, 10)

/** The results of a run by their ids, in the order of the table; null for what was not run. */
export type Results = ReadonlyArray<readonly [id: string, result: ScenarioFile | StudyFile | null]>

function isScenario(file: ScenarioFile | StudyFile): file is ScenarioFile {
  return 'summary' in file
}

/** CPU and requests a second of each row, and its latencies at the middle load. */
function mainTable({ summary, rates }: ScenarioFile): string {
  const middle = Math.floor(rates.length / 2)
  const rate = rates[middle]
  const latency = rate === undefined ? '' : ` added p50 ms at ${grouped(rate)}/s | added p99 ms |`
  const lines = summary.map(row => {
    const name = `${row.label}${row.version === '' ? '' : ` ${row.version}`}`
    if (row.absent !== null) return `| ${name} | ${plain(row.absent)} | | | |${rate === undefined ? '' : ' | |'}`
    const at = row.latencies[middle]
    const added = at?.added ?? null
    const alone =
      row.id === 'direct' && at !== undefined && at.p50 !== null
        ? `(${milliseconds(at.p50.median)}) | ${at.p99 === null ? 'void' : `(${milliseconds(at.p99.median)})`}`
        : null
    const delay =
      added !== null
        ? `${milliseconds(added.p50)} | ${added.p99 === null ? 'void' : milliseconds(added.p99)}`
        : (alone ?? `${at?.missing ?? '–'} | –`)
    const peak = row.peak === null ? '–' : `${row.saturated ? '' : '≥ '}${cell(row.peak, grouped)}`
    return `| ${name} | ${cell(row.cpu, one)} | ${times(row.timesUndici)} | ${times(row.timesNginx)} | ${peak} |${rate === undefined ? '' : ` ${delay} |`}`
  })
  return `| | CPU µs a request | to bare undici | to nginx | requests/s, on one core |${latency}
|---|---|---|---|---|${rate === undefined ? '' : '---|---|'}
${lines.join('\n')}`
}

function scenarioLine({ scenario, summary }: ScenarioFile, link: string, earlier: string): string {
  const row = (id: string): RowSummary | undefined => summary.find(candidate => candidate.id === id)
  const cpu = (id: string): string => {
    const found = row(id)
    return found === undefined || found.cpu === null ? '–' : `${one(found.cpu.median)}`
  }
  const own = row('boltgate')
  return `| [${scenario.title}](${link})${earlier} | **${cpu('boltgate')}** | ${cpu('boltgate-postgres')} | ${cpu('boltgate-two')} | ${cpu('undici')} | ${cpu('nginx')} | ${times(own?.timesUndici ?? null)} | ${times(own?.timesNginx ?? null)} |`
}

function studyLine({ title, charted, rows }: StudyFile, link: string, earlier: string): string {
  const found = rows.map(({ label, absent, figures }) => {
    const figure = figures[charted]
    const spread = spreadOf(figure?.values ?? [])
    return spread === null
      ? `${label}: ${plain(absent ?? 'nothing')}`
      : `${label} ${spread.median >= 1000 ? grouped(spread.median) : one(spread.median)}${figure === undefined || figure.unit === '' ? '' : ` ${figure.unit}`}`
  })
  return `| [${title}](${link})${earlier} | ${charted} | ${found.join(', ')} |`
}

/**
 * The README's block: the main case with its pictures, and a line for everything else. `folder` is where links lead.
 * What was measured on another day than the main case says so.
 */
export function renderBlock(results: Results, folder: string, run: RunFile | null = null): string {
  const main = results.flatMap(([id, result]) =>
    id === MAIN && result !== null && isScenario(result) ? [result] : []
  )[0]
  const earlier = (result: ScenarioFile | StudyFile): string =>
    main === undefined || dayOf(result) === dayOf(main) ? '' : ` (${dayOf(result)})`
  const scenarios = results.flatMap(([id, result]) =>
    result !== null && isScenario(result) ? [scenarioLine(result, `${folder}/${id}.md`, earlier(result))] : []
  )
  const studies = results.flatMap(([id, result]) =>
    result !== null && !isScenario(result) ? [studyLine(result, `${folder}/${id}.md`, earlier(result))] : []
  )
  const missing = results.flatMap(([id, result]) => (result === null ? [id] : []))
  const parts: string[] = []
  if (main !== undefined) {
    const { machine, rounds } = main
    parts.push(mainTable(main), `![CPU for each request](${folder}/${MAIN}-cpu.svg)`)
    if (main.rates.length > 0) parts.push(`![Added latency against load](${folder}/${MAIN}-latency.svg)`)
    parts.push(`Medians of ${rounds} interleaved rounds (lowest–highest), made by \`${main.command}\` on ${dayOf(main)}: ${machine.processor}, ${machine.cores} cores, Node ${machine.node}.
boltgate verifies, throttles, measures and logs each request; the peers only pass it on, but for Aperture, which verifies it.${main.rates.length === 0 ? '' : ' Latencies are beyond what the upstream has without a target, in parentheses.'} "≥": it did not fill its core, and could do more.`)
  }
  if (scenarios.length > 0) {
    parts.push(`CPU microseconds a request:

| | boltgate | on PostgreSQL and Redis | the same, two workers | bare undici | nginx | boltgate to undici | to nginx |
|---|---|---|---|---|---|---|---|
${scenarios.join('\n')}`)
  }
  if (studies.length > 0) parts.push(`| | what | |\n|---|---|---|\n${studies.join('\n')}`)
  if (missing.length > 0) parts.push(`Not run: ${missing.join(', ')}.`)
  if (run !== null) parts.push(`\`${run.command}\` took ${grouped(run.seconds)} s as a whole on ${dayOf(run)}.`)
  return parts.join('\n\n')
}

/** The text with what is between the marks replaced. Throws when it has not both. */
export function replaceBlock(text: string, block: string): string {
  const begin = text.indexOf(BEGIN)
  const end = text.indexOf(END)
  if (begin < 0 || end < begin) throw new Error(`the README needs a line ${BEGIN}, and after it a line ${END}`)
  return `${text.slice(0, begin + BEGIN.length)}\n${block}\n${text.slice(end)}`
}

/** Writes the figures of a folder of results into the README, so that they are never copied by hand. */
export function writeReadme(file: string, folder: string, ids: readonly string[]): void {
  // bench.ts has written them.
  const read = <T>(name: string): T | null => {
    const json = join(folder, `${name}.json`)
    return existsSync(json) ? (JSON.parse(readFileSync(json, 'utf8')) as T) : null
  }
  const results = ids.map(id => [id, read<ScenarioFile | StudyFile>(id)] as const)
  const block = renderBlock(results, relative(dirname(file), folder), read<RunFile>('run'))
  writeFileSync(file, replaceBlock(readFileSync(file, 'utf8'), block))
}
