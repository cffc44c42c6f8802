import type { Effort } from './run.ts'

/** How thorough a run is. */
export type Scale = 'quick' | 'full'

/** One value for each of them. */
export interface PerScale<T> {
  readonly quick: T
  readonly full: T
}

/** What is measured of a scenario in a whole run, and what that needs. */
export interface WindowPlan {
  /** Rounds of its closed loop. */
  readonly rounds: PerScale<number>
  /** Targets that each round visits. */
  readonly targets: PerScale<number>
  /** Windows of load before its rounds, on targets that did something else before. */
  readonly warmed: number
  /** Targets that are compiled for it, as no scenario before it had them. */
  readonly compiled: number
  /** Seconds in which its targets start, and its credentials are made. */
  readonly prepare: PerScale<number>
}

/** What there is to be done in a run: a scenario's windows, or a study, which knows its own seconds. */
export type Planned = { readonly id: string } & (
  | { readonly plan: WindowPlan; readonly latency: readonly string[]; readonly once: object | null }
  | { readonly seconds: PerScale<number | null> }
)

/** One part of a run. Seconds. */
export interface PlannedPart {
  readonly id: string
  readonly seconds: number
  /** What they are made of, in words. */
  readonly words: string
}

/** What a window takes beside its load: waiting for a quiet moment, connections, the generator's start. */
const BESIDE = 0.15
/** A window whose requests are counted. */
const COUNTED: PerScale<number> = { quick: 0.4, full: 1 }
/** Targets that are compiled at the same time. */
const AT_ONCE = 2

/** Seconds that targets and servers take to stop. */
export const STOPPING = 5

function scenarioPart(
  id: string,
  plan: WindowPlan,
  { latency, isOnce }: { readonly latency: number; readonly isOnce: boolean },
  effort: Effort
): PlannedPart {
  const { name } = effort
  const window = isOnce ? COUNTED[name] : effort.window + BESIDE
  const compile = Math.ceil(plan.compiled / AT_ONCE) * effort.compile.seconds
  const warm = plan.warmed * (isOnce ? COUNTED[name] : effort.warmUp + BESIDE)
  const rounds = plan.rounds[name] * plan.targets[name] * window
  const open = latency === 0 ? 0 : effort.openRounds * effort.loads.length * latency * (effort.window + BESIDE)
  const parts: ReadonlyArray<readonly [string, number]> = [
    ['starts and credentials', plan.prepare[name]],
    ['compiling', compile],
    ['warming up', warm],
    [`${plan.rounds[name]} rounds of ${plan.targets[name]} windows`, rounds],
    ['latencies', open]
  ]
  const said = parts.filter(([, seconds]) => seconds > 0)
  return {
    id,
    seconds: said.reduce((sum, [, seconds]) => sum + seconds, 0),
    words: said.map(([what, seconds]) => `${what} ${Math.round(seconds)}`).join(', ')
  }
}

/** What a part takes of a whole run; null where it is left out of one. */
export function partOf(part: Planned, effort: Effort): PlannedPart | null {
  if ('plan' in part)
    return scenarioPart(part.id, part.plan, { latency: part.latency.length, isOnce: part.once !== null }, effort)
  const seconds = part.seconds[effort.name]
  return seconds === null ? null : { id: part.id, seconds, words: 'a study' }
}

/** Seconds that all of them take, with the end of the run. */
export function secondsOf(parts: readonly PlannedPart[]): number {
  return parts.reduce((sum, { seconds }) => sum + seconds, STOPPING)
}

/** The plan in Markdown. */
export function renderPlan(parts: readonly PlannedPart[], limit: number): string {
  const lines = parts.map(({ id, seconds, words }) => `| \`${id}\` | ${Math.round(seconds)} | ${words} |`)
  return `| | seconds | |
|---|---|---|
${lines.join('\n')}
| the end | ${STOPPING} | |
| **all** | **${Math.round(secondsOf(parts))}** | where the machine is slower, rounds are left out from ${limit} on |
`
}

/** Seconds that a run still takes, from its plan: what comes after the current part, and what is left of that one. */
export function secondsLeft(parts: readonly PlannedPart[], current: string, since: number): number {
  const at = parts.findIndex(({ id }) => id === current)
  if (at < 0) return 0
  return secondsOf(parts.slice(at + 1)) + Math.max(0, (parts[at]?.seconds ?? 0) - since)
}
