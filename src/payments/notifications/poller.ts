import type { SeatDependencies } from './streams.ts'
import type { ChallengeCharges, OpenChallenges } from '../../selling/minting/charges.ts'
import { Unavailable } from '../../engine/operations/errors.ts'
import type { PaymentCharges } from '../payments/charges.ts'
import type { Payments } from '../payments/service.ts'
import { isConnectionFault } from '../../platform/database/database.ts'
import { UnsealError, type Secret } from '../../platform/keys/secrets.ts'
import { ProviderRefused, ProviderUnavailable } from '../../lightning/provider-calls/errors.ts'
import { OversizedResponse } from '../../lightning/provider-calls/provider-call.ts'
import type { Provider, SettledList } from '../../lightning/provider-calls/provider.ts'
import { lookedUp } from './charges.ts'
import { afterPoll, nextPolls, type Candidate, type PollOutcome, type Poll } from './poll-plan.ts'
import type { PollMemory } from './poll-store.ts'
import { accountName, ownerKey, ownerOfName, type Owner } from './registration.ts'
import type { Polling } from '../../lightning/kinds/kind.ts'

interface PollerDependencies extends SeatDependencies {
  readonly rules: PollRules
  readonly memory: PollMemory
  readonly ofPayments: PaymentCharges
  readonly payments: Payments
  readonly ofChallenges: Pick<ChallengeCharges, 'open'>
  readonly streams?: { want(accounts: readonly string[]): void }
}

/** Concurrent polls of one run: on a shared host, and where each account has its own. */
const AT_ONCE = { shared: 4, own: 32 }
/** Open challenges are cached for this many times the duration of their query. */
const PAUSE_FACTOR = 50
const MAX_AWAY = 10_000

/**
 * Backup for lost notifications, and the only source for kinds that send none: polls accounts with open payments within
 * `PollRules`. Its state is in the database, so that all processes of a deployment share one budget.
 */
export class Poller {
  readonly #dependencies: PollerDependencies
  /** The operator's key may have changed while the gateway was down. */
  #isFirstRun = true
  /** Cached open challenges; `until` in monotonic milliseconds. */
  #ofChallenges: { readonly found: readonly OpenChallenges[]; readonly until: number } | null = null
  /** Unreachable accounts by host, oldest first. */
  readonly #unreachable = new Map<string, Set<string>>()

  constructor(dependencies: PollerDependencies) {
    this.#dependencies = dependencies
  }

  /** One run of the periodic job. Rejects when the database is down; provider failures are logged and retried. */
  async run(signal: AbortSignal): Promise<void> {
    const { provider, rules, memory, clock } = this.#dependencies
    if (this.#isFirstRun) await memory.wake(null)
    this.#isFirstRun = false
    const candidates = await this.#candidates()
    this.#dependencies.streams?.want(candidates.filter(({ isFresh }) => isFresh).map(({ id }) => id))
    const before = await memory.load()
    const now = clock.now()
    const { polls, state } = nextPolls(before.state, candidates, rules, now)
    if (JSON.stringify(state) === JSON.stringify(before.state)) return
    const isPlanned = await memory.save(state, before.version)
    // Another run overtook this one and makes its own requests.
    if (!isPlanned || polls.length === 0) return
    const ends: Array<readonly [Poll, PollOutcome]> = []
    let isLimited = false
    const queue = [...polls]
    const work = async (): Promise<void> => {
      for (let poll = queue.shift(); poll !== undefined; poll = queue.shift()) {
        if (signal.aborted || (isLimited && rules.isShared)) return
        const outcome = await this.#ask(provider, poll, signal)
        isLimited ||= outcome.type === 'limited' || outcome.type === 'left alone'
        ends.push([poll, outcome])
      }
    }
    const workers = await Promise.allSettled(
      Array.from({ length: Math.min(AT_ONCE[rules.isShared ? 'shared' : 'own'], polls.length) }, work)
    )
    await memory.change(before =>
      ends.reduce((after, [poll, outcome]) => afterPoll(after, poll, outcome, now, rules), before)
    )
    for (const worker of workers) if (worker.status === 'rejected') throw worker.reason
  }

  async recovered(host: string): Promise<boolean> {
    const accounts = this.#unreachable.get(host)
    if (accounts === undefined) return false
    this.#unreachable.delete(host)
    await this.#dependencies.memory.recovered(accounts)
    return true
  }

  async #candidates(): Promise<Candidate[]> {
    const { slot, kind, clock, ofPayments, rules } = this.#dependencies
    const now = clock.now()
    const found = new Map<string, Candidate>()
    for (const { merchantId, count, fresh, ending, young, since } of await ofPayments.open(slot, kind, now)) {
      found.set(accountName(merchantId), {
        id: accountName(merchantId),
        isFresh: fresh > 0,
        payments: rules.sweeps === 'all' ? count : fresh,
        ending,
        young,
        since
      })
    }
    // Only a list reports challenges: most of them are never paid.
    for (const { merchantId, since } of rules.hasList ? await this.#withChallenges() : []) {
      const id = accountName(merchantId)
      const same = found.get(id)
      found.set(
        id,
        same === undefined
          ? { id, isFresh: false, payments: 0, ending: 0, young: 0, since }
          : { ...same, since: Math.min(same.since, since) }
      )
    }
    return [...found.values()]
  }

