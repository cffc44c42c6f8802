import { hash } from 'node:crypto'
import type { Clock } from '../../platform/system/clock.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import { MemoryState } from '../../platform/state/memory.ts'
import { StateUnavailable, type Bucket, type Maybe, type State } from '../../platform/state/state.ts'
import { NothingSent } from './errors.ts'
import type { KindName } from '../providers/provider.ts'

/**
 * For whom a provider is called: for an account that showed its key, or a job of ours; for nobody yet, `ahead` of those
 * who will ask; or for a stranger, who must leave something of the budget to others.
 */
export type CallStanding = 'keyed' | 'ahead' | Stranger

/** A client without a key, as far as it is known. */
export interface Stranger {
  /** It has paid lately. */
  readonly hasPaid: boolean
  /** Unpaid invoices that it asked for lately; parts where long ago. */
  readonly unpaid: number
  /** Invoices that strangers asked for in the same place (route, proxy, store) within about the last minute. */
  readonly inPlace: number
}

/** What a kind may be called at one address. */
export interface CallLimits {
  /** Limits that count all calls from our address, by the name that the calls give them. */
  readonly ofAddress: Readonly<Record<string, Bucket>>
  /** For each key. */
  readonly ofAccount: Bucket
}

/** How one budget stands for strangers. */
export interface BudgetReport {
  readonly provider: KindName
  /** `account`: of some key. */
  readonly limit: string
  readonly exhausted: boolean
  /** Whole seconds until a stranger's invoice can be made again; null where it can be made now. */
  readonly retryAfter: number | null
}

/** The part of a budget that only calls with a key may use. */
const RESERVE = 0.2
/** The part that is left to those and to buyers who have paid lately. */
const RESERVE_OF_PAYING = 0.3
/** Unpaid invoices at which a client has come halfway to where it must leave the most. */
const HALFWAY = 1
/** The part that is left to everybody who waits: as much as a stranger with very many unpaid invoices leaves. */
const KEPT_FOR_WAITING = 0.75
/** How much more a client's own unpaid invoices count than the share of its place. */
const WEIGHT_OF_CLIENT = 2

/** For what a provider does not limit, or what is not known to be limited. */
export const NO_LIMIT: Bucket = Object.freeze({ burst: 1e9, perMinute: 1e9 })

/**
 * How many tokens a call must leave behind. Strangers leave a reserve, and the more of what lies above it the more
 * unpaid invoices they asked for and the larger their place's share of the budget is. So where there is too little for
 * all, the client with the fewest goes first and the place with the least: a flood takes what nobody else wants, and
 * places that are flooded share alike. What is made for nobody yet comes behind nearly all of them.
 */
export function tokensToKeep(standing: CallStanding, bucket: Bucket): number {
  if (standing === 'keyed') return 0
  if (standing === 'ahead') return Math.min(bucket.burst - 1, bucket.burst * KEPT_FOR_WAITING)
  const reserve = standing.hasPaid ? RESERVE : RESERVE_OF_PAYING
  const ofClient = standing.unpaid / (standing.unpaid + HALFWAY)
  const ofPlace = Math.min(1, standing.inPlace / bucket.perMinute)
  return Math.min(
    bucket.burst - 1,
    bucket.burst * (reserve + ((1 - reserve) * (WEIGHT_OF_CLIENT * ofClient + ofPlace)) / (WEIGHT_OF_CLIENT + 1))
  )
}

/** What the budgets are kept with. */
export interface BudgetsParts {
  readonly state: State
  readonly clock: Clock
  readonly metrics: Metrics
}

/**
 * The budgets of calls to providers, shared by all processes that share a state. While the state is away each process
 * counts alone, and what a provider itself refuses is heeded all the same.
 */
export class Budgets {
  readonly #parts: BudgetsParts
  readonly #budgets: CallBudget[] = []

  constructor(parts: BudgetsParts) {
    this.#parts = parts
  }

