import type { Polling } from '../../lightning/kinds/kind.ts'
import type { Provider } from '../../lightning/providers/provider.ts'

/** How the accounts of one slot are polled. Times in milliseconds. */
export interface PollRules extends Polling {
  /** Whether the kind lists what was settled; else each charge is looked up. */
  readonly hasList: boolean
  /** Between listings of an account with something that can be paid now, and of one without. */
  readonly every: { readonly fresh: number; readonly stale: number }
  /** Between look-ups of an account's open payments one by one, for what its listings do not tell. */
  readonly sweepEvery: number
  /** Which of them are looked up: all that are open, or those that can still be paid. */
  readonly sweeps: 'all' | 'fresh'
  /** Payments made a moment ago that each run looks up, of each account; 0 where listings or notifications tell of them. */
  readonly youngPerRun: number
  /** Between runs of the poller. */
  readonly tick: number
}

const MINUTE = 60_000
/** Part of an account's calls that its young payments may take. */
const YOUNG_SHARE = 0.75

/**
 * The rules for a provider whose kind may be polled so. `sharers`: how many of the configuration call the same, so that
 * each takes its part of what they share.
 */
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
    // There is no other news of payments. The list holds the newest invoices, most of which are paid soon or never.
    const tick = 5_000
    const inRun = (common.perMinute * YOUNG_SHARE * tick) / (MINUTE * polling.costs.lookUp)
    return {
      ...common,
      every: { fresh: 5_000, stale: 5 * MINUTE },
      sweepEvery: MINUTE,
      sweeps: common.hasList ? 'fresh' : 'all',
      youngPerRun: common.hasList ? 0 : Math.floor(inRun),
      tick
    }
  }
  return {
    ...common,
    every: { fresh: MINUTE, stale: 10 * MINUTE },
    sweepEvery: common.hasList ? 30 * MINUTE : MINUTE,
    sweeps: 'all',
    youngPerRun: 0,
    tick: 15_000
  }
}
