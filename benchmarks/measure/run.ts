import type { LoadRequest } from '../load/request.ts'
import { plainGet } from '../load/request.ts'
import { quiet } from '../rig/quiet.ts'
import { onPath, type Machine } from '../rig/machine.ts'
import type { Row, Scenario } from '../scenarios/scenario.ts'
import type { Cores, Fleet, WarmUp } from './fleet.ts'
import type { Scale } from './plan.ts'
import { measure, type Sample } from './round.ts'
import { spreadOf } from './statistics.ts'

/** How much is measured. Times in seconds. */
export interface Effort {
  readonly name: Scale
  readonly rounds: number
  /**
   * Load on each target before it is measured for the first time, so that its code is compiled and its pools are
   * filled.
   */
  readonly compile: WarmUp
  /** Load before the rounds of a scenario on targets that were warmed up for another. */
  readonly warmUp: number
  /** Unmeasured load before each window; 0 for none. */
  readonly settle: number
  readonly window: number
  readonly connections: number
  /** What a scenario may spend on void windows that are tried again, and on waiting for quiet moments. */
  readonly spare: number
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
  readonly scenario: { id: string; title: string; text: string }
  /** ISO 8601. */
  readonly at: string
  readonly machine: Machine
  readonly effort: Effort
  /** Rounds that there was time for. */
  readonly rounds: number
  /** Requests a second of the open loops, the same for every target; empty where latencies were not measured. */
  readonly rates: readonly number[]
  readonly closedBy: string
  /** Requests of one window where each is good once; null where a window is a time. */
  readonly once: number | null
  readonly upstream: string
  /** Where processes were held; null when nothing could be pinned. */
  readonly cores: Cores | null
  readonly remarks: readonly string[]
  readonly rows: readonly RowResult[]
}

/** How often a void window is tried again in its round. */
const REPEATS = 2
/** How long a quiet moment is waited for before a window, in milliseconds. */
const PATIENCE = 700
/** What the closed loop may take of a scenario's time where latencies are measured too. */
const CLOSED_SHARE = 0.65
/** Requests of one window of a target whose requests are not used up, where the others' are. */
const PLAIN = 400

/** What is asked of every target while it is warmed up, where its own requests are good once. */
const ANYTHING = plainGet('/passed/quote', { Accept: 'application/json' })

interface Live {
  readonly row: Row
  readonly request: LoadRequest
  readonly closed: Sample[]
  readonly open: Sample[][]
  used: number
}

/**
 * Measures a scenario on the targets of the fleet. Every round visits each of them, so that a noisy minute falls on all
 * alike. `milliseconds`: what it may take, all in all; rounds for which there is no time are left out, but for the first.
 */
