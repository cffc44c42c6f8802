import type { Provider, ProviderKind } from '../providers/provider.ts'

/** How the accounts of one slot are polled. Times in milliseconds. */
export interface PollRules {
  /** HTTP calls in any minute. */
  readonly perMinute: number
  /** Whether all accounts share them, because the provider counts our address; else each account has as many. */
  readonly isShared: boolean
  /** HTTP calls that one listing and one look-up take. */
  readonly costs: { readonly list: number, readonly lookUp: number }
  /** Whether the kind lists what was settled; else each charge is looked up. */
  readonly hasList: boolean
  /** Between listings of an account with something that can be paid now, and of one without. */
  readonly every: { readonly fresh: number, readonly stale: number }
  /** Between look-ups of an account's open payments one by one, for what its listings do not tell. */
  readonly sweepEvery: number
  /** Which of them are looked up: all that are open, or those that can still be paid. */
  readonly sweeps: 'all' | 'fresh'
  /** Between runs of the poller. */
  readonly tick: number
}

const MINUTE = 60_000

/**
 * Calls that the poller may make in a minute. Strike locks an address out for an hour after 1,000 calls in 10 minutes (its
 * test host: 350), and charges and look-ups count too: so a fifth of it. OpenNode publishes no limit. A node of the
 * merchant's own has none, but other things to do.
 */
function callsPerMinute (kind: ProviderKind, url: string | null): number {
  switch (kind) {
    case 'strike':
      return url === null || new URL(url).host === 'api.strike.me' ? 20 : 7
    case 'opennode':
      return 20
    case 'lnd':
    case 'sandbox':
      return 60
  }
}

/** How many of the calls of a listing or a look-up are HTTP calls. */
function callsOf (kind: ProviderKind): PollRules['costs'] {
  return { list: kind === 'opennode' ? 1 : 2, lookUp: kind === 'strike' ? 2 : 1 }
}

/**
 * The rules for a slot; null for what need not be polled, because it tells of every payment within this process (sandbox).
 * `url` is where the slot is called, null for the kind's own; `isTwice`: the other slot calls the same, so that each takes half.
 */
export function pollRules (provider: Provider, url: string | null, isTwice: boolean): PollRules | null {
  const { kind, capabilities } = provider
  if (kind === 'sandbox') return null
  const perMinute = callsPerMinute(kind, url)
  const common = {
    perMinute: isTwice ? Math.ceil(perMinute / 2) : perMinute,
    isShared: kind !== 'lnd',
    costs: callsOf(kind),
    hasList: provider.listSettled !== undefined
  }
  if (!capabilities.notifies) {
    // There is no other news of payments. The list holds the newest invoices, most of which are paid soon or never.
    return { ...common, every: { fresh: 5_000, stale: 5 * MINUTE }, sweepEvery: MINUTE, sweeps: common.hasList ? 'fresh' : 'all', tick: 5_000 }
  }
  return { ...common, every: { fresh: MINUTE, stale: 10 * MINUTE }, sweepEvery: common.hasList ? 30 * MINUTE : MINUTE, sweeps: 'all', tick: 15_000 }
}
