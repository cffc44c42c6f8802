import type { Polling } from '../../lightning/kinds/kind.ts'
import type { Provider } from '../../lightning/provider-calls/provider.ts'

/** Polling rules of one slot. Times in milliseconds. */
export interface PollRules extends Polling {
  /** Whether the kind lists settled charges; else each charge is looked up. */
  readonly hasList: boolean
  /** Listing interval of an account with payable charges, and of one without. */
  readonly every: { readonly fresh: number; readonly stale: number }
  /** Interval of look-ups of all open payments, for what listings miss. */
  readonly sweepEvery: number
  /** Looks up all open payments, or only those still payable. */
  readonly sweeps: 'all' | 'fresh'
  /** Young payments of each account that a run looks up; 0 where listings or notifications report them. */
  readonly recentPerRun: number
  readonly tick: number
}

const MINUTE = 60_000
/** Share of an account's calls for its young payments. */
const RECENT_SHARE = 0.75

/** Polling rules of a provider. `sharers` of one deployment split the budget of a shared host. */
export function pollRules(
  provider: Pick<Provider, 'capabilities' | 'listSettled'>,
  polling: Polling,
  sharers: number
): PollRules {
  const common = {
    ...polling,
    perMinute: polling.isShared ? Math.ceil(polling.perMinute / sharers) : polling.perMinute,
    hasList: provider.listSettled !== undefined
  }
  if (!provider.capabilities.notifies) {
    // Polling is the only source here. The list holds the newest invoices, most of which are paid soon or never.
    const tick = 5_000
    const inRun = (common.perMinute * RECENT_SHARE * tick) / (MINUTE * polling.costs.lookUp)
    return {
      ...common,
      every: { fresh: 5_000, stale: 5 * MINUTE },
      sweepEvery: MINUTE,
      sweeps: common.hasList ? 'fresh' : 'all',
      recentPerRun: common.hasList ? 0 : Math.floor(inRun),
      tick
    }
  }
  return {
    ...common,
    every: { fresh: MINUTE, stale: 10 * MINUTE },
    sweepEvery: common.hasList ? 30 * MINUTE : MINUTE,
    sweeps: 'all',
    recentPerRun: 0,
    tick: 15_000
  }
}
