import type { ChallengeCharges } from '../challenges/charges.ts'
import { Unavailable } from '../gateway/errors.ts'
import type { PaymentCharges } from '../payments/charges.ts'
import type { Clock } from '../platform/clock.ts'
import { isConnectionFault } from '../platform/database.ts'
import type { Log } from '../platform/log.ts'
import { UnsealError, type Secret } from '../platform/secrets.ts'
import type { ProviderAccount, ProviderSlot } from '../providers/account.ts'
import { ProviderRefused, ProviderUnavailable } from '../providers/errors.ts'
import type { Payees } from '../providers/payees.ts'
import type { ChargeState, Provider } from '../providers/provider.ts'
import type { Charges } from './charges.ts'
import { afterPoll, nextPolls, type Candidate, type Outcome, type Poll } from './poll-plan.ts'
import type { PollRules } from './poll-rules.ts'
import type { PollStore } from './poll-store.ts'
import { accountName, ownerOfName } from './subscriptions.ts'

/** What the poller of one slot works with. */
export interface PollerParts {
  readonly slot: ProviderSlot
  readonly rules: PollRules
  readonly store: PollStore
  readonly clock: Clock
  readonly log: Log
  readonly payees: Pick<Payees, 'provider' | 'key'>
  readonly charges: Pick<Charges, 'find' | 'observe'>
  readonly ofPayments: Pick<PaymentCharges, 'open' | 'openOf'>
  readonly ofChallenges: Pick<ChallengeCharges, 'open'>
  /** Null when the account is gone. */
  merchant (id: number): Promise<ProviderAccount | null>
}

/** Polls of one run at once. */
const AT_ONCE = 4
/** Milliseconds for which an account rests whose key is refused, and one that could not be asked for other reasons. */
const REFUSED_REST = 1_800_000
const FAILED_REST = 60_000
/** From this many entries on a list may have been cut: the smallest page of the kinds. */
const FULL_LIST = 100

/**
 * The back-up for notifications that were lost, and the only news where the kind sends none: asks the providers of the
 * accounts with open payments what was settled, within the limits of `PollRules`. What it remembers lies in the database, so
 * that the processes of one deployment keep to one budget together; deployments that share an address do not know of each other.
 */
export class Poller {
  readonly #parts: PollerParts

  constructor (parts: PollerParts) {
    this.#parts = parts
  }

  /** One run: for a periodic job. Rejects when the database is away; what fails at a provider is logged and tried again later. */
  async run (signal: AbortSignal): Promise<void> {
    const { slot, rules, store, clock, payees } = this.#parts
    const provider = payees.provider(slot)
    const candidates = await this.#candidates(provider)
    const before = await store.load(slot, provider.kind)
    const now = clock.now()
    const { polls, state } = nextPolls(before.state, candidates, rules, now)
    if (JSON.stringify(state) === JSON.stringify(before.state)) return
    const planned = await store.save(slot, provider.kind, state, before.version)
    // Another run has overtaken this one: what it planned it also asks.
    if (planned === null || polls.length === 0) return
    let after = state
    let isLimited = false
    const queue = [...polls]
    const work = async (): Promise<void> => {
      for (let poll = queue.shift(); poll !== undefined; poll = queue.shift()) {
        if (signal.aborted || (isLimited && rules.isShared)) return
        const outcome = await this.#ask(provider, poll, signal)
        isLimited ||= outcome.type === 'limited'
        after = afterPoll(after, poll, outcome, now, rules)
      }
    }
    const ends = await Promise.allSettled(Array.from({ length: Math.min(AT_ONCE, polls.length) }, work))
    await store.save(slot, provider.kind, after, planned.version)
    for (const end of ends) if (end.status === 'rejected') throw end.reason
  }

