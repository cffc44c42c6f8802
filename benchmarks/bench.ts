// npm run bench [-- --full] [--rounds N] [--window SECONDS] [--connections N] [--out FOLDER] [SCENARIO …]
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { coresOf, runScenario, type Effort } from './measure/run.ts'
import { chartOfStudy, chartsOf } from './report/charts.ts'
import { renderStudy } from './report/study-table.ts'
import { renderMarkdown } from './report/table.ts'
import { summarise } from './report/summary.ts'
import { makeFolder, removeFolder } from './rig/child.ts'
import { describeMachine } from './rig/machine.ts'
import { allocation } from './scenarios/allocation.ts'
import { coldL402, tenThousandTokens } from './scenarios/many-tokens.ts'
import { createPayment, readPayment } from './scenarios/merchant-api.ts'
import { mint402 } from './scenarios/mint-402.ts'
import { modernOnce, postDigest } from './scenarios/modern.ts'
import { passThrough } from './scenarios/pass-through.ts'
import { redemption } from './scenarios/redemption.ts'
import type { Scenario, Study } from './scenarios/scenario.ts'
import { eventStreams, idleConnections, webSocketEcho } from './scenarios/studies.ts'
import { verifiedL402 } from './scenarios/verified-l402.ts'

const scenarios: readonly Scenario[] = [verifiedL402, passThrough, coldL402, tenThousandTokens, mint402, modernOnce, postDigest, createPayment, readPayment]
const studies: readonly Study[] = [allocation, redemption, eventStreams, idleConnections, webSocketEcho]

const quick: Effort = { name: 'quick', rounds: 3, warmUp: 5, settle: 0, window: 1, connections: 64, budget: 10, openRounds: 2, loads: [0.3, 0.6, 0.8] }
const full: Effort = { ...quick, name: 'full', rounds: 9, warmUp: 10, settle: 1, window: 10, budget: 3600, openRounds: 9 }

function numberOr (name: string, text: string | undefined, otherwise: number): number {
  if (text === undefined) return otherwise
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1) throw new TypeError(`--${name} takes a whole number above 0, not "${text}"`)
  return value
}

const say = (line: string): void => { process.stderr.write(`${line}\n`) }

async function main (): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      full: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      window: { type: 'string' },
      connections: { type: 'string' },
      out: { type: 'string', default: fileURLToPath(new URL('results', import.meta.url)) }
    }
  })
  const ids = [...scenarios, ...studies].map(({ id }) => id)
  const unknown = positionals.find(id => !ids.includes(id))
  if (unknown !== undefined) throw new TypeError(`there is no scenario "${unknown}"; there are ${ids.join(', ')}`)
  const wanted = (id: string): boolean => positionals.length === 0 || positionals.includes(id)
  const base = values.full ? full : quick
  const effort: Effort = {
    ...base,
    rounds: numberOr('rounds', values.rounds, base.rounds),
    window: numberOr('window', values.window, base.window),
    connections: numberOr('connections', values.connections, base.connections)
  }
  const args = process.argv.slice(2).filter((arg, at, all) => arg !== '--out' && all[at - 1] !== '--out')
  const command = ['npm run bench', ...(args.length === 0 ? [] : ['--', ...args])].join(' ')
  mkdirSync(values.out, { recursive: true })
  const write = (name: string, text: string): void => { writeFileSync(join(values.out, name), text) }
  const begin = performance.now()
  for (const scenario of scenarios.filter(({ id }) => wanted(id))) {
    say(`\n${scenario.title} (${Math.round((performance.now() - begin) / 1000)} s so far)`)
    const run = await runScenario(scenario, effort, say)
    const report = renderMarkdown(run, command)
    write(`${scenario.id}.md`, report)
    write(`${scenario.id}.json`, `${JSON.stringify({ command, summary: summarise(run), ...run }, null, 2)}\n`)
    for (const [name, chart] of chartsOf(run)) write(`${scenario.id}-${name}.svg`, chart)
    process.stdout.write(`\n${report}`)
  }
  for (const study of studies.filter(({ id }) => wanted(id))) {
    say(`\n${study.title} (${Math.round((performance.now() - begin) / 1000)} s so far)`)
    const machine = describeMachine()
    const folder = makeFolder()
    try {
      const result = await study.run({ folder, core: coresOf(machine)?.proxy ?? null, upstream: '', say }, effort.name, say)
      const facts = { command, at: new Date().toISOString(), machine }
      const report = renderStudy(study, result, facts)
      write(`${study.id}.md`, report)
      write(`${study.id}.json`, `${JSON.stringify({ id: study.id, title: study.title, text: study.text, ...facts, ...result }, null, 2)}\n`)
      write(`${study.id}.svg`, chartOfStudy(study, result))
      process.stdout.write(`\n${report}`)
    } finally {
      removeFolder(folder)
    }
  }
  say(`\n${Math.round((performance.now() - begin) / 1000)} s in all`)
}

await main()
