// npm run bench [-- --full] [--rounds N] [--window SECONDS] [--connections N] [--out FOLDER] [SCENARIO …]
// npm run bench -- --plan [--full] measures nothing: it says what a whole run does, and how long that takes.
// npm run bench -- --readme [--out FOLDER] measures nothing: it writes the figures of that folder into benchmarks/README.md.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Fleet } from './measure/fleet.ts'
import { partOf, renderPlan, secondsLeft, secondsOf, STOPPING, type PlannedPart } from './measure/plan.ts'
import { BUDGET, efforts } from './measure/efforts.ts'
import { coresOf, runScenario, type Effort } from './measure/run.ts'
import { chartOfStudy, chartsOf } from './report/charts.ts'
import { renderStudy } from './report/study-table.ts'
import { writeReadme } from './report/readme.ts'
import { renderMarkdown } from './report/table.ts'
import { summarize } from './report/summary.ts'
import { makeFolder, removeFolder } from './rig/child.ts'
import { describeMachine } from './rig/machine.ts'
import { scenarios, studies } from './scenarios/all.ts'
import type { Scenario } from './scenarios/scenario.ts'

function numberOr(name: string, text: string | undefined, otherwise: number): number {
  if (text === undefined) return otherwise
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1)
    throw new TypeError(`--${name} takes a whole number above 0, not "${text}"`)
  return value
}

const began = performance.now()

/** The parts of this run, the current one, and when it began. */
let plan: readonly PlannedPart[] = []
let current = { id: '', since: began }

/** One step of the run, with the seconds so far, and about how many are left. */
const say = (line: string): void => {
  const now = performance.now()
  const left = secondsLeft(plan, current.id, (now - current.since) / 1000)
  const both = `${((now - began) / 1000).toFixed(1).padStart(6)} s${left === 0 ? '' : `, ${Math.round(left)} left`}`
  process.stderr.write(`${both}  ${line}\n`)
}

/** What the parts of this run took, in seconds. */
const took: Array<{ readonly id: string; readonly seconds: number }> = []

/** Runs one part. A failure is reported and does not stop the others. */
async function part(name: string, title: string, work: () => Promise<void>): Promise<void> {
  current = { id: name, since: performance.now() }
  say(title)
  try {
    await work()
  } catch (error) {
    process.exitCode = 1
    say(`${name} FAILED: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
  }
  took.push({ id: name, seconds: Math.round((performance.now() - current.since) / 100) / 10 })
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
      plan: { type: 'boolean', default: false },
      out: { type: 'string', default: results }
    }
  })
  const readme = (): void => {
    writeReadme(
      fileURLToPath(new URL('README.md', import.meta.url)),
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
  const base = efforts[values.full ? 'full' : 'quick']
  const effortOf = (scenario: Scenario | null): Effort => ({
    ...base,
    rounds: numberOr('rounds', values.rounds, scenario?.plan.rounds[base.name] ?? 0),
    window: numberOr('window', values.window, base.window),
    connections: numberOr('connections', values.connections, base.connections)
  })
  const whole = [...scenarios, ...studies].flatMap(one => partOf(one, effortOf(null)) ?? [])
  const wanted = (id: string): boolean =>
    positionals.length === 0 ? whole.some(one => one.id === id) : positionals.includes(id)
  plan = positionals.length === 0 ? whole : whole.filter(({ id }) => wanted(id))
  if (values.plan) {
    process.stdout.write(renderPlan(plan, BUDGET[base.name]))
    return
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
  // Milliseconds for a scenario: what the studies need is not its. Some alone have the time that they need.
  const fixed = plan.filter(({ id }) => studies.some(study => study.id === id))
  const allowance = (id: string): number => {
    if (positionals.length > 0) return Infinity
    const scenariosLeft = plan.slice(plan.findIndex(one => one.id === id)).filter(one => !fixed.includes(one))
    const rest = (BUDGET[base.name] - secondsOf(fixed)) * 1000 - (performance.now() - began)
    return (rest * (scenariosLeft[0]?.seconds ?? 0)) / (secondsOf(scenariosLeft) - STOPPING)
  }
  const measureScenarios = async (): Promise<void> => {
    try {
      for (const scenario of scenarios.filter(({ id }) => wanted(id))) {
        await part(scenario.id, scenario.title, async () => {
          const run = await runScenario(scenario, effortOf(scenario), fleet, machine, say, allowance(scenario.id))
          const report = renderMarkdown(run, command)
          write(`${scenario.id}.md`, report)
          write(`${scenario.id}.json`, `${JSON.stringify({ command, summary: summarize(run), ...run }, null, 2)}\n`)
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
      await part(study.id, study.title, async () => {
        const own = makeFolder()
        try {
          const result = await study.run(
            { folder: own, core: cores?.proxy ?? null, upstream: '', data: join(folder, 'boltgate-data'), say },
            base.name,
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
  current = { id: '', since: performance.now() }
  const seconds = Math.round((performance.now() - began) / 1000)
  if (positionals.length === 0) {
    const at = new Date().toISOString()
    write('run.json', `${JSON.stringify({ command, at, seconds, planned: plan, took }, null, 2)}\n`)
    // A whole run is the README's; its figures are not copied by hand.
    if (values.out === results) readme()
  }
  say(`done in ${seconds} s`)
}

await main()
