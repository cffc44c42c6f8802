import type { PollRules } from './poller.ts'

export interface Candidate {
  readonly id: string
  readonly isFresh: boolean
  readonly payments: number
  /** Those that end within two minutes, or have ended without their provider's answer. */
  readonly ending: number
  /** Those made recently, whose buyers may be waiting. */
  readonly young: number
  /** Creation of the oldest open charge. */
  readonly since: number
}

export interface Turn {
  /** Last listing, or when the account was first seen. */
  readonly listedAt: number
  /** Settlements before this time are recorded. */
  readonly coveredTo: number
  readonly sweptAt: number
  /** Last payment of the running sweep; null when none runs. */
  readonly cursor: string | null
  readonly lookedAt: number
  /** Last young payment that was looked up; empty at the beginning. */
  readonly youngCursor: string
  /** Until then only payments about to end are looked up. */
  readonly restsUntil: number
  /** Consecutive refused keys or unreachable hosts; 0 after an answer. */
  readonly faults: number
  readonly fault: 'refused' | 'away' | null
  /** Last manual end of a backoff. Outcomes of earlier requests are ignored. */
  readonly wokenAt: number
  /** The provider's own list cursor; null at the beginning. */
  readonly position: string | null
}

interface Spending {
  /** Time, number of calls, and whether they were for a listing. */
  readonly calls: ReadonlyArray<readonly [at: number, count: number, isList?: boolean]>
  readonly restsUntil: number
}

/** State of a slot's poller; JSON, since it is stored in the database. */
export interface PollState {
  readonly turns: Readonly<Record<string, Turn>>
  readonly budgets: Readonly<Record<string, Spending>>
}

/** A request to make: settlements since a time, or some open payments after a cursor. */
export type Poll =
  | {
      readonly type: 'list'
      readonly account: string
      readonly since: number
      readonly oldest: number
      readonly position: string | null
    }
  | {
      readonly type: 'look up' | 'look up young'
      readonly account: string
      readonly after: string
      readonly count: number
    }
  /** Payments about to end, of an account in backoff. */
  | { readonly type: 'look up ending'; readonly account: string; readonly count: number }

/** Requests to make and the state to save first: a call counts even if this process dies. */
export interface Plan {
  readonly polls: readonly Poll[]
  readonly state: PollState
}

export type PollOutcome =
  /** `reach` as in `SettledList`. */
  | {
      readonly type: 'listed'
      readonly reach: 'whole' | 'more' | 'newest'
      readonly asOf: number
      readonly position: string | null
    }
  | { readonly type: 'looked up'; /** Null: it was the last one. */ readonly cursor: string | null }
  /** Starts a backoff: the key is refused or the host is unreachable. */
  | { readonly type: 'failed'; readonly fault: 'refused' | 'away' }
  /** Skipped while its provider's circuit is open. */
  | { readonly type: 'left alone'; readonly restsUntil: number }
  /** The whole budget pauses. */
  | { readonly type: 'limited'; readonly restsUntil: number }

export const FIRST_STATE: PollState = Object.freeze({ turns: Object.freeze({}), budgets: Object.freeze({}) })

const MINUTE = 60_000
/** Overlap of listings, since neither clocks nor provider lists are exact. */
const OVERLAP = 120_000
/** First and longest backoff, doubled each time (decision 179). */
const RESTS = Object.freeze({ refused: { first: 30_000, longest: 300_000 }, away: { first: 5_000, longest: 30_000 } })
/** Milliseconds between look-ups of ending payments during a backoff, and their most. */
const ENDING_EVERY = 30_000
const ENDING_AT_ONCE = 10

/** State of an account seen for the first time; also the defaults of fields that older versions did not write. */
function firstTurn(since: number, now: number): Turn {
  return {
    listedAt: now,
    coveredTo: since,
    sweptAt: now,
    cursor: null,
    lookedAt: now,
    youngCursor: '',
    restsUntil: 0,
    faults: 0,
    fault: null,
    wokenAt: 0,
    position: null
  }
}

function budgetOf(account: string, rules: PollRules): string {
  return rules.isShared ? 'all' : account
}

/**
 * What may be requested at `now`. Listings go first, longest overdue first; look-ups take turns by account from the
 * rest of the budget. A turn counts when it is handed out, so that slow requests are not repeated. Kinds without a list
 * look up young payments in its place.
 */
