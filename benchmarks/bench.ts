// npm run bench [-- --full] [--rounds N] [--window SECONDS] [--connections N] [--rate N] [--out FOLDER] [SCENARIO …]
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { runScenario, type Effort } from './measure/run.ts'
import { renderMarkdown } from './report/table.ts'
import { summarise } from './report/summary.ts'
import type { Scenario } from './scenarios/scenario.ts'
import { verifiedL402 } from './scenarios/verified-l402.ts'

const scenarios: readonly Scenario[] = [verifiedL402]

const quick: Effort = { name: 'quick', rounds: 5, warmUp: 4, settle: 1, window: 2, connections: 64, budget: 280, rate: null }
const full: Effort = { ...quick, name: 'full', rounds: 9, warmUp: 10, window: 10, budget: 3600 }

function numberOr<T> (name: string, text: string | undefined, otherwise: T): number | T {
  if (text === undefined) return otherwise
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1) throw new TypeError(`--${name} takes a whole number above 0, not "${text}"`)
  return value
}

async function main (): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      full: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      window: { type: 'string' },
      connections: { type: 'string' },
      rate: { type: 'string' },
      out: { type: 'string', default: fileURLToPath(new URL('results', import.meta.url)) }
    }
  })
  const unknown = positionals.find(id => !scenarios.some(scenario => scenario.id === id))
  if (unknown !== undefined) throw new TypeError(`there is no scenario "${unknown}"; there are ${scenarios.map(({ id }) => id).join(', ')}`)
  const base = values.full ? full : quick
  const effort: Effort = {
    ...base,
    rounds: numberOr('rounds', values.rounds, base.rounds),
    window: numberOr('window', values.window, base.window),
    connections: numberOr('connections', values.connections, base.connections),
    rate: numberOr('rate', values.rate, base.rate)
  }
  const args = process.argv.slice(2).filter((arg, at, all) => arg !== '--out' && all[at - 1] !== '--out')
  const command = ['npm run bench', ...(args.length === 0 ? [] : ['--', ...args])].join(' ')
  mkdirSync(values.out, { recursive: true })
  for (const scenario of scenarios) {
    if (positionals.length > 0 && !positionals.includes(scenario.id)) continue
    const run = await runScenario(scenario, effort, line => { process.stderr.write(`${line}\n`) })
    const report = renderMarkdown(run, command)
    writeFileSync(join(values.out, `${scenario.id}.md`), report)
    writeFileSync(join(values.out, `${scenario.id}.json`), `${JSON.stringify({ command, summary: summarise(run), ...run }, null, 2)}\n`)
    process.stdout.write(`\n${report}`)
  }
}

await main()
