import type { Database } from '../../platform/database/database.ts'
import type { JsonValue } from '../../platform/jobs/jobs.ts'
import type { ProviderSlot } from '../../lightning/providers/account.ts'
import type { KindName } from '../../lightning/provider-calls/provider.ts'
import { FIRST_STATE, type PollState } from './poll-plan.ts'

export interface Remembered {
  readonly state: PollState
  readonly version: number
}

/** Stores poller state in the database, since each run may be another process's. */
export interface PollStore {
  /** The first state when nothing is stored. */
  load(slot: ProviderSlot, kind: KindName): Promise<Remembered>
  /** Compare-and-set; null when another run has written since. */
  save(slot: ProviderSlot, kind: KindName, state: PollState, over: number): Promise<Remembered | null>
}

interface Kept {
  readonly kind: KindName
  readonly state: PollState
}

export class SqlPollStore implements PollStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async load(slot: ProviderSlot, kind: KindName): Promise<Remembered> {
    const [row] = await this.#database.sql<
      Array<{ version: number; state: Kept }>
    >`select version, state from provider_polls where slot = ${slot} and kind = ${kind}`
    if (row === undefined) return { state: FIRST_STATE, version: 0 }
    // Only save writes it.
    return { state: row.state.state, version: row.version }
  }

  async save(slot: ProviderSlot, kind: KindName, state: PollState, over: number): Promise<Remembered | null> {
    const { sql } = this.#database
    const kept: Kept = { kind, state }
    // Plain data; interfaces lack the index signature.
    const json = sql.json(kept as unknown as Extract<JsonValue, object>)
    const version = over + 1
    const written =
      over === 0
        ? await sql`insert into provider_polls (slot, kind, version, state) values (${slot}, ${kind}, ${version}, ${json}) on conflict do nothing`
        : await sql`update provider_polls set version = ${version}, state = ${json} where slot = ${slot} and kind = ${kind} and version = ${over}`
    return written.count === 1 ? { state, version } : null
  }
}
