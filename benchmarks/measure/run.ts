import { createLoad } from '../load/load.ts'
import { makeFolder, removeFolder, type Core } from '../rig/child.ts'
import { quiet } from '../rig/quiet.ts'
import { describeMachine, onPath, type Machine } from '../rig/machine.ts'
import type { Row, Scenario, Stage } from '../scenarios/scenario.ts'
import { startUpstream, type Upstream } from '../upstream/upstream.ts'
import { measure, type Sample } from './round.ts'

/** How much is measured. Times in seconds. */
export interface Effort {
  readonly name: 'quick' | 'full'
  readonly rounds: number
  /** Load before the first round, so that code is compiled and pools are filled. */
  readonly warmUp: number
  /** Unmeasured load before each window. */
  readonly settle: number
  readonly window: number
  readonly connections: number
  /** Seconds for the whole run. What the plain rounds leave of it goes to void windows that are tried again, and to quiet moments. */
  readonly budget: number
  /** Requests a second of the open loop; null takes half of what the slowest proxy can. */
  readonly rate: number | null
}

/** One row with everything that was measured of it. */
export interface RowResult extends Omit<Row, 'target'> {
  /** Round by round: as much as it takes. */
  readonly closed: readonly Sample[]
  /** Round by round: at the common rate. */
  readonly open: readonly Sample[]
}

/** All of a run. */
export interface RunResult {
  readonly scenario: { id: string, title: string, text: string }
  /** ISO 8601. */
  readonly at: string
  readonly machine: Machine
  readonly effort: Effort
  /** Requests a second of the open loop. */
  readonly rate: number
  readonly closedBy: string
  readonly upstream: string
  /** Where processes were held; null when nothing could be pinned. */
  readonly cores: { proxy: number, generator: number } | null
  readonly remarks: readonly string[]
  readonly rows: readonly RowResult[]
}

/** How often a void window is tried again in its round. */
const REPEATS = 3
/** What one more window may take, in milliseconds: none is begun later than this before the end of its round's share. */
const SLACK = 4000
/** How long a quiet moment is waited for before a window, in milliseconds. */
const PATIENCE = 1500

interface Live { readonly row: Row, readonly closed: Sample[], readonly open: Sample[] }

/** Runs a scenario: all targets stay up, and every round visits each of them, so that a noisy minute falls on all alike. */
export async function runScenario (scenario: Scenario, effort: Effort, say: (line: string) => void): Promise<RunResult> {
  const begin = performance.now()
  const machine = describeMachine()
  const cores = machine.cores > 1 && onPath('taskset') !== null ? { proxy: 0, generator: 1 } : null
  const proxyCore: Core = cores?.proxy ?? null
  const generatorCore: Core = cores?.generator ?? null
  const folder = makeFolder()
  let upstream: Upstream | null = null
  let stage: Stage | null = null
  try {
    upstream = await startUpstream(folder, generatorCore, scenario.answerBytes)
    say('starting the targets')
    stage = await scenario.prepare({ folder, core: proxyCore, upstream: upstream.origin })
    for (const { label, absent } of stage.rows) if (absent !== null) say(`${label}: ${absent}`)
    const load = createLoad(folder)
    const lives: Live[] = stage.rows.map(row => ({ row, closed: [], open: [] }))
    const { request } = stage
    const visit = async (live: Live, seconds: number, rate: number | null): Promise<Sample | null> => {
      const { target } = live.row
      if (target === null || upstream === null) return null
      const sample = await measure(load, target, upstream.pid, { port: target.port, request, seconds, connections: effort.connections, core: generatorCore }, rate)
      target.afterRound?.()
      return sample
    }
    // Each round has its share of the budget, so that a bad first round does not take the repeats of all others.
    let share = 0
    const inTime = (): boolean => performance.now() < share
    /** Measures into `samples`, again when the window was void; the void ones stay there to be told of. */
    const record = async (live: Live, samples: Sample[], rate: number | null): Promise<void> => {
      for (let repeat = 0; repeat <= REPEATS; repeat++) {
        if (inTime()) await quiet(PATIENCE)
        const sample = await visit(live, effort.window, rate)
        if (sample === null) return
        samples.push(sample)
        if (sample.void === undefined || live.row.target?.fault() !== null || !inTime()) return
      }
    }

    let slowest = Infinity
    for (const live of lives) {
      const sample = await visit(live, effort.warmUp, null)
      if (sample === null || live.row.target?.pid === null) continue
      say(`warmed up ${live.row.label}: ${Math.round(sample.requests / sample.seconds)} requests/s${sample.void === undefined ? '' : `, void: ${sample.void}`}`)
      if (sample.void === undefined) slowest = Math.min(slowest, sample.requests / sample.seconds)
    }
    if (slowest === Infinity) throw new Error('no proxy answered as it should; there is nothing to measure')
    const rate = effort.rate ?? Math.max(100, Math.round(slowest / 2 / 100) * 100)

    for (let round = 0; round < effort.rounds; round++) {
      say(`round ${round + 1} of ${effort.rounds}`)
      const left = begin + effort.budget * 1000 - performance.now()
      share = performance.now() + left / (effort.rounds - round) - SLACK
      // Every other round goes the other way, so that nobody always comes after the same neighbour.
      for (const live of round % 2 === 0 ? lives : lives.toReversed()) {
        await visit(live, effort.settle, null)
        if (live.row.target?.pid !== null) await record(live, live.closed, null)
        await record(live, live.open, rate)
      }
    }
    return {
      scenario: { id: scenario.id, title: scenario.title, text: scenario.text },
      at: new Date().toISOString(),
      machine, effort, rate, closedBy: load.closedBy, upstream: upstream.label, cores, remarks: stage.remarks,
      rows: lives.map(({ row: { target: _target, ...row }, closed, open }) => ({ ...row, closed, open }))
    }
  } finally {
    for (const { target } of stage?.rows ?? []) await target?.stop()
    await upstream?.stop()
    removeFolder(folder)
  }
}
