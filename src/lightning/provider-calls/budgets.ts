import { hash } from 'node:crypto'
import type { Clock } from '../../platform/system/clock.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import { MemoryState } from '../../platform/state/memory.ts'
import { StateUnavailable, type Bucket, type Maybe, type State } from '../../platform/state/state.ts'
import { NothingSent } from './errors.ts'
import type { KindName } from './provider.ts'

/**
 * Priority of a call: `keyed` for an account or job, `ahead` for future buyers, or an anonymous client, who must leave budget to
 * others.
 */
export type CallPriority = 'keyed' | 'ahead' | AnonymousClient

export interface AnonymousClient {
  readonly hasPaid: boolean
  /** Recent unpaid invoices; older ones decay to fractions. */
  readonly unpaid: number
  /** Anonymous clients' invoices in the same place (route, proxy, store) in about the last minute. */
  readonly inPlace: number
}

export interface CallLimits {
  /** By our address, under the name calls give them. */
  readonly ofAddress: Readonly<Record<string, Bucket>>
  readonly ofAccount: Bucket
}

export function accountLimits(usual: Bucket): (url: string | null, perMinute: number | null) => CallLimits {
  return (_url, perMinute) => ({
    ofAddress: {},
    ofAccount: perMinute === null ? usual : { burst: perMinute, perMinute }
  })
}

interface BudgetReport {
  readonly provider: KindName
  /** `account`: of some key. */
  readonly limit: string
  readonly exhausted: boolean
  /** Whole seconds until an anonymous client's next invoice; null for now. */
  readonly retryAfter: number | null
}

/** Share for calls with a key only. */
const RESERVE = 0.2
/** Share kept for those and recent payers. */
const RESERVE_OF_PAYING = 0.3
/** Unpaid invoices at which a client is halfway to the highest reserve. */
const HALFWAY = 1
/** Share kept for waiting callers: what the worst anonymous client must leave. */
const KEPT_FOR_WAITING = 0.75
/** Weight of a client's own unpaid invoices against its place's share. */
const WEIGHT_OF_CLIENT = 2

/** For unlimited calls. */
export const NO_LIMIT: Bucket = Object.freeze({ burst: 1e9, perMinute: 1e9 })

/**
 * Tokens a call must leave. Anonymous clients leave a reserve that grows with their unpaid invoices and their place's share of
 * the budget. Under pressure, clients and places with the fewest go first, floods take the rest, and flooded places
 * share equally. Invoices made ahead come near last.
 */
export function tokensToKeep(priority: CallPriority, bucket: Bucket): number {
  if (priority === 'keyed') return 0
  if (priority === 'ahead') return Math.min(bucket.burst - 1, bucket.burst * KEPT_FOR_WAITING)
  const reserve = priority.hasPaid ? RESERVE : RESERVE_OF_PAYING
  const ofClient = priority.unpaid / (priority.unpaid + HALFWAY)
  const ofPlace = Math.min(1, priority.inPlace / bucket.perMinute)
  return Math.min(
    bucket.burst - 1,
    bucket.burst * (reserve + ((1 - reserve) * (WEIGHT_OF_CLIENT * ofClient + ofPlace)) / (WEIGHT_OF_CLIENT + 1))
  )
}

interface BudgetsDependencies {
  readonly state: State
  readonly clock: Clock
  readonly metrics: Metrics
}

/**
 * Call budgets shared by all processes of a state. While the state is down each process counts alone; a provider's own
 * refusals still apply.
 */
export class Budgets {
  readonly #dependencies: BudgetsDependencies
  readonly #budgets: CallBudget[] = []

  constructor(dependencies: BudgetsDependencies) {
    this.#dependencies = dependencies
  }

