import type { PerScale } from './plan.ts'
import type { Effort } from './run.ts'

const quick: Omit<Effort, 'rounds'> = {
  name: 'quick',
  compile: { requests: 80_000, seconds: 7 },
  warmUp: 1,
  settle: 0,
  window: 1,
  connections: 64,
  spare: 2,
  openRounds: 1,
  loads: [0.3, 0.6, 0.8]
}
const full: Omit<Effort, 'rounds'> = {
  ...quick,
  name: 'full',
  compile: { requests: 200_000, seconds: 13 },
  warmUp: 2,
  window: 2,
  spare: 10,
  openRounds: 2
}
/** How much is measured; the rounds are each scenario's own. */
export const efforts: PerScale<Omit<Effort, 'rounds'>> = { quick, full }

/**
 * Seconds that a whole run may take. Where the machine is slower than the plan, rounds are left out; studies cannot be
 * cut short, so some seconds are kept back for them.
 */
export const BUDGET: PerScale<number> = { quick: 285, full: 870 }
