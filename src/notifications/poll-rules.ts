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
  /** Between look-ups of all open payments of an account, for what its listings do not tell. */
  readonly sweepEvery: number
  /** Between runs of the poller. */
  readonly tick: number
}

const MINUTE = 60_000

/**
 * Calls that the poller may make in a minute. Strike locks an address out for an hour after 1,000 calls in 10 minutes (its
 * test host: 350), and charges and look-ups count too: so a fifth of it. OpenNode publishes no limit. A node of the
 * merchant's own has none, but it has other things to do.
 */
function callsPerMinute (kind: ProviderKind, url: string | null): number {
  switch (kind) {
    case 'strike':
      return url === null || new URL(url).host === 'api.strike.me' ? 20 : 7
    case 'opennode':
      return 20
    case 'lnd':
    case 'sandbox':
      return 30
  }
}

/** How many of the calls of a listing or a look-up are HTTP calls. */
function callsOf (kind: ProviderKind): PollRules['costs'] {
  return kind === 'strike' ? { list: 2, lookUp: 2 } : { list: 1, lookUp: 1 }
}

/**
 * The rules for a slot; null for what need not be polled, because it tells of every payment within this process (sandbox).
 * `url` is where the slot is called, null for the kind's own; `isTwice`: the other slot calls the same, so that each takes half.
 */
export function pollRules (provider: Provider, url: string | null, isTwice: boolean): PollRules | null {
  const { kind, capabilities } = provider
  if (kind === 'sandbox') return null
  const perMinute = callsPerMinute(kind, url)
  const every = capabilities.notifies ? { fresh: MINUTE, stale: 10 * MINUTE } : { fresh: 10_000, stale: 5 * MINUTE }
  const hasList = provider.listSettled !== undefined
  return {
    perMinute: isTwice ? Math.ceil(perMinute / 2) : perMinute,
    isShared: kind !== 'lnd',
    costs: callsOf(kind),
    hasList,
    every,
    sweepEvery: hasList ? 30 * MINUTE : every.fresh,
    tick: capabilities.notifies ? 15_000 : 5_000
  }
}