  /**
   * Accounts with open challenges. The query reads millions of rows, so its result is cached to stay below 2% of a CPU.
   * The cache delays polls, and `since` errs on the early side. Its timeout must not block the polling of payments.
   */
  async #withChallenges(): Promise<readonly OpenChallenges[]> {
    const { slot, kind, clock, log, ofChallenges } = this.#dependencies
    const begun = clock.monotonic()
    if (this.#ofChallenges !== null && begun < this.#ofChallenges.until) return this.#ofChallenges.found
    const found = await ofChallenges.open(slot, kind, clock.now()).catch((error: unknown) => {
      if (!isConnectionFault(error)) throw error
      log.warn({ err: error, slot, provider: kind }, 'open challenges could not be looked for; it is tried again later')
      return this.#ofChallenges?.found ?? []
    })
    const ended = clock.monotonic()
    this.#ofChallenges = { found, until: ended + PAUSE_FACTOR * (ended - begun) }
    return found
  }

  async #ask(provider: Provider, poll: Poll, signal: AbortSignal): Promise<PollOutcome> {
    const { slot, kind, clock, log } = this.#dependencies
    const owner = ownerOfName(poll.account)
    if (owner === undefined) throw new TypeError(`${poll.account} names no account`)
    let key: Secret<string> | null = null
    try {
      key = await ownerKey(owner, this.#dependencies, this.#dependencies)
      if (key === null) {
        if (owner !== null) await this.#dependencies.payments.unaskable(owner, slot, kind)
        return { type: 'failed', fault: 'refused' }
      }
      return poll.type === 'list'
        ? await this.#list(provider, key, owner, poll)
        : await this.#lookUp(provider, key, poll, signal)
    } catch (error) {
      const outcome = failure(error, clock.now())
      if (isAway(outcome)) this.#note(provider.hostOf?.(key) ?? '', poll.account)
      const text =
        outcome.type === 'failed' && outcome.fault === 'refused'
          ? 'a provider rejects the key of an account: payments there stay undetected until the key works again'
          : 'a provider could not be polled for payments; retrying later'
      log.warn({ err: error, slot, provider: kind, merchantId: owner }, text)
      return outcome
    }
  }

  #note(host: string, account: string): void {
    const accounts = this.#unreachable.get(host) ?? new Set()
    if (accounts.size === 0 && this.#unreachable.size >= MAX_AWAY)
      this.#unreachable.delete(this.#unreachable.keys().next().value ?? '')
    this.#unreachable.set(host, accounts.add(account))
  }

