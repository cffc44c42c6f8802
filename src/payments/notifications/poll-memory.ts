import type { Clock } from '../../platform/system/clock.ts'
import type { ProviderSlot } from '../../lightning/providers/account.ts'
import type { KindName } from '../../lightning/provider-calls/provider.ts'
import { recovered, resting, woken, type PollState } from './poll-plan.ts'
import type { PollStore, Remembered } from './poll-store.ts'
import { accountName, type Owner } from './subscriptions.ts'

interface PollMemoryDependencies {
  readonly slot: ProviderSlot
  readonly kind: KindName
  readonly store: PollStore
  readonly clock: Clock
}

/** Attempts of an optimistic write. */
const SAVES = 8

export class PollMemory {
  readonly #dependencies: PollMemoryDependencies

  constructor(dependencies: PollMemoryDependencies) {
    this.#dependencies = dependencies
  }

  /** Ends the account's backoff after its key was saved or has proved valid (decision 179). Null: the operator. */
  async wake(owner: Owner): Promise<void> {
    await this.change(before => woken(before, accountName(owner), this.#dependencies.clock.now()))
  }

  /** Ends the backoff of these accounts: their provider answers again. */
  async recovered(accounts: ReadonlySet<string>): Promise<void> {
    await this.change(before => recovered(before, accounts, this.#dependencies.clock.now()))
  }

  async resting(): Promise<ReturnType<typeof resting>> {
    return resting((await this.load()).state, this.#dependencies.clock.now())
  }

  load(): Promise<Remembered> {
    const { slot, kind, store } = this.#dependencies
    return store.load(slot, kind)
  }

  /** Compare-and-set; null when another run has written since. */
  save(state: PollState, over: number): Promise<Remembered | null> {
    const { slot, kind, store } = this.#dependencies
    return store.save(slot, kind, state, over)
  }

  async change(change: (before: PollState) => PollState): Promise<void> {
    for (let attempt = 0; attempt < SAVES; attempt++) {
      const { state, version } = await this.load()
      const after = change(state)
      if (after === state || (await this.save(after, version)) !== null) return
    }
  }
}
