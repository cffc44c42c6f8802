import type { Clock, Timer } from '../system/clock.ts'
import type { Log } from '../telemetry/log.ts'
import type { Database } from './database.ts'
import { isConnectionFault } from './errors.ts'
import { LOOK_AT_GROWN } from './look-at-grown.ts'

/** Milliseconds between two looks, each of which takes PostgreSQL 0.8 ms where nothing has grown. */
const EACH = 3_000

/**
 * Looks at tables that grew, for as long as a gateway runs: PostgreSQL's own autovacuum comes once a minute, in which a
 * busy gateway writes ten thousands of rows. The embedded database sees to it by itself.
 */
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

  /** Resolves when nothing is asked any more. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#timer?.cancel()
    await this.#looking
  }

  /** The look that is under way, or the last. */
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
      await this.#database.sql.unsafe(LOOK_AT_GROWN)
    } catch (error) {
      // While the database is away the gateway's health says so; anything else would fail the next time too.
      if (!isConnectionFault(error)) {
        this.#log.warn(
          { err: error },
          'The planner could not be told of tables that grew; autovacuum does it once a minute'
        )
        return
      }
    }
    this.#wait()
  }
}
