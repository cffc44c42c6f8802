import type { Clock, Timer } from '../system/clock.ts'
import type { Log } from '../telemetry/log.ts'
import type { Database } from './database.ts'
import { isConnectionFault } from './errors.ts'

/** Milliseconds between two checks, each of which takes PostgreSQL 0.8 ms where nothing has grown. */
const EACH = 3_000

/** Analyzes tables that grew: autovacuum runs once a minute, in which a busy gateway writes ten thousands of rows. */
export class GrowthWatch {
  readonly #database: Pick<Database, 'sql'>
  readonly #clock: Clock
  readonly #log: Log
  #timer: Timer | null = null
  #looking: Promise<void> = Promise.resolve()
  #isClosed = false

  constructor(database: Pick<Database, 'sql'>, clock: Clock, log: Log) {
    this.#database = database
    this.#clock = clock
    this.#log = log
    this.#wait()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#timer?.cancel()
    await this.#looking
  }

  get looking(): Promise<void> {
    return this.#looking
  }

  #wait(): void {
    if (this.#isClosed) return
    this.#timer = this.#clock.after(EACH, () => {
      this.#looking = this.#look()
    })
  }

  async #look(): Promise<void> {
    try {
      await this.#database.sql.unsafe(ANALYZE_GROWN)
    } catch (error) {
      // Health reports an unavailable database; any other error would repeat.
      if (!isConnectionFault(error)) {
        this.#log.warn({ err: error }, 'Growing tables could not be analyzed; autovacuum does it once a minute')
        return
      }
    }
    this.#wait()
  }
}

/** Number of the advisory lock for this check; unique among ours. */
const LOCK = 7_301_325_067

/**
 * Analyzes our tables that doubled in size since the last ANALYZE (`relpages`), except those of a few pages. Cached
 * plans were made for the tables as they were then: a gateway's first plans scan whole tables. One session at a time,
 * skipping locked tables.
 */
export const ANALYZE_GROWN = `
  do $$ declare grown regclass; begin
    if not pg_try_advisory_xact_lock(${LOCK}) then return; end if;
    for grown in
      select pg_class.oid from pg_class join pg_namespace on pg_namespace.oid = relnamespace
      where relkind = 'r' and nspname = current_schema() and pg_has_role(relowner, 'USAGE')
        and pg_relation_size(pg_class.oid) > 2 * greatest(relpages, 8) * current_setting('block_size')::bigint
    loop execute format('analyze (skip_locked) %s', grown); end loop;
  end $$`
