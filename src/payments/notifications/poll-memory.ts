import type { Clock } from '../../platform/system/clock.ts'
import type { ProviderSlot } from '../../lightning/providers/account.ts'
import type { KindName } from '../../lightning/providers/provider.ts'
import { recovered, resting, woken, type PollState } from './poll-plan.ts'
import type { PollStore, Remembered } from './poll-store.ts'
import { accountName, type Owner } from './subscriptions.ts'

/** Whose polls are remembered, and where. */
export interface PollMemoryParts {
  readonly slot: ProviderSlot
  /** The provider in the slot, as invoices are kept under it. */
  readonly kind: KindName
  readonly store: PollStore
  readonly clock: Clock
}

/** Attempts to write what came of a run, while other processes write theirs. */
const SAVES = 8

/** What the pollers of all processes remember of one slot, in the database. */
export class PollMemory {
  readonly #parts: PollMemoryParts

  constructor(parts: PollMemoryParts) {
    this.#parts = parts
  }

  /** An account's key was saved or has proved good: it is asked again at once (decision 179). Null: the operator. */
  async wake(owner: Owner): Promise<void> {
    await this.change(before => woken(before, accountName(owner), this.#parts.clock.now()))
  }

  /** A provider answers again: these accounts, which rest because it did not, are asked again at once. */
  async recovered(accounts: ReadonlySet<string>): Promise<void> {
    await this.change(before => recovered(before, accounts, this.#parts.clock.now()))
  }

  /** How many accounts rest now, by what made them. */
  async resting(): Promise<ReturnType<typeof resting>> {
    return resting((await this.load()).state, this.#parts.clock.now())
  }

  load(): Promise<Remembered> {
    const { slot, kind, store } = this.#parts
    return store.load(slot, kind)
  }

  /** Writes in the place of what was loaded; null, and nothing is written, when another run has written since. */
  save(state: PollState, over: number): Promise<Remembered | null> {
    const { slot, kind, store } = this.#parts
    return store.save(slot, kind, state, over)
  }

  /**
   * Changes what is remembered, beside other processes that do the same. What cannot be written is asked for once more.
   */
  async change(change: (before: PollState) => PollState): Promise<void> {
    for (let attempt = 0; attempt < SAVES; attempt++) {
      const { state, version } = await this.load()
      const after = change(state)
      if (after === state || (await this.save(after, version)) !== null) return
    }
  }
}