export function nextPolls(state: PollState, candidates: readonly Candidate[], rules: PollRules, now: number): Plan {
  const turns = new Map<string, Turn>()
  const present = new Set(candidates.map(({ id }) => id))
  for (const [id, turn] of Object.entries(state.turns))
    if (present.has(id) || isRemembered(turn, rules, now)) turns.set(id, { ...firstTurn(0, 0), ...turn })
  const spending = new Map<string, Spending>()
  for (const [name, { calls, restsUntil }] of Object.entries(state.budgets)) {
    const recent = calls.filter(([at]) => at > now - MINUTE)
    if (recent.length > 0 || restsUntil > now) spending.set(name, { calls: recent, restsUntil })
  }
  /** `listed`: calls per minute reserved for listings; null for a listing. */
  const take = (account: string, cost: number, listed: number | null): boolean => {
    const name = budgetOf(account, rules)
    const { calls, restsUntil } = spending.get(name) ?? { calls: [], restsUntil: 0 }
    let [all, lists] = [0, 0]
    for (const [, count, isList = false] of calls) {
      all += count
      if (isList) lists += count
    }
    const kept = listed === null ? 0 : Math.max(listed - lists, 0)
    if (restsUntil > now || all + cost > rules.perMinute - kept) return false
    spending.set(name, { calls: [...calls, listed === null ? [now, cost, true] : [now, cost]], restsUntil })
    return true
  }
  for (const { id, since } of candidates) {
    // The provider's own notification usually comes first.
    if (!turns.has(id)) turns.set(id, firstTurn(since, now))
  }
  const awake = candidates
    .map(candidate => ({ candidate, turn: turnOf(turns, candidate.id) }))
    .filter(({ turn }) => turn.restsUntil <= now)
  const polls: Poll[] = []
  if (rules.hasList) {
    const due = awake.map(({ candidate, turn }) => ({
      id: candidate.id,
      turn,
      oldest: candidate.since,
      at: turn.listedAt + (candidate.isFresh ? rules.every.fresh : rules.every.stale)
    }))
    for (const { id, turn, oldest } of due
      .filter(({ at }) => at <= now)
      .toSorted((one, other) => one.at - other.at || compare(one.id, other.id))) {
      if (!take(id, rules.costs.list, null)) continue
      polls.push({
        type: 'list',
        account: id,
        since: turn.coveredTo - OVERLAP,
        oldest: oldest - OVERLAP,
        position: turn.position
      })
      turns.set(id, { ...turn, listedAt: now })
    }
  }
  for (const { candidate, turn } of awake) {
    const { id } = candidate
    let count = 0
    while (count < recentCount(candidate, rules) && take(id, rules.costs.lookUp, null)) count++
    if (count > 0) polls.push({ type: 'look up young', account: id, after: turn.youngCursor, count })
  }
  const listed = callsOfLists(
    awake.map(({ candidate }) => candidate),
    rules
  )
  for (const { id, after, count } of lookUps(
    awake.map(({ candidate }) => candidate),
    turns,
    rules,
    now,
    (candidate, cost) => take(candidate.id, cost, listed + youngInMinute(candidate, rules))
  )) {
    polls.push({ type: 'look up', account: id, after, count })
  }
  for (const { id, ending } of candidates) {
    const turn = turnOf(turns, id)
    if (ending === 0 || turn.restsUntil <= now || turn.lookedAt + ENDING_EVERY > now) continue
    let count = 0
    while (count < Math.min(ending, ENDING_AT_ONCE) && take(id, rules.costs.lookUp, 0)) count++
    if (count === 0) continue
    polls.push({ type: 'look up ending', account: id, count })
    turns.set(id, { ...turn, lookedAt: now })
  }
  return { polls, state: { turns: Object.fromEntries(turns), budgets: Object.fromEntries(spending) } }
}

export function afterPoll(
  state: PollState,
  poll: Poll,
  outcome: PollOutcome,
  polledAt: number,
  rules: PollRules
): PollState {
  const turn = state.turns[poll.account]
  if (turn === undefined) return state
  const changed = (change: Partial<Turn>): PollState => ({
    ...state,
    turns: { ...state.turns, [poll.account]: { ...turn, ...change } }
  })
  // The key was saved since: results of the old one do not count.
  if (turn.wokenAt > polledAt) return state
  const answering = { restsUntil: 0, faults: 0, fault: null }
  switch (outcome.type) {
    case 'listed':
      // The rest of the list is due now; nothing counts as covered before it was read.
      if (outcome.reach === 'more') return changed({ ...answering, position: outcome.position, listedAt: 0 })
      return changed({
        ...answering,
        position: outcome.position,
        coveredTo: outcome.asOf,
        ...(outcome.reach === 'newest' && turn.cursor === null ? { cursor: '', sweptAt: polledAt } : {})
      })
    case 'looked up':
      return changed({
        ...answering,
        ...(poll.type === 'look up' ? { cursor: outcome.cursor } : {}),
        ...(poll.type === 'look up young' ? { youngCursor: outcome.cursor ?? '' } : {})
      })
    case 'failed': {
      if (poll.type === 'look up ending') return state
      const faults = turn.fault === outcome.fault ? turn.faults + 1 : 1
      const { first, longest } = RESTS[outcome.fault]
      return changed({
        faults,
        fault: outcome.fault,
        restsUntil: polledAt + Math.min(first * 2 ** (faults - 1), longest)
      })
    }
    case 'left alone':
      if (poll.type === 'look up ending') return state
      return changed({ fault: 'away', restsUntil: outcome.restsUntil })
    case 'limited': {
      const name = budgetOf(poll.account, rules)
      const { calls, restsUntil } = state.budgets[name] ?? { calls: [], restsUntil: 0 }
      return {
        ...state,
        budgets: { ...state.budgets, [name]: { calls, restsUntil: Math.max(restsUntil, outcome.restsUntil) } }
      }
    }
  }
}

