// npm run bench [-- --full] [--rounds N] [--window SECONDS] [--connections N] [--out FOLDER] [SCENARIO …]
// npm run bench -- --readme [--out FOLDER] measures nothing: it writes the figures of that folder into README.md.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Fleet } from './measure/fleet.ts'
import { coresOf, runScenario, type Effort } from './measure/run.ts'
import { chartOfStudy, chartsOf } from './report/charts.ts'
import { renderStudy } from './report/study-table.ts'
import { writeReadme } from './report/readme.ts'
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
import { slowProvider } from './scenarios/slow-provider.ts'
import { streamed } from './scenarios/streamed.ts'
import { eventStreams, idleConnections, webSocketEcho } from './scenarios/studies.ts'
import { metered } from './scenarios/metered.ts'
import { verifiedL402 } from './scenarios/verified-l402.ts'

// Those that leave many rows in the databases come last; ten thousand tokens have the code compiled that a cold one
// needs.
const scenarios: readonly Scenario[] = [
  verifiedL402,
  metered,
  passThrough,
  tenThousandTokens,
  coldL402,
  readPayment,
  modernOnce,
  postDigest,
  createPayment,
  mint402
]
const studies: readonly Study[] = [
  allocation,
  redemption,
  slowProvider,
  eventStreams,
  idleConnections,
  webSocketEcho,
  streamed
]

const quick: Effort = {
  name: 'quick',
  rounds: 3,
  compile: { requests: 80_000, seconds: 9 },
  warmUp: 1,
  settle: 0,
  window: 1,
  connections: 64,
  spare: 4,
  openRounds: 1,
  loads: [0.3, 0.6, 0.8]
}
const full: Effort = {
  ...quick,
  name: 'full',
  rounds: 9,
  compile: { requests: 200_000, seconds: 25 },
  warmUp: 4,
  window: 3,
  spare: 40,
  openRounds: 5
}
/**
 * Seconds that a whole run may take, less what studies, which cannot be cut short, were seen to overrun theirs by. Where the machine is slow, or scenarios are many, rounds are
 * left out.
 */
const BUDGET = { quick: 262, full: 1040 } as const
/** Seconds that stopping the targets takes of it. */
const STOPPING = 5

function numberOr(name: string, text: string | undefined, otherwise: number): number {
  if (text === undefined) return otherwise
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1)
    throw new TypeError(`--${name} takes a whole number above 0, not "${text}"`)
  return value
}

const began = performance.now()

/** One step of the run, with the seconds so far. */
const say = (line: string): void => {
  process.stderr.write(`${((performance.now() - began) / 1000).toFixed(1).padStart(6)} s  ${line}\n`)
}

/** Does one part of the run; that it failed is told, and does not take the others away. */
async function part(name: string, work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    process.exitCode = 1
    say(`${name} FAILED: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
  }
}

async function main(): Promise<void> {
  const results = fileURLToPath(new URL('results', import.meta.url))
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      full: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      window: { type: 'string' },
      connections: { type: 'string' },
      readme: { type: 'boolean', default: false },
      out: { type: 'string', default: results }
    }
  })
  const readme = (): void => {
    writeReadme(
      fileURLToPath(new URL('../README.md', import.meta.url)),
      values.out,
      [...scenarios, ...studies].map(({ id }) => id)
    )
  }
  if (values.readme) {
    readme()
    return
  }
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
  const write = (name: string, text: string): void => {
    writeFileSync(join(values.out, name), text)
  }
  const machine = describeMachine()
  const cores = coresOf(machine)
  const folder = makeFolder()
  const fleet = new Fleet(folder, cores, say)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      say(`${signal}: stopping`)
      void fleet.stop().finally(() => {
        removeFolder(folder)
        process.exit(130)
      })
    })
  }
  // Some alone have the time that they need.
  const left = [...scenarios, ...studies]
  const allowance = (part: Scenario | Study): number => {
    if (positionals.length > 0) return Infinity
    const rest = BUDGET[base.name] * 1000 - STOPPING * 1000 - (performance.now() - began)
    const all = left.slice(left.indexOf(part)).reduce((sum, { seconds }) => sum + seconds, 0)
    return (rest * part.seconds) / all
  }
  const measureScenarios = async (): Promise<void> => {
    try {
      for (const scenario of scenarios.filter(({ id }) => wanted(id))) {
        say(scenario.title)
        await part(scenario.id, async () => {
          const run = await runScenario(scenario, effort, fleet, machine, say, allowance(scenario))
          const report = renderMarkdown(run, command)
          write(`${scenario.id}.md`, report)
          write(`${scenario.id}.json`, `${JSON.stringify({ command, summary: summarise(run), ...run }, null, 2)}\n`)
          for (const [name, chart] of chartsOf(run)) write(`${scenario.id}-${name}.svg`, chart)
          process.stdout.write(`\n${report}`)
        })
      }
    } finally {
      if (scenarios.some(({ id }) => wanted(id))) say('stopping the targets')
      await fleet.stop()
    }
  }
  const measureStudies = async (): Promise<void> => {
    for (const study of studies.filter(({ id }) => wanted(id))) {
      say(study.title)
      await part(study.id, async () => {
        const own = makeFolder()
        try {
          const result = await study.run(
            { folder: own, core: cores?.proxy ?? null, upstream: '', data: join(folder, 'boltgate-data'), say },
            effort.name,
            say
          )
          const facts = { command, at: new Date().toISOString(), machine }
          const report = renderStudy(study, result, facts)
          write(`${study.id}.md`, report)
          write(
            `${study.id}.json`,
            `${JSON.stringify({ id: study.id, title: study.title, text: study.text, charted: study.charted, ...facts, ...result }, null, 2)}\n`
          )
          write(`${study.id}.svg`, chartOfStudy(study, result))
          process.stdout.write(`\n${report}`)
        } finally {
          removeFolder(own)
        }
      })
    }
  }
  try {
    await measureScenarios()
    await measureStudies()
  } finally {
    removeFolder(folder)
  }
  // A whole run is the README's; its figures are not copied by hand.
  if (positionals.length === 0 && values.out === results) readme()
  say('done')
}

await main()