  async #list(
    provider: Provider,
    key: Secret<string>,
    owner: Owner,
    wanted: Poll & { type: 'list' }
  ): Promise<PollOutcome> {
    const { slot, kind, charges, clock, log } = this.#dependencies
    if (provider.listSettled === undefined) throw new TypeError(`${kind} has no list of what was settled`)
    const polledAt = clock.now()
    const {
      charges: settled,
      reach,
      asOf,
      position
    } = await provider.listSettled(key, wanted).catch((error: unknown): SettledList => {
      // The list would be as large next time: look payments up one by one.
      if (error instanceof OversizedResponse) return { charges: [], reach: 'newest', asOf: polledAt, position: null }
      throw error
    })
    const account = { slot, kind, owner, provider, key }
    const { found, isAnswered } = await charges.observeSettled(account, settled, polledAt)
    if (found > 0)
      log.info({ slot, provider: kind, merchantId: owner, found }, 'polling found what no notification had told')
    // Only after the list's payments were recorded.
    if (isAnswered && reach === 'whole' && owner !== null)
      await this.#dependencies.payments.answered(owner, slot, kind, asOf)
    return { type: 'listed', reach, asOf, position }
  }

  async #lookUp(
    provider: Provider,
    key: Secret<string>,
    poll: Exclude<Poll, { type: 'list' }>,
    signal: AbortSignal
  ): Promise<PollOutcome> {
    const { slot, kind, rules, clock, charges, ofPayments } = this.#dependencies
    const { account, count } = poll
    const after = poll.type === 'look up ending' ? '' : poll.after
    const which = ({ 'look up': rules.sweeps, 'look up young': 'young', 'look up ending': 'ending' } as const)[
      poll.type
    ]
    const payments = await ofPayments.openOf(slot, kind, Number(account), which, clock.now(), after, count)
    let cursor = after
    const begun = clock.monotonic()
    for (const { chargeId, invoiceId, merchantId } of payments) {
      // A slow provider must not delay the next listings: the next run continues.
      if (signal.aborted || clock.monotonic() - begun >= rules.tick) return { type: 'looked up', cursor }
      const polledAt = clock.now()
      const seen = await lookedUp(provider, key, chargeId)
      if (seen !== null)
        await charges.observe(
          { type: 'payment', chargeId, invoiceId, owner: merchantId, isSettled: false },
          seen,
          polledAt
        )
      cursor = chargeId
    }
    return { type: 'looked up', cursor: payments.length < count ? null : cursor }
  }
}

function isAway(outcome: PollOutcome): boolean {
  return outcome.type === 'left alone' || (outcome.type === 'failed' && outcome.fault === 'away')
}

function failure(error: unknown, now: number): PollOutcome {
  if (error instanceof ProviderUnavailable && (error.fault === 'rate' || error.fault === 'open'))
    return {
      type: error.fault === 'rate' ? 'limited' : 'left alone',
      restsUntil: now + error.retryAfter * 1000
    }
  if (error instanceof ProviderRefused || error instanceof UnsealError) return { type: 'failed', fault: 'refused' }
  if (error instanceof Unavailable || isConnectionFault(error)) return { type: 'failed', fault: 'away' }
  throw error
}

export interface PollRules extends Polling {
  /** Whether the kind lists settled charges; else each charge is looked up. */
  readonly hasList: boolean
  /** Listing interval of an account with payable charges, and of one without. */
  readonly every: { readonly fresh: number; readonly stale: number }
  /** Interval of look-ups of all open payments, for what listings miss. */
  readonly sweepEvery: number
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
  const hasList = provider.listSettled !== undefined
  const shared = {
    ...polling,
    perMinute: polling.isShared ? Math.ceil(polling.perMinute / sharers) : polling.perMinute,
    hasList
  }
  if (provider.capabilities.notifies)
    return {
      ...shared,
      every: { fresh: MINUTE, stale: 10 * MINUTE },
      sweepEvery: hasList ? 30 * MINUTE : MINUTE,
      sweeps: 'all',
      recentPerRun: 0,
      tick: 15_000
    }
  // Polling is the only source here. The list holds the newest invoices, most of which are paid soon or never.
  const tick = 5_000
  const inRun = (shared.perMinute * RECENT_SHARE * tick) / (MINUTE * polling.costs.lookUp)
  return {
    ...shared,
    every: { fresh: 5_000, stale: 5 * MINUTE },
    sweepEvery: MINUTE,
    sweeps: hasList ? 'fresh' : 'all',
    recentPerRun: hasList ? 0 : Math.floor(inRun),
    tick
  }
}