/** Ends an account's backoff and restarts its list, after its key was saved or proved valid (decision 179). */
export function woken(state: PollState, account: string, now: number): PollState {
  const turn = state.turns[account]
  if (turn === undefined) return state
  const awake = { ...turn, restsUntil: 0, faults: 0, fault: null, listedAt: 0, position: null, wokenAt: now }
  return { ...state, turns: { ...state.turns, [account]: awake } }
}

/** Ends the backoff of accounts whose provider answers again; their lists go on from their cursors. */
export function recovered(state: PollState, accounts: ReadonlySet<string>, now: number): PollState {
  const turns = Object.entries(state.turns).filter(([account, { fault }]) => fault === 'away' && accounts.has(account))
  if (turns.length === 0) return state
  const awake = turns.map(([account, turn]): [string, Turn] => [
    account,
    { ...turn, restsUntil: 0, faults: 0, fault: null, listedAt: 0, wokenAt: now }
  ])
  return { ...state, turns: { ...state.turns, ...Object.fromEntries(awake) } }
}

export function resting(state: PollState, now: number): Readonly<Record<'refused' | 'away', number>> {
  const counts = { refused: 0, away: 0 }
  for (const { restsUntil, fault } of Object.values(state.turns))
    if (restsUntil > now && fault !== null) counts[fault]++
  return counts
}

function turnOf(turns: ReadonlyMap<string, Turn>, id: string): Turn {
  const turn = turns.get(id)
  if (turn === undefined) throw new TypeError('an account has no turn')
  return turn
}

/** An account without open charges keeps its turn for a while: otherwise it would skip the queue on return. */
function isRemembered(turn: Turn, rules: PollRules, now: number): boolean {
  return (
    turn.restsUntil > now ||
    Math.max(turn.listedAt, turn.lookedAt) + Math.max(rules.every.stale, rules.sweepEvery) > now
  )
}

function* lookUps(
  awake: readonly Candidate[],
  turns: Map<string, Turn>,
  rules: PollRules,
  now: number,
  take: (candidate: Candidate, cost: number) => boolean
): Generator<{ id: string; after: string; count: number }> {
  for (const { id, payments, isFresh } of awake) {
    const turn = turnOf(turns, id)
    const every = rules.hasList || isFresh ? rules.sweepEvery : rules.every.stale
    if (turn.cursor === null && payments > 0 && turn.sweptAt + every <= now)
      turns.set(id, { ...turn, cursor: '', sweptAt: now })
  }
  let waiting = awake
    .filter(({ id, payments }) => payments > 0 && turnOf(turns, id).cursor !== null)
    .toSorted(
      (one, other) => turnOf(turns, one.id).lookedAt - turnOf(turns, other.id).lookedAt || compare(one.id, other.id)
    )
  const counts = new Map<string, number>()
  while (waiting.length > 0) {
    waiting = waiting.filter(candidate => {
      const { id, payments } = candidate
      const count = counts.get(id) ?? 0
      if (count >= payments || !take(candidate, rules.costs.lookUp)) return false
      counts.set(id, count + 1)
      return true
    })
  }
  for (const [id, count] of counts) {
    const turn = turnOf(turns, id)
    turns.set(id, { ...turn, lookedAt: now })
    yield { id, after: turn.cursor ?? '', count }
  }
}

function recentCount({ young }: Pick<Candidate, 'young'>, { recentPerRun }: PollRules): number {
  return Math.min(young, recentPerRun)
}

function youngInMinute(candidate: Pick<Candidate, 'young'>, rules: PollRules): number {
  return Math.ceil((recentCount(candidate, rules) * rules.costs.lookUp * MINUTE) / rules.tick)
}

/** Calls per minute reserved for listings, at most four fifths of the budget. */
function callsOfLists(awake: readonly Candidate[], { costs, every, hasList, isShared, perMinute }: PollRules): number {
  if (!hasList) return 0
  const needed = (isFresh: boolean): number => (costs.list * MINUTE) / (isFresh ? every.fresh : every.stale)
  const all = isShared ? awake.reduce((sum, { isFresh }) => sum + needed(isFresh), 0) : needed(true)
  return Math.min(Math.ceil(all), Math.floor(perMinute * 0.8))
}

function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0
}
