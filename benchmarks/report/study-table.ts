import { spreadOf } from '../measure/statistics.ts'
import type { Machine } from '../rig/machine.ts'
import type { Study, StudyResult } from '../scenarios/scenario.ts'
import { cell, grouped, one, plain } from './figures.ts'

/** What a study found, in Markdown. */
export function renderStudy(
  study: Study,
  result: StudyResult,
  facts: { readonly command: string; readonly at: string; readonly machine: Machine }
): string {
  const columns = [...new Set(result.rows.flatMap(row => Object.keys(row.figures)))]
  const unitOf = (column: string): string =>
    result.rows.find(row => row.figures[column] !== undefined)?.figures[column]?.unit ?? ''
  const lines = result.rows.map(row =>
    row.absent !== null
      ? `| ${row.label} | ${plain(row.absent)} ${'| '.repeat(Math.max(0, columns.length - 1))}|`
      : `| ${row.label} | ${columns.map(column => cell(spreadOf(row.figures[column]?.values ?? []), value => (value >= 1000 ? grouped(value) : one(value)))).join(' | ')} |`
  )
  const { machine } = facts
  return `# ${study.title}

${study.text}

![${study.charted}](${study.id}.svg)

| | ${columns.map(column => `${column}${unitOf(column) === '' ? '' : `, ${unitOf(column)}`}`).join(' | ')} |
|---|${'---|'.repeat(columns.length)}
${lines.join('\n')}

Medians over rounds (lowest–highest).

${result.remarks.map(remark => `- ${remark}\n`).join('')}- Made by \`${facts.command}\` at ${facts.at}.
- ${machine.processor}, ${machine.cores} cores, ${grouped(machine.memoryMiB)} MiB, ${machine.kernel}, Node ${machine.node}; load average before ${machine.load.join(', ')}.
`
}
