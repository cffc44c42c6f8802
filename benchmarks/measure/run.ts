import { createLoad } from '../load/load.ts'
import { makeFolder, removeFolder, type Core } from '../rig/child.ts'
import { quiet } from '../rig/quiet.ts'
import { describeMachine, onPath, type Machine } from '../rig/machine.ts'
import type { LoadRequest } from '../load/request.ts'
import type { Row, Scenario, Stage } from '../scenarios/scenario.ts'
import { startUpstream, type Upstream } from '../upstream/upstream.ts'
import { measure, type Sample } from './round.ts'

/** How much is measured. Times in seconds. */
export interface Effort {
  readonly name: 'quick' | 'full'
  readonly rounds: number
  /** Load before the first round, so that code is compiled and pools are filled. */
  readonly warmUp: number
  /** Unmeasured load before each window; 0 for none. */
  readonly settle: number
  readonly window: number
  readonly connections: number
  /** Seconds for one scenario. What the plain rounds leave of it goes to void windows that are tried again, and to quiet moments. */
  readonly budget: number
  /** Rounds in which latencies are measured too. */
  readonly openRounds: number
  /** Rates of the open loop, as shares of the gateway's peak. */
  readonly loads: readonly number[]
}

/** One row with everything that was measured of it. */
export interface RowResult extends Omit<Row, 'target'> {
  /** Round by round: as much as it takes. */
  readonly closed: readonly Sample[]
  /** For each rate, round by round. */
  readonly open: ReadonlyArray<readonly Sample[]>
}

/** All of a run. */
export interface RunResult {
  readonly scenario: { id: string, title: string, text: string }
  /** ISO 8601. */
  readonly at: string
  readonly machine: Machine
  readonly effort: Effort
  /** Requests a second of the open loops, the same for every target; empty where latencies were not measured. */
  readonly rates: readonly number[]
  readonly closedBy: string
  /** Requests of one window where each is good once; null where a window is a time. */
  readonly once: number | null
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

interface Live { readonly row: Row, readonly request: LoadRequest, readonly closed: Sample[], readonly open: Sample[][], used: number }

/** Windows of one round whose credentials are good once: as many are prepared as they can use. */
const WINDOWS_A_ROUND = 2

/** Runs a scenario: all targets stay up, and every round visits each of them, so that a noisy minute falls on all alike. */
export async function runScenario (scenario: Scenario, effort: Effort, say: (line: string) => void): Promise<RunResult> {
  const begin = performance.now()
  const machine = describeMachine()
  const cores = coresOf(machine)
  const proxyCore: Core = cores?.proxy ?? null
  const generatorCore: Core = cores?.generator ?? null
  const folder = makeFolder()
  const count = scenario.once?.[effort.name] ?? null
  let upstream: Upstream | null = null
  let stage: Stage | null = null
  try {
    upstream = await startUpstream(folder, generatorCore, scenario.answerBytes)
    say('starting the targets')
    stage = await scenario.prepare({ folder, core: proxyCore, upstream: upstream.origin, say }, count === null ? 0 : count * (effort.rounds * WINDOWS_A_ROUND + 1))
    for (const { label, absent } of stage.rows) if (absent !== null) say(`${label}: ${absent}`)
    const load = createLoad(folder)
    const shared = stage.request
    const lives: Live[] = stage.rows.map(row => ({ row, request: row.request ?? shared, closed: [], open: effort.loads.map(() => []), used: 0 }))
    const visit = async (live: Live, seconds: number, rate: number | null): Promise<Sample | null> => {
      const { target } = live.row
      if (target === null || upstream === null) return null
      const from = count === null ? 0 : live.used
      const sample = await measure(load, target, upstream.pid, {
        port: target.port, request: live.request, seconds: count === null ? seconds : 60, connections: effort.connections, core: generatorCore, from, count
      }, rate)
      live.used += sample.sent
      target.afterRound?.()
      return sample
    }
    // Each round has its share of the budget, so that a bad first round does not take the repeats of all others.
    let share = 0
    const inTime = (): boolean => performance.now() < share
    /** Measures into `samples`, again when the window was void; the void ones stay there to be told of. */
    const record = async (live: Live, samples: Sample[], rate: number | null): Promise<void> => {
      for (let repeat = 0; repeat <= (count === null ? REPEATS : 0); repeat++) {
        if (inTime()) await quiet(PATIENCE)
        const sample = await visit(live, effort.window, rate)
        if (sample === null) return
        samples.push(sample)
        if (sample.void === undefined || live.row.target?.fault() !== null || !inTime()) return
      }
    }

    let peak = 0
    let answered = false
    for (const live of lives) {
      const sample = await visit(live, effort.warmUp, null)
      if (sample === null || live.row.target?.pid === null) continue
      const rate = sample.seconds === 0 ? 0 : sample.requests / sample.seconds
      say(`warmed up ${live.row.label}: ${Math.round(rate)} requests/s${sample.void === undefined ? '' : `, void: ${sample.void}`}`)
      if (sample.void !== undefined) continue
      answered = true
      if (peak === 0 || live.row.id === 'boltgate') peak = rate
    }
    if (!answered) throw new Error('no target answered as it should; there is nothing to measure')
    const rates = scenario.latency.length > 0 ? effort.loads.map(load => Math.max(100, Math.round(peak * load / 100) * 100)) : []

    for (let round = 0; round < effort.rounds; round++) {
      say(`round ${round + 1} of ${effort.rounds}`)
      const left = begin + effort.budget * 1000 - performance.now()
      share = performance.now() + left / (effort.rounds - round) - SLACK
      // Every other round goes the other way, so that nobody always comes after the same neighbour.
      for (const live of round % 2 === 0 ? lives : lives.toReversed()) {
        if (count === null && effort.settle > 0) await visit(live, effort.settle, null)
        if (live.row.target?.pid !== null) await record(live, live.closed, null)
        if (round >= effort.openRounds || !scenario.latency.includes(live.row.id)) continue
        for (const [at, rate] of rates.entries()) await record(live, live.open[at] ?? [], rate)
      }
    }
    return {
      scenario: { id: scenario.id, title: scenario.title, text: scenario.text },
      at: new Date().toISOString(),
      machine, effort, rates, once: count, closedBy: count === null ? load.closedBy : 'own generator', upstream: upstream.label, cores, remarks: stage.remarks,
      rows: lives.map(({ row: { target: _target, request: _request, ...row }, closed, open }) => ({ ...row, closed, open: open.slice(0, rates.length) }))
    }
  } finally {
    for (const { target } of stage?.rows ?? []) await target?.stop()
    await upstream?.stop()
    removeFolder(folder)
  }
}

/** Where processes are held: proxies on the first core, generator and upstream on the second; null where that cannot be. */
export function coresOf (machine: Machine): { proxy: number, generator: number } | null {
  return machine.cores > 1 && onPath('taskset') !== null ? { proxy: 0, generator: 1 } : null
}