export async function runScenario(
  scenario: Scenario,
  effort: Effort,
  fleet: Fleet,
  machine: Machine,
  say: (line: string) => void,
  milliseconds = Infinity
): Promise<RunResult> {
  const begun = performance.now()
  const generatorCore = fleet.cores?.generator ?? null
  const once = scenario.once?.[effort.name] ?? null
  const warmUps = scenario.once?.warmUp ?? 1
  await fleet.free()
  // The generator is made ready while the targets start.
  const [load, stage] = await Promise.all([
    fleet.load(),
    scenario.prepare(fleet, once === null ? 0 : once * (effort.rounds + warmUps), effort.name)
  ])
  for (const { label, absent } of stage.rows) if (absent !== null) say(`${label}: ${absent}`)
  const lives: Live[] = stage.rows.map(row => ({
    row,
    request: row.request ?? stage.request,
    closed: [],
    open: effort.loads.map(() => []),
    used: 0
  }))
  const ready = lives.flatMap(({ row: { label, target }, request }) =>
    target === null ? [] : [{ label, target, request }]
  )
  const compiled = await fleet.warmUp(ready, ANYTHING, effort.compile)
  await fleet.hold()
  // Each request of a target whose credentials are good once has a place of its own in the file of them.
  const countOf = ({ request: { varied } }: Live): number | null =>
    once === null ? null : varied === null ? Math.max(once, PLAIN) : once
  const visit = async (live: Live, seconds: number, rate: number | null): Promise<Sample | null> => {
    const { target } = live.row
    if (target === null) return null
    const count = countOf(live)
    const sample = await measure(
      load,
      target,
      {
        port: target.port,
        request: live.request,
        seconds: count === null ? seconds : 60,
        connections: effort.connections,
        core: generatorCore,
        from: count === null ? 0 : live.used,
        count
      },
      rate
    )
    live.used += sample.sent
    target.afterRound?.()
    return sample
  }
  let spare = effort.spare * 1000
  const spend = async <T>(work: () => Promise<T>): Promise<T> => {
    const begin = performance.now()
    const result = await work()
    spare -= performance.now() - begin
    return result
  }
  /**
   * Measures into `samples`, again when the window was void; the void ones are kept for the report. `left`: what must
   * be left to spare.
   */
  const record = async (live: Live, samples: Sample[], rate: number | null, left: number): Promise<void> => {
    const measured = async (): Promise<boolean> => {
      const sample = await visit(live, effort.window, rate)
      if (sample !== null) samples.push(sample)
      return sample === null || (sample.void ?? sample.tailVoid) === undefined || live.row.target?.fault() !== null
    }
    const mayWait = (): boolean => spare > left
    if (mayWait()) await spend(() => quiet(PATIENCE))
    let done = await measured()
    for (let repeat = 0; !done && countOf(live) === null && repeat < REPEATS && mayWait(); repeat++)
      done = await spend(measured)
  }
  // Every other round goes the other way, so that no target always follows the same one.
  const inTurn = (round: number): readonly Live[] => (round % 2 === 0 ? lives : lives.toReversed())
  const openRounds = scenario.latency.length > 0 ? effort.openRounds : 0
  // Each round has its share of what is to spare, so that a bad first one does not take the repeats of all others.
  const leftAfter = (round: number): number => effort.spare * 1000 * (1 - (round + 1) / (effort.rounds + openRounds))

  for (const live of lives) {
    const { target } = live.row
    if (target === null || !target.compiles) continue
    // A peer does the same in every scenario.
    if (target.ours !== true && !compiled.has(target) && once === null) continue
    // Its own request was what it was warmed up with, unless that is good once or varies.
    if (compiled.has(target) && live.request.varied === null && live.request.status === 200) continue
    for (let window = 0; window < warmUps; window++) {
      const sample = await visit(live, effort.warmUp, null)
      if (sample?.void !== undefined) say(`${live.row.label}, warming up: ${sample.void}`)
    }
  }
  /** Whether there is time for one more like the last, until a share of the whole is spent. */
  const timeFor = (last: number, share: number): boolean => performance.now() - begun + last < milliseconds * share
  let rounds = 0
  let took = 0
  while (rounds < effort.rounds && (rounds === 0 || timeFor(took, openRounds > 0 ? CLOSED_SHARE : 1))) {
    const round = rounds++
    const roundBegun = performance.now()
    say(`round ${rounds} of ${effort.rounds}`)
    for (const live of inTurn(round)) {
      if (live.row.target?.pid === null) continue
      if (once === null && effort.settle > 0) await visit(live, effort.settle, null)
      await record(live, live.closed, null, leftAfter(round))
    }
    took = performance.now() - roundBegun
  }
  if (rounds < effort.rounds) say(`no time for more than ${rounds} rounds`)
  const counted = lives.map(({ row: { id }, closed }) => ({
    id,
    peak:
      spreadOf(closed.filter(sample => sample.void === undefined).map(({ requests, seconds }) => requests / seconds))
        ?.median ?? null
  }))
  const peak = counted.find(({ id }) => id === 'boltgate')?.peak ?? counted.find(row => row.peak !== null)?.peak ?? null
  if (peak === null) throw new Error('no target answered as it should; there is nothing to tell')
  const rates = openRounds > 0 ? effort.loads.map(share => Math.max(100, Math.round((peak * share) / 100) * 100)) : []
  took = 0
  for (let round = 0; round < openRounds && (round === 0 || timeFor(took, 1)); round++) {
    const roundBegun = performance.now()
    say(`latencies, round ${round + 1} of ${openRounds}`)
    for (const live of inTurn(round)) {
      if (!scenario.latency.includes(live.row.id)) continue
      for (const [at, rate] of rates.entries())
        await record(live, live.open[at] ?? [], rate, leftAfter(effort.rounds + round))
    }
    took = performance.now() - roundBegun
  }
  const upstream = await fleet.upstream()
  return {
    scenario: { id: scenario.id, title: scenario.title, text: scenario.text },
    at: new Date().toISOString(),
    machine,
    effort,
    rounds,
    rates,
    once,
    closedBy: once === null ? load.closedBy : 'own generator',
    upstream: upstream.label,
    cores: fleet.cores,
    remarks: stage.remarks,
    rows: lives.map(({ row: { target: _target, request: _request, ...row }, closed, open }) => ({
      ...row,
      closed,
      open: open.slice(0, rates.length)
    }))
  }
}

/**
 * Where processes are held: proxies on the first core, generator and upstream on the second; null where that cannot be.
 */
export function coresOf(machine: Machine): Cores | null {
  return machine.cores > 1 && onPath('taskset') !== null ? { proxy: 0, generator: 1 } : null
}