  /** Accounts with something open. */
  async #candidates (provider: Provider): Promise<Candidate[]> {
    const { slot, clock, ofPayments, ofChallenges, rules } = this.#parts
    const now = clock.now()
    const found = new Map<string, Candidate>()
    for (const { merchantId, count, fresh, since } of await ofPayments.open(slot, provider.kind, now)) {
      found.set(accountName(merchantId), { id: accountName(merchantId), isFresh: fresh > 0, payments: rules.sweeps === 'all' ? count : fresh, since })
    }
    // Nothing but a list can say it of challenges: of most of them nobody ever hears again.
    for (const { merchantId, since } of rules.hasList ? await ofChallenges.open(slot, provider.kind, now) : []) {
      const id = accountName(merchantId)
      const same = found.get(id)
      found.set(id, same === undefined ? { id, isFresh: false, payments: 0, since } : { ...same, since: Math.min(same.since, since) })
    }
    return [...found.values()]
  }

  async #ask (provider: Provider, poll: Poll, signal: AbortSignal): Promise<Outcome> {
    const { slot, clock, log, payees } = this.#parts
    const owner = ownerOfName(poll.account)
    if (owner === undefined) throw new TypeError(`${poll.account} names no account`)
    try {
      const account = owner === null ? null : await this.#parts.merchant(owner)
      const key = owner !== null && account === null ? null : payees.key(account, slot)
      if (key === null) return { type: 'failed', restsUntil: clock.now() + REFUSED_REST }
      return poll.type === 'list' ? await this.#list(provider, key, owner, poll.since) : await this.#lookUp(provider, key, poll, signal)
    } catch (error) {
      log.warn({ err: error, slot, provider: provider.kind, merchantId: owner }, 'a provider could not be asked what was paid; it is asked again later')
      return failure(error, clock.now())
    }
  }

  async #list (provider: Provider, key: Secret<string>, owner: number | null, since: number): Promise<Outcome> {
    const { slot, charges, log } = this.#parts
    if (provider.listSettled === undefined) throw new TypeError(`${provider.kind} has no list of what was settled`)
    const settled = await provider.listSettled(key, since)
    const states = new Map(settled.map(({ chargeId, state }) => [chargeId, state]))
    let found = 0
    for (const charged of await charges.find(slot, provider.kind, [...states.keys()])) {
      // Merchants may share an account; each is asked about with its own key.
      if (charged.owner !== owner || charged.isSettled) continue
      // Beyond the budget, but once or twice for each payment.
      const seen = states.get(charged.chargeId) ?? await lookedUp(provider, key, charged.chargeId)
      if (seen === null) continue
      await charges.observe(charged, seen)
      found++
    }
    if (found > 0) log.info({ slot, provider: provider.kind, merchantId: owner, found }, 'polling found what no notification had told')
    return { type: 'listed', isCut: settled.length >= FULL_LIST }
  }

  async #lookUp (provider: Provider, key: Secret<string>, { account, after, count }: Poll & { type: 'look up' }, signal: AbortSignal): Promise<Outcome> {
    const { slot, rules, clock, charges, ofPayments } = this.#parts
    const payments = await ofPayments.openOf(slot, provider.kind, Number(account), rules.sweeps, clock.now(), after, count)
    let cursor = after
    for (const { chargeId, invoiceId, merchantId } of payments) {
      if (signal.aborted) return { type: 'looked up', cursor }
      const seen = await lookedUp(provider, key, chargeId)
      if (seen !== null) await charges.observe({ type: 'payment', chargeId, invoiceId, owner: merchantId, isSettled: false }, seen)
      cursor = chargeId
    }
    return { type: 'looked up', cursor: payments.length < count ? null : cursor }
  }
}

/** Null also for a charge of which the provider will not hear: the others are behind it. */
async function lookedUp (provider: Provider, key: Secret<string>, chargeId: string): Promise<ChargeState | null> {
  try {
    return await provider.lookUp(key, chargeId)
  } catch (error) {
    if (error instanceof ProviderRefused && error.reason === 'request') return null
    throw error
  }
}

function failure (error: unknown, now: number): Outcome {
  if (error instanceof ProviderUnavailable && (error.fault === 'rate' || error.fault === 'open')) return { type: 'limited', restsUntil: now + error.retryAfter * 1000 }
  if (error instanceof ProviderRefused || error instanceof UnsealError) return { type: 'failed', restsUntil: now + REFUSED_REST }
  if (error instanceof Unavailable || isConnectionFault(error)) return { type: 'failed', restsUntil: now + FAILED_REST }
  throw error
}