  /** Two slots at the same address share it. */
  of(kind: KindName, address: string, limits: CallLimits): CallBudget {
    const known = this.#budgets.find(budget => budget.kind === kind && budget.address === address)
    if (known !== undefined) return known
    const budget = new CallBudget(kind, address, limits, this.#dependencies)
    this.#budgets.push(budget)
    return budget
  }

  async report(): Promise<BudgetReport[]> {
    return (await Promise.all(this.#budgets.map(budget => budget.report()))).flat()
  }
}

/** Limited only by the provider's own 429 responses. */
export function noBudget(kind: KindName, clock: Clock): CallBudget {
  return new CallBudget(
    kind,
    '',
    { ofAddress: {}, ofAccount: NO_LIMIT },
    { state: new MemoryState(clock), clock, metrics: null }
  )
}

export class CallBudget {
  readonly kind: KindName
  readonly address: string
  readonly #limits: CallLimits
  readonly #state: State
  readonly #alone: MemoryState
  readonly #clock: Clock
  readonly #refused: (limit: string, caller: 'keyed' | 'ahead' | 'paying' | 'anonymous') => void
  readonly #level: (limit: string, level: number) => void
  /** Monotonic milliseconds when exhausted accounts can be retried. */
  readonly #exhausted = new Map<string, number>()

  constructor(
    kind: KindName,
    address: string,
    limits: CallLimits,
    { state, clock, metrics }: Omit<BudgetsDependencies, 'metrics'> & { readonly metrics: Metrics | null }
  ) {
    this.kind = kind
    this.address = address
    this.#limits = limits
    this.#state = state
    this.#alone = new MemoryState(clock)
    this.#clock = clock
    const refused = metrics?.counter(
      'boltgate_provider_budget_refused_total',
      'Calls to providers that were not made since their budget was used up, by who asked.',
      ['provider', 'limit', 'caller']
    )
    const left = metrics?.gauge(
      'boltgate_provider_budget_left',
      'Part of a budget of calls from our address that is left, 0 to 1.',
      ['provider', 'limit']
    )
    this.#refused = (limit, caller) => {
      refused?.inc({ provider: kind, limit, caller })
    }
    this.#level = (limit, level) => {
      left?.set({ provider: kind, limit }, level)
    }
    for (const limit of Object.keys(limits.ofAddress)) this.#level(limit, 1)
  }

  /**
   * Spends calls, one by default. `limit` names one of our address; the key's own always counts.
   * @throws NothingSent with the true wait when too little is left for this caller
   */
  async spend(limit: string | undefined, key: string | null, priority: CallPriority, calls = 1): Promise<void> {
    if (calls === 0) return
    if (limit !== undefined) await this.#take(limit, this.#addressKey(limit), this.#ofAddress(limit), priority, calls)
    await this.#take('account', this.#accountKey(key), this.#limits.ofAccount, priority, calls)
  }

  /** Records a provider's 429 and its seconds: of our address for a named limit, else of this key. */
  async refused(limit: string | undefined, key: string | null, seconds: number): Promise<void> {
    const [name, bucket] =
      limit === undefined
        ? [this.#accountKey(key), this.#limits.ofAccount]
        : [this.#addressKey(limit), this.#ofAddress(limit)]
    await this.#ask(state => state.restBucket(name, bucket, seconds * 1000))
    if (limit === undefined) this.#note(name, seconds * 1000)
    else this.#level(limit, 0)
  }

  async report(): Promise<BudgetReport[]> {
    const newcomer: AnonymousClient = { hasPaid: false, unpaid: 0, inPlace: 0 }
    const ofAddress = await Promise.all(
      Object.entries(this.#limits.ofAddress).map(async ([limit, bucket]) => {
        const { retryAfterMs } = await this.#ask(state =>
          state.takeTokens(this.#addressKey(limit), bucket, 0, tokensToKeep(newcomer, bucket))
        )
        return this.#reported(limit, retryAfterMs)
      })
    )
    const now = this.#clock.monotonic()
    for (const [name, until] of this.#exhausted) if (until <= now) this.#exhausted.delete(name)
    return this.#limits.ofAccount === NO_LIMIT
      ? ofAddress
      : [
          ...ofAddress,
          this.#reported('account', Math.max(0, ...[...this.#exhausted.values()].map(until => until - now)))
        ]
  }

  #reported(limit: string, waitMs: number): BudgetReport {
    return { provider: this.kind, limit, exhausted: waitMs > 0, retryAfter: waitMs > 0 ? seconds(waitMs) : null }
  }

  async #take(limit: string, name: string, bucket: Bucket, priority: CallPriority, calls: number): Promise<void> {
    // A cost above the bucket's size would block forever.
    const cost = Math.min(calls, bucket.burst)
    const keep = Math.min(tokensToKeep(priority, bucket), bucket.burst - cost)
    const taken = await this.#ask(state => state.takeTokens(name, bucket, cost, keep))
    if (limit !== 'account') this.#level(limit, Math.max(0, taken.left) / bucket.burst)
    if (taken.allowed) return
    this.#refused(limit, typeof priority === 'string' ? priority : priority.hasPaid ? 'paying' : 'anonymous')
    if (limit === 'account') this.#note(name, taken.retryAfterMs)
    throw new NothingSent(
      'The payment provider may not be called more often at the moment.',
      seconds(taken.retryAfterMs),
      undefined,
      'rate'
    )
  }

  #note(name: string, waitMs: number): void {
    // Only a report: which accounts it names does not matter.
    if (this.#exhausted.size < 1_000 || this.#exhausted.has(name))
      this.#exhausted.set(name, this.#clock.monotonic() + waitMs)
  }

  #ofAddress(limit: string): Bucket {
    return this.#limits.ofAddress[limit] ?? NO_LIMIT
  }

  #addressKey(limit: string): string {
    return `provider ${this.kind} ${this.address} ${limit}`
  }

  /** Keys are long and random, so a digest reveals nothing. */
  #accountKey(key: string | null): string {
    return `account ${this.kind} ${this.address} ${key === null ? '' : hash('sha256', key, 'base64url').slice(0, 22)}`
  }

  async #ask<T>(question: (state: State) => Maybe<T>): Promise<T> {
    try {
      return await question(this.#state)
    } catch (error) {
      if (!(error instanceof StateUnavailable)) throw error
      return await question(this.#alone)
    }
  }
}

function seconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000))
}
