import type { Database } from '../../platform/database/database.ts'
import type { JsonValue } from '../../platform/jobs/jobs.ts'
import type { ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import type { KindName } from '../../lightning/provider-calls/provider.ts'
import { FIRST_STATE, type PollState, recovered, resting, woken } from './poll-plan.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { accountName, type Owner } from './registration.ts'

interface PollMemoryDependencies {
  readonly slot: ProviderSlot
  readonly kind: KindName
  readonly database: Database
  readonly clock: Clock
}

interface Kept {
  readonly kind: KindName
  readonly state: PollState
}

const SAVES = 8

/** State of a poller in the database, since each run may be another process's. */
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

  /** The first state when nothing is stored. */
  async load(): Promise<{ readonly state: PollState; readonly version: number }> {
    const { slot, kind, database } = this.#dependencies
    const [row] = await database.sql<
      Array<{ version: number; state: Kept }>
    >`select version, state from provider_polls where slot = ${slot} and kind = ${kind}`
    // Only save writes it.
    return row === undefined ? { state: FIRST_STATE, version: 0 } : { state: row.state.state, version: row.version }
  }

  /** False when another run has saved since version `over` was loaded. */
  async save(state: PollState, over: number): Promise<boolean> {
    const { slot, kind, database } = this.#dependencies
    const { sql } = database
    const kept: Kept = { kind, state }
    // Plain data; interfaces lack the index signature.
    const json = sql.json(kept as unknown as Extract<JsonValue, object>)
    const version = over + 1
    const written =
      over === 0
        ? await sql`insert into provider_polls (slot, kind, version, state) values (${slot}, ${kind}, ${version}, ${json}) on conflict do nothing`
        : await sql`update provider_polls set version = ${version}, state = ${json} where slot = ${slot} and kind = ${kind} and version = ${over}`
    return written.count === 1
  }

  async change(change: (before: PollState) => PollState): Promise<void> {
    for (let attempt = 0; attempt < SAVES; attempt++) {
      const { state, version } = await this.load()
      const after = change(state)
      if (after === state || (await this.save(after, version))) return
    }
  }
}