  /** The budget of a kind at an address; two slots that call the same share it. */
  of(kind: KindName, address: string, limits: CallLimits): CallBudget {
    const known = this.#budgets.find(budget => budget.kind === kind && budget.address === address)
    if (known !== undefined) return known
    const budget = new CallBudget(kind, address, limits, this.#parts)
    this.#budgets.push(budget)
    return budget
  }

  /** How every budget stands, for probes. */
  async report(): Promise<BudgetReport[]> {
    return (await Promise.all(this.#budgets.map(budget => budget.report()))).flat()
  }
}

/** A budget that only heeds what the provider itself refuses, for a kind that stands alone. */
export function noBudget(kind: KindName, clock: Clock, metrics: Metrics | null = null): CallBudget {
  return new CallBudget(
    kind,
    '',
    { ofAddress: {}, ofAccount: NO_LIMIT },
    { state: new MemoryState(clock), clock, metrics }
  )
}

/** The calls of one kind at one address. */
export class CallBudget {
  readonly kind: KindName
  readonly address: string
  readonly #limits: CallLimits
  readonly #state: State
  /** In the place of the state while that is away. */
  readonly #alone: MemoryState
  readonly #clock: Clock
  readonly #refused: (limit: string, caller: 'keyed' | 'ahead' | 'paying' | 'anonymous') => void
  readonly #level: (limit: string, level: number) => void
  /** When accounts that refused a stranger could be asked again, in the clock's monotonic milliseconds. */
  readonly #exhausted = new Map<string, number>()

  constructor(
    kind: KindName,
    address: string,
    limits: CallLimits,
    { state, clock, metrics }: Omit<BudgetsParts, 'metrics'> & { readonly metrics: Metrics | null }
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
   * Takes calls, one unless said, out of the budgets that they count under. `limit` names one of our address; the key's
   * own counts always.
   * @throws NothingSent with the true wait where there is too little left for this caller
   */
  async spend(limit: string | undefined, key: string | null, standing: CallStanding, calls = 1): Promise<void> {
    if (calls === 0) return
    if (limit !== undefined) await this.#take(limit, this.#addressKey(limit), this.#ofAddress(limit), standing, calls)
    await this.#take('account', this.#accountKey(key), this.#limits.ofAccount, standing, calls)
  }

  /**
   * The provider itself said that it was too much, and for how many seconds: of our address where the limit has a name,
   * else of this key.
   */
  async refused(limit: string | undefined, key: string | null, seconds: number): Promise<void> {
    const [name, bucket] =
      limit === undefined
        ? [this.#accountKey(key), this.#limits.ofAccount]
        : [this.#addressKey(limit), this.#ofAddress(limit)]
    await this.#ask(state => state.restBucket(name, bucket, seconds * 1000))
    if (limit === undefined) this.#note(name, seconds * 1000)
    else this.#level(limit, 0)
  }

  /** How the budgets stand for a stranger whom nobody knows. */
  async report(): Promise<BudgetReport[]> {
    const newcomer: Stranger = { hasPaid: false, unpaid: 0, inPlace: 0 }
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

  async #take(limit: string, name: string, bucket: Bucket, standing: CallStanding, calls: number): Promise<void> {
    // A bucket that holds less than it takes would let nobody through.
    const cost = Math.min(calls, bucket.burst)
    const keep = Math.min(tokensToKeep(standing, bucket), bucket.burst - cost)
    const taken = await this.#ask(state => state.takeTokens(name, bucket, cost, keep))
    if (limit !== 'account') this.#level(limit, Math.max(0, taken.left) / bucket.burst)
    if (taken.allowed) return
    this.#refused(limit, typeof standing === 'string' ? standing : standing.hasPaid ? 'paying' : 'anonymous')
    if (limit === 'account') this.#note(name, taken.retryAfterMs)
    throw new NothingSent(
      'The payment provider may not be called more often at the moment.',
      seconds(taken.retryAfterMs),
      undefined,
      'rate'
    )
  }

  #note(name: string, waitMs: number): void {
    // Only a report: which of very many accounts are named does not matter.
    if (this.#exhausted.size < 1_000 || this.#exhausted.has(name))
      this.#exhausted.set(name, this.#clock.monotonic() + waitMs)
  }

  #ofAddress(limit: string): Bucket {
    return this.#limits.ofAddress[limit] ?? NO_LIMIT
  }

  #addressKey(limit: string): string {
    return `provider ${this.kind} ${this.address} ${limit}`
  }

  /** Keys are long and random, so that nothing can be learnt from a digest of one. */
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
